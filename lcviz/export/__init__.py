"""The page "Open and export": a run or files of one's own as a verified archive.

Read in this order:
    page                        the page: a run's downloads, or files of one's own
    archive                     a chain packed, and verified on the bytes that are offered
    receipt, bundle             what an archive is and how to check it; all of it in one zip
    page_downloads              the downloads: the chain, everything in one zip, one step
    compress                    a visitor's checkpoints compressed to a chain
    comparison, comparison_figure   the chain and the files it was made of
    page_own_files, page_comparison    both on the page
"""
