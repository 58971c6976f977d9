"""Several processes at one chain, and clocks that go backwards.

    PYTHONPATH=. python tests/faults/writers.py

Two writers that begin at the same time: one gets the chain, the other a LockedError; a holder that
is killed lets go. A reader that restores, verifies and packs all the time while another process
saves: it never sees an error, and what it restores is what was saved, to the last bit. And a chain
that is written while the clock jumps, its files' dates changed: the same bytes as ever.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import select
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from common import MEMORY, chain_of, check_told, digest_of, saves, state_of

import codec
from codec.errors import SkippedRecordWarning

EVERY = 20  # steps, at most, to each read beside them


def main(arguments: list[str] | None = None) -> int:
    """Run everything; returns how many times something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="of two writers")
    parser.add_argument("--steps", type=int, default=2000, help="saved beside a reader")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    warnings.simplefilter("error", SkippedRecordWarning)
    codec.warm_up()
    rng, met = random.Random(options.seed), Counter[str]()
    for work in (
        lambda: two_writers(options.rounds, met),
        lambda: a_reader_beside_a_writer(options.steps, met),
        lambda: clocks(rng, met),
    ):
        try:
            work()
        except Exception as exc:
            met["WRONG"] += 1
            print(f"WRONG: {type(exc).__name__}: {exc}")
    print(", ".join(f"{n} {what}" for what, n in sorted(met.items())))
    return met["WRONG"]


def two_writers(rounds: int, met: Counter[str]) -> None:
    """They race for a chain; who gets it saves, is killed, and the next round goes on."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.lcc"
        noted: dict[int, str] = {}
        for number in range(rounds):
            go_reading, go_writing = os.pipe()
            pair = [racer(path, number, go_reading, go_writing) for _ in range(2)]
            os.close(go_reading)
            os.close(go_writing)  # both begin when nobody holds the other end
            lines = [os.read(reading, 200).decode().split() for _, reading in pair]
            for child, reading in pair:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                os.close(reading)
            kinds = sorted(line[0] for line in lines)
            assert kinds == ["LockedError", "saved"], kinds
            noted |= {int(line[1]): line[2] for line in lines if line[0] == "saved"}
            met["rounds of two writers"] += 1
        check_told(path, noted)
        report = codec.verify(path)
        assert (report.problems, report.steps) == ((), tuple(range(rounds)))


def racer(path: Path, step: int, go_reading: int, go_writing: int) -> tuple[int, int]:
    """A process that waits for the start, opens the chain, saves a step, and stays."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    os.close(go_writing)
    os.read(go_reading, 1)
    try:
        checkpoints = codec.Checkpointer(path, resume=True)
        ((_, digest),) = saves(checkpoints, range(step, step + 1))
        noted = f"saved {step} {digest}"
    except Exception as exc:
        noted = type(exc).__name__
    os.write(writing, noted.encode())
    while True:
        signal.pause()


