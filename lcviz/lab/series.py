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
        return [t.name for t in self.layout.tensors if t.lossy and not t.measure]


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


class OpenedFiles(Protocol):
    """Checkpoints that are already opened and checked."""

    @property
    def steps(self) -> Sequence[int]:
        """The steps, rising."""

    def states(self) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        """Every step and its state."""


@dataclass(frozen=True)
class OpenedSeries:
    """Checkpoints that are already opened.

    policy: which tensors are lossy, see `codec.Checkpointer`. loss: takes a state as it was saved.
    Raises codec.SettingsError during iteration for a checkpoint without lossy tensors.
    """

    opened: OpenedFiles
    policy: Mapping[str, str] = field(default_factory=dict)
    loss: Loss | None = None

    def __len__(self) -> int:
        return len(self.opened.steps)

    def __iter__(self) -> Iterator[SeriesState]:
        front = Front(Policy(self.policy))
        for step, state in self.opened.states():
            parts, layout = front.look_at(state)
            if not any(t.lossy and not t.measure for t in layout.tensors):
                raise SettingsError(
                    f"checkpoint {step}: none of its {len(layout.tensors)} tensors is delta-coded: "
                    f"weights of {', '.join(LOSSY_DTYPES)} and {TINY_ELEMENTS} elements or more are"
                )
            arrays = to_arrays(parts.tensors, layout)
            loss_of = partial(_loss_of, self.loss, layout, parts.values) if self.loss else None
            yield SeriesState(step, layout, arrays, loss_of, parts.values, state)


class OwnSeries(OpenedSeries):
    """A user's own checkpoints: files, folders of them, or one chain or its archive.

    policy, loss: see `OpenedSeries`. Raises SourceError, codec.ChainError and codec.SettingsError.
    """

    opened: _Chain | _Files

    def __init__(
        self,
        paths: Sequence[Path],
        policy: Mapping[str, str] | None = None,
        loss: Loss | None = None,
    ) -> None:
        Policy(policy or {})
        for path in paths:
            if not os.path.exists(path):  # Path.exists raises for a name that is too long
                raise SourceError(f"{path}: not found")
        super().__init__(_checkpoints_in(paths), policy or {}, loss)
        if (n := len(self)) < 2:
            raise SettingsError(
                f"{', '.join(map(str, paths))}: a series needs two checkpoints, found "
                f"{'one' if n else 'none'}; name the files, a folder of {', '.join(SUFFIXES)}, or "
                "a chain"
            )

    @property
    def is_chain(self) -> bool:
        """True if the states are what a chain restores."""
        return isinstance(self.opened, _Chain)

    @property
    def why_counted(self) -> str:
        """Why the files are counted from 0 instead of by their names; "" if they are not."""
        return "" if isinstance(self.opened, _Chain) else self.opened.why_counted


@dataclass(frozen=True)
class _Chain:
    """The states that a chain restores."""

    chain: Chain

    @property
    def steps(self) -> Sequence[int]:
        return self.chain.steps

    def states(self) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        for position in self.chain.every_step():
            yield position.step, position.whole()


@dataclass(frozen=True)
class _Files:
    """Files with their steps. why_counted: see `OwnSeries`."""

    files: Sequence[tuple[int, Path]]
    why_counted: str = ""

    @property
    def steps(self) -> Sequence[int]:
        return [step for step, _ in self.files]

    def states(self) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        for step, path in self.files:
            yield step, read_state(path)


def _checkpoints_in(paths: Sequence[Path]) -> _Chain | _Files:
    """A chain, or files in the order of the paths, those of a folder by name."""
    files: list[Path] = []
    for path in paths:
        inside = _inside(path)
        if path.suffix == ".zip" or any(entry_of(p.name, 0) for p in inside):
            if len(paths) > 1:
                raise SettingsError(f"{path}: is a chain; name it alone")
            return _Chain(Chain(path))
        files += [p for p in inside if p.suffix in SUFFIXES] if path.is_dir() else [path]
    try:
        return _Files(steps_of_files(files))
    except SettingsError as exc:
        return _Files(list(enumerate(files)), str(exc))


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


Series = TrainedSeries | OpenedSeries


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
