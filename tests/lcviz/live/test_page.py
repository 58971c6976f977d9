"""The Live page as Streamlit runs it, without a browser."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st
import torch

import codec
from demo_models import FOLDER_VARIABLE, MODELS, Task
from lcviz.lab.anatomy import choices, tables, totals, written
from lcviz.lab.tuner.candidates import Setting
from lcviz.live import page as live_page
from lcviz.live.code_tables import code_table, token_table
from lcviz.live.huffman_figure import token_text
from lcviz.live.page_headline import lost
from lcviz.run import run as session
from lcviz.run.run import Run, RunError
from lcviz.server import runs
from lcviz.text import CODER_NAMES, nbytes_text, percent_text
from lcviz.ui import session as state
from lcviz.ui.settings import LOSS_SHARE
from lcviz.ui.snippet import in_a_loop

pytestmark = pytest.mark.usefixtures("server")

PANELS = {"loss", "size", "buckets", "bits", "huffman", "removed"}
SHORT = {"model": "Logistic regression", "iterations": "4"}  # the URL has the words on screen


# The first look.


def test_opens_with_the_finished_example(live: Callable[..., Any]) -> None:
    page = live()
    assert page.texts("title") == ["LC-Checkpoint, live"]
    assert page.charts == PANELS
    assert [b.label for b in page.at.button] == ["Start live training", "Measure it"]
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 6"
    assert not page.texts("error") + page.texts("warning") + page.texts("info")
    assert "run" not in page.at.query_params


def test_the_run_s_setting_for_one_s_own_training(
    live: Callable[..., Any], create: Callable[..., Run]
) -> None:
    run = create(budget=0.05, scope="tensor", coder="huffman", interval=2)
    (code,) = live(run=run.id).at.code
    assert code.value == in_a_loop(Setting(2, 0.05, "tensor", "huffman", 2))


def test_headline_is_the_newest_checkpoint(live: Callable[..., Any]) -> None:
    page = live()
    snapshot = page.the_run.snapshot()
    c = snapshot.newest
    headline = page.texts("subheader")[0]
    assert headline.startswith(f"{nbytes_text(c.full_nbytes)} → {nbytes_text(c.nbytes)}; a crash")
    measured = [(k.step, k.live_loss) for k in snapshot.checkpoints]
    as_bad = max(step for step, loss in measured if loss >= c.restored_loss)
    assert f" {6 - as_bad} iteration" in headline
    found = page.metrics
    whole = sum(f.stat().st_size for f in page.the_run.path.iterdir())
    assert found["This checkpoint"][0] == nbytes_text(c.nbytes)
    assert found["Whole chain"] == (nbytes_text(whole), f"instead of {nbytes_text(4 * 31_400)}")
    assert found["Distance"][0] == percent_text(c.distance)
    assert found["Loss, live"] == (f"{page.the_run.task.probe_loss():.6f}", "at step 6")
    assert found["Loss, restored"][0] == f"{c.restored_loss:.6f}"
    assert "-" not in found["Loss, restored"][1]  # a true minus sign
    buckets = c.alphabets[0].buckets
    assert found["Buckets kept"] == (f"3 of {len(buckets)}", "bits x = 2")
    used = tables(a for k in snapshot.checkpoints for a in k.alphabets)
    assert found["Tables used again"] == (
        f"{used.reused} of 3",
        f"saved {nbytes_text(used.saved_nbytes)}",
    )


@pytest.mark.parametrize("coder", CODER_NAMES)
def test_both_sizes_and_the_entropy_stand_side_by_side(
    live: Callable[..., Any], coder: str
) -> None:
    short = {"runlength": "Run-length", "huffman": "Huffman (paper)"}[coder]
    page = live(**SHORT, coder=short).click("start")
    snapshot = page.finish()
    run = page.the_run
    assert run.settings.coder == coder
    for step in (snapshot.newest.step, 2):
        page.look_into(step)
        c = snapshot.at(step)
        sizes = written(c.alphabets, coder)
        (deltas,) = [p.delta for p in codec.Chain(run.path).replay(step) if p.entry.step == step]
        e = deltas.groups[0].encoded
        on_disk = (e.payload_bits + 7) // 8 + e.table_nbytes + 12
        assert sizes.of(coder) == on_disk
        for name, title in CODER_NAMES.items():
            which = f"{title} · {'on disk' if name == coder else 'instead'}"
            nbytes = sizes.of(name)
            expected = nbytes_text(nbytes), f"{8 * nbytes / sizes.n:.4f} bits a parameter"
            assert page.metrics[which] == expected
        bits = f"{sizes.entropy_bits / sizes.n:.4f} bits a parameter"
        assert page.metrics["Entropy of single values"] == (nbytes_text(sizes.entropy), bits)
        helps = {m.label: m.help for m in page.at.metric}
        assert helps["Entropy of single values"].startswith("Shannon's bound")
        assert helps[f"{CODER_NAMES[coder]} · on disk"].endswith("This is on disk.")
        (text,) = (t for t in page.texts("caption") if t.startswith("On disk: "))
        own, header = nbytes_text(on_disk), nbytes_text(c.nbytes - c.exact_nbytes - on_disk)
        assert text.startswith(f"On disk: {own} of code words, levels and code tables (")
        assert f"({int(e.cached)} of 1 reused), {header} of header" in text
        assert f"{nbytes_text(c.exact_nbytes)} stored exactly" in text
        assert f"{nbytes_text(c.nbytes)} in all." in text


def test_panels_show_the_numbers_of_the_checkpoint(live: Callable[..., Any]) -> None:
    page = live()
    run = page.the_run
    snapshot = run.snapshot()
    c = snapshot.newest
    live_line, restored_line = page.chart("loss")["series"]
    assert live_line["data"] == [[k.step, round(k.live_loss, 6)] for k in snapshot.checkpoints]
    assert restored_line["data"][-1] == [6, round(c.restored_loss, 6)]
    sizes = [k.nbytes for k in snapshot.checkpoints]
    assert page.chart("size")["series"][0]["data"] == [
        [step, round(100 * n / 31_400, 3)] for step, n in zip((2, 4, 6), sizes[1:], strict=True)
    ]
    counted = sum(v or 0 for s in page.chart("buckets")["series"] for v in s["data"])
    assert counted == sum(b.kept + b.dropped for b in totals(c.alphabets))
    codes = run.codes(6)
    every = [k.sizes for k in choices(c.alphabets, codes)]
    drawn = {s["name"]: s["data"] for s in page.chart("bits")["series"]}
    for coder, name in CODER_NAMES.items():
        expected = [round(100 * s.share(s.of(coder)), 3) for s in every]
        assert [d["value"] for d in drawn[name]] == expected
    rows = token_table(c.alphabets[0], codes[0])
    (shown,) = (t.value for t in page.at.dataframe if "token" in t.value.columns)
    assert shown["token"].tolist() == [token_text(r) for r in rows]
    assert shown["code word"].tolist() == [r.word for r in rows]
    assert shown["count"].tolist() == [r.count for r in rows]
    removed = run.removed_buckets(6)
    assert page.removed_step == 6
    assert any(f"{removed.loss:.4f}" in t for t in page.sentences)
    bars = [b for s in page.chart("removed")["series"] for b in s["data"] if b is not None]
    assert sorted(b["value"] for b in bars) == sorted(
        round(b.loss - removed.loss, 6) for b in removed.buckets
    )


def test_charts_are_svg_with_alt_texts(live: Callable[..., Any]) -> None:
    """SVG texts can be read by people and by the browser tests."""
    for element in live().at.get("echarts_chart"):
        assert element.proto.renderer == 1
        assert element.proto.alt.endswith(".")


def test_data_tables(live: Callable[..., Any]) -> None:
    """Switched on, every panel has its numbers below it, the code's table still only once."""
    page = live().set("toggle", "tables", True)
    tables = [*page.at.table, *page.at.dataframe]
    columns = [tuple(t.value.columns) for t in tables]
    assert len(columns) == len(set(columns)) == len(PANELS)
    losses = next(t.value for t in tables if "live" in t.value.columns)
    every = page.the_run.snapshot().checkpoints
    assert losses["live"].tolist() == [c.live_loss for c in every]
    records = next(t.value for t in tables if "float32 bytes" in t.value.columns)
    assert records["bytes"].tolist() == [c.nbytes for c in every]


