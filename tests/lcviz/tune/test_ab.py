"""Two choices on the same states: against chains that the codec really writes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme.coding import Coding
from codec.state.tensors import copy_arrays, layout_of
from lcviz.run.run import Run
from lcviz.tune import ab
from lcviz.tune.ab import RunState, TrialChain, TrialChains, replayed_steps

Arrays = dict[str, np.ndarray]
OTHERS = [
    Coding(3, "tensor"),
    Coding(None, "model", "huffman"),
    Coding(1, "tensor", "huffman"),
    Coding(None, "tensor", "runlength", 0.1),
]


def walk(n: int, seed: int = 0) -> list[RunState]:
    """A base and n states after it."""
    rng = np.random.default_rng(seed)
    state = {"w": rng.normal(size=(30, 40)), "b": rng.normal(size=30), "few": rng.normal(size=3)}
    states = []
    for step in range(n + 1):
        arrays = {name: a.astype(np.float32) for name, a in state.items()}
        states.append(RunState(step, arrays, 2.0 * step))
        for a in state.values():
            a += rng.normal(size=a.shape) * 2.0 ** rng.integers(-9, 1, size=a.shape)
    return states


def follow(choice: Coding, states: list[RunState]) -> TrialChain:
    replay = TrialChain(choice, layout_of(states[0].arrays), states[0].arrays)
    for moment in states[1:]:
        replay.save(moment)
    return replay


def test_with_a_run_s_own_settings_it_is_the_run(finished_runs: Callable[..., Run]) -> None:
    """Byte for byte, table for table, and the same weights as its chain restores."""
    run = finished_runs(interval=1)
    snapshot, s = run.snapshot(), run.settings
    states = []
    for c in snapshot.checkpoints:
        both = run.states(c.step)
        assert both is not None
        states.append(RunState(c.step, both.live, c.moved))
    replay = follow(s.coding, states)
    for saved, c in zip(replay.saves, snapshot.checkpoints[1:], strict=True):
        assert (saved.step, saved.nbytes, saved.distance) == (c.step, c.nbytes, c.distance)
        assert saved.kept == sum(a.kept for a in c.alphabets)
        assert saved.table_nbytes == sum(a.table_nbytes for a in c.alphabets)
        assert saved.reused == sum(a.cached for a in c.alphabets)
    restored = codec.restore(run.path)
    for name, array in replay.track.items():
        assert np.array_equal(array, restored[name].numpy())
    side = replay.side(run.task.probe_loss)
    assert side.loss == snapshot.newest.restored_loss
    assert side.buckets == sum(len(a.buckets) for a in snapshot.newest.alphabets)
    assert side.full_nbytes == 4 * side.n == snapshot.newest.full_nbytes


@pytest.mark.parametrize("choice", OTHERS)
def test_other_settings_are_what_a_chain_of_theirs_holds(choice: Coding, tmp_path: Path) -> None:
    states = walk(5)
    with codec.Checkpointer(tmp_path / "c.lcc", **choice.header(), base_every=None) as checkpointer:
        saved = [checkpointer.save(m.step, m.arrays) for m in states]
    replay = follow(choice, states)
    assert [s.nbytes for s in replay.saves] == [s.nbytes for s in saved[1:]]
    assert [s.kept for s in replay.saves] == [s.levels for s in saved[1:]]
    assert [(s.tables - s.reused, s.reused) for s in replay.saves] == [s.tables for s in saved[1:]]
    restored = codec.restore(tmp_path / "c.lcc")
    for name, array in replay.track.items():
        assert np.array_equal(array, restored[name])


def test_distances_against_a_slow_track() -> None:
    """The paper's feedback by hand: quantize the distance to the track, add, go on."""
    states = walk(4)
    track = copy_arrays(states[0].arrays)
    replay = follow(Coding(2), states)
    for moment, saved in zip(states[1:], replay.saves, strict=True):
        names = ["w", "b"]  # "few" is so small that it is stored exactly
        delta = np.concatenate([(moment.arrays[n] - track[n]).ravel() for n in names])
        added = codec.dequantize(codec.quantize(delta, 2))
        for name, part in zip(names, np.split(added, [moment.arrays["w"].size]), strict=True):
            track[name] = track[name] + part.reshape(track[name].shape)
        track["few"] = moment.arrays["few"].copy()
        off = np.sqrt(
            sum(np.square(track[n] - moment.arrays[n], dtype=np.float64).sum() for n in track)
        )
        assert saved.distance == pytest.approx(float(off) / moment.moved, rel=1e-5)
    side = replay.side(lambda state: float(state["w"].sum()))
    assert side.loss == float(replay.track["w"].sum())
    assert side.bits == 8 * side.newest.nbytes / 1233
    assert side.mean_nbytes == sum(s.nbytes for s in side.saves) / 4


