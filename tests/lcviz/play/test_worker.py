"""The play page's worker, without a page: its training, its pictures and its race are Python's."""

import base64
import re
from typing import Any

import numpy as np
import pytest

from lcviz.lab.recovery.kill import Crash, OnDisk
from lcviz.live.buckets_picture import Worth
from lcviz.live.followed import first_weight, history_of
from lcviz.live.headline import crash_of
from lcviz.live.page_pictures import Subject, pictures
from lcviz.live.step_record import saved_record
from lcviz.play.given import given
from lcviz.run.snapshot import RunSettings
from lcviz.server.runs import EXAMPLE
from tests.lcviz.common import MakeRun, finished
from tests.played import DRAW, computed

ITERATIONS = 100
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-−]?\d+)?")
# The training of a seed: its batches, first weights and losses, and what its checkpoints are.
TRAIN = """async ([given, seed, iterations, batches]) => {
    const player = await playerOf(given);
    const training = new Training(player.data.train, seed);
    const first = [...training.parameters];
    const run = new Run(player.data, given.sizes, seed, FIRST_SETTING);
    while (run.iteration < iterations) run.advance();
    return {
        first,
        batches: batches.map(t => [...training.batch(t)]),
        live: run.live.map(one => one.loss),
        saved: run.own.checkpoints.map(one => [one.step, one.nbytes, one.restored.loss]),
    };
}"""
# Within 0.4 %, equal steps have no room in some steps: the budget that is then tried, how
# many weights each checkpoint moves, and what the page says of it.
RAISED = """async given => {
    const player = await playerOf(given);
    while (!player.run.finished) player.run.advance();
    player.step = 20;
    const replayed = async () => {
        player.wake();
        while (player.working) await new Promise(resolve => setTimeout(resolve, 1));
    };
    player.use({ budget: 0.004 });
    await replayed();
    return {
        budget: player.setting.budget,
        moved: player.run.trial.checkpoints.map(({ quantized }) => N - quantized.counts[0]),
        text: said(stepsFacts(player.view())).text,
    };
}"""
RACE = """async ([given, at, setting]) => {
    const player = await playerOf(given);
    const run = player.run;
    while (run.iteration < at) run.advance();
    return raceBack(run).outcomes.map(({ name, rework, capped, nbytes }) =>
        [name, rework, capped, nbytes]);
}"""
# The last state that the page hears of a training up to an iteration between two checkpoints, if
# the page had drawn the one of iteration 43.
TARGET = """async given => {
    const player = await playerOf(given);
    player.post = ({ state }) => player.told = state.iteration;
    while (player.run.iteration < 43) player.run.advance();
    player.changed = false;
    player.target = 47;
    player.wake();
    while (player.working) await new Promise(resolve => setTimeout(resolve, 1));
    return player.told;
}"""


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1])
def test_the_training_follows_python_s(make_run: MakeRun, seed: int) -> None:
    """The same weights and batches, losses within 1e-3 and sizes within 2 %, for 100 iterations."""
    later = [1, 6, 11]  # of other epochs, too
    answer = computed(TRAIN, [given(), seed, ITERATIONS, later])
    settings = RunSettings(seed=seed, stop_after=ITERATIONS)
    task = settings.workload.training(seed).task
    weights = [p.detach().numpy().reshape(-1) for p in task.model.parameters()]
    assert np.abs(answer["first"] - np.concatenate(weights)).max() < 1e-6
    labels = task.dataset.train[1].numpy()
    for iteration, rows in zip(later, answer["batches"], strict=True):
        expected = task.batch(iteration, settings.batch_size)
        assert (labels[rows] == expected[1].numpy()).all()
        assert (task.dataset.train[0][rows] == expected[0]).all()
    snapshot = finished(make_run(settings)).snapshot()
    for (step, nbytes, restored), live in zip(answer["saved"], answer["live"][1:], strict=True):
        expected_live, expected_restored = snapshot.losses[step]
        assert live == pytest.approx(expected_live, abs=1e-3)
        assert restored == pytest.approx(expected_restored, abs=1e-3)
        assert nbytes == pytest.approx(snapshot.at(step).nbytes, rel=0.02)
    assert len(answer["saved"]) == ITERATIONS // settings.interval


def test_the_pictures_are_live_s(make_run: MakeRun) -> None:
    """Of the example's first step on the page: the same facts, up to rounding."""
    run = finished(make_run(EXAMPLE))
    snapshot = run.snapshot()
    record = saved_record(run, snapshot.at(20))
    history = history_of(run, record, first_weight(record))
    crash = crash_of(snapshot, 20)
    expected = {
        name: picture.data
        for name, picture in pictures(run, snapshot, Subject(record), history, crash, Worth())
        if not isinstance(picture, str)
    }
    answer = computed(DRAW, [given(), 20])
    assert answer.keys() == expected.keys()
    # The crash at the end: chains differ by then, where two buckets are nearly equal.
    for own in (answer["headline"], expected["headline"]):
        del own["crash"]["cost"]
    expected["bits"]["parts"] = [part for part in expected["bits"]["parts"] if part["nbytes"]]
    for name in expected:
        same(shown(answer[name]), shown(expected[name]), name)


