"""The record of a step: as the run saved it, with another setting, and with another cut."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codec
from codec import Coding
from lcviz.live.step_record import StepRecord, saved_record
from tests.lcviz.common import MakeRun

Retry = Callable[..., StepRecord]


WHOLE = {"model": "lenet5", "optimizer": "adam", "optimizer_state": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"scope": "tensor"},
        {"coder": "huffman"},
        WHOLE,
        WHOLE | {"budget": 0.02, "scope": "tensor"},
    ],
    ids=str,
)
def test_as_saved_is_the_record(finished_runs: MakeRun, changes: dict[str, Any]) -> None:
    run = finished_runs(**changes)
    for checkpoint in run.snapshot().checkpoints[1:]:
        shown = saved_record(run, checkpoint)
        assert shown.nbytes == checkpoint.nbytes
        assert min(shown.header_nbytes, shown.table_nbytes, shown.word_nbytes) > 0
        moments = checkpoint.saved.moment_nbytes
        assert (moments > 0) == run.settings.optimizer_state
        most = changes.get("budget", 1) * checkpoint.saved.lossy_nbytes
        assert checkpoint.nbytes - checkpoint.saved.exact_nbytes - moments <= most
        assert not shown.is_trial
        restored = codec.restore(run.path, checkpoint.step)
        restored = restored.get("model", restored)
        assert shown.restored is not None
        for name, array in shown.restored.items():
            np.testing.assert_array_equal(array, restored[name].numpy(), strict=True)
        before = run.saved.states(checkpoint.step).before
        coded = [name for a in shown.alphabets for name in a.names]
        changed = sum(np.count_nonzero(shown.restored[n] != before[n]) for n in coded)
        assert shown.n_changed == changed


def test_what_is_stored_exactly_is_counted_once(finished_runs: MakeRun, retry: Retry) -> None:
    run = finished_runs("lenet5", stop_after=2)
    checkpoint = run.snapshot().newest
    shown, again = saved_record(run, checkpoint), retry(run, Coding(1))
    assert shown.exact_nbytes == again.exact_nbytes == checkpoint.saved.exact_nbytes > 50
    assert 150 < again.header_nbytes < 250
    assert abs(shown.header_nbytes - again.header_nbytes) < 10


def test_a_cut_keeps_the_largest_buckets(finished_runs: MakeRun, retry: Retry) -> None:
    run = finished_runs()
    saved = saved_record(run, run.snapshot().checkpoints[1])
    coding = run.settings.coding
    sizes = []
    for most in (0, 1, 2, 3, 7, 500):
        shown = retry(run, coding, most, step=1)
        assert shown.n_kept == (min(most, len(saved.alphabets[0].buckets)),)
        sizes.append(shown.nbytes)
    assert sizes == sorted(sizes)
    three = retry(run, coding, 3, step=1)
    assert three.is_trial
    assert (three.nbytes, three.words[1]) == (saved.nbytes, saved.words[1])  # 2 bits keep three
    assert all(np.array_equal(three.restored[n], a) for n, a in saved.restored.items())


def test_removed_buckets_start_from_the_true_states(finished_runs: MakeRun) -> None:
    """With nothing left out: the track before, plus E of the delta, plus what is stored exactly."""
    run = finished_runs("lenet5", stop_after=3)
    newest = run.snapshot().newest
    shown, states = saved_record(run, newest), run.saved.states()
    result = shown.removed_buckets(run.task.probe_loss)
    before, live = states.before, states.live
    lossy = [t for a in newest.alphabets for t in a.names]
    assert len(lossy) < len(live)  # its first bias is tiny, and stored as it is
    delta = np.concatenate([(live[n] - before[n]).ravel() for n in lossy])
    middle = codec.dequantize(codec.quantize(delta))
    state, position = {name: array.copy() for name, array in live.items()}, 0
    for name in lossy:
        size = before[name].size
        state[name] = before[name] + middle[position : position + size].reshape(before[name].shape)
        position += size
    assert (result.step, result.loss) == (3, run.task.probe_loss(state))
    off = math.sqrt(sum(np.square(state[n].astype(np.float64) - live[n]).sum() for n in live))
    assert result.distance == pytest.approx(off / newest.moved, rel=1e-3)
    assert sum(b.count for b in result.buckets) == np.count_nonzero(delta)


def test_what_is_no_longer_in_memory_is_shown_as_saved(finished_runs: MakeRun) -> None:
    run = finished_runs(seed=5)
    checkpoint = run.snapshot().checkpoints[1]
    for step in run.saved._codes.steps:
        run.saved._codes.drop(step)
    saved = saved_record(run, checkpoint)
    assert saved.restored is None
    assert saved.nbytes == checkpoint.nbytes
