"""Learn: ten numbers, or some weights of a run, through all four stages of the codec.

Read in this order:
    page                 the whole page: step after step, each with its question
    page_example         which numbers the page shows
    page_quiz            questions, and what their answers open
    page_tables          how numbers and buckets are shown
    page_buckets         steps 1 to 3: the difference, its buckets, which of them are kept
    page_codes           steps 4 and 5: code words, and a restart
    page_growing_tree    Huffman's tree, merge by merge; growing_tree_figure draws it
    stages_figure        how many bits each stage leaves
"""
