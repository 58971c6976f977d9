"""Recover: what a crash costs with each way to save, measured on this server.

Reading order:

    page                the page: settings, the experiment's controls
    page_rework         the outcome of the finished seeds (computed in lab/recovery)
    prices              the price of a crash by seed, and the state right after restoring
    page_last_state     the outcome of own files (computed in lab/recovery), in last_state_figure
    recorded            the recorded experiment that the page opens with
"""
