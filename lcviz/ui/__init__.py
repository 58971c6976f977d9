"""What the pages share.

Read in this order:
    session         this visitor's run, and the parts of the server
    navigation      the pages by name
    picture         our own pictures: facts that small JavaScript modules word and draw
    set_widgets     widgets that the page sets, although a person can move them
    widgets         how a panel and a table are shown; inputs
    charts          a panel, colours, and what all charts have in common
    polling         parts of a page that run again by themselves
    browser         Back, Forward and the menu of a narrow window
    steering        who may steer a run; share: its links
    race            the race back after a failure, a picture that several pages show
    own_files       a visitor's checkpoints: uploads, or a path on this machine
    coding_form     how deltas are coded: the widgets of several pages
    settings        the settings of a run; live_settings, snippet: the same elsewhere
    experiment      an experiment that a page asks for, follows and stops
    glossary        the words of the scheme, and links to them
"""
