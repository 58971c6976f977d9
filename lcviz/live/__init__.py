"""Live: train a small model and see every checkpoint go through the codec.

Read in this order:
    page                the whole page: controls, pictures
    page_start          the board with its example, until a run begins
    page_step           the checkpoint to show
    step_record         its record, as saved or as a visitor tries it
    page_attempt        what a visitor tries
    page_pictures       its pictures, and their reactions to a visitor
    followed            the weight that all pictures follow
    headline, weights_picture, weight_picture, buckets_picture, steps_picture, bits_picture,
    loss_picture, examples_picture    the facts of one picture each; ui/pictures words them
    page_kill           "Kill it now": what a crash destroys
    page_play           "Open without a server": the page as one file
    recorded_chain      a chain on disk as these facts, for such a file
"""
