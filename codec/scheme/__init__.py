"""Numbers to codes to bits, and back: the scheme of the paper, stage by stage.

Read in this order:
    quantize    a delta becomes exponent buckets; priority promotion keeps 2**bits - 1 of them
    survivors   the few elements that are not zero, found in one pass
    huffman     canonical prefix codes with limited lengths
    runlength   runs of zeros and the symbol after them as one token
    tables      which code table is cheapest, and whether the last one will do
    stream      codes to payload bits and back, in streams that threads share
    budget      as many buckets as a size limit allows
    track       the state a restart would have; each delta is taken to it
    kernels     the compiled loops behind all of these
    workers, memory, warmup    threads, scratch memory, compiling ahead of the first save
"""
