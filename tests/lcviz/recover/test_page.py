"""The Recover page as Streamlit runs it: asked once, shown to everybody, stopped, in line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import codec
from lcviz.lab.progress import Progress
from lcviz.lab.recovery.last_state import LastState
from lcviz.lab.recovery.recovery import Outcome, Protocol
from lcviz.lab.recovery.rework import CrashExperiment, costs
from lcviz.lab.workload import workload
from lcviz.recover import page_last_state
from lcviz.recover.page_rework import headline, nothing_saved
from lcviz.recover.recorded import EXPERIMENT, SEEDS, recorded
from lcviz.server import jobs
from lcviz.ui import session
from tests.lcviz.common import SECONDS, flip, saved, until

pytestmark = pytest.mark.usefixtures("server")

QUICK = {"recover_model": "Matrix factorization", "recover_fail_at": "10", "recover_cap": "10"}
ASKED = CrashExperiment("matrix-factorization", 0.05, Protocol(10, 1, 10))
Recovering = Callable[..., Any]
Patch = pytest.MonkeyPatch
Seeds = list[tuple[Outcome, ...]]


@pytest.fixture
def quickly(recovering: Recovering) -> Recovering:
    """The page with settings of a short experiment."""
    return lambda **parameters: recovering(**QUICK | parameters)


@pytest.fixture
def quick(monkeypatch: Patch, seeds: Seeds) -> None:
    """Every seed is there at once."""
    fail = lambda _own, seed, _progress: alike(seeds, seed)  # noqa: E731
    monkeypatch.setattr(CrashExperiment, "fail", fail)


def alike(seeds: Seeds, seed: int) -> tuple[Outcome, ...]:
    return tuple(replace(outcome, seed=seed) for outcome in seeds[seed % 2])


@pytest.fixture
def held(monkeypatch: Patch, seeds: Seeds) -> Iterator[threading.Event]:
    """Seeds after the first wait for this event, half done."""
    go_on = threading.Event()

    def slow(_own: CrashExperiment, seed: int, progress: Progress) -> tuple[Outcome, ...]:
        if seed:
            progress(1, 2)
            while not go_on.wait(0.02):
                progress(1, 2)
        return alike(seeds, seed)

    monkeypatch.setattr(CrashExperiment, "fail", slow)
    yield go_on
    go_on.set()


def label(page: Any) -> str:
    """What the pictures show."""
    found = (text for text in page.texts("markdown") if "crash after" in text)
    return next(found).removeprefix(":small[").removesuffix("]")


def priced(page: Any) -> list[dict[str, Any]]:
    """The rows of prices under the race."""
    return list(page.told("race")["prices"])


def finish(page: Any, seeds: int, asked: CrashExperiment = ASKED) -> None:
    assert session.all_jobs().wait(asked, seeds, SECONDS).status == jobs.DONE
    page.run()


def until_half(seeds: int) -> None:
    """Until the first seed is finished and the second is half done."""

    def half() -> bool:
        view = session.all_jobs().look(ASKED, seeds)
        return (len(view.finished_parts), view.share) == (1, 0.5)

    until(half)


def test_asked_finished_and_given_to_the_next_at_once(quickly: Recovering) -> None:
    page = quickly(recover_seeds="1")
    assert page.buttons == ["recover-start"]
    assert page.pictures == {"race"}  # of the recording
    assert ": **Recorded** 20" in label(page)
    assert session.all_jobs().look(ASKED, 1).status == jobs.IDLE
    finish(page.click("recover-start"), 1)
    assert page.pictures == {"race"}
    assert not page.buttons
    assert page.shows("Finished on")
    assert not page.shows("and kept")
    found = [f.value for f in session.all_jobs().look(ASKED, 1).finished_parts]
    assert [(o.method, o.seed) for o in found[0]] == [(m, 0) for m in ASKED.methods]
    assert page.title == f"Recover: {headline(found, 0.05)}"
    assert label(page).startswith("Matrix factorization, 5 % of float32")
    assert priced(page)[1]["each"] == [[round(found[0][1].rework, 4), False]]


def test_what_is_known_is_there_for_others(quickly: Recovering, quick: None) -> None:
    page = quickly(recover_seeds="2").click("recover-start")
    finish(page, 2)
    other = quickly(recover_seeds="2")
    assert other.pictures == {"race"}
    assert other.shows("Finished on")
    page.set("slider", "recover_seeds", 1)
    assert "1 seed" in label(page)
    assert page.shows("Finished on")  # it has asked for two
    more = quickly(recover_seeds="3")
    assert "Go on with seed 2" in [b.label for b in more.at.button]


def test_seed_by_seed_then_stopped(quickly: Recovering, held: threading.Event) -> None:
    page = quickly(recover_seeds="3").click("recover-start")
    until_half(3)
    page.run()
    assert page.shows("Seed 1, the 2nd of 3: 50 %.")
    assert page.pictures == {"race"}  # of the first seed
    assert "1 of them finished" in label(page)
    page.set("segmented_control", "recover_seed_3", 2)
    assert "Seed 2" in page.texts("info")[0]
    page.click("recover-stop")
    assert "1 of 3 seeds" in page.texts("info")[0]
    assert page.buttons == ["recover-start"]
    page.click("recover-start")
    assert page.buttons == ["recover-stop"]
    held.set()
    finish(page, 3)
    assert [len(row["each"]) for row in priced(page)] == [3] * 5


def test_two_sessions_share_it(quickly: Recovering, held: threading.Event) -> None:
    page = quickly(recover_seeds="2").click("recover-start")
    other = quickly(recover_seeds="2")
    assert "recover-stop" in other.buttons
    assert other.shows("Shared with 1 other page.")
    page.run().click("recover-stop")
    assert "Somebody else" in page.texts("info")[0]
    held.set()
    finish(other, 2)
    assert label(other).startswith("Matrix factorization")


def test_others_wait(quickly: Recovering, held: threading.Event, monkeypatch: Patch) -> None:
    page = quickly(recover_seeds="2").click("recover-start")
    page.set("segmented_control", "recover_interval", 5)  # meanwhile
    page.set("segmented_control", "recover_interval", 1)
    assert "recover-stop" in page.buttons
    assert not page.texts("info")
    other = quickly(recover_seeds="2", recover_share="10 %").click("recover-start").run()
    assert other.shows("In line before this one: 1.")
    monkeypatch.setattr(jobs, "MAX_WAITING", 1)
    third = quickly(recover_seeds="2", recover_share="1 %").click("recover-start")
    assert "is full: this server's limit is 1" in third.texts("error")[0]
    held.set()
    finish(page, 2)
    finish(other, 2, CrashExperiment("matrix-factorization", 0.1, ASKED.protocol))
    assert label(other).startswith("Matrix factorization, 10 %")


def test_how_far_back_the_last_checkpoint_is(quickly: Recovering) -> None:
    page = quickly(recover_interval="5")
    assert page.shows("iteration 10, just before", "caption")
    assert page.shows("crash at 14", "caption")
    page.set("number_input", "recover_fail_at", 14)
    assert page.shows("4 iterations before", "caption")


def test_settings_cost_nothing_until_opened_and_stay(recovering: Recovering, quick: None) -> None:
    page = recovering()
    assert page.pictures == {"race"}
    for kind in ("selectbox", "number_input", "slider", "table"):
        assert not page.at.get(kind)
    page.unfold("recover-settings", "recover-restored").set("number_input", "recover_fail_at", 14)
    assert page.at.table
    page.at.session_state["recover-settings"] = False
    page.run().click("recover-start")
    asked = replace(EXPERIMENT, protocol=Protocol(14))
    assert session.all_jobs().wait(asked, SEEDS, SECONDS).status == jobs.DONE


def test_the_recording_is_there_at_once(quickly: Recovering) -> None:
    page = quickly(recover_model="LeNet-5")
    own = recorded()
    assert page.title == f"Recover: {headline(own.by_seed, own.experiment.share)}"
    assert own.day in label(page)
    (how,) = (m.help for m in page.at.markdown if own.day in m.value)
    assert "python -m lcviz.record_example" in how
    assert all(f"{name} {version}" in how for name, version in own.on["versions"].items())
    assert page.pictures == {"race"}
    for seed in (0, 3):
        page.set("segmented_control", "recover_seed_5", seed)
        lines = {line["name"]: line for line in page.picture("race")["lines"]}
        assert lines["SCAR"]["x"][-1] == round(own.by_seed[seed][1].rework, 4)


def test_a_wrong_number_is_said_at_its_field(quickly: Recovering) -> None:
    page = quickly(recover_seeds="2")
    assert not page.at.button(key="recover-start").disabled
    for key, wrong, most in (("recover_fail_at", 501, 500), ("recover_cap", 999_999_999, 300)):
        for value in (wrong, 10):
            page.set("number_input", key, value)
            assert page.shows(f"from 10 to {most}") == (value == wrong)
            assert page.at.button(key="recover-start").disabled == (value == wrong)


def test_a_failure_is_told(quickly: Recovering, monkeypatch: Patch) -> None:
    def fails(_own: CrashExperiment, _seed: int, _progress: Progress) -> tuple[Outcome, ...]:
        raise codec.SettingsError("there is no room")

    monkeypatch.setattr(CrashExperiment, "fail", fails)
    page = quickly().click("recover-start")
    assert session.all_jobs().wait(ASKED, 5, SECONDS).status == jobs.FAILED
    page.run()
    assert "there is no room" in page.texts("error")[0]
    assert page.buttons == ["recover-start"]


def test_where_nothing_fits(quickly: Recovering, seeds: Seeds, monkeypatch: Patch) -> None:
    lost = replace(seeds[0][3], distance=1.0, rework=4.0, capped=True)
    outcomes = (*seeds[0][:3], lost, seeds[0][4])
    monkeypatch.setattr(CrashExperiment, "fail", lambda *_: outcomes)
    page = quickly(recover_seeds="1").click("recover-start")
    finish(page, 1)
    found = costs([outcomes])
    assert page.texts("warning") == [nothing_saved(found)]
    assert nothing_saved(found).startswith("LC Huffman saved nothing")
    further = [replace(cost, distance=1.2) for cost in found]  # it saved something, if badly
    assert nothing_saved(further) == ""


OWN = {"recover_source": "own files"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Checkpoints of a training that is none of the lab's."""
    generator, w = torch.Generator().manual_seed(0), torch.zeros(900)
    for i in range(5):
        w = w + torch.randn(900, generator=generator) * 2.0 ** -(i % 7)
        save_file({"w": w}, tmp_path / f"step-{10 * i}.safetensors")
    return tmp_path


