"""Live's pictures as values: what is drawn is what the step has."""

import base64
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codec
from codec import Coding
from codec.inspect import element_bits
from demo_models import make_task
from lcviz.lab.anatomy import totals
from lcviz.lab.follow_weight import Weight
from lcviz.live.bits_picture import bits_picture
from lcviz.live.buckets_picture import Worth, bits_that_keep, buckets_picture
from lcviz.live.examples_picture import BYTES, N, examples_picture
from lcviz.live.followed import WeightHistory, first_weight, history_of
from lcviz.live.headline import crash_of, headline, reads_of, status_of, tried_settings
from lcviz.live.loss_picture import loss_picture
from lcviz.live.page_pictures import Subject, pictures
from lcviz.live.step_record import StepRecord, saved_record
from lcviz.live.steps_picture import MOST_BARS, steps_picture
from lcviz.live.weights_picture import (
    HEIGHT,
    MOST_PIXELS,
    WIDTH,
    Image,
    drawable,
    pixels,
    weights_picture,
)
from lcviz.run.run import Run
from lcviz.run.whole_run import Trial
from lcviz.text import nbytes_text, percent_text
from lcviz.ui.picture import Picture, drawing
from tests.lcviz.common import MakeRun
from tests.worded import MARK, QUANTITY, all_worded, as_read, worded

Retry = Callable[..., StepRecord]
Models = tuple[str, dict[str, Any]]
MODELS: tuple[Models, ...] = (
    ("logistic-regression", {}),
    ("matrix-factorization", {"stop_after": 2, "budget": 0.05}),
    ("lenet5", {"stop_after": 2}),
    ("byte-transformer", {"stop_after": 1, "budget": 0.05}),
)


def quantities(data: object) -> list[tuple[str, float]]:
    """Name and value of each number in a picture that says what it is."""
    if isinstance(data, str):
        return [(name, float(value)) for name, value, _ in QUANTITY.findall(data)]
    parts = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return [one for part in parts for one in quantities(part)]


def check(picture: Picture) -> dict[str, Any]:
    """JSON without NaN, a module that draws it, words and a table; what is drawn."""
    data = worded(picture.data)
    assert "function draw" in drawing(picture.name)
    assert data["text"].endswith(".")
    assert len(picture.table) > 0
    return data


def newest(run: Run) -> Any:
    return saved_record(run, run.snapshot().newest)


def thread_in(run: Run, shown: StepRecord) -> WeightHistory:
    return history_of(run, shown, first_weight(shown))


def test_weights(finished_runs: MakeRun) -> None:
    """What is drawn is what the board draws, see tests/lcviz/play/test_worker.py."""
    run = finished_runs()
    shown, image_of = newest(run), Image.of(newest(run), "linear.weight", 28)
    followed = thread_in(run, shown).followed
    data = check(weights_picture(shown, image_of, followed, with_values=False))
    assert data["values"] is None
    assert image_of.weight(*data["followed"]) == followed.weight
    for place in ((28, 0), (57, 0), (-1, 0)):  # between two tiles, or outside
        assert image_of.weight(*place) is None
    assert image_of.pixel(Weight("linear.bias", 0)) is None
    of, written = "linear.weight (10 × 28 × 28)", data["captions"]["written"]
    changed = np.count_nonzero(
        shown.restored["linear.weight"] != shown.states.before["linear.weight"]
    )
    assert f"{changed:,} of 7,840 weights in {of}" in written
    assert as_read(data["text"]) == as_read(written)
    assert MARK.findall(data["captions"]["missing"]) == ["track"]
    assert "track" in data["terms"]


