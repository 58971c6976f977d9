"""One weight in a checkpoint: its δ, bucket, level, code and reconstruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codec.inspect import Arrays, Bucket, Codes, PrefixCode, huffman

from .anatomy import Alphabet
from .codewords import tokens_of


@dataclass(frozen=True)
class Weight:
    """One element of a tensor. index: counted in C order, from 0."""

    tensor: str
    index: int

    def __str__(self) -> str:
        return f"{self.tensor}:{self.index}"

    @classmethod
    def read(cls, text: str) -> Weight:
        """Parse the form of `str`. Raises ValueError."""
        tensor, colon, index = text.rpartition(":")
        if not (tensor and colon and index.isascii() and index.isdecimal()):
            raise ValueError(f"{text!r} does not name a weight as tensor:index")
        return cls(tensor, int(index))

    def text(self, shape: Sequence[int]) -> str:
        """Its name in texts, with its index along every axis: 'conv1.weight (0, 0, 1, 2)'."""
        place = ", ".join(str(int(i)) for i in np.unravel_index(self.index, tuple(shape)))
        return f"{self.tensor} ({place})"

    def is_in(self, arrays: Arrays) -> bool:
        """Whether there is such an element."""
        return self.tensor in arrays and self.index < arrays[self.tensor].size

    def of(self, arrays: Arrays) -> float:
        """Its value."""
        return float(arrays[self.tensor].reshape(-1)[self.index])


@dataclass(frozen=True)
class WeightCode:
    """The bits that encode a weight.

    word: the code word, "" if no bits are needed. extra_bits: number of bits that follow it. run:
    zeros before the word's value; None where every value has a word of its own. zero: which of
    these zeros the weight is, from 1; 0 if it is the value. escaped: whether the word is the
    escape's. shared: the payload, such as "a context code", if values share its bits; else "".
    """

    word: str
    extra_bits: int = 0
    run: int | None = None
    zero: int = 0
    escaped: bool = False
    shared: str = ""


@dataclass(frozen=True)
class Followed:
    """One weight in one step.

    track: ũ before the step. live: u. delta: live - track, float32. bucket: None if delta is 0.
    level: what delta became, 0 unless its bucket was kept. code: None for a zero after
    the last value of a stream, which has no word. restored: ũ after the step. exact: whether the
    weight is stored as it is: delta is not coded, and bucket and code are None.
    """

    step: int
    weight: Weight
    shape: tuple[int, ...]
    track: float
    live: float
    delta: float
    bucket: Bucket | None
    level: float
    code: WeightCode | None
    restored: float
    exact: bool = False


def follow(
    weight: Weight,
    step: int,
    before: Arrays,
    live: Arrays,
    alphabets: Sequence[Alphabet],
    codes: Sequence[Codes],
) -> Followed:
    """Look up one weight in one step.

    Args:
        weight: Its tensor and index.
        step: The number of the step.
        before: The track before the step, empty for a base.
        live: The model.
        alphabets: Of the step's delta.
        codes: From `dissect`.

    Raises:
        KeyError: There is no such tensor.
        IndexError: The tensor has no such element.
    """
    shape = live[weight.tensor].shape
    if not weight.is_in(live):
        raise IndexError(f"{weight.tensor} has {live[weight.tensor].size} elements")
    u = np.float32(weight.of(live))
    track_value = np.float32(weight.of(before)) if before else np.float32(0)
    delta, value = u - track_value, float(u)
    change = float(track_value), value, float(delta)
    coded = next(((a, c) for a, c in zip(alphabets, codes) if weight.tensor in a.sizes), None)
    if coded is None:
        return Followed(step, weight, shape, *change, None, value, None, value, exact=True)
    alphabet, alphabet_codes = coded
    element = alphabet.begins[weight.tensor] + weight.index
    bucket_code = int(alphabet_codes[element])
    bucket = alphabet.buckets[bucket_code - 1] if bucket_code else None
    level = np.float32(bucket.representative if bucket and bucket.level else 0)
    code = weight_code(alphabet, alphabet_codes, element)
    restored = float(track_value + level)
    return Followed(step, weight, shape, *change, bucket, float(level), code, restored)


def weight_code(alphabet: Alphabet, codes: Codes, at: int) -> WeightCode | None:
    """The bits that encode element ``at`` of an alphabet, if any.

    codes: (n,), of the exponent stage; codes of buckets that are not kept count as zeros.
    """
    payload, n_kept = alphabet.encoded.payload, alphabet.n_kept
    if not isinstance(payload, PrefixCode):
        return WeightCode("", shared=payload.a_title() if payload.SHARED else "")
    table = payload.table
    if table.classes == 1:
        code = int(codes[at])
        return WeightCode(huffman.code_words(table.lengths)[code if code <= n_kept else 0])
    begin = at // payload.stream_elements * payload.stream_elements
    stream = codes[begin : begin + payload.stream_elements]
    values, tokens, nbits = tokens_of(alphabet.encoded, np.where(stream <= n_kept, stream, 0))
    nth = int(np.searchsorted(values, at - begin))
    if nth == values.size:
        return None  # zeros after the last value of a stream are not written
    end, first = int(values[nth]), int(values[nth - 1]) + 1 if nth else 0
    word = huffman.code_words(table.lengths)[tokens[nth]]
    zero = at - begin - first + 1 if at - begin < end else 0
    extra_bits = int(nbits[nth]) - len(word)
    return WeightCode(word, extra_bits, end - first, zero, escaped=bool(tokens[nth] == 0))
