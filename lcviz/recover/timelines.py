"""What the training loop and the saver do over time, measured in two ways to save.

The same training runs twice: saved synchronously, and saved by a background process. All times are
read from `time.perf_counter`, a clock that both processes share.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import codec
from codec import Coding, Saved
from lcviz.lab.progress import Progress
from lcviz.lab.workload import Workload

SYNCHRONOUS, ASYNCHRONOUS = WAYS = "synchronous", "asynchronous"
TRAINS, STANDS_STILL = "trains", "stands still"
ENCODES, CHECKS, WRITES, COMMITS = "encodes", "checks", "writes", "commits"
SHOWN = 16  # checkpoints of one timeline
WARM_UP = 20  # iterations at least, before the clock starts


@dataclass(frozen=True)
class Span:
    """One activity of the loop or the saver.

    step: the iteration; of saving, the checkpoint's step. begin, end: seconds since the first
    iteration shown began.
    """

    activity: str
    step: int
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.end - self.begin


@dataclass(frozen=True)
class Timeline:
    """One training with one way to save.

    first: number of the first iteration shown. loop, saver: what each does, in order of time; the
    saver is the loop itself unless saving is asynchronous.

    handed_over, durable: (second, step) of every checkpoint of the training, rising: when the saver
    had the whole state of the step, and when its record was on disk under its final name.

    nbytes: of the chain without its base, but with the checkpoints that are not shown. track:
    digest of the newest step's track.
    """

    way: str
    first: int
    loop: tuple[Span, ...]
    saver: tuple[Span, ...]
    handed_over: tuple[tuple[float, int], ...]
    durable: tuple[tuple[float, int], ...]
    nbytes: int
    track: str

    @property
    def end(self) -> float:
        """When loop and saver had both finished."""
        return max(self.loop[-1].end, self.saver[-1].end)

    def _of(self, activity: str) -> list[Span]:
        return [s for s in self.loop if s.activity == activity]

    @property
    def iteration(self) -> float:
        """Seconds of an iteration without saving: the median."""
        return median(s.seconds for s in self._of(TRAINS))

    @property
    def pauses(self) -> list[Span]:
        """When the loop stands still: a span for each checkpoint."""
        return self._of(STANDS_STILL)

    @property
    def pause(self) -> float:
        """Seconds that the loop stands still for a checkpoint: the median."""
        return median(s.seconds for s in self.pauses)

    @property
    def still(self) -> float:
        """Share of its time that the loop stands still."""
        lost = sum(s.seconds for s in self.pauses)
        return lost / (lost + sum(s.seconds for s in self._of(TRAINS)))

    @property
    def delay(self) -> float:
        """Seconds from the end of an iteration until its checkpoint is on disk: the median."""
        pause_begins = {s.step: s.begin for s in self.pauses}
        return median(at - pause_begins[step] for at, step in self.durable if step in pause_begins)

    def iterated(self, second: float) -> int:
        """Number of iterations that the training has finished at this second."""
        return self.first - 1 + sum(s.end <= second for s in self._of(TRAINS))

    def restored(self, second: float, whole_machine: bool = True) -> int:
        """The step that restores after a crash at this second.

        whole_machine: whether the whole machine crashes. If only the training does, the background
        process still writes the state that it has.
        """
        return max(step for at, step in self._restorable(whole_machine) if at <= second)

    def lost(self, second: float, whole_machine: bool = True) -> int:
        """Iterations that are not saved at this second."""
        return self.iterated(second) - self.restored(second, whole_machine)

    def behind(self, whole_machine: bool = True) -> list[tuple[float, int]]:
        """Each second from 0 to the end at which `lost` changes, with its new value."""
        # One pass over both kinds of events: an iteration ends, or a checkpoint can be restored.
        done, saved = self.iterated(0.0), self.restored(0.0, whole_machine)
        trained = [(s.end, 1, 0) for s in self._of(TRAINS) if s.end > 0]
        saves = [(at, 0, step) for at, step in self._restorable(whole_machine) if at > 0]
        events = sorted([*trained, *saves])
        changes = [(0.0, done - saved)]
        for i, (second, more, step) in enumerate(events):
            done, saved = done + more, max(saved, step)
            last_at_this_second = i + 1 == len(events) or events[i + 1][0] != second
            if last_at_this_second and changes[-1][1] != done - saved:
                changes.append((second, done - saved))
        return changes

    def _restorable(self, whole_machine: bool) -> tuple[tuple[float, int], ...]:
        outlives = self.way == ASYNCHRONOUS and not whole_machine
        return self.handed_over if outlives else self.durable


@dataclass(frozen=True)
class Drill:
    """What determines a measurement, apart from the machine's load.

    interval: iterations between checkpoints.
    """

    workload: Workload
    seed: int
    interval: int
    coding: Coding

    @property
    def before(self) -> int:
        """Number of iterations before those shown; the last of them is saved."""
        return math.ceil(WARM_UP / self.interval) * self.interval

    @property
    def iterations(self) -> int:
        """Number of iterations of one training, those before the ones shown included."""
        return self.before + SHOWN * self.interval

    def measure(self, _part: int, progress: Progress) -> tuple[Timeline, ...]:
        """Train and save once in each way.

        progress: called with the number of iterations done, and of all. An error that it raises
        ends the measurement, and leaves neither file nor process behind.

        Raises demo_models.DataError, codec.LccError.
        """
        iterations, lines = self.iterations, []
        for i, way in enumerate(WAYS):
            with tempfile.TemporaryDirectory() as folder:
                run = _Run(self, way, Path(folder) / "run.lcc")
                with closing(run.train()) as steps:
                    for done in steps:
                        progress(i * iterations + done, len(WAYS) * iterations)
                lines.append(run.timeline())
        return tuple(lines)


@dataclass(frozen=True)
class _SaveCall:
    """One call of save, in seconds of `time.perf_counter`.

    at, returned: when it began and returned.
    """

    step: int
    at: float
    returned: float
    saved: Saved

    @property
    def durable(self) -> float:
        """When the record was on disk under its final name."""
        saved = self.saved
        return saved.began + sum(saved.stages[name] for name in ("encode", "check", "write"))

    def work(self, zero: float) -> Iterator[Span]:
        """What the saver did, in order. zero: the time that spans count from."""
        saved, stages = self.saved, self.saved.stages
        seconds = {
            ENCODES: stages["encode"],
            CHECKS: stages["check"],
            WRITES: stages["write"] - saved.commit,
            COMMITS: saved.commit + stages["advance"],
        }
        end = saved.began - zero
        for activity, duration in seconds.items():
            begin, end = end, end + duration
            yield Span(activity, self.step, begin, end)


class _Run:
    """One training, saved in one way."""

    def __init__(self, drill: Drill, way: str, path: Path) -> None:
        self._drill, self._way, self._path = drill, way, path
        self._iterations: list[tuple[int, float, float]] = []
        self._save_calls: list[_SaveCall] = []

    def train(self) -> Generator[int, None, None]:
        """Train and save; yields the number of iterations done before each one."""
        drill = self._drill
        training = drill.workload.training(drill.seed)
        with codec.Checkpointer(
            self._path,
            **drill.coding.header(),
            restore_work=None,
            asynchronous=self._way == ASYNCHRONOUS,
        ) as checkpoints:
            self._save(checkpoints, 0, training.state()["model"])
            self._save_calls[0].saved.result()  # by now, the background process has started
            for step in range(1, drill.iterations + 1):
                yield step - 1
                began = time.perf_counter()
                training.iterate(step)
                self._iterations.append((step, began, time.perf_counter()))
                if step % drill.interval == 0:
                    self._save(checkpoints, step, training.state()["model"])

    def _save(self, checkpoints: codec.Checkpointer, step: int, state: Mapping[str, Any]) -> None:
        at = time.perf_counter()
        saved = checkpoints.save(step, state)
        self._save_calls.append(_SaveCall(step, at, time.perf_counter(), saved))

    def timeline(self) -> Timeline:
        """The timeline without the warm-up. Raises codec.LccError if a save failed."""
        first = self._drill.before + 1
        zero = next(began for step, began, _ in self._iterations if step == first)
        save_calls = [call for call in self._save_calls if call.step >= first]
        activities = [(TRAINS, *iteration) for iteration in self._iterations]
        activities += [(STANDS_STILL, call.step, call.at, call.returned) for call in save_calls]
        loop = [
            Span(activity, step, begin - zero, end - zero)
            for activity, step, begin, end in sorted(activities, key=itemgetter(2))
            if step >= first
        ]
        saver = [span for call in save_calls for span in call.work(zero)]
        chain = codec.Chain(self._path)
        _, *deltas = chain.entries  # the base first
        return Timeline(
            self._way,
            first,
            tuple(loop),
            tuple(saver),
            tuple((call.returned - zero, call.step) for call in self._save_calls),
            tuple((call.durable - zero, call.step) for call in self._save_calls),
            sum(e.nbytes for e in deltas),
            chain.at().record.track,
        )
