"""Runs that were named when the server was started, as Streamlit runs the page."""

import math
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import codec
from lcviz.inspect import page as inspect
from lcviz.inspect import page_watch
from tests.lcviz.common import Make, MakePath, Patch, flip, until

pytestmark = pytest.mark.usefixtures("server")

Capsys = pytest.CaptureFixture[str]


def runs(page: Any) -> Any:
    """The table of all runs."""
    (found,) = (d.value for d in page.at.dataframe if "newest step" in d.value.columns)
    return found.set_index("run")


def drawn(page: Any, measure: str) -> dict[str, list[tuple[int, float]]]:
    """Run -> its points."""
    picture = page.picture("watched")
    assert picture["title"] == page_watch.MEASURES[measure]
    return {line["name"]: list(zip(line["x"], line["y"])) for line in picture["lines"]}


def test_one_chain_is_open_and_followed(started: Make, tmp_path: Path, save: MakePath) -> None:
    path = save(tmp_path / "run.lcc", 0, 3)
    page = started("--run", path)
    assert page.chain == ("4", "0 to 3")
    assert page.at.toggle(key="inspect_follow").value
    assert "**Step 3**, the newest." in page.texts("markdown")
    assert any(text.startswith("Last record ") and " ago" in text for text in page.sentences)
    save(path, 4, 6)
    page.run()
    assert page.chain == ("7", "0 to 6")
    assert "**Step 6**, the newest." in page.texts("markdown")
    page.set("selectbox", page_watch.CHOICE, page_watch.LIVE)
    assert page.shows("The chain of the example run")
    assert not any(text.startswith("Last record") for text in page.sentences)
    assert "inspect_follow" not in page.keys("toggle")
    page.click("watch-back")
    assert page.chain == ("7", "0 to 6")
    live = "LC-Checkpoint, live"  # where a link leads, and the root where nothing is watched
    assert started("--run", path, bits="3").title == started().title == live


def test_one_that_is_not_there_yet(
    started: Make, tmp_path: Path, capsys: Capsys, save: MakePath
) -> None:
    path = tmp_path / "later" / "run.lcc"
    page = started("--run", path)
    (waiting,) = page.said("info")
    assert waiting.startswith(f"Waiting for the first record at **{path}**. ")
    assert "Its folder does not exist" in waiting
    assert (page.texts("error"), page.chain) == ([], None)
    page.run()
    assert capsys.readouterr().err == f"lcviz: waiting for the first record at {path}\n"  # once
    path.mkdir(parents=True)
    (waiting,) = page.run().said("info")
    assert "Its folder" not in waiting
    save(path, 0, 2)
    assert page.run().chain == ("3", "0 to 2")
    shutil.rmtree(path)  # a trainer that begins anew
    assert "Waiting for the first record" in page.run().texts("info")[0]


def test_wrong_arguments(started: Make, capsys: Capsys) -> None:
    page = started("--rum", "x.lcc")
    (error,) = page.said("error")
    assert "unrecognized arguments: --rum" in error
    told = capsys.readouterr().err.splitlines()  # among what Streamlit may say
    assert told.count(f"lcviz: {error}") == 1
    assert page.chain == ("4", "0 to 6")  # all else works


def test_what_is_none(started: Make, tmp_path: Path, monkeypatch: Patch, save: MakePath) -> None:
    file = tmp_path / "run.lcc"
    file.write_bytes(b"no archive")
    page = started("--run", file)
    (error,) = page.said("error")
    assert error.startswith("This cannot be opened. ")
    assert "is not a readable .lcc.zip" in error
    # A page that is left open opens it as soon as it can, by itself: here already in this run.
    file.unlink()
    save(file, 0, 2)
    read, failed = inspect.read, list[int]()

    def once(source: Any) -> Any:
        if not failed:
            failed.append(1)
            raise codec.ChainError("the disk does not answer")
        return read(source)

    monkeypatch.setattr(inspect, "read", once)
    assert (page.run().texts("error"), failed) == ([], [1])
    assert page.chain == ("3", "0 to 2")


