"""Kill a process that saves, at every call to the file system and at random times.

    PYTHONPATH=. python tests/faults/kills.py --random 400

Each time a process of its own saves states into a chain and tells, once `save` has returned, which
step that was and the digest of its track. It is killed (SIGKILL) before or after one of its calls
to the file system: one that is not killed names them all first, and each must then be reached. Or
it is killed at a random time, which may be too late. Then everything that was told must restore to
the last bit, and the chain must go on. Of a chain that had records before, three steps are kept,
and records are removed meanwhile. Meanwhile a follower reads the chain: no state of it may be
another one than was told, and in the end it must be as far as the chain.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from common import (
    MEMORY,
    STEPS,
    Calls,
    Child,
    Tell,
    attempt,
    check_told,
    digest_of,
    in_words,
    options_of,
    saves,
    state_of,
)

import codec

KEPT = 3  # steps
RESUMED: dict[bool, dict[str, int]] = {False: {}, True: {"keep_steps": KEPT, "base_every": 2}}
LIFETIME = 0.03  # seconds, about, of a process that is not killed


def main(arguments: list[str] | None = None) -> int:
    """Run all kills; returns how many missed their call, or lost something."""
    options = options_of(
        __doc__,
        arguments,
        random=(100, "kills at random times"),
        every=(1, "of so many calls one is planned"),
        seed=(0, "of the random times"),
    )
    codec.warm_up()
    rng = random.Random(options.seed)
    met: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for resumed in (False, True):
        names, succeed = calls_of(resumed)
        calls.update(names)
        for trap in traps(names, succeed, options.every):
            met["planned"] += 1
            place = f"{trap.when} call {trap.number}, {names[trap.number]}"
            if one_kill(resumed, trap, None, met):
                met["reached"] += 1
            else:
                print(f"MISSED: {place}, resumed: {resumed}")
    for _ in range(options.random):
        one_kill(rng.random() < 0.5, None, rng.uniform(0, LIFETIME), met)
    print(in_words(calls), "calls")
    print(in_words(met))
    return met["WRONG"] + met["planned"] - met["reached"]


def calls_of(resumed: bool) -> tuple[list[str], set[int]]:
    """What a process that is not killed calls, in order; and after which of them it could be: not
    after mkdir of what is there, say, which fails."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        names: list[str] = []
        succeed: set[int] = set()
        path = Path(folder) / "run.lcc"
        if resumed:
            begin(path)
        with Calls(names.append, lambda _name: succeed.add(len(names) - 1)):
            work(path, lambda *_: None, resumed)
        return names, succeed


class Trap:
    """Kills its own process before or after call ``number``, counted over all that write."""

    def __init__(self, when: str, number: int) -> None:
        self.when, self.number = when, number

    def before(self, name: str) -> None:
        """To be called before each call."""
        self.number -= 1
        if self.number == -1 and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)

    def after(self, name: str) -> None:
        """To be called after each call."""
        if self.number == -1:
            os.kill(os.getpid(), signal.SIGKILL)


def traps(names: list[str], succeed: set[int], share: int) -> list[Trap]:
    """For a share of these calls. Of two calls one is reached before and the other one after it,
    where the share is 2."""
    before, after = range(len(names)), sorted(succeed)
    return [
        *(Trap("before", number) for number in before[::share]),
        *(Trap("after", number) for number in after[share - 1 :: share]),
    ]


def one_kill(resumed: bool, trap: Trap | None, seconds: float | None, met: Counter[str]) -> bool:
    """Save, be killed, look. Returns whether the process was killed.

    resumed: the chain had records before. trap, seconds: when it is killed.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.lcc"
        noted: dict[int, str] = {}
        if resumed:
            noted |= begin(path)
        child = Child(lambda tell: trapped(trap, path, tell, resumed))
        follower, followed = codec.Follower(path), dict[int, str]()
        limit = float("inf") if seconds is None else time.monotonic() + seconds
        while not child.has_ended():
            follow(follower, followed)
            if time.monotonic() >= limit:
                child.kill()
                limit = float("inf")
        noted |= {int(step): digest for step, digest in map(str.split, child.lines())}
        code = child.code()
        assert code in (0, -signal.SIGKILL), "the process that saves failed"
        met["killed" if code else "not killed in time"] += 1
        met["steps told"] += len(noted)
        with attempt(met, trap and vars(trap), seconds):
            follow(follower, followed)
            met["steps followed"] += len(followed)
            assert not noted or (follower.step or 0) >= max(noted), "the follower is behind"
            wrong = [step for step in followed if followed[step] != noted.get(step, followed[step])]
            assert not wrong, f"the follower had another state of {wrong}"
            check(path, noted, resumed)
            follow(follower, followed)
            assert follower.step == 1000
            assert followed[1000] == digest_of(codec.Chain(path).at(1000).track.arrays)
        return code != 0


def follow(follower: codec.Follower, followed: dict[int, str]) -> None:
    """Note the newest step and the digest of its track."""
    try:
        update = follower.update()
    except codec.errors.ChainNotFoundError:
        return
    if update is not None:
        followed[update.step] = digest_of(update.position.track.arrays)


def begin(path: Path) -> dict[int, str]:
    """A chain that the process is to go on with; its steps and the digests of their tracks."""
    with codec.Checkpointer(path, bits=2) as checkpoints:
        return dict(saves(checkpoints, range(2)))


def work(path: Path, tell: Tell, resumed: bool) -> None:
    """What the process does."""
    with codec.Checkpointer(path, bits=2, resume=True, **RESUMED[resumed]) as checkpoints:
        first = 0 if checkpoints.step is None else checkpoints.step + 1
        for step, digest in saves(checkpoints, range(first, first + STEPS)):
            tell(step, digest)


def trapped(trap: Trap | None, path: Path, tell: Tell, resumed: bool) -> None:
    """The same in a process with a trap, which has no way out of it."""
    if trap:
        Calls(trap.before, trap.after).__enter__()
    work(path, tell, resumed)


def check(path: Path, noted: dict[int, str], resumed: bool) -> None:
    """Raise unless the steps to keep restore as they were told of, and the chain can go on."""
    if resumed:
        steps = codec.Chain(path).steps
        assert len(steps) >= min(KEPT, len(noted)), "steps were removed that had to stay"
        noted = {step: digest for step, digest in noted.items() if step >= steps[-KEPT:][0]}
    if noted:
        check_told(path, noted)
        assert codec.verify(path).ok, codec.verify(path).problems
    with codec.Checkpointer(path, bits=2, resume=True) as checkpoints:
        assert not noted or (checkpoints.step or 0) >= max(noted)
        checkpoints.save(1000, state_of(0))
    report = codec.verify(path)
    assert report.ok, report.problems
    assert set(noted) <= set(report.steps)
    assert not list(path.glob(".lcc-*")), "a temporary file was left behind"


if __name__ == "__main__":
    sys.exit(min(main(), 1))
