"""The description of a record: a line of words in its header, and JSON in the array MORE.

    3 b 500 0b06396b07476057 <parent> <track> <digest>
    3 dmr 29 <parent> <track> u0.01 98,13 <digest>

Words have no names and no escapes, because headers take much of a small model's budget. All that
is not a plain word, such as a layout, goes into MORE. FORMAT.md describes each word.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.caps import parsed, short
from codec.errors import ForeignRecordError, MalformedRecordError, SettingsError, VersionError
from codec.scheme.coders import CODERS
from codec.scheme.coding import SCOPES, Coding
from codec.scheme.remainder import Rest

FORMAT = 3
MORE = "more"
HEX = 32  # digits of a digest: enough to notice damage and to tell 2**64 records apart
RUN = 16  # hex digits of a run: enough to tell runs apart
MAX_STEP = 2**63 - 1  # fits into the integers of every reader
LONGEST_REST = Rest(10.0, 10.0)
BASE_WORDS = ("format", "kind", "step", "run", "parent", "track", "digest")
DELTA_WORDS = ("format", "letters", "step", "parent", "track", "keep", "digest")

_THOUSAND, _MOST = 1000, 9999  # the word rest: thousandths, at most four digits
_DECIMAL = re.compile("0|[1-9][0-9]{0,19}")
_REST = re.compile("(0|[1-9][0-9]{0,3}),(0|[1-9][0-9]{0,3})")
_DIGEST = re.compile("[A-Za-z0-9_-]{21}[AQgw]")  # 16 bytes in base64
_RUN = re.compile(f"[0-9a-f]{{{RUN}}}")
_FLOAT = re.compile("[0-9.e+-]{1,24}")


@dataclass(frozen=True)
class Header:
    """The words of a record's line, without the file's digest.

    Attributes:
        step: The record's step.
        run: The first digits of the digest of the chain's first record. None in that record, and in
            deltas, whose run is their parent's.
        parent: Identity of the record before this one, in hex; None in a base without one.
        track: Digest of the track after the record, xxh3-128, in hex.
        coding: The settings of a delta; None for a base.
        rest: How much of the lossy weights' change the step leaves out; None if unknown.
    """

    step: int
    run: str | None
    parent: str | None
    track: str
    coding: Coding | None = None
    rest: Rest | None = None

    @property
    def kind(self) -> str:
        """ "base" or "delta"."""
        return "base" if self.coding is None else "delta"

    @property
    def line(self) -> str:
        """The line up to the file's digest, with a space after each word."""
        parent = "-" if self.parent is None else digest_word(self.parent)
        track = digest_word(self.track)
        if self.coding is None:
            words = ["b", f"{self.step}", self.run or "-", parent, track]
        else:
            letters, keep = coding_text(self.coding).split(" ")
            words = [f"d{letters}", f"{self.step}", parent, track, keep]
        if self.rest is not None:
            # In thousandths; 9999 stands for more, and for infinity.
            rest = (round(_THOUSAND * min(share, LONGEST_REST.behind)) for share in self.rest)
            words.append(",".join(f"{min(share, _MOST)}" for share in rest))
        return "".join(f"{word} " for word in (f"{FORMAT}", *words))

    @classmethod
    def of_line(cls, line: str, where: str) -> Header:
        """Parse a line, the word of its digest included.

        Raises:
            ForeignRecordError: The line does not begin with a format.
            VersionError: The format has another version.
            MalformedRecordError: A word is missing, unexpected or wrong.
        """
        words = line.split(" ")
        if not _DECIMAL.fullmatch(words[0]):
            expected = "metadata that begins with a format"
            raise ForeignRecordError(where, expected, short(words[0]))
        if words[0] != f"{FORMAT}":
            remedy = "update this package"
            if int(words[0]) < FORMAT:
                remedy = (
                    "it was written before lcviz 0.3, which does not read it; restore the chain "
                    "with lcviz 0.2 and save the state anew"
                )
            raise VersionError(where, f"format {FORMAT}", f"format {words[0]}: {remedy}")
        is_base = words[1:2] == ["b"]
        names: tuple[str, ...] = BASE_WORDS if is_base else DELTA_WORDS
        if not is_base and len(words) == len(names) + 1:
            names = (*names[:-1], "rest", names[-1])
        if len(words) != len(names):
            expected = f"{len(names)} words, {' '.join(names)}"
            raise MalformedRecordError(where, expected, f"{len(words)}")
        word = dict(zip(names, words))
        step, track = _step_of(word["step"], where), digest_of(word["track"], "track", where)
        parent = None
        if not is_base or word["parent"] != "-":
            parent = digest_of(word["parent"], "parent", where)
        if is_base:
            run = _run_of(word["run"], where)
            return cls(step, run, parent, track)
        coding = _coding_of(word["letters"], word["keep"], where)
        rest = _rest_of(word["rest"], where) if "rest" in word else None
        return cls(step, None, parent, track, coding, rest)


