"""Restores any step of an lcviz chain. This file needs numpy, and no other part of lcviz.

    python reader.py run.lcc                                        lists the steps
    python reader.py run.lcc.zip --step 40 -o step40.safetensors    writes one; --step missing: the newest

    import reader
    state = reader.read("run.lcc", step=40)

The written file has every tensor in its own dtype, by its name: "optimizer/state/0/exp_avg". In its
`__metadata__`, `step` is the step, and `state` the whole nested state in JSON: a structure as in
FORMAT.md, with the name of each tensor and the value itself in place of their numbers. C32 and C128,
which such a file cannot have, are there as in a record.

`read` returns the state as it was saved, every tensor as a numpy array. For BF16, C32 and F8, which
numpy lacks, that is an array of their bits; `array.dtype.metadata["dtype"]` then names the dtype.

Digests are compared where the packages `blake3` and `xxhash` are installed. Whatever cannot be read
raises ReadError; its message names the file.

The code is in the order in which data flows, and § names a section of FORMAT.md: file, header,
alphabets, tokens, codes, levels, track, state.
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
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VERSIONS = ("1", "2", "3")  # of the format

# Array dtypes of a record, and the ones that hold those which numpy lacks.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "C64": "<c8", "BOOL": "?"}
DTYPES |= {f"{kind.upper()}{8 * n}": f"<{kind}{n}" for kind in "iu" for n in (1, 2, 4, 8)}
F8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0")
CARRIERS = {"BF16": "U16", "C32": "U32", "C128": "F64"} | dict.fromkeys(F8, "U8")
LARGEST = {"F32": math.inf, "F16": 65504.0, "BF16": 2.0**128 - 2.0**120}  # the lossy dtypes
# Bits of an element in residuals, and bits of mantissa of those that are floats there.
WIDTHS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "C128": 64, "C64": 32, "C32": 16, "BOOL": 8}
MANTISSAS = {"F64": 52, "F32": 23, "F16": 10, "BF16": 7, "C128": 52, "C64": 23, "C32": 10}
MANTISSAS |= dict(zip(F8, (3, 2, 3, 2)))

Array = NDArray[Any]


class ReadError(Exception):
    """A chain that cannot be read. The message is a sentence that names the file."""


def need(condition: object, problem: str) -> None:
    """Raise ReadError unless the condition holds."""
    if not condition:
        raise ReadError(problem)


@contextmanager
def naming(where: object) -> Iterator[None]:
    """Name a file in all errors, also in those of Python and numpy for data of no sense."""
    try:
        yield
    except ReadError as exc:
        raise ReadError(f"{where}: {exc}") from exc
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as exc:
        raise ReadError(f"{where}: cannot be read: {exc}") from exc
    except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as exc:
        raise ReadError(f"{where}: is malformed ({type(exc).__name__}: {exc})") from exc


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


blake3, xxhash = map(_package, ("blake3", "xxhash"))


# Files: § A chain


class File(NamedTuple):
    """A record's file."""

    step: int
    kind: str
    name: str


class Chain:
    """A directory of records, or an archive.

    Attributes:
        files: Those of all records by step; of one step the base comes last.
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
            files = [
                File(int(found[1]), found[2], name)
                for name in names
                if (found := re.fullmatch(r"(\d{8,})\.(base|delta)\.safetensors", name))
            ]
            need(
                self._archive is None or len(files) == len(names), "has a member that is no record"
            )
            need(files, "holds no records")
        self.files = sorted(files, key=lambda file: (file.step, file.kind == "base"))
        self.steps = sorted({file.step for file in files})

    def record(self, file: File) -> Record:
        """The content of a file. Raises ReadError."""
        if self._archive is None:
            data = (self.path / file.name).read_bytes()
        else:
            stored = self._archive.getinfo(file.name).compress_type == zipfile.ZIP_STORED
            need(stored, "is compressed in its archive: unpack that, and read the directory")
            data = self._archive.read(file.name)
        record = record_of(data)
        need((record.step, record.kind) == file[:2], f"holds the {record.kind} of {record.step}")
        return record

    def track(self, step: int | None = None) -> Track:
        """The track of a step; None for the newest.

        It begins at the last base up to the step. If that is damaged, an older one may serve.
        """
        step = self.steps[-1] if step is None else step
        need(step in self.steps, f"{self.path}: has no step {step}, but {in_words(self.steps)}")
        if not (blake3 and xxhash):
            warnings.warn(
                "Digests are not checked: install blake3 and xxhash to compare them", stacklevel=2
            )
        bases = [file for file in self.files if file.kind == "base" and file.step <= step]
        need(bases, f"{self.path}: has no base up to step {step}")
        problem = None
        for base in reversed(bases):
            between = [f for f in self.files if base.step < f.step <= step and f.kind == "delta"]
            if [base, *between][-1].step != step:
                break
            try:
                with naming(self.path / base.name):
                    track = Track(self.record(base))
            except ReadError as exc:
                problem = problem or exc
                continue
            for delta in between:
                with naming(self.path / delta.name):
                    track.advance(self.record(delta))
            return track
        assert problem is not None, "a record holds the step"
        raise problem


def in_words(steps: Sequence[int]) -> str:
    """Steps in words: all of a few, else the first and the last."""
    few = ", ".join(map(str, steps if len(steps) < 10 else steps[:3]))
    return few if len(steps) < 10 else f"{few}, … {steps[-1]}, {len(steps)} in all"


# The header of a record: § A record


class Record(NamedTuple):
    """A record. scope: "m" or "t"; "" in a base. parent: "-" if there is none."""

    kind: str
    step: int
    scope: str
    parent: str
    track: str
    digest: str
    fields: dict[str, Any]
    arrays: dict[str, Array]

    @property
    def identity(self) -> str:
        """What the next record names as its parent."""
        return str(self.fields.get("replaces", self.digest))


def record_of(data: bytes) -> Record:
    """The record in a file. Its arrays lie in data."""
    body = 8 + int.from_bytes(data[:8], "little")
    need(8 < body <= len(data), "is cut off")
    found = re.match(rb'\{"__metadata__":\{"lcc":"([ -~]*) ([\w-]{22})"\}[,}]', data[8:body])
    need(found and not re.search(rb'["\\]', found[1]), "is no record of lcviz")
    assert found is not None
    words, digest = found[1].decode().split(" "), found[2].decode()
    if blake3:
        at = 8 + found.start(2)
        hashed = blake3.blake3(data[:at]).update(b"A" * 22).update(memoryview(data)[at + 22 :])
        need(in_base64(hashed.digest()[:16]) == digest, "is damaged: it has another digest")
    need(words[0].isdecimal(), "is no record of lcviz")
    need(words[0] in VERSIONS, f"has version {words[0]} of the format, not {VERSIONS[-1]}")
    if words[1] == "b":
        _, _, step, _, parent, track = words
        kind, scope = "base", ""
    else:
        _, letters, step, parent, track, *keep = words
        need(re.fullmatch("d[mt][a-z]", letters), f"is of an unknown kind, {letters}")
        need(len(keep) in (1, 2), "has other words in its line")
        kind, scope = "delta", letters[1]
    need(step == str(int(step)), "has other words in its line")
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
    fields = parsed(text_of(arrays.pop("more"))) if "more" in arrays else {}
    return Record(kind, int(step), scope, parent, track, digest, fields, arrays)


def in_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def parsed(text: str | bytes) -> Any:
    """JSON whose objects have no key twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        need(len(dict(pairs)) == len(pairs), "has a key twice")
        return dict(pairs)

    return json.loads(text, object_pairs_hook=once)


