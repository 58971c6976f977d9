"""Kill processes that save into an object store, follow a chain there, and read it.

    PYTHONPATH=. python tests/faults/store_kills.py --random 150

Each round has a new chain in an S3 server. A writer saves, tells each step once `save` has
returned, removes old bases, and compacts in the end. Meanwhile a follower and a reader look at the
chain again and again. The writer is killed (SIGKILL) before or after one of its requests that
write, and each of these must be reached; or at a random time, which may be too late. Follower and
reader are killed at random times too, each in one of two rounds, and others take their place.

Then a new writer takes the chain over. What anybody has seen must restore to the last bit, unless
it was to be removed, and nobody may have seen another state of a step. In the end the follower and
the reader must be at the step of the new writer.

All these processes are forks of one that opens no file system: what fsspec runs in a thread does
not survive a fork.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import fsspec
import s3fs  # noqa: F401  # or each fork would import it
from common import STEPS, Child, Tell, Told, attempt, check_told, digest_of, state_of
from kills import Trap, kill_all

import codec
from codec.errors import ChainNotFoundError, SkippedRecordWarning
from codec.storage.remote import Remote
from tests import s3

BEGINNINGS = ("none", "closed", "abandoned")  # the chain that a writer finds
KEPT = 3  # steps
LAST = 1000  # the step of the writer that takes over
LIFETIME = 1.3  # seconds, about, of a writer that is not killed, beside the others
PATIENCE = 120.0  # seconds that a round waits for any process
WRITES = ("put", "create", "copy", "remove")  # methods of Remote

_numbers = itertools.count()  # of rounds
Act = Callable[[str, Tell], None]


def main(arguments: list[str] | None = None) -> int:
    """Run all rounds; returns how often a call was missed, or something was lost or wrong."""
    codec.warm_up()
    gc.freeze()  # else each fork would copy what its garbage collector looks at
    logging.getLogger("codec").setLevel(logging.ERROR)
    warnings.simplefilter("error", SkippedRecordWarning)
    with s3.server() as port:
        os.environ.update(s3.environment(port))
        return kill_all(__doc__, arguments, BEGINNINGS, calls_of, one_round)


def calls_of(beginning: str) -> tuple[list[str], set[int]]:
    """Which writing requests a writer makes, in order; and after which of them it can be killed."""

    def noted(url: str, tell: Tell) -> None:
        note_writes(lambda name: tell("call", name), lambda _name: tell("success"))
        work(url, lambda *_: None)

    names, succeed = list[str](), set[int]()
    with Round(beginning, Counter()) as this:
        this.start("writer", noted)
        this.await_end("writer")
        for word, *rest in this.other_lines:
            names += rest
            if word == "success":
                succeed.add(len(names) - 1)
    return names, succeed


def note_writes(before: Told, after: Told) -> None:
    """From now on, have each request of this process that writes told of by its name."""

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def request(*given: Any, **options: Any) -> Any:
            before(name)
            result = call(*given, **options)
            after(name)
            return result

        return request

    for name in WRITES:
        setattr(Remote, name, noted(name, getattr(Remote, name)))


def one_round(beginning: str, trap: Trap | None, rng: random.Random, met: Counter[str]) -> bool:
    """Save, follow, read; be killed; look. Returns whether the writer was killed.

    beginning: the chain that it finds. trap: for the writer; without one it is killed at a random
    time.
    """

    def trapped(url: str, tell: Tell) -> None:
        if trap:
            note_writes(trap.before, trap.after)
        work(url, tell)

    before = met["writers killed"]
    with attempt(met, trap, f"chain: {beginning}"), Round(beginning, met) as this:
        this.start("writer", trapped, None if trap else rng.uniform(0, LIFETIME))
        for kind, act in WATCHERS.items():
            this.start(kind, act, rng.choice([None, rng.uniform(0, LIFETIME)]))
        this.await_end("writer")
        seen = dict(this.seen)
        this.start("successor", lambda url, tell: take_over(url, seen, tell))
        this.await_end("successor", *WATCHERS)
    killed = met["writers killed"] > before
    met["writers not killed in time"] += not killed
    return killed


class Round:
    """Processes at one chain, and what they have told of it.

    Attributes:
        seen: Step -> digest of its track.
        other_lines: What was told of something else, as words.
    """

    def __init__(self, beginning: str, met: Counter[str]) -> None:
        self.url = f"s3://bucket-{next(_numbers)}/run.lcc"
        self.seen: dict[int, str] = {}
        self.other_lines: list[list[str]] = []
        self._beginning, self._met = beginning, met
        self._running: list[Process] = []

    def __enter__(self) -> Round:
        self.start("beginner", lambda url, tell: begin(url, self._beginning, tell))
        self.await_end("beginner")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.code()

    def start(self, kind: str, act: Act, life: float | None = None) -> None:
        """Let a process do this; see `Process`."""
        self._running.append(Process(kind, act, self.url, life))

    def await_end(self, *kinds: str) -> None:
        """Until no process of these kinds runs.

        Raises AssertionError for what a process has found, or if two have seen different states.
        """
        limit = time.monotonic() + PATIENCE
        while late := {p.kind for p in self._running} & {*kinds}:
            assert time.monotonic() < limit, f"after {PATIENCE} s there is still a {late}"
            for process in list(self._running):
                self._attend(process)
            time.sleep(0.002)

    def _attend(self, process: Process) -> None:
        """Hear it, kill it if it is time to, and replace it if it was to go on."""
        has_ended = process.has_ended()
        for line in process.news():
            self._hear(process.kind, line.split())
        if not has_ended:
            process.end_life()
            return
        self._running.remove(process)
        code = process.code()
        if code == -signal.SIGKILL:
            self._met[f"{process.kind}s killed"] += 1
            if process.kind in WATCHERS:
                self.start(process.kind, WATCHERS[process.kind])
        assert code in (0, -signal.SIGKILL), f"the {process.kind} ended with code {code}"

    def _hear(self, kind: str, words: list[str]) -> None:
        if not words[0].isdigit():
            self.other_lines.append(words)
            return
        step, digest = int(words[0]), words[1]
        assert self.seen.setdefault(step, digest) == digest, f"{kind}: another state of step {step}"
        self._met[f"steps {DID.get(kind, 'told')}"] += 1


class Process(Child):
    """Does something with a chain.

    life: seconds, from when it has reached the store until it is killed; None for never.
    """

    def __init__(self, kind: str, act: Act, url: str, life: float | None) -> None:
        def reach_and_act(tell: Tell) -> None:
            fsspec.filesystem("s3").exists(url.rpartition("/")[0])  # the first request is slow
            tell("ready")
            act(url, tell)

        self.kind = kind
        self._life, self._until = life, float("inf")
        super().__init__(reach_and_act)

    def news(self) -> list[str]:
        """The new lines, without that it has reached the store."""
        lines = self.lines()
        if "ready" in lines and self._life is not None:
            self._until = time.monotonic() + self._life
        return [line for line in lines if line != "ready"]

    def end_life(self) -> None:
        """Kill it if it is time to."""
        if time.monotonic() >= self._until:
            self.kill()


def begin(url: str, beginning: str, tell: Tell) -> None:
    """Make the bucket, and the chain that the writer is to find."""
    fsspec.filesystem("s3").mkdir(url.rpartition("/")[0])
    if beginning != "none":
        checkpoints = codec.Checkpointer(url, bits=2)
        save(checkpoints, range(2), tell)
        if beginning == "closed":
            checkpoints.close()


def work(url: str, tell: Tell) -> None:
    """What the writer does."""
    with codec.Checkpointer(url, 2, keep_steps=KEPT, base_every=2, resume=True) as checkpoints:
        first = 0 if checkpoints.step is None else checkpoints.step + 1
        save(checkpoints, range(first, first + STEPS), tell)
    codec.compact(url, KEPT)


def save(checkpoints: codec.Checkpointer, steps: Iterable[int], tell: Tell) -> None:
    """Save these steps; tell each once that is done."""
    for step in steps:
        saved = checkpoints.save(step, state_of(step))
        assert checkpoints.tracker is not None
        tell(step, digest_of(checkpoints.tracker.state), saved.kind)


def follow(url: str, tell: Tell) -> None:
    """Tell each step that a follower is at, until the last one."""
    follower = codec.Follower(url)
    while follower.step != LAST:
        with suppress(ChainNotFoundError):
            if update := follower.update():
                tell(update.step, digest_of(update.position.track.arrays))


def read(url: str, tell: Tell) -> None:
    """Tell the steps since the last base, restore, verify; until the last step is there."""
    newest = -1
    while newest < LAST:
        with suppress(ChainNotFoundError):
            for position in codec.Chain(url).replay():
                tell(position.step, digest_of(position.track.arrays))
            restored = codec.restore(url)
            assert restored["step"] >= position.step >= newest, "an older step was read"
            assert restored["exact"].tobytes() == state_of(restored["step"])["exact"].tobytes()
            newest = position.step
            report = codec.verify(url)
            assert report.ok, report.problems


WATCHERS: dict[str, Act] = {"follower": follow, "reader": read}
DID = {"follower": "followed", "reader": "read"}


def take_over(url: str, seen: dict[int, str], tell: Tell) -> None:
    """Raise unless all steps are there that had to stay, and the chain can go on.

    seen: step -> digest of its track.
    """
    if seen:
        steps = codec.Chain(url).steps
        assert len(steps) >= min(KEPT, len(seen)), "steps were removed that had to stay"
        seen = {step: digest for step, digest in seen.items() if step >= steps[-KEPT:][0]}
        check_told(url, seen)
        report = codec.verify(url)
        assert report.ok, report.problems
    with codec.Checkpointer(url, bits=2, resume=True) as checkpoints:
        assert not seen or (checkpoints.step or 0) >= max(seen), "it goes on from an older step"
        save(checkpoints, [LAST], tell)
    report = codec.verify(url)
    assert report.ok, report.problems
    assert {*seen, LAST} <= {*report.steps}


if __name__ == "__main__":
    sys.exit(min(main(), 1))
