"""The recovery experiment: how much work a crash costs with each method, at equal bytes.

Reading order:

    baselines   whole checkpoints, SCAR and TOPN, as trackers
    methods     methods of saving: the baselines and LC-Checkpoint, at a share of float32
    savers      methods at work
    recovery    the protocol: train, crash, restore, count the rework
    last_state  the same for states that exist: distance, and steps lost if a loss is known
    rework      the experiment of the Recover page, and its means over seeds
    kill        the race back of a killed live run
"""