# Scrubbing.


def test_scrubbing_takes_another_step_apart(live: Callable[..., Any]) -> None:
    page = live()
    first = page.chart("buckets"), page.chart("bits"), page.at.dataframe[0].value
    page.look_into(4)
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 4"
    second = page.chart("buckets"), page.chart("bits"), page.at.dataframe[0].value
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert not first[2].equals(second[2])
    assert page.chart("loss")["series"][0]["markLine"]["data"][0]["xAxis"] == 4
    assert page.follow.value is False
    assert page.removed_step == 4


def test_only_saved_steps_can_be_chosen(
    live: Callable[..., Any], create: Callable[..., Run]
) -> None:
    """The slider has the run's interval; what it has not saved yet is told."""
    run = create(interval=2, stop_after=7)
    run.step()
    run.wait(60)
    page = live(run=run.id)
    slider = page.scrubber
    assert (slider.min, slider.max, slider.step, slider.value) == (0, 6, 2, 2)
    page.look_into(6)
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 2"
    assert any("not saved yet" in t for t in page.texts("caption"))


def test_the_base_is_told_in_a_sentence(live: Callable[..., Any]) -> None:
    page = live().look_into(0)
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 0"
    (sentence,) = page.texts("info")
    assert sentence.startswith("Step 0 is the base: the starting weights, stored exactly.")
    assert page.charts == {"loss", "size"}


