"""The play page, opened from a file without a network: its training, its pictures, its controls."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import demo_models
from lcviz.lab.recovery.kill import Crash, OnDisk
from lcviz.live.buckets_picture import Worth
from lcviz.live.followed import first_weight, history_of
from lcviz.live.headline import describe_crash
from lcviz.live.page_pictures import Subject, pictures
from lcviz.live.step_record import saved_record
from lcviz.play.given import given
from lcviz.play.one_file import WORKER
from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING, RunSettings, Snapshot
from lcviz.server.runs import EXAMPLE
from lcviz.ui.glossary import title_help

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Finish = Callable[[RunSettings], tuple[Run, Snapshot]]
PATIENCE = 60_000
SIZES = ((1280, 720), (1024, 768), (390, 844))
ITERATIONS = 100
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-−]?\d+)?")
PLACES = ("weights", "buckets", "bits", "weight", "loss", "examples")
# The training of a seed: its batches, first weights and losses, and what its checkpoints are.
TRAIN = """async ([given, seed, iterations, batches]) => {
    const player = await playerOf(given);
    const training = new Training(player.data.train, seed);
    const first = [...training.parameters];
    const run = new Run(player.data, given.sizes, seed, FIRST_SETTING);
    const losses = [];
    for (let t = 1; t <= iterations; t++) losses.push(training.iterate(t));
    while (run.iteration < iterations) run.advance();
    return {
        first,
        batches: batches.map(t => [...training.batch(t)]),
        losses,
        live: run.live.map(one => one.loss),
        saved: run.own.checkpoints.map(one => [one.step, one.nbytes, one.restored.loss]),
    };
}"""
# All pictures of a step of the example.
DRAW = """async ([given, step]) => {
    const player = await playerOf(given);
    while (!player.run.finished) player.run.advance();
    player.step = step;
    return picturesOf(player.view());
}"""
RACE = """async ([given, at, setting]) => {
    const player = await playerOf(given);
    const run = player.run;
    while (run.iteration < at) run.advance();
    return raceBack(run).outcomes.map(({ name, rework, capped, nbytes }) =>
        [name, rework, capped, nbytes]);
}"""
PLAYER = """
async function playerOf(given) {
    Object.assign(TERMS, given.terms);
    const bytes = await inflated(given.digits);
    const split = given.train * (SOURCE_PIXELS + 1);
    const [train, heldOut] = [bytes.subarray(0, split), bytes.subarray(split)].map(digitsOf);
    return new Player({ train, heldOut }, given.sizes, () => {});
}
"""


@pytest.fixture(scope="module")
def worker(browser: Browser) -> Iterator[Page]:
    """The worker's code in a page, so that tests can call it."""
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        scripts = (path.read_text("utf-8") for path in WORKER if path.stem != "messages")
        page.set_content(f"<script>{''.join(scripts)}{PLAYER}</script>")
        yield page


@pytest.fixture
def finished(tmp_path: Path) -> Iterator[Callable[[RunSettings], tuple[Run, Snapshot]]]:
    """finished(settings): a run that has ended, and its last snapshot."""
    runs = []

    def make(settings: RunSettings) -> tuple[Run, Snapshot]:
        run = Run("play", settings, tmp_path / "run.lcc")
        runs.append(run)
        run.play()
        while (snapshot := run.wait(5)).status == PLAYING:
            run.watch()
        return run, snapshot

    yield make
    for run in runs:
        run.close()


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1])
def test_the_training_follows_python_s(worker: Page, finished: Finish, seed: int) -> None:
    """The same weights and batches, losses within 1e-3 and sizes within 2 %, for 100 iterations."""
    later = [1, 6, 11]  # of other epochs, too
    answer = worker.evaluate(TRAIN, [given(), seed, ITERATIONS, later])
    settings = RunSettings(seed=seed, stop_after=ITERATIONS)
    task = settings.workload.training(seed).task
    weights = [p.detach().numpy().reshape(-1) for p in task.model.parameters()]
    assert np.abs(answer["first"] - np.concatenate(weights)).max() < 1e-6
    labels = task.dataset.train[1].numpy()
    for iteration, rows in zip(later, answer["batches"], strict=True):
        expected = task.batch(iteration, settings.batch_size)
        assert (labels[rows] == expected[1].numpy()).all()
        assert (task.dataset.train[0][rows] == expected[0]).all()
    _, snapshot = finished(settings)
    for (step, nbytes, restored), live in zip(answer["saved"], answer["live"][1:], strict=True):
        expected_live, expected_restored = snapshot.losses[step]
        assert live == pytest.approx(expected_live, abs=1e-3)
        assert restored == pytest.approx(expected_restored, abs=1e-3)
        assert nbytes == pytest.approx(snapshot.at(step).nbytes, rel=0.02)
    assert len(answer["saved"]) == ITERATIONS // settings.interval


