"""A whole run saved once more is the run that would have had this setting."""

from itertools import pairwise

import numpy as np
import pytest

from codec import Coding
from lcviz.run.run import Run, RunError
from lcviz.run.whole_run import STATES_BUDGET, Replay, Trial
from tests.lcviz.common import MakeRun, Patch


def replayed(run: Run, trial: Trial) -> tuple[Replay, list[tuple[int, float | None]]]:
    """A replay to the end: bytes and metric of each step."""
    replay = Replay(run, trial)
    steps = [replay.save(step, measured=True) for step in replay.steps()]
    return replay, [(step.nbytes, step.metric) for step in steps]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"bits": 1},
        {"bits": None},
        {"bits": 3, "scope": "tensor"},
        {"coder": "huffman"},
        {"budget": 0.1},
        {"tolerance": 1e-4},
        {"distance": 0.3},
    ],
    ids=str,
)
def test_the_run_with_this_setting(finished_runs: MakeRun, changes: dict[str, object]) -> None:
    """The training does not depend on the codec: bytes and restored model are the same."""
    run, other = finished_runs(bits=4), finished_runs(**changes)
    replay, found = replayed(run, Trial(other.settings.coding))
    saved = other.snapshot().checkpoints[1:]
    assert replay.steps() == [c.step for c in saved]
    assert found == [(c.nbytes, c.losses.restored_metric) for c in saved]


def test_a_cut_at_three_buckets_restores_what_two_bits_do(finished_runs: MakeRun) -> None:
    """Of 2 bits; its code tables are new at every step."""
    run = finished_runs()
    (_, cut), (_, whole) = replayed(run, Trial(Coding(4), 3)), replayed(run, Trial(Coding(2)))
    assert [metric for _, metric in cut] == [metric for _, metric in whole]
    assert all(abs(a - b) < 64 for (a, _), (b, _) in zip(cut, whole))


def test_without_carrying_over_each_delta_is_one_interval_s(finished_runs: MakeRun) -> None:
    run = finished_runs()
    replay, _ = replayed(run, Trial(Coding(2), carries=False))
    steps = replay.steps()
    for last, step in pairwise(steps):
        states, before = replay.delta(step).states, run.saved.states(last).live
        for name, live in run.saved.states(step).live.items():
            trained = live - before[name]
            np.testing.assert_allclose(states.live[name] - states.before[name], trained, atol=1e-6)


def test_steps_come_in_order_and_one_that_is_gone_is_named(finished_runs: MakeRun) -> None:
    run = finished_runs(seed=7)
    replay = Replay(run, Trial(Coding(1)))
    assert replay.steps() == [1, 2, 3, 4, 5, 6]
    replay.save(1, measured=False)
    for step in (1, 2):
        run.saved._states.drop(step)
    assert replay.steps() == [1, 3, 4, 5, 6]
    with pytest.raises(RunError, match="The weights of step 2 are no longer kept"):
        replay.save(2, measured=False)
    replay.save(3, measured=False)
    with pytest.raises(RunError, match="Step 3 is done already"):
        replay.save(3, measured=False)
    fresh = Replay(run, Trial(Coding(1)))
    assert fresh.steps() == [3, 4, 5, 6]
    fresh.save(3, measured=False)
    before = fresh.delta(3).states.before
    assert all(np.array_equal(before[n], a) for n, a in run.saved.states(3).before.items())


def test_old_deltas_make_room(finished_runs: MakeRun, monkeypatch: Patch) -> None:
    run = finished_runs()
    monkeypatch.setattr("lcviz.run.whole_run.STATES_BUDGET", 3 * run.saved.states(1).nbytes)
    replay = Replay(run, Trial(Coding(1)))
    replay.pinned_step = 2
    for step in replay.steps():
        replay.save(step, measured=False)
    assert [step for step in replay.steps() if replay.delta(step)] == [2, 5, 6]
    assert STATES_BUDGET > 2**20
