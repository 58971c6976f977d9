"""Files made to do harm: each must be refused by name, in a second and 200 MB.

    PYTHONPATH=. python tests/faults/hostile.py

Every case lays files into a directory. A process of its own then verifies and restores what is
there, and opens it to go on. The time is that of the processor; what waits (a pipe, a device) is
killed after five minutes. The memory is what the process took beyond what it began with.

What stands in tests/codec (keys that stand twice, offsets that lie, metadata of any JSON, damaged
or compressed members, deep structures) is not repeated here.
"""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import socket
import struct
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import Child, Tell, chain_of, new_path, options_of

import codec
from codec.errors import SkippedRecordWarning
from codec.record import container
from codec.record.header import Header
from codec.storage.entry import record_name
from tests.codec.forging import resign

SECONDS, MEGABYTES, PATIENCE = 1.0, 200.0, 300.0
ADDRESSES = 8 * 2**30  # bytes of address space, so that nothing can take the machine's memory
BASE, DELTA = record_name(0, "base"), record_name(1, "delta")
PLAIN = {"t/w": np.zeros(9, np.float32)}
LAYOUT = [["w", "F32", [9], True, "numpy", ""]]
NESTED = '{"d":[["w",{"t":0}],["v",{"v":0}]]}'

HEADER = Header(0, None, None, "0" * 32)

Case = Callable[[Path], Any]
Change = Callable[[dict[str, Any], dict[str, Any]], None]
CASES: dict[str, Case] = {}
LARGE = re.compile(
    "MiB|tensors|unpacks|marked|members|00,000|10,000|million|lists|integers|many names|huge"
)


def main(arguments: list[str] | None = None) -> int:
    """Run all cases; returns how many of them were not refused as they must be."""
    options = options_of(
        __doc__,
        arguments,
        only=("", "cases whose name has this in it"),
        seconds=(SECONDS, "of the processor"),
        every=(1, "of so many cases one"),
        small=(False, "not those that take long to make"),
    )
    warnings.simplefilter("ignore", SkippedRecordWarning)
    codec.warm_up()
    failed, most = 0, [0.0, 0.0]
    chosen = [name for name in CASES if not (options.small and is_large(name))]
    chosen = [name for name in chosen if options.only in name][:: options.every]
    for name in chosen:
        wrong, seconds, megabytes = one_case(name, options.seconds)
        most = [max(most[0], seconds), max(most[1], megabytes)]
        failed += bool(wrong)
        print(f"{name:45} {seconds:6.2f} s {megabytes:6.0f} MB  {wrong or 'refused'}", flush=True)
    print(f"{len(chosen)} cases, {failed} WRONG, {most[0]:.2f} s and {most[1]:.0f} MB at most")
    return failed


def one_case(name: str, limit: float) -> tuple[str, float, float]:
    """What was wrong, if anything; seconds and megabytes it took. limit: of the seconds."""
    with new_path() as path:
        path.mkdir()
        if make(name, path):
            return "WRONG: could not be made", 0.0, 0.0
        source = next((p for p in (path / "run.lcc", path / "run.lcc.zip") if p.exists()), path)
        child, started = Child(lambda tell: attack(source, tell)), time.monotonic()
        while not child.has_ended() and time.monotonic() < started + PATIENCE:
            time.sleep(0.005)
        child.kill()  # if it has not ended
        noted, code = child.lines(), child.code()
        if not noted:
            return f"WRONG: ended with code {code}", time.monotonic() - started, 0.0
        wrong, seconds, megabytes = json.loads(noted[0])
        if not wrong and seconds > limit:
            wrong = "WRONG: too slow"
        if not wrong and megabytes > MEGABYTES:
            wrong = "WRONG: too much memory"
        return wrong, seconds, megabytes


def make(name: str, path: Path) -> int:
    """Lay the files down: large ones in a process of its own, whose memory is then nobody's."""
    if is_large(name):
        return Child(lambda _tell: CASES[name](path)).code()
    CASES[name](path)
    return 0


