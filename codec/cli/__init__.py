"""The command line, python -m codec.

Read in this order:
    main      the parser: commands and their options
    commands  what each command does
    resume    compress --resume: the files that a chain has already
"""
