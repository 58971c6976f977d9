"""Kill it now on the Live page: what it reports, the race back, going on, in several tabs."""

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lcviz.lab.progress import Progress
from lcviz.lab.recovery import kill as lab
from lcviz.lab.recovery.kill import Crash, Raced
from lcviz.live import page_kill
from lcviz.run import run as run_module
from lcviz.run.run import Run, RunError
from lcviz.text import nbytes_text, percent_text
from lcviz.ui import session
from tests.lcviz.common import SECONDS, Make, MakeRun, Patch, stepped, until

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: Patch) -> Iterator[None]:
    """Short races, and no job of another test."""
    monkeypatch.setattr(lab, "CAPS", (8,))
    yield
    session.all_jobs().close()
    session.all_jobs.clear()


@pytest.fixture
def raced(monkeypatch: Patch) -> list[Raced]:
    """What races have come to."""
    found: list[Raced] = []
    race = Crash.race

    def kept(self: Crash, progress: Progress) -> Raced:
        found.append(race(self, progress))
        return found[-1]

    monkeypatch.setattr(Crash, "race", kept)
    return found


def run_to(create: MakeRun, iteration: int, **changes: Any) -> Run:
    """A run that has come so far: it ends there."""
    run = create(stop_after=iteration, **changes)
    run.play()
    run.wait(SECONDS)
    return run


def said(page: Any) -> str:
    return "\n".join(page.texts("markdown"))


def report(page: Any) -> str:
    """What is gone and what is left."""
    return str(killed(page).help)


def killed(page: Any) -> Any:
    """The sentence about the newest crash."""
    (found,) = (m for m in page.at.markdown if m.value.startswith("**Killed at"))
    return found


def race(page: Any) -> None:
    page.click("kill-start")
    # It may end while the page is drawn, between its buttons and its pictures.
    until(lambda: raced_picture(page.run()) is not None and "kill-stop" not in page.buttons)


def raced_picture(page: Any) -> Any | None:
    """The race back, once it is over."""
    drawn = page.picture("race") if "race" in page.pictures else {}
    return drawn if "play" in drawn else None


def test_killed(live: Make, create: MakeRun) -> None:
    run = create(interval=2)
    page, other = live(run=run.id), live(run=run.id)
    assert page.at.button(key="kill").disabled
    assert "only the base is saved" in page.at.button(key="kill").help
    assert not page.click("step").at.button(key="kill").disabled
    run.play()
    run.wait(SECONDS)
    page.run().click("kill")
    for tab in (page, other.run()):
        assert run.snapshot().status == "killed"
        assert (tab.at.button(key="kill").disabled, tab.at.button(key="kill").help) == (True, "")
        assert killed(tab).value.startswith("**Killed at iteration 5**, 1 iteration not saved.")
        assert all(tab.at.button(key=key).disabled for key in ("play", "step", "kill"))
        assert tab.picture("headline")["status"] == "iteration 5 of 5, killed"
        assert "this crash costs about" in tab.picture("headline")["crash"]
    c = run.snapshot().newest
    chain = sum(f.stat().st_size for f in run.path.iterdir())
    for fact in (
        "the 1 iteration trained since step 4",
        f"{percent_text(c.distance)} of the distance",
        f"restored {c.losses.restored:.4f}, live {c.live_loss:.4f}",
        f"3 records, {nbytes_text(chain)}, up to step 4",
    ):
        assert fact in report(page)
    offer = page.at.button(key="kill-start").help
    assert re.search(r"for at most 9 iterations\. About \d+ seconds? at most", offer)


def test_killed_just_after_a_save_and_going_on(live: Make, create: MakeRun) -> None:
    run = run_to(create, 4, optimizer="adam", lr=1e-9)
    c = run.snapshot().newest
    page = live(run=run.id).click("kill")
    assert killed(page).value == "**Killed at iteration 4**, right after a checkpoint."
    assert f"is {c.live_loss:.4f} with and without it" in report(page)
    assert "the optimizer's state" in report(page)
    assert "what the checkpoint of step 4 had left out" in report(page)
    assert "the optimizer's state is reset" in page.at.button(key="go-on").help
    page.click("go-on").finish()


