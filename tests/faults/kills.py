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
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from common import (
    STEPS,
    Calls,
    Child,
    Tell,
    attempt,
    check_told,
    digest_of,
    in_words,
    new_path,
    options_of,
    saves,
    state_of,
)

import codec

KEPT = 3  # steps
SETTINGS: dict[str, dict[str, Any]] = {"new": {}, "old": {"keep_steps": KEPT, "base_every": 2}}
LIFETIME = 0.03  # seconds, about, of a process that is not killed

CallsOf = Callable[[str], tuple[list[str], set[int]]]
Kill = Callable[[str, "Trap | None", random.Random, Counter[str]], bool]


def main(arguments: list[str] | None = None) -> int:
    """Run all kills; returns how many missed their call, or lost something."""
    codec.warm_up()
    return kill_all(__doc__, arguments, SETTINGS, calls_of, one_kill)


def kill_all(
    doc: str | None,
    arguments: list[str] | None,
    chains: Iterable[str],
    calls_of: CallsOf,
    kill: Kill,
) -> int:
    """Kill at each call that is made of a chain, then at random times; returns how many kills
    missed their call, or lost something."""
    options = options_of(
        doc,
        arguments,
        random=(100, "kills at random times"),
        every=(1, "plan a kill only at every Nth call"),
        seed=(0, "of the random times"),
    )
    rng, met, calls = random.Random(options.seed), Counter[str](), Counter[str]()
    planned: list[tuple[str, Trap]] = []
    for chain in chains:
        names, succeed = calls_of(chain)
        calls.update(names)
        planned += [(chain, Trap("before", n, name)) for n, name in enumerate(names)]
        planned += [(chain, Trap("after", n, names[n])) for n in sorted(succeed)]
    for chain, trap in planned[:: options.every]:
        met["planned"] += 1
        if kill(chain, trap, rng, met):
            met["reached"] += 1
        else:
            print(f"MISSED: {trap}, chain: {chain}")
    for _ in range(options.random):
        kill(rng.choice([*chains]), None, rng, met)
    print(in_words(calls), "calls")
    print(in_words(met))
    return met["WRONG"] + met["planned"] - met["reached"]


def calls_of(chain: str) -> tuple[list[str], set[int]]:
    """What a process that is not killed calls, in order; and after which of them it could be: not
    after mkdir of what is there, say, which fails."""
    with new_path() as path:
        names, succeed = list[str](), set[int]()
        begin(path, chain)
        with Calls(names.append, lambda _name: succeed.add(len(names) - 1)):
            work(path, lambda *_: None, chain)
        return names, succeed


class Trap:
    """Kills its own process before or after call ``number``, counted over all that write."""

    def __init__(self, when: str, number: int, name: str) -> None:
        self.when, self.number, self.name = when, number, name

    def __repr__(self) -> str:
        return f"{self.when} call {self.number}, {self.name}"

    def before(self, name: str) -> None:
        """To be called before each call."""
        self.number -= 1
        if self.number == -1 and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)

    def after(self, name: str) -> None:
        """To be called after each call."""
        if self.number == -1:
            os.kill(os.getpid(), signal.SIGKILL)


def one_kill(chain: str, trap: Trap | None, rng: random.Random, met: Counter[str]) -> bool:
    """Save, be killed, look. Returns whether the process was killed; without a trap at a random
    time."""
    with new_path() as path:
        noted = begin(path, chain)
        child = Child(lambda tell: trapped(trap, path, tell, chain))
        follower, followed = codec.Follower(path), dict[int, str]()
        limit = float("inf") if trap else time.monotonic() + rng.uniform(0, LIFETIME)
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
        with attempt(met, trap, f"chain: {chain}"):
            follow(follower, followed)
            met["steps followed"] += len(followed)
            assert not noted or (follower.step or 0) >= max(noted), "the follower is behind"
            wrong = [step for step in followed if followed[step] != noted.get(step, followed[step])]
            assert not wrong, f"the follower had another state of {wrong}"
            check(path, noted, chain)
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


def begin(path: Path, chain: str) -> dict[int, str]:
    """Save what the process goes on from, nothing if it is new: step -> digest of its track."""
    if chain == "new":
        return {}
    with codec.Checkpointer(path, bits=2) as checkpoints:
        return dict(saves(checkpoints, range(2)))


def work(path: Path, tell: Tell, chain: str) -> None:
    """What the process does."""
    with codec.Checkpointer(path, bits=2, resume=True, **SETTINGS[chain]) as checkpoints:
        first = 0 if checkpoints.step is None else checkpoints.step + 1
        for step, digest in saves(checkpoints, range(first, first + STEPS)):
            tell(step, digest)


def trapped(trap: Trap | None, path: Path, tell: Tell, chain: str) -> None:
    """Do `work` with a trap that stays: the process is killed in it, or ends."""
    if trap:
        Calls(trap.before, trap.after).__enter__()
    work(path, tell, chain)


def check(path: Path, noted: dict[int, str], chain: str) -> None:
    """Raise unless the steps to keep restore as they were told of, and the chain can go on."""
    if chain == "old":
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
