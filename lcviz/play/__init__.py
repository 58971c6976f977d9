"""The board: one page of pictures with its controls, guide and lecture, whoever computes.

    board         puts its elements, style and script together
    page_board    the board on Live, with its example or with a run on this server
    one_file      the board, and Learn, as one HTML file without a server
    given         the data and sizes that the worker needs, recorded
    worker        in JavaScript: the training, the chain, the race, and the facts that pictures need
    page          in JavaScript: the board itself. A worker, a recorded chain or a server computes

The pictures and their sentences are in ui/pictures; so is the scheme, ui/pictures/scheme.
"""
