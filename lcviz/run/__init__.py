"""One live training run: trained, saved and measured in a thread, killed and restored.

Read in this order:
    snapshot          settings, the statuses and their order, checkpoints, what watchers get
    whole_state       the two states of a step, with the optimizer's if the run saves it
    controls          the status, which pages steer
    run               kill and restart
    trainer           the thread
    live_model        the part in memory only: optimizer, checkpointer, track
    saved_step        one save, and its delta taken apart
    saved_steps       all saves of a run
    memory            storage for steps, in memory and on disk
    past              what a process that has ended left of a run
    whole_run         all checkpoints so far, saved once more with another setting
"""
