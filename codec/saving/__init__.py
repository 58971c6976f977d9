"""What a training loop holds.

Read in this order:
    checkpointer  the public class: save, restore, close
    saved         what a save returns
    recorder      encodes, checks and writes one record
    history       when a base is due, and when old records are needless
    background    hands states to a process that saves
    process       that process
    memory        memory that the two share
    call_lock     one call at a time
    termination   SIGTERM: a save under way ends first
    dry_run       encodes and counts, but does not write: what other settings would have saved
"""
