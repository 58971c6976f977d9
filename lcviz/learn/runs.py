"""Two hundred values, nearly all 0, written in runs of zeros as the codec does."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import codec
from codec.inspect import huffman
from lcviz.lab.codewords import first_words

N = 200
ZEROS = (37, 13, 64, 59, 4, 6)  # how many zeros come before each value that is not 0
SIZE = 0.3  # magnitude of the values that are not 0


@cache
def runs_values() -> dict[str, Any]:
    """The values as codes, and both ways to write them.

    n: how many values. values: the code of each. signs: the sign of each code. lengths: bits of
    each code in the paper's Huffman code. plain, bits: bits of all values in that code and in runs,
    without tables. words: one for each run of zeros with the value after it; at: the index of that
    value.
    """
    values = np.zeros(N, np.float32)
    values[np.cumsum(np.array(ZEROS) + 1) - 1] = [-SIZE, SIZE] * (len(ZEROS) // 2)
    quantized = codec.quantize(values, 2)
    assert quantized.buckets is not None, "quantize returns buckets"
    runs = codec.encode(quantized, coder="runlength")
    words = first_words(runs, N)
    counts = quantized.buckets.counts(N)
    return {
        "n": N,
        "values": quantized.codes.tolist(),
        "signs": [0, *quantized.buckets.sign[quantized.buckets.level > 0].tolist()],
        "lengths": huffman.code_lengths(counts).tolist(),
        "plain": codec.encode(quantized, coder="huffman").payload_bits,
        "bits": runs.payload_bits,
        "words": [
            {
                "run": w.run,
                "at": w.at,
                "value": w.code,
                "text": w.word + w.rest,
                "bits": len(w.word + w.rest),
            }
            for w in words
        ],
    }
