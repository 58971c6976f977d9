"""The play page: Live and Learn as one HTML file that computes everything itself, without a server.

    one_file    puts the page together
    given       the data and sizes that the page's own code needs
    worker      the training, the chain and the race in JavaScript, and what the pictures show of them
    page        the page itself: controls, address, guide, lecture

The pictures are those of the dashboard, ui/pictures; so is the scheme, ui/pictures/scheme.
"""
