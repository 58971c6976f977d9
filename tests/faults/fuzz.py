"""Feed the decoders with damaged input, millions of times: only named errors may come back.

    PYTHONPATH=. python tests/faults/fuzz.py --inputs 1000000

Targets: records (bytes changed anywhere, and metadata, arrays and texts changed one by one, the
digest made right again so that what is behind it is reached: code tables, values, structures) and
`decode` of changed encodings. Each input is made from the seed, the target's name and its number
alone; a finding is told with them and can be repeated by --target, --first and --inputs 1. It all
happens in a process of its own: one that crashes or stops is a finding as well. The tracks that
records are applied to lie between guards, which must not change.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from common import Child, options_of

import codec
from codec.record import chunks, container
from codec.record import record as records
from codec.record.header import Header, more_text
from codec.record.track import Track
from codec.scheme.coders import CODERS
from codec.scheme.coding import Coding
from codec.scheme.context import ContextCode
from codec.scheme.payload import Constant, Payload
from codec.scheme.prefix import PrefixCode
from codec.scheme.tables import CodeTable
from codec.scheme.tracker import Tracker
from codec.state import edits, tree
from codec.state.selection import Selection
from codec.state.tensors import layout_of, to_arrays
from tests.codec.forging import resign

STUCK = 60.0  # seconds for one input
GUARD = 4096  # float32 on each side of a track
SHARES = {"anywhere": 25, "parts": 45, "decode": 30}  # of 100 inputs, so many are of this target
POWERS = (5, 7, 8, 9, 12, 16, 21, 31, 32, 63, 64)
INTERESTING = [*range(4), 84, 85, *(2**n + d for n in POWERS for d in (-1, 0, 1))]
NAMES = "w n model/w F32 F16 I64 base delta model tensor huffman runlength"
WORDS: list[Any] = [*NAMES.split(), "", None, True, -1, 1.5, float("nan"), 10**30, [], {}]
WORDS += ["0" * 64, "0" * 32]
FIELDS: dict[type[Payload], list[str]] = {
    PrefixCode: ["words", "streams", "stream_elements", "table"],
    ContextCode: ["code", "matrices", "sizes", "shared"],
}

ONE = Selection("model/w")

Target = Callable[[random.Random], None]


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the number of findings."""
    options = options_of(
        __doc__,
        arguments,
        inputs=(1_000_000, "to try"),
        seed=(0, "of the inputs"),
        target=("", f"one of {', '.join(SHARES)}; else each has its share of the inputs"),
        first=(0, "number of the first input"),
    )
    warnings.simplefilter("ignore")
    chunks.SMALLEST, chunks.LEAST, chunks.FEW = 64, 128, 16  # small records have chunks, too
    codec.warm_up()
    samples = Samples()
    findings, inputs, started = 0, 0, time.monotonic()
    for name, share in SHARES.items():
        if options.target not in ("", name):
            continue
        n = options.inputs if options.target else options.inputs * share // 100
        findings += watched(name, getattr(samples, name), options.seed, options.first, n)
        inputs += n
    seconds = time.monotonic() - started
    print(f"{inputs:,} inputs, {findings} findings, {inputs / seconds:,.0f} inputs/s")
    return findings


def watched(name: str, target: Target, seed: int, first: int, n: int) -> int:
    """Run one target in a process of its own; returns the number of findings."""
    at, end, findings, started = first, first + n, 0, time.monotonic()
    met: Counter[str] = Counter()
    while at < end:
        shared = mmap.mmap(-1, 16)  # number of the input, and how many were findings
        trying = partial(inputs, name, target, seed, at, end, shared)
        child = Child(lambda tell: tell(json.dumps(trying())))  # noqa: B023
        code = awaited(child, shared, met)
        at = int.from_bytes(shared[:8], "little") + 1
        findings += int.from_bytes(shared[8:16], "little")
        if code:
            findings += 1
            print(f"FINDING: {name}, seed {seed}, number {at - 1}: ended with code {code}")
    rate = n / (time.monotonic() - started)
    common = ", ".join(f"{count:,} {what}" for what, count in met.most_common(4))
    print(f"{name}: {n:,} inputs, {findings} findings, {rate:,.0f}/s: {common}", flush=True)
    return findings


def awaited(child: Child, shared: mmap.mmap, met: Counter[str]) -> int:
    """The code that a process ends with; one that stays at an input for long is killed."""
    last, since = b"", time.monotonic()
    while not child.has_ended():
        if shared[:8] != last:
            last, since = shared[:8], time.monotonic()
        if time.monotonic() > since + STUCK:
            child.kill()
        time.sleep(0.02)
    for line in child.lines():
        met.update(json.loads(line))
    return child.code()


