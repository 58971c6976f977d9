"""One record to bytes, and back. FORMAT.md describes the bytes.

Read in this order:
    container  a file of named arrays with a JSON header
    header     what that header says
    chunks     digests of a large record's blocks, to read and check some of them alone
    alphabets  the coded alphabets of a delta in one array
    layouts    the layout, and its change within a delta
    residuals  the changes of exact tensors, as coded bytes
    small      small exact tensors, of which equal ones are stored once
    values     values that are not tensors, as lines of text
    exact      what a step stores besides codes: exact tensors, residuals, values
    track      arrays and values together, their digest, and the state that they restore
    record     base and delta records
    reason     why a record is a base
    settings   how a chain is coded and what is lossy, for a writer that resumes it
    encode     encodes a record, and checks it from its bytes before it is written
"""
