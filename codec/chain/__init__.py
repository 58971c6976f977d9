"""Many records, one history.

Read in this order:
    chain    lists and checks the records of a run, restores a step
    replay   follows records one after another and rebuilds the track
    merge    puts one record in the place of several deltas
    upkeep   merge and compact: chains made shorter
    rewind   goes back to an earlier step
"""
