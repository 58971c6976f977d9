"""One record to bytes, and back. FORMAT.md describes the bytes.

Read in this order:
    container  a file of named arrays with a JSON header
    header     what that header says
    alphabets  the coded alphabets of a delta in one array
    record     base and delta records
    merged     several deltas in one record
    layers     how merged deltas are combined
    encode     encodes a record, and checks it from its own bytes before it is written
    diagnosis  what is known of a delta that failed its own check
"""
