"""Files made to do harm: each must be refused by name, in a second and 200 MB.

    PYTHONPATH=. python tests/faults/hostile.py

Every case lays files into a directory. A process of its own then verifies and restores what is
there, and opens it to go on. The time is that of the processor; what waits (a pipe, a device) is
killed after five minutes. The memory is what the process took beyond what it began with.

What stands in tests/codec (keys that stand twice, offsets that lie, metadata of any JSON, damaged
or compressed members, deep structures) is not repeated here.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import socket
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import chain_of, resealed

import codec
from codec.errors import SkippedRecordWarning
from codec.record import container
from codec.record.header import Header
from codec.storage.source import record_name

SECONDS, MEGABYTES, PATIENCE = 1.0, 200.0, 300.0
ADDRESSES = 8 * 2**30  # bytes of address space, so that nothing can take the machine's memory
BASE, DELTA = record_name(0, "base"), record_name(1, "delta")
PLAIN = {"t/w": np.zeros(9, np.float32)}
LAYOUT = [["w", "F32", [9], True, "numpy", ""]]
NESTED = '{"d":[["w",{"t":0}],["v",{"v":0}]]}'

HEADER = Header("base", 0, None, None, "0" * 32)

Case = Callable[[Path], Any]
Change = Callable[[dict[str, Any], dict[str, Any]], None]
CASES: dict[str, Case] = {}
LARGE = (
    "MiB",
    "tensors",
    "unpacks",
    "marked",
    "members",
    "00,000",
    "10,000",
    "million",
    "lists",
    "long integers",
    "many names",
    "huge streams",
)


def main(arguments: list[str] | None = None) -> int:
    """Run all cases; returns how many of them were not refused as they must be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the processor")
    parser.add_argument("--small", action="store_true", help="not those that take long to make")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", SkippedRecordWarning)
    codec.warm_up()
    failed, most = 0, [0.0, 0.0]
    chosen = {
        name: case
        for name, case in CASES.items()
        if options.only in name and not (options.small and any(large in name for large in LARGE))
    }
    for name, case in chosen.items():
        wrong, seconds, megabytes = one_case(case, options.seconds)
        most = [max(most[0], seconds), max(most[1], megabytes)]
        failed += bool(wrong)
        print(f"{name:45} {seconds:6.2f} s {megabytes:6.0f} MB  {wrong or 'refused'}", flush=True)
    print(f"{len(chosen)} cases, {failed} WRONG, {most[0]:.2f} s and {most[1]:.0f} MB at most")
    return failed


def one_case(case: Case, limit: float) -> tuple[str, float, float]:
    """What was wrong, if anything; seconds and megabytes it took. limit: of the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.lcc"
        path.mkdir()
        if make(case, path):
            return "WRONG: could not be made", 0.0, 0.0
        source = next((p for p in (path / "run.lcc", path / "run.lcc.zip") if p.exists()), path)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            attack(source, writing)
        os.close(writing)
        ended, started = 0, time.monotonic()
        while not ended and time.monotonic() < started + PATIENCE:
            time.sleep(0.005)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        with os.fdopen(reading) as pipe:
            told = pipe.read()
        if not told:
            return f"WRONG: ended by signal {os.WTERMSIG(status)}", PATIENCE * (not ended), 0.0
        wrong, seconds, megabytes = json.loads(told)
        if not wrong and seconds > limit:
            wrong = "WRONG: too slow"
        if not wrong and megabytes > MEGABYTES:
            wrong = "WRONG: too much memory"
        return wrong, seconds, megabytes


def make(case: Case, path: Path) -> int:
    """Lay the files down in a process of its own, whose memory is then nobody's."""
    child = os.fork()
    if child == 0:
        try:
            case(path)
        except BaseException as exc:
            print(f"{type(exc).__name__}: {exc}")
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def attack(source: Path, writing: int) -> None:
    """In a process of its own: read what is there in every way, and tell how it went."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong, slowest = "", 0.0
    for name, read in (
        ("verify", lambda: bool(codec.verify(source).problems)),
        ("restore", lambda: refuses(lambda: codec.restore(source, codec.Chain(source).steps[-1]))),
        ("open", lambda: source.is_dir() and bool(codec.Checkpointer(source, resume=True).step)),
    ):
        started = time.process_time()
        try:
            noticed = read()
            if name != "open" and not noticed:
                wrong = wrong or f"WRONG: {name} noticed nothing"
        except codec.LccError as exc:
            if len(str(exc)) > 2000:
                wrong = wrong or f"WRONG: {name} says {len(str(exc))} characters"
        except BaseException as exc:
            wrong = wrong or f"WRONG: {name}: {type(exc).__name__}: {exc}"[:300]
        slowest = max(slowest, time.process_time() - started)
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    os.write(writing, json.dumps([wrong, slowest, used]).encode())
    os._exit(0)


def refuses(read: Callable[[], Any]) -> bool:
    """Whether it raises a named error."""
    try:
        read()
    except codec.LccError:
        return True
    return False


# How files are made.


def named(case: Case) -> Case:
    """A case by its function's name."""
    CASES[case.__name__.replace("_", " ")] = case
    return case