def is_large(name: str) -> bool:
    """Whether its files take long to make."""
    return LARGE.search(name) is not None


def attack(source: Path, tell: Tell) -> None:
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
    tell(json.dumps([wrong, slowest, used]))


def refuses(read: Callable[[], Any]) -> bool:
    """Whether it raises a named error."""
    try:
        read()
    except codec.LccError:
        return True
    return False


# How files are made.


def base(arrays: dict[str, Any] = PLAIN, **fields: Any) -> bytes:
    """A base record of any content, its digest right; that of the track is not."""
    return container.seal(HEADER, {"layout": LAYOUT} | fields, arrays)


def with_texts(values: bytes, structure: str = NESTED) -> bytes:
    """A base with these values."""
    texts = {"structure": structure.encode(), "values": values}
    return base(PLAIN | {name: np.frombuffer(text, np.uint8) for name, text in texts.items()})


def with_more(text: bytes) -> bytes:
    """A base that says this of itself."""
    return container.seal(HEADER, {}, PLAIN | {"more": np.frombuffer(text, np.uint8)})


def of_header(header: bytes, body: bytes = b"") -> bytes:
    """A file of a header and arrays, with the digest it asks for if it has a place for one."""
    return resign(len(header).to_bytes(8, "little") + header + body)


def of_line(line: bytes, more: bytes = b"") -> bytes:
    """A file of this line, which may have %s for digests."""
    line = line.replace(b"%s", b"A" * 22)
    return of_header(b'{"__metadata__":{"lcc":"' + line + b'"}' + more + b"}")


def filled(unit: bytes, before: bytes, after: bytes, nbytes: int) -> bytes:
    """Units separated by commas, as many as there is room for."""
    n = (nbytes - len(before + after)) // (len(unit) + 1) - 2
    return before + unit + (b"," + unit) * n + after


@functools.cache
def files_of(steps: int, **settings: Any) -> dict[str, bytes]:
    """The records of a real chain."""
    with new_path() as path:
        chain_of(path, steps, **settings)
        return {file.name: file.read_bytes() for file in path.glob("*.safetensors")}


def real(path: Path, steps: int, **settings: Any) -> None:
    """A real chain."""
    for name, data in files_of(steps, **settings).items():
        (path / name).write_bytes(data)


def changed(path: Path, name: str, change: Change) -> None:
    """Forge a record of a real chain: fields and arrays, the digest right."""
    file = container.unseal((path / name).read_bytes(), name)
    arrays = {name: array.copy() for name, array in file.arrays.items()}
    fields = file.more | {"digest": file.digest, "parent": file.header.parent}
    change(fields, arrays)
    del fields["digest"]
    header = replace(file.header, parent=fields.pop("parent"))
    (path / name).write_bytes(container.seal(header, fields, arrays))


def laid(name: str, data: bytes | Callable[[], bytes]) -> None:
    """A case of one file."""
    CASES[name] = lambda path: (path / BASE).write_bytes(data() if callable(data) else data)


def named(case: Case) -> Case:
    """A case by its function's name."""
    CASES[case.__name__.replace("_", " ")] = case
    return case


# Headers.

MIB = 2**20
for unit in (b"{}", b"0", b'{"":0}', b"[[[]]]"):
    for what, made in (("header", of_header), ("more", with_more)):
        laid(
            f"{what} of 16 MiB of {unit.decode()}",
            lambda unit=unit, made=made: made(filled(unit, b'{"a":[', b"]}", 16 * MIB)),
        )
for unit, most in ((b"{}", 200_000), (b"[]", 600_000), (b"0", 2_500_000)):
    laid(
        f"more of as many lists of {unit.decode()} as there may be",
        lambda unit=unit, most=most: with_more(b'{"a":[' + b",".join([unit] * (most - 2)) + b"]}"),
    )
