"""The lossless coders, by name. A new one needs a `Coder`, listed in `CODERS`.

A coder decides what is counted before a code table is chosen: single codes, or also runs of zeros.
It also says which direct payloads are tried. All coders share tables, payloads and the decoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec.errors import SettingsError

from . import kernels, runlength, workers
from .arithmetic import MOST, ArithmeticCode
from .context import ContextCode
from .kernels import MAX_STREAM, UNIT
from .payload import DirectPayload
from .survivors import Survivors

SYMBOLS_A_STREAM = 8192  # at least: the 6 bytes of each stream then hardly matter
STREAMS = 8  # at least, if there are enough units
NS_A_UNIT, NS_A_SURVIVOR = 500, 4  # rough times in one thread
NS_A_PIECE = 100_000  # several times the cost of calling another thread

Final = NDArray[np.uint16]
Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Coder:
    """A lossless stage.

    Attributes:
        name: Its name in settings.
        letter: Its name in records.
        title: Its name in headings and lists.
        short: Its name within a sentence.
        summary: What it does, in one sentence.
        counts_runs: Whether it also codes runs of zeros.
        direct_kinds: Kinds of payloads without code words, of which the shortest takes the place of
            a longer prefix code.
        most_direct: The most elements of an alphabet for which these are tried.
        direct_buckets: Whether these are tried for buckets too, not only for uniform steps.
        settle: Gives survivors their final codes; those of code 0 are survivors no more. Takes
            survivors, the final code of each of their codes (uint16 (512,), or None if codes are
            final already) and how often each final code occurs (int64 (k,)). Returns the units of a
            stream, and the counts of tokens as in `Counts`, None if the coder counts no runs.
        version: The first version of the format that has it.
        groups: Whether it codes groups of values in dense alphabets.
    """

    name: str
    letter: str
    title: str
    short: str
    summary: str
    counts_runs: bool
    direct_kinds: tuple[type[DirectPayload], ...]
    most_direct: float
    direct_buckets: bool
    settle: Callable[[Survivors, Final | None, NDArray[np.int64]], tuple[int, Tokens | None]]
    version: int = 1
    groups: bool = False

    def direct_kinds_for(self, n: int, uniform: bool) -> tuple[type[DirectPayload], ...]:
        """The kinds without code words that are worth trying for n elements."""
        serves = 0 < n <= self.most_direct and (uniform or self.direct_buckets)
        return self.direct_kinds if serves else ()


def alike(alphabets: Iterable[tuple[int, bool]]) -> dict[str, str]:
    """Coder -> the first coder in CODERS that gives the same payloads.

    alphabets: the number of elements of each, and whether its levels are uniform steps.
    """
    pairs, first_by_payloads = list(alphabets), dict[object, str]()
    return {
        name: first_by_payloads.setdefault(
            (coder.counts_runs, *(coder.direct_kinds_for(*pair) for pair in pairs)), name
        )
        for name, coder in CODERS.items()
    }


def coder_of(name: str) -> Coder:
    """The coder of that name. Raises SettingsError if there is none."""
    if not isinstance(name, str) or name not in CODERS:
        raise SettingsError(f"coder must be one of {', '.join(CODERS)}; got {name!r}")
    return CODERS[name]


def stream_units(n: int, n_symbols: int) -> int:
    """Units of a stream: the power of two that makes enough streams of enough symbols."""
    units = 1
    while (
        2 * units * UNIT <= MAX_STREAM
        and units * UNIT * n_symbols < SYMBOLS_A_STREAM * n
        and n > (STREAMS - 1) * 2 * units * UNIT
    ):
        units *= 2
    return units


def least_streams(s: Survivors, units: int) -> int:
    """How many streams make calling another thread worthwhile. units: those of a stream."""
    survivors_a_unit = int(s.numbers.sum(dtype=np.int64)) / max(s.units, 1)
    return math.ceil(NS_A_PIECE / (NS_A_UNIT + NS_A_SURVIVOR * survivors_a_unit) / units)


def _settle_codes(
    s: Survivors, final: Final | None, _counts: NDArray[np.int64]
) -> tuple[int, Tokens | None]:
    if final is not None:
        pieces = workers.pieces(s.units, least=least_streams(s, 1))

        def work(i: int, _scratch: workers.Scratch) -> None:
            kernels.settle(*pieces[i], final, s.marks, s.codes, s.numbers)

        workers.spread(work, len(pieces))
    units_of_a_stream = 1
    return units_of_a_stream, None


def _settle_tokens(
    s: Survivors, final: Final | None, counts: NDArray[np.int64]
) -> tuple[int, Tokens | None]:
    if final is None:
        final = np.arange(max(counts.size, kernels.N_BINS), dtype=np.uint16)
    units = stream_units(s.n, int(s.n - counts[0]))
    pieces = workers.pieces(-(-s.units // units), least=least_streams(s, units))
    cells = int(kernels.NEAR) + kernels.MAX_CLASSES
    rows = min(counts.size, runlength.MAX_SYMBOLS + 2)  # one for all symbols without words
    counts_by_piece = np.zeros((len(pieces), rows, cells), np.int32)

    def work(i: int, _scratch: workers.Scratch) -> None:
        survivors = s.marks, s.codes, s.numbers
        kernels.settle_tokens(*pieces[i], units, final, *survivors, counts_by_piece[i])

    workers.spread(work, len(pieces))
    tokens = np.zeros((rows - 1, kernels.MAX_CLASSES), np.int64)
    kernels.sum_tokens(counts_by_piece, tokens)
    return units, tokens


RUNLENGTH = Coder(
    "runlength",
    "r",
    "Run-length Huffman",
    "run-length",
    "One code word for a run of zeros and the value after it; for neighbours where most values "
    "change; an arithmetic code for few values in equal steps.",
    True,
    (ArithmeticCode,),
    MOST,
    False,
    _settle_tokens,
    groups=True,
)
HUFFMAN = Coder(
    "huffman",
    "h",
    "Huffman (paper)",
    "Huffman",
    "One code word for every value, as in the paper: at least 1 bit each.",
    False,
    (),
    0,
    False,
    _settle_codes,
)
CONTEXT = Coder(
    "context",
    "c",
    "Context",
    "context",
    "An arithmetic code that expects rows and columns to change together: the fewest bytes, and "
    "several times the time.",
    True,
    (ContextCode,),
    math.inf,
    True,
    _settle_tokens,
    version=2,
)
CODERS = {coder.name: coder for coder in (RUNLENGTH, HUFFMAN, CONTEXT)}