def inputs(
    name: str, target: Target, seed: int, at: int, end: int, shared: mmap.mmap
) -> dict[str, int]:
    """Make and try these inputs; what became of them."""
    met: Counter[str] = Counter()
    findings = 0
    for number in range(at, end):
        shared[:8] = number.to_bytes(8, "little")
        try:
            target(random.Random(f"{seed} {name} {number}"))
            met["read"] += 1
        except (codec.LccError, tree.StructureError) as exc:
            met[type(exc).__name__] += 1
        except BaseException as exc:
            findings += 1
            shared[8:16] = findings.to_bytes(8, "little")
            print(f"FINDING: {name}, seed {seed}, number {number}: {type(exc).__name__}: {exc}")
            traceback.print_exc()
    return met


class Guarded:
    """A copy of a track, each array between two guards."""

    def __init__(self, track: Track) -> None:
        self.track = track.copy()
        self._whole: list[np.ndarray] = []
        for name, array in track.arrays.items():
            if array.dtype == np.float32:
                whole = np.full(array.size + 2 * GUARD, 7, np.float32)
                whole[GUARD : GUARD + array.size] = array.reshape(-1)
                self.track.arrays[name] = whole[GUARD : GUARD + array.size].reshape(array.shape)
                self._whole.append(whole)

    def check(self) -> None:
        """Raise if anything was written outside."""
        for whole in self._whole:
            assert (whole[:GUARD] == 7).all(), "written before an array"
            assert (whole[-GUARD:] == 7).all(), "written behind an array"


