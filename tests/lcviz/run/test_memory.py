"""What a run keeps: the newest steps in memory, older alphabets on disk, and no more."""

import errno
import gc
import os
import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lcviz.lab.anatomy import Alphabet, record_sizes, totals
from lcviz.run import saved_step, saved_steps
from lcviz.run.memory import RECENT, Journal, NewestSteps
from lcviz.run.saved_steps import SavedSteps
from tests.lcviz.common import MakeRun, Patch, finished, stepped


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
    """All are on disk, where the next process reads them."""
    kept: NewestSteps[str] = NewestSteps(10, 5, tmp_path / "values")
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
        after: NewestSteps[str] = NewestSteps(10, 5, tmp_path / "values")
        assert (after.steps, after.steps_in_memory) == (steps, steps[-1:])
        assert [after.get(s) for s in after.steps] == [f"of {s}" for s in after.steps]
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
    assert list((tmp_path / "values").iterdir()) == []


def test_what_cannot_be_written_or_read_is_dropped(tmp_path: Path) -> None:
    kept: NewestSteps[str] = NewestSteps(10, 1, tmp_path / "no" / "where")
    kept.add(0, "first", 1)
    kept.add(1, "second", 1)
    assert kept.steps == kept.steps_in_memory == (1,)
    (tmp_path / "no").mkdir()
    kept.add(2, "third", 1)
    assert kept.steps == (2,)  # the second was only in memory
    kept.add(3, "fourth", 1)
    assert kept.steps == (2, 3)
    shutil.rmtree(tmp_path / "no")
    assert (kept.get(2), kept.get(3)) == (None, "fourth")
    assert kept.steps == (3,)


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
        kept, found = (run.saved.states(step) for run in (held, stored))
        assert (kept.step, kept.layout, kept.values) == (found.step, found.layout, found.values)
        for name in ("whole_before", "whole_live", "before", "live"):
            pair = [{n: a.tobytes() for n, a in getattr(s, name).items()} for s in (kept, found)]
            assert pair[0] == pair[1]
        kept, found = (run.saved.codes(step) for run in (held, stored))
        assert [c.tobytes() for c in kept] == [c.tobytes() for c in found]
    stored.close()
    assert stored.saved.with_states() == (4,)


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_older_steps_from_disk(make_run: MakeRun, monkeypatch: Patch, scope: str) -> None:
    """As dissected; who still looks at a closed run can."""
    made: list[Sequence[Alphabet]] = []
    dissect = saved_step.dissect_weights

    def seen(*arguments: Any) -> Any:
        found = dissect(*arguments)
        made.append(found[0])
        return found

    monkeypatch.setattr(saved_step, "dissect_weights", seen)
    run = finished(make_run("lenet5", scope=scope, stop_after=4))
    run.saved._journal._recent.clear()
    run.close()
    stored = run.snapshot()
    for c, alphabets in zip(stored.checkpoints[1:], made, strict=True):
        assert len(c.alphabets) == len(alphabets)
        assert facts(c.alphabets) == facts(alphabets)


def test_memory_does_not_grow(make_run: MakeRun, monkeypatch: Patch) -> None:
    """Neither by what was stored, nor by what was read."""
    made: list[weakref.ref[Alphabet]] = []
    dissect = saved_step.dissect_weights

    def seen(*arguments: Any) -> Any:
        found = dissect(*arguments)
        made.extend(weakref.ref(a) for a in found[0])
        return found

    monkeypatch.setattr(saved_step, "dissect_weights", seen)
    run = finished(make_run(stop_after=RECENT + 4))
    gc.collect()
    assert (len(made), sum(ref() is not None for ref in made)) == (RECENT + 4, RECENT)
    read = [weakref.ref(c.alphabets[0]) for c in run.snapshot().checkpoints[1:-1]]
    gc.collect()
    assert sum(ref() is not None for ref in read) == RECENT


def test_a_full_disk_loses_nothing(make_run: MakeRun, monkeypatch: Patch) -> None:
    """While it is full, alphabets stay in memory; then all is written."""
    run = make_run(stop_after=5)
    stepped(run, 2)
    journal = run.saved._journal
    monkeypatch.setattr(journal, "_opened", refused)
    full = stepped(run, 2)
    in_memory = [c.step for c in full.checkpoints[1:] if isinstance(c.alphabets, tuple)]
    assert in_memory == [3, 4]
    monkeypatch.undo()
    assert not isinstance(stepped(run, 1).newest.alphabets, tuple)
    assert len(full.at(4).alphabets) == 1
    saved = SavedSteps(run.path.parent)
    saved.load(run.snapshot().steps)
    assert [c.step for c in saved.checkpoints] == [0, 1, 2, 3, 4, 5]
    assert [len(c.alphabets) for c in saved.checkpoints] == [0, 1, 1, 1, 1, 1]
    assert all(c.losses for c in saved.checkpoints)


def refused(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("lost", [1, 12])
def test_an_entry_that_is_not_whole(tmp_path: Path, lost: int) -> None:
    journal = Journal(tmp_path / "journal")
    for entry in ("one", "two" * 40):
        journal.add(entry)
    os.truncate(tmp_path / "journal", os.stat(tmp_path / "journal").st_size - lost)
    after = Journal(tmp_path / "journal")
    assert list(after.entries()) == ["one"]
    for entry in ("abc", "three"):
        after.add(entry)
    again = Journal(tmp_path / "journal")
    for entry in again.entries():
        if entry == "abc":
            break  # unusable, like all after it
    again.add("xyz")
    assert list(Journal(tmp_path / "journal").entries()) == ["one", "xyz"]
