"""The metadata of a record: a line of words in its header, and JSON in the array MORE.

    1 delta 29 0b06396b07476057 <parent> <track> 2 model runlength 450,60 <digest>
    5 dmr 29 <parent> <track> u0.01 98,13 <digest>

The second form, COMPACT, is about 50 bytes shorter: a small model's budget is spent on little else.

Words need no names and no escapes, which keeps a small record small. What is not a plain word,
such as a layout, goes into MORE. See FORMAT.md. Ranges are checked by record and merged.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.caps import parsed, short
from codec.errors import ForeignRecordError, MalformedRecordError, VersionError
from codec.scheme.remainder import Rest
from codec.state.tensors import Arrays

FORMAT = 1  # of most records
EDITED = 2  # of records with an edit or a single number among their values
UNIFORM = 3  # of records with an alphabet of uniform steps, or whose settings ask for them
RESIDUAL = 4  # of records with the residual of an exact tensor
COMPACT = 5  # of deltas and merged records in uniform steps, with a short line
FORMATS = (FORMAT, EDITED, UNIFORM, RESIDUAL, COMPACT)
MORE = "more"
DIGEST = 32  # hex digits: enough to notice damage and to tell 2**64 records apart
PLACE = ("format", "kind", "step", "run", "parent", "track")
BASE = (*PLACE, "digest")
SETTINGS = ("keep", "scope", "coder")
STEPS = (*PLACE, *SETTINGS, "digest")  # delta, merged
TARGETS = ("bits", "budget", "tolerance", "distance", "quantizer")  # the word keep has them
REST = "rest"  # before the digest of a delta or merged record, where it is known
OWN = {*STEPS, *TARGETS, REST}  # these stand in the line only
SHORT = ("format", "kind, scope, coder", "step", "parent", "track", "keep", "digest")  # of COMPACT
KINDS, SCOPES, CODERS = (
    {name[0]: name for name in names}
    for names in (("delta", "merged"), ("model", "tensor"), ("runlength", "huffman"))
)
_DECIMAL = re.compile("0|[1-9][0-9]{0,19}")
_STEPS, _TOLERANCE, _DISTANCE = "uniform:", "tolerance:", "distance:"
_BRIEF = {_STEPS: "u", _TOLERANCE: "t", _DISTANCE: "d"}  # in COMPACT
_THOUSAND, _MOST = 1000, 9999  # of the numbers in REST: thousandths, four digits
_REST = re.compile("(0|[1-9][0-9]{0,3}),(0|[1-9][0-9]{0,3})")
LONGEST_REST = Rest(10.0, 10.0)
_BASE64 = re.compile("[A-Za-z0-9_-]{21}[AQgw]")  # of 16 bytes
_FLOAT = re.compile("[0-9.e+-]{1,24}")


def written(metadata: Mapping[str, Any]) -> tuple[str, Arrays]:
    """The line, with zeros for the digest, and the array MORE if it is needed."""
    words = ["-" if metadata[name] is None else f"{metadata[name]}" for name in PLACE]
    if metadata["format"] == COMPACT:
        form, kind, step, _, parent, track = words
        kind = kind[0] + metadata["scope"][0] + metadata["coder"][0]
        words = [form, kind, step, _brief(parent), _brief(track), _keep(metadata)]
    elif "scope" in metadata:
        words += [_keep(metadata), f"{metadata['scope']}", f"{metadata['coder']}"]
    if isinstance(rest := metadata.get(REST), Rest):
        words.append(",".join(f"{min(round(_THOUSAND * s), _MOST)}" for s in _bounded(rest)))
    more = {name: value for name, value in metadata.items() if name not in OWN}
    text = json.dumps(more, separators=(",", ":")).encode()
    arrays: Arrays = {MORE: np.frombuffer(text, np.uint8)} if more else {}
    return " ".join((*words, DIGEST * "0")), arrays


def line_of(line: str, where: str) -> dict[str, Any]:
    """Name -> value of a line: format and step are integers, run, parent and the targets may be
    None, all others are text.

    Raises:
        ForeignRecordError: It does not begin like a line.
        VersionError: It has an unknown format.
        MalformedRecordError: Its words are wrong.
    """
    words = line.split(" ")
    if not _DECIMAL.fullmatch(words[0]):
        raise ForeignRecordError(where, "metadata that begins with a format", short(words[0]))
    if words[0] not in map(str, FORMATS):
        found = f"format {words[0]}; update this package"
        raise VersionError(where, f"format {FORMATS[0]} to {FORMATS[-1]}", found)
    names = BASE if words[1:2] == ["base"] else STEPS
    compact = words[0] == str(COMPACT)
    if compact:
        names = SHORT
    if names is not BASE and len(words) == len(names) + 1:
        names = (*names[:-1], REST, names[-1])
    if len(words) != len(names):
        expected = f"{len(names)} words, {' '.join(names)}"
        raise MalformedRecordError(where, expected, f"{len(words)}")
    entries: dict[str, Any] = dict(zip(names, words))
    if compact:
        entries = _expanded(entries, where)
    entries["format"] = int(words[0])
    if not _DECIMAL.fullmatch(entries["step"]):
        raise MalformedRecordError(where, "a step in decimal", short(entries["step"]))
    entries["step"] = int(entries["step"])
    entries |= {name: None for name in ("run", "parent") if entries[name] == "-"}
    if REST in entries:
        entries[REST] = _rest_of(entries[REST], where)
    if "keep" in entries:
        entries |= _kept(entries.pop("keep"), where)
        oldest = COMPACT if entries["distance"] is not None else UNIFORM
        if entries["quantizer"] == "uniform" and entries["format"] < oldest:
            found = f"format {entries['format']}"
            raise MalformedRecordError(where, f"format {oldest} for uniform steps", found)
    return entries


def more_of(array: NDArray[Any] | None, where: str) -> dict[str, Any]:
    """Name -> value of the array MORE. Raises ForeignRecordError, MalformedRecordError."""
    if array is None:
        return {}
    if array.dtype != np.uint8 or array.ndim != 1:
        found = f"{array.dtype} of {array.ndim} dimensions"
        raise MalformedRecordError(where, f"{MORE!r} as uint8 of 1 dimension", found)
    text = array.tobytes()
    entries = parsed(text, where, repr(MORE), MalformedRecordError)
    if not text.isascii() or not entries:
        found = "nothing" if text.isascii() else "other characters"
        raise MalformedRecordError(where, f"something in ASCII in {MORE!r}", found)
    if twice := OWN & entries.keys():
        found = ", ".join(sorted(twice))
        raise MalformedRecordError(where, f"nothing in {MORE!r} that the line tells", found)
    return entries


def _bounded(rest: Rest) -> Rest:
    """The rest with shares of at most LONGEST_REST, which four digits can express."""
    return Rest(*(min(share, LONGEST_REST.behind) for share in rest))


def _rest_of(word: str, where: str) -> Rest:
    if (numbers := _REST.fullmatch(word)) is None:
        expected = "two numbers of thousandths, with a comma between them"
        raise MalformedRecordError(where, expected, short(word))
    return Rest(*(int(number) / _THOUSAND for number in numbers.groups()))


def _brief(digest: str) -> str:
    """A digest of 32 hex digits in 22 characters, base64 for URLs."""
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")


def _expanded(entries: Mapping[str, str], where: str) -> dict[str, Any]:
    """The entries of a line of the format COMPACT with the names and forms of older ones."""
    letters = entries["kind, scope, coder"]
    found: dict[str, Any] = {"run": None}
    found |= {name: entries[name] for name in ("step", REST, "digest") if name in entries}
    try:
        kind, scope, coder = list(letters)
        found |= {"kind": KINDS[kind], "scope": SCOPES[scope], "coder": CODERS[coder]}
    except (ValueError, KeyError) as exc:
        expected = "kind, scope and coder in one letter each"
        raise MalformedRecordError(where, expected, short(letters)) from exc
    for name in ("parent", "track"):
        if not _BASE64.fullmatch(entries[name]):
            raise MalformedRecordError(where, f"{name} as 128 bits in base64", short(entries[name]))
        found[name] = base64.urlsafe_b64decode(entries[name] + "==").hex()
    found["keep"] = entries["keep"]
    for long, brief in _BRIEF.items():
        if found["keep"].startswith(long):
            raise MalformedRecordError(
                where, f"{brief!r} instead of {long!r}", short(found["keep"])
            )
        if found["keep"].startswith(brief):
            found["keep"] = long + found["keep"][1:]
            break
    return found


def _keep(metadata: Mapping[str, Any]) -> str:
    """How much of a delta is kept: bits, "all" for None, a budget, which has a point or e, or what
    uniform steps are made for."""

    def named(name: str) -> str:
        return _BRIEF[name] if metadata["format"] == COMPACT else name

    if metadata["tolerance"] is not None:
        return f"{named(_TOLERANCE)}{metadata['tolerance']!r}"
    if metadata["distance"] is not None:
        return f"{named(_DISTANCE)}{metadata['distance']!r}"
    if metadata["budget"] is not None:
        by_steps = named(_STEPS) if metadata["quantizer"] == "uniform" else ""
        return f"{by_steps}{metadata['budget']!r}"
    return "all" if metadata["bits"] is None else f"{metadata['bits']}"


def _kept(word: str, where: str) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(TARGETS) | {"quantizer": "exponent"}
    if word == "all":
        return found
    if _DECIMAL.fullmatch(word):
        return found | {"bits": int(word)}
    name, number = "budget", word
    if word.startswith((_STEPS, _TOLERANCE, _DISTANCE)):
        kind, _, number = word.partition(":")
        name = "budget" if kind == "uniform" else kind
        found["quantizer"] = "uniform"
    try:
        value = float(number) if _FLOAT.fullmatch(number) else None
    except ValueError:
        value = None
    if value is None or repr(value) != number:
        expected = "bits, all, a budget, a tolerance or a distance as it is written"
        raise MalformedRecordError(where, expected, short(word))
    return found | {name: value}
