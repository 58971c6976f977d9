"""The loops for which it pays, compiled: the twins of functions in `plain`.

    machine      how kernels are compiled, kept and loaded
    instructions what numba lacks, and small helpers that several kernels share
    collect      u - track to survivors: buckets, promotion, uniform steps
    measures     moments in steps of a measure
    codes        tokens, code tables, and the bits of code words
    decode       code words back to codes
    track        the track and its digest
    dense        steps of exact tensors with a code word for every element
    residuals    steps of exact tensors with runs between them
    contexts     context codes

A kernel releases the GIL, allocates almost nothing, and never raises. It takes arrays and
addresses; the modules of `codec.scheme` that call kernels spread the work over threads.
"""
