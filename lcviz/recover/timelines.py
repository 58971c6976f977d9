"""What the training loop and the saver do at every moment, measured in three ways to save.

The same training runs three times: saved synchronously, saved by a background process, and saved
synchronously with deltas merged every few checkpoints. All times are of `time.perf_counter`, a
clock that both processes share. A chain has one writer, so for merging the loop closes its
Checkpointer, merges, and opens it again.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import codec
from codec import Coding, Saved
from lcviz.lab.progress import Progress
from lcviz.lab.workload import Workload

SYNCHRONOUS, ASYNCHRONOUS, MERGED = WAYS = "synchronous", "asynchronous", "merged"
TRAINS, STANDS_STILL = "trains", "stands still"
ENCODES, CHECKS, WRITES, COMMITS, MERGES, REOPENS = (
    "encodes",
    "checks",
    "writes",
    "commits",
    "merges",
    "opens again",
)
SHOWN = 16  # checkpoints
MERGED_AT_ONCE = 8  # deltas
WARM_UP = 20  # iterations at least, before the clock starts


@dataclass(frozen=True)
class Span:
    """Something that was done.

    begin, end: seconds since the first iteration shown began. step: the iteration, or that of the
    checkpoint; of a merge the newest.
    """

    what: str
    step: int
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.begin


@dataclass(frozen=True)
class Timeline:
    """One training with one way to save.

    first: the number of the first iteration shown. loop, saver: in the order of time; the saver is
    the loop itself, unless saving is asynchronous. given, durable: (second, step): when the saver
    had the whole state of a step, and when its record was on disk, name and all; rising, of every
    checkpoint of the training. nbytes: of the chain after its base, the checkpoints that are not
    shown included; so many records, the base not counted, and so many steps that restore. track:
    digest of what the newest one restores.
    """

    way: str
    first: int
    loop: tuple[Span, ...]
    saver: tuple[Span, ...]
    given: tuple[tuple[float, int], ...]
    durable: tuple[tuple[float, int], ...]
    nbytes: int
    records: int
    steps: int
    track: str

    @property
    def end(self) -> float:
        """When the last of it was finished."""
        return max(self.loop[-1].end, self.saver[-1].end)

    def _of(self, what: str) -> list[Span]:
        return [s for s in self.loop if s.what == what]

    @property
    def iteration(self) -> float:
        """Seconds of an iteration, saving left out: the median."""
        return median(s.seconds for s in self._of(TRAINS))

    @property
    def pauses(self) -> list[Span]:
        """Of the loop, one for each checkpoint."""
        return self._of(STANDS_STILL)

    @property
    def pause(self) -> float:
        """Seconds that the loop stands still for a checkpoint: the median."""
        return median(s.seconds for s in self.pauses)

    @property
    def still(self) -> float:
        """Share of the loop's time that it stands still."""
        lost = sum(s.seconds for s in self.pauses)
        return lost / (lost + sum(s.seconds for s in self._of(TRAINS)))

    @property
    def delay(self) -> float:
        """Seconds from the end of an iteration until its checkpoint is on disk: the median."""
        asked = {s.step: s.begin for s in self.pauses}
        return median(at - asked[step] for at, step in self.durable if step in asked)

    def iterated(self, second: float) -> int:
        """How many iterations the training has finished by then."""
        return self.first - 1 + sum(s.end <= second for s in self._of(TRAINS))

    def restored(self, second: float, machine: bool = True) -> int:
        """The step that a crash leaves. machine: whether all of it crashes; if only the training
        does, the background process still writes what it was given."""
        known = self.durable if machine else self._kept_without_the_training()
        return max(step for at, step in known if at <= second)

    def lost(self, second: float, machine: bool = True) -> int:
        """Iterations that are not saved at this second."""
        return self.iterated(second) - self.restored(second, machine)

    def behind(self, machine: bool = True) -> list[tuple[float, int]]:
        """Where `lost` changes, from 0 to the end, each with what it is from there on."""
        known = self.durable if machine else self._kept_without_the_training()
        # One pass: iterations are counted, and the newest checkpoint is the one that restores.
        done, saved = self.iterated(0.0), self.restored(0.0, machine)
        trained = [(s.end, 1, 0) for s in self._of(TRAINS) if s.end > 0]
        events = sorted([*trained, *((at, 0, step) for at, step in known if at > 0)])
        found = [(0.0, done - saved)]
        for i, (second, more, step) in enumerate(events):
            done, saved = done + more, max(saved, step)
            last = i + 1 == len(events) or events[i + 1][0] != second
            if last and found[-1][1] != done - saved:
                found.append((second, done - saved))
        return found

    def _kept_without_the_training(self) -> tuple[tuple[float, int], ...]:
        return self.given if self.way == ASYNCHRONOUS else self.durable


