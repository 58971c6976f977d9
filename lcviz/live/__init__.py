"""Live: train a small model and see every checkpoint go through the codec.

Read in this order:
    page                    the whole page: controls, pictures, details
    page_step_slider        which checkpoint is shown
    shown_step              that checkpoint, as saved or as a visitor tries it
    page_pictures           its pictures, and what happens when one touches them
    headline, weights_picture, buckets_picture, bits_picture, loss_picture, examples_picture
    record                  the example as a file, for the first seconds of a server
    page_details            everything else about the run and the checkpoint
    page_costs              cards: what a checkpoint and a crash cost
    bits_figure             what x bits keep and cost
    code_tables             the record's code tables as rows
    huffman_figure          a code as a tree and as a table
    huffman_tree_figure     the drawing of that tree
    removed_bucket_figure   the loss without each bucket
    page_kill, kill_figure  "Kill it now": what a crash takes, and the race back
"""
