"""A series of states: of a training, or checkpoints of a visitor's own.

A chain gives its track, which is what it restores: with few bits not exactly what was trained.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from codec import Chain, Coding, Tracker
from codec.errors import SettingsError, SourceError
from codec.inspect import (
    LOSSY_DTYPES,
    SUFFIXES,
    TINY_ELEMENTS,
    Arrays,
    Front,
    Layout,
    Parts,
    Policy,
    Track,
    by_numbers,
    copy_arrays,
    entry_of,
    from_arrays,
    read_state,
    steps_of_files,
    to_arrays,
    unflatten,
)

from .measures import distance
from .workload import Workload

Loss = Callable[[Mapping[Any, Any]], float]
LossOf = Callable[[Arrays], float]


@dataclass(frozen=True)
class SeriesState:
    """One state of a series.

    arrays: of the layout's tensors, see `tensors.to_arrays`; they may share memory with the
    training, so copy what you keep. loss_of: the loss of such a state, None if unknown. values:
    what is no tensor, see `codec.state.tree`. state: all of it, as it came.
    """

    step: int
    layout: Layout
    arrays: Arrays
    loss_of: LossOf | None = None
    values: tuple[str, ...] = ()
    state: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def weights(self) -> list[str]:
        """Names of the tensors that a setting is for: neither exact nor an optimizer's moments."""
        return [t.name for t in self.layout.tensors if t.lossy and not t.alone]


@dataclass(frozen=True)
class TrainedSeries:
    """The states of a training: the first, then one every interval. seed: of the task.

    Raises codec.SettingsError if nothing follows the first.
    """

    workload: Workload
    seed: int = 0
    iterations: int = 100
    interval: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.interval <= self.iterations:
            raise SettingsError(
                f"a series has at least one state after the first; got {self.iterations} "
                f"iterations at an interval of {self.interval}"
            )

    def __len__(self) -> int:
        return self.iterations // self.interval + 1

    def __iter__(self) -> Iterator[SeriesState]:
        training, front = self.workload.training(self.seed), Front(Policy())

        def moment(step: int) -> SeriesState:
            model = training.state()["model"]
            parts, layout = front.look_at(model)
            arrays = to_arrays(parts.tensors, layout)
            return SeriesState(step, layout, arrays, training.task.probe_loss, state=model)

        yield moment(0)
        for step in range(1, self.iterations + 1):
            training.iterate(step)
            if step % self.interval == 0:
                yield moment(step)


@dataclass(frozen=True)
class OwnSeries:
    """Checkpoints of a visitor's own: files, folders of them, or one chain or its archive.

    policy: which tensors are lossy, see `codec.Checkpointer`. loss: of a checkpoint, as it was
    saved. Raises codec.SettingsError, also during iteration for a checkpoint without lossy tensors;
    SourceError, codec.ChainError.
    """

    paths: Sequence[Path]
    policy: Mapping[str, str] = field(default_factory=dict)
    loss: Loss | None = None

    def __post_init__(self) -> None:
        Policy(self.policy)
        for path in self.paths:
            if not os.path.exists(path):  # Path.exists raises for a name that is too long
                raise SourceError(f"{path}: not found")
        if (n := len(self)) < 2:
            raise SettingsError(
                f"{', '.join(map(str, self.paths))}: a series needs two checkpoints, found "
                f"{'one' if n else 'none'}; name the files, a folder of {', '.join(SUFFIXES)}, or "
                "a chain"
            )

    @property
    def is_chain(self) -> bool:
        """True if the states are what a chain restores."""
        return self._chain() is not None

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps of the checkpoints, rising."""
        chain = self._chain()
        return tuple(chain.steps if chain else (step for step, _ in self._files()))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the checkpoints, by rising step; of a chain those that it lies in."""
        if not self.is_chain:
            return tuple(path for _, path in self._files())
        return tuple(p for path in self.paths for p in (_inside(path) or [path]))

    def __iter__(self) -> Iterator[SeriesState]:
        return _moments(self._states(), self.policy, self.loss)

    def _states(self) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        if chain := self._chain():
            for position in chain.every_step():
                yield position.step, position.whole()
        else:
            for step, path in self._files():
                yield step, read_state(path)

    def _chain(self) -> Chain | None:
        for path in self.paths:
            if path.suffix == ".zip" or any(entry_of(p.name, 0) for p in _inside(path)):
                if len(self.paths) > 1:
                    raise SettingsError(f"{path}: is a chain; name it alone")
                return Chain(path)
        return None

    @property
    def why_counted(self) -> str:
        """Why the files are counted from 0 instead of by their names; "" if they are not."""
        if self.is_chain:
            return ""
        try:
            steps_of_files(self._paths())
        except SettingsError as exc:
            return str(exc)
        return ""

    def _files(self) -> list[tuple[int, Path]]:
        paths = self._paths()
        return list(enumerate(paths)) if self.why_counted else steps_of_files(paths)

    def _paths(self) -> list[Path]:
        """The files as they were given, those of a folder by name."""
        files: list[Path] = []
        for path in self.paths:
            inside = [p for p in _inside(path) if p.suffix in SUFFIXES]
            files += inside if path.is_dir() else [path]
        return files


