"""The Export page as Streamlit runs it, without a browser."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest

import codec
from lcviz.export import archive as export
from lcviz.lab.anatomy import tables
from lcviz.run.run import Run
from lcviz.ui import session as state

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture
def run(create: Callable[..., Run]) -> Run:
    """A finished run of five steps."""
    made = create()
    made.play()
    assert made.wait(60).status == "finished"
    return made


def test_the_example_can_be_exported(exporting: Callable[..., Any]) -> None:
    page = exporting()
    assert page.texts("title") == ["Open and export"]
    assert "the example run, **Logistic regression on Digits 8x8**" in page.texts("markdown")[0]
    name = page.at.session_state["package"][1].name
    assert [b.label.split(" (")[0] for b in page.at.get("download_button")] == [
        f"Download {name}.lcc.zip",
        f"Download {name}-step6.safetensors",
        "Download everything",
        "Receipt",
        "Script",
    ]
    assert page.charts == {"records"}


def test_what_is_said_of_the_archive_is_true(exporting: Callable[..., Any], run: Run) -> None:
    page = exporting(run)
    package = page.at.session_state["package"][1]
    verified, restored = page.texts("success")
    report = codec.verify(io.BytesIO(package.data))
    assert report.ok
    assert report.steps == (0, 1, 2, 3, 4, 5)
    assert f"all 6 steps, 0 to 5, were rebuilt from the {len(package.data):,} bytes" in verified
    newest = codec.Chain(io.BytesIO(package.data))
    assert newest.read(newest.entries[-1]).track in verified
    loss = run.task.probe_loss(codec.restore(io.BytesIO(package.data), 5))
    assert f"loss on held-out examples is {loss:.6f}; " in restored
    assert f"the live model had {run.snapshot().newest.live_loss:.6f}" in restored
    for part in ("SGD", "learning rate 0.1", "seed 0", "2 bits", "model", "every iteration"):
        assert part in page.texts("markdown")[0]
    assert "Run-length Huffman" in page.texts("markdown")[0]


def test_records_say_whether_their_table_is_new(exporting: Callable[..., Any], run: Run) -> None:
    page = exporting(run).set("toggle", "tables", True)
    (table,) = page.at.table
    words = {(0, 0): "none", (1, 0): "new", (1, 1): "used again"}
    every = [tables(c.alphabets) for c in run.snapshot().checkpoints]
    assert table.value["code table"].tolist() == [words[t.n, t.reused] for t in every]
    again = sum(t.reused for t in every)
    assert any(f"{again} of 5 code tables were sent before" in t for t in page.sentences)


def test_before_the_example_is_there(
    exporting: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state.all_runs(), "prepared", lambda: False)
    page = exporting()
    assert page.texts("info")[0].startswith("An example run is being trained")
    assert not page.at.get("download_button")
    monkeypatch.undo()
    assert page.run().at.get("download_button")


@pytest.mark.parametrize("step", [0, 3])
def test_any_step_can_be_restored(exporting: Callable[..., Any], run: Run, step: int) -> None:
    page = exporting(run).set("select_slider", "export_step", step)
    loss = run.task.probe_loss(codec.restore(run.path, step))
    assert f"step {step} bit for bit" in page.texts("success")[1]
    assert f"{loss:.6f}" in page.texts("success")[1]
    chain, single, *_ = page.at.get("download_button")
    assert f"-step{step}.safetensors" in single.label
    assert ".lcc.zip" in chain.label


def test_a_step_is_restored_once(
    exporting: Callable[..., Any], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore, made = export.restore, []
    monkeypatch.setattr(export, "restore", lambda *asked: made.append(asked[2]) or restore(*asked))
    page = exporting(run).set("toggle", "tables", True)
    assert made == [page.at.session_state["package"][1].steps[-1]]
    page.set("select_slider", "export_step", 0)
    assert made[1:] == [0]
    assert "step 0 bit for bit" in page.texts("success")[1]


def test_code_that_loads_it_names_the_files(exporting: Callable[..., Any], run: Run) -> None:
    page = exporting(run)
    name = page.at.session_state["package"][1].name
    papers, python, shell, plain = (block.value for block in page.at.code)
    assert papers == f"python -m lcviz receipt receipt.json {name}.lcc.zip\npython reproduce.py"
    assert f'codec.restore("{name}.lcc.zip", step=5)' in python
    assert f"codec verify {name}.lcc.zip\n" in shell
    assert f"codec restore {name}.lcc.zip --step 5 -o " in shell
    assert f'load_file("{name}-step5.safetensors")' in plain


def test_newer_steps_are_included_when_asked_for(
    exporting: Callable[..., Any], create: Callable[..., Run]
) -> None:
    run = create()
    page = exporting(run)
    assert page.at.session_state["package"][1].steps == (0,)
    assert not page.at.select_slider  # one step: nothing to choose
    run.step()
    run.wait(60)
    run.step()
    run.wait(60)
    page.run()
    assert page.at.session_state["package"][1].steps == (0,)
    (button,) = page.at.button
    assert button.label.startswith("Include ")
    assert "2" in button.label
    button.click()
    page.run()
    assert page.at.session_state["package"][1].steps == (0, 1, 2)
    assert not page.at.button
    page.set("select_slider", "export_step", 1)
    run.play()
    run.wait(60)
    page.run().at.button[0].click()
    page.run()
    assert page.at.session_state["package"][1].steps == (0, 1, 2, 3, 4, 5)
    assert page.at.select_slider(key="export_step").options == list("012345")


def test_another_run_is_packed_anew(
    exporting: Callable[..., Any], run: Run, create: Callable[..., Run]
) -> None:
    page = exporting(run)
    other = create(seed=4)
    page.at.query_params["run"] = other.id
    page.run()
    assert page.at.session_state["package"][1].name.endswith("seed4")
    assert page.at.session_state["package"][1].steps == (0,)


def test_a_damaged_chain_is_not_offered(exporting: Callable[..., Any], run: Run) -> None:
    (record,) = run.path.glob("00000003.*")
    data = bytearray(record.read_bytes())
    data[-2] ^= 4
    record.write_bytes(data)
    page = exporting(run)
    (sentence,) = page.texts("error")
    assert sentence.startswith("The packed chain does not restore")
    assert "00000003.delta.safetensors" in sentence
    assert re.search(r"\. Nothing (more )?is offered for download\.", sentence)  # two sentences
    assert not page.at.get("download_button")
    assert not page.texts("success")


def test_a_stale_link_shows_the_example(exporting: Callable[..., Any]) -> None:
    page = exporting()
    page.at.query_params["run"] = "gone"
    page.run()
    assert page.texts("warning")[0].startswith("The run in this link is no longer")
    assert page.charts == {"records"}
