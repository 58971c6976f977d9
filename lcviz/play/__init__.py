"""The play page: Live and Learn as one HTML file that computes everything itself, without a server.

    one_file    puts the page together
    given       the data and sizes that the page's own code needs
    worker      in JavaScript: the training, the chain, the race, and the facts that pictures need
    page        in JavaScript: the page itself, its controls, address, guide and lecture

The pictures and their sentences are the dashboard's, ui/pictures; so is the scheme,
ui/pictures/scheme.
"""
