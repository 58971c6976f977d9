"""Two variants on the same states: against chains that the codec really writes."""

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
from codec.state.tensors import copy_arrays, layout_of
from lcviz.run.run import Run
from lcviz.tune import ab
from lcviz.tune.ab import Follower, Followers, Moment, Variant, replayed

Arrays = dict[str, np.ndarray]
OTHERS = [
    Variant(3, "tensor"),
    Variant(None, "model", "huffman"),
    Variant(1, "tensor", "huffman"),
    Variant(None, "tensor", "runlength", 0.1),
]


def walk(n: int, seed: int = 0) -> list[Moment]:
    """A base and n states after it."""
    rng = np.random.default_rng(seed)
    state = {"w": rng.normal(size=(30, 40)), "b": rng.normal(size=30), "few": rng.normal(size=3)}
    moments = []
    for step in range(n + 1):
        arrays = {name: a.astype(np.float32) for name, a in state.items()}
        moments.append(Moment(step, arrays, 2.0 * step))
        for a in state.values():
            a += rng.normal(size=a.shape) * 2.0 ** rng.integers(-9, 1, size=a.shape)
    return moments


def follow(variant: Variant, moments: list[Moment]) -> Follower:
    follower = Follower(variant, layout_of(moments[0].arrays), moments[0].arrays)
    for moment in moments[1:]:
        follower.save(moment)
    return follower


def test_with_a_run_s_own_settings_it_is_the_run(finished_runs: Callable[..., Run]) -> None:
    """Byte for byte, table for table, and the same weights as its chain restores."""
    run = finished_runs()
    snapshot, s = run.snapshot(), run.settings
    moments = []
    for c in snapshot.checkpoints:
        states = run.states(c.step)
        assert states is not None
        moments.append(Moment(c.step, states.live, c.moved))
    follower = follow(Variant(s.bits, s.scope, s.coder, s.budget), moments)
    for saved, c in zip(follower.every, snapshot.checkpoints[1:], strict=True):
        assert (saved.step, saved.nbytes, saved.distance) == (c.step, c.nbytes, c.distance)
        assert saved.kept == sum(a.kept for a in c.alphabets)
        assert saved.table_nbytes == sum(a.table_nbytes for a in c.alphabets)
        assert saved.reused == sum(a.cached for a in c.alphabets)
    restored = codec.restore(run.path)
    for name, array in follower.state.items():
        assert np.array_equal(array, restored[name].numpy())
    side = follower.side(run.task.probe_loss)
    assert side.loss == snapshot.newest.restored_loss
    assert side.buckets == sum(len(a.buckets) for a in snapshot.newest.alphabets)
    assert side.full_nbytes == 4 * side.n == snapshot.newest.full_nbytes


@pytest.mark.parametrize("variant", OTHERS)
def test_other_settings_are_what_a_chain_of_theirs_holds(variant: Variant, tmp_path: Path) -> None:
    moments = walk(5)
    v = variant
    with codec.Checkpointer(
        tmp_path / "c.lcc",
        v.bits or 2 if v.budget else v.bits,
        v.scope,
        v.coder,
        budget=v.budget,
        base_every=None,
    ) as checkpointer:
        saved = [checkpointer.save(m.step, m.arrays) for m in moments]
    follower = follow(variant, moments)
    assert [s.nbytes for s in follower.every] == [s.nbytes for s in saved[1:]]
    assert [s.kept for s in follower.every] == [s.levels for s in saved[1:]]
    assert [(s.tables - s.reused, s.reused) for s in follower.every] == [
        s.tables for s in saved[1:]
    ]
    restored = codec.restore(tmp_path / "c.lcc")
    for name, array in follower.state.items():
        assert np.array_equal(array, restored[name])


def test_distances_against_a_slow_track() -> None:
    """The paper's feedback by hand: quantize the distance to the track, add, go on."""
    moments = walk(4)
    track = copy_arrays(moments[0].arrays)
    follower = follow(Variant(2), moments)
    for moment, saved in zip(moments[1:], follower.every, strict=True):
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
    side = follower.side(lambda state: float(state["w"].sum()))
    assert side.loss == float(follower.state["w"].sum())
    assert side.bits == 8 * side.newest.nbytes / 1233
    assert side.mean_nbytes == sum(s.nbytes for s in side.every) / 4


def test_a_side_is_measured_once_a_checkpoint() -> None:
    moments, asked = walk(3), []

    def loss_of(state: Any) -> float:
        asked.append(state)
        return 1.0

    follower = follow(Variant(2), moments[:3])
    assert follower.side(loss_of) is follower.side(loss_of)
    follower.save(moments[3])
    assert len(follower.side(loss_of).every) == 3
    assert len(asked) == 2


def test_a_side_that_was_measured_holds_its_track_alone() -> None:
    moments = walk(2)
    follower = follow(Variant(2), moments)
    follower.side(lambda _: 1.0)
    newest = weakref.ref(moments[-1].arrays["w"])
    del moments
    gc.collect()
    assert newest() is None


def test_followers_save_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    moments, saves = walk(9), []
    save = Follower.save

    def counted(own: Follower, moment: Moment) -> Any:
        saves.append((own.variant.bits, moment.step))
        return save(own, moment)

    monkeypatch.setattr(Follower, "save", counted)
    layout, followers = layout_of(moments[0].arrays), Followers()
    one = followers.follow(Variant(1), layout, moments[:4])
    assert saves == [(1, 1), (1, 2), (1, 3)]
    assert followers.follow(Variant(1), layout, moments[:6]) is one
    assert saves[3:] == [(1, 4), (1, 5)]
    followers.follow(Variant(2), layout, moments[:2])
    assert followers.follow(Variant(1), layout, moments[:6]) is one  # it is still there
    assert len(saves) == 6
    alone = follow(Variant(1), moments[:6])
    assert [replace(s, seconds=0) for s in one.every] == [
        replace(s, seconds=0) for s in alone.every
    ]
    moved = followers.follow(Variant(1), layout, moments[4:])  # another base: all anew
    assert [s.step for s in moved.every] == [5, 6, 7, 8, 9]
    monkeypatch.setattr(ab, "KEPT", 2)
    for bits in (2, 3, 4):
        followers.follow(Variant(bits), layout, moments[4:6])
    assert followers.follow(Variant(1), layout, moments[4:]) is not moved


def test_which_steps_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ab, "MOST", 8)
    assert replayed([0], 1) == (0,)
    assert replayed([0, 5, 10], 5) == (0, 5, 10)
    assert replayed(range(9), 1) == tuple(range(4, 9))
    for newest in range(8, 40):  # the base leaps; some are always seen, and never too many
        steps = replayed(range(newest + 1), 1)
        assert steps == tuple(range(steps[0], newest + 1))
        assert steps[0] % 4 == 0
        assert 5 <= len(steps) <= 8
    bases = {replayed(range(max(0, n - 4), n + 1), 1)[0] for n in range(4, 30)}
    assert len(bases) <= 14  # and where few are held, by leaps of half as many
    assert replayed([21, 23], 2) == (21, 23)
    assert replayed(range(0, 36, 2), 2)[0] == 24  # leaps are of checkpoints, not of iterations


@pytest.mark.parametrize(
    ("variant", "text"),
    [
        (Variant(1), "1 bit, buckets over the whole model, run-length"),
        (Variant(None, "tensor", "huffman"), "all buckets over each tensor, Huffman"),
        (Variant(None, budget=0.05), "a budget of 5 %, buckets over the whole model, run-length"),
    ],
)
def test_words(variant: Variant, text: str) -> None:
    assert variant.text == text