def test_following_goes_back_to_the_newest(live: Callable[..., Any]) -> None:
    page = live().look_into(2).follow_newest(True)
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 6"
    assert page.scrubber.value == 6


def test_a_slider_that_can_be_moved_is_never_moved_by_the_page(
    live: Callable[..., Any], create: Callable[..., Run]
) -> None:
    """A poll under way would bring its old value back, which looked like a wish to leave."""
    run = create(stop_after=9)
    page = live(run=run.id).click("step")
    seen = []
    for step in (2, 3):
        page.click("step")
        assert not page.scrubber.disabled
        assert page.scrubber.value == step
        seen.append(page.scrubber.key)
    assert len(set(seen)) == 2
    toggle = page.follow.key
    page.look_into(1)
    assert (page.follow.value, page.follow.key != toggle) == (False, True)
    page.click("step")
    assert (page.scrubber.key, page.scrubber.value) == (seen[-1], 1)


def test_what_is_said_of_a_slider_or_toggle_that_is_gone(
    live: Callable[..., Any], create: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser may say so late: neither brings back what was chosen there."""
    calls: dict[str, list[Any]] = {"viewed": [], "follow": []}
    late: list[Any] = []

    def watched(make: Any) -> Any:
        def made(*args: Any, **settings: Any) -> Any:
            while late:
                late.pop()()
            calls.get(settings["key"].partition("-")[0], []).append(settings.get("on_change"))
            return make(*args, **settings)

        return made

    for kind in ("slider", "toggle"):
        monkeypatch.setattr(st, kind, watched(getattr(st, kind)))
    run = create(stop_after=9)
    page = live(run=run.id).click("step")
    slider, toggle = calls["viewed"][-1], calls["follow"][-1]
    page.click("step")
    late.append(slider)
    assert page.run().run().follow.value is True
    page.look_into(1)
    late.append(toggle)
    assert page.run().run().follow.value is False
    assert page.scrubber.value == 1


# Training.


@pytest.mark.parametrize(
    ("parameters", "model"),
    [
        ({"iterations": "3"}, "logistic-regression"),
        ({"iterations": "3"}, "matrix-factorization"),
        ({"iterations": "2"}, "lenet5"),
        ({"iterations": "3", "optimizer": "Adam"}, "logistic-regression"),
    ],
)
def test_training_with_each_model_s_defaults(
    live: Callable[..., Any], parameters: dict[str, str], model: str
) -> None:
    title = MODELS[model].title
    page = live(model=title, **parameters).click("start")
    snapshot = page.finish()
    assert snapshot.status == "finished"
    settings = page.the_run.settings
    assert settings.model == model
    assert settings.optimizer == parameters.get("optimizer", "SGD").lower()
    assert settings.loss_share == LOSS_SHARE
    assert (settings.lr, settings.momentum) == MODELS[model].optimizers[settings.optimizer]
    assert any(t.startswith(title) and "finished." in t for t in page.texts("markdown"))
    assert page.charts == PANELS
    assert page.texts("subheader")[1] == f"Inside the checkpoint of step {snapshot.newest.step}"
    assert snapshot.newest.restored_loss < 10
    assert page.at.button(key="play").disabled
    assert page.at.button(key="step").disabled


def test_the_url_keeps_the_run_and_the_settings(live: Callable[..., Any]) -> None:
    page = live(**SHORT, bits="5", seed="7").click("start")
    page.finish()
    settings = page.the_run.settings
    assert (settings.bits, settings.seed, settings.stop_after) == (5, 7, 4)
    again = live(run=page.the_run.id)
    assert again.the_run is page.the_run
    assert again.texts("subheader")[1] == "Inside the checkpoint of step 4"
    assert again.at.query_params["run"] in (page.the_run.id, [page.the_run.id])


def test_a_new_run_is_followed_whatever_was_looked_at(live: Callable[..., Any]) -> None:
    """Scrubbing the example is no wish to see nothing but the base of the run begun then."""
    page = live(**SHORT).look_into(2).click("start")
    page.finish()
    assert page.follow.value is True
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 4"


def test_each_tensor_has_its_own_code(live: Callable[..., Any]) -> None:
    page = live(**SHORT, scope="each tensor").click("start")
    snapshot = page.finish()
    names = [a.names[0] for a in snapshot.newest.alphabets]
    box = page.at.selectbox(key="tensor")
    assert box.options == names
    assert len(names) == 2
    largest = max(snapshot.newest.alphabets, key=lambda a: a.n)
    for name in (largest.names[0], *names):
        if box.value != name:
            page.set("selectbox", "tensor", name)
        box = page.at.selectbox(key="tensor")
        assert box.value == name
        i = names.index(name)
        alphabet, codes = snapshot.newest.alphabets[i], page.the_run.codes(snapshot.newest.step)[i]
        if alphabet.table is not None and alphabet.table.classes > 1:
            rows = token_table(alphabet, codes)
        else:
            rows = code_table(alphabet)
        shown = [*page.at.table, *page.at.dataframe][0].value
        assert shown["count"].tolist() == [r.count for r in rows]
        assert any(t.startswith(f"{name}: ") for t in page.sentences)
    assert any("in one tensor" in t for t in page.sentences)


def test_the_exponent_stage_alone(live: Callable[..., Any]) -> None:
    page = live(**SHORT, bits="all", coder="Huffman (paper)").click("start")
    snapshot = page.finish()
    assert page.the_run.settings.bits is None
    assert page.charts == PANELS
    kept = [s for s in page.chart("buckets")["series"] if "dropped" in s["name"]]
    assert not any(v for s in kept for v in s["data"])
    assert len(page.at.dataframe[0].value) == len(snapshot.newest.alphabets[0].buckets) + 1


def test_the_paper_s_code_is_one_click_away(live: Callable[..., Any]) -> None:
    page = live().set("toggle", "paper", True)
    c = page.the_run.snapshot().newest
    rows = code_table(c.alphabets[0])
    (shown,) = (t.value for t in page.at.table if "code word" in t.value.columns)
    assert shown["code word"].tolist() == [r.word for r in rows]
    assert shown["count"].tolist() == [r.count for r in rows]
    assert any("not what this record was written with" in t for t in page.sentences)


def test_a_run_with_the_paper_s_code_shows_it(live: Callable[..., Any]) -> None:
    page = live(**SHORT, coder="Huffman (paper)").click("start")
    snapshot = page.finish()
    assert not [t for t in page.at.toggle if t.key == "paper"]
    (shown,) = (t.value for t in page.at.table if "code word" in t.value.columns)
    rows = code_table(snapshot.newest.alphabets[0])
    assert shown["code word"].tolist() == [r.word for r in rows]
    assert any(t.startswith("SGD") and "Huffman (paper)" in t for t in page.texts("caption"))


def test_codes_that_are_no_longer_held(
    live: Callable[..., Any], create: Callable[..., Run]
) -> None:
    """Old steps keep their own sizes and words; what would need the codes is left out."""
    run = create(stop_after=2)
    run.play()
    run.wait(60)
    for step in run._codes.steps:
        run._codes.drop(step)
    page = live(run=run.id)
    assert page.charts == PANELS - {"removed"}
    drawn = {s["name"]: s["data"] for s in page.chart("bits")["series"]}
    known = [d["value"] for d in drawn[CODER_NAMES["runlength"]] if d["value"] is not None]
    (sizes,) = (k.sizes for k in choices(run.snapshot().newest.alphabets) if k.bits == 2)
    assert known == [round(100 * sizes.share(sizes.runlength), 3)]
    (shown,) = (t.value for t in page.at.dataframe if "token" in t.value.columns)
    assert "count" not in shown.columns


# Budgets.


def test_a_budget_instead_of_bits(live: Callable[..., Any]) -> None:
    page = live(**SHORT, keep="Budget", budget="10").click("start")
    snapshot = page.finish()
    settings = page.the_run.settings
    assert (settings.bits, settings.budget) == (None, 0.1)
    c = snapshot.newest
    assert c.nbytes <= 0.103 * c.full_nbytes
    kept, n = c.alphabets[0].kept, len(c.alphabets[0].buckets)
    assert page.metrics["Buckets kept"] == (f"{kept} of {n}", "budget 10.00 %")
    assert any("a budget of 10 % of float32" in t for t in page.texts("caption"))
    assert "budget" in {s["name"] for s in page.chart("size")["series"]}
    bits = page.chart("bits")
    assert bits["xAxis"][0]["data"][-1] == "10 %"
    assert bits["series"][-1]["data"][-1] == 100
    assert any(t.startswith(f"The budget of 10 % keeps {kept} of {n}") for t in page.sentences)
    assert not page.texts("warning")


def test_keeping_by_bits_or_budget_in_the_sidebar(live: Callable[..., Any]) -> None:
    """One choice shows only its own control, and both remember what was set."""
    page = live(bits="5")
    assert not [n for n in page.at.number_input if n.key == "budget"]
    page.set("segmented_control", "keep", "budget")
    assert page.at.number_input(key="budget").value == 5.0
    assert not [s for s in page.at.select_slider if s.key == "bits"]
    page.set("number_input", "budget", 12.5)
    page.set("segmented_control", "keep", "bits")
    assert page.at.select_slider(key="bits").value == 5
    page.set("segmented_control", "keep", "budget")
    assert page.at.number_input(key="budget").value == 12.5


def test_a_budget_without_room_is_told(live: Callable[..., Any]) -> None:
    """Half a percent of 31 kB is less than a header."""
    page = live(**SHORT, keep="Budget", budget="0.5").click("start")
    snapshot = page.finish()
    assert snapshot.status == "failed"
    assert [c.kind for c in snapshot.checkpoints] == ["base"]
    (sentence,) = page.texts("error")
    assert "budget of 0.5 %" in sentence
    assert "157 bytes, which is too small" in sentence
    assert "bits instead" in sentence


# Before the example is there.


def test_before_the_example_is_there(
    live: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings and the button work already; the example follows by itself."""
    monkeypatch.setattr(state.all_runs(), "prepared", lambda: False)
    page = live(**SHORT)
    assert page.texts("info")[0].startswith("An example run is being trained")
    assert [b.label for b in page.at.button] == ["Start live training"]
    assert page.charts == set()
    page.click("start")
    assert page.finish().status == "finished"
    assert page.charts == PANELS
    other = live()
    assert other.charts == set()
    monkeypatch.undo()
    assert other.run().charts == PANELS


def test_an_example_that_cannot_be_trained(
    live: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and a run of one's own can be started all the same."""

    def broken() -> Run:
        raise RunError("The disk is full.")

    monkeypatch.setattr(state.all_runs(), "example", broken)
    page = live(**SHORT)
    assert error(page) == (
        "The example run cannot be trained on this server. The disk is full. What needs no run "
        "works all the same; reload the page to try again."
    )
    assert not page.texts("info")
    page.click("start")
    assert page.finish().status == "finished"
    assert page.charts == PANELS


def test_a_run_that_cannot_start_before_the_example_is_there(
    live: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state.all_runs(), "prepared", lambda: False)
    page = live(**SHORT, interval="9").click("start")
    assert "nothing would be saved: lower the interval" in error(page)


def test_step_saves_one_more_checkpoint(
    live: Callable[..., Any], create: Callable[..., Run]
) -> None:
    run = create(interval=2, stop_after=6)
    page = live(run=run.id)
    assert page.texts("subheader")[0] == "The base is saved: 32.0 kB, exact"
    assert page.charts == set()
    page.click("step")
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 2"
    page.click("step").click("step")
    assert run.snapshot().status == "finished"
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 6"


def test_reset_begins_anew_with_the_settings_at_the_side(live: Callable[..., Any]) -> None:
    page = live(**SHORT).click("start")
    page.finish()
    old = page.the_run
    page.set("number_input", "iterations", 3)
    assert any(
        t.startswith("The settings at the side are not this run's") for t in page.texts("info")
    )
    page.click("reset")
    assert page.the_run is not old
    assert not old.path.exists()
    snapshot = page.the_run.snapshot()
    assert (snapshot.status, snapshot.steps) == ("paused", (0,))
    assert page.the_run.settings.stop_after == 3
    page.click("play")
    assert page.finish().status == "finished"


def test_a_reset_that_cannot_start_loses_nothing(live: Callable[..., Any]) -> None:
    page = live(**SHORT).click("start")
    page.finish()
    old = page.the_run
    page.set("number_input", "interval", 9).click("reset")
    assert "nothing would be saved: lower the interval" in error(page)
    assert page.the_run is old
    assert old.path.is_dir()
    assert page.charts == PANELS


def test_a_run_that_another_tab_has_reset(live: Callable[..., Any]) -> None:
    """The page says that the link is stale, and shows the example."""
    page = live(**SHORT).click("start")
    page.finish()
    state.all_runs().close(page.the_run)
    page.run()
    assert page.texts("warning")[0].startswith("The run in this link is no longer")
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 6"


def test_losses_are_measured_always_if_asked_for(live: Callable[..., Any]) -> None:
    page = live(**SHORT, losses="always").click("start")
    snapshot = page.finish()
    assert page.the_run.settings.loss_share is None
    assert [c.step for c in snapshot.measured] == [0, 1, 2, 3, 4]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Every iteration of every run waits for one release of this semaphore."""
    gate, loss = threading.Semaphore(0), Task.loss

    def wait(self: Task, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        assert gate.acquire(timeout=60)
        return loss(self, batch)

    monkeypatch.setattr(Task, "loss", wait)
    yield gate
    for _ in range(1000):
        gate.release()


def let_save(run: Run, gate: threading.Semaphore, step: int) -> None:
    """Let the run train on until that step is saved and its losses are measured."""
    while run.snapshot().newest.step < step:
        before = run.snapshot().newest.step
        gate.release()
        while run.snapshot().newest.step <= before or not run.snapshot().newest.measured:
            time.sleep(0.001)


def test_while_it_plays(
    live: Callable[..., Any], create: Callable[..., Run], held: threading.Semaphore
) -> None:
    """Pause instead of Play, no stepping, and the costly experiment waits to be asked for."""
    run = create(stop_after=50)
    page = live(run=run.id).click("play")
    let_save(run, held, 2)
    page.run()
    assert run.snapshot().status == "playing"
    assert page.at.button(key="play").label == "Pause"
    assert page.at.button(key="step").disabled
    assert page.scrubber.disabled
    assert page.charts == PANELS - {"removed"}
    assert page.at.button(key="measure").label.startswith("Measure removed buckets")
    page.click("measure")
    assert page.charts == PANELS
    let_save(run, held, 3)
    page.run()
    assert page.charts == PANELS  # what was measured stays, and says of which step it is
    assert page.removed_step == 2
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 3"
    pause = run.pause

    def let_it_come_to_rest() -> None:
        pause()
        held.release()

    run.pause = let_it_come_to_rest  # type: ignore[method-assign]
    page.click("play")
    assert run.snapshot().status == "paused"
    assert page.at.button(key="play").label == "Play"
    assert page.removed_step == run.snapshot().newest.step


@pytest.mark.parametrize("shown", ["Pause", "Play"])
def test_a_button_does_what_it_says_whatever_another_tab_did(
    live: Callable[..., Any], create: Callable[..., Run], held: threading.Semaphore, shown: str
) -> None:
    """Pause, pressed where the run was paused meanwhile, does not play it."""
    run = create(stop_after=50)
    page = live(run=run.id)
    if shown == "Pause":
        page.click("play")
    assert page.at.button(key="play").label == shown
    if shown == "Pause":
        run.pause()
        held.release()  # the iteration under way
        run.wait(60)
    else:
        run.play()
    page.click("play")
    assert run.snapshot().status == ("paused" if shown == "Pause" else "playing")
    assert page.at.button(key="play").label == ("Play" if shown == "Pause" else "Pause")


def test_a_step_that_takes_long_is_watched(
    live: Callable[..., Any],
    create: Callable[..., Run],
    held: threading.Semaphore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page that only waited would give no sign of life: the run took it that nobody watches."""
    monkeypatch.setattr(live_page, "PATIENCE", 0.2)
    run = create(interval=3, stop_after=6)
    page = live(run=run.id).click("step")
    assert run.snapshot().status == "playing"
    assert page.at.button(key="play").label == "Pause"
    assert state.poll_interval(run) == state.POLL_SECONDS
    run._last_watched -= 15
    page.run()
    assert run.seconds_unwatched() < 15
    held.release(3)
    assert page.finish().status == "paused"
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 3"
    assert live_page.PATIENCE < session.WATCH_SECONDS / 4


def test_a_long_training_is_looked_at_less_often(
    live: Callable[..., Any],
    create: Callable[..., Run],
    held: threading.Semaphore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = create(stop_after=50)
    page = live(run=run.id).click("play")
    assert state.poll_interval(run) == live_page.pace(run) == state.POLL_SECONDS
    monkeypatch.setattr(state, "LIVELY_SECONDS", 0.0)
    assert state.poll_interval(run) == live_page.pace(run) == state.LATER_POLL_SECONDS
    page.click("play")
    held.release()  # the iteration under way
    assert run.wait(60).status == "paused"
    assert state.poll_interval(run) == state.RESTING_POLL_SECONDS


def test_scrubbing_while_it_plays(
    live: Callable[..., Any], create: Callable[..., Run], held: threading.Semaphore
) -> None:
    """With following switched off the viewed step stays while the run goes on."""
    run = create(stop_after=50)
    page = live(run=run.id).click("play")
    let_save(run, held, 3)
    page.run().follow_newest(False).look_into(1)
    let_save(run, held, 5)
    page.run()
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 1"
    assert page.metrics["Loss, live"][1] == "at step 5"


# What goes wrong is told in sentences.


def error(page: Any) -> str:
    """The one error shown."""
    (sentence,) = page.texts("error")
    assert sentence.endswith((".", "ms."))
    assert "Traceback" not in sentence
    return str(sentence)


def test_a_stale_link(live: Callable[..., Any]) -> None:
    page = live(run="gone")
    (sentence,) = page.texts("warning")
    assert sentence.startswith("The run in this link is no longer on this server")
    assert page.charts == PANELS
    assert "run" not in page.at.query_params
    assert not page.run().texts("warning")


def test_data_that_need_a_folder_and_have_none(live: Callable[..., Any]) -> None:
    page = live(model="LeNet-5", data_lenet5="MNIST").click("start")
    assert error(page).startswith("This run cannot start. The data 'mnist' are read from files")
    assert FOLDER_VARIABLE in error(page)
    assert [r.id for r in state.all_runs()._runs.values()] == ["example"]


def test_a_folder_that_is_not_there(live: Callable[..., Any]) -> None:
    page = live(model="LeNet-5", data_lenet5="MNIST", folder="/no/such/place").click("start")
    assert "There is no folder /no/such/place." in error(page)


def test_a_folder_that_this_server_does_not_open(
    live: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCVIZ_FOLDERS", str(tmp_path / "other"))
    page = live(model="LeNet-5", data_lenet5="MNIST", folder=str(tmp_path)).click("start")
    assert "is in none of the folders that this server opens" in error(page)


def test_a_folder_without_the_files(live: Callable[..., Any], tmp_path: Path) -> None:
    page = live(model="LeNet-5", data_lenet5="MNIST", folder=str(tmp_path)).click("start")
    assert "MNIST cannot be loaded" in error(page)
    assert "t10k-images-idx3-ubyte" in error(page)


def test_a_wrong_file_in_the_folder(live: Callable[..., Any], tmp_path: Path) -> None:
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        (tmp_path / name).write_bytes(b"this is not gzip")
    page = live(model="LeNet-5", data_lenet5="MNIST", folder=str(tmp_path)).click("start")
    assert str(tmp_path) in error(page)


def write_small_mnist(folder: Path, n: int) -> None:
    """n random images and labels as IDX files."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
    head = b"".join(v.to_bytes(4, "big") for v in (0x803, n, 28, 28))
    (folder / "t10k-images-idx3-ubyte").write_bytes(head + images.tobytes())
    labels = rng.integers(0, 10, n, dtype=np.uint8)
    head = b"".join(v.to_bytes(4, "big") for v in (0x801, n))
    data = gzip.compress(head + labels.tobytes())
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(data)


def test_a_batch_larger_than_the_data(live: Callable[..., Any], tmp_path: Path) -> None:
    write_small_mnist(tmp_path, 20)
    key = "data_logistic-regression"
    page = live(**SHORT, **{key: "MNIST", "folder": str(tmp_path)})
    page.click("start")
    assert error(page) == ("This run cannot start. The batch size is 32; choose one from 1 to 16.")
    page.set("number_input", "batch_logistic-regression", 16).click("start")
    assert page.finish().status == "finished"


def test_an_interval_longer_than_the_run(live: Callable[..., Any]) -> None:
    page = live(**SHORT, interval="9").click("start")
    assert "nothing would be saved: lower the interval" in error(page)
    page.run()
    assert page.charts == PANELS  # and the page is there again


def test_a_full_server(
    live: Callable[..., Any], create: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    create()
    page = live(**SHORT)
    monkeypatch.setattr(runs, "MAX_RUNS", 1)
    assert "already holds 1 runs" in error(page.click("start"))


def test_an_address_that_names_a_choice_and_none(live: Callable[..., Any]) -> None:
    """`?coder=` is as good as no such parameter."""
    page = live(**SHORT, keep="", coder="", scope="", seed="inf").click("start")
    plain = live(**SHORT).click("start").the_run.settings
    assert page.the_run.settings == plain


@pytest.mark.parametrize(("model", "lr"), [("lenet5", "100"), ("matrix-factorization", "100")])
def test_a_diverged_run(live: Callable[..., Any], model: str, lr: str) -> None:
    """The sentence stands there, the panels too, and earlier steps can be taken apart."""
    page = live(model=MODELS[model].title, iterations="40", **{f"lr_{model}_sgd": lr})
    page.click("start")
    snapshot = page.finish()
    assert snapshot.status == "failed"
    assert error(page).startswith("Training diverged: the loss became ")
    assert {"loss", "size"} <= page.charts
    for step in snapshot.steps:
        page.look_into(step)
        assert page.texts("subheader")[1] == f"Inside the checkpoint of step {step}"
        assert ({"buckets", "bits", "huffman"} <= page.charts) == (step > 0)


def test_a_step_in_which_nothing_changed(
    live: Callable[..., Any], create: Callable[..., Run]
) -> None:
    """A model that has come to rest: a delta of zeros is told, not a crash of the page."""
    run = create(lr=0.1, stop_after=3)
    run._live.training._optimizer.step = lambda *_: None  # type: ignore
    run.play()
    run.wait(60)
    page = live(run=run.id)
    assert page.charts == PANELS
    assert "Nothing changed in this step: every value of δ is zero." in page.sentences


def test_a_disk_error_is_told(
    live: Callable[..., Any], create: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    import codec.storage.directory

    run = create()
    page = live(run=run.id).click("step")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(codec.storage.directory.os, "link", refuse)
    page.click("step")
    assert "No space left on device" in error(page)
    assert page.texts("subheader")[1] == "Inside the checkpoint of step 1"


@pytest.mark.parametrize(
    ("measured", "iteration", "said"),
    [
        ([5.0, 4.0, 3.0, 2.0], 3, "roughly 1 iteration of training"),  # restored: 2.5
        ([5.0, 4.0, 3.0, 2.0], 9, "roughly 7 iterations of training"),  # 6 since step 3
        ([5.0, 4.0, 3.0, None], 3, "less than 1 iteration of training"),  # that of step 2 is 2.5
        ([5.0, None, None, None], 3, "less than 1 iteration of training"),
    ],
)
def test_losses_that_lag_behind_cost_nothing(
    create: Callable[..., Run], measured: list[float | None], iteration: int, said: str
) -> None:
    """A crash costs what a checkpoint loses and what came after it, not what is not measured."""
    run = create(stop_after=3)
    run.play()
    snapshot = run.wait(60)
    every = tuple(
        replace(c, live_loss=loss, restored_loss=None if loss is None else 2.5)
        for c, loss in zip(snapshot.checkpoints, measured, strict=True)
    )
    assert lost(replace(snapshot, checkpoints=every, iteration=iteration)) == said


def test_a_link_has_the_step_and_what_is_shown_of_it(live: Callable[..., Any]) -> None:
    page = live()
    assert "step" not in page.at.query_params  # the newest is followed
    page.look_into(4)
    page.set("toggle", "paper", True)
    page.set("toggle", "tables", True)
    assert page.at.query_params["step"] in ("4", ["4"])
    other = live(step="4", paper="true", tables="true")  # widgets' own are put there by browsers
    assert other.scrubber.value == 4
    assert other.follow.value is False
    assert other.at.toggle(key="paper").value is True
    assert other.texts("title") == page.texts("title")
    assert [t.value.to_dict() for t in other.at.table] == [t.value.to_dict() for t in page.at.table]
    other.follow_newest(True)
    assert "step" not in other.at.query_params
    assert other.scrubber.value == 6


@pytest.mark.parametrize("step", ["5", "-2", "99", "two", "٤", "9" * 40, "0" * 9 + "99"])
def test_a_link_to_a_step_that_is_not_there(live: Callable[..., Any], step: str) -> None:
    page = live(step=step)
    assert page.scrubber.value == 6
    assert page.follow.value is True
