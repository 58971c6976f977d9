"""The weight that Live follows: which one, what a step does to it, and its way so far."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import codec
from codec import Coding
from lcviz.lab.follow_weight import Weight
from lcviz.live import followed as module
from lcviz.live.followed import first_weight, history_of, largest_in_bucket
from lcviz.live.step_record import StepRecord, saved_record
from lcviz.live.steps_picture import Bars
from lcviz.run.run import Run
from lcviz.run.whole_run import Replay, Trial
from tests.lcviz.common import Make, MakeRun

Retry = Callable[..., StepRecord]
W = "linear.weight"


def newest(run: Run) -> Any:
    return saved_record(run, run.snapshot().newest)


def deltas(shown: Any) -> np.ndarray:
    """δ of the weights."""
    change: np.ndarray = shown.states.live[W] - shown.states.before[W]
    return change


def test_stairs_are_the_track_just_before_each_step(finished_runs: MakeRun) -> None:
    run = finished_runs()
    weight = Weight(W, 1234)
    stairs = history_of(run, newest(run), weight).stairs
    assert list(stairs) == [1, 2, 3, 4, 5, 6]
    for step, stair in stairs.items():
        assert stair.u == weight.of(run.saved.states(step).live)
        before = codec.restore(run.path, step - 1)[W].reshape(-1)[weight.index]
        assert stair.track == float(before)


def test_stairs_of_a_whole_run_that_is_tried(finished_runs: MakeRun, retry: Retry) -> None:
    run = finished_runs()
    replay = Replay(run, Trial(Coding(1), carries=False))
    for step in replay.steps():
        replay.save(step, measured=False)
    shown = retry(run, Coding(1), carries=False)
    weight = Weight(W, int(np.abs(deltas(newest(run))).argmax()))
    stairs = history_of(run, shown, weight, replay).stairs
    assert list(stairs) == list(replay.steps())
    for step, stair in stairs.items():
        assert stair.u == weight.of(run.saved.states(step).live)
        assert stair.track == weight.of(replay.delta(step).states.before)
    own = history_of(run, shown, weight).stairs
    assert stairs != own
    assert history_of(run, shown, weight, replay, own).stairs == own  # cached stairs are reused


def test_no_more_stairs_than_can_be_told_apart(
    finished_runs: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert module.MOST_STAIRS == 100
    monkeypatch.setattr(module, "MOST_STAIRS", 4)
    run = finished_runs(stop_after=7)
    stairs = history_of(run, newest(run), Weight("linear.bias", 3)).stairs
    assert 2 < len(stairs) <= 5
    assert max(stairs) == 7


def test_the_first_weight_has_waited_to_be_kept(finished_runs: MakeRun) -> None:
    run = finished_runs()
    shown = newest(run)
    weight = first_weight(shown)
    followed = history_of(run, shown, weight).followed
    assert weight.tensor == W
    assert followed.level
    written = shown.restored[W] != shown.states.before[W]
    assert abs(followed.delta) == np.abs(deltas(shown))[written].min()


def test_the_largest_change_of_a_bucket(finished_runs: MakeRun) -> None:
    shown = newest(finished_runs())
    change = deltas(shown)
    expected = Weight(W, int(np.abs(change).argmax()))
    largest = change.reshape(-1)[expected.index]
    bucket = int(np.frexp(largest)[1]) - 1, int(largest < 0)
    for tensor in (W, "linear.bias"):  # the bias has none that large
        assert largest_in_bucket(shown, bucket, tensor) == expected
    assert largest_in_bucket(shown, (99, 0), W) is None


@pytest.mark.parametrize(
    ("target", "scope"), [({"budget": 0.05}, "tensor"), ({"tolerance": 1e-6}, "model")]
)
def test_the_largest_change_of_a_bar(
    finished_runs: MakeRun, target: dict[str, float], scope: str
) -> None:
    """In equal steps a bar stands for one level or a few: its weight goes so many steps."""
    run = finished_runs(scope=scope, **target)
    shown = newest(run)
    bars, change = Bars.of(shown), deltas(shown)
    written = shown.restored[W] - shown.states.before[W]
    steps = np.rint(written / bars.size)
    at = np.sign(steps) * np.ceil(np.abs(steps) / bars.steps_per_bar)
    for bar in range(int(at.min()), int(at.max()) + 1):
        weight = bars.weight(shown, bar, W)
        members = np.abs(change[at == bar])
        if not members.size:
            assert weight is None or weight.tensor != W
            continue
        assert weight is not None
        assert (weight.tensor, at.reshape(-1)[weight.index]) == (W, bar)
        assert abs(change.reshape(-1)[weight.index]) == members.max()
        assert bars.bar_of(history_of(run, shown, weight).followed) == bar
    assert bars.weight(shown, 10_000, W) is None


def test_elements_of_an_alphabet_are_weights(finished_runs: MakeRun) -> None:
    shown = newest(finished_runs("lenet5", stop_after=2))
    (alphabet,) = shown.alphabets
    flat = np.concatenate([shown.states.live[name].reshape(-1) for name in alphabet.names])
    for element in (0, 5, 150, 151, 3000, flat.size - 1):
        assert Weight(*alphabet.place(element)).of(shown.states.live) == flat[element]


# On the page.


def parameter(page: Any, name: str) -> str | None:
    value = page.at.query_params.get(name)
    return value[0] if isinstance(value, list) else value


@pytest.mark.usefixtures("server")
def test_a_link_follows_its_weight(live: Make, three_saves: Run) -> None:
    page = live(run=three_saves.id, weight=f"{W}:4321")  # unit 5, pixel (14, 9) of it
    assert page.picture("weight")["about"] == f"{W} (5, 401)"
    assert parameter(page, "weight") == f"{W}:4321"
    assert page.picture("weights")["followed"] == [29 + 14, 9]  # below a line between tiles
    run = page.the_run
    for step in (2, 4, 6):
        page.look_into(step)
        change = Weight(W, 4321)
        states = run.saved.states(step)
        delta = np.float32(change.of(states.live)) - np.float32(change.of(states.before))
        bucket = [int(np.frexp(delta)[1]) - 1, int(delta < 0)] if delta else None
        assert page.picture("buckets")["marked"] == bucket
        assert page.picture("weight")["marks"][0]["step"] == step


@pytest.mark.usefixtures("server")
def test_a_link_to_a_weight_that_is_not_there(live: Make, three_saves: Run) -> None:
    live = partial(live, run=three_saves.id)
    first = live().picture("weight")["about"]
    for text in ("nonsense", "other.weight:3", f"{W}:99999999", "x:-1"):
        assert live(weight=text).picture("weight")["about"] == first


@pytest.mark.usefixtures("server")
def test_a_step_that_is_no_longer_held(live: Make, create: MakeRun) -> None:
    run = create(stop_after=3)
    run.play()
    run.wait(60)
    run.saved._states.drop(2)
    page = live(run=run.id, weight=f"{W}:5").look_into(2)
    assert "weight" not in page.pictures
    assert "no longer kept" in page.served["weight"]
    assert "weight" in page.look_into(3).pictures


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("name", ["live", "tune"])
def test_the_weight_stays_in_the_url_of_every_page(
    page_of: Callable[[AppTest], Any], three_saves: Run, name: str
) -> None:
    def script(name: str) -> None:
        import streamlit as st

        from lcviz import dashboard
        from lcviz.ui import navigation

        dashboard.run(st.navigation([navigation.page(name)], position="hidden"))

    at = AppTest.from_function(script, args=(name,), default_timeout=60)
    at.query_params["weight"] = f"{W}:77"
    at.query_params["run"] = three_saves.id
    page = page_of(at).run()
    assert parameter(page, "weight") == f"{W}:77"
    assert ("weight" in page.pictures) == (name == "live")