class Samples:
    """What is damaged: records and parts of them; and how, each method a target."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.records: list[tuple[bytes, Track | None]] = []  # a record, the track before it
        self.encoded: list[codec.Encoded] = []
        for size, share, scope in (
            (60, 1.0, "model"),
            (3000, 0.05, "tensor"),
            (70_000, 0.001, "model"),
        ):
            for coder in CODERS:
                self._add(rng, size, share, Coding(3, scope, coder))
            if size < 70_000:
                self._add(rng, size, share, Coding(scope=scope, tolerance=0.1))
        self._add(rng, 3000, 0.7, Coding(3))
        assert {type(e.payload) for e in self.encoded} >= FIELDS.keys()
        self.tables = [e.table for e in self.encoded if e.table]

    def _add(self, rng: np.random.Generator, size: int, share: float, coding: Coding) -> None:
        w = rng.normal(size=size).astype(np.float32)
        v = rng.normal(size=(5, 4)).astype(np.float32)
        layout_state = {
            "model": {"w": w, "v": v, "n": np.array(0), "x": w[:600].astype(np.float64)},
            "lr": [0.1, {"b": b"\0"}],
            "log": [np.float32(0.5), np.array(2), torch.tensor(0.5)] * 3,
        }
        parts = tree.flatten(layout_state, lambda name: False)
        layout = dataclasses.replace(layout_of(parts.tensors), structure=parts.structure)
        track = Track.of(layout, to_arrays(parts.tensors, layout), parts.values).copy()
        tracker = Tracker.resume(track, coding)
        base = records.dump_base(records.Place(0), track)
        self.records.append((base, None))
        digest = records.load(base, "base").digest
        for step in (1, 2):
            moved = w + (rng.normal(size=size) * (rng.random(size) < share)).astype(np.float32)
            x = moved[:600].astype(np.float64) + step * np.spacing(np.float64(w[:600]))
            state = parts.tensors | {"model/w": moved, "model/n": np.array(step), "model/x": x}
            delta = tracker.prepare_arrays(to_arrays(state, layout))
            assert size < 600 or "model/x" in delta.residuals
            longer = parts.values[1].removesuffix("]}") + ',{"s":["F16","AAA="]},null]}'
            changes = {0: "0.2", 1: edits.change_of(parts.values[1], longer)}
            assert edits.is_edit(changes[1])
            delta = dataclasses.replace(delta, values=changes)
            place = records.Place(step, digest[:16], digest)
            after = dataclasses.replace(track, values=parts.values).digest_after(delta)
            before = dataclasses.replace(track.copy(), values=parts.values)
            self.records.append((records.dump_delta(place, after, delta), before))
            self.encoded += [group.encoded for group in delta.groups]
            tracker.commit(delta)

    # Targets

    def anywhere(self, rng: random.Random) -> None:
        """A record of which any bytes were changed."""
        data, before = rng.choice(self.records)
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(damaged))
            how = rng.randrange(4)
            if how == 0:
                damaged[at] ^= 1 << rng.randrange(8)
            elif how == 1:
                damaged[at] = rng.randrange(256)
            elif how == 2:
                other = rng.choice(self.records)[0]
                start = rng.randrange(len(other))
                damaged[at : at + 8] = other[start : start + 8]
            else:
                damaged[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        self._read(resign(bytes(damaged)), before)

    def parts(self, rng: random.Random) -> None:
        """A record of which fields, arrays or texts were changed."""
        data, before = rng.choice(self.records)
        file = container.unseal(data, "sample")
        header, more = file.header, file.more
        arrays = {name: array.copy() for name, array in file.arrays.items()}
        for _ in range(rng.randrange(1, 3)):
            how = rng.randrange(9)
            coded = [n for n in arrays if n.startswith(("c", "d/")) and arrays[n].nbytes > 16]
            if how == 8 and coded:
                name = rng.choice(coded)
                arrays[name] = with_other_words(arrays[name], rng)
            elif how == 7 and coded:  # the first alphabet's row and table
                at = np.ascontiguousarray(arrays[rng.choice(coded)]).reshape(-1).view(np.uint8)
                at[rng.randrange(16)] = rng.randrange(256)
            elif how == 6 and "more" not in arrays:
                text = more_text(more or {"non_finite": ["model/w"]})
                arrays["more"] = np.frombuffer(changed_text(text, rng), np.uint8).copy()
                more = {}
            elif how == 0 and more:
                more[rng.choice(list(more))] = rng.choice(WORDS)
            elif how == 0:
                names = [field.name for field in dataclasses.fields(Header)]
                header = dataclasses.replace(header, **{rng.choice(names): rng.choice(WORDS)})
            elif how == 1 and (entries := more.get("layout")) and isinstance(entries, list):
                entry = rng.choice(entries)
                if entry and isinstance(entry, list):
                    entry[rng.randrange(len(entry))] = rng.choice([*WORDS, [0], [2**62, 2], [9, 9]])
            elif how == 2 and arrays:
                name = rng.choice(list(arrays))
                arrays[name] = reshaped(arrays[name], rng)
            elif how == 3 and {"values", "structure"} & set(arrays):
                name = rng.choice(sorted({"values", "structure"} & set(arrays)))
                text = changed_text(arrays[name].tobytes(), rng)
                arrays[name] = np.frombuffer(text, np.uint8).copy()
            elif how == 4 and len(arrays) > 1:
                arrays.pop(rng.choice(list(arrays)))
            elif arrays:
                array = arrays[rng.choice(list(arrays))]
                if array.size and array.dtype != np.bool_:
                    change_array(array, rng)
        try:
            data = container.seal(header, more, arrays)
        except (TypeError, ValueError, IndexError, AttributeError, KeyError, AssertionError):
            return  # the line has no place for such a word
        self._read(data, before)

    def _read(self, data: bytes, before: Track | None) -> None:
        """A record, or the part of it that one tensor is in."""
        before = before or self.records[1][1]
        assert before is not None
        selection = None if len(data) % 2 == 0 else ONE
        if selection:
            record = records.load_parts(partial(spans_of, data), len(data), "record")
        else:
            record = records.load(data, "record")
        if record.kind == "base":
            records.base_of(record, selection=selection).restore()
            return
        guarded = Guarded(before)
        track = guarded.track
        if selection:
            arrays = {name: track.arrays[name] for name in selection.names(track.layout)}
            track = dataclasses.replace(track, arrays=arrays, selection=selection)
        delta = records.delta_of(record, track)
        try:
            records.apply_checked(record, delta, track)
        finally:
            guarded.check()

    def decode(self, rng: random.Random) -> None:
        """An encoding of which some was changed."""
        e = rng.choice(self.encoded)
        for _ in range(rng.randrange(1, 3)):
            how = rng.randrange(8)
            if how < 5 and e.payload:
                e = dataclasses.replace(e, payload=self._other_payload(e.payload, rng))
            elif how == 5:
                shape = rng.choice([(3,), (), (0,), (70_000, 2), (60,), (-1,), (2**40,)])
                e = dataclasses.replace(e, shape=shape)
            else:
                e = dataclasses.replace(e, levels=self._other(e.levels, rng))
        q = codec.decode(e)
        if isinstance(e.payload, PrefixCode):
            assert e.payload.streams.size == -(-q.codes.size // e.payload.stream_elements), (
                "streams too few or many"
            )
        assert q.codes.size == np.prod(q.shape, dtype=np.int64)
        assert not q.codes.size or q.codes.max() < q.levels.size

    def _other_payload(self, payload: Payload, rng: random.Random) -> Any:
        """None, that of another encoding, or one of which a field has another value."""
        if type(payload) not in FIELDS or rng.random() < 0.2:
            return rng.choice([Constant(), None, rng.choice(self.encoded).payload])
        if isinstance(payload, PrefixCode) and rng.random() < 0.2:  # other streams, and their words
            streams = payload.streams.reshape(-1)[: rng.randrange(payload.streams.size + 1)]
            n = int(((streams.astype(np.int64) + 31) // 32).sum())
            streams = np.concatenate((streams, np.zeros(rng.randrange(3), np.uint32)))
            return dataclasses.replace(payload, streams=streams, words=payload.words[:n])
        name = rng.choice(FIELDS[type(payload)])
        return dataclasses.replace(payload, **{name: self._other(getattr(payload, name), rng)})

    def _other(self, value: Any, rng: random.Random) -> Any:
        """Another value of a field."""
        if isinstance(value, np.ndarray):
            return change_array(value.copy(), rng) if rng.random() < 0.7 else reshaped(value, rng)
        if isinstance(value, CodeTable):
            other = rng.choice(self.tables)
            lengths = change_array(other.lengths.copy(), rng)
            return rng.choice([other, None, CodeTable(lengths, rng.choice([value.classes, 1, 2]))])
        if isinstance(value, tuple):  # of matrices
            rows = rng.choice([-1, 0, 1, 60, 80, 2**40, "x"])
            return ((rows, rng.choice([1, 80, -1])), *value)
        return rng.choice(INTERESTING)


def spans_of(data: bytes, spans: Sequence[tuple[int, int]]) -> list[bytes]:
    """Parts of a file."""
    return [data[begin:end] for begin, end in spans]


def change_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Some elements, in place."""
    if not array.size:
        return array
    flat = array.reshape(-1)
    words = flat.view(f"u{array.itemsize}") if array.itemsize < 16 else flat
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(flat.size)
        if words.dtype.kind == "u":
            bits = 8 * array.itemsize
            word = int(words[at])
            changes = [word ^ 1 << rng.randrange(bits), rng.getrandbits(bits), word + 1, word - 1]
            new = rng.choice([*changes, rng.choice(INTERESTING)])
            words[at] = new % 2**bits
    return array


