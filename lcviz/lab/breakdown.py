"""What each stage saves: E, P and H, then run-length coding, and the entropy that bounds H.

Counted as in the paper: E is a fixed-length index, ⌈log2 k⌉ bits for k symbols; P is x bits; H is
the measured stream with its table and levels (Chen, Liu, Ren, Jin, ICML 2020). A record's header is
counted nowhere here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from codec import Coding
from codec.errors import SettingsError
from codec.inspect import huffman

from .anatomy import Alphabet, changes, dissect
from .series import Series, tracked
from .sizes import huffman_nbytes, runlength_nbytes


@dataclass(frozen=True)
class Stages:
    """One checkpoint's bytes after each stage.

    bits: x, None for the exponent stage alone. n: elements, those of tensors with NaN or infinity
    among them: these are stored whole, and counted so in every stage. symbols: before promotion,
    zero among them if it occurs, of all alphabets. e: fixed-length indices and a level for each
    bucket. ep: the same of what is promoted; with bits None as e. huffman, runlength: with new code
    tables. entropy: Shannon's bound for codes of single values, without tables and levels.
    """

    step: int
    bits: int | None
    n: int
    symbols: int
    e: float
    ep: float
    huffman: float
    runlength: float
    entropy: float

    def saved(self, nbytes: float) -> float:
        """The share of the float32 bytes that is not needed any more."""
        return 1 - nbytes / (4 * self.n)


def breakdown(series: Series, coding: Coding) -> Iterator[Stages]:
    """Every checkpoint of a series but the first, which is stored whole.

    Raises codec.LccError, SettingsError among them if nothing can be quantized.
    """
    found = False
    for moment, tracker in tracked(series, coding):
        step = tracker.prepare_arrays(moment.arrays)
        alphabets, codes = dissect(changes(moment.arrays, tracker.state, step), step)
        if alphabets:
            found = True
            whole = sum(moment.arrays[name].size for name in step.non_finite)
            runs = (
                runlength_nbytes(own, a.buckets.keeping(a.kept), uniform=a.uniform)
                for a, own in zip(alphabets, codes, strict=True)
            )
            yield Stages(
                moment.step,
                coding.bits,
                whole + sum(a.n for a in alphabets),
                sum(_symbols(a, len(a.buckets)) for a in alphabets),
                4 * whole + sum(_fixed(a, len(a.buckets), None) for a in alphabets),
                4 * whole + sum(_fixed(a, a.kept, coding.bits) for a in alphabets),
                4 * whole + sum(_huffman(a) for a in alphabets),
                4 * whole + sum(runs),
                4 * whole + sum(huffman.entropy(a.counts(a.kept)) for a in alphabets) / 8,
            )
        tracker.commit(step)
    if not found:
        raise SettingsError("nothing here can be quantized: every change holds NaN or infinity")


def _huffman(alphabet: Alphabet) -> int:
    counts = alphabet.counts(alphabet.kept)
    return huffman_nbytes(counts, 1 if alphabet.uniform else None)


def _symbols(alphabet: Alphabet, kept: int) -> int:
    return int((alphabet.counts(kept) > 0).sum())


def _fixed(alphabet: Alphabet, kept: int, bits: int | None) -> float:
    """Bytes of indices of x bits, or as many as are needed, and of levels."""
    width = math.ceil(math.log2(max(_symbols(alphabet, kept), 1))) if bits is None else bits
    return alphabet.n * width / 8 + 4 * kept
