"""The command line, python -m codec.

Read in this order:
    main         the parser: commands and their options
    commands     what each command does
    tensors      what info --tensors lists
    newest       what guard --newest looks for
    distributed  what some do with distributed checkpoints
"""
