"""Bits cut at code words: the format's own example, and whole streams."""

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


def test_no_words_are_needed_and_bits_that_end_within_a_word(example: codec.Encoded) -> None:
    assert first_words(codec.encode(codec.quantize(np.zeros(10, np.float32), 2)), 5) == ()
    shorter = replace(example.payload, streams=np.array([17], np.uint32))
    with pytest.raises(StreamError, match="only"):
        first_words(replace(example, payload=shorter), 99)
