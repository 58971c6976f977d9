"""The command line, python -m codec.

Read in this order:
    main         the parser: commands and their options
    commands     what each command does
    tensors      what info --tensors lists
    distributed  what some do with distributed checkpoints
"""
