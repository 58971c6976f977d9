"""What several visitors share: runs, experiments, disk space, and the files that they bring.

Read in this order:
    runs            all runs of this server, and the example
    jobs            the line of experiments
    replays         whole runs saved once more, as visitors try other settings
    temp_folders    folders that end with the server; quota: a visitor's share of the disk
    allowed_paths   which paths of this machine a visitor may name
    foreign_files   checks of uploaded files; pt_reader, unpickle: .pt files in a process of its own
    own_files       a visitor's checkpoints, opened and checked
    heap            gives freed memory back to the system
"""
