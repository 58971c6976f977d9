"""The speed of the codec: what `benchmarks/speed.py` measures, a module for each part.

Read in this order:
    samples  the deltas to measure with
    tasks    what is timed: encoding, decoding, and copying the same memory
    peers    the same for other packages
    cases    how tasks are timed: one case for each size and kind of data
    scaling  growth with the size, peak memory, a cold start
    goals    what was aimed at, and whether it is met
    tables   the measurements as Markdown
"""
