"""The kinds of payloads. A new one is a class listed in `KINDS`, and a coder that may choose it."""

from __future__ import annotations

from codec.errors import PayloadError

from .arithmetic import ArithmeticCode
from .context import ContextCode
from .grouped import GroupedCode
from .payload import Alphabet, Constant, Payload, Row
from .pieces import Pieces
from .prefix import PrefixCode

KINDS: tuple[type[Payload], ...] = (
    Constant,
    PrefixCode,
    GroupedCode,
    ContextCode,
    ArithmeticCode,
)


def take_head(row: Row, head: Pieces, alphabet: Alphabet, version: int = 1) -> Payload:
    """Read what follows the row of an alphabet: its payload without data.

    version: of the record's format. Raises PayloadError.
    """
    for kind in KINDS:
        if row.classes in kind.CLASSES and version >= kind.VERSION:
            return kind.take_head(row, head, alphabet)
    raise PayloadError(f"a payload of {row.classes} classes")
