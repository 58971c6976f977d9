"""Kill it now on the Live page: what it says, the race back, going on, in several tabs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import codec
from lcviz.lab.progress import Progress
from lcviz.lab.recovery import kill as lab
from lcviz.lab.recovery.kill import Crash, Raced
from lcviz.live.kill_figure import verdict
from lcviz.run import run as session
from lcviz.run.run import Run, RunError
from lcviz.text import nbytes_text, percent_text
from lcviz.ui import session as state

pytestmark = pytest.mark.usefixtures("server")

SECONDS = 60
Live = Callable[..., Any]
Create = Callable[..., Run]


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    yield
    state.all_jobs().close()
    state.all_jobs.clear()


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "CAPS", (8,))


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch) -> list[Raced]:
    """What races have come to."""
    found: list[Raced] = []
    race = Crash.race

    def told(self: Crash, progress: Progress) -> Raced:
        found.append(race(self, progress))
        return found[-1]

    monkeypatch.setattr(Crash, "race", told)
    return found


def run_to(create: Create, iteration: int, **changes: Any) -> Run:
    """A run that has come so far: it ends there."""
    run = create(stop_after=iteration, **changes)
    run.play()
    run.wait(SECONDS)
    return run


def said(page: Any) -> str:
    return "\n".join(page.texts("markdown"))


def keys(page: Any) -> set[str]:
    return {b.key for b in page.at.button}


def race(page: Any) -> None:
    page.click("killed-start")
    until(page, lambda: "killed" in page.charts)


def until(page: Any, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not ready():
        assert time.monotonic() < deadline, said(page)
        time.sleep(0.02)
        page.run()


def test_nothing_to_kill_yet(live: Live, create: Create) -> None:
    assert "kill" not in keys(live())  # the example is everybody's
    run = create()
    page = live(run=run.id)
    assert page.at.button(key="kill").disabled
    assert page.at.button(key="kill").help.startswith("Not yet: nothing but the base is saved.")
    page.click("step")
    assert not page.at.button(key="kill").disabled
    assert "Killed at" not in "".join(page.texts("subheader"))


def test_killed(live: Live, create: Create) -> None:
    run = run_to(create, 5, interval=2)
    page, other = live(run=run.id), live(run=run.id)
    page.click("kill")
    for tab in (page, other.run()):
        assert run.snapshot().status == "killed"
        assert tab.texts("subheader")[0] == "Killed at iteration 5"
        assert all(tab.at.button(key=key).disabled for key in ("play", "step", "kill"))
        assert "It is dead already" in tab.at.button(key="kill").help
        assert "**iteration 5** of 5" in said(tab)
        assert "iterations/s, killed." in said(tab)
        assert "this crash costs" in tab.texts("subheader")[1]
    c = run.snapshot().newest
    chain = sum(f.stat().st_size for f in run.path.iterdir())
    (text,) = (t for t in page.texts("markdown") if "**Gone**" in t)
    assert text == (
        "- **Gone** from memory: the model, the 1 iteration trained since step 4 and what the "
        f"checkpoint of step 4 had left out: {percent_text(c.distance)} of the way trained (a loss "
        f"of {c.restored_loss:.4f} instead of {c.live_loss:.4f}).\n"
        f"- **Left**: the chain on disk, 3 records, {nbytes_text(chain)}, up to step 4. Nothing "
        "that was saved is lost."
    )
    (offer,) = (t for t in page.texts("markdown") if t.startswith("How much work"))
    assert "the same batches and is saved by each at the same steps, SCAR and TOPN with no" in offer
    assert "for at most 8 iterations. About 1 second at most" in offer
    assert page.charts == {"loss", "size", "buckets", "bits", "huffman", "removed"}


def test_killed_just_after_a_save(live: Live, create: Create) -> None:
    page = live(run=run_to(create, 4, optimizer="adam", lr=0.01).id).click("kill")
    text = said(page)
    assert "**Gone** from memory: the model, what its optimizer remembered and what the" in text
    assert "). No iteration: that step was just saved." in text
    assert text.count("It holds the model alone") == 1


def test_killed_again_before_anything_was_saved(live: Live, create: Create) -> None:
    """What the checkpoint had left out went with the crash before: the run went on without it."""
    run = run_to(create, 5, interval=3)
    page = live(run=run.id).click("kill")
    run.go_on()
    page.run().click("kill")
    text = said(page)
    assert page.texts("subheader")[0] == "Killed at iteration 3"
    assert "**Gone** from memory: the model. No iteration: that step was just restored." in text
    run.go_on()
    run.play()
    run.wait(SECONDS)
    page.run().click("kill")
    gone = "**Gone** from memory: the model and the 2 iterations trained since step 3.\n"
    assert gone in said(page)


def test_a_loss_that_is_the_same(live: Live, create: Create) -> None:
    run = run_to(create, 4, lr=1e-6)
    c = run.snapshot().newest
    assert f"{c.restored_loss:.4f}" == f"{c.live_loss:.4f}"
    text = said(live(run=run.id).click("kill"))
    assert f"of the way trained (the loss is {c.live_loss:.4f} with and without it)." in text


def test_who_could_save_nothing_is_named(live: Live, create: Create, raced: list[Raced]) -> None:
    """One bucket of a small model takes fewer bytes than the header of an index and values."""
    run = run_to(create, 4, model="matrix-factorization", data="synthetic-ratings", lr=2.0, bits=1)
    page = live(run=run.id).click("kill")
    race(page)
    _, scar, topn, lc = raced[0].outcomes
    assert scar.distance == topn.distance == 1 != lc.distance
    (warning,) = page.texts("warning")
    assert warning.startswith("SCAR, TOPN: saved nothing after the beginning")


def test_the_race_back(live: Live, create: Create, raced: list[Raced]) -> None:
    run = run_to(create, 6)
    page = live(run=run.id).click("kill")
    race(page)
    (found,) = raced
    assert found.alike
    assert verdict(found.outcomes) in page.texts("markdown")
    names = [s["name"] for s in page.chart("killed")["series"]]
    assert [n.partition(" (")[0] for n in names[2:]] == ["full", "SCAR", "TOPN", "LC"]
    (table,) = (t.value for t in page.at.table if "rework, iterations" in t.value.columns)
    expected = [f"{'≥ ' if o.capped else ''}{o.rework:.2f}" for o in found.outcomes]
    assert table["rework, iterations"].tolist() == expected
    _, scar, topn, lc = found.outcomes
    assert max(scar.nbytes, topn.nbytes) <= lc.nbytes
    sizes = [e.nbytes for e in codec.Chain(run.path).entries[1:]]
    assert lc.nbytes == sum(sizes) / len(sizes)
    assert lc.loss_restored == run.snapshot().newest.restored_loss
    assert any(
        "came to the same bits as the one that was killed" in t for t in page.texts("caption")
    )
    assert not page.texts("warning")
    assert keys(page) >= {"go-on", "reset"}
    assert not keys(page) & {"killed-start", "killed-stop"}
    other = live(run=run.id, killed_loss="as measured")  # at once, as the link says
    assert any(t.endswith("loss around the crash, as measured**") for t in other.texts("markdown"))
    assert len(raced) == 1


def test_going_on(live: Live, create: Create, raced: list[Raced]) -> None:
    run = create(interval=2, stop_after=7)
    page = live(run=run.id).click("step").click("kill")
    race(page)
    page.click("go-on")
    page.finish()
    snapshot = run.snapshot()
    assert (snapshot.status, snapshot.steps) == ("finished", (0, 2, 4, 6))
    assert page.texts("subheader")[0] == "The crash at iteration 2"
    assert "The run went on from step 2, restored from its chain. The crash is marked" in said(page)
    marks = page.chart("loss")["series"][0]["markLine"]["data"]
    assert [m["xAxis"] for m in marks] == [6, 2]
    assert "killed" in page.charts  # the race stays
    assert "go-on" not in keys(page)
    page.click("kill")
    assert page.texts("subheader")[0] == "Killed at iteration 7"
    assert "killed" not in page.charts  # another crash
    assert "with the same batches, goes on from step 2 as this run did, and is saved" in said(page)
    race(page)
    assert [r.alike for r in raced] == [True, True]


def test_a_long_chain_is_read_beside_the_page(
    live: Live, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tab tells so, can be left, and goes on once the chain is read."""
    read, restarted = threading.Event(), session.restarted

    def slow(*arguments: Any) -> Any:
        assert read.wait(SECONDS)
        return restarted(*arguments)

    monkeypatch.setattr(session, "restarted", slow)
    run = create(interval=2, stop_after=7)
    page = live(run=run.id).click("step").click("kill")
    other = live(run=run.id)
    page.click("go-on")
    try:
        for tab in (page, other.run(), live(run=run.id)):
            (told,) = (t for t in tab.texts("info") if t.startswith("Step 2"))
            assert told.startswith("Step 2 is being restored: 2 records of the chain are read")
            assert "iterations/s, killed, being restored." in said(tab)
            assert "this crash costs" in tab.texts("subheader")[1]
            assert "go-on" not in keys(tab)
            assert all(tab.at.button(key=key).disabled for key in ("play", "step", "kill"))
            assert not tab.at.button(key="reset").disabled
        assert state.poll_interval(run) == state.POLL_SECONDS
    finally:
        read.set()
    run.go_on_beside(SECONDS)
    assert page.finish().status == "finished"
    assert other.run().texts("subheader")[0] == "The crash at iteration 2"