def test_a_side_is_measured_once_a_checkpoint() -> None:
    states, asked = walk(3), []

    def loss_of(state: Any) -> float:
        asked.append(state)
        return 1.0

    replay = follow(Coding(2), states[:3])
    assert replay.side(loss_of) is replay.side(loss_of)
    replay.save(states[3])
    assert len(replay.side(loss_of).saves) == 3
    assert len(asked) == 2


def test_a_side_that_was_measured_holds_its_track_alone() -> None:
    states = walk(2)
    replay = follow(Coding(2), states)
    replay.side(lambda _: 1.0)
    newest = weakref.ref(states[-1].arrays["w"])
    del states
    gc.collect()
    assert newest() is None


def test_replays_save_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    states, saves = walk(9), []
    save = TrialChain.save

    def counted(own: TrialChain, moment: RunState) -> Any:
        saves.append((own.choice.bits, moment.step))
        return save(own, moment)

    monkeypatch.setattr(TrialChain, "save", counted)
    layout, replays = layout_of(states[0].arrays), TrialChains()
    one = replays.replay(Coding(1), layout, states[:4])
    assert saves == [(1, 1), (1, 2), (1, 3)]
    assert replays.replay(Coding(1), layout, states[:6]) is one
    assert saves[3:] == [(1, 4), (1, 5)]
    replays.replay(Coding(2), layout, states[:2])
    assert replays.replay(Coding(1), layout, states[:6]) is one  # it is still there
    assert len(saves) == 6
    alone = follow(Coding(1), states[:6])
    assert [replace(s, seconds=0) for s in one.saves] == [
        replace(s, seconds=0) for s in alone.saves
    ]
    moved = replays.replay(Coding(1), layout, states[4:])  # another base: all anew
    assert [s.step for s in moved.saves] == [5, 6, 7, 8, 9]
    monkeypatch.setattr(ab, "MOST_REPLAYS", 2)
    for bits in (2, 3, 4):
        replays.replay(Coding(bits), layout, states[4:6])
    assert replays.replay(Coding(1), layout, states[4:]) is not moved


def test_which_steps_are_replayed_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ab, "MOST_CHECKPOINTS", 8)
    assert replayed_steps([0], 1) == (0,)
    assert replayed_steps([0, 5, 10], 5) == (0, 5, 10)
    assert replayed_steps(range(9), 1) == tuple(range(4, 9))
    for newest in range(8, 40):  # the base leaps; some are always seen, and never too many
        steps = replayed_steps(range(newest + 1), 1)
        assert steps == tuple(range(steps[0], newest + 1))
        assert steps[0] % 4 == 0
        assert 5 <= len(steps) <= 8
    bases = {replayed_steps(range(max(0, n - 4), n + 1), 1)[0] for n in range(4, 30)}
    assert len(bases) <= 14  # and where few are held, by leaps of half as many
    assert replayed_steps([21, 23], 2) == (21, 23)
    assert replayed_steps(range(0, 36, 2), 2)[0] == 24  # of checkpoints, not of iterations
