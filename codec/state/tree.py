"""A nested state to a structure, tensors and values, and back.

    {"model": {"w": tensor}, "epoch": 3}

    structure   {"d":[["model",{"d":[["w",{"t":0}]]}],["epoch",{"v":0}]]}
    tensors     {"model/w": tensor}
    values      ('3',)

A container belongs to the structure if a tensor is anywhere in it. Otherwise the whole container is
one value: a list that grows by a number each step does not change the structure. For the same
reason a 0-d tensor that is an element of a list or tuple is a value, stored by itself even if it
shares its memory. Names are JSON pointers (RFC 6901) without the first slash: in a key, "~" is "~0"
and "/" is "~1".
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
    Layout,
    TensorSpec,
    can_share,
    check_number,
    fingerprint,
    is_number,
    is_tensor,
    is_torch,
    is_unicode,
    number_of,
    tensor_of,
)

MAX_DEPTH = 64  # of containers; Python's JSON parser stops at about 1000
MAX_EXACT = 2**53  # other readers hold integers as float64
MAX_INTEGER = 14_000  # bits: what Python reads from a text
MAX_ALIKE = 100  # keys with the same hash in one mapping; more are an attack on the time to read it
HASH_BITS = 60  # at most two shorter integers have the same hash

_MAPPINGS: dict[str, type] = {"d": dict, "o": OrderedDict, "n": Counter}
_SEQUENCES: dict[str, type] = {"l": list, "p": tuple}
_BYTES: dict[type, str] = {bytes: "b", bytearray: "y"}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LIBRARIES = {"s": "numpy", "a": "numpy", "t": "torch"}  # of a scalar, an array, a torch tensor
_KEYS = (type(None), bool, int, float, str, bytes)


@dataclass(frozen=True)
class Parts:
    """A flattened state.

    structure: JSON, "" for a dict of the tensors by their names. tensors: name -> numpy array or
    torch tensor; tensors of the same memory, shape and strides are there once. values: JSON of
    everything else. fingerprints: `tensors.fingerprint` of each tensor, () if not computed. ties:
    name -> the other names of a tensor that stands in several places.
    """

    structure: str
    tensors: dict[str, Any]
    values: tuple[str, ...]
    fingerprints: tuple[tuple[Any, ...], ...] = field(default=(), compare=False)
    ties: Mapping[str, Sequence[str]] = field(default_factory=dict, compare=False)


Default = Callable[[Any], Any]  # as in json: what to store in place of an object


class StructureError(ValueError):
    """A structure or value that `flatten` did not write. The message says what was found."""


def flatten(state: Mapping[Any, Any], is_skipped: Callable[[str], bool]) -> Parts:
    """Split a nested state: mappings, lists, tuples, tensors, numbers, strings, bytes, None.

    Types are kept, with these exceptions. A Parameter, or another subclass of torch.Tensor that
    can be stored, comes back as a plain tensor. Every tensor comes back on the CPU and requires no
    gradient. A memory map comes back as an array. A subclass of OrderedDict, Counter, list or tuple
    comes back as that type. All other mappings, a defaultdict for example, come back as dict.

    Args:
        state: The state.
        is_skipped: Says by name what to leave out; in a sequence, None takes its place.

    Raises:
        DTypeError: The state holds another object, a named tuple for example; subclasses of
            numbers, strings and arrays are other objects, except numpy scalars and memory maps.
        StateMismatchError: A key is no str, int, float, bool or None, two names are the same, or
            containers are deeper than MAX_DEPTH.
    """
    if not isinstance(state, Mapping):
        raise DTypeError(f"a state is a mapping; got a {type(state).__name__}")
    f = _Flattener(is_skipped)
    structure = f.container(state, None, 0)
    plain = {"d": [[name, {"t": i}] for i, name in enumerate(f.tensors)]}
    text = "" if structure == plain else dumped(structure)
    return Parts(text, f.tensors, tuple(f.values), tuple(f.fingerprints), f.ties)


def converted(
    value: Any,
    default: Default,
    is_skipped: Callable[[str], bool],
    name: str | None = None,
    depth: int = 0,
) -> Any:
    """A state in which ``default`` has replaced each object that `flatten` does not take.

    What is skipped stays. Containers are new, of the types in which they come back. Raises
    StateMismatchError for containers, or objects that become others, deeper than MAX_DEPTH.
    """
    if type(value) in _KEYS or type(value) in _BYTES or is_number(value) or is_tensor(value):
        return value
    if depth > MAX_DEPTH:
        raise StateMismatchError(f"{_shown(name)} is more than {MAX_DEPTH} containers deep")
    if not (tag := _tag(value)):
        return converted(default(value), default, is_skipped, name, depth + 1)
    items = [
        (key, v if is_skipped(below) else converted(v, default, is_skipped, below, depth + 1))
        for key, below, v in _children(value, tag, name)
    ]
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](child for _, child in items)
    filled = _MAPPINGS[tag]()
    for key, child in items:  # update of a Counter would count
        filled[key] = child
    return filled


def unflatten(parts: Parts) -> dict[Any, Any]:
    """The state of these parts; a tensor that stood in several places is one object again.

    Raises StructureError for parts that `flatten` did not make.
    """
    if not parts.structure:
        return dict(parts.tensors)
    tensors = list(parts.tensors.values())
    return _Unflattener(tensors, parts.values, tensor_of).state(parts.structure)


def check(structure: str, n_tensors: int, values: Sequence[str]) -> None:
    """Raise StructureError if `unflatten` would, without making a tensor of any library."""
    if structure:
        _Unflattener([None] * n_tensors, values, check_number).state(structure)
    else:
        for text in values:
            check_value(text)


def check_value(text: str) -> None:
    """Raise StructureError unless a text is a value."""
    _CHECKER.value(_loaded(text), 0)


def leaf_names(structure: str) -> list[tuple[str, str, int]]:
    """Name of every tensor and value in a structure, "t" or "v", and its number, in order."""
    leaves: list[tuple[str, str, int]] = []

    def visit(node: Any, name: str | None) -> None:
        ((tag, content),) = node.items()
        if tag in ("t", "v"):
            leaves.append((name or "", tag, content))
        for child_name, _, child in _named_children(tag, content, name):
            visit(child, child_name)

    if structure:
        visit(_loaded(structure), None)
    return leaves


def value_names(structure: str) -> list[str]:
    """Names of the values in a structure, in order."""
    return [name for name, tag, _ in leaf_names(structure) if tag == "v"]


def pruned(structure: str, selects: Callable[[str], bool], n_values: int) -> tuple[str, int]:
    """A structure without the tensors and values that are not selected.

    Args:
        structure: A structure that `check_structure` accepts, not "".
        selects: Says by name what stays.
        n_values: How many values the state has.

    Returns:
        The structure, in which numbers stay; and how many values it has behind the state's own,
        which stand for what is left out of lists and tuples.
    """
    n_left_out = 0

    def visit(node: Any, name: str | None) -> Any:
        nonlocal n_left_out
        ((tag, content),) = node.items()
        if tag in ("t", "v"):
            return node if selects(name or "") else None
        children = [
            (key, visit(child, child_name))
            for child_name, key, child in _named_children(tag, content, name)
        ]
        if all(child is None for _, child in children):
            return None
        if tag in _MAPPINGS:
            return {tag: [[key, child] for key, child in children if child is not None]}
        nodes = []
        for _, child in children:
            nodes.append({"v": n_values + n_left_out} if child is None else child)
            n_left_out += child is None
        return {tag: nodes}

    return dumped(visit(_loaded(structure), None) or {"d": []}), n_left_out


def _named_children(tag: str, content: Any, name: str | None) -> Iterator[tuple[str, Any, Any]]:
    """Name, key (None in a sequence) and node of each child of a structure's node."""
    if tag in _MAPPINGS:
        for key, child in content:
            yield _joined(name, str(_CHECKER.value(key, 0))), key, child
    elif tag in _SEQUENCES:
        for i, child in enumerate(content):
            yield _joined(name, str(i)), None, child


