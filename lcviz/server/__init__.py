"""Several visitors at once: runs, experiments, disk space, and files that they bring.

Read in this order:
    runs            all runs of this server, and the example
    jobs            the line of experiments
    replays         what visitors try on whole runs
    temp_folders    folders that end with the server; quota: a visitor's share of the disk
    allowed_paths   which paths of this machine a visitor may name
    foreign_files   checks of uploaded files; pt_reader, unpickle: .pt files in a process of its own
    own_files       a visitor's checkpoints, opened and checked
    compilation     the codec's kernels, compiled in a process of its own
    heap            freed memory goes back to the system
"""
