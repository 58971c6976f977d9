"""Recover: what a crash costs with each way to save, measured on this server.

Reading order:

    page                the page: settings, the experiment's controls
    page_rework         the outcome of the finished seeds (computed in lab/recovery)
    rework_figure       the price of a crash by seed, and the state right after restoring
    page_last_state     the outcome of own files (computed in lab/recovery), in last_state_figure
    recorded            the experiment that is there when the page opens
    record              the command that writes it
    page_timelines      where the time of saving goes
    timelines           the same training saved in three ways, every moment measured
    timelines_figure    what loop and saver do, and what is not saved
"""