def test_what_lies_there_instead(started: Make, tmp_path: Path, save: MakePath) -> None:
    (tmp_path / "c0.pt").touch()
    page = started("--run", tmp_path)
    (warning,) = page.said("warning")
    assert warning.startswith("c0.pt is a checkpoint, but not a record")
    (tmp_path / "c0.pt").rename(tmp_path / "__0_0.distcp")
    (warning,) = page.run().said("warning")
    assert warning.startswith("__0_0.distcp is part of a distributed checkpoint (DCP)")
    save(tmp_path / "a.lcc", 0, 0)
    assert page.run().said("warning") == []
    assert "There is no delta yet" in page.texts("info")[0]
    assert page.pictures == set()
    page.set("segmented_control", "watch_measure", "bytes")
    assert page.pictures == {"watched"}


def test_a_damaged_record(started: Make, tmp_path: Path, save: MakePath) -> None:
    """The comparison tells of what the beginnings say, the full view of every byte."""
    path = save(tmp_path / "a.lcc", 0, 5)
    save(tmp_path / "b.lcc", 0, 1)
    (record,) = path.glob("00000003.*")
    data = record.read_bytes()
    record.write_bytes(data[:-7])
    page = started("--run", tmp_path)
    told = ["Damaged: a.lcc. Open a run to see which of its steps restore."]
    assert page.said("error") == told
    folded = f"- a.lcc: 00000003.delta.safetensors: expected {len(data)} bytes, found"
    assert page.shows(folded)
    assert runs(page)["state"].tolist() == ["1 damaged record", "growing"]
    record.write_bytes(data)
    flip(record)
    assert page.run().texts("error") == []
    page.set("selectbox", page_watch.CHOICE, "a.lcc")
    (error,) = page.said("error")
    assert error.startswith("Steps 0 to 2 still restore; 3 to 5 do not. Put back a good copy")
    assert page.title == "Inspect: 3 of 6 steps cannot be restored"


def test_runs_side_by_side(started: Make, tmp_path: Path, save: MakePath) -> None:
    page = started("--run", tmp_path)
    assert page.texts("info")[0].startswith("Waiting for the first run")
    two = save(tmp_path / "two.lcc", 0, 4, bits=2)
    four = save(tmp_path / "deeper" / "run.lcc", 0, 9, bits=4)
    (tmp_path / "soon.lcc").mkdir()
    page.run()
    table = runs(page)
    assert table.index.tolist() == ["soon.lcc", "two.lcc", "deeper/run.lcc"]
    assert table["state"].tolist() == ["no record yet", "growing", "growing"]
    for path, name in ((two, "two.lcc"), (four, "deeper/run.lcc")):
        row, entries = table.loc[name], codec.Chain(path).entries
        deltas = [e.nbytes for e in entries if e.kind == "delta"]
        assert (row["steps"], row["newest step"]) == (len(entries), entries[-1].step)
        assert row["on disk, bytes"] == sum(e.nbytes for e in entries)
        assert row["a step, bytes"] == round(sum(deltas) / len(deltas))
        assert row["% of float32"] == round(100 * sum(deltas) / len(deltas) / 4808, 3)
        full = 4808 * len(entries)
        assert row["times smaller"] == round(full / sum(e.nbytes for e in entries), 1)
    assert table["kept"].tolist()[1:] == ["2 bits, whole model", "4 bits, whole model"]
    lines = drawn(page, "share")
    assert {name: len(data) for name, data in lines.items()} == {"two.lcc": 4, "deeper/run.lcc": 9}
    assert lines["deeper/run.lcc"][-1] == (9, pytest.approx(100 * deltas[-1] / 4808, abs=1e-4))
    for measure, value in (
        ("bytes", table.loc["two.lcc"]["on disk, bytes"] / 1000),
        ("times", pytest.approx(table.loc["two.lcc"]["times smaller"], 0.05)),
    ):
        page.set("segmented_control", "watch_measure", measure)
        assert drawn(page, measure)["two.lcc"][-1] == (4, value)

    save(two, 5, 5)
    save(tmp_path / "aaa.lcc", 0, 0)
    table = runs(page.run())
    assert table.index.tolist() == ["soon.lcc", "two.lcc", "deeper/run.lcc", "aaa.lcc"]
    assert table["newest step"].tolist()[1:] == [5, 9, 0]
    page.set("selectbox", page_watch.CHOICE, "two.lcc")
    assert page.chain == ("6", "0 to 5")
    assert page.at.toggle(key="inspect_follow").value
    page.click("watch-back")
    assert len(runs(page)) == 4


