"""Where records lie: directories, archives and object stores.

Read in this order:
    entry       the file name of a record
    source      the files of a chain, in a directory or an archive
    directory   durable files, and a directory that one process writes to
    folder      files in folders that many processes write
    location    a path or URL, opened for reading or writing
    remote      records behind a URL, through fsspec
    read_ahead  fetches the next records while one is decoded
    guard       digests beside files that others wrote
    lease       one writer at a time in an object store
"""
