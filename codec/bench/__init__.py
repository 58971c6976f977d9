"""Measures the codec on this machine: python -m codec bench. Peers are in benchmarks/.

Read in this order:
    samples   the data
    tasks     what is timed: encode, decode, and copying the same memory
    cases     how it is timed, one case for each size and kind of data
    scaling   growth with the size, peak memory, a cold start
    markdown  the answer as tables
    command   the command
"""
