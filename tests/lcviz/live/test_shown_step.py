"""The step shown: as the record has it, with another setting, and with another cut."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import codec
from codec import Coding
from lcviz.live.shown_step import as_saved, cut, tried
from lcviz.run.run import Run

Finished = Callable[..., Run]


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_as_saved_is_the_record(finished_runs: Finished, coder: str, scope: str) -> None:
    run = finished_runs(coder=coder, scope=scope)
    for checkpoint in run.snapshot().checkpoints[1:]:
        shown = as_saved(run, checkpoint)
        assert shown.nbytes == checkpoint.nbytes
        assert min(shown.header_nbytes, shown.table_nbytes, shown.word_nbytes) > 0
        assert not shown.trial
        restored = codec.restore(run.path, checkpoint.step)
        assert shown.restored is not None
        for name, array in shown.restored.items():
            np.testing.assert_array_equal(array, restored[name].numpy(), strict=True)
        before = run.states(checkpoint.step).before
        changed = sum(np.count_nonzero(shown.restored[n] != before[n]) for n in before)
        assert shown.values == changed


def test_what_is_stored_exactly_is_counted_once(finished_runs: Finished) -> None:
    run = finished_runs("lenet5", stop_after=2)
    checkpoint = run.snapshot().newest
    shown, again = as_saved(run, checkpoint), tried(run, checkpoint, Coding(1))
    assert again is not None
    assert shown.exact_nbytes == again.exact_nbytes == checkpoint.exact_nbytes > 50
    assert 200 < again.header_nbytes < 300
    assert abs(shown.header_nbytes - again.header_nbytes) < 10


def test_tried_with_its_own_setting_is_the_same(finished_runs: Finished) -> None:
    """Only a table that the record could reuse is new."""
    run = finished_runs()
    checkpoint = run.snapshot().checkpoints[1]
    saved, again = as_saved(run, checkpoint), tried(run, checkpoint, run.settings.coding)
    assert again is not None
    assert (again.nbytes, again.kept, again.words) == (saved.nbytes, saved.kept, saved.words)
    assert again.trial


@pytest.mark.parametrize("coding", [Coding(3), Coding(budget=0.1), Coding(None, "tensor")])
def test_tried_is_what_a_chain_with_that_setting_would_hold(
    finished_runs: Finished, coding: Coding
) -> None:
    """Its first delta has the same base, so a run with that setting has the same record."""
    names = {"bits": coding.bits, "scope": coding.scope, "budget": coding.budget}
    other = finished_runs(**names).snapshot().checkpoints[1]
    run = finished_runs()
    shown = tried(run, run.snapshot().checkpoints[1], coding)
    assert shown is not None
    assert shown.nbytes == other.nbytes
    assert shown.kept == tuple(a.kept for a in other.alphabets)


def test_a_cut_keeps_the_largest_buckets(finished_runs: Finished) -> None:
    run = finished_runs()
    checkpoint = run.snapshot().checkpoints[1]
    saved = as_saved(run, checkpoint)
    sizes = []
    for most in (0, 1, 2, 3, 7, 500):
        shown = cut(saved, most)
        assert shown is not None
        assert shown.kept == (min(most, len(saved.alphabets[0].buckets)),)
        sizes.append(shown.nbytes)
    assert sizes == sorted(sizes)
    three = cut(saved, 3)
    assert three is not None
    assert (three.nbytes, three.words) == (saved.nbytes, saved.words)  # 2 bits keep three
    assert all(np.array_equal(three.restored[n], a) for n, a in saved.restored.items())


def test_what_is_no_longer_in_memory_is_shown_as_saved(finished_runs: Finished) -> None:
    run = finished_runs(seed=5)
    checkpoint = run.snapshot().checkpoints[1]
    for step in run._codes.steps:
        run._codes.drop(step)
    saved = as_saved(run, checkpoint)
    assert saved.restored is None
    assert cut(saved, 1) is None
    assert saved.nbytes == checkpoint.nbytes
    for step in run._states.steps:
        run._states.drop(step)
    assert tried(run, checkpoint, Coding(3)) is None