def test_a_silent_url(started: Make, tmp_path: Path, monkeypatch: Patch, save: MakePath) -> None:
    """Nobody waits for it, and no visitor learns of its secrets."""
    url = "https://u:geheim@host/far.lcc?sig=geheim"
    silent = threading.Event()

    def fails(_url: str) -> None:
        silent.wait(300)
        raise codec.ChainError("https://host/far.lcc: cannot be listed: timed out")

    monkeypatch.setattr(page_watch, "open_remote", fails)
    failed = "https://host/far.lcc: cannot be listed: timed out."
    alone = started("--run", url)
    waiting = "No answer yet from **https://host/far.lcc**. It shows up here by itself."
    assert alone.said("info") == [waiting]
    two = started("--run", url, save(tmp_path / "near.lcc", 0, 3))
    assert runs(two)["state"].to_dict() == {"far.lcc": "not reached yet", "near.lcc": "growing"}
    assert two.shows("2 runs at **https://host/far.lcc** and **")
    silent.set()
    for page, error in ((two, f"far.lcc: {failed}"), (alone, f"This cannot be opened. {failed}")):
        until(lambda: page.run().said("error"))  # noqa: B023
        assert page.said("error") == [error]
        every = [*map(page.texts, ("info", "error", "markdown")), *page.at.selectbox[0].options]
        assert "far.lcc" in str(every)
        assert "geheim" not in str(every)


def test_a_record_that_leads_out(
    started: Make, tmp_path: Path, monkeypatch: Patch, save: MakePath
) -> None:
    """Also if it comes while the run is open."""
    monkeypatch.setenv("LCVIZ_FOLDERS", str(tmp_path / "runs"))
    path, out = save(tmp_path / "runs" / "a.lcc", 0, 3), save(tmp_path / "out.lcc", 0, 3)
    (record,) = path.glob("00000002.*")
    page = started("--run", path.parent)
    page.set("selectbox", page_watch.CHOICE, "a.lcc")
    assert page.chain == ("4", "0 to 3")
    record.unlink()
    record.symlink_to(out / record.name)
    (error,) = page.run().said("error")
    assert "is a link to what this server does not open" in error
    assert page.chain is None
    page = started("--run", out).unfold("inspect-else")  # and a path that is typed
    (error,) = page.set("text_input", "inspect_path", str(path)).said("error")
    assert "is in none of the folders" in error


def test_following_rests(started: Make, tmp_path: Path, monkeypatch: Patch, save: MakePath) -> None:
    """The page is made anew for new records, but not until it has rested from the last time."""
    page = started("--run", save(tmp_path / "run.lcc", 0, 3))
    findings = page.at.session_state["inspect-findings"][1]
    tick, one_step = inspect._records, inspect.one_step
    anew: list[bool] = []
    monkeypatch.setattr(inspect.st, "rerun", lambda: (anew.append(True), inspect.st.stop()))
    with monkeypatch.context() as patch:
        patch.setattr(inspect, "one_step", lambda *of: (time.sleep(0.1), one_step(*of)))
        begun = time.monotonic()
        page.run()
    assert findings.follow_after - begun > 0.1 * (1 + inspect.RESTING)
    monkeypatch.setattr(  # as if one more had come since
        inspect, "_records", lambda source, pace, known, follow: tick(source, pace, 3, follow)
    )
    findings.follow_after = math.inf
    assert page.run().chain == ("4", "0 to 3")
    assert anew == []
    findings.follow_after = 0.0
    page.run()
    assert anew == [True]
