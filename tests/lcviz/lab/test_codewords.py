"""Bits cut at code words: the format's own example, and whole streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import codec
from codec.errors import StreamError
from codec.scheme.prefix import PrefixCode
from codec.scheme.tables import CodeTable
from lcviz.lab.codewords import CodeWord, first_words

LENGTHS = np.array([3, 1, 2] + 33 * [0] + [3], np.uint8)


@pytest.fixture
def example() -> codec.Encoded:
    """ "Example: tokens" of codec/FORMAT.md."""
    words = np.frombuffer(bytes.fromhex("ba1b0400"), np.uint32)
    return codec.Encoded(
        PrefixCode(words, np.array([19], np.uint32), 65536, CodeTable(LENGTHS, 18)),
        np.float32([0, 1, -1]),
        (40,),
        2,
        "runlength",
    )


def test_the_example_of_the_format(example: codec.Encoded) -> None:
    assert first_words(example, 99) == (
        CodeWord("0", "", 0, 0, 1),
        CodeWord("10", "", 1, 2, 1),
        CodeWord("111", "01", 22, 25, 2),
        CodeWord("110", "11000001", 3, 29, 2),
    )
    assert len(first_words(example, 2)) == 2


@pytest.mark.parametrize(("coder", "bits"), [("huffman", None), ("runlength", 1)])
def test_all_words_are_the_stream(coder: str, bits: int | None) -> None:
    delta = np.random.default_rng(2).normal(size=3000).astype(np.float32) ** 7
    delta[np.random.default_rng(3).random(3000) < 0.5] = 0
    e = codec.encode(codec.quantize(delta, bits), coder)
    words = first_words(e, 3000)
    text = "".join(w.word + w.rest for w in words)
    little = np.unpackbits(e.payload.data, bitorder="little")[: int(e.payload.streams[0])]
    assert text == "".join(map(str, little))
    codes = np.zeros(3000, np.int64)
    for w in words:
        codes[w.at] = w.code
    assert np.array_equal(codes, codec.decode(e).codes)
    assert first_words(e, 7) == words[:7]


def test_no_words_are_needed_and_bits_that_end_within_a_word(example: codec.Encoded) -> None:
    assert first_words(codec.encode(codec.quantize(np.zeros(10, np.float32), 2)), 5) == ()
    shorter = replace(example.payload, streams=np.array([17], np.uint32))
    with pytest.raises(StreamError, match="only"):
        first_words(replace(example, payload=shorter), 99)
