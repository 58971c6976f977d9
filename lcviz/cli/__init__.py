"""The command `lcviz`.

Reading order:

    main     the first word of the line, and what answers it
    serve    without one: the dashboard, opened in a browser
    lab      experiments, receipts, reports and the Learn page
"""