def with_other_words(words: np.ndarray, rng: random.Random) -> np.ndarray:
    """Some put in, taken out, or doubled: what follows then stands elsewhere."""
    words = words.reshape(-1)
    at = rng.randrange(words.size + 1)
    end = min(words.size, at + rng.randrange(3))
    put = words[at:end] if rng.random() < 0.5 else np.array([rng.choice(INTERESTING) % 256])
    rest = words[at if rng.random() < 0.5 else end :]
    return np.concatenate((words[:at], put.astype(words.dtype), rest))


def reshaped(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Longer, shorter, of another shape or dtype."""
    flat = array.reshape(-1)
    how = rng.randrange(6)
    if how == 5:
        return np.concatenate((flat, np.zeros(rng.randrange(1, 4), flat.dtype)))
    if how == 0:
        return flat[: rng.randrange(flat.size + 1)].copy()
    if how == 1:
        return np.concatenate((flat, flat[: rng.randrange(flat.size + 1)]))
    if how == 2:
        return flat.reshape(1, -1)
    if how == 3:
        return flat.view(np.uint8).copy()
    return np.zeros(rng.randrange(100), rng.choice([np.uint32, np.uint64, np.float32, np.uint8]))


PIECES = rb"""{"l":[ ]} {"d":[ ["a", {"t":0} {"v":0} {"i":"9"} {"f":"inf"} {"b":"AA=="} null -1
{"y":"AA=="}
1e999 \u0000 " NaN = {"s":["F32", "AAAAPw==" {"a":["I8","AA=="]} {"n":[]} {"o":[]} {"p":[]}
[ ] true"""
PIECES = [*PIECES.split(), b"\n", b" ", b"0 ", b" 0 ", b"0 0 1 x", b"=0 1 1 1", b"\xff", b"9" * 30]


def changed_text(text: bytes, rng: random.Random) -> bytes:
    """With pieces put in, taken out, doubled or replaced."""
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randrange(12))
        how = rng.randrange(4)
        put = rng.choice(PIECES) if how < 2 else text[at:end] * 2 if how == 2 else b""
        text = text[:at] + put + text[at if how == 0 else end :]
    return text


if __name__ == "__main__":
    sys.exit(min(main(), 1))