def test_what_is_tried_ends_with_the_crash_and_with_the_race(live: Make, create: MakeRun) -> None:
    """What is shown beside a crash or a race is what the run has saved.

    That this training does not repeat itself is said until the run goes on.
    """
    run = run_to(create, 4)
    page = live(run=run.id)
    sizes = page.picture("headline")["sizes"]

    def tried() -> bool:
        top = page.picture("headline")
        tried = "only a try: the run has 2 bits"
        assert (top["kept"] == tried) == (top["sizes"] != sizes)
        return top["kept"] is not None

    assert not tried()
    page.set("select_slider", "bits", 1)
    assert tried()
    page.click("kill")
    assert not tried()
    page.set("select_slider", "bits", 3)
    assert tried()
    run._kills[-1] = replace(run._kills[-1], last_fingerprint="other bits")
    race(page.run())
    assert not tried()
    assert any("not reach the same bits" in t for t in page.texts("warning"))
    page.set("select_slider", "bits", 1)
    assert tried()
    page.click("go-on").finish()
    assert not page.texts("warning")


def test_killed_again_before_anything_was_saved(live: Make, create: MakeRun) -> None:
    """What the checkpoint had left out went with the crash before: the run went on without it."""
    run = run_to(create, 5, interval=3)
    page = live(run=run.id).click("kill")
    run.go_on()
    page.run().click("kill")
    assert killed(page).value == "**Killed at iteration 3**, just saved."
    assert "**Gone** from memory: the model.\n" in report(page)
    run.go_on()
    run.play()
    run.wait(SECONDS)
    page.run().click("kill")
    gone = "**Gone** from memory: the model and the 2 iterations trained since step 3.\n"
    assert gone in report(page)


def test_methods_that_could_save_nothing_are_named(
    live: Make, create: MakeRun, raced: list[Raced]
) -> None:
    """One bucket of a small model takes fewer bytes than the header of an index and values."""
    run = run_to(create, 4, model="matrix-factorization", data="synthetic-ratings", lr=2.0, bits=1)
    page = live(run=run.id).click("kill")
    race(page)
    _, scar, topn, lc = raced[0].outcomes
    assert scar.distance == topn.distance == 1 != lc.distance
    (warning,) = page.texts("warning")
    assert warning.startswith("SCAR and TOPN saved nothing")


def test_the_race_back(live: Make, create: MakeRun, raced: list[Raced]) -> None:
    run = run_to(create, 6)
    page = live(run=run.id).click("kill")
    race(page)
    (found,) = raced
    assert found.alike
    drawn = page.picture("race")
    assert drawn["title"] == "Race back"
    assert drawn["text"].startswith("At ")
    assert [line["name"] for line in drawn["lines"]][2:] == ["full", "SCAR", "TOPN", "LC"]
    full, *_, lc = found.outcomes
    price = page.picture("headline")["crash"]
    costs = [f"{o.rework:.1f}".removesuffix(".0") for o in (full, lc)]
    assert re.fullmatch(rf"this crash costs {costs[1]} iterations?", price)
    labels = [line["label"] for line in drawn["lines"]][2:]
    assert labels[0] == f"full {costs[0]}"
    assert labels[-1] == f"LC {costs[1]}"
    assert lc.loss_restored == run.snapshot().newest.losses.restored
    assert not page.texts("warning")
    assert not {"kill-start", "kill-stop"} & {*page.buttons}
    assert raced_picture(live(run=run.id)) == drawn  # at once
    assert len(raced) == 1


def test_going_on(live: Make, create: MakeRun, raced: list[Raced]) -> None:
    run = create(interval=2, stop_after=7)
    page = live(run=run.id).click("step").click("kill")
    race(page)
    page.click("go-on").finish()
    snapshot = run.snapshot()
    assert (snapshot.status, snapshot.steps) == ("finished", (0, 2, 4, 6))
    assert "Killed at" not in said(page)
    marks = page.picture("loss")["marks"]  # all that is left of it
    assert [(m["step"], m["strong"]) for m in marks] == [(6, False), (2, True)]
    assert not {"go-on", "kill-start", "kill-close"} & {*page.buttons}
    page.click("kill")
    assert killed(page).value.startswith("**Killed at iteration 7**, ")
    assert raced_picture(page) is None  # another crash
    assert "goes on from step 2 as this run did" in page.at.button(key="kill-start").help
    race(page)
    assert [r.alike for r in raced] == [True, True]


