"""What is put on disk comes back the same, and a long run's memory does not grow with it."""

from __future__ import annotations

import errno
import gc
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lcviz.lab.anatomy import Alphabet, promotions, record_sizes, tables, totals
from lcviz.run import older_steps as details
from lcviz.run import run as session
from lcviz.run import saved_step as taken
from lcviz.run.older_steps import RECENT, Details
from lcviz.run.run import Run

MakeRun = Callable[..., Run]


def finished(run: Run) -> Run:
    run.play()
    assert run.wait(60).status == "finished"
    return run


def told(alphabets: Sequence[Alphabet]) -> tuple[Any, ...]:
    """All that pages say of them."""
    coded = [(a.names, a.n, a.kept, a.nbytes, a.cached, a.stream_elements) for a in alphabets]
    lengths = [None if a.table is None else a.table.lengths.tolist() for a in alphabets]
    exact = [(a.energy.tobytes(), a.residual.tobytes()) for a in alphabets]
    sizes = record_sizes(alphabets, "runlength"), promotions(alphabets)
    return coded, lengths, exact, sizes, totals(alphabets), tables(alphabets)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the newest step's states is held."""
    monkeypatch.setattr(session, "STATES_BUDGET", 0)


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_older_steps_tell_the_same(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    whole = finished(make_run("lenet5", scope=scope, stop_after=12)).snapshot()
    monkeypatch.setattr(session, "STATES_BUDGET", 0)
    run = finished(make_run("lenet5", scope=scope, stop_after=12))
    away = run.snapshot()
    for c, twin in zip(away.checkpoints, whole.checkpoints, strict=True):
        assert isinstance(c.alphabets, tuple) == (c.step in (0, 12))
        assert len(c.alphabets) == len(twin.alphabets)
        assert told(c.alphabets) == told(twin.alphabets)
        assert c.tables == tables(twin.alphabets)
    first = away.at(1).alphabets
    assert np.array_equal(first[0].energy, whole.at(1).alphabets[0].energy)
    assert first[-1] is first[len(first) - 1]
    run.close()
    assert told(away.at(3).alphabets) == told(whole.at(3).alphabets)  # who still looks at it


@pytest.mark.usefixtures("small")
def test_memory_does_not_grow(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by what was put away, nor by what was looked at."""
    made: list[weakref.ref[Alphabet]] = []
    dissect = taken.dissect

    def seen(*arguments: Any) -> Any:
        found = dissect(*arguments)
        made.extend(weakref.ref(a) for a in found[0])
        return found

    monkeypatch.setattr(taken, "dissect", seen)
    run = finished(make_run(stop_after=3 * RECENT))
    gc.collect()
    assert len(made) == 3 * RECENT
    assert sum(ref() is not None for ref in made) == 1
    read = [weakref.ref(c.alphabets[0]) for c in run.snapshot().checkpoints[1:-1]]
    gc.collect()
    assert sum(ref() is not None for ref in read) == RECENT


class Cramped:
    """A file that takes the first few bytes only."""

    room: int | None = 9

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        return int(self._file.write(data[: self.room]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.usefixtures("small")
def test_a_full_disk_loses_nothing(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays in memory, and is put away once there is room."""
    make = details.tempfile.TemporaryFile
    monkeypatch.setattr(details.tempfile, "TemporaryFile", lambda **how: Cramped(make(**how)))
    run = make_run(stop_after=9)
    for _ in range(5):
        run.step()
        run.wait(60)
    full = run.snapshot()
    assert all(isinstance(c.alphabets, tuple) for c in full.checkpoints)
    before = told(full.at(2).alphabets)
    monkeypatch.setattr(Cramped, "room", None)
    finished(run)
    after = run.snapshot()
    assert not isinstance(after.at(2).alphabets, tuple)
    assert told(after.at(2).alphabets) == before


def test_the_file_has_no_name_and_is_closed(tmp_path: Path) -> None:
    """No folder: OSError, as if nothing had been put."""
    kept = Details(tmp_path)
    first, second = kept.put(()), kept.put(())
    assert list(tmp_path.iterdir()) == []
    assert list(first) == list(second) == []
    assert kept._file is not None
    fd = kept._file.fileno()
    del kept, first, second
    gc.collect()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)
    with pytest.raises(FileNotFoundError):
        Details(tmp_path / "nowhere").put(())
