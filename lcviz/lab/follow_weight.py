"""One weight, followed through a checkpoint: its δ, bucket, level, code and reconstruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import codec
from codec.scheme import huffman, runlength
from codec.scheme.quantize import Codes
from codec.scheme.tables import CodeTable
from codec.state.tensors import Arrays

from .anatomy import Alphabet
from .lesson import bucket_of


@dataclass(frozen=True)
class Weight:
    """One element of a tensor. index: counted in C order, from 0."""

    tensor: str
    index: int

    def __str__(self) -> str:
        return f"{self.tensor}:{self.index}"

    @classmethod
    def read(cls, text: str) -> Weight:
        """What `str` made. Raises ValueError."""
        tensor, colon, index = text.rpartition(":")
        if not (tensor and colon and index.isascii() and index.isdecimal()):
            raise ValueError(f"{text!r} does not name a weight as tensor:index")
        return cls(tensor, int(index))

    def place(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Its index along every axis."""
        return tuple(int(i) for i in np.unravel_index(self.index, tuple(shape)))

    def is_in(self, arrays: Arrays) -> bool:
        """Whether there is such an element."""
        return self.tensor in arrays and self.index < arrays[self.tensor].size

    def of(self, arrays: Arrays) -> float:
        """Its value."""
        return float(arrays[self.tensor].reshape(-1)[self.index])


@dataclass(frozen=True)
class Said:
    """The bits that tell of a weight.

    word: the code word, "" if no bits are needed. open_bits: bits that follow it. run: zeros before
    the value that the word ends with; None where every value has a word of its own. zero: the
    weight is one of them, counted from 1; 0 if it is the value. escaped: it had no word.
    """

    word: str
    open_bits: int = 0
    run: int | None = None
    zero: int = 0
    escaped: bool = False


@dataclass(frozen=True)
class Followed:
    """What became of a weight in one step.

    track: ũ before it. live: u. delta: live - track, float32. bucket: None if delta is 0. kept:
    whether the bucket was promoted. level: what delta became. said: None if the run's codes are
    let go, or if nothing tells of it: zeros after the last value of a stream. restored: ũ after it.
    exact: it is stored as it is; then delta is not coded, and bucket and said are None.
    """

    step: int
    weight: Weight
    shape: tuple[int, ...]
    track: float
    live: float
    delta: float
    bucket: codec.Bucket | None
    kept: bool
    level: float
    said: Said | None
    restored: float
    exact: bool = False


def follow(
    weight: Weight,
    step: int,
    before: Arrays,
    live: Arrays,
    alphabets: Sequence[Alphabet],
    codes: Sequence[Codes] | None,
) -> Followed:
    """One weight in one step. Raises KeyError, IndexError if there is no such weight.

    before: the track before the step, empty for a base. live: the model. alphabets: of the step's
    delta. codes: as `dissect` gave them, None if they are let go.
    """
    shape = live[weight.tensor].shape
    if not weight.is_in(live):
        raise IndexError(f"{weight.tensor} has {live[weight.tensor].size} elements")
    u = np.float32(weight.of(live))
    at = next((i for i, a in enumerate(alphabets) if weight.tensor in a.names), None)
    if at is None:
        was = np.float32(weight.of(before)) if before else np.float32(0)
        value = float(u)
        return Followed(
            step,
            weight,
            shape,
            float(was),
            value,
            float(u - was),
            None,
            True,
            value,
            None,
            value,
            exact=True,
        )
    alphabet = alphabets[at]
    was = np.float32(weight.of(before))
    delta = u - was
    i = bucket_of(alphabet.buckets, float(delta))
    bucket = None if i is None else alphabet.buckets[i]
    kept = bucket is not None and bucket.level > 0
    level = np.float32(bucket.representative) if bucket is not None and kept else np.float32(0)
    said = None
    if codes is not None:
        begin = 0
        for name in alphabet.names:
            if name == weight.tensor:
                break
            begin += live[name].size
        said = words_of(alphabet, codes[at], begin + weight.index)
    return Followed(
        step,
        weight,
        shape,
        float(was),
        float(u),
        float(delta),
        bucket,
        kept,
        float(level),
        said,
        float(was + level),
    )


def words_of(alphabet: Alphabet, codes: Codes, at: int) -> Said | None:
    """The bits that tell of element ``at`` of an alphabet; None if none do.

    codes: (n,), of the exponent stage; those above the kept ones count as zeros.
    """
    table, kept = alphabet.table, alphabet.kept
    if table is None:
        return Said("")
    if table.classes == 1:
        own = int(codes[at])
        return Said(huffman.code_words(table.lengths)[own if own <= kept else 0])
    begin = at // alphabet.stream_elements * alphabet.stream_elements
    stream = codes[begin : begin + alphabet.stream_elements]
    values = np.flatnonzero((stream > 0) & (stream <= kept))
    nth = int(np.searchsorted(values, at - begin))
    if nth == values.size:
        return None  # zeros after the last value of a stream go without saying
    end = int(values[nth])
    first = int(values[nth - 1]) + 1 if nth else 0
    zero = at - begin - first + 1 if at - begin < end else 0
    return _token(table, int(stream[end]), end - first, kept, zero)


def _token(table: CodeTable, symbol: int, run: int, kept: int, zero: int) -> Said:
    """The word of a run of zeros with the value after it, or the escape's."""
    kind = int(np.searchsorted(runlength.FIRST_RUN, run, side="right")) - 1
    token = 1 + (symbol - 1) * table.classes + kind
    open_bits = int(runlength.OPEN_BITS[kind])
    words = huffman.code_words(table.lengths)
    worded = kind < table.classes and token < table.lengths.size and table.lengths[token] > 0
    if worded:
        return Said(words[token], open_bits, run, zero)
    open_bits += runlength.CLASS_BITS + runlength.symbol_bits(kept)
    return Said(words[0], open_bits, run, zero, escaped=True)
