"""What a training loop holds.

Read in this order:
    checkpointer  the public class: save, restore, close
    recorder      encodes, verifies and writes one record
    background    the same in a process of its own
    channel       shared memory between the two processes
    turn          one call at a time
"""
