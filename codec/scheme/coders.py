"""The lossless coders by name, and the kinds of payloads that they make.

A coder chooses code words with or without runs, and may offer a payload of another kind. It is a
`Coder`, listed in `CODERS`; a new kind of payload is a class, listed in `PAYLOADS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codec.errors import PayloadError, SettingsError

from .context import MOST_PLAIN, ContextCode
from .payload import Alphabet, Constant, Levels, Matrices, Payload, Row
from .pieces import Pieces
from .prefix import PrefixCode
from .survivors import Survivors
from .twins import takes_compiled

FEW = 2**17  # values that run lengths leave to a context code
PAYLOADS: tuple[type[Payload], ...] = (Constant, PrefixCode, ContextCode)


@dataclass(frozen=True)
class Coder:
    """A lossless stage.

    Attributes:
        name: Its name in settings.
        letter: Its name in records.
        title: Its name in headings and lists.
        short: Its name within a sentence.
        summary: What it does, in one sentence.
        counts_runs: Whether its code words stand for runs of zeros, too, not only for single codes.
        direct: None, or makes a payload without code words, which is taken where it is shorter than
            code words. Takes survivors with final codes, rows and columns of the tensors, levels
            and whether they are uniform steps; returns None if it has no payload for these.
    """

    name: str
    letter: str
    title: str
    short: str
    summary: str
    counts_runs: bool
    direct: Callable[[Survivors, Matrices, Levels, bool], Payload | None] | None = None


def take_head(row: Row, head: Pieces, alphabet: Alphabet) -> Payload:
    """Read what follows the row of an alphabet: its payload without data. Raises PayloadError."""
    for kind in PAYLOADS:
        if row.classes in kind.CLASSES:
            return kind.take_head(row, head, alphabet)
    raise PayloadError(f"a payload of {row.classes} classes")


def coder_of(name: str) -> Coder:
    """The coder of that name. Raises SettingsError if there is none."""
    if not isinstance(name, str) or name not in CODERS:
        raise SettingsError(f"coder must be one of {', '.join(CODERS)}; got {name!r}")
    return CODERS[name]


def _of_few(
    survivors: Survivors, matrices: Matrices, levels: Levels, uniform: bool
) -> Payload | None:
    """A context code of few values in equal steps: code tables would cost too much of it."""
    few = uniform and survivors.n <= FEW
    return ContextCode.of(survivors, matrices, levels, uniform) if few else None


RUNLENGTH = Coder(
    "runlength",
    "r",
    "Run-length Huffman",
    "run-length",
    "One code word for a run of zeros and the value after it; a context code for few values in "
    "equal steps.",
    True,
    _of_few,
)
HUFFMAN = Coder(
    "huffman",
    "h",
    "Huffman (paper)",
    "Huffman",
    "One code word for every value, as in the paper: at least 1 bit each.",
    False,
)
CONTEXT = Coder(
    "context",
    "c",
    "Context",
    "context",
    "An arithmetic code that expects rows and columns to change together: the fewest bytes, and "
    "several times the time.",
    True,
    ContextCode.of,
)
CODERS = {coder.name: coder for coder in (RUNLENGTH, HUFFMAN, CONTEXT)}


def lacks_kernels(coder: str, n: int, uniform: bool) -> bool:
    """Whether an alphabet of n values has code words because a context code would take too long
    without compiled kernels."""
    would_take = coder == CONTEXT.name or (coder == RUNLENGTH.name and uniform and n <= FEW)
    return would_take and n > MOST_PLAIN and not takes_compiled()