def shown(data: dict[str, Any]) -> dict[str, Any]:
    """The facts of a picture, with weights by their index."""
    if data["picture"] == "bits":
        for word in [*data["words"], *filter(None, [data["followed"]])]:
            if isinstance(word["weight"], list):
                word["weight"] = word["weight"][1]
    for line in ("losses", "trained", "restored"):  # the last steps differ
        if isinstance(data.get(line), list):
            data[line] = data[line][:10]
    return data


def same(answer: Any, expected: Any, where: str) -> None:
    """Equal up to rounding, also the numbers within texts."""
    if isinstance(expected, dict):
        assert {k for k in answer if answer[k] is not None} == {
            k for k in expected if expected[k] is not None
        }, where
        for name, value in expected.items():
            if value is not None:
                same(answer[name], value, f"{where}.{name}")
    elif isinstance(expected, list | tuple):
        assert len(answer) == len(expected), where
        for i, (one, other) in enumerate(zip(answer, expected)):
            same(one, other, f"{where}[{i}]")
    elif isinstance(expected, str) and len(expected) > 1000:  # base64
        if where.endswith((".u", ".track")):
            floats = (np.frombuffer(base64.b64decode(t), "<f4") for t in (answer, expected))
            assert np.abs(np.subtract(*floats)).max() < 1e-6, where
        else:  # a level of a map, where rounding decides
            assert np.mean([a == b for a, b in zip(answer, expected, strict=True)]) > 0.99, where
    elif isinstance(expected, str):
        answer, expected = (re.sub(r"\[\[|\]\]", "", text) for text in (answer, expected))
        texts = [NUMBER.split(text.replace(",", "")) for text in (answer, expected)]
        assert texts[0] == texts[1], where
        numbers = [
            [float(n) for n in NUMBER.findall(text.replace(",", ""))] for text in (answer, expected)
        ]
        assert numbers[0] == pytest.approx(numbers[1], rel=2e-3), where
    elif isinstance(expected, float) and not isinstance(answer, str):
        assert answer == pytest.approx(expected, rel=2e-3, abs=1e-5), where
    else:
        assert answer == expected, where


def test_the_race_back_is_live_s(make_run: MakeRun) -> None:
    """Full, SCAR, TOPN and LC: the same prices and bytes."""
    settings = RunSettings(stop_after=87)
    run = finished(make_run(settings))
    snapshot = run.snapshot()
    deltas = snapshot.checkpoints[1:]
    crash = Crash(
        settings.workload,
        0,
        87,
        settings.interval,
        OnDisk("lc", chain=run.path, newest=80),
        sum(c.nbytes for c in deltas) / sum(c.full_nbytes for c in deltas),
        "",
    )
    answer = computed(RACE, [given(), 87, None])
    outcomes = crash.race(lambda *_: None).outcomes
    assert [name for name, *_ in answer] == [o.method.name for o in outcomes]
    for (_, rework, capped, nbytes), expected in zip(answer, outcomes, strict=True):
        assert capped == expected.capped
        assert rework == pytest.approx(expected.rework, abs=0.02)
        assert nbytes == pytest.approx(expected.nbytes, rel=0.02)


def test_the_page_hears_of_the_iteration_it_asked_for() -> None:
    assert computed(TARGET, given()) == 47


def test_equal_steps_get_the_room_that_a_change_needs() -> None:
    answer = computed(RAISED, given())
    assert 0.004 < answer["budget"] < 0.02
    assert min(answer["moved"]) > 0
    raised = f"The size is raised to {100 * answer['budget']:.2f} %: with less, a checkpoint"
    assert raised in answer["text"]


# What the page opens with at addresses.
OPENED = """async ([given, fragments]) => {
    globalThis.GIVEN = given;
    const player = await playerOf(given);
    return fragments.map(hash => {
        globalThis.location = { hash };
        player.open(readAddress().opening);
        while (player.isCatchingUp) player.run.advance();
        const { run, setting, followed } = player, { step } = player.shown();
        return { seed: run.seed, ...setting, kills: run.kills, followed, step };
    });
}"""


def test_an_address_that_is_wrong() -> None:
    """What cannot be is left out."""
    fragments = [
        "#x=99&step=-5&killed=abc&dead=1&weight=999999&budget=NaN&seed=-1&at=x&coder=zip",
        "#killed=1-2-900&dead=1&raced=1",
        "#cut=0&step=9999&view=error",
        "#%&&==",
    ]
    for opened in computed(OPENED, [given(), fragments]):
        assert (opened["seed"], opened["x"], opened["coder"]) == (0, 2, "runlength")
        assert set(opened["kills"]) <= {1, 2, 10}
        assert opened["followed"] in (None, 7849)
        assert opened["step"] <= 600
        assert opened["step"] % 10 == 0