def test_what_the_optimizer_remembered_begins_anew(live: Live, create: Create) -> None:
    run = run_to(create, 4, momentum=0.9)
    page = live(run=run.id).click("kill").click("go-on")
    page.finish()
    assert "restored from its chain; momentum, which is not in the chain, began anew." in said(page)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Races wait for this event in the middle of repeating the training."""
    go_on, race = threading.Event(), Crash.race

    def slow(self: Crash, progress: Progress) -> Raced:
        total = sum(self.protocol.iterations(4))
        progress(2, total)
        while not go_on.wait(0.02):
            progress(2, total)
        return race(self, progress)

    monkeypatch.setattr(Crash, "race", slow)
    yield go_on
    go_on.set()


def test_under_way_in_two_tabs(live: Live, create: Create, held: threading.Event) -> None:
    run = run_to(create, 6)
    page = live(run=run.id).click("kill").click("killed-start")
    until(page, lambda: "Repeating the training: 2 of 6." in said(page))
    other = live(run=run.id)
    assert "Repeating the training: 2 of 6. Shared with 1 other page." in said(other)
    page.click("killed-stop")
    assert "killed-start" in keys(page)
    assert any("it goes on for them" in t for t in page.texts("info"))
    held.set()
    until(other, lambda: "killed" in other.charts)
    assert "killed" in page.run().charts


def test_stopped_and_asked_again(live: Live, create: Create, held: threading.Event) -> None:
    page = live(run=run_to(create, 6).id).click("kill").click("killed-start").click("killed-stop")
    until(page, lambda: "Stopped." in page.texts("info"))
    held.set()
    race(page)


def test_a_training_that_is_too_long(
    live: Live, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Crash, "seconds", lambda self, _pace: 60.0 * self.cap)
    page = live(run=run_to(create, 6).id).click("kill")
    (text,) = (t for t in page.texts("info") if t.startswith("A race back"))
    assert text.startswith("A race back would repeat all 6 iterations of this training: with it ")
    assert "about 8 minutes on this server, which gives a race 5 minutes at most." in text
    assert "killed-start" not in keys(page)
    assert "go-on" in keys(page)


def test_a_training_that_is_long(
    live: Live, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "CAPS", (8, 4))
    monkeypatch.setattr(Crash, "seconds", lambda self, _pace: 60.0 * self.cap)
    page = live(run=run_to(create, 6).id).click("kill")
    less = "for at most 4 iterations, few enough to take no more than 5 minutes here."
    assert f"{less} About 4 minutes at most" in said(page)


def test_a_repeated_training_that_differs(live: Live, create: Create) -> None:
    run = run_to(create, 4)
    page = live(run=run.id).click("kill")
    run._kills[-1] = replace(run._kills[-1], died_as="other bits")
    race(page.run())
    assert any("did not come to the same bits" in t for t in page.texts("warning"))
    assert not any("came to the same bits" in t for t in page.texts("caption"))


def test_what_goes_wrong_is_told(
    live: Live, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RunError("This cannot be done.")

    run = run_to(create, 4)
    page = live(run=run.id)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "kill", refuse)
        assert page.click("kill").texts("error") == ["This cannot be done."]
    page.run().click("kill")
    monkeypatch.setattr(session, "restarted", refuse)
    assert page.click("go-on").texts("error") == ["This cannot be done."]
    assert run.snapshot().status == "killed"


def test_a_run_that_failed_by_itself(live: Live, create: Create) -> None:
    page = live(run=run_to(create, 40, model="lenet5", lr=1e6).id)
    assert page.at.button(key="kill").disabled
    assert page.at.button(key="kill").help.startswith("This run has failed by itself")
