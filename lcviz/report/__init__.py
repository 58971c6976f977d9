"""What a chain looks like: the same figures on pages, in notebooks and in one file.

Read in this order:
    exponents               how many values of each step got a level of which exponent
    figure_parts            what the figures share
    records_figure, exponents_figure, tensors_figure    the figures
"""