def test_a_race_that_goes_on_beside_the_run_stays_until_it_is_closed(
    live: Make, create: MakeRun, held: threading.Event
) -> None:
    run = create(interval=2, stop_after=7)
    page = live(run=run.id).click("step").click("kill").click("kill-start")
    page.click("go-on").finish()
    assert "kill-close" not in page.buttons
    assert "kill-stop" in page.buttons
    held.set()
    until(lambda: raced_picture(page.run()) is not None)
    assert "Killed at" not in said(page)
    assert raced_picture(live(run=run.id)) is None  # who has not asked for it
    page.click("kill-close")
    assert raced_picture(page) is None
    assert "kill-close" not in page.buttons


def test_a_long_chain_is_read_in_the_background(
    live: Make, create: MakeRun, slowly: threading.Event
) -> None:
    """Every tab says it, can be left, and goes on once the chain is read."""
    run = create(interval=2, stop_after=7)
    page = live(run=run.id).click("step").click("kill")
    other = live(run=run.id)
    page.click("go-on")
    for tab in (page, other.run()):
        assert any(t.startswith("Restoring step 2 from") for t in tab.texts("markdown"))
        assert tab.picture("headline")["status"].endswith(", killed, being restored")
        assert "go-on" not in tab.buttons
        assert all(tab.at.button(key=key).disabled for key in ("play", "step", "kill"))
        assert not tab.at.button(key="reset").disabled
    assert session.poll_interval(run) == session.POLL_SECONDS
    slowly.set()
    run.go_on_in_background(SECONDS)
    assert page.finish().status == "finished"
    assert "Restoring" not in said(other.run())


@pytest.fixture
def held(monkeypatch: Patch) -> Iterator[threading.Event]:
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


def test_a_race_in_two_tabs(live: Make, create: MakeRun, held: threading.Event) -> None:
    run = run_to(create, 6)
    page = live(run=run.id).click("kill").click("kill-start")
    until(lambda: "Repeating the training: 2 of 6." in said(page.run()))
    assert "Killed at" not in said(page)  # one row has no room for both
    other = live(run=run.id)
    assert "Repeating the training: 2 of 6. Shared with 1 other page." in said(other)
    page.click("kill-stop")
    assert "kill-start" in page.buttons
    assert "Killed at" in said(page)
    other.click("kill-stop")  # nobody wants it any more
    until(lambda: "Stopped." in page.run().texts("info"))
    page.click("kill-start")
    held.set()
    until(lambda: raced_picture(page.run()) is not None)
    assert raced_picture(other.run()) is not None


def test_a_race_that_takes_too_long(live: Make, create: MakeRun, monkeypatch: Patch) -> None:
    """It is not offered, or rework is looked for less far."""
    monkeypatch.setattr(Crash, "seconds", lambda self, _pace: 60.0 * self.cap)
    page = live(run=run_to(create, 2).id).click("kill")
    assert "kill-start" not in page.buttons
    assert "8 minutes" in "".join(page.texts("caption"))
    assert "go-on" in page.buttons
    monkeypatch.setattr(lab, "CAPS", (8, 4))
    assert {"go-on", "kill-start"} <= {*page.run().buttons}
    assert "4 minutes" in page.at.button(key="kill-start").help


def test_what_goes_wrong_is_told(live: Make, create: MakeRun, monkeypatch: Patch) -> None:
    def refuse(*_: object) -> None:
        raise RunError("This cannot be done.")

    run = run_to(create, 4)
    page = live(run=run.id)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "kill", refuse)
        assert page.click("kill").texts("error") == ["This cannot be done."]
    page.run().click("kill")
    monkeypatch.setattr(run_module, "restarted_model", refuse)
    assert page.click("go-on").texts("error") == ["This cannot be done."]
    assert run.snapshot().status == "killed"


def test_restarts_of_the_server_before_a_crash(create: MakeRun) -> None:
    """The race repeats those before its crash; later ones are no part of it."""
    run = create(interval=2, stop_after=10)
    stepped(run, 3)
    run.kill()
    dead = replace(run.snapshot(), restarts=(2, 6))
    assert page_kill._resumed_before(dead) == {2, 6}  # all came before
    assert page_kill._resumed_before(replace(dead, status="paused")) == {2}