laid("more of 16 MiB of brackets", lambda: with_more(b"[" * 16 * MIB))
laid("more of 17 MiB", lambda: with_more(b'{"a":"' + b"x" * 17 * MIB + b'"}'))
laid("a line of 16 MiB", lambda: of_line(b"1 " * (8 * MIB - 50) + b"%s"))
laid("a line of 400 words", of_line(b"1 " * 400 + b"%s"))
laid("a line without a digest at its end", of_line(b"1 b 0 - - %s %s "))
laid("a step of 900 digits", of_line(b"1 b " + b"9" * 900 + b" - - %s %s"))
laid("header length of 2^64 - 1", b"\xff" * 8 + b"{}")
laid("header of 16 MiB that is not there", (16 * MIB).to_bytes(8, "little") + b"{}")
laid("header of 16 MiB of brackets", lambda: of_header(b"[" * 16 * MIB))
laid("header of one name of 16 MiB", lambda: of_header(b'{"' + b"x" * (16 * MIB - 9) + b'":{}}'))
EACH = b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
for count in (100_000, 100_001, 140_000):
    laid(
        f"header of {count} tensors",
        lambda n=count: of_header(b"{" + b",".join(EACH % i for i in range(n)) + b"}"),
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
    of_line(
        b"1 b 0 - - %s %s",
        b',"t/w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}',
    ),
)
LONG = "x" * 4_000_000
laid(
    "a name of 4,000,000 characters",
    lambda: base(
        {f"t/{LONG}": np.zeros(9, np.int8)}, layout=[[LONG, "F32", [9], True, "numpy", ""]]
    ),
)


@named
def as_many_families_as_tensors(path: Path) -> None:
    with codec.Checkpointer(path, 2, policy={"*": "lossy"}) as checkpoints:
        for step, made in enumerate((np.zeros, np.ones)):
            tensors = {str(i): made(9, np.float32) for i in range(8000)}
            checkpoints.save(step, {"o": tensors})
    changed(path, DELTA, lambda _, arrays: arrays.update(c=arrays["c"][:-2]))  # the last alphabet


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
ALIKE = b",".join(b"[%d,0]" % (i * (2**61 - 1)) for i in range(20_000))
laid("keys that collide", with_texts(b'0 {"d":[' + ALIKE + b"]}\n"))
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
        real(path, 2, **settings)
        changed(path, DELTA, change)

    CASES[name] = case