def of_own(page: Any) -> LastState:
    """What became of the files that this page has asked for."""
    asked = page.at.session_state["recover-own-asked"]
    (found,) = session.all_jobs().wait(*asked, SECONDS).finished_parts
    page.run()
    assert isinstance(found.value, LastState)
    return found.value


def test_own_files(quickly: Recovering, files: Path) -> None:
    page = quickly(**OWN, recover_share="5 %")
    assert page.title == "Recover: what a crash costs"
    assert page.at.button(key="recover-own-start").disabled
    page.set("text_input", "recover_own", f" {files} ")
    assert page.texts("caption")[0].startswith("5 files, steps 0–40 every 10, ")
    found = of_own(page.click("recover-own-start"))
    assert page.title == f"Recover: {page_last_state.headline(found, 0.05)}"
    assert page.charts == {"last-state"}
    assert not page.at.button
    (bars,) = page.figure("last-state")["data"]
    assert bars["x"] == [round(100 * one.distance, 4) for one in found.restored]
    assert page.shows(page_last_state.NO_LOSS)
    other = quickly(**OWN, recover_own=str(files), tables="true")  # it is there at once
    assert other.charts == {"last-state"}
    (table,) = (t.value for t in other.at.table)
    assert "lost" not in table
    assert list(table["method"]) == ["full", "SCAR", "TOPN", "LC Huffman", "LC run-length"]
    page.set("segmented_control", "recover_share", 0.1)
    assert not page.charts  # not asked for yet
    page.set("segmented_control", "recover_source", "trained")
    assert page.pictures == {"race"}


