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
    coders      the lossless coders by name
    arithmetic  one adaptive arithmetic code for a small alphabet in uniform steps
    stream      codes to payload bits and back, in streams that threads share
    residual    exact tensors: the change from the last value to the next, bit by bit
    batch       small tensors that share an alphabet, each with levels of its own
    budget      the most buckets, or the smallest steps, within a size limit
    distance    the largest steps that leave at most a share of the change
    transition  the change from one layout to another within a step
    delta       one encoded step
    track       the state a restart would load
    origin      a sample of the base: how far a restart would be behind
    tracker     states to deltas, each the difference to the track
    kernels     the compiled loops behind all of these
    workers, memory, warmup    threads, scratch memory, compiling before the first save
"""
