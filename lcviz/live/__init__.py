"""Live: train a small model and see every checkpoint go through the codec.

Read in this order:
    page                    the whole page: controls, curves, and the parts below
    page_costs              cards: what a checkpoint and a crash cost
    page_step_slider        which checkpoint is shown
    page_checkpoint         one checkpoint: its sizes, buckets, bits, code, removed buckets
    buckets_figure          how many values each exponent bucket has
    bits_figure             what x bits keep and cost
    code_tables             the record's code tables as rows
    huffman_figure          a code as a tree and as a table
    huffman_tree_figure     the drawing of that tree
    removed_bucket_figure   the loss without each bucket
    page_kill, kill_figure  "Kill it now": what a crash takes, and the race back
"""
