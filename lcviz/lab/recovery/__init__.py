"""The recovery experiment: how much work a crash costs with each way to save, at equal bytes.

Reading order:

    baselines   whole checkpoints, SCAR and TOPN, as trackers
    eight_bit   an optimizer's state in blocks of 8 bits a value
    methods     ways to save a training: the baselines and LC-Checkpoint, at a share of float32
    recovery    the protocol: train, crash, restore, count the rework
    last_state  the same of states that are there: distance, and iterations where a loss is known
    rework      the experiment of the Recover page, and its means over seeds
    kill        the race back of a live run that was killed
"""
