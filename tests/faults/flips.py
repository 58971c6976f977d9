"""Flip every bit and cut at every byte: what is damaged must be noticed.

    PYTHONPATH=. python tests/faults/flips.py

A chain of a training state (lossy weights, exact moments, counters, shared tensors, values), two
bases and four deltas. First its records one by one in memory, then as files (one bit of each byte,
for that takes longer), then as an archive. Of a zip some bits tell nothing that is read (a date,
a version): those that change nothing in what is restored are counted as harmless.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import MEMORY

import codec
from codec.errors import ArchiveError, ChainNotFoundError, SkippedRecordWarning
from codec.record import record as records

NEWEST = 5


def main(arguments: list[str] | None = None) -> int:
    """Run everything; returns how much damage was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, help="so many bytes apart (records)")
    parser.add_argument("--files", type=int, default=1, help="so many bytes apart (files)")
    parser.add_argument("--archive", type=int, default=1, help="so many bytes apart (archives)")
    parser.add_argument("--bits", type=int, default=8, help="bits of each byte, but for files: 1")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", SkippedRecordWarning)
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.lcc"
        save_all(path)
        expected = {step: content(codec.restore(path, step)) for step in range(NEWEST + 1)}
        unnoticed = 0
        for file in sorted(path.glob("*.safetensors")):
            unnoticed += of_record(file.read_bytes(), file.name, options, rng)
        unnoticed += of_files(path, expected, options.files, rng)
        archive = path.with_name("run.lcc.zip")
        codec.Chain(path).pack(archive)
        unnoticed += of_archive(archive.read_bytes(), expected, options, rng)
    return unnoticed


def save_all(path: Path) -> None:
    """The chain."""
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(30, 12)).astype(np.float32), np.zeros(12, np.float32)
    moments = {"step": np.array(0, np.float32), "exp_avg": rng.normal(size=40).astype(np.float32)}
    with codec.Checkpointer(path, bits=3, base_every=3) as checkpoints:
        for step in range(NEWEST + 1):
            w = w + (rng.normal(size=w.shape) * 0.01).astype(np.float32)
            b = b + (rng.normal(size=12) * 0.1).astype(np.float32)
            moments = {k: (a + 1).astype(np.float32) for k, a in moments.items()}
            model = {"w": w, "b": b, "tied": w}
            state: dict[str, Any] = {
                "model": model,
                "optimizer": {"state": {0: moments}, "lr": 0.1 / 2**step},
                "epoch": step,
                "rng": b"\xff\0" * 9 + bytes([step]),
                "big": 2**70 + step,
                "log": [np.float32(i / 3) for i in range(6 + step)],
            }
            if step > 2:
                state["ids"] = np.arange(5) + step
            checkpoints.save(step, state)
    kinds = [entry.kind[0] for entry in codec.Chain(path).entries]
    assert kinds == ["b", "d", "d", "d", "b", "d"], kinds


def content(state: Any) -> Any:
    """A state with the bytes of its arrays; which of them are one shows too."""
    numbers_of: dict[int, int] = {}

    def noted(value: Any) -> Any:
        if isinstance(value, dict):
            return [type(value).__name__, [(k, noted(v)) for k, v in value.items()]]
        if isinstance(value, list | tuple):
            return [type(value).__name__, [noted(v) for v in value]]
        if isinstance(value, np.generic):
            return value.dtype.str, value.tobytes()
        if isinstance(value, np.ndarray):
            number = numbers_of.setdefault(id(value), len(numbers_of))
            return number, value.dtype.str, value.shape, value.tobytes()
        return type(value).__name__, repr(value)

    return noted(state)


def flips(data: bytes, apart: int, bits: int, rng: random.Random) -> Iterator[bytes]:
    """With one bit changed each, some of every such byte."""
    damaged = bytearray(data)
    for at in range(rng.randrange(apart), len(data), apart):
        for bit in rng.sample(range(8), bits):
            damaged[at] ^= 1 << bit
            yield bytes(damaged)
            damaged[at] ^= 1 << bit


