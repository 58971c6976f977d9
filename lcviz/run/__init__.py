"""One live training run: trained, saved and measured in a thread, killed and restored.

Read in this order:
    snapshot          settings, the statuses and their order, checkpoints, what watchers get
    run               the thread, its buttons, kill and restart
    live_model        the part in memory only: optimizer, checkpointer, track
    whole_state       weights and moments of checkpoints that hold the optimizer's state
    saved_step        one save, and its delta taken apart
    memory            storage for older steps, in memory and on disk
    whole_run         all checkpoints so far, saved once more with another setting
"""
