"""Numbers to codes to bits, and back: the scheme of the paper, stage by stage.

Read in this order:
    coding      the settings: bits, budget, tolerance or distance, scope, coder
    quantize    a delta becomes exponent buckets; priority promotion keeps 2**bits - 1 of them
    survivors   the few elements that are not zero, found in one pass
    uniform     a delta becomes steps of one size
    remainder   what a step leaves for the next one
    huffman     canonical prefix codes with limited lengths
    runlength   a run of zeros and the symbol after it as one token
    tables      which code table is cheapest, and whether to reuse the last one
    payload     the interface of all payloads, and the payload of an alphabet that needs no bits
    prefix      code words, in streams that threads write and read side by side
    context     adaptive arithmetic codes: rows and columns change together
    coders      the lossless coders by name, and the kinds of payloads
    stream      quantized values to bytes and back
    residual    exact tensors: the change from the last value to the next, bit by bit
    measures    an optimizer's moments, in steps of the measure in which it uses them
    budget      the most buckets, or the smallest steps, within a size limit
    distance    the largest steps that leave at most a share of the change
    transition  the change from one layout to another within a step
    delta       one encoded step
    digest      the digest of a tensor; `track` updates it where elements change
    track       the state a restart would load
    origin      a sample of the base: how far a restart would be behind
    tracker     states to deltas, each the difference to the track
    plain       the whole scheme in numpy: read this first
    kernels     the compiled twins of its functions, which are taken as soon as they are loaded
    twins, warmup    which of the two a call takes; loading and compiling
    limits      numbers that the format, plain and kernels share
    workers, memory    threads, scratch memory
    pieces      arrays of a record, read piece by piece
"""