def describe_difference(before: Layout, now: Layout) -> str:
    """The first difference between two layouts, by name."""
    old, new = ({t.name: t for t in layout.tensors} for layout in (before, now))
    for t in now.tensors:
        if t.name not in old:
            return f"tensor {t.name!r} appeared"
    for t in before.tensors:
        if t.name not in new:
            return f"tensor {t.name!r} disappeared"
        if new[t.name] != t:
            return f"tensor {t.name!r} is {_described(new[t.name])} and was {_described(t)}"
    old_names, new_names = (
        dict.fromkeys(value_names(layout.structure)) for layout in (before, now)
    )
    for name in new_names:
        if name not in old_names:
            return f"value {name!r} appeared"
    for name in old_names:
        if name not in new_names:
            return f"value {name!r} disappeared"
    return "containers or tensors have another order or type, or share memory in another way"


def _described(t: TensorSpec) -> str:
    kind = "lossy" if t.lossy else "exact"
    family = "" if t.family.is_model else f" as {str(t.family)!r}"
    return f"{t.dtype} {list(t.shape)} of {t.library}, {kind}{family}"


def value_origins(before: str, now: str) -> tuple[int | None, ...]:
    """For each value of a new structure, the number of the old structure's value in the same place.

    A value's place is the keys and indices on the way to it. Unlike its name, the place does not
    depend on how keys are written as text.

    Args:
        before: A structure that `check_structure` accepts.
        now: Another one.

    Returns:
        As many numbers as ``now`` has values; None where ``before`` has none.
    """
    origins: dict[int, int | None] = {}

    def visit(old: Any, new: Any) -> None:
        ((tag, content),) = new.items()
        if tag == "v":
            origins[content] = old.get("v") if old else None
        elif tag != "t":
            old_children = dict(_places(old)) if old else {}
            for place, child in _places(new):
                visit(old_children.get(place), child)

    if now:
        visit(_loaded(before) if before else None, _loaded(now))
    return tuple(origins[number] for number in range(len(origins)))


