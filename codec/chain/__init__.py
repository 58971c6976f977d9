"""Many records, one history.

Read in this order:
    chain    lists and reads the records of a run, restores a step
    replay   applies records one after another and rebuilds the track
    verify   checks all records
    follow   keeps up with a chain while it is written
    upkeep   compact, pack and unpack: chains made shorter, or copied
    rewind   goes back to an earlier step
"""