def coding_text(coding: Coding) -> str:
    """Settings in the letters of scope and coder and the word KEEP: "mr d0.3"."""
    return f"{coding.scope[0]}{CODERS[coding.coder].letter} {_keep_word(coding)}"


def coding_of_text(text: Any, where: str) -> Coding:
    """The settings in a text of `coding_text`. Raises MalformedRecordError."""
    letters, _, keep = text.partition(" ") if isinstance(text, str) else ("", "", "")
    return _coding_of(f"d{letters}", keep, where)


def digest_word(digest: str) -> str:
    """A digest of 32 hex digits in 22 characters: base64 with - and _, without padding."""
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")


def hex_of_digest(word: Any) -> str:
    """The 32 hex digits of a `digest_word` from a file. Raises TypeError for anything else."""
    if not isinstance(word, str) or not _DIGEST.fullmatch(word):
        raise TypeError(f"{short(word)} is not a digest of 128 bits in base64")
    return base64.urlsafe_b64decode(word + "==").hex()


def digest_of(word: str, name: str, where: str) -> str:
    """The 32 hex digits of a `digest_word`. Raises MalformedRecordError. name: the word's."""
    try:
        return hex_of_digest(word)
    except TypeError as exc:
        raise MalformedRecordError(where, f"{name} as 128 bits in base64", short(word)) from exc


def more_text(more: Mapping[str, Any]) -> bytes:
    """The content of the array MORE with these fields; b"" if there are none."""
    return json.dumps(more, separators=(",", ":")).encode() if more else b""


def more_of(array: NDArray[Any] | None, where: str) -> dict[str, Any]:
    """The fields in the array MORE. Raises MalformedRecordError."""
    if array is None:
        return {}
    if array.dtype != np.uint8 or array.ndim != 1:
        actual = f"{array.dtype} of {array.ndim} dimensions"
        raise MalformedRecordError(where, f"{MORE!r} as uint8 of 1 dimension", actual)
    text = array.tobytes()
    more = parsed(text, where, repr(MORE), MalformedRecordError)
    if not text.isascii() or not more:
        actual = "nothing" if text.isascii() else "other characters"
        raise MalformedRecordError(where, f"something in ASCII in {MORE!r}", actual)
    return more


def _step_of(word: str, where: str) -> int:
    if not _DECIMAL.fullmatch(word) or int(word) > MAX_STEP:
        raise MalformedRecordError(where, f"a step from 0 to {MAX_STEP}", short(word))
    return int(word)


def _run_of(word: str, where: str) -> str | None:
    if word == "-":
        return None
    if not _RUN.fullmatch(word):
        raise MalformedRecordError(where, f"a run of {RUN} hex digits", short(word))
    return word


def _names_of(letters: str, where: str) -> tuple[str, str]:
    """Scope and coder."""
    names = {f"d{s[0]}{coder.letter}": (s, name) for s in SCOPES for name, coder in CODERS.items()}
    if letters not in names:
        raise MalformedRecordError(where, "d, scope and coder in one letter each", short(letters))
    return names[letters]


def _rest_of(word: str, where: str) -> Rest:
    if (numbers := _REST.fullmatch(word)) is None:
        expected = "two numbers of thousandths, with a comma between them"
        raise MalformedRecordError(where, expected, short(word))
    return Rest(*(int(number) / _THOUSAND for number in numbers.groups()))


def _keep_word(coding: Coding) -> str:
    """The word for how much a delta keeps: bits, "all", a budget, or a letter and a number."""
    if coding.tolerance is not None:
        return f"t{coding.tolerance!r}"
    if coding.distance is not None:
        return f"d{coding.distance!r}"
    if coding.budget is not None:
        return f"{'u' if coding.uniform else ''}{coding.budget!r}"
    return "all" if coding.bits is None else f"{coding.bits}"


def _coding_of(letters: str, word: str, where: str) -> Coding:
    """The settings of a delta. word: how much it keeps, as `_keep_word` writes it."""
    scope, coder = _names_of(letters, where)
    names = {"t": "tolerance", "d": "distance", "u": "budget"}
    number = word[1:] if word[:1] in names else word
    target: dict[str, Any]
    if word == "all":
        target = {"bits": None}
    elif _DECIMAL.fullmatch(word):
        target = {"bits": int(word)}
    elif (value := _float_of(number)) is not None:
        name = names.get(word[:1], "budget")
        target = {name: value, "quantizer": "uniform" if word != number else "exponent"}
    else:
        expected = "bits, all, a budget, a tolerance or a distance as it is written"
        raise MalformedRecordError(where, expected, short(word))
    try:
        return Coding(scope=scope, coder=coder, **target)
    except SettingsError as exc:
        raise MalformedRecordError(where, "settings within their range", short(exc)) from exc


def _float_of(text: str) -> float | None:
    """The number that Python writes as this text; None if there is none."""
    try:
        value = float(text) if _FLOAT.fullmatch(text) else None
    except ValueError:
        return None
    return value if repr(value) == text else None
