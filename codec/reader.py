"""Restores any step of an lcviz chain. This file needs numpy, and no other part of lcviz.

    python reader.py run.lcc                                        lists the steps
    python reader.py run.lcc.zip --step 40 -o step40.safetensors    without --step: the newest

    import reader
    state = reader.read("run.lcc", step=40)

The written file has every tensor in its own dtype, by its name: "optimizer/state/0/exp_avg". In its
`__metadata__`, `step` is the step, and `state` the whole nested state as JSON: a structure as in
FORMAT.md, with names of tensors, and values themselves, in place of their numbers. C32 and C128,
for which such files have no dtype, are there as in a record.

`read` returns the state as it was saved, with every tensor as a numpy array. For BF16, C32 and F8,
which numpy lacks, that is an array of their bits, and `array.dtype.metadata["dtype"]` the dtype.

In a checkout run `python -m codec.reader`: to Python, the modules beside this file hide its own.

Digests are compared where the packages blake3 and xxhash are installed. Whatever cannot be read
raises ReadError, whose message names the file.

The code is in the order in which data flow: files, header, alphabets, tokens, codes, levels, track,
state. § names a section of FORMAT.md.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import math
import re
import sys
import warnings
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

VERSIONS = ("3",)  # of the format

# Dtypes of a record's arrays, and those of other tensors' bits.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "C64": "<c8", "BOOL": "?"}
DTYPES |= {f"{kind.upper()}{8 * n}": f"<{kind}{n}" for kind in "iu" for n in (1, 2, 4, 8)}
F8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0")
CARRIERS = {"BF16": "U16", "C32": "U32", "C128": "F64"} | dict.fromkeys(F8, "U8")
LARGEST = {"F32": math.inf, "F16": 65504.0, "BF16": 2.0**128 - 2.0**120}  # of the lossy dtypes
# Residuals: bits of an element, and bits of mantissa of those that are floats.
WIDTHS = {"BOOL": 8, "BF16": 16, "C128": 64, "C64": 32, "C32": 16} | dict.fromkeys(F8, 8)
MANTISSAS = {"F64": 52, "F32": 23, "F16": 10, "BF16": 7, "C128": 52, "C64": 23, "C32": 10}
MANTISSAS |= dict(zip(F8, (3, 2, 3, 2)))

Array = NDArray[Any]
T = TypeVar("T")


class ReadError(Exception):
    """A chain that cannot be read. The message is a sentence that names the file."""


def need(value: T | None, problem: str) -> T:
    """The value, unless it is false: then ReadError."""
    if not value:
        raise ReadError(problem)
    return value


@contextmanager
def naming(where: object) -> Iterator[None]:
    """Name a file in every error, also in those that Python and numpy raise for damaged data."""
    try:
        yield
    except (ReadError, OSError, zipfile.BadZipFile) as exc:
        raise ReadError(f"{where}: {getattr(exc, 'strerror', None) or exc}") from exc
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as exc:
        raise ReadError(f"{where}: is malformed ({type(exc).__name__}: {exc})") from exc


def _package(name: str) -> Any:
    with suppress(ImportError):
        return importlib.import_module(name)
    return None


blake3, xxhash = map(_package, ("blake3", "xxhash"))


# Files: § A chain


class Chain:
    """A directory of records, or an archive.

    Attributes:
        files: Step, whether it is a base, and name of all records, in this order.
        steps: The steps that they hold, rising.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self._archive = Path(path), None
        with naming(path):
            if self.path.is_dir():
                names = [file.name for file in self.path.iterdir()]
            else:
                self._archive = zipfile.ZipFile(self.path)
                names = self._archive.namelist()
            need(len(set(names)) == len(names), "has a member twice")
            found = (re.fullmatch(r"(\d{8,})\.(base|delta)\.safetensors", name) for name in names)
            self.files = sorted((int(f[1]), f[2] == "base", f[0]) for f in found if f)
            need(self.files, "holds no records")
        self.steps = sorted({step for step, *_ in self.files})

    def track(self, step: int | None = None) -> Track:
        """The track of a step; None for the newest."""
        last = self.steps[-1] if step is None else step
        need(last in self.steps, f"{self.path}: has no step {last}")
        if not (blake3 and xxhash):
            warnings.warn("digests are unchecked without blake3 and xxhash", stacklevel=3)
        bases = [at for at, is_base, _ in self.files if is_base and at <= last]
        base = need(bases, f"{self.path}: has no base up to step {last}")[-1]
        track, archive = Track(), self._archive
        for at, is_base, name in self.files:
            path = self.path / name
            if at < base or at > last or is_base != (at == base):
                continue
            with naming(path):
                record = record_of(archive.read(name) if archive else path.read_bytes())
                need((record.step, record.is_base) == (at, is_base), "has the name of another")
                if is_base or at == last or record.parent == track.identity:
                    track.advance(record)
        return track


# The header of a record: § A record


class Record(NamedTuple):
    """A record.

    scope: "m" or "t", of a delta. track: the digest of the track after it. identity: what the next
    record names as its parent.
    """

    step: int
    is_base: bool
    scope: str
    parent: str
    track: str
    identity: str
    fields: dict[str, Any]
    arrays: dict[str, Array]


