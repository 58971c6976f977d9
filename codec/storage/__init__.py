"""Where records lie: directories, archives and object stores.

Read in this order:
    source      the files of a chain, in a directory or an archive
    directory   files that are written durably: temporary file, fsync, rename
    location    a path or URL and what can be done there
    remote      object stores behind fsspec
    read_ahead  the next file is fetched while this one is decoded
    lease       who may write to an object store
"""
