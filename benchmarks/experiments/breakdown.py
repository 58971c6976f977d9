"""What each stage saves: E, P and H, then run-length coding; and the entropy that bounds H.

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
from lcviz.lab.anatomy import Alphabet, changes, dissect, kept_sizes
from lcviz.lab.series import Series, tracked


@dataclass(frozen=True)
class Stages:
    """One checkpoint's bytes after each stage.

    bits: x, None for the exponent stage alone. n: elements, without an optimizer's moments. They
    include tensors with NaN or infinity, which are stored whole and counted so in every stage.
    symbols: of all alphabets before promotion, zero included if it occurs. e: bytes of fixed-length
    indices and of a level for each bucket. ep: the same after promotion; with bits None as e.
    huffman, runlength: with new code tables. entropy: Shannon's bound for codes of single values,
    without tables and levels.
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


def breakdown(series: Series, coding: Coding) -> Iterator[Stages]:
    """The stages of every checkpoint of a series but the first, which is stored whole.

    Raises codec.LccError, SettingsError among them if nothing can be quantized.
    """
    is_quantized = False
    for state, tracker in tracked(series, coding):
        step = tracker.prepare_arrays(state.arrays)
        alphabets, _ = dissect(changes(state.arrays, tracker.state, step), step)
        if alphabets:
            is_quantized = True
            whole = set(step.non_finite) & set(state.weights)
            non_finite = sum(state.arrays[name].size for name in whole)
            sizes = kept_sizes(alphabets)
            huffman, runlength = sizes.of("huffman"), sizes.of("runlength")
            assert huffman is not None, "alphabets know the sizes of all coders"
            assert runlength is not None, "alphabets know the sizes of all coders"
            yield Stages(
                state.step,
                coding.bits,
                non_finite + sum(a.n for a in alphabets),
                sum(_symbols(a, len(a.buckets)) for a in alphabets),
                4 * non_finite + sum(_fixed(a, len(a.buckets), None) for a in alphabets),
                4 * non_finite + sum(_fixed(a, a.n_kept, coding.bits) for a in alphabets),
                4 * non_finite + huffman,
                4 * non_finite + runlength,
                4 * non_finite + sizes.entropy,
            )
        tracker.commit(step)
    if not is_quantized:
        raise SettingsError("nothing here can be quantized: every change holds NaN or infinity")


def _symbols(alphabet: Alphabet, n_kept: int) -> int:
    return int((alphabet.counts(n_kept) > 0).sum())


def _fixed(alphabet: Alphabet, n_kept: int, bits: int | None) -> float:
    """Bytes of the levels and of indices of x bits; with bits None, of as few as possible."""
    width = math.ceil(math.log2(max(_symbols(alphabet, n_kept), 1))) if bits is None else bits
    return alphabet.n * width / 8 + 4 * n_kept