def a_reader_beside_a_writer(steps: int, met: Counter[str]) -> None:
    """What is read at any time was saved before, and is whole."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.lcc"
        with codec.Checkpointer(path) as checkpoints:
            expected = dict(saves(checkpoints, range(1)))
        reading, writing = os.pipe()
        wait, go_on = os.pipe()  # a byte for each read that has ended
        child = os.fork()
        if child == 0:
            os.close(go_on)
            with codec.Checkpointer(path, resume=True) as checkpoints:
                for step, digest in saves(checkpoints, range(1, steps)):
                    os.write(writing, f"{step} {digest}\n".encode())
                    if step % EVERY == 0:  # or it might end before the first read
                        os.read(wait, 1)
            os._exit(0)
        os.close(writing)
        try:
            read_beside(path, child, reading, go_on, expected, met)
        finally:
            os.close(reading)
            os.close(wait)
            os.close(go_on)
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)  # if it has not ended by itself
                os.waitpid(child, 0)
        met["steps saved beside a reader"] += steps - 1


def read_beside(
    path: Path, child: int, reading: int, go_on: int, expected: dict[int, str], met: Counter[str]
) -> None:
    """Until the process that saves has ended, which lets each read end after EVERY steps."""
    seen: dict[int, str] = {}
    ended, rest, number = 0, b"", 0
    os.set_blocking(go_on, False)
    while not ended:
        ended, status = os.waitpid(child, os.WNOHANG)
        rest += os.read(reading, 2**20) if told_more(reading) else b""
        *lines, rest = rest.split(b"\n")
        expected |= {int(step): digest.decode() for step, digest in map(bytes.split, lines)}
        chain = codec.Chain(path)
        assert chain.steps == tuple(range(chain.steps[-1] + 1)), "a step is missing"
        *_, position = chain.replay()
        newest, least = position.entry.step, max(expected)
        assert newest >= least, f"{newest} was read after {least} had been saved"
        seen[newest] = digest_of(position.track.arrays)
        restored = codec.restore(path)
        assert restored["step"] >= newest
        wanted = state_of(restored["step"])["exact"].tobytes()
        assert restored["exact"].tobytes() == wanted
        number += 1
        if number % 20 == 1:
            report = codec.verify(path)
            assert report.ok, report.problems
            file = path.with_name("run.lcc.zip")
            codec.Chain(path).pack(file)
            assert codec.verify(io.BytesIO(file.read_bytes())).ok
        met["reads beside a writer"] += 1
        with contextlib.suppress(BlockingIOError):  # more than enough of them are there
            os.write(go_on, b".")
    assert os.waitstatus_to_exitcode(status) == 0, "the writer failed"
    while told_more(reading) and (more := os.read(reading, 2**20)):
        rest += more
    expected |= {int(s): d.decode() for s, d in map(bytes.split, rest.splitlines())}
    wrong = [step for step, digest in seen.items() if expected[step] != digest]
    assert not wrong, f"steps {wrong} were not read as they were saved"


def told_more(reading: int) -> bool:
    """Whether there is anything to read."""
    return bool(select.select([reading], [], [], 0)[0])


def clocks(rng: random.Random, met: Counter[str]) -> None:
    """Time goes backwards or stands still, and files are of any date."""
    real = time.time, time.time_ns
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        usual, odd = Path(folder) / "usual.lcc", Path(folder) / "odd.lcc"
        noted = chain_of(usual, 9)
        codec.Chain(usual).pack(Path(folder) / "usual.lcc.zip")
        now = 4e9
        try:
            for step in range(9):
                now -= rng.choice([0.0, 1.0, 1e5, 3e8])
                time.time, time.time_ns = lambda: now, lambda: int(now * 1e9)  # noqa: B023
                with codec.Checkpointer(odd, bits=2, resume=True) as checkpoints:
                    assert dict(saves(checkpoints, range(step, step + 1))) == {step: noted[step]}
                for file in [*odd.iterdir(), odd]:
                    date = rng.choice([0, 1, 2**31, 2**32, rng.randrange(2**33)])
                    os.utime(file, (date, date))
                check_told(odd, {s: noted[s] for s in range(step + 1)})
                assert codec.verify(odd).ok
                met["steps of a clock that jumps"] += 1
            codec.Chain(odd).pack(Path(folder) / "odd.lcc.zip")
        finally:
            time.time, time.time_ns = real
        for file in usual.glob("*.safetensors"):
            assert file.read_bytes() == (odd / file.name).read_bytes(), file.name
        one, two = ((Path(folder) / f"{n}.lcc.zip").read_bytes() for n in ("usual", "odd"))
        assert one == two, "archives differ"
        with zipfile.ZipFile(io.BytesIO(one)) as archive:
            dates: set[Any] = {info.date_time for info in archive.infolist()}
        assert dates == {(1980, 1, 1, 0, 0, 0)}


if __name__ == "__main__":
    sys.exit(min(main(), 1))