def record_of(data: bytes) -> Record:
    """The record in a file. Its arrays are parts of data."""
    body = 8 + int.from_bytes(data[:8], "little")
    need(8 < body <= len(data), "is cut off")
    line = rb'\{"__metadata__":\{"lcc":"([ !#-\[\]-~]*) ([\w-]{22})"\}[,}]'
    found = need(re.match(line, data[8:body]), "is no record of lcviz")
    words, digest, at = found[1].decode().split(" "), found[2].decode(), 8 + found.start(2)
    if blake3:
        hashed = blake3.blake3(data[:at]).update(b"A" * 22).update(memoryview(data)[at + 22 :])
        need(in_base64(hashed.digest()[:16]) == digest, "is damaged: it has another digest")
    need(words[0] in VERSIONS, f"has format {words[0]}; this reader knows {VERSIONS[-1]}")
    is_base = words[1] == "b"
    words[3:4] = [] if is_base else words[3:4]  # the run
    _, letters, step, parent, track, *keep = words
    good = re.fullmatch("b|d[mt][rhc]", letters) and len(keep) in ((0,) if is_base else (1, 2))
    need(good, "has a line of other words")
    header = parsed(data[8:body])
    del header["__metadata__"]
    arrays, end = {}, body
    for name, view in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, begin = np.dtype(DTYPES[view["dtype"]]), end
        end += math.prod(view["shape"]) * dtype.itemsize
        need(view["data_offsets"] == [begin - body, end - body], f"has no room for {name}")
        need(end <= len(data), "is cut off")
        arrays[name] = np.ndarray(view["shape"], dtype, data, begin)
    need(end == len(data), "goes on behind its arrays")
    fields = parsed(text_of(arrays.pop("more", None)) or "{}")
    scope, identity = letters[1:2], fields.get("replaces", digest)
    return Record(int(step), is_base, scope, parent, track, identity, fields, arrays)