def test_a_tensor_of_any_shape_is_an_image() -> None:
    for shape in ((6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (10, 784), (3,), (50, 2), (900, 1000)):
        changes = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        for side in (28, None):
            found = pixels(shape, side, changes)
            assert found.ndim == 2
            assert found.size <= MOST_PIXELS + 2000
            assert found.max() == changes.size - 1
            if found.size < 20_000:  # every weight has one pixel
                assert sorted(found[found >= 0].tolist()) == list(range(changes.size))
    # Of a block the weight that changes most, whatever its sign; and nothing outside the tensor.
    large = np.zeros((701, 900), np.float32)
    large[699, 3] = -5.0
    assert 699 * 900 + 3 in pixels(large.shape, None, large)
    # A long thin matrix is folded until its weights can be seen.
    thin = pixels((8, 610), None, np.zeros((8, 610), np.float32))
    assert min(WIDTH / thin.shape[1], HEIGHT / thin.shape[0]) >= 2.5 > 4 * WIDTH / 610
    assert drawable({"a": np.zeros(9), "b": np.zeros((2, 2)), "c": np.zeros((3, 3))}) == ["c", "b"]
    assert drawable({"a": np.zeros(9)}) == ["a"]


@pytest.mark.parametrize(
    ("target", "scope"), [({"budget": 0.1}, "model"), ({"tolerance": 1e-5}, "tensor")]
)
def test_steps(finished_runs: MakeRun, retry: Retry, target: dict[str, float], scope: str) -> None:
    run = finished_runs(scope=scope, **target)
    shown = newest(run)
    data = check(steps_picture(shown))
    alphabet = max(shown.alphabets, key=lambda a: a.n)
    moved = int(alphabet.buckets.count[: alphabet.n_kept].sum())
    assert sum(bar["count"] for bar in data["bars"]) == moved
    assert (data["dead"], data["size"]) == (alphabet.n - moved, alphabet.encoded.levels[1])
    assert max(abs(bar["at"]) for bar in data["bars"]) <= MOST_BARS
    assert 0 not in {bar["at"] for bar in data["bars"]}
    table = steps_picture(shown).table
    assert table["values"].sum() == alphabet.n
    assert table["change"].is_monotonic_increasing
    assert f"{moved:,} of {alphabet.n:,} values" in as_read(data["text"])
    starts = [octave["at"] for octave in data["octaves"]]
    assert starts == sorted(starts)
    again = retry(run, run.settings.coding, 2)  # steps are no buckets to cut
    assert (again.n_kept, again.nbytes) == (shown.n_kept, shown.nbytes)


def test_many_steps_share_bars(finished_runs: MakeRun) -> None:
    coarse, fine = (steps_picture(newest(finished_runs(tolerance=t))).data for t in (1e-3, 1e-6))
    assert coarse["each"] == 1
    assert fine["each"] > 1
    assert fine["dead"] < coarse["dead"]


def test_in_the_dead_zone(finished_runs: MakeRun) -> None:
    shown = newest(finished_runs(tolerance=1.0))
    data = check(steps_picture(shown))
    assert (data["bars"], data["size"]) == ([], 0)
    assert as_read(data["text"]).startswith("All changes lie in the dead zone")
    data = check(bits_picture(shown))
    assert (data["words"], data["words_are"]) == ([], "No bits are needed: all values are alike.")


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_buckets(finished_runs: MakeRun, retry: Retry, scope: str) -> None:
    run = finished_runs(scope=scope)
    shown = newest(run)
    data = check(buckets_picture(shown, bits_that_keep(shown), Worth(), (-5, 1)))
    bars = {(b["exponent"], b["sign"]): (b["kept"], b["rest"]) for b in data["buckets"]}
    assert bars == {
        (b.exponent, b.sign): (b.kept_members, b.dropped_members) for b in totals(shown.alphabets)
    }
    assert (data["cut"], data["bits"]) == (3 if scope == "model" else None, "2")
    assert data["marked"] == [-5, 1]
    if scope == "model":
        other = retry(run, run.settings.coding, 5)
        data = check(buckets_picture(other, bits_that_keep(other), Worth()))
        assert (data["cut"], data["bits"]) == (5, "")
        assert sum(b["kept"] for b in data["buckets"]) == other.n_changed
        every = retry(run, run.settings.coding, 500)
        assert check(buckets_picture(every, bits_that_keep(every), Worth()))["bits"] == "all"


def test_what_a_bucket_is_worth(finished_runs: MakeRun) -> None:
    """The error is that of a delta without the bucket, the loss that of its model."""
    run = finished_runs(scope="tensor")
    shown = newest(run)
    removed = shown.removed_buckets(run.task.probe_loss)
    losses = {(b.exponent, b.sign): b.loss for b in removed.buckets}
    distances = {(b.exponent, b.sign): b.distance for b in removed.buckets}
    data = check(buckets_picture(shown, bits_that_keep(shown), Worth(True, removed)))
    assert (data["view"], data["loss"]) == ("error", round(removed.loss, 6))
    delta = np.concatenate(
        [(shown.states.live[n] - shown.states.before[n]).ravel() for n in shown.states.live]
    ).astype(np.float64)
    size = np.linalg.norm(delta)
    for bar in data["buckets"]:
        key = bar["exponent"], bar["sign"]
        without = shown.checkpoint.moved * distances[key]
        assert bar["error"] == pytest.approx(without / size, abs=1e-4)
        assert bar["loss"] == round(losses[key], 6)
    assert max(bar["error"] for bar in data["buckets"]) > data["rounding"] > 0
    assert "the loss is" in data["text"]
    most, other = sorted(data["buckets"], key=lambda bar: -bar["error"])[:2]
    for bar, outlined in ((most, False), (other, True)):  # the largest is told anyway
        key = bar["exponent"], bar["sign"]
        marked = check(buckets_picture(shown, 2, Worth(True, removed), key))["text"]
        assert f"outlined bucket, {percent_text(bar['error'])} is lost." in marked or not outlined
        assert ("outlined" in marked) == outlined
    waiting = check(buckets_picture(shown, 2, Worth(True, waiting="Pause first.")))
    assert waiting["text"].endswith("Pause first.")
    assert {bar["loss"] for bar in waiting["buckets"]} == {None}


@pytest.mark.parametrize("coder", ["runlength", "huffman", "context"])
def test_bits(finished_runs: MakeRun, retry: Retry, coder: str) -> None:
    run = finished_runs(coder=coder)
    shown = newest(run)
    thread, at = thread_in(run, shown), Image.of(shown, "linear.weight", 28)
    data = check(bits_picture(shown, thread, at))
    followed = [word for word in data["words"] if word["here"]]
    assert [word["weight"] for word in followed] == [
        [thread.followed.weight.tensor, thread.followed.weight.index]
    ]
    assert all(at.weight(*word["pixel"]) == Weight(*word["weight"]) for word in data["words"])
    assert sum(part["nbytes"] for part in data["parts"]) == shown.checkpoint.nbytes
    sizes = {one["name"]: one["nbytes"] for one in data["compare"]}
    assert sizes["entropy of values"] == shown.sizes.entropy
    assert sizes["2 bits each"] == math.ceil(shown.n / 4)
    here = [coder == name for name in ("runlength", "huffman", "context")]
    assert [one["here"] for one in data["compare"]] == [False, *here, False]
    every = check(bits_picture(retry(run, run.settings.coding, 5)))  # and 0: six
    assert every["compare"][0]["name"] == "3 bits each"
    bits = "".join(word["bits"] for word in data["words"] if "after" not in word)
    payload = shown.alphabets[0].encoded.payload.words.view(np.uint8)
    stream = "".join(map(str, np.unpackbits(payload, bitorder="little")))
    assert stream.startswith(bits)
    assert len([word for word in data["words"] if "after" not in word]) == 24


@pytest.mark.parametrize(
    ("coder", "target", "kind"),
    [("context", {"bits": 3}, "2"), ("runlength", {"budget": 0.05}, "step")],
)
def test_bits_of_a_context_code(
    finished_runs: MakeRun, coder: str, target: dict[str, float], kind: str
) -> None:
    """What the record really uses: no code words, but what each change takes."""
    shown = newest(finished_runs(coder=coder, **target))
    (alphabet,) = shown.alphabets
    assert alphabet.encoded.payload.TITLE == "context code"
    data = check(bits_picture(shown))
    assert data["coder"] == coder
    assert ", with a context code" in data["text"]
    assert ("shorter here than runs" in data["text"]) == (coder == "runlength")
    assert [p["label"] for p in data["parts"] if p["name"] == "code words"] == ["context code"]
    assert data["words_are"] == "Bits of each change and the zeros before it:"
    assert len(data["words"]) == 24
    assert all(kind in word["title"] for word in data["words"])
    each = element_bits(alphabet.encoded)
    assert each.sum() == pytest.approx(alphabet.encoded.payload.bits, abs=48)
    codes = codec.decode(alphabet.encoded).codes.reshape(-1)
    ends = np.flatnonzero(codes)[:24]
    found = [float(word["bits"]) for word in data["words"]]
    assert sum(found) == pytest.approx(each[: ends[-1] + 1].sum(), abs=24 * 0.05)


def pairs(
    steps: list[int], live: list[float], restored: list[float]
) -> dict[int, tuple[float, float]]:
    return dict(zip(steps, zip(live, restored)))


def test_the_loss_of_the_step_that_is_shown() -> None:
    steps, live, restored = [0, 190, 280], [2.0, 1.5, 1.0], [2.0, 1.5, 1.1]
    all_losses = pairs(steps, live, restored)
    for asked, step in ((190, 190), (280, 280), (285, 280), (0, 0)):
        text = check(loss_picture(all_losses, asked, 300))["text"]
        assert text.startswith(f"At step {step}:")


def test_loss_and_a_log_axis() -> None:
    steps, live = [0, 5, 10], [2.0, math.nan, 1.0]
    data = check(loss_picture(pairs(steps, live, [2.0, 1.9, math.inf]), 5, 20, [7]))
    assert [line["y"] for line in data["lines"]] == [[2.0, None, 1.0], [2.0, 1.9, None]]
    assert (data["range"], data["log"]) == ([0, 20], False)
    assert [(m["step"], m["strong"]) for m in data["marks"]] == [(5, False), (7, True)]
    assert (data["marks"][1]["text"], data["marks"][1]["above"]) == ("killed", True)  # close by
    far = check(loss_picture(pairs(steps, live, live), 5, 20, [17]))["marks"][1]
    assert (far["text"], far["above"]) == ("killed at 17", False)
    assert "At step 5: " in data["text"]
    lost = check(loss_picture(pairs(steps, live, [2.0, 1.9, math.inf]), 10, 20))
    assert as_read(lost["text"]).endswith("restored not finite.")
    above, below, none = (
        as_read(check(loss_picture({5: (live_loss, 0.51)}, 5, 20))["text"])
        for live_loss in (0.5, 0.6, 0.0)
    )
    assert above == "At step 5: live 0.500, restored 0.510, 2.00 % above."
    assert below == "At step 5: live 0.600, restored 0.510, 15.00 % below."
    assert none == "At step 5: live 0.00, restored 0.510."
    assert check(loss_picture(pairs(steps, [1, 1e5, 3], [1, 2, 3]), 5, 20))["log"]


def test_examples_of_images_and_ratings(finished_runs: MakeRun) -> None:
    task = finished_runs().task
    truth = task.probe[-1][:N]
    wrong = truth.clone()
    wrong[3] = (wrong[3] + 1) % 10
    data = check(examples_picture(task, truth, wrong, 0.5, 0.25))
    assert [row["differ"] for row in data["examples"]] == [i == 3 for i in range(N)]
    assert [row["restored_wrong"] for row in data["examples"]] == [i == 3 for i in range(N)]
    assert [as_read(score["text"]) for score in data["scores"]] == ["50.00 %", "25.00 %"]
    pixels = np.frombuffer(base64.b64decode(data["examples"][0]["pixels"]), np.uint8)
    assert pixels.max() == round(255 * float(task.probe[0][0].max()))
    ratings = finished_runs("matrix-factorization").task
    guessed = ratings.predictions(N, ratings.model.state_dict())
    data = check(examples_picture(ratings, guessed, guessed + 1, None, 1.25))
    assert all(row["differ"] and row["pixels"] is None for row in data["examples"])
    assert [(s["name"], as_read(s["text"])) for s in data["scores"]] == [("RMSE restored", "1.25")]


def test_examples_of_text() -> None:
    """Twenty bytes of one text, each guessed from those before it."""
    task = make_task("byte-transformer", "python-sources")
    truth = task.probe[-1][0, -BYTES:]
    wrong = truth.clone()
    wrong[3] = ord("\n")
    data = check(examples_picture(task, truth, wrong, 0.5, 0.25))
    assert data["rows"] == ["text", "live", "restored"]
    table = examples_picture(task, truth, wrong, 0.5, 0.25).table
    assert table.iloc[3].tolist()[1:] == [repr(chr(int(truth[3]))), r"'\n'"]
    row = data["examples"][3]
    assert (row["restored"], row["differ"], row["restored_wrong"]) == ("↵", True, True)
    text = bytes(truth.tolist()).decode().replace(" ", "␣").replace("\n", "↵")
    for name in ("name", "live"):
        assert "".join(example[name] for example in data["examples"]) == text
    assert {example["pixels"] for example in data["examples"]} == {None}
    assert data["side"] == 0


def test_headline(finished_runs: MakeRun, retry: Retry) -> None:
    run = finished_runs()
    shown, snapshot = newest(run), run.snapshot()
    saved, crash = snapshot.checkpoints, crash_of(snapshot, shown.step)
    status, own = status_of(snapshot, 6, None), Trial(run.settings.coding)
    untried = tried_settings(own, None)
    reads = reads_of(True, 0.875, 0.8125)
    data = check(headline(shown, saved, status, crash, reads, untried))
    assert data["share"] == shown.nbytes / 31_400
    blocks = [(as_read(b["value"]), b["label"]) for b in data["sizes"] + data["consequences"]]
    assert blocks[:3] == [
        ("31.4 kB", "in float32"),
        (nbytes_text(shown.nbytes), "in this checkpoint"),
        (f"{31_400 / shown.nbytes:.0f} ×", "smaller"),
    ]
    assert blocks[3] == ("81.25 %", "read by a restart, live 87.50 %")
    assert blocks[4][1].startswith("a crash now costs")
    then = {"when": "then", "cost": {"price": 9.6, "unsaved": 0, "step": 6}, "raced": None}
    told = check(headline(shown, saved, status, then, reads, untried))["consequences"][1]
    assert as_read(told["value"]) == f"≈ {shown.step} iterations"  # not more than was trained
    assert data["status"] == "iteration 6 of 6, finished"
    assert data["kept"] is None
    full, nbytes = 31_400 * len(saved), sum(c.nbytes for c in saved)
    smaller = f"{nbytes_text(full)} → {nbytes_text(nbytes)}, {full / nbytes:.1f}× smaller"
    assert as_read(data["so_far"]) == f"run so far: {smaller}"
    first = check(headline(saved_record(run, saved[1]), saved, status, crash, None, untried))
    assert as_read(first["so_far"]).startswith("up to step 1: 62.8 kB → ")
    trial = Trial(Coding(1, scope="tensor", coder="huffman"), carries=False)
    every = tried_settings(own, trial)
    sizes = {c.step: 100 for c in saved[1:]}
    other = check(headline(retry(run, Coding(1)), saved, status, crash, None, every, sizes))
    kept = "2 bits, run-length Huffman and one code and keeps what is dropped"
    assert other["kept"] == f"only a try: the run has {kept}"
    whole = saved[0].nbytes + 100 * len(sizes)
    assert as_read(other["so_far"]).startswith(f"whole run: 220 kB → {nbytes_text(whole)}, ")
    example = tried_settings(own, Trial(Coding(None)))
    rmse = reads_of(False, 1.2, 1.25)
    data = check(headline(shown, saved, status, crash, rmse, example, sizes))
    assert as_read(data["consequences"][0]["value"]) == "1.25"
    assert data["consequences"][0]["label"] == "RMSE of a restart, live 1.20"
    assert data["kept"] == "only a try: the run has 2 bits"


@pytest.mark.parametrize(("model", "changes"), MODELS, ids=[name for name, _ in MODELS])
def test_a_quantity_that_appears_twice_is_equal(
    finished_runs: MakeRun, retry: Retry, model: str, changes: dict[str, Any]
) -> None:
    run = finished_runs(model, **changes)
    snapshot, saved = run.snapshot(), newest(run)
    for shown in (saved, retry(run, Coding(3))):
        thread = thread_in(run, shown)
        crash = crash_of(snapshot, snapshot.newest.step)
        every = dict(pictures(run, snapshot, Subject(shown), thread, crash, Worth()))
        values: dict[str, set[float]] = {}
        drawn = all_worded([picture.data for picture in every.values()])
        found = [one for data in drawn for one in quantities(data)]
        for name, value in found:
            values.setdefault(name, set()).add(value)
        assert {name: seen for name, seen in values.items() if len(seen) > 1} == {}
        (whole,) = values["checkpoint-bytes"]
        assert whole == shown.nbytes
        assert len([name for name, _ in found if name == "checkpoint-bytes"]) > 1
        names = ("header", "table", "payload", "exact")
        assert sum(v for n in names for v in values[f"{n}-bytes"]) == whole
        assert {"live-loss", "restored-loss", "run-bytes", "crash-cost"} <= values.keys()
        assert "{{" not in as_read(json.dumps(drawn, ensure_ascii=False))
