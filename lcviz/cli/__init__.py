"""The command `lcviz`.

Reading order:

    main     reads the first word of the command line, and calls its module
    serve    opens the dashboard where there is no such word
    tools    receipts, reports, the board as one file
"""