def in_base64(data: bytes) -> str:
    """Bytes in base64 as it is used for digests."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def parsed(text: str | bytes) -> Any:
    """JSON whose objects have no key twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        need(len(dict(pairs)) == len(pairs), "has a key twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once)


def text_of(array: Array | None) -> str:
    """The text in an array, "" if it is missing."""
    return Cursor(array).data.tobytes().decode("ascii")


class Cursor:
    """Reads an array of bytes from its begin to its end. None: a missing array."""

    def __init__(self, array: Array | None) -> None:
        self.data, self.at = np.zeros(0, np.uint8) if array is None else array, 0
        need(self.data.dtype == "u1" and self.data.ndim == 1, "has an array that is no bytes")

    def take(self, n: int, dtype: str = "u1") -> Array:
        """The next n numbers."""
        begin, self.at = self.at, self.at + n * int(dtype[1])
        need(self.at <= self.data.size, "has an array that ends early")
        return np.frombuffer(self.data[begin : self.at].tobytes(), f"<{dtype}")

    def varint(self, most: int) -> int:
        """The next number of 7 bits a byte, of at most so many bytes."""
        need(most, "has a number of too many bytes")
        byte = int(self.take(1)[0])
        return byte if byte < 128 else byte - 128 + (self.varint(most - 1) << 7)

    def finish(self) -> None:
        """Nothing may be left."""
        need(self.at == self.data.size, "has bytes that nothing needs")


# Alphabets: § Alphabets


class Tensor(NamedTuple):
    """An entry of a layout."""

    name: str
    dtype: str
    shape: list[int]
    lossy: bool
    library: str
    family: str

    @property
    def carrier(self) -> str:
        """The dtype of its array in the track."""
        return "F32" if self.lossy else CARRIERS.get(self.dtype, self.dtype)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape of that array."""
        return (*self.shape, 2) if self.dtype == "C128" else tuple(self.shape)

    def fitted(self, array: Array) -> Array:
        """A copy of its array in a record."""
        fits = (array.dtype, array.shape) == (DTYPES[self.carrier], self.stored_shape)
        need(fits, f"has another dtype or shape of {self.name}")
        return array.copy()


def layout_of(entries: Sequence[Sequence[Any]]) -> list[Tensor]:
    """A layout, from its JSON."""
    layout = [Tensor(*entry) for entry in entries]
    for t in layout:
        known = t.dtype in (LARGEST if t.lossy else DTYPES | CARRIERS)
        need(known and all(n >= 0 for n in t.shape), f"has no description of {t.name}")
    need(len({t.name for t in layout}) == len(layout), "has two tensors of one name")
    return layout


def alphabets_of(layout: list[Tensor], scope: str, left_out: Sequence[str]) -> list[list[Tensor]]:
    """The tensors of each alphabet."""
    groups: dict[tuple[bool, str], list[Tensor]] = {}
    for t in layout:
        if t.lossy and t.name not in left_out:
            alone = scope == "t" and not measure_of(t)
            groups.setdefault((alone, t.name if alone else t.family), []).append(t)
    return list(groups.values())


def measure_of(t: Tensor) -> str:
    """What the steps of an optimizer's moments are in; "" for other tensors."""
    target, _, name = t.family.partition(" ")
    measure, _, step = target.partition("=")
    if not name or measure not in ("octaves", "roots", "sizes"):
        return ""
    try:
        return measure if repr(float(step)) == step else ""
    except ValueError:
        return ""


class Head(NamedTuple):
    """A head without its levels. streams: bits of each stream, in context codes bytes."""

    k: int
    uniform: bool
    classes: int
    units: int
    words: Words | None
    streams: list[int]


def head_of(left: Cursor, n: int, name: str, tables: dict[str, Words] | None) -> Head:
    """The next head, of n elements. tables: those sent last, updated; None in a residual."""
    k, classes, units, nbytes = left.take(6).view("<u2,u1,u1,<u2")[0].item()
    uniform = k >= 32768
    k -= 32768 * uniform
    words, streams = None, list[int]()
    if classes == 254:
        need(tables is not None and k > 1 and units in (1, 8), "has a context code out of place")
        end = left.at + nbytes
        while left.at < end:
            streams.append(left.varint(5))
        need(left.at == end, "has a context code out of place")
    elif classes == 0:
        need(nbytes == 0 < k <= (1 if tables is None else 2), "has codes without code words")
    else:
        need(classes <= 84 and k > 1 and 1 <= units <= 32, f"has a head of {classes} classes")
        if nbytes:
            words = Words.unpacked(left.take(nbytes), k, classes, uniform or tables is None)
        words = need(words or (tables or {}).get(name), "has no code table sent last")
        if tables is not None:
            tables[name] = words
        same = words.classes == classes and (classes > 1 or words.k == k)
        need(same, "has another code table sent last")
        streams = left.take(-(-n // (65536 * units)), "u4").tolist()
    return Head(k, uniform, classes, units, words, streams)


class Words:
    """A code table: § Tables, § Code words.

    Attributes:
        bits: Of the longest word.
        entries, lengths: Of the word that a stream begins with, by its next bits.
    """

    def __init__(self, lengths: Array, k: int, classes: int) -> None:
        self.k, self.classes = k, classes
        self.bits, used = int(lengths.max()), np.flatnonzero(lengths)
        used = used[np.argsort(lengths[used], kind="stable")]
        places = 1 << (self.bits - lengths[used])
        need(used.size and places.sum() == 1 << self.bits, "has a code table that is no code")
        # A word's first bit comes first, a number's lowest bit.
        number = np.arange(1 << self.bits)
        word = sum((number >> i & 1) << (self.bits - 1 - i) for i in range(self.bits))
        self.entries = np.repeat(used, places)[word]
        self.lengths = lengths[self.entries]

    @classmethod
    def unpacked(cls, packed: Array, k: int, classes: int, limited: bool) -> Words:
        """The code table in these bytes."""
        n = 1 + (min(k - 1, 4095 // classes) if limited and classes > 1 else k - 1) * classes
        need(n <= 4096, "has a code table of too many lengths")
        return cls(np.array(code_lengths(packed, n)), k, classes)


TABLE_ITEM = re.compile("0000(....)|011(0*)1|1|010|001|0001[01]")
TABLE_CHANGE = {"1": 0, "010": 1, "001": -1, "00010": 2, "00011": -2}


def code_lengths(packed: Array, n: int) -> list[int]:
    """The n lengths in a table."""
    bits = "".join(map(str, np.unpackbits(packed, bitorder="little")))
    end = max(bits.rfind("1") + 1, len(bits) - 7)  # fewer than 8 zeros only fill the last byte
    problem, lengths, at, last = "has a damaged code table", list[int](), 0, 8
    while at < end:
        item = need(TABLE_ITEM.match(bits, at), problem)
        at = item.end()
        if item[2] is None:
            last = int(item[1][::-1], 2) if item[1] else last + TABLE_CHANGE[item[0]]
            need(1 <= last <= 15, problem)
            lengths.append(last)
        else:
            digits, at = bits[at : at + len(item[2])], at + len(item[2])
            need(at <= len(bits) and len(digits) <= 12, problem)
            lengths += [0] * int(f"1{digits[::-1]}", 2)
    need(len(lengths) <= n, "has a code table of too many lengths")
    return lengths + [0] * (n - len(lengths))


# Tokens: § Streams, § Tokens

CLASSES = np.arange(252)  # enough for 64 bits
EXTRA_BITS = np.where(CLASSES < 16, 0, CLASSES // 4 - 2)
FIRST = np.where(CLASSES < 16, CLASSES, (4 + CLASSES % 4) << EXTRA_BITS)  # number of a class


class Bits:
    """The bits of a stream; it reads numbers at many positions at once."""

    def __init__(self, data: Array) -> None:
        self._bytes = np.concatenate([data, np.zeros(16, np.uint8)])
        self.words = np.ndarray(data.size + 8, "<u8", self._bytes, strides=(1,)).copy()  # by byte

    def numbers(self, at: Array, n: Array | int) -> Array:
        """The numbers of n bits, at most 62, at these positions."""
        byte, shift = np.minimum(at >> 3, self.words.size - 1), (at & 7).astype(np.uint64)
        high = self._bytes[byte + 8].astype(np.uint64) << (63 - shift) << 1
        mask = (np.uint64(1) << np.asarray(n, np.uint64)) - np.uint64(1)
        return ((self.words[byte] >> shift | high) & mask).astype(np.int64)


class Tokens:
    """Reads streams of code words.

    The bits of a token say where it ends. So its length is looked up at every bit of a stream,
    whether a token begins there or not, and only the walk from token to token is a loop.

    own: How many extra bits a symbol has behind those of its run, by symbol.
    """

    def __init__(self, words: Words, k: int, own: Array | None = None) -> None:
        self._words, self._k = words, k
        self._own = np.zeros(k, np.int64) if own is None else own
        self._symbol_bits = (k - 2).bit_length()  # behind an escape
        symbols, kinds = self._parts(words.entries)
        lengths = words.lengths + EXTRA_BITS[kinds] + self._own[np.minimum(symbols, k - 1)]
        is_escape = (words.classes > 1) & (words.entries == 0)
        self._lengths = np.where(is_escape, 0, lengths).astype(np.uint8)

    def _parts(self, entries: Array) -> tuple[Array, Array]:
        """Symbols and classes of a table's entries."""
        if (classes := self._words.classes) == 1:
            return entries, np.zeros_like(entries)
        return 1 + (entries - 1) // classes, (entries - 1) % classes

    def read(self, data: Array, nbits: int) -> tuple[Array, Array, Array, Bits]:
        """Symbols of the tokens, runs before them, where their own bits begin, and all bits."""
        bits, lengths = Bits(data), np.empty((data.size, 8), np.uint8)
        need(not bits.numbers(np.arange(nbits, 8 * data.size), 1).any(), "has bits of no stream")
        low, mask = bits.words[: data.size].astype(np.uint32), (1 << self._words.bits) - 1
        for shift in range(8):
            lengths[:, shift] = self._lengths[low >> shift & mask]
        every = lengths.reshape(-1)[:nbits]
        escapes = np.flatnonzero(every == 0)
        symbols, kinds, ends = self._at(bits, escapes)
        own = self._own[np.minimum(symbols, self._k - 1)]
        every[escapes] = ends + EXTRA_BITS[kinds] + own - escapes
        symbols, kinds, runs_at = self._at(bits, walk(every.tobytes(), nbits))
        need(symbols.max(initial=0) < self._k, "has a symbol beyond the last")
        need(kinds.max(initial=0) < 84, "has a run of an unknown class")
        extra = EXTRA_BITS[kinds]
        return symbols, FIRST[kinds] + bits.numbers(runs_at, extra), runs_at + extra, bits

    def _at(self, bits: Bits, at: Array) -> tuple[Array, Array, Array]:
        """Symbols and classes of tokens at these positions, and where the extra bits begin."""
        index = bits.numbers(at, self._words.bits)
        symbols, kinds = self._parts(entries := self._words.entries[index])
        ends = at + self._words.lengths[index]
        if self._words.classes > 1:
            escaped = np.flatnonzero(entries == 0)
            kinds[escaped] = bits.numbers(ends[escaped], 7)
            symbols[escaped] = 1 + bits.numbers(ends[escaped] + 7, self._symbol_bits)
            ends[escaped] += 7 + self._symbol_bits
        return symbols, kinds, ends


def walk(lengths: bytes, end: int) -> Array:
    """Where tokens begin. lengths: of the token at each bit, whether one begins there or not."""
    found, at = list[int](), 0
    while at < end:
        found.append(at)
        at += lengths[at]
    need(at == end, "has a stream that ends within a token")
    return np.array(found, np.int64)


Streams = Iterator[tuple[Array, Array, Array, Bits]]


def read_streams(head: Head, left: Cursor, sizes: list[int], own: Array | None = None) -> Streams:
    """Symbols of each stream, places of their elements in it, their own bits, and all bits.

    sizes: elements of each stream.
    """
    tokens = Tokens(need(head.words, "has no code words"), head.k, own)
    for size, nbits in zip(sizes, head.streams, strict=True):
        symbols, runs, at, bits = tokens.read(left.take(4 * -(-nbits // 32)), nbits)
        places = np.cumsum(runs + 1) - 1
        whole = places.size == size if head.classes == 1 else places.max(initial=-1) < size
        need(whole, "has a stream of another number of elements")
        yield symbols, places, at, bits


# Codes: § A context code


def codes_of(head: Head, levels: Array, tensors: list[Array], left: Cursor) -> Array:
    """The code of each element, from the next payload."""
    n, e = sum(array.size for array in tensors), 65536 * head.units
    if head.classes == 254:
        return context_codes(head, levels, tensors, left)
    if head.classes == 0:
        return np.full(n, head.k - 1)
    codes, begins = np.zeros(n, np.int64), range(0, n, e)
    streams = read_streams(head, left, [min(e, n - begin) for begin in begins])
    for begin, (symbols, places, *_) in zip(begins, streams):
        codes[begin + places] = symbols
    return codes


def context_codes(head: Head, levels: Array, tensors: list[Array], left: Cursor) -> Array:
    """The same from streams of context codes."""
    code_of, signs = dict[int, int](), dict[int, bool]()
    weights = [min(a, 31) if head.uniform or a == 0 else 2 ** min(a - 1, 6) for a in range(2**15)]
    if not head.uniform:
        bits = levels[1:].view(np.uint32)
        ranks = 1 + np.unique(bits >> 23 & 255, return_inverse=True)[1]
        numbers = [0, *np.where(bits >> 31, -ranks, ranks).tolist()]
        code_of = dict(zip(numbers, range(head.k)))
        need(len(code_of) == head.k, "has two levels of one magnitude")
        signs = {abs(q): q < 0 for q in code_of if -q not in code_of}
    codes = list[int]()
    for matrices, nbytes in zip(streams_of(tensors), head.streams, strict=True):
        stream = ContextCode(left.take(nbytes).tobytes(), head.units, weights, signs)
        for q in stream.read(matrices):
            codes.append(code_of[q] if code_of else 2 * q - 1 if q > 0 else -2 * q)
    need(max(codes, default=0) < head.k, "has a symbol beyond the last")
    return np.array(codes, np.int64)


COLUMNS, STREAM = 2**15, 2**18  # most columns of a matrix; elements of a stream, or a row more


def streams_of(tensors: list[Array]) -> list[list[tuple[int, int]]]:
    """Rows and columns of the matrices in each stream."""
    short = list[tuple[int, int]]()
    for array in tensors:
        rows, columns = array.shape[0] if array.shape else 1, math.prod(array.shape[1:])
        rows, columns = (1, rows) if columns == 1 else (rows, columns)
        widths = [min(COLUMNS, columns - x) for x in range(0, columns, COLUMNS)]
        short += [(rows, columns)] if len(widths) == 1 else [(1, w) for w in widths] * rows
    streams, room = [list[tuple[int, int]]()], STREAM
    for rows, columns in short:
        while rows and columns:
            if room <= 0:
                streams.append([])
                room = STREAM
            here = min(rows, -(-room // columns))
            streams[-1].append((here, columns))
            rows, room = rows - here, room - here * columns
    return streams


def logarithm(v: int) -> int:
    """L."""
    p = v.bit_length() - 1
    return 16 * p + (16 * v >> p) - 16


def sign(q: int) -> int:
    """-1, 0 or 1."""
    return (q > 0) - (q < 0)


FIRST_CHANCE = [min(max(65536 * 2**a // (2**a + 2896), 200), 65000) for a in range(24)]  # F
RATES = [131072 // (2 * n + 3) for n in range(61)]  # r
OCTETS = [chance for chance in FIRST_CHANCE for _ in range(9)]
# Of each row of the table of decisions: the chances of its contexts at first, and n.
CONTEXTS = [([32768] * 75, 0), (OCTETS, 2)]
CONTEXTS += [([*OCTETS, *(max(chance, 9830) for chance in OCTETS), *OCTETS], 2)]
CONTEXTS += [([20000] * 576, 0), ([20000] * 312, 0), ([32768] * 42, 0), ([32768] * 27, 0)]
BEGINS = accumulate((len(chances) for chances, _ in CONTEXTS[:-1]), initial=0)
ROW, OCTET, ABOVE_0, ABOVE, SIZE, BIT, SIGN = BEGINS


class ContextCode:
    """A stream of a context code.

    Args:
        code: Its bytes.
        units: 8 for octets, or 1.
        weights: m, by |q|.
        signs: Of each |q| that levels of one sign have, whether they are negative.
    """

    def __init__(self, code: bytes, units: int, weights: list[int], signs: Mapping[int, bool]):
        need(code[-1:] != b"\0", "has a context code with bytes that nothing needs")
        self._units, self._weights, self._signs = units, weights, signs
        self._chances = [chance for chances, _ in CONTEXTS for chance in chances]
        self._uses = [n for chances, n in CONTEXTS for _ in chances]
        self._left, self._span = iter(code), 2**40
        self._window = int.from_bytes(bytes(next(self._left, 0) for _ in range(5)), "big")

    def decide(self, context: int) -> bool:
        """The next decision."""
        span, window = self._span, self._window
        bound = (span >> 16) * self._chances[context]
        if one := window >= span - bound:
            span, window = bound, window - span + bound
        else:
            span -= bound
        while span < 2**32:
            span, window = span << 8, window << 8 | next(self._left, 0)
        self._span, self._window = span, window
        self._learn(context, one)
        return one

    def _learn(self, context: int, one: bool) -> None:
        """The more often a context was used, the more slowly its chance changes."""
        chance, n = self._chances[context], self._uses[context]
        chance += ((65536 if one else 0) - chance) * RATES[n] >> 16
        self._chances[context] = min(max(chance, 32), 65504)
        self._uses[context] = min(n + 1, 60)

    def read(self, matrices: list[tuple[int, int]]) -> list[int]:
        """q of all elements."""
        found, mean = list[int](), 205
        for rows, columns in matrices:
            mean = self._matrix(rows, columns, mean, found)
        need(next(self._left, None) is None, "has a context code with bytes that nothing needs")
        return found

    def _matrix(self, rows: int, w: int, mean: int, found: list[int]) -> int:
        """Append q of a matrix. mean: M of its first row; returns that of the row behind it."""
        self._w, self._octets = w, self._units == 8 and w > 8
        self._sums, self._agreed = [0] * w, [0] * w  # C and H of each column
        self._above, self._counts = [0] * w, [0] * w  # t, at the octet's first column
        self._columns = [logarithm(j + 2) for j in range(w)]
        changing, changes = 0, 2
        for i in range(rows):
            if i & (i - 1) == 0:
                self._means, self._octet_means = [mean] * w, [mean] * w  # N
            if w >= 8:
                f = logarithm(4096 * changing // (i + 1) + 1) >> 3
                changes = int(self.decide(ROW + 3 * f + changes))
                changing += changes
            self._above = self._row(i, mean) if changes else [0] * w
            found += self._above
            mean = max(sum(self._sums) * 4096 // ((i + 1) * w), 1)
        return mean

    def _row(self, i: int, mean: int) -> list[int]:
        """q of the next row, which changes."""
        w, row, counts = self._w, [0] * self._w, [0] * self._w
        self._g, in_row, sums = 0, 0, self._sums
        rest = logarithm(i + 2) + logarithm(mean)
        ahead = logarithm(2 * mean) - rest  # L(4096 R + 2 M) and what is the same for all columns
        for j in range(w):
            begin = j & -8
            if self._octets and j == begin:
                end = min(j + 8, w)
                both = 4096 * sum(sums[j:end]) + 2 * self._octet_means[j] * (end - j)
                b = min(max((ahead + logarithm(both) - self._columns[j]) >> 4, 0), 23)
                v = counts[j - 8] if j else 0
                is_open = self.decide(OCTET + 9 * b + 3 * v + self._counts[j])
            if self._octets and not is_open:
                continue
            g = 0 if not self._octets else 2 if counts[begin] else 1
            both = 4096 * sums[j] + 2 * self._means[j]
            a = min(max((ahead + logarithm(both) - self._columns[j]) >> 4, 0), 23)
            left, up = row[j - 1] if j else 0, self._above[j]
            if not (g == 1 and j == end - 1):
                context = 9 * (24 * g + a) + 3 * min(abs(left), 2) + min(abs(up), 2)
                if not self.decide(ABOVE_0 + context):
                    continue
            q = row[j] = self._element(a, left, up, self._agreed[j])
            counts[begin] = min(counts[begin] + 1, 2)
            self._means[j] = self._octet_means[begin] = mean
            sums[j] += self._weights[abs(q)]
            in_row += self._weights[abs(q)]
            ahead = logarithm(4096 * in_row + 2 * mean) - rest
        self._counts, turn = counts, -1 if self._g < 0 else 1
        self._agreed = [h + turn * sign(q) for h, q in zip(self._agreed, row)]
        return row

    def _element(self, activity: int, left: int, up: int, agreed: int) -> int:
        """q of the next element, which is not 0."""
        decide, a = self.decide, 1
        for h in range(1, 9):
            z = (abs(left) > h) + (abs(up) > h)
            if not decide(ABOVE + 24 * activity + 8 * z + h - 1):
                break
            a += 1
        if a > 8:
            size, rest = 0, 1
            while size < 13 and decide(SIZE + 13 * activity + size):
                size += 1
            for d in range(size):
                rest = 2 * rest + decide(BIT + 3 * size + min(d, 2))
            a = 8 + rest
        if (negative := self._signs.get(a)) is None:
            s = 9 * sign(self._g * agreed) + 3 * sign(left) + sign(up)
            negative = decide(SIGN + 13 + s)
        q = -a if negative else a
        self._g += sign(q * agreed)
        return q


# Levels: § Alphabets, § Apply, § Residuals


def levels_of(head: Head, left: Cursor) -> Array:
    """The level of each code, F32 (k,)."""
    k = head.k
    need(1 <= k <= (32767 if head.uniform else 511), f"has an alphabet of {k} levels")
    if head.uniform:
        size = left.take(1, "f4") if k > 1 else np.ones(1, np.float32)
        need(size > 0, "has a step size that is not above 0")
        codes = np.arange(k)
        q = np.where(codes % 2, (codes + 1) // 2, -(codes // 2))
        with np.errstate(over="ignore"):
            levels = (q * size.astype(np.float64)).astype(np.float32)
    else:
        levels = np.append(np.float32(0), left.take(k - 1, "f4"))
    need(np.isfinite(levels).all(), "has a level that is not finite")
    return levels


def moved(old: Array, level: Array, measure: str, unit: Array) -> Array:
    """F32 elements moved by a level each. unit: what a step of moments is a share of."""
    if measure == "octaves":
        rise = np.floor(level.astype(np.float64) * 2**23 + 0.5).astype(np.int64)
        return (old.view(np.int32) + rise).astype(np.int32).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if measure == "roots":
            unit = np.maximum(np.sqrt(unit), np.float32(2.0**-40))
        return old + (level * unit if measure else level)


def after_residual(old: Array, dtype: str, left: Cursor) -> Array:
    """The next array of an exact tensor."""
    w = WIDTHS.get(dtype) or int(dtype[1:])
    floats, n_classes, mantissa = dtype in MANTISSAS, 4 * (w - 1), MANTISSAS.get(dtype, 0)
    bits = np.ascontiguousarray(old).reshape(-1).view(f"u{w // 8}").astype(np.uint64)
    top, every = np.uint64(2 ** (w - 1)), np.uint64(2 ** (w - floats) - 1)
    magnitudes, signs = bits & every, bits & ~every
    n_contexts = int(left.take(1)[0])
    bounds = left.take(max(n_contexts - 1, 0), "u2").astype(np.uint64)
    rise = [0, *bounds.tolist(), int(every >> np.uint64(mantissa)) + 1]
    need(1 <= n_contexts <= 4 and rise == sorted(set(rise)), "has a residual of other contexts")
    contexts = np.searchsorted(bounds, magnitudes >> np.uint64(mantissa), side="right")
    heads = [head_of(left, bits.size, "", None) for _ in range(n_contexts)]
    most = 1 + n_classes * (4 if floats else 2)
    need(all(head.k <= most for head in heads), "has a residual of too many levels")
    for context, head in enumerate(heads):
        if head.classes == 0:
            continue
        members, symbols = np.flatnonzero(contexts == context), np.arange(head.k) - 1
        own = np.where(symbols < 0, 0, EXTRA_BITS[symbols % (2 * n_classes) // 2])
        cuts = np.searchsorted(members, np.arange(len(head.streams) + 1) * 65536 * head.units)
        for begin, stream in zip(cuts, read_streams(head, left, np.diff(cuts).tolist(), own)):
            found, places, at, all_bits = stream
            changed = np.flatnonzero(found)
            flips, rest = np.divmod(found[changed] - 1, 2 * n_classes)
            extra = all_bits.numbers(at[changed], EXTRA_BITS[rest // 2])
            amount: Array = (FIRST[rest // 2] + extra).astype(np.uint64) + (1 - flips).astype("u8")
            its = members[begin + places[changed]]
            magnitudes[its] += np.where(rest % 2, -amount, amount)
            signs[its] ^= top * flips.astype(np.uint64)
    left.finish()
    return (signs | magnitudes & every).astype(f"<u{w // 8}").view(old.dtype).reshape(old.shape)


# The track: § A base, § A delta


class Track:
    """A state as records store it: a base, moved by deltas.

    Attributes:
        layout: Its tensors.
        arrays: Name -> array, float32 for a lossy tensor.
        structure, values: JSON.
        tables: The code tables sent last.
        step, is_base: Of the last record.
    """

    def __init__(self) -> None:
        self.layout, self.arrays = list[Tensor](), dict[str, Array]()
        self.structure, self.values, self.tables = "", list[str](), dict[str, Words]()
        self.step, self.is_base, self.identity = -1, False, "-"

    def advance(self, record: Record) -> None:
        """Move on by a record."""
        arrays = dict(record.arrays)
        if record.is_base:
            self._begin(record.fields, arrays)
        else:
            need(record.parent == self.identity, "does not follow the record before it")
            self._move(record, arrays)
        need(not arrays, f"has arrays that nothing needs: {', '.join(arrays)}")
        self.step, self.is_base, self.identity = record.step, record.is_base, record.identity
        need(not xxhash or self.digest() == record.track, "leads to another state than it says")

    def _begin(self, fields: Mapping[str, Any], arrays: dict[str, Array]) -> None:
        """§ A base. It takes what it needs out of the arrays."""
        self.layout = layout_of(fields["layout"])
        self.arrays = {t.name: t.fitted(arrays.pop(f"t/{t.name}")) for t in self.layout}
        self.structure, values = text_of(arrays.pop("structure", None)), lines_of(arrays)
        need(list(values) == list(range(len(values))), "lacks values")
        self.values, left = list(values.values()), Cursor(arrays.pop("sent", None))
        for name, symbols, classes, nbytes in fields.get("sent", []):
            packed = left.take(nbytes)
            self.tables[name] = Words.unpacked(packed, symbols + 1, classes, limited=False)
        left.finish()

    def _move(self, delta: Record, arrays: dict[str, Array]) -> None:
        """§ A delta. It takes what it needs out of the arrays."""
        non_finite, left = delta.fields.get("non_finite", []), Cursor(arrays.pop("c", None))
        if {"layout", "structure"} & arrays.keys():
            self._move_layout(arrays)
        heads = list[tuple[list[Tensor], Head, Array, Array]]()
        for group in alphabets_of(self.layout, delta.scope, non_finite):
            name = group[0].name if delta.scope == "t" and len(group) == 1 else group[0].family
            n, measure = sum(self.arrays[t.name].size for t in group), measure_of(group[0])
            head = head_of(left, n, name, self.tables)
            levels, sizes = levels_of(head, left), np.ones(0, np.float32)
            if measure == "sizes" and head.k > 1:
                sizes = left.take(len(group), "f4")
            need(head.uniform >= bool(measure), "has moments in buckets")
            need((np.isfinite(sizes) & (sizes > 0)).all(), "has a size that is not above 0")
            heads.append((group, head, levels, sizes))
        alphabets = list[tuple[list[Tensor], Array, Array, Array]]()
        for group, head, levels, sizes in heads:
            tensors = [self.arrays[t.name] for t in group]
            alphabets.append((group, codes_of(head, levels, tensors, left), levels, sizes))
        left.finish()
        for alphabet in sorted(alphabets, key=lambda its: measure_of(its[0][0]) != "octaves"):
            self._add(*alphabet)
        self._set_small(Cursor(arrays.pop("small", None)), arrays)
        for t in self.layout:
            if t.name in non_finite or (not t.lossy and f"t/{t.name}" in arrays):
                self.arrays[t.name] = t.fitted(arrays.pop(f"t/{t.name}"))
            elif not t.lossy and f"d/{t.name}" in arrays:
                left = Cursor(arrays.pop(f"d/{t.name}"))
                self.arrays[t.name] = after_residual(self.arrays[t.name], t.dtype, left)
        for number, text in lines_of(arrays).items():
            self.values[number] = edited(self.values[number], text)
        need("" not in self.values, "lacks values")

    def _add(self, group: list[Tensor], codes: Array, levels: Array, sizes: Array) -> None:
        """Move the tensors of an alphabet. Code 0 leaves an element alone."""
        begin, measure = 0, measure_of(group[0])
        for i, t in enumerate(group):
            flat = self.arrays[t.name].reshape(-1)
            its = codes[begin : begin + flat.size]
            begin += flat.size
            at = np.flatnonzero(its)
            unit = sizes[i : i + 1]
            if measure == "roots":
                second = re.sub(r"exp_avg(?=(@[0-9,]*)?$)", "exp_avg_sq", t.name)
                beside = self.arrays.get(second, flat[:0])
                fits = (beside.dtype, beside.shape) == (flat.dtype, self.arrays[t.name].shape)
                need(fits, f"has no second moment beside {t.name}")
                unit = beside.reshape(-1)[at]
            flat[at] = moved(flat[at], levels[its[at]], measure, unit)

    def digest(self) -> str:
        """§ The digest of a track."""
        hashed = xxhash.xxh3_128()
        for t in self.layout:
            hashed.update(json.dumps([t.name, t.dtype, t.shape]).encode())
            array = self.arrays[t.name]
            hashed.update(sum_of(array).to_bytes(8, "little") if t.lossy else array.tobytes())
        for text in (self.structure, *self.values):
            hashed.update(len(text).to_bytes(8, "little") + text.encode("ascii"))
        return in_base64(hashed.digest())

    def _set_small(self, left: Cursor, others: Mapping[str, Array]) -> None:
        """§ Small tensors. others: arrays of the record, which hold no tensor that is listed."""
        seen = set[str]()
        while left.at < left.data.size:
            at, members = -1, list[Tensor]()
            for _ in range(left.varint(4)):
                gap, length = left.varint(4), left.varint(4)
                need(gap and length and at + gap * length < len(self.layout), "lists no tensors")
                members += self.layout[at + gap : at + gap * length + 1 : gap]
                at += gap * length
            first = need(members, "lists no tensors")[0]
            old = self.arrays[first.name]
            content = left.take(old.nbytes).view(old.dtype).reshape(old.shape)
            for t in members:
                alike = not t.lossy and old.nbytes <= 64 and t[1:3] == first[1:3]
                need(alike and t.name not in seen, f"has {t.name} in a wrong list, or twice")
                need(not {f"t/{t.name}", f"d/{t.name}"} & others.keys(), f"has {t.name} twice")
                seen.add(t.name)
                self.arrays[t.name] = content.copy()

    def _move_layout(self, arrays: dict[str, Array]) -> None:
        """§ Another layout. Takes its arrays out of those of the record."""
        text = json.dumps([list(t) for t in self.layout], separators=(",", ":"))
        new, structure = (
            edited(old, text_of(arrays.pop(name))) if name in arrays else old
            for name, old in (("layout", text), ("structure", self.structure))
        )
        need((text, self.structure) != (new, structure), "has a new layout that is the old one")
        layout, before, kept = layout_of(parsed(new)), {t.name: t for t in self.layout}, {}
        for t in layout:
            old, given = before.get(t.name), arrays.pop(f"n/{t.name}", None)
            alike = old and (old.dtype, old.carrier) == (t.dtype, t.carrier)
            if given is None:
                need(alike and old and old.shape == t.shape, f"lacks the tensor {t.name}")
                kept[t.name] = self.arrays[t.name]
            elif given.shape == t.stored_shape:
                kept[t.name] = t.fitted(given)
            else:
                rows = alike and old and math.prod(old.shape) and old.shape[1:] == t.shape[1:]
                need(rows, f"has another shape of {t.name}")
                kept[t.name] = t.fitted(np.concatenate([self.arrays[t.name], given]))
        if structure != self.structure:
            old_numbers, new_numbers = map(numbers_of, (self.structure, structure))
            places = {number: way for way, number in new_numbers.items()}
            known = [old_numbers.get(places[i]) for i in range(len(new_numbers))]
            self.values = ["" if i is None else self.values[i] for i in known]
        self.layout, self.arrays, self.structure = layout, kept, structure


def sum_of(array: Array) -> int:
    """§ The sum of a tensor."""
    bits, total = array.reshape(-1).view(np.uint32), 0
    for begin in range(0, bits.size, 2**16):  # a part that stays in the cache
        z: Array = bits[begin : begin + 2**16].astype(np.uint64)
        z += np.arange(begin, begin + z.size, dtype=np.uint64) << 32
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB
        total += int((z ^ (z >> 31)).sum())
    return total % 2**64


def numbers_of(structure: str) -> dict[tuple[Any, ...], int]:
    """The numbers of a structure's values, by the keys and indices that lead there."""
    root = json.loads(structure or '{"d":[]}')
    return {way: leaf["v"] for way, leaf in leaves(root) if "v" in leaf}


def lines_of(arrays: dict[str, Array]) -> dict[int, str]:
    """Number -> text of the values in a record. Takes them out of its arrays."""
    text = text_of(arrays.pop("values", None))
    need(text[-1:] in ("", "\n"), "has values that are cut off")
    pairs = [line.partition(" ") for line in text[:-1].split("\n")] if text else []
    lines = {int(number): value for number, _, value in pairs}
    in_order = [str(i) for i in sorted(lines)] == [number for number, *_ in pairs]
    need(in_order and min(lines, default=0) >= 0, "has values out of order")
    return lines


def edited(text: str, change: str) -> str:
    """A text after a change: § Edits, or another text."""
    if not change.startswith("="):
        return change
    parts, at, left = list[str](), 0, need(change[1:], "has an edit without a splice")
    while left:
        *numbers, left = left.split(" ", 3)
        skip, drop, length = map(int, numbers)
        good = [str(skip), str(drop), str(length)] == numbers and min(skip, drop, length) >= 0
        need(good, "has an edit of no numbers")
        need(at + skip + drop <= len(text) and length <= len(left), "has an edit beyond its text")
        parts += [text[at : at + skip], left[:length]]
        at, left = at + skip + drop, left[length:]
    return "".join([*parts, text[at:]])


# The state: § A base, § Restoring

GRADIENTS = "lcc.rerun"
CONTAINERS: dict[str, Any] = {"d": dict, "o": OrderedDict, "l": list, "p": tuple}
CONTAINERS["n"] = lambda pairs: Counter(dict(pairs))


def state_of(path: str | Path, step: int | None = None) -> tuple[Track, Any, dict[str, Array]]:
    """The track of a step, its structure with names and values, and its tensors by name.

    Warns if the record does not have them all.
    """
    track = Chain(path).track(step)
    plain = {"d": [[t.name, {"t": i}] for i, t in enumerate(track.layout)]}
    with naming(path):
        tree: Any = json.loads(track.structure or json.dumps(plain))
        ((tag, pairs),) = tree.items()
        if track.is_base:  # all is there without gradients
            tree[tag] = [pair for pair in pairs if pair[0] != GRADIENTS]
        elif any(key == GRADIENTS for key, _ in pairs):
            text = f"has gradients in place of newer weights: {GRADIENTS}, see gradients.md"
            warnings.warn(f"{path}: step {track.step} {text}", stacklevel=3)
        for _, leaf in leaves(tree):
            if "t" in leaf:
                leaf["t"] = track.layout[leaf["t"]].name
            else:
                leaf["v"] = json.loads(track.values[leaf["v"]])
        names = {leaf.get("t") for _, leaf in leaves(tree)}
        tensors = {
            t.name: restored(track.arrays[t.name], t) for t in track.layout if t.name in names
        }
    return track, tree, tensors


def leaves(node: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The keys and indices that lead to each tensor and value of a structure, and its node."""
    ((tag, content),) = node.items()
    if tag in ("t", "v"):
        yield way, node
    for i, child in enumerate(content if tag in CONTAINERS else ()):
        key, child = (json.dumps(child[0]), child[1]) if tag in ("d", "o", "n") else (i, child)
        yield from leaves(child, (*way, key))


def built(node: Any, tensors: Mapping[str, Any]) -> Any:
    """What a node of a tree, or the JSON of a value, stands for."""
    if not isinstance(node, dict):
        return node
    ((tag, content),) = node.items()
    if tag in ("d", "o", "n"):
        return CONTAINERS[tag]([(built(key, {}), built(child, tensors)) for key, child in content])
    if tag in CONTAINERS:
        return CONTAINERS[tag]([built(child, tensors) for child in content])
    if tag == "t" and isinstance(content, str):
        return tensors[content]
    if tag == "v":
        return built(content, {})
    if tag in ("s", "a", "t"):
        dtype, data = content
        carrier = DTYPES[CARRIERS.get(dtype, dtype)]
        bits = np.frombuffer(base64.b64decode(data, validate=True), carrier).copy()
        array = in_dtype(bits.reshape(2 if dtype == "C128" else ()), dtype, ())
        return array[()] if tag == "s" else array
    if tag in ("b", "y"):
        return {"b": bytes, "y": bytearray}[tag](base64.b64decode(content, validate=True))
    return {"i": int, "f": float}[tag](content)


def restored(array: Array, t: Tensor) -> Array:
    """A tensor in its own dtype, from its array in the track."""
    if t.lossy and t.dtype != "F32":
        largest = LARGEST[t.dtype]
        array = np.where(np.isfinite(array), np.clip(array, -largest, largest), array)
        if t.dtype == "F16":
            return array.astype(np.float16)
        bits = array.view(np.uint32)
        nearest = bits + 0x7FFF + (bits >> 16 & 1)  # ties to even
        array = (np.where(np.isnan(array), bits | 1 << 22, nearest) >> 16).astype(np.uint16)
    return in_dtype(array, t.dtype, t.shape)


def in_dtype(array: Array, dtype: str, shape: Sequence[int]) -> Array:
    """The array of a tensor, from the array that a record has of it."""
    if dtype == "C128":
        return array.reshape(-1).view(np.complex128).reshape(shape)
    if dtype in CARRIERS:
        return array.view(np.dtype(array.dtype, metadata={"dtype": dtype}))
    return array


# Use


def read(path: str | Path, step: int | None = None) -> dict[Any, Any]:
    """The state of a step, as it was saved; None for the newest. Raises ReadError."""
    return built(*state_of(path, step)[1:])


def write(path: Path, track: Track, tree: Any, tensors: Mapping[str, Array]) -> None:
    """Write what `state_of` returns as a safetensors file."""
    metadata = {"step": str(track.step), "state": json.dumps(tree)}
    header, end = dict[str, Any](__metadata__=metadata), 0
    layout = [t for t in track.layout if t.name in tensors]
    for t in sorted(layout, key=lambda t: -tensors[t.name].itemsize):
        dtype = CARRIERS[t.dtype] if t.dtype in ("C32", "C128") else t.dtype
        begin, end = end, end + tensors[t.name].nbytes
        header[t.name] = {"dtype": dtype, "shape": t.stored_shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with naming(path):
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.writelines(tensors[name].tobytes() for name in [*header][1:])
        part.replace(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("chain", help="a directory of records, or an archive: run.lcc.zip")
    parser.add_argument("--step", type=int, help="the step to restore (default: the newest)")
    parser.add_argument("-o", "--output", type=Path, help="the .safetensors file to write")
    options = parser.parse_args(arguments)
    if options.step is not None and options.output is None:
        parser.error("--step needs -o FILE")
    warnings.showwarning = lambda message, *_args, **_more: print(message, file=sys.stderr)
    try:
        if options.output is None:
            print(*Chain(options.chain).steps, sep="\n")
            return 0
        track, tree, tensors = state_of(options.chain, options.step)
        write(options.output, track, tree, tensors)
    except ReadError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    print(f"{options.output}: step {track.step}, {len(tensors)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
