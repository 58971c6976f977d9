"""Several processes at one chain, and clocks that go backwards.

    PYTHONPATH=. python tests/faults/writers.py

Two writers that begin at the same time: one gets the chain, the other a LockedError; a holder that
is killed lets go. A reader that restores, verifies and packs all the time while another process
saves: it never sees an error, and what it restores is what was saved, to the last bit. And a chain
that is written while the clock jumps, its files' dates changed: the same bytes as ever.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from common import (
    Child,
    Tell,
    attempt,
    chain_of,
    check_told,
    digest_of,
    in_words,
    new_path,
    options_of,
    saves,
    state_of,
)

import codec
from codec.errors import SkippedRecordWarning

EVERY = 20  # steps, at most, to each read beside them


def main(arguments: list[str] | None = None) -> int:
    """Run everything; returns how many times something was wrong."""
    options = options_of(
        __doc__,
        arguments,
        rounds=(200, "of two writers"),
        steps=(2000, "saved beside a reader"),
        seed=(0, "of the clocks"),
    )
    warnings.simplefilter("error", SkippedRecordWarning)
    codec.warm_up()
    rng, met = random.Random(options.seed), Counter[str]()
    for work in (
        lambda: two_writers(options.rounds, met),
        lambda: a_reader_beside_a_writer(options.steps, met),
        lambda: clocks(rng, met),
    ):
        with attempt(met):
            work()
    print(in_words(met))
    return met["WRONG"]


def two_writers(rounds: int, met: Counter[str]) -> None:
    """They race for a chain; who gets it saves, is killed, and the next round goes on."""
    with new_path() as path:
        noted: dict[int, str] = {}
        for number in range(rounds):
            reading, writing = os.pipe()

            def race(tell: Tell, reading: int = reading, writing: int = writing) -> None:
                """Wait for the start, open the chain, save a step, and stay."""
                os.close(writing)
                os.read(reading, 1)
                try:
                    with codec.Checkpointer(path, resume=True) as checkpoints:
                        ((step, digest),) = saves(checkpoints, range(number, number + 1))  # noqa: B023
                        tell("saved", step, digest)
                        signal.pause()
                except codec.ChainError as exc:
                    tell(type(exc).__name__)
                    signal.pause()

            pair = [Child(race), Child(race)]
            os.close(reading)
            os.close(writing)  # both begin when nobody holds the other end
            lines = [child.lines(wait=True)[0].split() for child in pair]
            for child in pair:
                child.kill()
                child.code()
            kinds = sorted(line[0] for line in lines)
            assert kinds == ["LockedError", "saved"], kinds
            noted |= {int(line[1]): line[2] for line in lines if line[0] == "saved"}
            met["rounds of two writers"] += 1
        check_told(path, noted)
        report = codec.verify(path)
        assert (report.problems, report.steps) == ((), tuple(range(rounds)))


def a_reader_beside_a_writer(steps: int, met: Counter[str]) -> None:
    """What is read at any time was saved before, and is whole."""
    with new_path() as path:
        with codec.Checkpointer(path) as checkpoints:
            expected = dict(saves(checkpoints, range(1)))
        wait, go_on = os.pipe()  # a byte for each read that has ended

        def save(tell: Tell) -> None:
            os.close(go_on)
            with codec.Checkpointer(path, resume=True) as checkpoints:
                for step, digest in saves(checkpoints, range(1, steps)):
                    tell(step, digest)
                    if step % EVERY == 0:  # or it might end before the first read
                        os.read(wait, 1)

        child = Child(save)
        try:
            read_beside(path, child, go_on, expected, met)
        finally:
            os.close(wait)
            os.close(go_on)
            child.kill()  # if it has not ended by itself
            code = child.code()
        assert code == 0, "the writer failed"
        met["steps saved beside a reader"] += steps - 1


def read_beside(
    path: Path, child: Child, go_on: int, expected: dict[int, str], met: Counter[str]
) -> None:
    """Until the process that saves has ended, which lets each read end after EVERY steps."""
    seen: dict[int, str] = {}
    os.set_blocking(go_on, False)
    number, has_ended = 0, False
    while not has_ended:
        has_ended = child.has_ended()
        expected |= {int(step): digest for step, digest in map(str.split, child.lines())}
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
    wrong = [step for step, digest in seen.items() if expected[step] != digest]
    assert not wrong, f"steps {wrong} were not read as they were saved"


def clocks(rng: random.Random, met: Counter[str]) -> None:
    """Time goes backwards or stands still, and files are of any date."""
    real = time.time, time.time_ns
    with new_path() as usual:
        odd = usual.with_name("odd.lcc")
        noted = chain_of(usual, 9)
        zips = [path.with_suffix(".zip") for path in (usual, odd)]
        codec.Chain(usual).pack(zips[0])
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
            codec.Chain(odd).pack(zips[1])
        finally:
            time.time, time.time_ns = real
        for file in usual.glob("*.safetensors"):
            assert file.read_bytes() == (odd / file.name).read_bytes(), file.name
        one, two = map(Path.read_bytes, zips)
        assert one == two, "archives differ"
        with zipfile.ZipFile(io.BytesIO(one)) as archive:
            dates: set[Any] = {info.date_time for info in archive.infolist()}
        assert dates == {(1980, 1, 1, 0, 0, 0)}


if __name__ == "__main__":
    sys.exit(min(main(), 1))
