"""FORMAT.md: its examples byte by byte, and a decoder written from it alone."""

from __future__ import annotations

import base64
import copy
import json
import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from blake3 import blake3
from hypothesis import assume, given, settings
from hypothesis import example as case
from hypothesis import strategies as st

import codec
from codec import caps as untrusted
from codec import errors
from codec.errors import CodeTableError
from codec.record import alphabets as coded_of
from codec.record import container as container_of
from codec.record import merged
from codec.record import record as records
from codec.record.header import FORMAT, MAX_STEP, RUN
from codec.record.record import Place
from codec.record.residuals import read_residual, residual_parts
from codec.record.track import Track
from codec.record.values import MAX_TEXT
from codec.scheme import arithmetic, context, huffman, runlength, uniform
from codec.scheme.coders import CODERS
from codec.scheme.context import ContextCode
from codec.scheme.kernels import MAX_CLASSES, MAX_CONTEXTS, MAX_STREAM, UNIT
from codec.scheme.payload import MAX_UNITS, ROW_NBYTES, matrix_of
from codec.scheme.prefix import PrefixCode
from codec.scheme.stream import MAX_LEVELS, MAX_UNIFORM
from codec.scheme.survivors import packed
from codec.scheme.tables import CodeTable
from codec.state import edits, tree
from codec.state.tensors import CARRIER, TensorSpec, copy_arrays, layout_of, to_arrays

BATCH = "bits=([1-8]|all) ."  # the families that may be a batch