@dataclass(frozen=True)
class Drill:
    """What determines a measurement, apart from the machine's load.

    interval: iterations between checkpoints. whole: whether the state of an
    Adam or AdamW is saved with the model.
    """

    workload: Workload
    seed: int
    interval: int
    coding: Coding
    whole: bool = False

    @property
    def before(self) -> int:
        """Iterations that are not shown: after them, too, deltas have just been merged."""
        once = MERGED_AT_ONCE * self.interval
        return math.ceil(WARM_UP / once) * once

    @property
    def iterations(self) -> int:
        """Of one training, those before included."""
        return self.before + SHOWN * self.interval

    def measure(self, _part: int, progress: Progress) -> tuple[Timeline, ...]:
        """All three ways, once. progress: of iterations; what it raises ends it, and leaves neither
        file nor process behind. Raises demo_models.DataError, codec.LccError."""
        codec.warm_up()  # so that no save is timed with its compilation
        n, found = self.iterations, []
        for i, way in enumerate(WAYS):
            with tempfile.TemporaryDirectory() as folder:
                run = _Run(self, way, Path(folder) / "run.lcc")
                with closing(run.train()) as steps:
                    for done in steps:
                        progress(i * n + done, len(WAYS) * n)
                found.append(run.timeline())
        return tuple(found)


@dataclass(frozen=True)
class _Asked:
    """One call of save. merging: when it began, when it ended, when the chain was open again."""

    step: int
    at: float
    returned: float
    saved: Saved
    merging: tuple[float, float, float] | None

    @property
    def ended(self) -> float:
        """When the loop could go on."""
        return self.merging[-1] if self.merging else self.returned

    @property
    def durable(self) -> float:
        """When the record was on disk, with its name."""
        saved = self.saved
        return saved.began + sum(saved.stages[name] for name in ("encode", "check", "write"))

    def work(self, zero: float) -> Iterator[Span]:
        """What the saver did, one after the other. zero: what is counted from."""
        saved, stages = self.saved, self.saved.stages
        seconds = (
            stages["encode"],
            stages["check"],
            stages["write"] - saved.commit,
            saved.commit + stages["advance"],
        )
        end = saved.began - zero
        for what, took in zip((ENCODES, CHECKS, WRITES, COMMITS), seconds, strict=True):
            begin, end = end, end + took
            yield Span(what, self.step, begin, end)
        if self.merging:
            begin, end, opened = (at - zero for at in self.merging)
            yield Span(MERGES, self.step, begin, end)
            yield Span(REOPENS, self.step, end, opened)


class _Run:
    """One training, saved in one way."""

    def __init__(self, drill: Drill, way: str, path: Path) -> None:
        self._drill, self._way, self._path = drill, way, path
        self._iterations: list[tuple[int, float, float]] = []
        self._asked: list[_Asked] = []
        self._checkpoints: codec.Checkpointer | None = None

    def train(self) -> Generator[int, None, None]:
        """Yields how many iterations are done."""
        d = self._drill
        training = d.workload.training(d.seed)
        if d.whole:
            training.begin_optimizer()

        def state() -> Mapping[str, Any]:
            found = training.state()
            return found if d.whole else found["model"]

        try:
            self._open()
            self._save(0, state())
            self._asked[0].saved.result()  # the process beside has started once it is told
            for step in range(1, d.iterations + 1):
                yield step - 1
                began = time.perf_counter()
                training.iterate(step)
                self._iterations.append((step, began, time.perf_counter()))
                if step % d.interval == 0:
                    self._save(step, state())
        finally:
            if self._checkpoints is not None:
                self._checkpoints.close()

    def _open(self) -> None:
        self._checkpoints = codec.Checkpointer(
            self._path,
            **self._drill.coding.header(),
            base_every=None,
            resume=True,
            asynchronous=self._way == ASYNCHRONOUS,
        )

    def _save(self, step: int, state: Mapping[str, Any]) -> None:
        assert self._checkpoints is not None, "it was opened"
        at = time.perf_counter()
        saved = self._checkpoints.save(step, state)
        returned, merging = time.perf_counter(), None
        if self._way == MERGED and step and step % (MERGED_AT_ONCE * self._drill.interval) == 0:
            self._checkpoints.close()
            begin = time.perf_counter()
            codec.merge(self._path, MERGED_AT_ONCE, quick=True)
            end = time.perf_counter()
            self._open()
            merging = begin, end, time.perf_counter()
        self._asked.append(_Asked(step, at, returned, saved, merging))

    def timeline(self) -> Timeline:
        """Of the iterations after the first few. Raises codec.LccError for a save that failed."""
        first = self._drill.before + 1
        zero = next(began for step, began, _ in self._iterations if step == first)
        loop = [
            Span(TRAINS, step, began - zero, ended - zero)
            for step, began, ended in self._iterations
            if step >= first
        ]
        asked = [one for one in self._asked if one.step >= first]
        loop += [Span(STANDS_STILL, one.step, one.at - zero, one.ended - zero) for one in asked]
        saver = [span for one in asked for span in one.work(zero)]
        chain = codec.Chain(self._path)
        _, *others = chain.entries  # the base first
        return Timeline(
            self._way,
            first,
            tuple(sorted(loop, key=lambda s: s.begin)),
            tuple(saver),
            tuple((one.returned - zero, one.step) for one in self._asked),
            tuple((one.durable - zero, one.step) for one in self._asked),
            sum(e.nbytes for e in others),
            len(others),
            len(chain.steps),
            chain.at().record.track,
        )
