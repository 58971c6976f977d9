"""What a run keeps: the newest steps in memory, older alphabets on disk, and no more."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import shutil
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lcviz.lab.anatomy import Alphabet, record_sizes, totals
from lcviz.run import memory, saved_step, saved_steps
from lcviz.run.memory import RECENT, AlphabetsOnDisk, NewestSteps
from lcviz.run.run import Run
from tests.lcviz.common import finished, stepped

MakeRun = Callable[..., Run]
Patch = pytest.MonkeyPatch


def facts(alphabets: Sequence[Alphabet]) -> tuple[Any, ...]:
    """All that pages show of them."""
    coded = [
        (a.names, a.n, a.n_kept, a.nbytes, a.encoded.cached, a.encoded.payload.stream_elements)
        for a in alphabets
    ]
    lengths = [
        None if a.encoded.table is None else a.encoded.table.lengths.tolist() for a in alphabets
    ]
    exact = [(a.energy.tobytes(), a.residual.tobytes()) for a in alphabets]
    return coded, lengths, exact, record_sizes(alphabets, "runlength"), totals(alphabets)


def test_the_oldest_go_first_and_the_newest_stays(tmp_path: Path) -> None:
    kept: NewestSteps[str] = NewestSteps(10, 5, tmp_path)
    for step, nbytes, steps, in_memory in (
        (0, 4, (0,), (0,)),
        (5, 4, (0, 5), (5,)),
        (7, 2, (0, 5, 7), (7,)),
        (9, 1, (5, 7, 9), (7, 9)),
        (11, 8, (9, 11), (11,)),
        (12, 100, (12,), (12,)),  # whatever it takes
        (13, 1, (13,), (13,)),
        (13, 6, (13,), (13,)),  # once more: its room is taken once
        (14, 4, (13, 14), (14,)),
    ):
        kept.add(step, f"of {step}", nbytes)
        assert (kept.steps, kept.steps_in_memory) == (steps, in_memory)
        assert [kept.get(s) for s in steps] == [f"of {s}" for s in steps]
        assert kept.steps_in_memory == in_memory  # to read one does not bring it back
        on_disk = {int(path.name) for path in tmp_path.glob("steps-*/*")}
        assert on_disk == set(steps) - set(in_memory)
    assert kept.get(12) is None
    kept.drop(13)
    kept.drop(13)
    kept.add(15, "more", 6)  # there is room again
    kept.keep(5)
    assert kept.steps == (14, 15)
    kept.keep(1)
    assert kept.steps == (15,)
    kept.keep(0)
    assert kept.steps == ()
    assert list(tmp_path.glob("steps-*/*")) == []
    del kept
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_or_read_is_dropped(tmp_path: Path) -> None:
    kept: NewestSteps[str] = NewestSteps(10, 1, tmp_path / "nowhere")
    kept.add(0, "first", 1)
    kept.add(1, "second", 1)
    assert kept.steps == kept.steps_in_memory == (1,)
    (tmp_path / "nowhere").mkdir()
    kept.add(2, "third", 1)
    assert kept.steps == (1, 2)
    shutil.rmtree(next(tmp_path.glob("nowhere/steps-*")))
    assert (kept.get(1), kept.get(2)) == (None, "third")
    assert kept.steps == (2,)


@pytest.mark.parametrize("optimizer_state", [False, True])
def test_states_from_disk(make_run: MakeRun, monkeypatch: Patch, optimizer_state: bool) -> None:
    settings = {"optimizer": "adam", "lr": 0.01, "optimizer_state": optimizer_state}
    held = finished(make_run(stop_after=4, **settings))
    monkeypatch.setattr(saved_steps, "IN_MEMORY", 0)
    stored = finished(make_run(stop_after=4, **settings))
    assert held.saved._states.steps_in_memory == (0, 1, 2, 3, 4)
    assert stored.saved._states.steps_in_memory == stored.saved._codes.steps_in_memory == (4,)
    assert stored.saved.with_states() == (0, 1, 2, 3, 4)
    for step in range(5):
        for kept, found in (
            (held.saved.states(step), stored.saved.states(step)),
            (held.saved.codes(step), stored.saved.codes(step)),
        ):
            assert pickle.dumps(kept) == pickle.dumps(found)
    assert not isinstance(stored.snapshot().at(2).alphabets, tuple)  # they are there, too
    stored.close()
    assert stored.saved.with_states() == (4,)


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_older_steps_from_disk(make_run: MakeRun, monkeypatch: Patch, scope: str) -> None:
    whole = finished(make_run("lenet5", scope=scope, stop_after=4)).snapshot()
    monkeypatch.setattr(saved_steps, "STATES_BUDGET", 0)
    run = finished(make_run("lenet5", scope=scope, stop_after=4))
    stored = run.snapshot()
    run.close()  # who still looks at it can
    for c, twin in zip(stored.checkpoints, whole.checkpoints, strict=True):
        assert isinstance(c.alphabets, tuple) == (c.step in (0, 4))
        assert len(c.alphabets) == len(twin.alphabets)
        assert facts(c.alphabets) == facts(twin.alphabets)


def test_memory_does_not_grow(make_run: MakeRun, monkeypatch: Patch) -> None:
    """Neither by what was stored, nor by what was read."""
    monkeypatch.setattr(saved_steps, "STATES_BUDGET", 0)
    made: list[weakref.ref[Alphabet]] = []
    dissect = saved_step.dissect_weights

    def seen(*arguments: Any) -> Any:
        found = dissect(*arguments)
        made.extend(weakref.ref(a) for a in found[0])
        return found

    monkeypatch.setattr(saved_step, "dissect_weights", seen)
    run = finished(make_run(stop_after=RECENT + 4))
    gc.collect()
    assert (len(made), sum(ref() is not None for ref in made)) == (RECENT + 4, 1)
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


def test_a_full_disk_loses_nothing(make_run: MakeRun, monkeypatch: Patch) -> None:
    """Alphabets stay in memory, and are stored once there is room."""
    monkeypatch.setattr(saved_steps, "STATES_BUDGET", 0)
    make = memory.tempfile.TemporaryFile
    monkeypatch.setattr(memory.tempfile, "TemporaryFile", lambda **how: Cramped(make(**how)))
    run = make_run(stop_after=5)
    full = stepped(run, 3)
    assert all(isinstance(c.alphabets, tuple) for c in full.checkpoints)
    before = facts(full.at(2).alphabets)
    monkeypatch.setattr(Cramped, "room", None)
    after = finished(run).snapshot().at(2).alphabets
    assert not isinstance(after, tuple)
    assert facts(after) == before


def test_the_file_has_no_name_and_is_closed(tmp_path: Path) -> None:
    """No folder: OSError, as if nothing had been put."""
    kept = AlphabetsOnDisk(tmp_path)
    first, second = kept.put(()), kept.put(())
    assert list(tmp_path.iterdir()) == list(first) == list(second) == []
    assert kept._file is not None
    fd = kept._file.fileno()
    del kept, first, second
    gc.collect()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(fd)
    with pytest.raises(FileNotFoundError):
        AlphabetsOnDisk(tmp_path / "nowhere").put(())