Arrays = dict[str, np.ndarray]
TEXT = (Path(codec.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")

DTYPES = "F64 F32 F16 C64 BOOL I64 I32 I16 I8 U64 U32 U16 U8 BF16 C32 C128 "
DTYPES += "F8_E4M3 F8_E5M2 F8_E4M3FNUZ F8_E5M2FNUZ F8_E8M0"
CARRIERS = {"BF16": "U16", "C32": "U32", "C128": "F64"}  # of other dtypes that arrays have not
CARRIERS |= {dtype: "U8" for dtype in DTYPES.split() if dtype.startswith("F8")}


def example() -> bytes:
    """The bytes of the first example: the length, the header as text, the arrays."""
    length, header, arrays = re.split(r"^(?=\{)|(?<=\})\n", block_of("record"), flags=re.MULTILINE)
    return hexadecimal(length) + header.replace("\n", "").encode() + hexadecimal(arrays)


def block_of(language: str) -> str:
    """The text between the marks of an example."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(block)


def hexadecimal(block: str) -> bytes:
    """The bytes of an example: at the begin of lines, before two spaces and a note."""
    return bytes.fromhex("".join(re.findall(r"^((?:[0-9a-f]{2}| (?! ))+)(?:  .*)?$", block, re.M)))


# The decoder: plain Python, one function a section of FORMAT.md, errors left to happen.


def container(data: bytes) -> tuple[dict[str, Any], dict[str, tuple[str, list[int], bytes]]]:
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length].decode())
    metadata = said(header.pop("__metadata__")["lcc"])
    arrays, end = {}, 0
    for name, view in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = view["data_offsets"]
        assert begin == end, "no gaps"
        arrays[name] = (view["dtype"], view["shape"], data[8 + length + begin : 8 + length + stop])
        end = stop
    assert 8 + length + end == len(data)
    if "more" in arrays:
        _, (size,), text = arrays.pop("more")
        more = json.loads(text.decode("ascii"))
        assert size > 2
        assert not set(more) & set(metadata)
        metadata |= more
    padded = data[7 + length : 8 + length] == b" "
    assert not padded or metadata["kind"] == "base"
    check_blocks(data, 8 + length, header, metadata)
    return metadata, arrays


def check_blocks(data: bytes, start: int, header: dict[str, Any], metadata: dict[str, Any]) -> None:
    """The digests by which parts are checked. start: the first array byte."""
    more_end = header.get("more", {"data_offsets": [0, 0]})["data_offsets"][1]
    others = [view["data_offsets"] for name, view in header.items() if name != "more"]
    n = sum(end - begin for begin, end in others)
    assert ("chunks" in metadata) == ("head" in metadata) == (n > 32_768)
    if n <= 32_768:
        return
    assert header["more"]["data_offsets"][0] == 0
    assert more_end % 8 == 0
    size = 16_384
    while n > 1024 * size:
        size *= 2
    body = data[start + more_end :]
    digests = [blake3(body[i : i + size]).digest()[:16] for i in range(0, n, size)]
    assert base64.b64decode(metadata["chunks"], validate=True) == b"".join(digests)
    beginning = data[: start + more_end].replace(metadata["digest"].encode(), b"A" * 22, 1)
    assert data[start:].startswith(b'{"head":"' + metadata["head"].encode() + b'"')
    beginning = beginning.replace(
        b'{"head":"' + metadata["head"].encode(), b'{"head":"' + b"A" * 22
    )
    assert in_base64(blake3(beginning).digest()[:16]) == metadata["head"]
    if metadata["kind"] != "base":
        are_large = [end - begin > 4096 for begin, end in sorted(others)]
        assert are_large == sorted(are_large)


def said(line: str) -> dict[str, Any]:
    """The words of a header."""
    form, letters, *words = line.split(" ")
    assert form in ("1", "2")
    if letters == "b":
        names = ["step", "run", "parent", "track", "digest"]
        metadata: dict[str, Any] = {"kind": "base", "format": form}
    else:
        names = ["step", "parent", "track", "keep", *(["rest"] * (len(words) == 6)), "digest"]
        kind, scope, coder = letters
        assert coder in ("rha" if form == "1" else "rhac")
        metadata = {"kind": {"d": "delta", "m": "merged"}[kind], "format": form}
        metadata["scope"] = {"m": "model", "t": "tensor"}[scope]
    metadata |= dict(zip(names, words, strict=True))
    assert str(int(metadata["step"])) == metadata["step"]
    metadata["step"] = int(metadata["step"])
    for name in ("parent", "track", "digest"):
        assert metadata[name] == "-" or is_digest(metadata[name])
    if "rest" in metadata:
        assert re.fullmatch(r"(0|[1-9]\d{0,3}),(0|[1-9]\d{0,3})", metadata["rest"])
    keep = metadata.get("keep", "all")
    if keep not in ["1", "2", "3", "4", "5", "6", "7", "8", "all"]:
        kind, number = re.fullmatch(r"([utd]?)([0-9.e+-]+)", keep).groups()  # type: ignore[union-attr]
        assert repr(float(number)) == number
        most = (2.0**128 - 2.0**104) / 4
        within = (2.0**-126, most) if kind == "t" else (5e-324, 1)
        assert within[0] <= float(number) <= within[1]
    return metadata


def is_digest(word: str) -> bool:
    """Whether these are 128 bits in base64."""
    bits = base64.urlsafe_b64decode(word + "==")
    return len(bits) == 16 and in_base64(bits) == word


def in_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def file_digest(data: bytes) -> str:
    got = re.match(rb'\{"__metadata__":\{"lcc":"[^"\\]* ([A-Za-z0-9_-]{22})"\}[,}]', data[8:])
    assert got
    data = data[:8] + data[8:].replace(got[0], got[0].replace(got[1], b"A" * 22), 1)
    return in_base64(blake3(data).digest()[:16])


def sum_of(data: bytes) -> int:
    bits = np.frombuffer(data, "<u4").astype(np.uint64)
    z = np.arange(bits.size, dtype=np.uint64) * 2**32 + bits
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return int((z ^ (z >> 31)).sum(dtype=np.uint64))


def track_digest(
    layout: list[Any], track: dict[str, bytearray], structure: str, values: dict[int, str]
) -> str:
    text = b""
    for name, dtype, shape, lossy, *_ in layout:
        text += json.dumps([name, dtype, shape]).encode()
        text += sum_of(track[name]).to_bytes(8, "little") if lossy else track[name]
    for value in (structure, *values.values()):
        text += len(value).to_bytes(8, "little") + value.encode("ascii")
    return in_base64(xxhash.xxh3_128_digest(text))


def lines(array: tuple[str, list[int], bytes]) -> dict[int, str]:
    """Values of a record."""
    text = array[2].decode("ascii")
    assert text.endswith("\n")
    got = [line.partition(" ") for line in text[:-1].split("\n")]
    assert [int(n) for n, *_ in got] == sorted({int(n) for n, *_ in got})
    return {int(n): value for n, _, value in got}


def edited(text: str, edit: str) -> str:
    """The text of a value after an edit, without its first character."""
    done = ""
    while edit or not done:
        *numbers, edit = edit.split(" ", 3)
        assert all(n == str(int(n)) and len(n) < 10 for n in numbers)
        skip, drop, length = map(int, numbers)
        assert skip + drop <= len(text)
        assert length <= len(edit)
        done, text = done + text[:skip] + edit[:length], text[skip + drop :]
        edit = edit[length:]
        if not edit:
            break
    return done + text


def changed(text: str, array: tuple[str, list[int], bytes] | None) -> str:
    """The text of a layout or structure after the change in an array."""
    if array is None:
        return text
    change = array[2].decode("ascii")
    assert "\n" not in change
    return edited(text, change[1:]) if change.startswith("=") else change


def places(node: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Where the values of a structure stand, and their numbers."""
    ((tag, content),) = node.items()
    if tag == "v":
        yield way, content
    elif tag != "t":
        listed = [(json.dumps(key), child) for key, child in content] if tag in "don" else None
        for key, child in listed or enumerate(content):
            yield from places(child, (*way, key))


def kept_form(entry: list[Any]) -> tuple[Any, ...]:
    """What two tensors have in common if rows of one can be those of the other."""
    _, dtype, shape, lossy, *_ = entry
    return dtype, "F32" if lossy else CARRIERS.get(dtype, dtype), len(shape), shape[1:]


def code_lengths(table: bytes, n: int) -> list[int] | None:
    """None for what is no table of n lengths."""
    bits = "".join(format(byte, "08b")[::-1] for byte in table)
    lengths: list[int] = []
    last = 8
    while len(bits) >= 8 or "1" in bits:
        if run := re.match("011(0*)1", bits):
            n_open, bits = len(run[1]), bits[run.end() :]
            if len(bits) < n_open or n_open > 12:
                return None
            lengths += [0] * (2**n_open + int("0" + bits[:n_open][::-1], 2))
            bits = bits[n_open:]
            continue
        item = re.match("(1)|(010)|(001)|(00010)|(00011)|0000(....)", bits)
        if item is None:
            return None
        if item[6]:
            last = int(item[6][::-1], 2)
        else:
            last += (0, 1, -1, 2, -2)[(item.lastindex or 0) - 1]
        if not 1 <= last <= 15:
            return None
        lengths.append(last)
        bits = bits[item.end() :]
    return lengths + [0] * (n - len(lengths)) if len(lengths) <= n else None


def code_words(lengths: list[int] | None) -> dict[str, int]:
    assert lengths is not None
    words, value, before = {}, -1, 0
    for length, symbol in sorted((n, i) for i, n in enumerate(lengths) if n):
        value = (value + 1) << (length - before) if before else 0
        words[format(value, f"0{length}b")] = symbol
        before = length
    assert sum(2.0 ** -len(w) for w in words) == 1
    return words


class Bits:
    """A stream, read from its begin to its end."""

    def __init__(self, payload: bytes, n: int) -> None:
        stream = "".join(format(byte, "08b")[::-1] for byte in payload)
        assert "1" not in stream[n:]
        self.left, self.at = stream[:n], 0

    def number(self, n: int) -> int:
        """The next n bits, lowest first."""
        self.at += n
        assert self.at <= len(self.left)
        return int("0" + self.left[self.at - n : self.at][::-1], 2)

    def word(self, words: dict[str, int]) -> int:
        """What the next code word stands for."""
        begin = self.at
        while self.left[begin : self.at] not in words:
            assert self.at < len(self.left)
            self.at += 1
        return words[self.left[begin : self.at]]


def plain(stream: Bits, words: dict[str, int], n: int) -> list[int]:
    codes = [stream.word(words) for _ in range(n)]
    assert stream.at == len(stream.left)
    return codes


def from_groups(stream: Bits, words: dict[str, int], k: int, n: int) -> list[int]:
    """The codes of a stream of n elements with a code word for each group."""
    b, codes = (k - 1).bit_length(), list[int]()
    while len(codes) < n:
        index = stream.word(words)
        group = [index >> b * i & (2**b - 1) for i in range(4 if b < 4 else 2)]
        assert max(group) < k
        codes += group
    assert not any(codes[n:])
    assert stream.at == len(stream.left)
    return codes[:n]


def from_tokens(
    stream: Bits, words: dict[str, int], classes: int, k: int, n: int, met: Counter[str]
) -> list[int]:
    codes, position = [0] * n, 0
    while stream.at < len(stream.left):
        token = stream.word(words)
        if token:
            symbol, kind = 1 + (token - 1) // classes, (token - 1) % classes
        else:
            kind, symbol = stream.number(7), 1 + stream.number((k - 2).bit_length())
        met["escape"] += token == 0
        assert kind <= 83
        assert symbol <= k - 1
        run = amount_of(kind, stream)
        met["open"] += kind >= 16
        codes[position + run] = symbol
        position += run + 1
    return codes


FLOATS = {"F64": 52, "F32": 23, "F16": 10, "BF16": 7, "C128": 52, "C64": 23, "C32": 10}
FLOATS |= {"F8_E4M3": 3, "F8_E5M2": 2, "F8_E4M3FNUZ": 3, "F8_E5M2FNUZ": 2}
WIDTHS = {"BOOL": 8, "BF16": 16, "C128": 64, "C64": 32, "C32": 16, "F8_E8M0": 8}


def after_residual(old: bytes, words: Words, dtype: str, met: Counter[str]) -> bytes:
    """A tensor's bytes after a residual."""
    w = WIDTHS.get(dtype) or int(dtype.split("_")[0][1:])
    sign = 2 ** (w - 1) if dtype in FLOATS else 0
    modulus = sign or 2**w
    values = list(struct.unpack(f"<{8 * len(old) // w}{'BHIQ'[w.bit_length() - 4]}", old))
    (contexts,) = words.bytes(1)
    assert 1 <= contexts <= 4
    bounds = struct.unpack(f"<{contexts - 1}H", words.bytes(2 * contexts - 2))
    assert [0, *bounds] == sorted({0, *bounds})
    inside: list[list[int]] = [[] for _ in range(contexts)]
    for i, value in enumerate(values):
        exponent = value % modulus >> FLOATS.get(dtype, 0)
        inside[sum(bound <= exponent for bound in bounds)].append(i)
    met["contexts"] += contexts - 1
    most = 4 * (w - 1)
    heads = []
    for _ in inside:
        k, classes, units, nbytes = words.row()
        table = words.bytes(nbytes)
        assert 1 <= units <= 32
        assert (k == 1) == (classes == 0) == (nbytes == 0)
        assert 1 <= k <= 1 + most * (4 if sign else 2)
        e = 65536 * units
        streams = words.take("I", math.ceil(len(values) / e) if classes else 0)
        heads.append((k, classes, e, table, streams))
    for elements, (k, classes, e, table, streams) in zip(inside, heads):
        if not classes:
            continue
        code = code_words(code_lengths(table, n_lengths(k - 1, classes, True)))
        for i, bits in enumerate(streams):
            its = iter([x for x in elements if i * e <= x < (i + 1) * e])
            stream = Bits(words.bytes(4 * math.ceil(bits / 32)), bits)
            met["plain steps" if classes == 1 else "tokens of steps"] += 1
            while stream.at < bits:
                symbol, run = stream.word(code), 0
                if classes > 1:
                    kind = (symbol - 1) % classes
                    symbol, escape = 1 + (symbol - 1) // classes, symbol == 0
                    if escape:
                        kind, symbol = stream.number(7), 1 + stream.number((k - 2).bit_length())
                    run = amount_of(kind, stream)
                for _ in range(run):
                    next(its)
                at = next(its)
                if symbol:
                    assert symbol < k
                    flips, c = divmod(symbol - 1, 2 * most)
                    amount = amount_of(c // 2, stream) + 1 - flips
                    met["flips"] += flips
                    met["large steps"] += c // 2 >= 16
                    moved = (values[at] + (-amount if c % 2 else amount)) % modulus
                    values[at] = moved | (values[at] & sign) ^ (sign * flips)
            assert classes > 1 or next(its, None) is None
    words.finish()
    return struct.pack(f"<{len(values)}{'BHIQ'[w.bit_length() - 4]}", *values)


def amount_of(kind: int, stream: Bits) -> int:
    """A run of a class, or another number of such a class."""
    power, two_bits = divmod(kind, 4)
    return kind if kind < 16 else (4 + two_bits) * 2 ** (power - 2) + stream.number(power - 2)


class Decisions:
    """An arithmetic code, read decision by decision."""

    def __init__(self, code: list[int]) -> None:
        self.left = [*code, 0, 0, 0, 0, 0]
        self.span, self.window = 2**40, 0
        for _ in range(5):
            self.window = 256 * self.window + self.left.pop(0)
        self.contexts: dict[Any, list[int]] = {}

    def read(self, context: Any, first: int) -> int:
        """The next decision. first: the chance of its context at first."""
        chance, n = self.contexts.setdefault(context, [first, 0])
        bound = (self.span >> 16) * chance
        is_one = self.window < bound
        if is_one:
            self.span = bound
        else:
            self.span, self.window = self.span - bound, self.window - bound
        while self.span < 2**32:
            self.span *= 256
            self.window = 256 * self.window + (self.left.pop(0) if self.left else 0)
        if context is not None:
            r = 131072 // (2 * n + 3)
            chance += ((65536 - chance) * r >> 16) if is_one else -(chance * r >> 16)
            self.contexts[context] = [min(max(chance, 32), 65504), min(n + 1, 60)]
        return int(is_one)


def logarithm(v: int) -> int:
    p = v.bit_length() - 1
    return 16 * p + (16 * v // 2**p - 16)


def sign(q: int) -> int:
    return (q > 0) - (q < 0)


def from_arithmetic(code: list[int], matrices: list[tuple[int, int]]) -> list[int]:
    """The codes of all elements."""
    decisions, codes, mean = Decisions(code), list[int](), 205
    for rows, columns in matrices:
        agreed, up, in_columns = [0] * columns, [0] * columns, [0] * columns
        for i in range(rows):
            if i > 0 and columns > 0:
                mean = max(sum(in_columns) * 4096 // (i * columns), 1)
            row: list[int] = []
            agrees = in_row = 0
            for j in range(columns):
                e = logarithm(4096 * in_row + 2 * mean) + logarithm(4096 * in_columns[j] + 2 * mean)
                e -= logarithm(j + 2) + logarithm(i + 2) + logarithm(mean)
                left = row[-1] if row else 0
                s = sign(agrees * agreed[j])
                q = element(decisions, min(max(e // 16, 0), 23), left, up[j], s)
                if q and agreed[j]:
                    agrees += 1 if sign(q) == sign(agreed[j]) else -1
                row.append(q)
                in_row += min(abs(q), 31)
                in_columns[j] += min(abs(q), 31)
            agreed = [h + sign(q) * (-1 if agrees < 0 else 1) for h, q in zip(agreed, row)]
            codes += [2 * q - 1 if q > 0 else -2 * q for q in row]
            up = row
        if rows * columns:
            mean = max(sum(in_columns) * 4096 // (rows * columns), 1)
    return codes


def element(decisions: Decisions, activity: int, left: int, up: int, s: int) -> int:
    """q of the next element."""
    if not decisions.read(("zero", activity, (left != 0) + (up != 0)), 6000):
        return 0
    size = 0
    while size < 13 and decisions.read(("size", activity, size), 20000):
        size += 1
    a, last = 1, None
    for i in range(size):
        context = ("bits", size, last) if i < 2 else None
        last = decisions.read(context, 32768)
        a = 2 * a + last
    return -a if decisions.read(("sign", s, sign(left), sign(up)), 32768) else a


class ContextDecisions(Decisions):
    """A stream of a context code."""

    def read(self, context: Any, first: int, uses: int = 0) -> int:
        chance, n = self.contexts.setdefault(context, [first, uses])
        bound = (self.span >> 16) * chance
        is_one = self.window >= self.span - bound
        self.window -= (self.span - bound) * is_one
        self.span = bound if is_one else self.span - bound
        while self.span < 2**32:
            self.span *= 256
            self.window = 256 * self.window + (self.left.pop(0) if self.left else 0)
        r = 131072 // (2 * n + 3)
        chance += (65536 * is_one - chance) * r >> 16
        self.contexts[context] = [min(max(chance, 32), 65504), min(n + 1, 60)]
        return int(is_one)


STREAM = 2**18  # elements
MOST_COLUMNS = 2**15


def streams_of(matrices: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Rows and columns of the matrices of each stream of a context code."""
    short: list[tuple[int, int]] = []
    for rows, columns in matrices:
        if columns == 1:
            rows, columns = 1, rows
        if columns <= MOST_COLUMNS:
            short.append((rows, columns))
        else:
            cuts = range(0, columns, MOST_COLUMNS)
            short += [(1, min(MOST_COLUMNS, columns - x)) for x in cuts] * rows
    streams: list[list[tuple[int, int]]] = [[]]
    elements = 0
    for rows, columns in short:
        streams[-1].append((0, columns))
        for _ in range(rows if columns else 0):
            if elements >= STREAM:
                streams.append([(0, columns)])
                elements = 0
            streams[-1][-1] = (streams[-1][-1][0] + 1, columns)
            elements += columns
    return streams


def from_contexts(
    code: list[int],
    sizes: list[int],
    units: int,
    matrices: list[tuple[int, int]],
    signs: dict[int, int] | None,
) -> list[int]:
    """q of all elements. signs: of each a of buckets whose levels all have this sign; None for
    uniform steps."""
    got: list[int] = []
    for shapes, size in zip(streams_of(matrices), sizes, strict=True):
        assert code[:size][-1:] != [0]
        stream, code = ContextDecisions(code[:size]), code[size:]
        mean = 205
        for rows, columns in shapes:
            matrix = Matrix(stream, rows, columns, units, signs, mean)
            got += [q for row in matrix.read() for q in row]
            mean = matrix.mean
        assert len(stream.left) <= 5  # zeros behind the end
    assert not code
    return got


class Matrix:
    """The matrix that is read next of a stream of a context code."""

    def __init__(
        self,
        stream: ContextDecisions,
        rows: int,
        columns: int,
        units: int,
        signs: dict[int, int] | None,
        mean: int,
    ) -> None:
        self.stream, self.rows, self.w, self.mean = stream, rows, columns, mean
        self.signs = signs
        self.width = units if units == 8 and columns > 8 else columns
        self.sums, self.h, self.noted = ([0] * columns for _ in range(3))
        self.group_noted = [0] * columns  # by the group's first column
        self.counts: dict[int, int] = {}  # of each group's q other than 0, in the newest row

    def m(self, q: int) -> int:
        a = abs(q)
        return min(a, 31) if self.signs is None else 2 ** min(a - 1, 6) if a else 0

    def read(self) -> list[list[int]]:
        self.done: list[list[int]] = []
        self.changing: list[int] = []
        for i in range(self.rows if self.w else 0):
            if i:
                self.mean = max(sum(self.sums) * 4096 // (i * self.w), 1)
            if i.bit_count() < 2:
                self.noted = [self.mean] * self.w
                self.group_noted = [self.mean] * self.w
            self.above = self.done[-1] if self.done else [0] * self.w
            changes = 1
            if self.w >= 8:
                f = logarithm(4096 * sum(self.changing) // (i + 1) + 1) >> 3
                p = self.changing[-1] if i else 2
                changes = self.stream.read(("row", f, p), 32768)
                self.changing.append(changes)
            row = self.row(i) if changes else [0] * self.w
            self.done.append(row)
            for j, q in enumerate(row):
                self.sums[j] += self.m(q)
        if self.rows * self.w:
            self.mean = max(sum(self.sums) * 4096 // (self.rows * self.w), 1)
        return self.done

    def activity(self, i: int, row: list[int], j: int, c: int, n: int) -> int:
        r = sum(map(self.m, row))
        e = logarithm(4096 * r + 2 * self.mean) + logarithm(4096 * c + 2 * n)
        e -= logarithm(j + 2) + logarithm(self.mean) + logarithm(i + 2)
        return min(max(e >> 4, 0), 23)

    def row(self, i: int) -> list[int]:
        row: list[int] = []
        counts: dict[int, int] = {}
        self.g = 0
        for begin in range(0, self.w, self.width):
            end = min(begin + self.width, self.w)
            if self.width < self.w:
                both = sum(self.sums[begin:end])
                b = self.activity(i, row, begin, both, self.group_noted[begin] * (end - begin))
                context = ("group", b, counts.get(begin - 8, 0), self.counts.get(begin, 0))
                counts[begin] = 0
                if not self.stream.read(context, chance_of(b), 2):
                    row += [0] * (end - begin)
                    continue
            for j in range(begin, end):
                self.element(i, j, row, end - 1 if self.width < self.w else None, begin)
            if self.width < self.w:
                counts[begin] = min(sum(q != 0 for q in row[begin:]), 2)
                if counts[begin]:
                    self.group_noted[begin] = self.mean
        self.counts = counts
        for j, q in enumerate(row):
            self.h[j] += sign(q) * (-1 if self.g < 0 else 1)
        return row

    def element(self, i: int, j: int, row: list[int], last: int | None, begin: int) -> None:
        """Read one element. last: of its group, None outside of groups."""
        left, up = (row[-1] if row else 0), self.above[j]
        activity = self.activity(i, row, j, self.sums[j], self.noted[j])
        g = 0 if last is None else 2 if any(row[begin:]) else 1
        q = 0
        known = g == 1 and j == last
        first = max(chance_of(activity), 9830 * (g == 1))
        context = ("zero", g, activity, min(abs(left), 2), min(abs(up), 2))
        if known or self.stream.read(context, first, 2):
            a = 1
            while a <= 8:
                z = (abs(left) > a) + (abs(up) > a)
                if not self.stream.read(("more", activity, z, a), 20000):
                    break
                a += 1
            if a > 8:
                size = 0
                while size < 13 and self.stream.read(("size", activity, size), 20000):
                    size += 1
                rest = 1
                for d in range(size):
                    rest = 2 * rest + self.stream.read(("bits", size, min(d, 2)), 32768)
                a = 8 + rest
            q = a * self.sign_of(a, self.h[j], left, up)
            self.noted[j] = self.mean
            if self.h[j]:
                self.g += 1 if sign(q) == sign(self.h[j]) else -1
        row.append(q)

    def sign_of(self, a: int, h: int, left: int, up: int) -> int:
        if self.signs is not None and a in self.signs:
            return self.signs[a]
        context = ("sign", sign(self.g * h), sign(left), sign(up))
        return -1 if self.stream.read(context, 32768) else 1


def chance_of(activity: int) -> int:
    return min(max(65536 * 2**activity // (2**activity + 2896), 200), 65000)


def fields_of(levels: list[float]) -> dict[int, int]:
    """Code of each q of buckets."""
    bits = [struct.unpack("<I", struct.pack("<f", level))[0] for level in levels[1:]]
    ranks = sorted({b >> 23 & 255 for b in bits})
    got = {
        (1 + ranks.index(b >> 23 & 255)) * (-1 if b >> 31 else 1): code
        for code, b in enumerate(bits, 1)
    }
    assert len(got) == len(bits)
    return {0: 0} | got


def n_lengths(symbols: int, classes: int, by_steps: bool) -> int:
    """Code lengths of a table, at most 4,096."""
    with_tokens = min(symbols, 4095 // classes) if by_steps and classes > 1 else symbols
    assert 1 <= classes <= 84
    assert 1 + with_tokens * classes <= 4096
    return 1 + with_tokens * classes


def multiples(size: float, k: int) -> list[float]:
    """Levels of uniform steps, as doubles that are float32 numbers."""
    assert size > 0
    levels = [0.0]
    for code in range(1, k):
        q = (code + 1) // 2 if code % 2 else -((code + 1) // 2)
        levels += struct.unpack("<f", struct.pack("<f", q * size))
    return levels


def identity(metadata: dict[str, Any]) -> str:
    return metadata.get("replaces") or metadata["digest"]


def sent_last(metadata: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The code tables that a base or merged record tells of."""
    got, packed = {}, arrays["sent"][2] if "sent" in arrays else b""
    for name, symbols, classes, nbytes in metadata.get("sent", []):
        assert 1 <= symbols <= 4095
        words = code_words(code_lengths(packed[:nbytes], n_lengths(symbols, classes, False)))
        got[name], packed = (classes, words, symbols + 1), packed[nbytes:]
    assert packed == b""
    return got


def by_rank(steps: list[int], levels: list[float]) -> list[int]:
    """Codes of buckets, from those that steps of the same integers q would have."""
    ranked: dict[int, int] = {0: 0}
    for negative in (False, True):
        its = [c for c in range(1, len(levels)) if (math.copysign(1, levels[c]) < 0) == negative]
        its.sort(key=lambda c: (abs(levels[c]), -c))
        ranked |= {2 * rank - (not negative): c for rank, c in enumerate(its, 1)}
    return [ranked[step] for step in steps]


@dataclass
class Head:
    """The head of an alphabet. nbytes: of its payload. rows: the levels of a batch, by tensor."""

    group: list[Any]
    k: int
    classes: int
    e: int
    nbytes: int
    words: dict[str, int] | None
    streams: list[int]
    levels: list[list[float]]
    rows: list[list[list[float]]] | None
    by_steps: bool


class Reader:
    """A chain's track, and what was met on the way: a test can see that it tests something."""

    def __init__(self, base: bytes) -> None:
        metadata, arrays = container(base)
        assert metadata["digest"] == file_digest(base)
        self.parent = identity(metadata)
        first = base64.urlsafe_b64decode(metadata["digest"] + "==").hex()[:16]
        self.run = first if metadata["run"] == "-" else metadata["run"]
        self.layout = metadata["layout"]
        self.track = {name: bytearray(arrays["t/" + name][2]) for name, *_ in self.layout}
        self.structure = arrays["structure"][2].decode("ascii") if "structure" in arrays else ""
        self.values = lines(arrays["values"]) if "values" in arrays else {}
        assert list(self.values) == list(range(len(self.values)))
        self.check(metadata["track"])
        self.tables: dict[str, tuple[int, dict[str, int], int]] = sent_last(metadata, arrays)
        self.met: Counter[str] = Counter()

    def advance(self, data: bytes, stop: int | None = None) -> None:
        """One record, of a merged one no steps after ``stop``."""
        metadata, arrays = container(data)
        assert metadata["digest"] == file_digest(data)
        assert metadata["parent"] == self.parent
        merged = metadata["kind"] == "merged"
        layers = [{"steps": [[metadata["step"], metadata["track"]]]} | metadata]
        if merged:
            layers, self.tables = metadata["layers"], {}
            numbers = [step for layer in layers for step, _ in layer["steps"]]
            assert numbers == sorted(set(numbers))
            assert layers[-1]["steps"][-1] == [metadata["step"], metadata["track"]]
        data_left = Words(arrays.get("c"))
        if metadata["kind"] == "delta":
            self.change_layout(arrays)
        number = 0
        heads = []
        for layer in layers:
            non_finite = layer.get("non_finite", [])
            assert len(layer["steps"]) == 1 or not non_finite
            groups = self.groups(metadata["scope"], non_finite)
            heads.append([self.head(data_left, g, metadata, len(layer["steps"])) for g in groups])
        for layer, of_layer in zip(layers, heads):
            steps = layer["steps"]
            alphabets = [its for head in of_layer for its in self.coded(data_left, head)]
            self.met["columns"] += len(steps) - 1  # one would be a delta's
            self.met["layers"] += 1
            for column, (step, track) in enumerate(steps):
                if stop is None or step <= stop:
                    for group, levels, codes in alphabets:
                        its = [row[column] for row in levels]
                        self.apply(group, its, codes, zeros=not merged)
                    self.replace(arrays, number if merged else None)
                    self.check(track)
                number += 1
        data_left.finish()
        if merged:
            self.tables = sent_last(metadata, arrays)
        self.parent = identity(metadata)

    def groups(self, scope: str, non_finite: list[str]) -> list[list[Any]]:
        mine = [(n, s, family) for n, _, s, lossy, _, family in self.layout if lossy]
        mine = [t for t in mine if t[0] not in non_finite]
        families = dict.fromkeys(family for *_, family in mine)
        self.met["families"] += len(families)
        got: dict[Any, list[Any]] = {}
        for t in mine:
            alone = scope == "tensor" and not re.match(BATCH, t[2])
            got.setdefault((alone, t[0] if alone else t[2]), []).append(t)
        return list(got.values())

    def head(self, left: Words, group: list[Any], metadata: dict[str, Any], m: int) -> Head:
        """The head of the next alphabet, m levels a code."""
        k, classes, units, nbytes = left.row()
        free = metadata["kind"] == "merged" or len(metadata["keep"]) > 1 or group[0][2] != ""
        most = 511 if free else 2 ** int(metadata["keep"])
        by_steps = k >= 32768
        if by_steps:
            assert m == 1
            k, most = k - 32768, 32767
            self.met["by steps"] += 1
        batch = 16384 <= k < 32768 and len(group) > 1 and re.match(BATCH, group[0][2])
        if batch:
            k -= 16384
            self.met["batches"] += 1
        assert 1 <= k <= most
        self.met["levels"] = max(self.met["levels"], k)
        self.met["groups"] += 1
        n = sum(math.prod(shape) for _, shape, _ in group)
        streams: list[int] = []
        words = None
        if classes == 254:
            assert metadata["format"] == "2"
            assert k >= 2
            assert m == 1
            assert not batch
            assert units in (1, 8)
            listed, e = list(left.bytes(nbytes)), units
            while listed:
                size = shift = 0
                while True:
                    digit = listed.pop(0)
                    size, shift = size + (digit % 128 << shift), shift + 7
                    if digit < 128:
                        break
                streams.append(size)
            nbytes = sum(streams)
            self.met["contexts"] += 1
            self.met["octets"] += units == 8
        elif classes == 252:
            assert metadata["format"] == "2"
            assert 2 <= k <= 64
            assert (m, units) == (1, 1)
            assert not batch
            b, e = (k - 1).bit_length(), 65536
            lengths = code_lengths(left.bytes(nbytes), 2 ** (b * (4 if b < 4 else 2)))
            assert lengths is not None
            assert max(lengths) <= 14
            words = code_words(lengths)
            streams = left.take("I", math.ceil(n / e))
            nbytes = sum(4 * math.ceil(bits / 32) for bits in streams)
            self.met["groups of values"] += 1
        elif classes == 255:
            assert k >= 2
            assert m == 1
            assert not batch
            nbytes, e = units + 256 * nbytes, 0
            self.met["arithmetic"] += 1
        else:
            assert 1 <= units <= 32
            e = 65536 * units
            words = self.words_of(
                left.bytes(nbytes), group, metadata["scope"], k, classes, by_steps
            )
            streams = left.take("I", math.ceil(n / e) if classes else 0)
            nbytes = sum(4 * math.ceil(bits / 32) for bits in streams)
        rows: list[list[list[float]]] | None = None
        if by_steps:
            size = left.take("f", 1)[0] if k > 1 else 1.0
            levels = [[level] for level in multiples(size, k)]
        elif batch:
            width = 1 if k <= 256 else 2
            numbers = struct.unpack(
                f"<{len(group)}{'BH'[width - 1]}", left.bytes(width * len(group))
            )
            assert max(numbers) == k - 1
            rows = []
            for number in numbers:
                its = left.take("f", number * m)
                rows.append([[0.0] * m, *(its[i : i + m] for i in range(0, len(its), m))])
                rows[-1] += [[0.0] * m] * (k - 1 - number)
            levels = [level for of_tensor in rows for level in of_tensor]
        else:
            its = left.take("f", (k - 1) * m)
            levels = [[0.0] * m, *(its[i : i + m] for i in range(0, len(its), m))]
        assert all(math.isfinite(level) for row in levels for level in row)
        return Head(group, k, classes, e, nbytes, words, streams, levels, rows, by_steps)

    def words_of(
        self, table: bytes, group: list[Any], scope: str, k: int, classes: int, by_steps: bool
    ) -> dict[str, int] | None:
        """The code words of an alphabet, by its own table or the one sent last."""
        name = group[0][0 if scope == "tensor" and len(group) == 1 else 2]
        if classes == 0:
            assert (k in (1, 2), table) == (True, b"")
            return None
        if table:
            words = code_words(code_lengths(table, n_lengths(k - 1, classes, by_steps)))
            self.tables[name] = (classes, words, k)
            self.met["short table"] += classes > 2 and (k - 1) * classes > 4095
        sent, words, k_then = self.tables[name]
        assert sent == classes
        assert classes > 1 or k_then == k
        self.met["cached"] += not table
        self.met["cached for another k"] += k_then != k
        return words

    def coded(
        self, left: Words, head: Head
    ) -> Iterator[tuple[list[Any], list[list[float]], list[int]]]:
        """Tensors that share levels, rows of these and codes, by the next payload."""
        group, k = head.group, head.k
        n = sum(math.prod(shape) for _, shape, _ in group)
        codes: list[int] = []
        matrices = [(shape[0] if shape else 1, math.prod(shape[1:])) for _, shape, _ in group]
        if head.classes == 254:
            code = list(left.bytes(head.nbytes))
            code_of = fields_of([row[0] for row in head.levels]) if not head.by_steps else None
            signs = None
            if code_of is not None:
                signs = {abs(q): sign(q) for q in code_of if q and -q not in code_of}
            steps = from_contexts(code, head.streams, head.e, matrices, signs)
            self.met["context streams"] += len(head.streams)
            if code_of is None:
                codes = [2 * q - 1 if q > 0 else -2 * q for q in steps]
            else:
                codes = [code_of[q] for q in steps]
            assert max(codes, default=0) < k
        elif head.classes == 255:
            code = list(left.bytes(head.nbytes))
            assert code[-1:] != [0]
            steps = from_arithmetic(code, matrices)
            codes = steps if head.by_steps else by_rank(steps, [row[0] for row in head.levels])
            assert max(codes, default=0) < k
        elif head.words is None:
            self.met["one symbol"] += 1
            codes = [k - 1] * n
        else:
            for begin, bits in zip(range(0, n, head.e), head.streams, strict=True):
                elements = min(head.e, n - begin)
                stream = Bits(left.bytes(4 * math.ceil(bits / 32)), bits)
                self.met["streams"] += 1
                if head.classes == 252:
                    codes += from_groups(stream, head.words, k, elements)
                elif head.classes == 1:
                    self.met["plain"] += 1
                    codes += plain(stream, head.words, elements)
                else:
                    codes += from_tokens(stream, head.words, head.classes, k, elements, self.met)
        for tensors, its, begin, end in self.shares(group, head.levels, head.rows):
            yield tensors, its, codes[begin:end]

    def shares(
        self, group: list[Any], levels: list[list[float]], rows: list[list[list[float]]] | None
    ) -> Iterator[tuple[list[Any], list[list[float]], int, int]]:
        """Tensors with common levels, these, and where their elements begin and end."""
        sizes = [math.prod(shape) for _, shape, _ in group]
        if rows is None:
            yield group, levels, 0, sum(sizes)
            return
        for i, tensor in enumerate(group):
            yield [tensor], rows[i], sum(sizes[:i]), sum(sizes[: i + 1])

    def replace(self, arrays: dict[str, Any], number: int | None) -> None:
        """What is stored whole in a delta, or in the step of this number."""
        prefix = "t/" if number is None else f"t/{number}/"
        values = "values" if number is None else f"values/{number}"
        for name, array in arrays.items():
            if name.startswith(prefix):
                self.track[name.removeprefix(prefix)][:] = array[2]
                self.met["exact"] += 1
        small = "small" if number is None else f"small/{number}"
        if small in arrays:
            left = list(arrays[small][2])
            seen = set()
            while left:
                at = -1
                members = []
                for _ in range(varint(left)):
                    gap, length = varint(left), varint(left)
                    assert gap > 0
                    members += range(at + gap, at + gap * length + 1, gap)
                    at = members[-1]
                nbytes = len(self.track[self.layout[members[0]][0]])
                content, left = bytes(left[:nbytes]), left[nbytes:]
                assert len(content) == nbytes <= 64
                for name, dtype, shape, lossy, *_ in (self.layout[i] for i in members):
                    assert (dtype, shape, lossy) == (*self.layout[members[0]][1:3], False)
                    assert name not in seen
                    assert prefix + name not in arrays
                    seen.add(name)
                    self.track[name][:] = content
                self.met["equal"] += len(members) - 1
                self.met["small"] += 1
        dtypes = {name: dtype for name, dtype, _, lossy, *_ in self.layout if not lossy}
        for name, array in arrays.items():
            if name.startswith("d" + prefix[1:]):
                its = name.removeprefix("d" + prefix[1:])
                assert "t" + name[1:] not in arrays
                old = self.track[its]
                old[:] = after_residual(bytes(old), Words(array), dtypes[its], self.met)
                self.met["residuals"] += 1
        if values in arrays:
            for i, text in lines(arrays[values]).items():
                is_edit = text.startswith("=")
                self.values[i] = edited(self.values[i], text[1:]) if is_edit else text
                self.met["edits"] += is_edit
            self.met["values"] += 1
        assert "" not in self.values.values()

    def change_layout(self, arrays: dict[str, Any]) -> None:
        """Another layout, if a delta begins with one."""
        given = {name[2:]: array for name, array in arrays.items() if name.startswith("n/")}
        if "layout" not in arrays and "structure" not in arrays:
            assert not given
            return
        text = json.dumps(self.layout, separators=(",", ":"))
        layout = json.loads(changed(text, arrays.get("layout")))
        structure = changed(self.structure, arrays.get("structure"))
        assert (layout, structure) != (self.layout, self.structure)
        before, track = {entry[0]: entry for entry in self.layout}, self.track
        self.layout, self.track = layout, {}
        for entry in layout:
            name, dtype, shape, *_ = entry
            was = before.get(name)
            if name not in given:
                assert was is not None
                assert (kept_form(was), was[2]) == (kept_form(entry), shape)
                self.track[name] = track[name]
                continue
            carrier, its, data = given.pop(name)
            assert carrier == kept_form(entry)[1]
            if its == shape + [2] * (dtype == "C128"):
                self.track[name] = bytearray(data)
                self.met["whole"] += 1
            else:
                assert was is not None
                assert kept_form(was) == kept_form(entry)
                assert math.prod(was[2]) > 0
                assert its == [shape[0] - was[2][0], *shape[1:]] + [2] * (dtype == "C128")
                self.track[name] = track[name] + data
                self.met["rows"] += 1
        assert not given
        self.met["gone"] += len(before.keys() - self.track.keys())
        if structure != self.structure:
            old, new = (
                dict(places(json.loads(text))) if text else {}
                for text in (self.structure, structure)
            )
            assert sorted(new.values()) == list(range(len(new)))
            numbers = {number: old.get(place) for place, number in new.items()}
            self.values = {i: self.values.get(numbers[i], "") for i in sorted(numbers)}  # type: ignore[arg-type]
            self.structure = structure

    def check(self, track: str) -> None:
        assert track == track_digest(self.layout, self.track, self.structure, self.values)

    def apply(self, group: list[Any], levels: list[float], codes: list[int], zeros: bool) -> None:
        for name, shape, _ in group:
            size, track = math.prod(shape), self.track[name]
            for i, code in enumerate(codes[:size]):
                # A double's 53 bits are enough to round once: 53 >= 2 * 24 + 2.
                if code and (levels[code] or zeros):
                    (value,) = struct.unpack_from("<f", track, 4 * i)
                    struct.pack_into("<f", track, 4 * i, value + levels[code])
            codes = codes[size:]


def varint(data: list[int]) -> int:
    """The next number of an array `small`."""
    n = shift = 0
    while data[0] >= 128:
        n, shift = n | (data.pop(0) & 127) << shift, shift + 7
    return n | data.pop(0) << shift


class Words:
    """An array of bytes, which is read from its begin to its end."""

    def __init__(self, array: tuple[str, list[int], bytes] | None) -> None:
        self.left = b""
        if array is not None:
            dtype, shape, self.left = array
            assert (dtype, shape) == ("U8", [len(self.left)])
            assert self.left

    def bytes(self, n: int) -> bytes:
        got, self.left = self.left[:n], self.left[n:]
        assert len(got) == n
        return got

    def take(self, kind: str, n: int) -> list[Any]:
        return list(struct.unpack(f"<{n}{kind}", self.bytes(4 * n)))

    def row(self) -> tuple[int, int, int, int]:
        k, classes, units, nbytes = struct.unpack("<HBBH", self.bytes(6))
        return k, classes, units, nbytes

    def finish(self) -> None:
        assert not self.left


def told_by(name: str) -> tuple[int, int, str]:
    """First step, last step and kind of a record, by its file name."""
    got = re.fullmatch(r"(?:(\d{8,})-)?(\d{8,})\.(base|delta|merged)\.safetensors", name)
    assert got
    return int(got[1] or got[2]), int(got[2]), got[3]


def route(names: list[str], step: int) -> list[str]:
    """Which records lead to a step."""
    names = [name for name in names if told_by(name)[0] <= step]
    names.sort(key=lambda name: (told_by(name)[0], told_by(name)[2] == "base", -told_by(name)[1]))
    bases = [i for i, name in enumerate(names) if told_by(name)[2] == "base"]
    taken = [names[bases[-1]]]
    for name in names[bases[-1] :]:
        if told_by(name)[0] > told_by(taken[-1])[1]:
            taken.append(name)
    return taken


def read(path: Path, step: int, readers: dict[tuple[str, ...], Reader] | None = None) -> Reader:
    """A step of a chain. readers: behind which records there is one, by the way there."""
    names = route([p.name for p in path.glob("*.safetensors")], step)
    readers = {} if readers is None else readers
    for n, name in enumerate(names, 1):
        if tuple(names[:n]) in readers:
            continue
        data = (path / name).read_bytes()
        reader = Reader(data) if n == 1 else copy.deepcopy(readers[tuple(names[: n - 1])])
        if n > 1:
            reader.advance(data, step)
        if told_by(name)[1] > step:
            return reader
        readers[tuple(names[:n])] = reader
    return readers[tuple(names)]


def agreement_on_disk(path: Path, values: bool = False) -> Counter[str]:
    """Every step that codec restores, read by the decoder above. values: and its state as such."""
    met: Counter[str] = Counter()
    readers: dict[tuple[str, ...], Reader] = {}
    chain = codec.Chain(path)
    for step in chain.steps:
        reader, position = read(path, step, readers), chain.at(step)
        got = {name: bytes(array) for name, array in reader.track.items()}
        assert got == {name: array.tobytes() for name, array in position.track.arrays.items()}
        assert tuple(reader.values.values()) == position.track.values
        if values:
            state = state_of(json.loads(reader.structure), reader, list(got.values()))
            assert state == plainly(codec.restore(path, step))
        met += reader.met
    return met


def met_all(met: Counter[str], names: str) -> None:
    """What a test is for has been there."""
    assert all(met[name] > 0 for name in names.split(", ")), met


def agreement(states: list[Arrays], **settings: Any) -> Counter[str]:
    """Write these states, and read them by the decoder above: the same tracks, bit by bit."""
    layout = layout_of(states[0])
    track = Track.of(layout, copy_arrays(to_arrays(states[0], layout)))
    tracker = codec.Tracker.resume(track, codec.Coding(**settings))
    reader = Reader(records.dump_base(Place(0), tracker.track))
    for i, state in enumerate(states[1:], 1):
        step = tracker.step(state)
        parent = base64.urlsafe_b64decode(reader.parent + "==").hex()
        place = Place(i, reader.run, parent)
        reader.advance(records.dump_delta(place, tracker.track.digest, step))
        for name, array in tracker.state.items():
            assert bytes(reader.track[name]) == array.tobytes()
    return reader.met


@pytest.mark.parametrize(("scope", "bits"), [("model", "3"), ("tensor", "all")])
def test_batches_and_small_tensors(tmp_path: Path, scope: str, bits: str) -> None:
    """Moments of several parameters and their steps; deltas, then merged ones."""
    rng = np.random.default_rng(0)
    path = tmp_path / "run.lcc"
    spread = np.exp2(-rng.integers(0, 40, 50)) if bits == "all" else 1
    policy = {"optimizer/*/exp_avg*": f"bits={bits}"}
    with codec.Checkpointer(path, scope=scope, policy=policy) as checkpoints:
        for step in range(6):
            moments = {}
            for i in range(5):
                m = (rng.standard_normal(50) * spread * 10.0**-i).astype(np.float32)
                if step == 3 and i == 1:
                    m[7] = np.inf
                moments[i] = {"step": np.array(step + i // 4, np.float32)}
                moments[i] |= {"exp_avg": m, "exp_avg_sq": m * m}
            w = rng.standard_normal(40).astype(np.float32)
            checkpoints.save(step, {"model": {"w": w}, "optimizer": {"state": moments}})
    met_all(agreement_on_disk(path), "batches, equal, small")
    codec.merge(path)
    met_all(agreement_on_disk(path), "batches, equal, small")


def test_example_is_the_golden_record(golden: Path) -> None:
    assert example() == (golden / "run.lcc" / "00000001.delta.safetensors").read_bytes()


def test_example_says_what_stands_there() -> None:
    metadata, arrays = container(example())
    assert (metadata["keep"], metadata["kind"]) == ("2", "delta")
    assert {name: array[2][0] for name, array in arrays.items()} == {"t/n": 8, "c": 4}
    coded = Words(arrays["c"])
    assert coded.row() == (4, 1, 1, 2)
    words = code_words(code_lengths(coded.bytes(2), 4))
    assert words == {"0": 0, "10": 1, "110": 2, "111": 3}
    assert coded.take("I", 1) == [18]
    assert [round(v, 2) for v in coded.take("f", 3)] == [0.79, -0.48, 0.44]
    codes = plain(Bits(coded.bytes(4), 18), words, 10)
    assert f"The codes are {''.join(map(str, codes))}." in TEXT
    notes = re.findall(r"^[0-9a-f ]+  (\S.*)$", block_of("record"), re.MULTILINE)
    assert notes == [
        f"length of the header: {int.from_bytes(example()[:8], 'little')}",
        "t/n = 8, exact",
        "4 levels, zero included; 1 class, a plain code; 1 unit; 2 bytes of table",
        "table: 0000 1000 | 010 010 1 and a bit unused",
        "streams: 18 bits",
        "levels: 0.79, -0.48, 0.44",
        "payload: 1 0 1 1 0 0 0 0 | 1 1 1 0 1 1 1 1 | 0 0 and 14 unused",
    ]


def test_example_of_a_residual() -> None:
    """By the decoder above and by the codec's."""
    block = block_of("residual")
    data = hexadecimal(block)
    rows = {name: text.split() for name, text in re.findall(r"^([a-z]+) {2,}(.*)$", block, re.M)}
    old, new = (np.array([int(x, 16) for x in rows[key]], np.uint16) for key in ("old", "new"))
    array = ("U8", [len(data)], data)
    met: Counter[str] = Counter()
    assert after_residual(old.tobytes(), Words(array), "BF16", met) == new.tobytes()
    assert (met["flips"], met["large steps"], met["contexts"]) == (1, 1, 1)
    spec = TensorSpec("w", "BF16", (12,), False)
    got = read_residual(np.frombuffer(data, np.uint8), spec, "d/w")
    assert got.applied(old).tobytes() == new.tobytes()
    assert got.bounds == (123,)
    changed = [symbol != "0" for symbol in rows["symbols"]]
    assert changed == (old != new).tolist()
    ((again, parts),) = residual_parts({"w": got}).items()
    assert (again, b"".join(parts)) == ("d/w", data)


def test_example_of_tokens() -> None:
    """The second example, by the decoder above and by the codec's."""
    block = block_of("tokens")
    rows = dict(re.findall(r"^(\w+) +(\S.*?)(?:   .*)?$", block, re.MULTILINE))
    codes = [int(c) for c in rows["codes"]]
    lengths = [3, 1, 2, *[0] * 33, 3]
    table, payload = bytes.fromhex(rows["tables"]), bytes.fromhex(rows["payload"])
    assert code_lengths(table, 1 + 2 * 18) == lengths
    words = code_words(lengths)
    said = re.findall(r"(\d+): ([01]+)", block)
    assert {word: int(token) for token, word in said} == words
    said = re.findall(r"^(?:stream|  ) +([01 ]+)   ", block, re.MULTILINE)
    bits = "".join(said).replace(" ", "")
    assert bits == Bits(payload, len(bits)).left
    assert f"{len(bits)} bits; the last 10 zeros" in block
    met: Counter[str] = Counter()
    assert from_tokens(Bits(payload, len(bits)), words, 18, 3, 40, met) == codes
    assert met == {"escape": 1, "open": 1}
    code_table = CodeTable.unpacked(np.frombuffer(table, np.uint8), 2, 18)
    sizes = np.array([len(bits)], np.uint32)
    prefix_code = PrefixCode(np.frombuffer(payload, np.uint32), sizes, 65536, code_table)
    levels = np.array([0, 2, 1], np.float32)
    encoded = codec.Encoded(prefix_code, levels, (40,), 2, "runlength")
    assert codec.decode(encoded).codes.tolist() == codes
    assert CodeTable(np.array(lengths, np.uint8), 18).packed.tobytes() == table


def test_example_of_uniform_steps() -> None:
    """Written by the codec, and read by the decoder above."""
    block = block_of("steps")
    rows = dict(re.findall(r"^([a-z]+) +(\S.*)$", block, re.MULTILINE))
    data = hexadecimal(block)
    (printed,) = re.findall(r"^Changes (.*) and s = ", TEXT, re.MULTILINE)
    changes = [float(x.replace("−", "-")) for x in printed.split()]
    tracker = codec.Tracker({"w": np.zeros(16, np.float32)}, coder="huffman", tolerance=0.05)
    delta = tracker.step({"w": np.array(changes, np.float32)})
    assert b"".join(coded_of.coded(delta.groups)["c"]) == data
    words = Words(("U8", [len(data)], data))
    assert words.row() == (32768 + 10, 1, 1, 4)
    lengths = code_lengths(words.bytes(4), 10)
    assert words.take("I", 1) == [34]
    assert "streams: 34 bits" in block
    (size,) = words.take("f", 1)
    assert (f"step size: {size:.7f}" in block, f"{size:.6f}…" in TEXT) == (True, True)
    codes = plain(Bits(words.bytes(8), 34), code_words(lengths), 16)
    words.finish()
    assert codes == [int(c) for c in rows["codes"]]
    levels = multiples(size, 10)
    assert [levels[c] for c in codes] == tracker.state["w"].tolist()
    assert max(abs(levels[c] - x) for c, x in zip(codes, changes)) <= 0.05


def test_example_of_an_arithmetic_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by the codec, and read by the decoder above."""
    block = block_of("arithmetic")
    data = hexadecimal(block)
    (printed,) = re.findall(r"^Changes (.*) and s = ", TEXT, re.MULTILINE)
    changes = np.array([float(x.replace("−", "-")) for x in printed.split()], np.float32)
    tracker = codec.Tracker({"w": np.zeros((4, 4), np.float32)}, tolerance=0.05)
    delta = tracker.step({"w": changes.reshape(4, 4)})
    assert b"".join(coded_of.coded(delta.groups)["c"]) == data
    words = Words(("U8", [len(data)], data))
    k, mark, low, high = words.row()
    assert (k - 32768, mark, low + 256 * high) == (10, 255, 7)
    size, *code = struct.unpack("<f7B", words.bytes(11))
    words.finish()
    read: list[Any] = []

    class Watched(Decisions):
        def read(self, context: Any, first: int) -> int:
            before = self.contexts.get(context, [first])[0], self.span, self.window
            read.append((*before, super().read(context, first)))
            return read[-1][-1]

    monkeypatch.setitem(globals(), "Decisions", Watched)
    codes = from_arithmetic(code, [(4, 4)])
    rows = re.findall(r"chance +(\d+)   span +(\d+)   window +(\d+)   ([01])$", block, re.MULTILINE)
    assert [tuple(map(int, row)) for row in rows] == read[:4]
    levels = multiples(size, 10)
    assert [levels[c] for c in codes] == tracker.state["w"].reshape(-1).tolist()


def test_example_of_a_context_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by the codec, and read by the decoder above."""
    block = block_of("context")
    data = hexadecimal(block)
    (printed,) = re.findall(r"^Changes (.*) and s = ", TEXT, re.MULTILINE)
    changes = np.array([float(x.replace("−", "-")) for x in printed.split()], np.float32)
    start = {"w": np.zeros((2, 8), np.float32)}
    tracker = codec.Tracker(start, tolerance=0.05, coder="context")
    delta = tracker.step({"w": changes.reshape(2, 8)})
    assert b"".join(coded_of.coded(delta.groups)["c"]) == data
    words = Words(("U8", [len(data)], data))
    assert words.row() == (32768 + 10, 254, 1, 1)
    (size,) = words.bytes(1)
    (step_size,) = words.take("f", 1)
    read: list[Any] = []

    class Watched(ContextDecisions):
        def read(self, context: Any, first: int, uses: int = 0) -> int:
            before = self.contexts.get(context, [first])[0], self.span, self.window
            read.append((*before, super().read(context, first, uses)))
            return read[-1][-1]

    monkeypatch.setitem(globals(), "ContextDecisions", Watched)
    steps = from_contexts(list(words.bytes(size)), [size], 1, [(2, 8)], None)
    words.finish()
    rows = re.findall(r"chance +(\d+)   span +(\d+)   window +(\d+)   ([01])$", block, re.MULTILINE)
    assert [tuple(map(int, row)) for row in rows] == read[:4]
    levels = [struct.unpack("<f", struct.pack("<f", q * step_size))[0] for q in steps]
    assert levels == tracker.state["w"].reshape(-1).tolist()


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_arithmetic_codes_agree(scope: str) -> None:
    """Tensors of every number of dimensions, empty ones, and steps up to the largest."""
    rng = np.random.default_rng(5)
    shapes = {"w": (13, 3, 4), "b": (7,), "one": (), "none": (0, 3), "wide": (1, 40), "row": (2, 0)}
    states: list[Arrays] = [{name: np.zeros(shape, np.float32) for name, shape in shapes.items()}]
    for _ in range(3):
        scale = rng.exponential(size=(13, 1, 1)) ** 3
        moved = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        moved["w"] = moved["w"] * scale * (rng.random((13, 3, 4)) < 0.6)
        states.append({k: (states[-1][k] + 0.01 * v).astype(np.float32) for k, v in moved.items()})
    for size in (1e-4, 0.002):
        assert agreement(states, tolerance=size, scope=scope)["arithmetic"] > 0


@given(st.data())
def test_any_codes_agree(data: st.DataObject) -> None:
    """The decoder above and the codec's read what the codec writes, of any matrices."""
    shape = st.lists(st.integers(0, 5), max_size=3).map(tuple)
    shapes = data.draw(st.lists(shape, min_size=1, max_size=4))
    matrices = tuple(map(matrix_of, shapes))
    n = arithmetic.n_elements(matrices)
    code = st.integers(0, 2) | st.integers(0, 200) | st.integers(0, MAX_UNIFORM - 1)
    codes = np.array(data.draw(st.lists(code, min_size=n, max_size=n)), np.uint16)
    payload = arithmetic.write(codes, matrices)
    assume(payload is not None)  # it is None for more bytes than float32 takes
    assert from_arithmetic(payload.tolist(), list(matrices)) == codes.tolist()
    k = int(codes.max(initial=0)) + 1
    assert arithmetic.read(payload, matrices, k).tolist() == codes.tolist()
    assert arithmetic.bits(payload, matrices, k).sum() == pytest.approx(8 * payload.size, abs=16)
    if k > 1:
        with pytest.raises(errors.StreamError, match="a symbol beyond the last"):
            arithmetic.read(payload, matrices, k - 1)


@given(st.data())
def test_any_ranks_agree(data: st.DataObject) -> None:
    """Buckets of any levels in an arithmetic code, read by the decoder above and by the codec."""
    finite = st.floats(-8, 8, width=32)
    levels = np.array([0, *data.draw(st.lists(finite, min_size=1, max_size=20))], np.float32)
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 6)))
    n = shape[0] * shape[1]
    codes = np.array(
        data.draw(st.lists(st.integers(0, levels.size - 1), min_size=n, max_size=n)), np.uint16
    )
    payload = arithmetic.write(arithmetic.step_codes(levels)[codes], (shape,))
    assume(payload is not None)
    assert by_rank(from_arithmetic(payload.tolist(), [shape]), levels.tolist()) == codes.tolist()
    assert arithmetic.read_ranks(payload, (shape,), levels).tolist() == codes.tolist()


@settings(max_examples=200)
@given(st.data())
def test_any_context_codes_agree(data: st.DataObject) -> None:
    """Steps and buckets, with octets and without, in one stream or several, of any matrices."""
    shape = st.lists(st.integers(0, 12), max_size=3).map(tuple)
    shapes = data.draw(st.lists(shape, min_size=1, max_size=4))
    matrices = tuple(map(matrix_of, shapes))
    n = sum(rows * columns for rows, columns in matrices)
    assume(n > 0)
    uniform = data.draw(st.booleans())
    k = data.draw(st.sampled_from([2, 3, 8, 16, MAX_UNIFORM] if uniform else [2, 3, 4, 8, 16, 40]))
    levels = np.arange(k, dtype=np.float32) / 1000
    if not uniform:
        exponents = data.draw(st.permutations(range(-1, k // 2 + 1)))
        both = [s * 1.5 * 2.0**e for e in exponents for s in (1, -1)]
        levels[1:] = data.draw(st.permutations(both))[: k - 1]
    many = data.draw(st.sampled_from([0, 1, 9]))
    code = st.sampled_from([0] * many + [1, min(2, k - 1), k - 1]) | st.integers(0, k - 1)
    drawn = data.draw(st.lists(code, min_size=n, max_size=n)) if n < 300 else None
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = np.array(drawn or rng.integers(0, k, n) * (rng.random(n) < 0.2), np.uint16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "MOST_SINGLE", data.draw(st.sampled_from([0, 10**6])))
        for name in ("STREAM", "MOST_COLUMNS"):
            patch.setattr(context, name, data.draw(st.sampled_from([20, 10**6])))
            patch.setitem(globals(), name, getattr(context, name))
        context._cut.cache_clear()
        with packed(codes) as survivors:
            payload = ContextCode.of(survivors, matrices, levels, uniform)
        assume(payload is not None)
        assert payload is not None
        payload.check(n, k)
        assert payload.codes(n, levels, uniform).tolist() == codes.tolist()
        bits = payload.element_bits(n, levels, uniform)
        assert bits.sum() == pytest.approx(payload.bits, abs=48 * payload.sizes.size)
        assert (bits >= 0).all()
        code_of = None if uniform else fields_of(levels.tolist())
        signs = code_of and {abs(q): sign(q) for q in code_of if q and -q not in code_of}
        read = payload.code.tolist(), payload.sizes.tolist(), payload.shared, list(matrices), signs
        steps = from_contexts(*read)
    context._cut.cache_clear()
    if code_of is None:
        assert [2 * q - 1 if q > 0 else -2 * q for q in steps] == codes.tolist()
    else:
        assert [code_of[q] for q in steps] == codes.tolist()


@given(st.integers(1, 2**31 - 1), st.integers(1, MAX_UNIFORM))
def test_levels_are_multiples(bits: int, k: int) -> None:
    """Of any step size: those of the text are the codec's, subnormal ones too."""
    (size,) = np.array([bits], np.uint32).view(np.float32)
    if not np.isfinite(size * np.float64(MAX_UNIFORM)) or size > 1e34:
        size = np.float32(1e-45)
    assert uniform.levels_of(size, k).tolist() == multiples(float(size), k)


@given(st.binary(max_size=12), st.integers(0, 40))
@case(b"\x00", 3)  # eight zeros: a length of 0
@case(b"\x01\x00", 3)
@case(b"\x80", 3)  # a length that ends behind the end
@case(b"\x86\xff", 40)  # 16 zeros, and so on
@case(b"\x46", 40)
@case(b"\x46\x00", 40)
@case(b"\x92\x24\x49\x92\x24\x49\x00", 40)  # steps up to 15 and beyond
def test_any_bytes_as_a_table(packed: bytes, n: int) -> None:
    expected = code_lengths(packed, n)
    array = np.frombuffer(packed, np.uint8)
    if expected is None:
        with pytest.raises(CodeTableError, match=f"not a list of at most {n} code lengths"):
            huffman.unpack_lengths(array, n)
    else:
        assert huffman.unpack_lengths(array, n).tolist() == expected


def test_runs_have_the_classes_of_the_table() -> None:
    """The table of runs in the text, and the formula below it, against the codec's own."""
    rows = [
        re.findall(rf"^\| {row} \|(.*)\|$", TEXT, re.MULTILINE)[-1].split("|")
        for row in ("run", "class", "extra bits")
    ]
    printed = [[cell.strip() for cell in row] for row in zip(*rows)]
    for run, kind, bits in (row for row in printed if row[0] != "…"):
        first, _, last = run.partition("–")
        assert runlength.FIRST_RUN[int(kind)] == int(first)
        assert runlength.EXTRA_BITS[int(kind)] == int(bits)
        assert int(last or first) == int(first) + 2 ** int(bits) - 1
    for kind, (first, n) in enumerate(zip(runlength.FIRST_RUN, runlength.EXTRA_BITS)):
        assert amount_of(kind, Bits(bytes(3), 24)) == first
        assert n == (kind // 4 - 2 if kind >= 16 else 0)
    assert int(first) + 2 ** int(n) == MAX_STREAM


GOLDEN = {
    "run": "plain",
    "tokens": "cached, one symbol, escape, open, plain",
    "edits": "edits, values",
    "steps": "by steps, plain, exact, arithmetic, columns",
    "exact": "residuals, plain steps, tokens of steps, flips, large steps",
    "moments": "batches, small, equal, cached",
    "layouts": "whole, rows, gone, values",
    "arithmetic": "arithmetic",
    "contexts": "contexts, octets, context streams",
    "groups": "groups of values, by steps",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_independent_decoder_on_golden_chains(golden: Path, name: str) -> None:
    met_all(agreement_on_disk(golden / f"{name}.lcc", values=name == "edits"), GOLDEN[name])


def test_examples_of_edits_and_numbers() -> None:
    printed = re.findall(r"^    3 =(.*?)  +(\{.*)$", TEXT, re.MULTILINE)
    assert len(printed) == 1
    for edit, after in printed:
        assert edited('{"l":[0.5,0.25]}', edit) == after
        assert edits.applied('{"l":[0.5,0.25]}', f"={edit}", 99) == after
    ((shown_text, _),) = re.findall(r'^    (\{"l":\[\{"s".*?)  +(\[.*)$', TEXT, re.MULTILINE)
    parts = tree.flatten(
        {"x": [np.float32(0.5), torch.tensor(1.0, dtype=torch.bfloat16)]}, lambda _: False
    )
    assert parts.values == (shown_text,)


def test_independent_decoder_on_a_kept_chain(whole_run: Path) -> None:
    names = sorted(p.name for p in whole_run.glob("*.safetensors"))
    ways = {step: [told_by(n)[1:] for n in route(names, step)] for step in (50, 60, 120)}
    assert ways[50] == [(0, "base"), (30, "merged"), (60, "merged")]
    assert ways[60] == [(60, "base")]
    assert [last for last, _ in ways[120]] == [60, 100, 110, 120]
    beside = ("00000060.base", "00000070-00000100.merged", "00000060.delta")
    read_from = [container((whole_run / f"{n}.safetensors").read_bytes())[0] for n in beside]
    base, first, last = read_from
    assert (base["replaces"], base["track"]) == (last["digest"], last["track"])
    assert first["parent"] == last["digest"] != base["digest"]
    met_all(agreement_on_disk(whole_run), "columns, cached, escape, values, exact")


TARGETS = [{"bits": b} for b in (None, 1, 2, 3, 8)]
TARGETS += [{"budget": 0.2, "quantizer": quantizer} for quantizer in ("exponent", "uniform")]
TARGETS += [{"tolerance": t} for t in (1e-3, 3e-5)]
SETTINGS = st.builds(
    lambda target, coder, scope: target | {"coder": coder, "scope": scope},
    st.sampled_from(TARGETS),
    st.sampled_from(["runlength", "huffman", "context"]),
    st.sampled_from(["model", "tensor"]),
)
SEEDS = st.integers(0, 10**6)
States = Callable[..., list[Arrays]]


@settings(max_examples=30)
@given(SETTINGS, SEEDS, st.sampled_from([None, 0.002, 0.02, 0.3]))
def test_independent_decoder_agrees(
    random_states: States, sparse_states: States, kinds: Any, seed: int, jumps: float | None
) -> None:
    """On whole chains of every numpy dtype, or of runs; with NaN in one step, bit by bit."""
    if jumps is None:
        states = random_states(4, seed, rows=100 if "budget" in kinds else 5)
        name = "wb"[seed % 2]
        states[2][name] = np.full_like(states[2][name], np.nan)
    else:
        states = sparse_states(3, seed, 1500, jumps)
    agreement(states, **kinds)


@settings(max_examples=6)
@given(SETTINGS, SEEDS, st.data())
def test_independent_decoder_agrees_on_merged_chains(
    tmp_path_factory: pytest.TempPathFactory,
    jumping_states: States,
    random_states: States,
    kinds: dict[str, Any],
    seed: int,
    data: st.DataObject,
) -> None:
    """Merged and compacted at any time. A record's header counts in a budget: half of these
    tensors' bytes always hold it."""
    path = tmp_path_factory.mktemp("merged") / "run.lcc"
    jumping = data.draw(st.booleans())
    states = jumping_states(4, seed, 400) if jumping else random_states(4, seed, rows=60)
    kinds |= {"budget": 0.5} if "budget" in kinds else {}
    if data.draw(st.booleans()):
        states[2]["w"] = np.full_like(states[2]["w"], np.nan)
    whens = data.draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=3))
    for step, state in enumerate(states):
        with codec.Checkpointer(path, **kinds, resume=True) as one:
            one.save(step, state)
        for when, steps in whens:
            if when == step:
                codec.compact(path, base=True) if steps == 1 else codec.merge(path, steps)
    codec.merge(path, 2)
    agreement_on_disk(path)


def test_independent_decoder_agrees_on_several_columns(
    tmp_path: Path, jumping_states: Callable[..., list[Arrays]]
) -> None:
    """Layers of all steps, several streams; alphabets without words, and ones without changes;
    elements that are still -0.0 after a step in which others of their kind have changed."""
    path = tmp_path / "run.lcc"
    states = jumping_states(4, 0, 70_000, 0.01)
    for step, state in enumerate(states):
        state |= {"all": np.full(70, step / 4, np.float32), "none": np.full(70, -0.0, np.float32)}
        state["late"] = np.full(4000, -0.0, np.float32)
        state["late"][::20] = step / 2
        if step > 2:
            state["late"][7::40] = step
    with codec.Checkpointer(path, bits=1, scope="tensor", coder="huffman") as checkpoints:
        for step, state in enumerate(states):
            checkpoints.save(step, state)
    codec.merge(path, 3)
    met = agreement_on_disk(path)
    layers = met["layers"]  # one, once for each step
    assert [met[x] / layers for x in ("columns", "streams", "one symbol")] == [2, 4, 3]


def state_of(node: Any, reader: Reader, tensors: list[bytes]) -> Any:
    """A state by the structure in a base, tensors as their bytes."""
    ((kind, content),) = node.items()
    if kind in "don":
        return {value_of(k): state_of(child, reader, tensors) for k, child in content}
    if kind in "lp":
        return [state_of(child, reader, tensors) for child in content]
    return tensors[content] if kind == "t" else value_of(json.loads(reader.values[content]))


def value_of(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind in "don":
        return {value_of(k): value_of(v) for k, v in content}
    if kind in "lp":
        return [value_of(v) for v in content]
    if kind in "sat":
        dtype, data = content
        assert dtype in DTYPES.split()
        return base64.b64decode(data)
    return {"i": int, "f": float, "b": base64.b64decode, "y": base64.b64decode}[kind](content)


def plainly(state: Any) -> Any:
    """A restored state in the terms of `state_of`."""
    if isinstance(state, dict):
        return {k: plainly(v) for k, v in state.items()}
    if isinstance(state, list | tuple):
        return [plainly(v) for v in state]
    if isinstance(state, torch.Tensor):
        state = state.view(torch.int16) if state.dtype == torch.bfloat16 else state
        return state.numpy().tobytes()
    return state.tobytes() if isinstance(state, np.ndarray | np.generic) else state


def test_independent_decoder_agrees_on_a_training_state(tmp_path: Path) -> None:
    """Model, optimizer, scheduler, random states and whatever else, lossy moments included."""
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 9)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    milestones = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 3])
    path, random = tmp_path / "run.lcc", np.random.default_rng(0)
    policy = {"optimizer/*": "lossy", "*/skipped": "skip"}
    with codec.Checkpointer(path, scope="tensor", policy=policy) as checkpoints:
        for step in range(4):
            optimizer.zero_grad()
            model(torch.randn(4, 20)).square().sum().backward()
            optimizer.step()
            milestones.step()
            state = {
                "model": model.state_dict() | {"again": model.weight.T.T},
                "half": [model.weight.detach().to(torch.bfloat16), None],
                "optimizer": optimizer.state_dict(),
                "lr": milestones.state_dict(),
                "rng": [torch.get_rng_state(), random.bit_generator.state],
                "big": 2**70 + step,
                "odd": (step, -0.0, math.inf, b"\xff\0", "é\n", {1.5: True, None: []}),
                "more": {"skipped": object()},
                "a/b~": {"": np.arange(3) + step},
            }
            random.random()
            checkpoints.save(step, state)
    met_all(agreement_on_disk(path, values=True), "values, exact")
    families = {name: family for name, *_, family in read(path, 3).layout}
    assert families["optimizer/state/1/exp_avg_sq"] == "exp_avg_sq"
    assert families["a~1b~0/"] == ""


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_independent_decoder_agrees_on_layouts(
    tmp_path: Path, changing_states: list[dict[str, Any]], scope: str
) -> None:
    policy = {"rows": "lossy", "half": "lossy", "new*": "lossy?"}
    with codec.Checkpointer(tmp_path / "run.lcc", policy=policy, scope=scope) as checkpoints:
        kinds = [checkpoints.save(i, s).kind for i, s in enumerate(changing_states)]
    assert kinds == ["base", *15 * ["delta"]]
    met_all(agreement_on_disk(tmp_path / "run.lcc"), "whole, rows, gone, values, exact")


def test_residuals(tmp_path: Path) -> None:
    """Weights of two dtypes, of which some change, and a mask that only shrinks: contexts, runs,
    flips, escapes."""
    rng, path = np.random.default_rng(0), tmp_path / "run.lcc"
    w, mask = rng.standard_normal(9000) / 50, rng.random(9000) < 0.5
    with codec.Checkpointer(path, policy={"*": "exact"}) as checkpoints:
        for step in range(4):
            half = torch.from_numpy(w).bfloat16()
            checkpoints.save(step, {"half": half, "mask": mask, "w": w[:3000].astype(np.float32)})
            moves = rng.random(w.size) < 0.05
            w = w + moves * rng.standard_normal(w.size) / 1000
            mask = mask & (rng.random(mask.size) < 0.5)
    codec.merge(path, 2)
    met_all(agreement_on_disk(path), "residuals, contexts, flips, tokens of steps")


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
@pytest.mark.parametrize("target", [{"tolerance": 2e-5}, {"budget": 0.3}], ids=str)
def test_many_levels(coder: str, target: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes of 2 bytes; with the finest steps more symbols than a table has tokens for, or, by the
    paper's code, more than it has words for: then a tensor is stored whole. As in large alphabets,
    without arithmetic codes."""
    monkeypatch.setitem(CODERS, "runlength", replace(CODERS["runlength"], direct_kinds=()))
    rng = np.random.default_rng(0)
    states = [{"w": np.zeros(3000, np.float32), "v": np.zeros(70, np.float32)}]
    for _ in range(3):
        far = 0.04 * rng.laplace(size=3000) * (rng.random(3000) < 0.5)
        moved = {"w": far, "v": rng.normal(size=70) * 0.002}
        states.append({k: a + moved[k].astype(np.float32) for k, a in states[-1].items()})
    met = agreement(states, coder=coder, **target)
    assert met["by steps"] == met["groups"] > 0
    runs, finest = coder == "runlength", "tolerance" in target
    assert (met["levels"] > 4096, met["escape"] > 0) == (runs, runs)
    assert (met["levels"] > 511) == (not finest or runs)
    assert (met["exact"] > 0) == (finest and not runs)


def test_tables_that_serve_again_or_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """One symbol, then three, then one again, all by the table made for one. Few values move, and
    some of them far: long runs have tokens, far levels none. And all moves alike: a code of which
    one word is unused."""
    states = [{"w": np.zeros(4000, np.float32)}]
    for smaller in ((), (0.25, 0.125), ()):
        w = states[-1]["w"].copy()
        w[::25] += 0.5
        w[7 : 7 + len(smaller)] += smaller
        states.append({"w": w})
    met = agreement(states, bits=2)
    assert (met["cached"], met["cached for another k"], met["escape"] > 0) == (2, 1, True)
    first, second = ({"w": np.full(99, x, np.float32)} for x in (0, 0.01))
    met = agreement([first, second, first], tolerance=1e-3, coder="huffman")
    assert (met["plain"], met["by steps"]) == (2, 2)
    monkeypatch.setitem(CODERS, "runlength", replace(CODERS["runlength"], direct_kinds=()))
    rng = np.random.default_rng(0)
    far = rng.standard_t(2, size=20_000) * (rng.random(20_000) < 0.1)
    moved = [{"w": np.zeros(20_000, np.float32)}, {"w": far.astype(np.float32)}]
    met = agreement(moved, tolerance=0.05)
    met_all(met, "short table, escape, open")


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_families_with_targets(tmp_path: Path, scope: str) -> None:
    """Exponent buckets and uniform steps in one record, whatever the word keep says."""
    policy = {"emb*": "tolerance=1e-5", "head": "bits=all"}
    rng, path = np.random.default_rng(0), tmp_path / "run.lcc"
    state = {name: np.zeros(200, np.float32) for name in ("emb.a", "emb.b", "head", "rest")}
    with codec.Checkpointer(path, bits=1, scope=scope, policy=policy) as checkpoints:
        for step in range(3):
            checkpoints.save(step, state)
            state = {k: a + rng.normal(size=200).astype(np.float32) / 100 for k, a in state.items()}
    met = agreement_on_disk(path)
    assert met["by steps"] == {"model": 1, "tensor": 2}[scope] * (1 + 2)
    assert met["groups"] == {"model": 3, "tensor": 4}[scope] * (1 + 2)
    codec.merge(path, 2)
    assert agreement_on_disk(path)["by steps"] > 0


@pytest.mark.parametrize(("coder", "jumps"), [("runlength", 0.003), ("huffman", 1)])
def test_several_streams(
    sparse_states: Callable[..., list[Arrays]], coder: str, jumps: float
) -> None:
    """Neither tensors nor runs end where a stream does."""
    met = agreement(sparse_states(2, 1, 75_000, jumps, 1), bits=2, coder=coder)
    assert (met["streams"], met["plain"]) == (2, 2 * (jumps == 1))


def test_longer_streams(sparse_states: Callable[..., list[Arrays]]) -> None:
    """With so few symbols a stream has more elements."""
    met = agreement(sparse_states(2, 2, 1_000_000, 1e-4), bits=2)
    assert met["streams"] < 15  # of 65,536 elements it would be 18
    assert met["open"] > 0


@pytest.fixture(scope="module")
def whole_run(
    tmp_path_factory: pytest.TempPathFactory, jumping_states: Callable[..., list[Arrays]]
) -> Path:
    """A chain of every kind of record, in which several tell of some steps: two bases one of which
    replaces a merged record, merged records of several layers with deltas beside one of them, a
    delta after each; values, tensors that are not finite, -0.0."""
    path = tmp_path_factory.mktemp("kept") / "run.lcc"
    states = [
        {"model": state, "epoch": i // 2} for i, state in enumerate(jumping_states(15, size=1500))
    ]
    for i in (2, 5):
        states[i]["model"]["v"] = np.full_like(states[i]["model"]["v"], np.nan)
    states[13:] = [state | {"more": np.arange(5)} for state in states[13:]]

    def save(first: int, last: int, **settings: Any) -> None:
        with codec.Checkpointer(path, **{"bits": 2} | settings, resume=True) as checkpoints:
            for step in range(first, last + 1):
                checkpoints.save(10 * step, states[step])

    save(0, 6, scope="tensor")
    deltas = {p.name: p.read_bytes() for p in sorted(path.glob("*.delta.*"))}
    codec.merge(path, 3)
    for name in list(deltas)[1:]:
        (path / name).write_bytes(deltas[name])
    codec.compact(path, base=True)
    save(7, 11, coder="huffman")
    codec.merge(path, 4)
    for name in list(deltas)[1:]:
        (path / name).write_bytes(deltas[name])
    save(12, 14)
    return path


def test_every_field_is_described(golden: Path, whole_run: Path) -> None:
    seen = Counter()
    for path in [*(golden / "run.lcc").iterdir(), *whole_run.glob("*.safetensors")]:
        fields, arrays = container(path.read_bytes())
        kind = fields.pop("kind")
        for field in set(fields) - {
            "run",
            "parent",
            "track",
            "keep",
            "rest",
            "scope",
            "step",
            "digest",
            "format",
        }:
            seen[field, kind] += 1
            where = rf"(all|(?:\w+, )*{kind}(?:, \w+)*)"
            assert re.search(rf"^\| `{field}` \| {where} \|", TEXT, re.MULTILINE), field
        assert all(set(layer) <= {"steps", "non_finite"} for layer in fields.get("layers", []))
        title = {"base": "A base", "delta": "A delta", "merged": "Merged records"}[kind]
        (section,) = re.findall(rf"(## {title}.*?)\n## ", TEXT, re.DOTALL)
        for name in arrays:
            seen[name.partition("/")[0], kind] += 1
            general = re.sub(r"^(t|d|values|small)/\d+(/.*)?$", lambda m: f"{m[1]}/I", name)
            general += "/NAME" if general in ("t/I", "d/I") else ""
            if kind != "merged" and name.startswith(("t/", "d/", "n/")):
                general = f"{name[0]}/NAME"
            assert re.search(rf"^\|[^|]*`{general}`[^|]*\|", section, re.MULTILINE), name
    has = {"base": "replaces sent layout", "delta": "non_finite layout structure n"}
    has["merged"] = "replaces sent layers t values c"
    assert all(seen[name, kind] for kind, names in has.items() for name in names.split())
    for field in ("steps", "non_finite"):
        assert re.search(rf"^\| `{field}` \| (list|strings) ", TEXT, re.MULTILINE)
    assert all(re.search(rf"\b{dtype}\b", TEXT) for dtype in CARRIER)
    assert set(DTYPES.split()) == set(CARRIER)


RECORD_ERRORS = "ForeignRecord TruncatedRecord Version Digest MalformedRecord TrackDigest Parent "
RECORD_ERRORS += "Archive CodeTable Stream"


def test_errors_and_caps_are_described() -> None:
    assert TEXT.startswith(f"# The record format, version {FORMAT}\n")
    most = untrusted.MAX_JSON // 2**20
    marks = ", ".join(f"{most:,} `{mark}`" for mark, most in untrusted.MAX_MARKS.items())
    said = [
        *(f"{name}Error" for name in RECORD_ERRORS.split()),
        f"{edits.MAX_SPLICES:,} splices an edit",
        f"header 16 MiB, `more` {most} MiB, a layout's text {most} MiB",
        f"{untrusted.MAX_TENSORS:,} header entries",
        f"1 ≤ C ≤ {MAX_CONTEXTS}",
        f"{MAX_CONTEXTS} contexts a residual",
        f"{marks} in each",
        f"line {container_of.MAX_LINE:,} characters before the digest",
        f"{MAX_LEVELS} levels",
        f"{MAX_UNIFORM:,} levels in uniform steps",
        f"most ⌊{runlength.MAX_TOKENS - 1} / classes⌋",
        f"plus {coded_of.BY_STEPS:,} in uniform steps, plus {coded_of.OF_BATCH:,}",
        f"o is {uniform.OFFSET} for a budget and {uniform.NEAREST} for a tolerance",
        f"code words of {huffman.MAX_LENGTH} bits",
        f"{runlength.MAX_TOKENS:,} tokens, {MAX_CLASSES} classes",
        f"{UNIT:,} to {MAX_STREAM:,} elements a stream",
        f"class in {runlength.CLASS_BITS} bits",
        *(f"`{coder.letter}` {name}" for name, coder in CODERS.items()),
        f"texts {MAX_TEXT // 2**20} MiB",
        f"{merged.MAX_STEPS:,} steps a merged record",
        f"{records.MAX_LENGTHS:,} code lengths in `sent`",
        f"`RUN` | {RUN} hex digits",
    ]
    assert [fragment for fragment in said if fragment not in TEXT] == []
    assert all(hasattr(errors, f"{name}Error") for name in RECORD_ERRORS.split())
    assert (ROW_NBYTES, MAX_UNITS, MAX_STEP) == (6, 32, 2**63 - 1)


def test_the_decoder_notices_damage(golden: Path, resign: Callable[[bytes], bytes]) -> None:
    """So that its agreement above means something."""
    base = (golden / "run.lcc" / "00000000.base.safetensors").read_bytes()
    data = bytearray(example())
    for at, bit in ((-4, 1), (-2, 1), (-1, 1), *((at, 1) for at in range(0xE5, 0x109, 4))):
        damaged = data[:]
        damaged[at] ^= bit
        with pytest.raises(AssertionError):
            Reader(base).advance(bytes(damaged))
        with pytest.raises(AssertionError):
            Reader(base).advance(resign(bytes(damaged)))
    Reader(base).advance(bytes(data))