def test_the_batch_losses_follow_python_s(worker: Page) -> None:
    answer = worker.evaluate(TRAIN, [given(), 3, ITERATIONS, []])
    training = demo_models.Training(
        demo_models.make_task("logistic-regression", "digits", seed=3), "sgd", 0.1, 0.0, 256
    )
    expected = [training.iterate(t) for t in range(1, ITERATIONS + 1)]
    assert answer["losses"] == pytest.approx(expected, abs=1e-3)


def test_the_pictures_are_live_s(worker: Page, finished: Finish) -> None:
    """Of the example's first step on the page: the same texts and values, up to rounding."""
    run, snapshot = finished(EXAMPLE)
    record = saved_record(run, snapshot.at(20))
    history = history_of(run, record, first_weight(record))
    crash = describe_crash(snapshot, 20)
    expected = {
        name: picture.data | title_help(picture.title)
        for name, picture in pictures(run, snapshot, Subject(record), history, crash, Worth())
        if not isinstance(picture, str)
    }
    answer = worker.evaluate(DRAW, [given(), 20])
    assert answer.keys() == expected.keys()
    # The crash at the end: chains differ by then, where two buckets are nearly equal.
    for own in (answer["headline"], expected["headline"]):
        own["crash"] = own["text"] = ""
    # The page has no arithmetic code.
    bits = expected["bits"]
    bits["coders"] = [coder for coder in bits["coders"] if coder[0] != "arithmetic"]
    bits["compare"] = [row for row in bits["compare"] if row["name"] != "arithmetic"]
    bits["parts"] = [part for part in bits["parts"] if part["nbytes"]]
    bits["compare"][1]["title"] = bits["compare"][1]["title"].partition(";")[0] + "."
    for name in expected:
        same(shown(answer[name]), shown(expected[name]), name)


def shown(data: dict[str, Any]) -> dict[str, Any]:
    """What a picture shows, without links, and weights by their index."""
    if data["picture"] == "bits":
        for word in data["words"]:
            if isinstance(word["weight"], list):
                word["weight"] = word["weight"][1]
            word.pop("after", None) or word.setdefault("here", False)
    if data["picture"] == "curves":  # the last steps differ
        for line in data["lines"]:
            line["y"] = line["y"][:10]
    if data["picture"] == "weights":
        data["terms"] = {}
    return {name: value for name, value in data.items() if name != "link"}


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


def test_the_race_back_is_live_s(worker: Page, finished: Finish) -> None:
    """Full, SCAR, TOPN and LC: the same prices and bytes."""
    settings = RunSettings(stop_after=87)
    run, snapshot = finished(settings)
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
    answer = worker.evaluate(RACE, [given(), 87, None])
    outcomes = crash.race(lambda *_: None).outcomes
    assert [name for name, *_ in answer] == [o.method.name for o in outcomes]
    for (_, rework, capped, nbytes), expected in zip(answer, outcomes, strict=True):
        assert capped == expected.capped
        assert rework == pytest.approx(expected.rework, abs=0.02)
        assert nbytes == pytest.approx(expected.nbytes, rel=0.02)