def test_own_files_that_a_model_of_the_lab_fits(quickly: Recovering, tmp_path: Path) -> None:
    """A chain of its training, as Export gives it."""
    training = workload("matrix-factorization").training(0)
    with codec.Checkpointer(tmp_path / "run.lcc") as chain:
        for step in range(4):
            training.iterate(step + 1)
            chain.save(step, training.state())
    page = quickly(**OWN, recover_own=str(tmp_path / "run.lcc"), tables="true")
    found = of_own(page.click("recover-own-start"))
    assert found.by == training.task.title
    assert any(f"Measured by the loss of {found.by}, " in text for text in page.sentences)
    assert not page.shows(page_last_state.NO_LOSS)
    (table,) = (t.value for t in page.at.table)
    assert table["lost"][0] == "0.0 steps"


def test_own_files_too_few_and_what_no_method_saves(quickly: Recovering, files: Path) -> None:
    page = quickly(**OWN, recover_own=str(files), recover_share="1 %")
    of_own(page.click("recover-own-start"))
    (warning,) = page.texts("warning")
    assert "saved nothing and restart at the first weights" in warning
    for i in (0, 10, 20):
        (files / f"step-{i}.safetensors").unlink()
    page = quickly(**OWN, recover_own=str(files))
    assert page.shows("too few. Open 3 or more.")
    assert page.at.button(key="recover-own-start").disabled


def test_a_damaged_chain_is_said(quickly: Recovering, tmp_path: Path) -> None:
    path = saved(tmp_path / "run.lcc", ({"w": torch.arange(900.0) * i} for i in range(4)))
    flip(path, 2)
    page = quickly(**OWN, recover_own=path).click("recover-own-start")
    session.all_jobs().wait(*page.at.session_state["recover-own-asked"], SECONDS)
    (error,) = page.run().texts("error")
    assert error.endswith("Inspect shows which steps of the chain still restore.")
    assert not page.charts