def check_structure(structure: str, n_tensors: int) -> None:
    """Raise StructureError for a structure that `flatten` cannot have made.

    The values themselves are not needed, but their numbers are 0, 1, 2 and so on.
    """
    if not structure:
        return
    reader = _Unflattener([None] * n_tensors, ["null"] * structure.count('"v"'), check_number)
    reader.state(structure)
    if (n := len(reader.used)) <= max(reader.used, default=-1):
        raise StructureError(f"{n} values that are not numbered 0 to {n - 1}")


def _places(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The key (as JSON) or index of each child of a node, and the child."""
    ((tag, content),) = node.items()
    if tag in _MAPPINGS:
        yield from ((dumped(key), child) for key, child in content)
    elif tag in _SEQUENCES:
        yield from ((str(i), child) for i, child in enumerate(content))


def leaves(state: Any, name: str | None = None) -> Iterator[tuple[str, Any]]:
    """Name and value of everything that is no container; a tied tensor once for each name."""
    tag = "" if is_tensor(state) else _tag(state)
    if not tag:
        yield name or "", state
        return
    for _, child_name, child in _children(state, tag, name):
        yield from leaves(child, child_name)


def every_name(value: Any, name: str | None = None, above: tuple[int, ...] = ()) -> Iterator[str]:
    """The names of everything in a state, including containers and what a policy skips.

    Skipped parts may contain themselves or have keys that no state may have; these get no names.

    above: ids of the containers around the value.
    """
    tag = "" if is_tensor(value) else _tag(value)
    if not tag or len(above) > MAX_DEPTH or id(value) in above:
        return
    for key, child in enumerate(value) if tag in _SEQUENCES else value.items():
        if _is_short(key):
            child_name = _joined(name, str(key))
            yield child_name
            yield from every_name(child, child_name, (*above, id(value)))


class _Flattener:
    """See `flatten`."""

    def __init__(self, is_skipped: Callable[[str], bool]) -> None:
        self._is_skipped = is_skipped
        self.tensors: dict[str, Any] = {}
        self.fingerprints: list[tuple[Any, ...]] = []
        self.values: list[str] = []
        self.ties: dict[str, list[str]] = {}
        self._by_fingerprint: dict[Hashable, tuple[int, str]] = {}  # number and first name

    def container(self, value: Any, name: str | None, depth: int) -> dict[str, Any]:
        """The structure of a container."""
        tag = _tag(value)

        def node(child: Any, child_name: str) -> dict[str, Any]:
            if _in_layout(child, tag in _SEQUENCES):
                return {"t": self._number(child, child_name)}
            if self._holds_tensors(child, child_name, depth + 1):
                return self.container(child, child_name, depth + 1)
            self.values.append(dumped(self._value(child, child_name, depth + 1)))
            return {"v": len(self.values) - 1}

        return self._filled(value, tag, name, node)

    def _holds_tensors(self, value: Any, name: str, depth: int) -> bool:
        """Whether a tensor of the layout is anywhere in a value.

        Raises StateMismatchError for too many containers inside each other.
        """
        tag = "" if type(value) in _KEYS else _tag(value)
        if tag and value and depth >= MAX_DEPTH:
            raise StateMismatchError(f"{_shown(name)} is more than {MAX_DEPTH} containers deep")
        children = () if not tag else value if tag in _SEQUENCES else value.values()
        return any(
            _in_layout(child, tag in _SEQUENCES) or self._holds_tensors(child, name, depth + 1)
            for child in children
        )

    def _value(self, value: Any, name: str | None, depth: int) -> Any:
        """A value as JSON; types that JSON does not have become objects of one entry."""
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"f": str(value)}
        if kind is int:
            if value.bit_length() > MAX_INTEGER:
                raise DTypeError(f"{_shown(name)} is an integer of {value.bit_length()} bits")
            return value if abs(value) <= MAX_EXACT else {"i": str(value)}
        if kind is str:
            if not is_unicode(value):
                raise DTypeError(f"a text or key at {_shown(name)} is not Unicode: {value!r}"[:300])
            return value
        if kind is bytes or kind is bytearray:
            return {_BYTES[kind]: base64.b64encode(value).decode()}
        if tag := _tag(value):
            return self._filled(value, tag, name, lambda v, n: self._value(v, n, depth + 1))
        if is_number(value) or is_tensor(value):
            tag = "t" if is_torch(value) else "s" if is_number(value) else "a"
            dtype, data = number_of(name or "", value)
            return {tag: [dtype, base64.b64encode(data).decode()]}
        raise DTypeError(
            f"{name!r} is a {kind.__name__}; a state holds tensors, numbers, texts, bytes, "
            f"None, mappings, lists and tuples. To leave it out: policy={{{name!r}: 'skip'}}; to "
            "store something in its place: default=, as in json.dumps"
        )

    def _number(self, value: Any, name: str | None) -> int:
        """The number of a tensor: a new one, or that of the tensor whose memory it shares."""
        assert name is not None, "the outermost container is a mapping"
        mark = fingerprint(value)
        if can_share(mark):
            number, first = self._by_fingerprint.setdefault(mark, (len(self.tensors), name))
            if number < len(self.tensors):
                self.ties.setdefault(first, []).append(name)
                return number
        self.tensors[name] = value
        self.fingerprints.append(mark)
        return len(self.tensors) - 1

    def _filled(
        self, value: Any, tag: str, name: str | None, convert: Callable[[Any, str], Any]
    ) -> dict[str, Any]:
        contents: list[Any] = []
        for key, child_name, child in _children(value, tag, name):
            skipped = self._is_skipped(child_name)
            if tag in _SEQUENCES:
                contents.append(convert(None if skipped else child, child_name))
            elif not skipped:
                if type(key) not in _KEYS or type(key) is bytes:
                    raise StateMismatchError(
                        f"a key of {_shown(name)} is a {type(key).__name__}; keys are strings, "
                        "numbers, booleans or None"
                    )
                contents.append([self._value(key, name, 0), convert(child, child_name)])
        return {tag: contents}


def _tag(value: Any) -> str:
    """The kind of a container, "" for other objects."""
    if isinstance(value, Mapping):
        return "o" if isinstance(value, OrderedDict) else "n" if isinstance(value, Counter) else "d"
    if isinstance(value, list):
        return "l"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):  # torch.Size is a tuple too
        return "p"
    return ""


def _children(value: Any, tag: str, name: str | None) -> Iterator[tuple[Any, str, Any]]:
    """Key, name and value of each item of a container."""
    if tag in _SEQUENCES:
        for i, child in enumerate(value):
            yield i, _joined(name, str(i)), child
        return
    names = set()
    for key, child in value.items():
        if type(key) is int and key.bit_length() > MAX_INTEGER:
            raise StateMismatchError(
                f"a key of {_shown(name)} is an integer of {key.bit_length()} bits"
            )
        child_name = _joined(name, str(key))
        if child_name in names:
            raise StateMismatchError(
                f"two keys of {_shown(name)} are written {child_name!r}: {key!r} and one of "
                "another type; rename one of them"
            )
        names.add(child_name)
        yield key, child_name, child


def _is_short(key: Any) -> bool:
    """Whether a value can be a key whose text is not too long."""
    return type(key) in _KEYS and not (type(key) is int and key.bit_length() > MAX_INTEGER)


def _joined(name: str | None, part: str) -> str:
    part = part.replace("~", "~0").replace("/", "~1")
    return part if name is None else f"{name}/{part}"


def _shown(name: str | None) -> str:
    return "the state" if name is None else repr(name[:80])


def _in_layout(value: Any, listed: bool) -> bool:
    """Whether this is a tensor of the layout. listed: it is an element of a list or tuple."""
    return is_tensor(value) and not (listed and value.ndim == 0)


class _Unflattener:
    """See `unflatten`. convert: makes a tensor of a library, dtype and bytes, or checks them."""

    def __init__(
        self,
        tensors: Sequence[Any],
        values: Sequence[str],
        convert: Callable[[str, str, bytes], Any],
    ) -> None:
        self._tensors, self._values, self._convert = tensors, values, convert
        self.used: set[int] = set()

    def state(self, structure: str) -> dict[Any, Any]:
        """The whole state."""
        state = self._node(_loaded(structure), 0)
        if not isinstance(state, dict):
            raise StructureError("an outermost container that is not a mapping")
        return state

    def value(self, value: Any, depth: int) -> Any:
        """The value from the JSON that `_Flattener.value` made."""
        if not isinstance(value, dict | list):
            return value
        tag, content = _entry(value, depth)
        if tag in (*_MAPPINGS, *_SEQUENCES):
            return self._filled(tag, content, self.value, depth)
        try:
            if tag in _LIBRARIES:
                dtype, data = typed(content, list)
                data = base64.b64decode(data, validate=True)
                tensor = self._convert(_LIBRARIES[tag], dtype, data)
                return tensor[()] if tag == "s" and isinstance(tensor, np.ndarray) else tensor
            if tag == "i":
                return int(content)
            if tag == "f":
                return _FLOATS[content]
            if tag in _BYTES.values():
                data = base64.b64decode(content, validate=True)
                return data if tag == _BYTES[bytes] else bytearray(data)
        except DTypeError:  # torch is missing
            raise
        except (LookupError, TypeError, ValueError) as exc:
            raise StructureError(f"{tag!r} of {str(content)[:80]!r}") from exc
        raise StructureError(f"an unknown kind {tag!r}")

    def _node(self, node: Any, depth: int) -> Any:
        tag, content = _entry(node, depth)
        if tag not in ("v", "t"):
            return self._filled(tag, content, self._node, depth)
        numbered = self._values if tag == "v" else self._tensors
        if type(content) is not int or not 0 <= content < len(numbered):
            raise StructureError(f"number {content!r} of {len(numbered)} tensors or values")
        if tag == "t":
            return numbered[content]
        if content in self.used:  # else a small file could ask for any amount of memory
            raise StructureError(f"value {content} is used twice")
        self.used.add(content)
        return self.value(_loaded(numbered[content]), 0)

    def _filled(self, tag: str, content: Any, fill: Callable[[Any, int], Any], depth: int) -> Any:
        """A container. fill: makes a child from its node and depth."""
        if not isinstance(content, list) or tag not in (*_MAPPINGS, *_SEQUENCES):
            raise StructureError(f"an unknown kind {tag!r}")
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](fill(child, depth + 1) for child in content)
        filled = _MAPPINGS[tag]()
        by_hash: Counter[int] = Counter()
        for item in content:
            if not isinstance(item, list) or len(item) != 2:
                raise StructureError("an item of a mapping that is not a pair")
            key = self.value(item[0], depth)
            if type(key) is int and key.bit_length() > HASH_BITS:
                by_hash[hash(key)] += 1
                if by_hash[hash(key)] > MAX_ALIKE:
                    raise StructureError(f"more than {MAX_ALIKE} keys with the same hash")
            if type(key) not in _KEYS or key in filled:
                raise StructureError("a key that is not a scalar, or occurs twice")
            filled[key] = fill(item[1], depth + 1)
        return filled


_CHECKER = _Unflattener((), (), check_number)


def _entry(node: Any, depth: int) -> tuple[str, Any]:
    if not isinstance(node, dict) or len(node) != 1 or depth > MAX_DEPTH + 1:
        raise StructureError(f"no object of one entry, or more than {MAX_DEPTH} containers deep")
    return next(iter(node.items()))


def dumped(value: Any) -> str:
    """Compact JSON. Raises ValueError for NaN and infinity."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise StructureError(f"no JSON: {exc}"[:200]) from exc