def text_of(array: Array) -> str:
    """The text in an array."""
    return bytes(Cursor(array).data).decode("ascii")


class Cursor:
    """Reads an array of bytes from its begin to its end. None: a missing array."""

    def __init__(self, array: Array | None) -> None:
        self.data, self.at = np.zeros(0, np.uint8) if array is None else array, 0
        good = self.data.dtype == np.uint8 and self.data.ndim == 1
        need(good and (self.data.size or array is None), "has an array of other bytes")

    def take(self, n: int, dtype: str = "u1") -> Array:
        """The next n numbers."""
        dtype_here = np.dtype(f"<{dtype}")
        begin, self.at = self.at, self.at + n * dtype_here.itemsize
        need(self.at <= self.data.size, "has an array that ends early")
        return np.frombuffer(self.data[begin : self.at].tobytes(), dtype_here)

    def number(self, nbytes: int = 1) -> int:
        """The next number of so many bytes."""
        return int.from_bytes(self.take(nbytes).tobytes(), "little")

    def varint(self, most: int) -> int:
        """The next number of 7 bits a byte, and of at most so many bytes."""
        number = 0
        for i in range(most):
            byte = self.number()
            number |= (byte & 127) << 7 * i
            if byte < 128:
                return number
        raise ReadError("has a number of too many bytes")

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
        """The shape of its array."""
        return (*self.shape, 2) if self.dtype == "C128" else tuple(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def fitted(self, array: Array) -> Array:
        """A copy of its array in a record."""
        fits = (array.dtype, array.shape) == (DTYPES[self.carrier], self.stored_shape)
        need(fits, f"has another dtype or shape for {self.name}")
        return array.copy()


def layout_of(entries: Sequence[Sequence[Any]]) -> list[Tensor]:
    """A layout, from its JSON."""
    layout = [Tensor(*entry) for entry in entries]
    for t in layout:
        known = t.dtype in (LARGEST if t.lossy else DTYPES | CARRIERS)
        need(known and all(n >= 0 for n in t.shape), f"has no description of {t.name}")
    need(len({t.name for t in layout}) == len(layout), "has two tensors of one name")
    return layout


class Alphabet(NamedTuple):
    """The head of an alphabet. levels: for all tensors, or in a batch for each."""

    tensors: list[Tensor]
    n: int
    k: int
    classes: int
    units: int
    uniform: bool
    words: Words | None
    streams: list[int]
    levels: list[Array]


def alphabets_of(layout: list[Tensor], scope: str, left_out: Sequence[str]) -> list[list[Tensor]]:
    """The tensors of each alphabet."""
    groups: dict[tuple[bool, str], list[Tensor]] = {}
    for t in layout:
        if t.lossy and t.name not in left_out:
            alone = scope == "t" and not re.match(r"bits=([1-8]|all) .", t.family)
            groups.setdefault((alone, t.name if alone else t.family), []).append(t)
    return list(groups.values())


def head_of(left: Cursor, tensors: list[Tensor], scope: str, tables: dict[str, Words]) -> Alphabet:
    """The next head. tables: those sent last, by alphabet; updated."""
    k, classes, units, nbytes = (left.number(n) for n in (2, 1, 1, 2))
    uniform, batch = k >= 32768, 16384 <= k < 32768 and len(tensors) > 1
    k -= 32768 * uniform + 16384 * batch
    need(1 <= k <= (32767 if uniform else 511), f"has an alphabet of {k} levels")
    n = sum(t.size for t in tensors)
    name = tensors[0].name if scope == "t" and len(tensors) == 1 else tensors[0].family
    words, streams = None, list[int]()
    if classes == 254:
        need(k > 1 and not batch and units in (1, 8), "has a context code that cannot be")
        end = left.at + nbytes
        while left.at < end:
            streams.append(left.varint(5))
        need(left.at == end, "has another list of sizes")
    elif classes == 0:
        need(k in (1, 2) and nbytes == 0, "has an alphabet without a code that needs one")
    else:
        need(classes <= 84 and k > 1 and 1 <= units <= 32, f"has {classes} classes of runs")
        if nbytes:
            tables[name] = Words.unpacked(left.take(nbytes), k, classes, uniform)
        need(name in tables, "has no code table sent last")
        words = tables[name]
        same = words.classes == classes and (classes > 1 or words.k == k)
        need(same, "has another code table sent last")
        streams = left.take(-(-n // (65536 * units)), "u4").tolist()
    levels = levels_of(left, k, uniform, len(tensors) if batch else 1)
    return Alphabet(tensors, n, k, classes, units, uniform, words, streams, levels)


class Words:
    """A code table: § Tables, § Code words.

    Attributes:
        bits: Of the longest word.
        entries, lengths: Which word a stream begins with, by its next bits.
    """

    _ITEM = re.compile("1|010|001|00010|00011|0000(....)|011(0*)1")
    _STEPS = {"1": 0, "010": 1, "001": -1, "00010": 2, "00011": -2}

    def __init__(self, lengths: Array, k: int, classes: int) -> None:
        self.k, self.classes = k, classes
        self.bits = int(lengths.max(initial=0))
        used = np.flatnonzero(lengths)
        used = used[np.argsort(lengths[used], kind="stable")]
        repeats = 1 << (self.bits - lengths[used])
        need(used.size and repeats.sum() == 1 << self.bits, "has a code table that is no code")
        # In the order of words, which are read first bit first; then by the bits as numbers.
        in_order, positions = np.repeat(used, repeats), np.arange(1 << self.bits)
        reverse = sum((positions >> i & 1) << (self.bits - 1 - i) for i in range(self.bits))
        self.entries = in_order[reverse]
        self.lengths = lengths[self.entries]

    @classmethod
    def unpacked(cls, packed: Array, k: int, classes: int, uniform: bool) -> Words:
        """A code table of a record."""
        need(classes > 0, "has a code table of no classes")
        most = 4095 // classes if uniform and classes > 1 else 4095
        n = 1 + min(k - 1, most) * classes
        need(n <= 4096, "has a code table of too many lengths")
        return cls(np.array(cls._unpacked(packed, n)), k, classes)

    @classmethod
    def _unpacked(cls, packed: Array, n: int) -> list[int]:
        """The n lengths in a table."""
        bits = "".join(map(str, np.unpackbits(packed, bitorder="little")))
        end = max(bits.rfind("1") + 1, len(bits) - 7)  # fewer than 8 zeros only fill the last byte
        lengths, at, last = list[int](), 0, 8
        while at < end:
            item = cls._ITEM.match(bits, at)
            need(item, "has a code table that is none")
            assert item is not None
            at = item.end()
            if (zeros := item[2]) is not None:
                j = len(zeros)
                need(at + j <= len(bits) and j <= 12, "has a code table that is none")
                lengths += [0] * (2**j + int("0" + bits[at : at + j][::-1], 2))
                at += j
                continue
            last = int(item[1][::-1], 2) if item[1] else last + cls._STEPS[item[0]]
            need(1 <= last <= 15, "has a code word of more than 15 bits, or of none")
            lengths.append(last)
        need(len(lengths) <= n, "has a code table of too many lengths")
        return lengths + [0] * (n - len(lengths))


# Tokens: § Tokens, § Streams

CLASSES = np.arange(252)  # of 64-bit numbers
EXTRA_BITS = np.where(CLASSES < 16, 0, CLASSES // 4 - 2)
FIRST = np.where(CLASSES < 16, CLASSES, (4 + CLASSES % 4) << EXTRA_BITS)  # number of the class


class Bits:
    """The bits of a stream; numbers at many positions at once."""

    def __init__(self, data: Array) -> None:
        self._bytes = np.concatenate([data, np.zeros(16, np.uint8)])
        overlapping = np.ndarray(data.size + 8, "<u8", self._bytes, strides=(1,))
        self.words = overlapping.copy()  # the 64 bits from each byte on

    def numbers(self, at: Array, n: Array | int) -> Array:
        """The numbers of n bits, at most 62, that begin at these positions."""
        byte = np.minimum(at >> 3, self.words.size - 1)
        shift = (at & 7).astype(np.uint64)
        high = self._bytes[byte + 8].astype(np.uint64) << (63 - shift) << 1
        mask = (np.uint64(1) << np.asarray(n, np.uint64)) - np.uint64(1)
        return ((self.words[byte] >> shift | high) & mask).astype(np.int64)


class Tokens:
    """Reads streams of code words.

    Where a token ends depends on its own bits alone. So its length is looked up at every bit of a
    stream, whether one begins there or not, and only the walk from token to token is a loop.

    own: the number of extra bits that a symbol has behind those of its run, by symbol.
    """

    def __init__(self, words: Words, k: int, own: Array | None = None) -> None:
        self._words, self._k = words, k
        self._own = np.zeros(k, np.int64) if own is None else own
        self._symbol_bits = (k - 2).bit_length()
        entries = words.entries
        runs = 0 if words.classes == 1 else EXTRA_BITS[(entries - 1) % words.classes]
        symbols = entries if words.classes == 1 else 1 + (entries - 1) // words.classes
        self._lengths = (words.lengths + runs + self._of_own(symbols)).astype(np.uint8)
        if words.classes > 1:
            self._lengths[entries == 0] = 0  # the escape: looked up in the stream

    def _of_own(self, symbols: Array) -> Array:
        return self._own[np.clip(symbols, 0, self._k - 1)]

    def read(self, data: Array, nbits: int) -> tuple[Array, Array, Array, Bits]:
        """The symbol of each token, the run before it, where its own bits begin, and all bits."""
        bits = Bits(data)
        need(not bits.numbers(np.arange(nbits, 8 * data.size), 1).any(), "has bits behind a stream")
        lengths, mask = np.empty((data.size, 8), np.uint8), (1 << self._words.bits) - 1
        low = bits.words[: data.size].astype(np.uint32)
        for shift in range(8):
            lengths[:, shift] = self._lengths[(low >> shift) & mask]
        lengths = lengths.reshape(-1)[:nbits]
        escapes = np.flatnonzero(lengths == 0)
        symbols, kinds, runs_at = self._taken(bits, escapes)
        ends = runs_at + EXTRA_BITS[kinds] + self._of_own(symbols)
        lengths[escapes] = ends - escapes
        at = np.array(_walk(lengths.tobytes(), nbits), np.int64)
        symbols, kinds, runs_at = self._taken(bits, at)
        need(symbols.max(initial=0) < self._k, "has a symbol beyond the last")
        need(kinds.max(initial=0) < 84, "has a run of an unknown class")
        extra = EXTRA_BITS[kinds]
        return symbols, FIRST[kinds] + bits.numbers(runs_at, extra), runs_at + extra, bits

    def _taken(self, bits: Bits, at: Array) -> tuple[Array, Array, Array]:
        """Symbol and class of tokens at these positions, and where the extra bits begin."""
        words, classes = self._words, self._words.classes
        index = bits.numbers(at, words.bits)
        entries, at = words.entries[index], at + words.lengths[index]
        if classes == 1:
            return entries, np.zeros_like(entries), at
        symbols, kinds = 1 + (entries - 1) // classes, (entries - 1) % classes
        escaped = np.flatnonzero(entries == 0)
        kinds[escaped] = bits.numbers(at[escaped], 7)
        symbols[escaped] = 1 + bits.numbers(at[escaped] + 7, self._symbol_bits)
        at[escaped] += 7 + self._symbol_bits
        return symbols, kinds, at


def _walk(lengths: bytes, end: int) -> list[int]:
    """Where tokens begin. lengths: of the token at each position, whether one begins there."""
    at, position = list[int](), 0
    append = at.append
    while position < end:
        append(position)
        position += lengths[position]
    need(position == end, "has a stream that ends within a token")
    return at


# Codes: § Alphabets, § An arithmetic code (what it shares with context codes), § A context code


def codes_of(alphabet: Alphabet, left: Cursor) -> Array:
    """The code of each element, from the next payload."""
    k, n, words = alphabet.k, alphabet.n, alphabet.words
    if alphabet.classes == 254:
        return context_codes(alphabet, left)
    if words is None:
        return np.full(n, k - 1, np.int64)
    codes, tokens, e = np.zeros(n, np.int64), Tokens(words, k), 65536 * alphabet.units
    for begin, nbits in zip(range(0, n, e), alphabet.streams):
        symbols, runs, *_ = tokens.read(left.take(4 * -(-nbits // 32)), nbits)
        place = np.cumsum(runs + 1) - 1
        size = min(e, n - begin)
        good = place.size == size if words.classes == 1 else place.max(initial=0) < size
        need(good, "has a stream of another number of elements")
        codes[begin + place] = symbols
    return codes


def context_codes(alphabet: Alphabet, left: Cursor) -> Array:
    """The same from a context code."""
    if alphabet.uniform:
        weights, code_of, signs = [min(a, 31) for a in range(2**15)], None, {}
    else:
        weights = [2 ** min(a - 1, 6) if a else 0 for a in range(2**15)]
        bits = alphabet.levels[0][1:].view(np.uint32)
        _, ranks = np.unique(bits >> 23 & 255, return_inverse=True)
        q = np.where(bits >> 31, -1 - ranks, 1 + ranks).tolist()
        code_of = {0: 0} | dict(zip(q, range(1, alphabet.k)))
        need(len(code_of) == alphabet.k, "has two levels of one magnitude")
        signs = {abs(q): q < 0 for q in code_of if -q not in code_of}
    found: list[int] = []
    shapes = streams_of(alphabet.tensors)
    need(len(shapes) == len(alphabet.streams), "has another number of streams")
    for matrices, nbytes in zip(shapes, alphabet.streams):
        found += ContextCode(left.take(nbytes).tobytes(), alphabet.units, weights, signs).read(
            matrices
        )
    if code_of is None:
        numbers = np.array(found, np.int64)
        codes = np.where(numbers > 0, 2 * numbers - 1, -2 * numbers)
    else:
        codes = np.array([code_of[q] for q in found], np.int64)
    need(codes.max(initial=0) < alphabet.k, "has a symbol beyond the last")
    return codes


def streams_of(
    tensors: list[Tensor], stream: int = 2**18, most: int = 2**15
) -> list[list[list[int]]]:
    """Rows and columns of the matrices in each stream.

    stream: elements of one. most: columns of a matrix.
    """
    short = []
    for t in tensors:
        rows, columns = t.shape[0] if t.shape else 1, math.prod(t.shape[1:])
        if columns == 1:
            rows, columns = 1, rows
        cuts = [min(most, columns - x) for x in range(0, columns, most)] if rows else []
        short += [(rows, columns)] if len(cuts) == 1 else [(1, cut) for cut in cuts] * rows
    streams: list[list[list[int]]] = [[]]
    room = stream
    for rows, columns in short:
        while rows:
            if room <= 0:
                streams.append([])
                room = stream
            here = min(rows, -(-room // columns))
            streams[-1].append([here, columns])
            rows, room = rows - here, room - here * columns
    return streams


def logarithm(v: int) -> int:
    p = v.bit_length() - 1
    return 16 * p + (16 * v >> p) - 16


def sign(q: int) -> int:
    return (q > 0) - (q < 0)


class ContextCode:
    """A stream of a context code.

    Args:
        code: Its bytes.
        units: 8 for octets, or 1.
        weights: m, by |q|.
        signs: Of each |q| of which no levels of both signs are there, whether it is negative.
    """

    # Where the contexts of each decision begin, and their number.
    _SIZES = (75, 24 * 9, 3 * 24 * 9, 24 * 3 * 8, 24 * 13, 14 * 3, 27)
    CHANGES, OCTET, ZERO, MORE, SIZE, BITS, SIGN = (0, *accumulate(_SIZES[:-1]))
    _RATES = tuple(131072 // (2 * n + 3) for n in range(61))
    _FIRST = tuple(min(max(65536 * 2**a // (2**a + 2896), 200), 65000) for a in range(24))  # F

    def __init__(self, code: bytes, units: int, weights: list[int], signs: Mapping[int, bool]):
        need(code[-1:] != b"\0", "has a context code with a byte that nothing needs")
        self._left = iter(code)
        self._units, self._weights, self._signs = units, weights, signs
        octets = [f for f in self._FIRST for _ in range(9)]
        self._chances = [32768] * 75 + octets + octets
        self._chances += [max(f, 9830) for f in octets] + octets
        self._chances += [20000] * (24 * 3 * 8 + 24 * 13) + [32768] * (14 * 3 + 27)
        self._uses = [0] * 75 + [2] * (4 * 24 * 9) + [0] * (24 * 3 * 8 + 24 * 13 + 14 * 3 + 27)
        self._span = 2**40
        self._window = int.from_bytes(bytes(next(self._left, 0) for _ in range(5)), "big")

    def decide(self, context: int) -> bool:
        """The next decision."""
        span, window = self._span, self._window
        bound = (span >> 16) * self._chances[context]
        if one := window >= span - bound:
            window -= span - bound
            span = bound
        else:
            span -= bound
        while span < 2**32:
            span <<= 8
            window = window << 8 | next(self._left, 0)
        self._span, self._window = span, window
        self._learn(context, one)
        return one

    def _learn(self, context: int, one: bool) -> None:
        """The more often a context was used, the more slowly its chance changes."""
        chance, n = self._chances[context], self._uses[context]
        chance += ((65536 if one else 0) - chance) * self._RATES[n] >> 16
        self._chances[context] = min(max(chance, 32), 65504)
        self._uses[context] = min(n + 1, 60)

    def read(self, matrices: list[list[int]]) -> list[int]:
        """q of all elements."""
        found, mean = list[int](), 205
        for rows, columns in matrices:
            mean = self._matrix(rows, columns, mean, found)
        need(next(self._left, None) is None, "has a context code with a byte that nothing needs")
        return found

    def _matrix(self, n_rows: int, w: int, mean: int, found: list[int]) -> int:
        """Append q of a matrix. mean: M of its first row; returns that of the row behind it."""
        octets = self._units == 8 and w > 8
        width = 8 if octets else w
        above, counts_above, total, changing, changed = [0] * w, [0] * w, 0, 0, 2
        self._sums, self._agreed = [0] * w, [0] * w  # C, H
        sums_of, octet_means = [0] * w, [0] * w  # by the octet's first column
        for i in range(n_rows):
            if not i & (i - 1):
                near = [logarithm(4096 * c + 2 * mean) for c in self._sums]
                octet_means = [mean] * w
            before = logarithm(i + 2) + logarithm(mean)
            row, counts = [0] * w, [0] * w
            if w >= 8:
                f = logarithm(4096 * changing // (i + 1) + 1) >> 3
                changed = self.decide(self.CHANGES + 3 * f + changed)
                changing += changed
            if w < 8 or changed:
                self._g, in_row, near_row = 0, 0, logarithm(2 * mean)
                for begin in range(0, w, width):
                    end = min(begin + width, w)
                    kind = 0
                    if octets:
                        n = octet_means[begin] * (end - begin)
                        b = logarithm(4096 * sums_of[begin] + 2 * n) + near_row - before
                        b = min(max((b - logarithm(begin + 2)) >> 4, 0), 23)
                        v = counts[begin - 8] if begin else 0
                        if not self.decide(self.OCTET + 9 * b + 3 * v + counts_above[begin]):
                            continue
                        kind = 1
                    for j in range(begin, end):
                        a = near_row + near[j] - before - logarithm(j + 2)
                        a = min(max(a >> 4, 0), 23)
                        left = row[j - 1] if j else 0
                        known = kind == 1 and j == end - 1
                        if q := self._element(a, kind, known, left, above[j], j):
                            row[j] = q
                            weight = self._weights[abs(q)]
                            self._sums[j] += weight
                            in_row += weight
                            near_row = logarithm(4096 * in_row + 2 * mean)
                            near[j] = logarithm(4096 * self._sums[j] + 2 * mean)
                            kind = 2 if octets else 0
                    if octets:
                        counts[begin] = min(sum(map(bool, row[begin:end])), 2)
                        sums_of[begin] = sum(self._sums[begin:end])
                        octet_means[begin] = mean
                total += in_row
                turn = -1 if self._g < 0 else 1
                self._agreed = [h + turn * sign(q) for h, q in zip(self._agreed, row)]
            if w < 8 or changed:
                counts_above = counts
            above = row
            found += row
            mean = max(total * 4096 // ((i + 1) * w), 1)
        return mean

    def _element(self, activity: int, kind: int, known: bool, left: int, up: int, j: int) -> int:
        """q of the next element. kind: g. known: whether it is above 0 without a decision."""
        decide, across, along = self.decide, abs(left), abs(up)
        context = self.ZERO + 9 * (24 * kind + activity) + 3 * min(across, 2) + min(along, 2)
        if not known and not decide(context):
            return 0
        a = 1
        while a <= 8:
            z = (across > a) + (along > a)
            if not decide(self.MORE + 24 * activity + 8 * z + a - 1):
                break
            a += 1
        else:
            size, rest = 0, 1
            while size < 13 and decide(self.SIZE + 13 * activity + size):
                size += 1
            for d in range(size):
                rest = 2 * rest + decide(self.BITS + 3 * size + min(d, 2))
            a = 8 + rest
        h = self._agreed[j]
        if (negative := self._signs.get(a)) is None:
            s = sign(self._g * h)
            negative = decide(self.SIGN + 9 * (s + 1) + 3 * (sign(left) + 1) + sign(up) + 1)
        q = -a if negative else a
        if h:
            self._g += 1 if sign(q) == sign(h) else -1
        return q


# Levels: § Alphabets, § Apply


def levels_of(left: Cursor, k: int, uniform: bool, n_tensors: int) -> list[Array]:
    """The levels of each code, F32 (k,), which all tensors share, or in a batch of each tensor."""
    if uniform:
        size = left.take(1, "f4") if k > 1 else np.ones(1, "<f4")
        need(size > 0, "has a step size that is not above 0")
        codes = np.arange(k)
        q = np.where(codes % 2, (codes + 1) // 2, -(codes // 2))
        with np.errstate(over="ignore"):
            levels = [(q * size.astype(np.float64)).astype(np.float32)]
    elif n_tensors == 1:
        levels = [np.append(np.float32(0), left.take(k - 1, "f4"))]
    else:
        counts = left.take(n_tensors, "u1" if k <= 256 else "u2")
        need(counts.max() == k - 1, "has another number of levels in a batch")
        levels = [np.zeros(k, np.float32) for _ in counts]
        for its, count in zip(levels, counts.tolist()):
            its[1 : 1 + count] = left.take(count, "f4")
    need(all(np.isfinite(its).all() for its in levels), "has a level that is not finite")
    return levels


def add_levels(track: dict[str, Array], alphabet: Alphabet, codes: Array) -> None:
    """Move the tensors of an alphabet. Code 0 leaves elements alone."""
    begin = 0
    for i, t in enumerate(alphabet.tensors):
        its = codes[begin : begin + t.size]
        moved, flat = np.flatnonzero(its), track[t.name].reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            flat[moved] += alphabet.levels[i if len(alphabet.levels) > 1 else 0][its[moved]]
        begin += t.size


def after_residual(old: Array, dtype: str, left: Cursor) -> Array:
    """The next array of an exact tensor: § Residuals."""
    w = WIDTHS.get(dtype) or int(re.match(r"[FIU](\d+)", dtype)[1])  # type: ignore[index]
    bits = np.ascontiguousarray(old).reshape(-1).view(f"u{w // 8}").astype(np.uint64)
    top = np.uint64(1) << np.uint64(w - 1)
    floats, n_classes = dtype in MANTISSAS, 4 * (w - 1)
    modulus = top - np.uint64(1) | (np.uint64(0) if floats else top)  # as a mask
    signs, magnitudes = bits & ~modulus, bits & modulus
    n_contexts = left.number()
    need(1 <= n_contexts <= 4, f"has a residual of {n_contexts} contexts")
    bounds = left.take(n_contexts - 1, "u2").astype(np.uint64)
    exponents = magnitudes >> np.uint64(MANTISSAS.get(dtype, 0))
    largest = modulus >> np.uint64(MANTISSAS.get(dtype, 0))
    in_order = (bounds[1:] > bounds[:-1]).all() and (bounds[:1] > 0).all()
    need(in_order and (bounds <= largest).all(), "has a residual whose bounds do not rise")
    contexts = np.searchsorted(bounds, exponents, side="right")
    heads = [
        _residual_head(left, bits.size, n_classes * (4 if floats else 2)) for _ in range(n_contexts)
    ]
    need(len({head[0] for head in heads if head[2]}) < 2, "has a residual of several units")
    for context, (units, k, words, streams) in enumerate(heads):
        members = np.flatnonzero(contexts == context)
        if words is None:
            continue
        symbols = np.arange(k) - 1
        classes = symbols % (2 * n_classes) // 2
        tokens = Tokens(words, k, np.where(symbols < 0, 0, EXTRA_BITS[classes]))
        cuts = np.searchsorted(members, np.arange(len(streams) + 1) * 65536 * units)
        for begin, end, nbits in zip(cuts, cuts[1:], streams):
            found, runs, at, stream = tokens.read(left.take(4 * -(-nbits // 32)), nbits)
            place = np.cumsum(runs + 1) - 1
            size = end - begin
            good = place.size == size if words.classes == 1 else place.max(initial=0) < max(size, 1)
            need(good, "has a stream of another number of elements")
            changed = np.flatnonzero(found)
            flips, rest = np.divmod(found[changed] - 1, 2 * n_classes)
            kinds = rest // 2
            amount = FIRST[kinds] + stream.numbers(at[changed], EXTRA_BITS[kinds])
            amount = amount.astype(np.uint64) + (1 - flips).astype(np.uint64)
            its = members[begin + place[changed]]
            magnitudes[its] += np.where(rest % 2, -amount, amount)
            signs[its] ^= np.where(flips, top, np.uint64(0))
    left.finish()
    after = (signs | magnitudes & modulus).astype(f"<u{w // 8}")
    return after.view(old.dtype).reshape(old.shape)


def _residual_head(left: Cursor, n: int, most: int) -> tuple[int, int, Words | None, list[int]]:
    """Units, k, code words and bits of each stream, of one context. most: symbols."""
    k, classes, units, nbytes = (left.number(nbytes) for nbytes in (2, 1, 1, 2))
    need(1 <= k <= 1 + most and 1 <= units <= 32 and classes <= 84, "has a residual without sense")
    need((k == 1) == (classes == 0) == (nbytes == 0), "has a residual without sense")
    if k == 1:
        return units, k, None, []
    words = Words.unpacked(left.take(nbytes), k, classes, uniform=True)
    return units, k, words, left.take(-(-n // (65536 * units)), "u4").tolist()


# The track: § A base, § A delta


class Track:
    """A state as it is stored: a base, which deltas advance.

    Attributes:
        layout: Its tensors.
        arrays: Name -> array, float32 for a lossy tensor.
        structure, values: JSON.
        tables: The code tables sent last.
        step, kind: Of the last record.
    """

    def __init__(self, base: Record) -> None:
        arrays = dict(base.arrays)
        self.layout = layout_of(base.fields.get("layout", []))
        self.arrays = {t.name: t.fitted(arrays.pop(f"t/{t.name}")) for t in self.layout}
        self.structure = text_of(arrays.pop("structure")) if "structure" in arrays else ""
        values = _lines(arrays.pop("values", None))
        need(list(values) == list(range(len(values))), "lacks a value")
        self.values = list(values.values())
        self.tables, left = dict[str, Words](), Cursor(arrays.pop("sent", None))
        for name, symbols, classes, nbytes in base.fields.get("sent", []):
            self.tables[name] = Words.unpacked(left.take(nbytes), symbols + 1, classes, uniform=False)
        left.finish()
        self._end(base, arrays)

    def advance(self, delta: Record) -> None:
        """Move on by a delta."""
        need(delta.parent == self._identity, "does not follow the record before it: one is missing")
        arrays = dict(delta.arrays)
        if {"layout", "structure"} & set(arrays):
            self._move_layout(arrays)
        non_finite = delta.fields.get("non_finite", [])
        left = Cursor(arrays.pop("c", None))
        groups = alphabets_of(self.layout, delta.scope, non_finite)
        for alphabet in [head_of(left, group, delta.scope, self.tables) for group in groups]:
            add_levels(self.arrays, alphabet, codes_of(alphabet, left))
        left.finish()
        exact = {t.name: t for t in self.layout if not t.lossy or t.name in non_finite}
        need(set(non_finite) <= set(exact), "stores a tensor that the layout lacks")
        missing = [name for name in non_finite if f"t/{name}" not in arrays]
        need(not missing, f"lacks tensors: {missing}")
        self._set_small(Cursor(arrays.pop("small", None)), arrays)
        for t in exact.values():
            if (whole := arrays.pop(f"t/{t.name}", None)) is not None:
                self.arrays[t.name] = t.fitted(whole)
            elif not t.lossy and (residual := arrays.pop(f"d/{t.name}", None)) is not None:
                after = after_residual(self.arrays[t.name], t.dtype, Cursor(residual))
                self.arrays[t.name] = after
        for number, text in _lines(arrays.pop("values", None)).items():
            self.values[number] = edited(self.values[number], text)
        need("" not in self.values, "lacks a value")
        self._end(delta, arrays)

    def _end(self, record: Record, left: Mapping[str, Array]) -> None:
        """Check what a record has led to. left: arrays that nothing needed."""
        need(not left, f"has arrays that nothing needs: {', '.join(left)}")
        self._identity, self.step, self.kind = record.identity, record.step, record.kind
        if xxhash:
            need(self.digest() == record.track, "leads to another state than its digest says")

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
        """§ Small tensors. others: arrays of the record, which list no tensor of these."""
        seen = set[str]()
        while left.at < left.data.size:
            place, members = -1, list[Tensor]()
            for _ in range(left.varint(4)):
                gap, length = left.varint(4), left.varint(4)
                need(gap and length and place + gap * length < len(self.layout), "lists no tensors")
                members += self.layout[place + gap : place + gap * length + 1 : gap]
                place += gap * length
            need(members, "lists no tensors")
            old = self.arrays[members[0].name]
            need(old.nbytes <= 64, "has a small tensor of more than 64 bytes")
            content = left.take(old.nbytes)
            for t in members:
                alike = not t.lossy and (t.dtype, t.shape) == members[0][1:3]
                need(alike, f"has {t.name} in a list of other tensors")
                twice = t.name in seen or {f"t/{t.name}", f"d/{t.name}"} & set(others)
                need(not twice, f"has {t.name} twice")
                seen.add(t.name)
                self.arrays[t.name] = content.view(old.dtype).reshape(old.shape).copy()

    def _move_layout(self, arrays: dict[str, Array]) -> None:
        """§ Another layout. It takes its arrays out of those of the record."""
        text = json.dumps([list(t) for t in self.layout], separators=(",", ":"))
        new_text = _changed(text, arrays.pop("layout", None))
        structure = _changed(self.structure, arrays.pop("structure", None))
        need((text, self.structure) != (new_text, structure), "changes the layout to the same one")
        layout, before = layout_of(parsed(new_text)), {t.name: t for t in self.layout}
        kept = {}
        for t in layout:
            old, given = before.get(t.name), arrays.pop(f"n/{t.name}", None)
            alike = old and (old.dtype, old.carrier) == (t.dtype, t.carrier)
            if given is None:
                need(alike and old and old.shape == t.shape, f"lacks the tensor {t.name}")
                kept[t.name] = self.arrays[t.name]
            elif given.shape == t.stored_shape:
                kept[t.name] = t.fitted(given)
            else:
                rows = alike and old and old.shape[1:] == t.shape[1:] and old.size
                need(rows, f"has another shape for {t.name}")
                kept[t.name] = t.fitted(np.concatenate([self.arrays[t.name], given]))
        if structure != self.structure:
            old_numbers = dict(_places(self.structure))
            numbers = sorted((number, place) for place, number in _places(structure))
            need([i for i, _ in numbers] == list(range(len(numbers))), "has a value in two places")
            known = [old_numbers.get(place) for _, place in numbers]
            self.values = ["" if i is None else self.values[i] for i in known]
        self.layout, self.arrays, self.structure = layout, kept, structure


def sum_of(array: Array) -> int:
    """§ The sum of a tensor."""
    bits, total = array.reshape(-1).view(np.uint32), 0
    for begin in range(0, bits.size, 2**16):
        z = bits[begin : begin + 2**16].astype(np.uint64)
        z += np.arange(begin, begin + z.size, dtype=np.uint64) << 32
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB
        total += int((z ^ (z >> 31)).sum())
    return total % 2**64


def _lines(array: Array | None) -> dict[int, str]:
    """Number -> text of the values in a record."""
    if array is None:
        return {}
    text = text_of(array)
    need(text.endswith("\n"), "has values that are cut off")
    pairs = [line.partition(" ") for line in text[:-1].split("\n")]
    lines = {int(number): value for number, _, value in pairs}
    need(list(lines) == sorted(lines) and len(lines) == len(pairs), "has values out of order")
    need(all(str(i) == number for i, (number, *_) in zip(lines, pairs)), "has a value of no number")
    return lines


def _changed(text: str, array: Array | None) -> str:
    """A text of a layout after its change."""
    return text if array is None else edited(text, text_of(array))


def edited(text: str, change: str) -> str:
    """A text after a change: another text, or § Edits."""
    if not change.startswith("="):
        return change
    parts, at, left = list[str](), 0, change[1:]
    need(left, "has an edit without a splice")
    while left:
        *numbers, left = left.split(" ", 3)
        need(all(re.fullmatch("0|[1-9][0-9]{,8}", n) for n in numbers), "has an edit of no sense")
        skip, drop, length = map(int, numbers)
        need(at + skip + drop <= len(text) and length <= len(left), "has an edit beyond its text")
        parts += [text[at : at + skip], left[:length]]
        at, left = at + skip + drop, left[length:]
    return "".join([*parts, text[at:]])


def _places(structure: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Where each value of a structure stands, by keys and indices, and its number."""

    def visit(node: Any, way: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], int]]:
        ((tag, content),) = node.items()
        if tag == "v":
            yield way, content
        elif tag in "don":
            for key, child in content:
                yield from visit(child, (*way, json.dumps(key, separators=(",", ":"))))
        elif tag != "t":
            for i, child in enumerate(content):
                yield from visit(child, (*way, i))

    return visit(json.loads(structure), ()) if structure else iter(())


# The state: § A base (structure, values), § Restoring

GRADIENTS = "lcc.rerun"
MODELS = ("model", "model_state_dict", "state_dict", "module", "net", "network", "weights")
CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "d": dict, "o": OrderedDict, "n": lambda pairs: Counter(dict(pairs)), "l": list, "p": tuple
}


class State:
    """The state of a track.

    Attributes:
        tree: Its structure, with names and values in place of numbers.
        tensors: Name -> array in the tensor's own dtype.
        missing: What the record does not have, in a sentence; "" if it has all.
    """

    def __init__(self, track: Track) -> None:
        names = [t.name for t in track.layout]
        plain = {"d": [[name, {"t": i}] for i, name in enumerate(names)]}
        tree = json.loads(track.structure) if track.structure else plain
        self.tree = _named(tree, names, [json.loads(text) for text in track.values])
        self.missing = ""
        if GRADIENTS in (key for key, _ in self.tree["d"]):
            if track.kind == "base":  # it has all without them
                self.tree["d"] = [pair for pair in self.tree["d"] if pair[0] != GRADIENTS]
            else:
                self.missing = (
                    f"step {track.step} holds gradients in place of weights: {GRADIENTS} has them, "
                    "all other tensors are older; the optimizer's steps lead to the new ones, see "
                    "docs/reference/gradients.md"
                )
        raised = raised_moments(track, self.tree)
        arrays = track.arrays | raised
        wanted = set(_tensors_in(self.tree))
        self.tensors = {
            t.name: restored(arrays[t.name], t) for t in track.layout if t.name in wanted
        }

    def nested(self) -> dict[Any, Any]:
        """The state as it was saved."""
        state: dict[Any, Any] = _built(self.tree, self.tensors)
        return state


def restored(array: Array, t: Tensor) -> Array:
    """A tensor in its own dtype, from its array in the track: § Restoring."""
    if t.lossy and t.dtype != "F32":
        largest = LARGEST[t.dtype]
        array = np.where(np.isfinite(array), np.clip(array, -largest, largest), array)
        if t.dtype == "F16":
            return array.astype("<f2")
        bits = array.view(np.uint32)
        nearest = bits + 0x7FFF + (bits >> 16 & 1)
        array = (np.where(np.isnan(array), bits | 1 << 22, nearest) >> 16).astype(np.uint16)
    return in_dtype(array, t.dtype, t.shape)


def in_dtype(array: Array, dtype: str, shape: Sequence[int]) -> Array:
    """The array of a tensor from that of its bits."""
    if dtype == "C128":
        return array.reshape(-1).view("<c16").reshape(shape)
    if dtype in CARRIERS:
        return array.view(np.dtype(array.dtype.str, metadata={"dtype": dtype}))
    return array


def _named(node: Any, names: Sequence[str], values: Sequence[Any]) -> Any:
    """A structure with names and values in place of their numbers."""
    ((tag, content),) = node.items()
    if tag in "tv":
        return {tag: (names if tag == "t" else values)[content]}
    if tag in "don":
        return {tag: [[key, _named(child, names, values)] for key, child in content]}
    return {tag: [_named(child, names, values) for child in content]}


def _tensors_in(node: Any) -> Iterator[str]:
    """The names of the tensors below a node."""
    ((tag, content),) = node.items()
    if tag == "t":
        yield content
    elif tag != "v":
        for child in content:
            yield from _tensors_in(child[1] if tag in "don" else child)


def _built(node: Any, tensors: Mapping[str, Any]) -> Any:
    """What a node of a structure with names stands for."""
    ((tag, content),) = node.items()
    if tag == "t":
        return tensors[content]
    if tag == "v":
        return value_of(content)
    if tag in "don":
        return CONTAINERS[tag]([(value_of(key), _built(child, tensors)) for key, child in content])
    return CONTAINERS[tag]([_built(child, tensors) for child in content])


def value_of(value: Any) -> Any:
    """What the JSON of a value stands for: § Values."""
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag in "don":
        return CONTAINERS[tag]([(value_of(key), value_of(child)) for key, child in content])
    if tag in "lp":
        return CONTAINERS[tag]([value_of(child) for child in content])
    if tag in "sat":
        dtype, data = content
        carrier = np.dtype(DTYPES[CARRIERS.get(dtype, dtype)])
        bits = np.frombuffer(base64.b64decode(data, validate=True), carrier).copy()
        array = in_dtype(bits.reshape(() if dtype != "C128" else 2), dtype, ())
        return array[()] if tag == "s" else array
    if tag in "by":
        data = base64.b64decode(content, validate=True)
        return data if tag == "b" else bytearray(data)
    return {"i": int, "f": float}[tag](content)


def raised_moments(track: Track, tree: Any) -> dict[str, Array]:
    """Lossy second moments of Adam, raised to what the first ones imply: § Restoring."""
    known = {}
    for moments, betas in _optimized(_built(tree, {t.name: t.name for t in track.layout})):
        pair = betas[:2] if isinstance(betas, list | tuple) and len(betas) > 1 else (None, None)
        if all(isinstance(b, float | int) for b in pair) and pair[0] ** 2 < pair[1] < 1:
            b1, b2 = pair
            ratio = (1 - b1) ** 2 / ((1 - b2) * (1 - b1 * b1 / b2))
            known |= {name: ratio for name in moments.values() if isinstance(name, str)}
    raised = {}
    for t in track.layout:
        found = re.fullmatch(r"(.*[/.])(?:max_)?exp_avg_sq", t.name, re.DOTALL)
        if not found or not t.lossy or t.name.partition("/")[0] in MODELS:
            continue
        second, first = track.arrays[t.name], track.arrays.get(f"{found[1]}exp_avg")
        if first is None or first.shape != second.shape or first.dtype.kind != "f":
            continue
        with np.errstate(all="ignore"):
            least = first.astype(np.float64) ** 2 / (1.001 * known.get(t.name, 1000.0))
        least = np.minimum(least, np.finfo(np.float32).max).astype(np.float32)
        raised[t.name] = np.where((least > second) & (least > 2.0**-126), least, second)
    return raised


def _optimized(state: Any) -> Iterator[tuple[Mapping[Any, Any], Any]]:
    """Of every parameter in every optimizer's state: its moments by key, and its group's betas."""
    if isinstance(state, list | tuple):
        for child in state:
            yield from _optimized(child)
    if not isinstance(state, dict):
        return
    parameters, groups = state.get("state"), state.get("param_groups")
    if isinstance(parameters, dict) and isinstance(groups, list | tuple):
        for group in groups:
            if isinstance(group, dict) and isinstance(group.get("params"), list | tuple):
                for key in group["params"]:
                    if isinstance(moments := parameters.get(key), dict):
                        yield moments, group.get("betas")
        return
    for child in state.values():
        yield from _optimized(child)


# For use


def read(path: str | Path, step: int | None = None) -> dict[Any, Any]:
    """The state of a step of a chain; None for the newest. Raises ReadError."""
    return state_of(path, step)[1].nested()


def state_of(path: str | Path, step: int | None = None) -> tuple[int, State]:
    """A step and its state. Warns of what is missing."""
    track = Chain(path).track(step)
    with naming(path):
        state = State(track)
    if state.missing:
        warnings.warn(f"{path}: {state.missing}", stacklevel=2)
    return track.step, state


def write(path: Path, step: int, state: State) -> None:
    """Write a state as a .safetensors file."""
    names = {np.dtype(text): name for name, text in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"step": str(step), "state": json.dumps(state.tree)}}
    end, arrays = 0, []
    for name, array in sorted(state.tensors.items(), key=lambda item: -item[1].itemsize):
        if array.dtype.kind == "c" and array.itemsize == 16:
            array = array.reshape(-1).view("<f8").reshape(*array.shape, 2)
        own = (array.dtype.metadata or {}).get("dtype", "C32")
        dtype = names[array.dtype] if own == "C32" else own
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
        arrays.append(array)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with naming(path):
        part = path.with_name(f"{path.name}.part")
        with part.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for array in arrays:
                file.write(array.tobytes())
        part.replace(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("chain", help="a directory of records, or an archive: run.lcc.zip")
    parser.add_argument("--step", type=int, help="the step to restore (default: the newest)")
    parser.add_argument("-o", "--output", type=Path, help="the .safetensors file to write")
    options = parser.parse_args(arguments)
    if options.step is not None and options.output is None:
        parser.error("--step needs a file: -o FILE")
    warnings.showwarning = lambda message, *_args, **_more: print(message, file=sys.stderr)
    try:
        if options.output is None:
            print(*Chain(options.chain).steps, sep="\n")
            return 0
        step, state = state_of(options.chain, options.step)
        write(options.output, step, state)
    except ReadError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    print(f"{options.output}: step {step}, {len(state.tensors)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