class OpenedFiles(Protocol):
    """Checkpoints that somebody else has opened and checked."""

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps, rising."""

    def states(self) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        """Every step and its state."""


@dataclass(frozen=True)
class OpenedSeries:
    """Checkpoints that were opened before. Raises during iteration what `OwnSeries` does."""

    opened: OpenedFiles

    def __len__(self) -> int:
        return len(self.opened.steps)

    def __iter__(self) -> Iterator[SeriesState]:
        return _moments(self.opened.states(), {})


def _moments(
    states: Iterator[tuple[int, Mapping[Any, Any]]],
    policy: Mapping[str, str],
    loss: Loss | None = None,
) -> Iterator[SeriesState]:
    """The states of checkpoints. Raises codec.SettingsError for one without lossy tensors."""
    front = Front(Policy(policy))
    for step, state in states:
        parts, layout = front.look_at(state)
        if not any(t.lossy and not t.alone for t in layout.tensors):
            raise SettingsError(
                f"checkpoint {step}: none of its {len(layout.tensors)} tensors is delta-coded: "
                f"weights of {', '.join(LOSSY_DTYPES)} and {TINY_ELEMENTS} elements or more are"
            )
        arrays = to_arrays(parts.tensors, layout)
        loss_of = partial(_loss_of, loss, layout, parts.values) if loss else None
        yield SeriesState(step, layout, arrays, loss_of, parts.values, state)


def _loss_of(loss: Loss, layout: Layout, values: tuple[str, ...], arrays: Arrays) -> float:
    """The loss of arrays, put together as the checkpoint was."""
    parts = Parts(layout.structure, from_arrays(arrays, layout), values)
    return float(loss(unflatten(parts)))


def _inside(path: Path) -> list[Path]:
    """What is in a folder, by name; nothing if it is no folder."""
    try:
        inside = path.iterdir() if path.is_dir() else ()
        return sorted(inside, key=lambda p: by_numbers(p.name))
    except OSError as exc:
        raise SourceError(f"{path}: cannot be listed: {exc.strerror}") from exc


Series = TrainedSeries | OwnSeries | OpenedSeries


def check_alike(first: SeriesState, moment: SeriesState) -> None:
    """Raise codec.SettingsError unless a later state has the tensors of the first one."""
    if moment.layout != first.layout:
        raise SettingsError(
            f"the tensors of checkpoint {moment.step} are not those of the first one; name a "
            "series without that change"
        )


def moved_since(start: Arrays, moment: SeriesState) -> float:
    """How far the weights were trained since the first state, 1 if they did not move.

    Raises codec.SettingsError if that is not finite.
    """
    moved = distance(start, moment.arrays, moment.weights) or 1.0
    if not math.isfinite(moved):
        raise SettingsError(
            f"checkpoint {moment.step} holds NaN, infinity or values so large that nothing is "
            "near to it; name a series without it"
        )
    return moved


def tracked(series: Series, coding: Coding) -> Iterator[tuple[SeriesState, Tracker]]:
    """Every state with a tracker that has seen those before it; a new layout begins anew.

    The caller runs `tracker.commit(tracker.prepare_arrays(state.arrays))` before the next one.
    Raises codec.SettingsError if no state has the layout of the one before it.
    """
    tracker: Tracker | None = None
    followed = False
    for moment in series:
        if tracker is None or tracker.track.layout != moment.layout:
            first = copy_arrays(moment.arrays)
            tracker = Tracker.resume(Track.of(moment.layout, first), coding)
        else:
            followed = True
            yield moment, tracker
    if not followed:
        raise SettingsError("no checkpoint of this series has the tensors of the one before it")