def cuts(data: bytes, apart: int) -> Iterator[bytes]:
    """Beginnings, and what has a byte more."""
    yield from (data[:length] for length in range(0, len(data), apart))
    yield from (data + b"\0", data + b" ", data + data)


def of_record(data: bytes, name: str, options: argparse.Namespace, rng: random.Random) -> int:
    """In memory: each must be refused by name when its bytes are checked."""
    met: Counter[str] = Counter()
    for kind, damage in (
        ("bits", flips(data, options.every, options.bits, rng)),
        ("lengths", cuts(data, options.every)),
    ):
        for damaged in damage:
            met[kind] += 1
            try:
                records.load(damaged, name)
                met["unnoticed"] += 1
            except codec.RecordError:
                met["refused"] += 1
    print(f"{name}: {met['bits']} bits and {met['lengths']} lengths, {met['unnoticed']} unnoticed")
    return met["unnoticed"]


def of_files(path: Path, expected: dict[int, Any], apart: int, rng: random.Random) -> int:
    """On disk: `verify` tells of it, and what is restored is right, though it may be older."""
    met: Counter[str] = Counter()
    for file in sorted(path.glob("*.safetensors")):
        step, data = int(file.name[:8]), file.read_bytes()
        for damage in (flips(data, apart, 1, rng), cuts(data, 8 * apart)):
            for damaged in damage:
                met["files"] += 1
                file.write_bytes(damaged)
                report = codec.verify(path)
                noted = not report.ok and any(p.startswith(file.name) for p in report.problems)
                noted = noted and step not in report.steps
                try:
                    codec.restore(path, step)
                    noted = False
                except codec.LccError:
                    pass
                restored = content(codec.restore(path))
                got = next((s for s, c in expected.items() if c == restored), None)
                right = NEWEST if step < 4 else step - 1  # what stands before a base is not read
                if not noted or got != right:
                    met["unnoticed"] += 1
                    print(f"UNNOTICED in {file.name}: {report}, restored {got}")
        file.write_bytes(data)
    assert codec.verify(path).ok
    print(f"files: {met['files']} damaged, {met['unnoticed']} unnoticed")
    return met["unnoticed"]


def of_archive(
    data: bytes, expected: dict[int, Any], options: argparse.Namespace, rng: random.Random
) -> int:
    """Refused, or told of by `verify`, or harmless."""
    met: Counter[str] = Counter()
    apart, bits = options.archive, options.bits
    directory = data.index(b"PK\x01\x02")
    for first, part in ((0, data[:directory]), (directory, data[directory:])):
        step = apart if first == 0 else max(apart // 16, 1)
        for damaged in flips(part, step, bits, rng):
            met["bits"] += 1
            whole = data[:first] + damaged + data[first + len(part) :]
            met[of_one_archive(whole, expected, met["bits"])] += 1
    for damaged in cuts(data, apart):
        met["lengths"] += 1
        met[of_one_archive(damaged, expected, -met["lengths"])] += 1
    noted = ", ".join(f"{met[kind]} {kind}" for kind in ("noticed", "harmless", "UNNOTICED"))
    print(f"archive: {met['bits']} bits and {met['lengths']} lengths, {noted}")
    return met["UNNOTICED"]


def of_one_archive(data: bytes, expected: dict[int, Any], number: int) -> str:
    """What became of it."""
    try:
        report = codec.verify(io.BytesIO(data))
        if report.problems:
            wrong = {
                s
                for s in report.steps
                if content(codec.restore(io.BytesIO(data), s)) != expected[s]
            }
            assert not wrong, wrong
            return "noticed"
        restored = {s: content(codec.restore(io.BytesIO(data), s)) for s in report.steps}
    except (ArchiveError, ChainNotFoundError):
        return "noticed"
    if restored == expected:
        return "harmless"
    print(f"UNNOTICED in the archive, number {number}: {report}")
    return "UNNOTICED"


if __name__ == "__main__":
    sys.exit(min(main(), 1))
