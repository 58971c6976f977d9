"""A nested state taken apart into tensors and values, and put together again.

    {"model": {"w": tensor}, "epoch": 3}

    structure   {"d":[["model",{"d":[["w",{"t":0}]]}],["epoch",{"v":0}]]}
    tensors     {"model/w": tensor}
    values      ('3',)

A container belongs to the structure if a tensor is anywhere in it; otherwise it is one value as
a whole, so that a list that grows by a number a step does not change the structure. For the same
reason a tensor of no dimensions that is an element of a list or tuple is a value: a loss appended
after each step. It is stored by itself, whoever else has the same memory. Names are JSON pointers
(RFC 6901) without the first slash: in a key, "~" is "~0" and "/" is "~1".

Not done here: tensors as arrays (state), which of them are lossy (policy).
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from codec.caps import typed
from codec.errors import DTypeError, StateMismatchError

from .tensors import (
    check_number,
    is_number,
    is_tensor,
    is_torch,
    is_unicode,
    look,
    number_of,
    shares,
    tensor_of,
)

MAX_DEPTH = 64  # of containers; Python's JSON parser stops at about 1000
MAX_EXACT = 2**53  # other readers hold integers as float64
MAX_INTEGER = 14_000  # bits: what Python reads from a text
MAX_ALIKE = 100  # keys of one mapping with the same hash: more were made to be slow to tell apart
HASH_BITS = 60  # of shorter integers, only two can have the same hash

_MAPPINGS: dict[str, type] = {"d": dict, "o": OrderedDict, "n": Counter}
_SEQUENCES: dict[str, type] = {"l": list, "p": tuple}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LIBRARIES = {"s": "numpy", "a": "numpy", "t": "torch"}  # of what is one number
_KEYS = (type(None), bool, int, float, str, bytes)
_Convert = Callable[[str, str, bytes], Any]


@dataclass(frozen=True)
class Parts:
    """A state taken apart.

    structure: JSON, "" for a dict of the tensors by their names. tensors: name -> numpy array
    or torch tensor; what shares memory, shape and strides stands there once. values: JSON of
    everything else. looks: `state.look` of each tensor, () where nobody looked. ties: name -> the
    other names of a tensor that stands in several places.
    """

    structure: str
    tensors: dict[str, Any]
    values: tuple[str, ...]
    looks: tuple[tuple[Any, ...], ...] = field(default=(), compare=False)
    ties: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)


class Template:
    """A state that was taken apart, for others that look like it: faster than asking again."""

    def __init__(
        self, state: Mapping[Any, Any], parts: Parts, is_skipped: Callable[[str], bool]
    ) -> None:
        self._parts, self._parting = parts, _Parting(is_skipped)
        self._places: list[int] = []  # number of every tensor met on the way, also of known ones
        self._plan = self._planned(state, None, 0, listed=False)
        firsts = {place: i for i, place in reversed(list(enumerate(self._places)))}
        self._firsts = [firsts[number] for number in sorted(firsts)]
        self._looks: list[tuple[Any, ...]] = []  # of the last state, ties too
        self._tensors: list[Any] = []
        self._values: list[str] = []

    def take_apart(self, state: Any) -> Parts | None:
        """The parts of a state of the same structure and names; None for another one."""
        self._tensors, self._values = [], []
        if not self._follow(self._plan, state):
            return None
        looks = list(map(look, self._tensors))
        if looks != self._looks:  # elsewhere in memory: are the same ones ties?
            first: dict[Hashable, int] = {}
            n = 0
            for place, seen in zip(self._places, looks):
                number = first.setdefault(seen, n) if shares(seen) else n
                if number != place:
                    return None
                n += number == n
            self._looks = looks
        tensors = [self._tensors[i] for i in self._firsts]
        return Parts(
            self._parts.structure,
            dict(zip(self._parts.tensors, tensors)),
            tuple(self._values),
            tuple([looks[i] for i in self._firsts]),
            self._parts.ties,
        )

    def _planned(self, value: Any, name: str | None, depth: int, listed: bool) -> tuple[Any, ...]:
        if _in_layout(value, listed):
            self._places.append(self._parting.number(value, name))
            return ("t", type(value), listed)
        if name is not None and not _holds_tensors(value, name, depth):
            return ("v", name, depth, listed)
        tag = _tag(value)
        below = tag in _SEQUENCES
        plans = [
            None if self._parting.is_skipped(own) else self._planned(child, own, depth + 1, below)
            for _, own, child in _children(value, tag, name)
        ]
        keys = tuple(value) if tag in _MAPPINGS else len(value)
        return (tag, type(value), keys, tuple(map(type, value)), plans)

    def _follow(self, plan: tuple[Any, ...], value: Any) -> bool:
        if plan[0] == "t":
            self._tensors.append(value)
            _, kind, listed = plan
            return (type(value) is kind and not listed) or _in_layout(value, listed)
        if plan[0] == "v":
            _, name, depth, listed = plan
            if _in_layout(value, listed) or _holds_tensors(value, name, depth):
                return False
            self._values.append(_dumped(self._parting.value(value, name, depth)))
            return True
        tag, kind, keys, types, plans = plan
        if type(value) is not kind:
            return False
        children = value
        if tag in _MAPPINGS:
            if tuple(value) != keys or tuple(map(type, value)) != types:  # 1 == True == 1.0
                return False
            children = value.values()
        elif len(value) != keys:
            return False
        for own, child in zip(plans, children):
            if own is None:
                if tag in _SEQUENCES:
                    self._values.append("null")
            elif not self._follow(own, child):
                return False
        return True


class StructureError(ValueError):
    """A structure or value that was not written by `take_apart`."""


def take_apart(state: Mapping[Any, Any], is_skipped: Callable[[str], bool]) -> Parts:
    """Split a nested state: mappings, lists, tuples, tensors, numbers, strings, bytes, None.

    is_skipped: by name; what it says yes to is left out: None takes its place in a sequence.

    What comes back has the same type: subclasses of numbers, strings and arrays are other objects,
    but for numpy's scalars and memory maps; a bytearray comes back as bytes, other mappings and
    tuples as dict and tuple.

    Raises DTypeError for other objects, StateMismatchError for keys that are none of str, int,
    float, bool and None, that have the same name, or containers deeper than MAX_DEPTH.
    """
    if not isinstance(state, Mapping):
        raise DTypeError(f"a state is a mapping; got a {type(state).__name__}")
    parting = _Parting(is_skipped)
    structure = parting.container(state, None, 0)
    plain = {"d": [[name, {"t": i}] for i, name in enumerate(parting.tensors)]}
    text = "" if structure == plain else _dumped(structure)
    return Parts(text, parting.tensors, tuple(parting.values), ties=parting.ties)


def put_together(parts: Parts) -> dict[Any, Any]:
    """What was taken apart; a tensor that stood in several places is one object again.

    Raises StructureError for what `take_apart` did not write.
    """
    if not parts.structure:
        return dict(parts.tensors)
    return _Joining(list(parts.tensors.values()), parts.values, tensor_of).state(parts.structure)


def check(structure: str, n_tensors: int, values: Sequence[str]) -> None:
    """Raise StructureError if `put_together` would, without making a tensor: that takes its
    library."""
    if structure:
        _Joining([None] * n_tensors, values, check_number).state(structure)
    else:
        for text in values:
            check_value(text)


def check_value(text: str) -> None:
    """Raise StructureError for what is no value."""
    _told(_loaded(text), 0, check_number)


def value_names(structure: str) -> list[str]:
    """Names of the values in a structure, in order."""
    found: list[str] = []

    def visit(node: Any, name: str | None) -> None:
        ((tag, content),) = node.items()
        if tag == "v":
            found.append(name or "")
        elif tag in _MAPPINGS:
            for key, child in content:
                visit(child, _joined(name, str(_told(key, 0, check_number))))
        elif tag in _SEQUENCES:
            for i, child in enumerate(content):
                visit(child, _joined(name, str(i)))

    if structure:
        visit(_loaded(structure), None)
    return found


def leaves(state: Any, name: str | None = None) -> Iterator[tuple[str, Any]]:
    """Name and value of all that is no container, tensors in several places each time."""
    tag = "" if is_tensor(state) else _tag(state)
    if not tag:
        yield name or "", state
        return
    for _, own, child in _children(state, tag, name):
        yield from leaves(child, own)


class _Parting:
    """Takes apart; see `take_apart`."""

    def __init__(self, is_skipped: Callable[[str], bool]) -> None:
        self.is_skipped = is_skipped
        self.tensors: dict[str, Any] = {}
        self.values: list[str] = []
        self.ties: dict[str, list[str]] = {}
        self._known: dict[Hashable, tuple[int, str]] = {}

    def node(self, value: Any, name: str | None, depth: int, listed: bool) -> dict[str, Any]:
        if _in_layout(value, listed):
            return {"t": self.number(value, name)}
        if _holds_tensors(value, name, depth):
            return self.container(value, name, depth)
        self.values.append(_dumped(self.value(value, name, depth)))
        return {"v": len(self.values) - 1}

    def container(self, value: Any, name: str | None, depth: int) -> dict[str, Any]:
        tag = _tag(value)
        listed = tag in _SEQUENCES
        contents = self._contents(
            value, tag, name, lambda v, own: self.node(v, own, depth + 1, listed)
        )
        return {tag: contents}

    def value(self, value: Any, name: str | None, depth: int) -> Any:
        """As JSON: what JSON cannot tell apart is an object of one entry."""
        kind = type(value)
        if kind is float:
            return value if math.isfinite(value) else {"f": str(value)}
        if value is None or kind is bool:
            return value
        if kind is int:
            if value.bit_length() > MAX_INTEGER:
                raise DTypeError(f"{_shown(name)} is an integer of {value.bit_length()} bits")
            return value if abs(value) <= MAX_EXACT else {"i": str(value)}
        if kind is str:
            if not is_unicode(value):
                raise DTypeError(f"a text or key at {_shown(name)} is not Unicode: {value!r}"[:300])
            return value
        if kind is bytes or kind is bytearray:
            return {"b": base64.b64encode(value).decode()}
        if tag := _tag(value):
            contents = self._contents(
                value, tag, name, lambda v, own: self.value(v, own, depth + 1)
            )
            return {tag: contents}
        if is_number(value) or is_tensor(value):
            tag = "t" if is_torch(value) else "s" if is_number(value) else "a"
            dtype, data = number_of(name or "", value)
            return {tag: [dtype, base64.b64encode(data).decode()]}
        raise DTypeError(
            f"{name!r} is a {kind.__name__}; a state holds tensors, numbers, texts, bytes, "
            f"None, mappings, lists and tuples. To leave it out: policy={{{name!r}: 'skip'}}"
        )

    def _contents(
        self, value: Any, tag: str, name: str | None, convert: Callable[[Any, str], Any]
    ) -> list[Any]:
        contents: list[Any] = []
        for key, own, child in _children(value, tag, name):
            skipped = self.is_skipped(own)
            if tag in _SEQUENCES:
                contents.append(convert(None if skipped else child, own))
            elif not skipped:
                contents.append([self._key(key, name), convert(child, own)])
        return contents

    def _key(self, key: Any, name: str | None) -> Any:
        if key is None or type(key) in (str, int, float, bool):
            return self.value(key, name, 0)
        raise StateMismatchError(
            f"a key of {_shown(name)} is a {type(key).__name__}; keys are strings, numbers, "
            "booleans or None"
        )

    def number(self, value: Any, name: str | None) -> int:
        """Of a tensor: a new one, or that of the one it shares its memory with."""
        assert name is not None, "the outermost one is a mapping"
        seen = look(value)
        if shares(seen):
            number, first = self._known.setdefault(seen, (len(self.tensors), name))
            if number < len(self.tensors):
                self.ties.setdefault(first, []).append(name)
                return number
        self.tensors[name] = value
        return len(self.tensors) - 1


def _tag(value: Any) -> str:
    """The kind of a container, "" for what is none."""
    if isinstance(value, Mapping):
        own = (tag for tag, kind in _MAPPINGS.items() if tag != "d" and isinstance(value, kind))
        return next(own, "d")
    if isinstance(value, list):
        return "l"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):  # torch.Size is one as well
        return "p"
    return ""


def _children(value: Any, tag: str, name: str | None) -> Iterator[tuple[Any, str, Any]]:
    """Key, name and value of all that a container holds."""
    if tag in _SEQUENCES:
        for i, child in enumerate(value):
            yield i, _joined(name, str(i)), child
        return
    known = set()
    for key, child in value.items():
        if type(key) is int and key.bit_length() > MAX_INTEGER:
            raise StateMismatchError(
                f"a key of {_shown(name)} is an integer of {key.bit_length()} bits"
            )
        own = _joined(name, str(key))
        if own in known:
            raise StateMismatchError(f"two keys of {_shown(name)} are written {own!r}")
        known.add(own)
        yield key, own, child


def _joined(name: str | None, part: str) -> str:
    part = part.replace("~", "~0").replace("/", "~1")
    return part if name is None else f"{name}/{part}"


def _shown(name: str | None) -> str:
    return "the state" if name is None else repr(name[:80])


def _holds_tensors(value: Any, name: str | None, depth: int) -> bool:
    if depth > MAX_DEPTH:
        raise StateMismatchError(f"{_shown(name)} is more than {MAX_DEPTH} containers deep")
    tag = _tag(value)
    if not tag:
        return False
    listed = tag in _SEQUENCES
    return any(
        _in_layout(child, listed) or _holds_tensors(child, name, depth + 1)
        for child in (value if listed else value.values())
    )


def _in_layout(value: Any, listed: bool) -> bool:
    """Whether this is a tensor that the layout lists; listed: it is an element of a list or
    tuple."""
    return is_tensor(value) and not (listed and value.ndim == 0)


class _Joining:
    """Puts together; see `put_together`. convert: see `_told`."""

    def __init__(self, tensors: Sequence[Any], values: Sequence[str], convert: _Convert) -> None:
        self._tensors, self._values, self._convert = tensors, values, convert
        self._seen: set[int] = set()

    def state(self, structure: str) -> dict[Any, Any]:
        """All of it."""
        joined = self.node(_loaded(structure), 0)
        if not isinstance(joined, dict):
            raise StructureError("the outermost container is no mapping")
        return joined

    def node(self, node: Any, depth: int) -> Any:
        tag, content = _opened(node, depth)
        if tag == "v":
            text = self._indexed(self._values, content)
            if content in self._seen:  # else a small file could ask for any memory
                raise StructureError(f"value {content} stands there twice")
            self._seen.add(content)
            return _told(_loaded(text), 0, self._convert)
        if tag == "t":
            return self._indexed(self._tensors, content)
        return _filled(tag, content, self.node, depth, self._convert)

    @staticmethod
    def _indexed(found: Sequence[Any], index: Any) -> Any:
        if type(index) is not int or not 0 <= index < len(found):
            raise StructureError(f"number {index!r} of {len(found)} tensors or values")
        return found[index]


def _told(value: Any, depth: int, convert: _Convert) -> Any:
    """What `_Parting.value` made JSON of. convert: makes a tensor of a library, a dtype and bytes;
    or only checks these."""
    if not isinstance(value, dict | list):
        return value
    tag, content = _opened(value, depth)
    if tag in (*_MAPPINGS, *_SEQUENCES):
        return _filled(tag, content, lambda v, d: _told(v, d, convert), depth, convert)
    try:
        if tag in _LIBRARIES:
            dtype, data = typed(content, list)
            found = convert(_LIBRARIES[tag], dtype, base64.b64decode(data, validate=True))
            return found[()] if tag == "s" and isinstance(found, np.ndarray) else found
        if tag == "i":
            return int(content)
        if tag == "f":
            return _FLOATS[content]
        if tag == "b":
            return base64.b64decode(content, validate=True)
    except DTypeError:  # there is no torch
        raise
    except (LookupError, TypeError, ValueError) as exc:
        raise StructureError(f"{tag!r} of {str(content)[:80]!r}") from exc
    raise StructureError(f"an unknown kind {tag!r}")


def _opened(node: Any, depth: int) -> tuple[str, Any]:
    if not isinstance(node, dict) or len(node) != 1 or depth > MAX_DEPTH + 1:
        raise StructureError(f"no object of one entry, {MAX_DEPTH} deep at most")
    return next(iter(node.items()))


def _filled(
    tag: str, content: Any, fill: Callable[[Any, int], Any], depth: int, convert: _Convert
) -> Any:
    """A container of this kind. fill: from the content of a child to it. convert: see `_told`."""
    if not isinstance(content, list) or tag not in (*_MAPPINGS, *_SEQUENCES):
        raise StructureError(f"an unknown kind {tag!r}")
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](fill(child, depth + 1) for child in content)
    filled = _MAPPINGS[tag]()
    alike: Counter[int] = Counter()
    for item in content:
        if not isinstance(item, list) or len(item) != 2:
            raise StructureError("a mapping's item is no pair")
        key = _told(item[0], depth, convert)
        if type(key) is int and key.bit_length() > HASH_BITS:
            alike[hash(key)] += 1
            if alike[hash(key)] > MAX_ALIKE:
                raise StructureError(f"more than {MAX_ALIKE} keys with the same hash")
        if type(key) not in _KEYS or key in filled:
            raise StructureError("a key that is no scalar, or there twice")
        filled[key] = fill(item[1], depth + 1)
    return filled


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise StructureError(f"no JSON: {exc}"[:200]) from exc
