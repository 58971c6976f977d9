"""Learn: pictures of the scheme, of ten numbers or of some weights of a run.

Read in this order:
    page            the whole page
    page_numbers    the numbers: the example's, a reader's, or weights of a run
    page_start      the reader's state, in the URL
    numbers         the example's numbers, and how a reader's numbers are read
    pictures        the pictures and their values; ui/pictures/learn draws them
    values, runs    a lesson, five checkpoints and runs of zeros as plain values
    neighbours      a real δ, whose rows and columns change together
    questions       the question under each picture
"""
