"""Inspect: any chain or archive, record by record, and runs that are watched while they grow.

Read in this order:
    page            the page; page_open chooses a chain, page_step shows one step of it,
                    page_value one value of the step, page_watch compares watched runs,
                    page_parts is what they share;
                    page_remote reads chains behind URLs so that a click ends the wait
    watch_paths     the arguments after --run, and chains in folders
    watch_places    what is watched: the chains at these places
    watch           the watched runs, read again and again
    watch_table     the runs in numbers, and how long ago their last records came
    watch_picture   how they grow, side by side
Records themselves are read by lcviz.lab.records; lcviz.report draws a chain.
"""
