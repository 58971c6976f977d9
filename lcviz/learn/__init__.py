"""Learn: six pictures of the scheme, of ten numbers or of some weights of a run.

Read in this order:
    page            the whole page
    page_numbers    which numbers it shows: the example's, a reader's, or weights of a run
    page_start      what a reader has done, in the URL
    numbers         the example's numbers, and how a reader's are read
    pictures        the six pictures and their values; ui/pictures/learn draws them
    values, runs    a lesson, five checkpoints and runs of zeros as plain values
    questions       the question under each picture
    one_file        the same page as one HTML file
"""
