"""What a chain looks like: the same figures on pages, in notebooks and in one file.

Read in this order:
    chain_figures           all figures of a chain, as a mapping; one_file: as an HTML file
    verdict                 which steps restore, and what to do
    exponents, buckets      what is counted: exponents by step, buckets of one step
    figure_parts            what the figures share
    records_figure, exponents_figure, tensors_figure, buckets_figure, code_words_figure,
    value_figure, integrity_figure    the figures
"""