def base(arrays: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """A base record of any content, its digest right; that of the track is not."""
    arrays = PLAIN if arrays is None else arrays
    return container.seal(HEADER, {"layout": LAYOUT} | fields, arrays)


def with_texts(values: bytes, structure: str = NESTED) -> bytes:
    """A base with these values."""
    texts = {"structure": np.frombuffer(structure.encode(), np.uint8)}
    return base(PLAIN | texts | {"values": np.frombuffer(values, np.uint8)})


def with_more(text: bytes) -> bytes:
    """A base that says this of itself."""
    return container.seal(HEADER, {}, PLAIN | {"more": np.frombuffer(text, np.uint8)})


def of_header(header: bytes, body: bytes = b"") -> bytes:
    """A file of a header and arrays, with the digest it asks for if it has a place for one."""
    return resealed(len(header).to_bytes(8, "little") + header + body)


def filled(unit: bytes, before: bytes, after: bytes, nbytes: int) -> bytes:
    """Units separated by commas, as many as there is room for."""
    n = (nbytes - len(before + after)) // (len(unit) + 1) - 2
    return before + unit + (b"," + unit) * n + after


def changed(path: Path, name: str, change: Change) -> None:
    """Forge a record of a real chain: fields and arrays, the digest right."""
    file = container.unseal((path / name).read_bytes(), name)
    arrays = {name: array.copy() for name, array in file.arrays.items()}
    fields = file.more | {"digest": file.digest, "parent": file.header.parent}
    change(fields, arrays)
    del fields["digest"]
    header = replace(file.header, parent=fields.pop("parent"))
    (path / name).write_bytes(container.seal(header, fields, arrays))


def laid(name: str, data: bytes | Callable[[], bytes], kind: str = BASE) -> None:
    """A case of one file."""

    def case(path: Path) -> None:
        (path / kind).write_bytes(data() if callable(data) else data)

    CASES[name] = case


# Headers.

MIB = 2**20
for unit in (b"{}", b"[]", b"0", b"1.5", b'""', b'{"":0}', b"[[[]]]", b"null"):
    laid(
        f"header of 16 MiB of {unit.decode()}",
        lambda unit=unit: of_header(filled(unit, b'{"a":[', b"]}", 16 * MIB)),
    )
    laid(
        f"more of 16 MiB of {unit.decode()}",
        lambda unit=unit: with_more(filled(unit, b'{"a":[', b"]}", 16 * MIB)),
    )
for unit, most in ((b"{}", 200_000), (b"[]", 600_000), (b"0", 2_500_000)):
    laid(
        f"more of as many lists of {unit.decode()} as there may be",
        lambda unit=unit, most=most: with_more(b'{"a":[' + b",".join([unit] * (most - 2)) + b"]}"),
    )
laid("more of 16 MiB of brackets", lambda: with_more(b"[" * 16 * MIB))
laid("more of 17 MiB", lambda: with_more(b'{"a":"' + b"x" * 17 * MIB + b'"}'))
laid(
    "a line of 16 MiB",
    lambda: of_header(b'{"__metadata__":{"lcc":"' + b"1 " * (8 * MIB - 50) + b"A" * 22 + b'"}}'),
)
laid("a line of 400 words", of_header(b'{"__metadata__":{"lcc":"%s"}}' % (b"1 " * 400 + b"A" * 22)))
laid(
    "a line without a digest at its end",
    of_header(b'{"__metadata__":{"lcc":"1 b 0 - - %s %s "}}' % (b"A" * 22, b"A" * 22)),
)
laid(
    "a step of 900 digits",
    of_header(b'{"__metadata__":{"lcc":"1 b %s - - %s %s"}}' % (b"9" * 900, b"A" * 22, b"A" * 22)),
)
laid("header length of 2^64 - 1", b"\xff" * 8 + b"{}")
laid("header of 16 MiB that is not there", (16 * MIB).to_bytes(8, "little") + b"{}")
laid("header of 16 MiB of brackets", lambda: of_header(b"[" * 16 * MIB))
laid("header of one name of 16 MiB", lambda: of_header(b'{"' + b"x" * (16 * MIB - 9) + b'":{}}'))
for count in (100_000, 100_001, 140_000):
    laid(
        f"header of {count} tensors",
        lambda count=count: of_header(
            b"{"
            + b",".join(
                b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(count)
            )
            + b"}"
        ),
    )
laid("an offset of 4,000 digits", of_header(b'{"a":{"data_offsets":[0,' + b"9" * 4000 + b"]}}"))

# Layouts and shapes.

EMPTY = {"t/w": np.zeros(0, np.float32)}
for name, shape in (
    ("a shape of 2^40 that has no data", [2**40]),
    ("a shape of 0 x 2^63", [0, 2**63]),
    ("a shape that overflows to 9", [2**61, 8, 9]),
    ("a shape of 1,000,000 dimensions", [1] * 1_000_000),
    ("a shape of long integers", [10**4000] * 1000),
):
    laid(name, lambda shape=shape: base(EMPTY, layout=[["w", "F32", shape, True, "numpy", ""]]))
laid(
    "a shape that safetensors would have to hold",
    of_header(
        b'{"__metadata__":{"lcc":"1 b 0 - - %s %s"},' % (b"A" * 22, b"A" * 22)
        + b'"t/w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'
    ),
)
laid(
    "a name of 4,000,000 characters",
    lambda: base(
        {"t/" + "x" * 4_000_000: np.zeros(9, np.int8)},
        layout=[["x" * 4_000_000, "F32", [9], True, "numpy", ""]],
    ),
)


@named
def as_many_families_as_tensors(path: Path) -> None:
    n = 8000
    with codec.Checkpointer(path, 2, policy={"*": "lossy"}) as checkpoints:
        checkpoints.save(0, {"o": {str(i): np.zeros(9, np.float32) for i in range(n)}})
        checkpoints.save(1, {"o": {str(i): np.ones(9, np.float32) for i in range(n)}})

    def lie(metadata: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays["c"] = arrays["c"][:-2]  # of the last alphabet

    changed(path, DELTA, lie)


# Texts.

laid("64 MiB of empty lines", lambda: with_texts(b"\n" * 64 * MIB))
laid("64 MiB of brackets", lambda: with_texts(b"0 " + b"[" * (64 * MIB - 2)))
laid("more than 64 MiB of text", lambda: with_texts(b"0 1\n" * (16 * MIB + 1)))
laid("100,000 values", lambda: with_texts(b"".join(b"%d 0\n" % i for i in range(100_000))))
laid("a value of a million zeros", lambda: with_texts(filled(b"0", b'0 {"l":[', b"]}\n", 2 * MIB)))
laid("a value of lists", lambda: with_texts(filled(b'{"l":[]}', b'0 {"l":[', b"]}\n", MIB // 4)))
laid("an integer of 4 MiB", lambda: with_texts(b"0 " + b"9" * 4 * MIB + b"\n"))
laid("an integer of 4 MiB in a text", lambda: with_texts(b'0 {"i":"' + b"9" * 4 * MIB + b'"}\n'))
laid("an exponent of 4 MiB", lambda: with_texts(b"0 1e" + b"9" * 4 * MIB + b"\n"))
laid("a value a million containers deep", lambda: with_texts(b"0 " + b'{"l":[' * 10**6 + b"\n"))
laid("a value 66 containers deep", with_texts(b"0 " + b'{"l":[' * 67 + b"]}" * 67 + b"\n"))
laid("a value number of 5,000 digits", with_texts(b"9" * 5000 + b" 1\n"))
laid("a structure a million containers deep", lambda: with_texts(b"0 1\n", '{"l":[' * 10**6))
laid("a tensor of number 10^4000", with_texts(b"0 1\n", '{"d":[["w",{"t":' + "9" * 4000 + "}]]}"))
laid("a structure of no JSON", with_texts(b"0 1\n", "\0" * 99))
laid("a base64 of 4 MiB that is none", lambda: with_texts(b'0 {"b":"' + b"=" * 4 * MIB + b'"}\n'))
laid(
    "keys that collide",
    lambda: with_texts(
        b'0 {"d":[' + b",".join(b"[%d,0]" % (i * (2**61 - 1)) for i in range(20_000)) + b"]}\n"
    ),
)
laid(
    "a large value that stands 10,000 times",
    lambda: with_texts(
        b'0 {"l":[' + b"0," * 99_999 + b"0]}\n",
        '{"d":[["w",{"t":0}],["v",{"l":[' + ",".join(['{"v":0}'] * 10_000) + "]}]]}",
    ),
)
laid(
    "a structure of 1 MiB of one tensor",
    lambda: with_texts(
        b"0 1\n", '{"d":[["w",{"l":[' + ",".join(['{"t":0}'] * (MIB // 8)) + "]}]]}"
    ),
)

# Arrays of a delta that lie, their digest right.


def lies(name: str, change: Change, **settings: Any) -> None:
    """A case of a real chain whose delta was forged."""

    def case(path: Path) -> None:
        chain_of(path, 2, **settings)
        changed(path, DELTA, change)

    CASES[name] = case


def places(coded: np.ndarray) -> tuple[slice, slice, slice]:
    """Where the bits of the only stream stand among the bytes, the levels and the payload."""
    k, _, _, table = struct.unpack_from("<HBBH", coded.tobytes())
    bits = 6 + table
    levels = slice(bits + 4, bits + 4 * k)
    return slice(bits, bits + 4), levels, slice(levels.stop, None)


def put(coded: np.ndarray, part: int, number: int) -> None:
    """Write a number of 4 bytes wherever one of these stands in a part, see `places`."""
    where = places(coded)[part]
    coded[where] = np.tile(np.array([number], np.uint32).view(np.uint8), coded[where].size // 4)


def edits_of(text: bytes, name: str) -> None:
    """A case of a delta with these values."""

    def lie(metadata: Any, arrays: Any) -> None:
        arrays["values"] = np.frombuffer(text, np.uint8)

    lies(name, lie)


edits_of(b"0 =999999999 0 1 1\n", "an edit far beyond its text")
edits_of(b"0 =0 999999999 1 1\n", "an edit that drops a gigabyte")
edits_of(b"0 =0 0 999999999 1\n", "an edit that inserts a gigabyte it has not")
edits_of(b'0 =0 1 6 {"l":[\n', "an edit that leads to no value")
edits_of(b"0 =" + b"0 0 0 " * 60_000 + b"\n", "an edit of 60000 empty splices")
edits_of(b"0 =" + b"0 0 0 " * 70_000 + b"\n", "an edit of 70000 splices")
edits_of(b"0 =" + b"9" * 10_000 + b" 0 1 1\n", "an edit with a number of 10000 digits")
edits_of(b'0 {"l":[{"s":["F32","' + b"A" * 9000 + b'"]}]}\n', "a number of 6750 bytes")
edits_of(b'0 {"t":["F64","' + b"=" * 9000 + b'"]}\n', "a number of no bytes")

for at, size, what in ((0, 2, "levels"), (2, 1, "classes"), (3, 1, "units"), (4, 2, "table bytes")):
    for number in sorted({0, 1, 33, 85, 2 ** (8 * size - 1), 2 ** (8 * size) - 1}):

        def row(
            metadata: Any, arrays: Any, at: int = at, size: int = size, number: int = number
        ) -> None:
            told = number.to_bytes(size, "little")
            same = bytes(arrays["c"][at : at + size]) == told
            other = told if not same else bytes([told[0] ^ 64, *told[1:]])
            arrays["c"][at : at + size] = list(other)

        lies(f"{number} {what}", row)
for number in (0, 1, 2**31, 2**32 - 1):

    def bits(metadata: Any, arrays: Any, number: int = number) -> None:
        put(arrays["c"], 0, number)

    lies(f"streams of {number} bits", bits)


def huge_streams(metadata: Any, arrays: Any) -> None:
    arrays["c"] = np.concatenate((arrays["c"], np.full(16 * MIB, 255, np.uint8)))
    put(arrays["c"], 0, 2**31)


def nan_levels(metadata: Any, arrays: Any) -> None:
    put(arrays["c"], 1, int(np.float32(np.nan).view(np.uint32)))


def all_ones(metadata: Any, arrays: Any) -> None:
    put(arrays["c"], 2, 2**32 - 1)


def no_bytes(metadata: Any, arrays: Any) -> None:
    arrays["c"] = arrays["c"][:0]


def a_byte_more(metadata: Any, arrays: Any) -> None:
    arrays["c"] = np.concatenate((arrays["c"], np.zeros(1, np.uint8)))


def many_names(metadata: Any, arrays: Any) -> None:
    metadata["non_finite"] = ["model/w"] * 300_000


def other_exact(metadata: Any, arrays: Any) -> None:
    arrays["t/model/n"] = np.zeros((0, 2**30), np.int64)


def a_residual(contexts: int, *data: bytes) -> Change:
    """A residual of the scalar model/n instead of its value."""

    def lie(metadata: Any, arrays: Any) -> None:
        del arrays["t/model/n"]
        whole = bytes([contexts]) + b"".join(data)
        arrays["d/model/n"] = np.frombuffer(whole, np.uint8)

    return lie


def residual_head(table: int, bits: int) -> bytes:
    """2 levels, 1 class, streams of 1 unit; a table that says it has so many bytes, and has two."""
    return struct.pack("<HBBHHI", 2, 1, 1, table, 0x0110, bits)


ONE = struct.pack("<I", 1)
lies("a residual of streams of 2147483648 bits", a_residual(1, residual_head(2, 2**31), ONE))
lies("a residual of 255 contexts", a_residual(255, bytes(400)))
lies("a residual with a table of 65535 bytes", a_residual(1, residual_head(0xFFFF, 1), ONE))
lies("a residual of runs beyond its element", a_residual(1, residual_head(2, 64), bytes(8)))
lies("a residual of no heads", a_residual(1))


def arithmetic(at: int, *told: int) -> Change:
    """An alphabet in equal steps, with other bytes from there on."""

    def lie(metadata: Any, arrays: Any) -> None:
        found = arrays["c"]
        assert found[2] == 0xFF, "it has an arithmetic code"
        same = bytes(found[at : at + len(told)]) == bytes(told)
        found[at : at + len(told)] = [*told[:-1], told[-1] ^ 1] if same else told

    return lie


for wrong, at, told in (
    ("of 16777215 bytes", 3, [255, 255, 255]),
    ("of no bytes", 3, [0, 0, 0]),
    ("of one byte", 3, [1, 0, 0]),
    ("of 1 level", 0, [1, 128]),
    ("of 2 levels", 0, [2, 128]),
    ("of 32768 levels", 0, [0, 128]),
    ("of buckets without levels", 0, [9, 0]),
    ("with infinity as its step size", 6, [0, 0, 128, 127]),
    ("of other bytes", 10, [255] * 40),
    ("of zeros", 10, [0] * 40),
):
    lies(f"an arithmetic code {wrong}", arithmetic(at, *told), tolerance=1e-3)

for lie in (
    huge_streams,
    nan_levels,
    all_ones,
    no_bytes,
    a_byte_more,
    many_names,
    other_exact,
):
    lies(lie.__name__.replace("_", " "), lie)

# Chains: who follows whom, and what stands in the directory.


def self_parent(metadata: Any, arrays: Any) -> None:
    metadata["parent"] = metadata["digest"]


lies("a record that names itself as its parent", self_parent)


@named
def parents_in_a_circle(path: Path) -> None:
    chain_of(path, 3)
    newest = codec.Chain(path).read(codec.Chain(path).entries[2]).digest

    def circle(metadata: dict[str, Any], arrays: dict[str, Any]) -> None:
        metadata["parent"] = newest

    changed(path, DELTA, circle)


@named
def records_that_changed_names(path: Path) -> None:
    chain_of(path, 3)
    (path / DELTA).rename(path / "x")
    (path / record_name(2, "delta")).rename(path / DELTA)
    (path / "x").rename(path / record_name(2, "delta"))


@named
def a_delta_named_base(path: Path) -> None:
    chain_of(path, 2)
    (path / DELTA).rename(path / record_name(1, "base"))


@named
def only_deltas(path: Path) -> None:
    chain_of(path, 3)
    (path / BASE).unlink()


@named
def a_pipe(path: Path) -> None:
    os.mkfifo(path / BASE)


@named
def a_pipe_as_the_newest_record(path: Path) -> None:
    chain_of(path, 2)
    os.mkfifo(path / record_name(2, "delta"))


@named
def a_pipe_in_place_of_the_chain(path: Path) -> Path:
    os.mkfifo(path / "run.lcc")
    return path / "run.lcc"


@named
def a_pipe_in_place_of_the_lock(path: Path) -> None:
    os.mkfifo(path / ".lock")
    (path / BASE).write_bytes(b"x")


@named
def a_link_in_place_of_the_lock(path: Path) -> None:
    (path / ".lock").symlink_to("/dev/zero")
    (path / BASE).write_bytes(b"x")


@named
def a_link_to_an_endless_device(path: Path) -> None:
    (path / BASE).symlink_to("/dev/zero")


@named
def a_link_to_nothing(path: Path) -> None:
    (path / BASE).symlink_to(path / "nothing")


@named
def a_link_to_itself(path: Path) -> None:
    (path / BASE).symlink_to(path / BASE)


@named
def a_directory(path: Path) -> None:
    (path / BASE).mkdir()


@named
def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(BASE)
    os.chdir(here)


@named
def a_file_of_a_terabyte(path: Path) -> None:
    with (path / BASE).open("wb") as file:
        file.truncate(2**40)


# Archives.


def archive(path: Path, members: dict[str, bytes], change: Callable[[bytearray], None]) -> Path:
    """A zip of stored members, changed afterwards."""
    made = path / "run.lcc.zip"
    with zipfile.ZipFile(made, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)
    data = bytearray(made.read_bytes())
    change(data)
    made.write_bytes(data)
    return made


def good() -> bytes:
    """A record that nothing is wrong with."""
    with tempfile.TemporaryDirectory() as folder:
        chain_of(Path(folder), 1)
        return (Path(folder) / BASE).read_bytes()


def nothing(data: bytearray) -> None:
    """No change."""


for member in (
    "../" + BASE,
    "/" + BASE,
    "a/" + BASE,
    BASE + "/",
    "x" * 300,
    "é",
    "C:\\" + BASE,
    BASE.upper(),
    "٠" * 8 + ".base.safetensors",
    "..",
    ".lock",
):
    CASES[f"a member called {member[:30]!r}"] = lambda path, member=member: archive(
        path, {member: good()}, nothing
    )


@named
def a_member_that_unpacks_to_a_gigabyte(path: Path) -> Path:
    made = path / "run.lcc.zip"
    with (
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file,
        file.open(zipfile.ZipInfo(BASE), "w", force_zip64=True) as member,
    ):
        for _ in range(64):
            member.write(bytes(MIB))
    return made


@named
def a_member_that_is_marked_stored_but_is_not(path: Path) -> Path:
    made = a_member_that_unpacks_to_a_gigabyte(path)
    data = bytearray(made.read_bytes())
    data[data.index(b"PK\x03\x04") + 8] = data[data.index(b"PK\x01\x02") + 10] = 0
    made.write_bytes(data)
    return made


for size_of in (0, 100, 2**31, 2**32 - 2):

    def sized(data: bytearray, size_of: int = size_of) -> None:
        struct.pack_into("<II", data, data.index(b"PK\x01\x02") + 20, size_of, size_of)

    CASES[f"a member of {size_of} bytes, it is said"] = lambda path, change=sized: archive(
        path, {BASE: good()}, change
    )


def member_far(data: bytearray) -> None:
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 42, 2**32 - 2)


def directory_far(data: bytearray) -> None:
    struct.pack_into("<II", data, data.rindex(b"PK\x05\x06") + 12, 2**32 - 2, 2**32 - 2)


def directory_of_all(data: bytearray) -> None:
    struct.pack_into("<II", data, data.rindex(b"PK\x05\x06") + 12, len(data) - 22, 0)


for change in (member_far, directory_far, directory_of_all):
    shown = change.__name__.replace("_", " ")
    CASES[f"an archive with its {shown}"] = lambda path, change=change: archive(
        path, {BASE: good()}, change
    )


@named
def twenty_thousand_members_that_are_one(path: Path) -> Path:
    one = {BASE: good()}
    made = archive(path, one, nothing)
    data = made.read_bytes()
    start, end = data.index(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    entry = data[start:end]
    entries = b"".join(
        entry.replace(BASE.encode(), record_name(i, "base").encode()) for i in range(20_000)
    )
    tail = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 20_000, 20_000, len(entries), start, 0)
    made.write_bytes(data[:start] + entries + tail)
    return made


@named
def an_archive_of_a_pipe(path: Path) -> Path:
    os.mkfifo(path / "run.lcc.zip")
    return path / "run.lcc.zip"


if __name__ == "__main__":
    sys.exit(min(main(), 1))
