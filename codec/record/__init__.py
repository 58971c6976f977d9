"""One record to bytes, and back. FORMAT.md describes the bytes.

Read in this order:
    container  a file of named arrays with a JSON header
    header     what that header says
    alphabets  the coded alphabets of a delta in one array
    layouts    the layout, and its change within a delta
    residuals  what leads from one value of an exact tensor to the next
    small      small exact tensors, where equal ones are stored once
    values     what is no tensor, as lines of text
    record     base and delta records
    merged     several deltas in one record
    layers     how merged deltas are combined
    encode     encodes a record, and checks it from its own bytes before it is written
    diagnosis  why a delta failed its own check
"""