def put(part: int, number: int, more: int = 0) -> Change:
    """Write a number of 4 bytes over the bits of the only stream, the levels or the payload, which
    has so many bytes more."""

    def lie(_: Any, arrays: Any) -> None:
        coded = np.concatenate((arrays["c"], np.full(more, 255, np.uint8)))
        k, _, _, table = struct.unpack_from("<HBBH", coded.tobytes())
        bits, payload = 6 + table, 6 + table + 4 * k
        where = (slice(bits, bits + 4), slice(bits + 4, payload), slice(payload, None))[part]
        coded[where] = np.tile(np.array([number], np.uint32).view(np.uint8), coded[where].size // 4)
        arrays["c"] = coded

    return lie


def others(at: int, *noted: int, classes: int | None = None) -> Change:
    """Other bytes from there on, of an alphabet of these classes; None for code words."""

    def lie(_: Any, arrays: Any) -> None:
        coded = arrays["c"]
        assert coded[2] < 85 if classes is None else coded[2] == classes
        end = at + len(noted)
        same = bytes(coded[at:end]) == bytes(noted)
        coded[at:end] = [noted[0] ^ 64, *noted[1:]] if same else noted

    return lie


def residual(contexts: int, *data: bytes) -> Change:
    """A residual of the scalar model/n instead of its value."""

    def lie(_: Any, arrays: Any) -> None:
        del arrays["t/model/n"]
        coded = bytes([contexts]) + b"".join(data)
        arrays["d/model/n"] = np.frombuffer(coded, np.uint8)

    return lie


def head(table: int, bits: int) -> bytes:
    """2 levels, 1 class, streams of 1 unit; a table that says it has so many bytes, and has two."""
    return struct.pack("<HBBHHI", 2, 1, 1, table, 0x0110, bits)


for name, text in {
    "far beyond its text": b"=999999999 0 1 1",
    "that drops a gigabyte": b"=0 999999999 1 1",
    "that inserts a gigabyte it has not": b"=0 0 999999999 1",
    "that leads to no value": b'=0 1 6 {"l":[',
    "of 60000 empty splices": b"=" + b"0 0 0 " * 60_000,
    "of 70000 splices": b"=" + b"0 0 0 " * 70_000,
    "with a number of 10000 digits": b"=" + b"9" * 10_000 + b" 0 1 1",
    "that is a number of 6750 bytes": b'{"l":[{"s":["F32","' + b"A" * 9000 + b'"]}]}',
    "that is a number of no bytes": b'{"t":["F64","' + b"=" * 9000 + b'"]}',
}.items():
    noted = np.frombuffer(b"0 " + text + b"\n", np.uint8)
    lies(f"an edit {name}", lambda _, arrays, noted=noted: arrays.update(values=noted))
for what, at, size in (("levels", 0, 2), ("classes", 2, 1), ("units", 3, 1), ("table bytes", 4, 2)):
    for number in (0, 2 ** (8 * size) - 1):
        lies(f"{number} {what}", others(at, *number.to_bytes(size, "little")))
for wrong, at, *noted in (
    ("with a list of 65535 bytes", 4, 255, 255),
    ("with a list of no bytes", 4, 0, 0),
    ("in groups of 255", 3, 255),
    ("of 34359738367 bytes", 6, 255, 255, 255, 255, 127),
    ("of 32768 levels", 0, 0, 128),
    ("with infinity as its step size", 7, 0, 0, 128, 127),
    ("of other bytes", 12, *[255] * 40),
):
    change = others(at, *noted, classes=254)
    lies(f"a context code {wrong}", change, tolerance=1e-3, coder="context")
for number in (0, 2**31, 2**32 - 1):
    lies(f"streams of {number} bits", put(0, number))
ONE, ZERO = struct.pack("<I", 1), np.zeros(1, np.uint8)
for name, change in {
    "huge streams": put(0, 2**31, 16 * MIB),
    "nan levels": put(1, int(np.float32(np.nan).view(np.uint32))),
    "all ones": put(2, 2**32 - 1),
    "a byte more": lambda _, a: a.update(c=np.concatenate((a["c"], ZERO))),
    "many names": lambda fields, _: fields.update(non_finite=["model/w"] * 300_000),
    "other exact": lambda _, a: a.update({"t/model/n": np.zeros((0, 2**30), np.int64)}),
    "a residual of streams of 2147483648 bits": residual(1, head(2, 2**31), ONE),
    "a residual of 255 contexts": residual(255, bytes(400)),
    "a residual with a table of 65535 bytes": residual(1, head(0xFFFF, 1), ONE),
    "a record that names itself as its parent": lambda f, _: f.update(parent=f["digest"]),
}.items():
    lies(name, change)

# Chains: who follows whom, and what stands in the directory.


@named
def parents_in_a_circle(path: Path) -> None:
    real(path, 3)
    newest = codec.Chain(path).read(codec.Chain(path).entries[2]).digest
    changed(path, DELTA, lambda fields, _: fields.update(parent=newest))


@named
def records_that_changed_names(path: Path) -> None:
    real(path, 3)
    (path / DELTA).rename(path / "x")
    (path / record_name(2, "delta")).rename(path / DELTA)
    (path / "x").rename(path / record_name(2, "delta"))


@named
def a_delta_named_base(path: Path) -> None:
    real(path, 2)
    (path / DELTA).rename(path / record_name(1, "base"))


@named
def only_deltas(path: Path) -> None:
    real(path, 3)
    (path / BASE).unlink()


@named
def a_pipe_as_the_newest_record(path: Path) -> None:
    real(path, 2)
    os.mkfifo(path / record_name(2, "delta"))


def beside_a_record(lay: Callable[[Path], object]) -> Case:
    """Something in place of the lock."""
    return lambda path: (lay(path / ".lock"), (path / BASE).write_bytes(b"x"))


@named
def a_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(BASE)
    os.chdir(here)


CASES |= {
    "a pipe": lambda path: os.mkfifo(path / BASE),
    "a pipe in place of the lock": beside_a_record(os.mkfifo),
    "a link in place of the lock": beside_a_record(lambda lock: lock.symlink_to("/dev/zero")),
    "a pipe in place of the chain": lambda path: os.mkfifo(path / "run.lcc"),
    "an archive of a pipe": lambda path: os.mkfifo(path / "run.lcc.zip"),
    "a link to an endless device": lambda path: (path / BASE).symlink_to("/dev/zero"),
    "a link to nothing": lambda path: (path / BASE).symlink_to(path / "nothing"),
    "a link to itself": lambda path: (path / BASE).symlink_to(path / BASE),
    "a directory": lambda path: (path / BASE).mkdir(),
    "a file of a terabyte": lambda path: ((path / BASE).touch(), os.truncate(path / BASE, 2**40)),
}

# Archives.


def archive(name: str, change: Callable[[bytearray], None], member: str = BASE) -> None:
    """A case of a zip of one sound record, changed afterwards."""

    def case(path: Path) -> None:
        made = path / "run.lcc.zip"
        with zipfile.ZipFile(made, "w") as file:
            file.writestr(zipfile.ZipInfo(member), files_of(1)[BASE])
        data = bytearray(made.read_bytes())
        change(data)
        made.write_bytes(data)

    CASES[name] = case


def written(mark: bytes, at: int, *numbers: int) -> Callable[[bytearray], None]:
    """These numbers, so many bytes after the last such mark; -1: all before the directory's end."""

    def change(data: bytearray) -> None:
        most = len(data) - 22
        noted = [most if n < 0 else n for n in numbers]
        struct.pack_into(f"<{len(noted)}I", data, data.rindex(mark) + at, *noted)

    return change


ENTRY, END = b"PK\x01\x02", b"PK\x05\x06"
for member in (f"../{BASE}", f"/{BASE}", "x" * 300, f"C:\\{BASE}", "٠" * 8 + BASE[8:], ".lock"):
    archive(f"a member called {member[:30]!r}", lambda data: None, member)
for size in (0, 100, 2**31, 2**32 - 2):
    archive(f"a member of {size} bytes, it is said", written(ENTRY, 20, size, size))
archive("a member that stands far away", written(ENTRY, 42, 2**32 - 2))
archive("a directory far away", written(END, 12, 2**32 - 2, 2**32 - 2))
archive("a directory of all", written(END, 12, -1, 0))


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
def a_member_that_is_marked_stored_but_is_not(path: Path) -> None:
    made = a_member_that_unpacks_to_a_gigabyte(path)
    data = bytearray(made.read_bytes())
    data[data.index(b"PK\x03\x04") + 8] = data[data.index(ENTRY) + 10] = 0
    made.write_bytes(data)


def many_members(data: bytearray) -> None:
    start, end = data.index(ENTRY), data.rindex(END)
    names = (record_name(i, "base").encode() for i in range(20_000))
    entries = b"".join(data[start:end].replace(BASE.encode(), name) for name in names)
    tail = struct.pack("<4sHHHHIIH", END, 0, 0, 20_000, 20_000, len(entries), start, 0)
    data[start:] = entries + tail


archive("twenty thousand members that are one", many_members)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
