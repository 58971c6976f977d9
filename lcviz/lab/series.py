"""A series of states: of a training, or of a user's own checkpoints.

A chain gives its track, the states that it restores: with few bits not exactly those trained.
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

    arrays: of the layout's tensors, see `codec.inspect.to_arrays`; they may share memory with the
    training, so copy them to keep them. loss_of: evaluates such a state, None if its loss is
    unknown. values: those that are not tensors, see `codec.state.tree`. state: the whole state as
    it was saved.
    """

    step: int
    layout: Layout
    arrays: Arrays
    loss_of: LossOf | None = None
    values: tuple[str, ...] = ()
    state: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def weights(self) -> list[str]:
        """Names of the tensors that settings apply to: neither exact nor an optimizer's moments."""
        return [t.name for t in self.layout.tensors if t.lossy and not t.alone]


@dataclass(frozen=True)
class TrainedSeries:
    """The states of a training: the first, then one after each interval. seed: of the task.

    Raises codec.SettingsError if the first state would be the only one.
    """

    workload: Workload
    seed: int = 0
    iterations: int = 100
    interval: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.interval <= self.iterations:
            raise SettingsError(
                f"a series needs a state after the first; got {self.iterations} iterations at an "
                f"interval of {self.interval}"
            )

    def __len__(self) -> int:
        return self.iterations // self.interval + 1

    def __iter__(self) -> Iterator[SeriesState]:
        training, front = self.workload.training(self.seed), Front(Policy())

        def state_at(step: int) -> SeriesState:
            model = training.state()["model"]
            parts, layout = front.look_at(model)
            arrays = to_arrays(parts.tensors, layout)
            return SeriesState(step, layout, arrays, training.task.probe_loss, state=model)

        yield state_at(0)
        for step in range(1, self.iterations + 1):
            training.iterate(step)
            if step % self.interval == 0:
                yield state_at(step)


@dataclass(frozen=True)
class OwnSeries:
    """A user's own checkpoints: files, folders of them, or one chain or its archive.

    policy: which tensors are lossy, see `codec.Checkpointer`. loss: takes a state as it was saved.
    Raises SourceError, codec.ChainError and codec.SettingsError, the last also during iteration for
    a checkpoint without lossy tensors.
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
        """The files of the checkpoints, by rising step; for a chain its files or its archive."""
        if not self.is_chain:
            return tuple(path for _, path in self._files())
        return tuple(p for path in self.paths for p in (_inside(path) or [path]))

    def __iter__(self) -> Iterator[SeriesState]:
        return _states_of(self._states(), self.policy, self.loss)

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
        """The files in the order of the paths, those of a folder by name."""
        files: list[Path] = []
        for path in self.paths:
            inside = [p for p in _inside(path) if p.suffix in SUFFIXES]
            files += inside if path.is_dir() else [path]
        return files


class OpenedFiles(Protocol):
    """Checkpoints that are already opened and checked."""

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps, rising."""

    def states(self) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        """Every step and its state."""


@dataclass(frozen=True)
class OpenedSeries:
    """Checkpoints that are already opened. Raises during iteration what `OwnSeries` does."""

    opened: OpenedFiles

    def __len__(self) -> int:
        return len(self.opened.steps)

    def __iter__(self) -> Iterator[SeriesState]:
        return _states_of(self.opened.states(), {})


def _states_of(
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
    """The loss of arrays, rebuilt as a state like the checkpoint's."""
    parts = Parts(layout.structure, from_arrays(arrays, layout), values)
    return float(loss(unflatten(parts)))


def _inside(path: Path) -> list[Path]:
    """The paths in a folder, by name; none if the path is not a folder."""
    try:
        inside = path.iterdir() if path.is_dir() else ()
        return sorted(inside, key=lambda p: by_numbers(p.name))
    except OSError as exc:
        raise SourceError(f"{path}: cannot be listed: {exc.strerror}") from exc


Series = TrainedSeries | OwnSeries | OpenedSeries


def check_alike(first: SeriesState, state: SeriesState) -> None:
    """Raise codec.SettingsError unless a later state has the tensors of the first one."""
    if state.layout != first.layout:
        raise SettingsError(
            f"the tensors of checkpoint {state.step} differ from those of the first one; name "
            "checkpoints with the same tensors"
        )


def moved_since(start: Arrays, state: SeriesState) -> float:
    """The distance of the weights from the first state; 1 if they did not move.

    Raises codec.SettingsError if it is not finite.
    """
    moved = distance(start, state.arrays, state.weights) or 1.0
    if not math.isfinite(moved):
        raise SettingsError(
            f"checkpoint {state.step} holds NaN, infinity or values too large to compare; name a "
            "series without it"
        )
    return moved


def tracked(series: Series, coding: Coding) -> Iterator[tuple[SeriesState, Tracker]]:
    """Every state after the first, with a tracker of those before it.

    A state with another layout than the one before it is left out: a new tracker begins with it.
    The caller runs `tracker.commit(tracker.prepare_arrays(state.arrays))` before the next state.
    Raises codec.SettingsError if no state has the layout of the one before it.
    """
    tracker: Tracker | None = None
    followed = False
    for state in series:
        if tracker is None or tracker.track.layout != state.layout:
            first = copy_arrays(state.arrays)
            tracker = Tracker.resume(Track.of(state.layout, first), coding)
        else:
            followed = True
            yield state, tracker
    if not followed:
        raise SettingsError("no two checkpoints in a row have the same tensors")
