"""Files of one's own on the Export page, as Streamlit runs it without a browser."""

import gc
import io
import re
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import codec
from lcviz.export import compress as compressing
from lcviz.export import page_own_files
from lcviz.export import receipt as receipts
from lcviz.export.archive import settings_name
from lcviz.export.bundle import everything
from lcviz.export.compress import Compression
from lcviz.text import nbytes_text, percent_text
from lcviz.ui import session
from tests.lcviz.common import SECONDS, Make, Patch, flip

pytestmark = pytest.mark.usefixtures("server")

PAPER = "Huffman (paper)"
STATES = [{"w": torch.arange(20.0) * i} for i in range(5)]


@pytest.fixture(autouse=True)
def _own_shelf() -> Iterator[None]:
    session.shelf.clear()
    yield
    session.all_jobs().close()
    session.all_jobs.clear()
    session.shelf.clear()


@pytest.fixture
def own_files(visit: Make) -> Make:
    """The page with files of mine, opened with these URL parameters."""
    return partial(visit, "export", export_source="Files of mine")


def finished(page: Any) -> Any:
    """Wait for what this page has asked for."""
    session.all_jobs().wait(*page.at.session_state["export-asked"], SECONDS)
    return page.run()


def result(page: Any) -> compressing.Compressed:
    found = session.all_jobs().look(*page.at.session_state["export-asked"]).finished_parts[0].value
    assert isinstance(found, compressing.Compressed)
    return found


def labels(page: Any, kind: str = "button") -> list[str]:
    return [b.label for b in page.at.get(kind)]


def chain_file(page: Any) -> str:
    """The name of the chain that is offered, as its button's help begins."""
    text: str = page.at.get("download_button")[0].help
    return text.partition(". ")[0].replace("\\", "")


def test_a_path_that_was_given_on_tune(own_files: Make, series: Path) -> None:
    """It is in the field and in the URL, and what is pressed then still works."""
    page = own_files(held={"own-path": ("tune_own", str(series))})
    assert page.at.text_input(key="export_path").value == str(series)
    assert page.at.query_params["export_path"] == str(series)
    finished(page.click("export-start"))
    assert result(page).steps


def test_opened_compressed_compared_and_offered(own_files: Make, series: Path) -> None:
    page = own_files(export_path=series, export_keep="Bits x", export_bits="3", export_coder=PAPER)
    assert page.shows("**4 checkpoints**")
    (files,) = page.at.dataframe
    assert files.value["step"].tolist() == [0, 5, 10, 15]
    assert files.value["values"].tolist() == [1230] * 4
    assert "SHA-256" not in files.value  # the receipt has it
    assert labels(page) == ["Compress 4 checkpoints"]
    finished(page.click("export-start"))
    assert page.charts == {"bytes", "distances"}
    made = result(page)
    package, settings = made.load(), made.receipt["settings"]
    assert (settings["bits"], settings["coder"], settings["scope"]) == (3, "huffman", "model")
    verified = f"4 steps, 0 to 15, rebuilt from these {len(package.data):,} bytes"
    worst = max(made.steps, key=lambda c: c.distance)
    assert worst.distance > 0.35  # red, with a setting that helps; nothing is green
    (error,) = page.texts("error")
    assert f"step {worst.step} is behind by {worst.distance:.1%} of what was trained" in error
    assert error.endswith("save with distance=0.3 instead.")
    assert not page.texts("success")
    assert verified in page.texts("info")[0]
    assert chain_file(page) == "own-4steps-bits3-model-huffman.lcc.zip"
    offered = ["Download chain", "Download everything", "Download step 15"]
    assert [label.partition(" (")[0] for label in labels(page, "download_button")] == offered
    full, files_bytes = 4 * 4 * 1230, sum(p.stat().st_size for p in series.iterdir())
    records = sum(e.nbytes for e in package.entries)
    assert page.texts("header") == [
        f"{nbytes_text(len(package.data))} instead of {nbytes_text(full)} in float32; "
        f"step {worst.step} is furthest off, {100 * worst.distance:.2f} % of what was trained"
    ]
    assert page.shows(f"{files_bytes / 1e3:.1f} kB as files")
    assert page.shows(f"{100 * records / full:.2f} % of float32**")
    page.set("select_slider", "export_step", 5)
    assert page.shows("The tensors of step 5 were read back bit for bit")
    off = next(c.distance for c in made.steps if c.step == 5)
    assert page.shows(f"Distance from the file: {percent_text(off)} of what was trained.")
    page.set("select_slider", "export_step", 0)
    assert page.shows("Equal to the file, to the last bit.")
    page.set("select_slider", "export_step", 5)
    assert any("At step 5 fc." in s for s in page.unfold("export-tensors").sentences)


def test_the_default_is_close_to_the_files(own_files: Make, series: Path) -> None:
    page = own_files(export_path=series)
    finished(page.click("export-start"))
    assert max(c.distance for c in result(page).steps) == pytest.approx(0.3, abs=0.01)
    assert not page.texts("error")
    assert "checks what was written, not how close it is to what was" in page.texts("success")[0]


def test_some_chains_are_kept(
    own_files: Make, series: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    page = own_files(export_path=series, export_budget="30")
    assert Compression().coding == codec.Checkpointer(tmp_path / "run.lcc").coding  # the default
    finished(page.click("export-start"))
    first, chain = chain_file(page), result(page).archive
    assert first == f"own-4steps-{settings_name(Compression().coding)}.lcc.zip"
    page.set("segmented_control", "export_keep", "budget")
    assert labels(page) == ["Compress 4 checkpoints"]
    finished(page.click("export-start"))
    assert chain_file(page) == "own-4steps-budget30-model-runlength.lcc.zip"
    assert [c.kind for c in result(page).steps] == ["base", "delta", "delta", "delta"]
    page.set("segmented_control", "export_keep", "distance")
    assert chain_file(page) == first  # nothing was done again
    assert not page.at.button
    monkeypatch.setattr(page_own_files, "MOST_KEPT", 1)
    kept = len(session.all_jobs()._finished)
    page.set("segmented_control", "export_scope", "tensor")
    gc.collect()
    assert len(session.all_jobs()._finished) == kept - 2  # what was measured goes with its chain
    assert not chain.exists()
    page.set("segmented_control", "export_scope", "model")
    assert labels(page) == ["Compress 4 checkpoints"]


def test_what_is_refused_is_said_and_the_rest_is_taken(own_files: Make, tmp_path: Path) -> None:
    """Names of files and tensors are no Markdown: a picture would be fetched."""
    for i in range(2):
        save_file({"![t](x)": torch.ones(9) * i}, tmp_path / f"![p](x) {i}.safetensors")
    save_file({"v": torch.ones(9)}, tmp_path / "![p](x) 2.safetensors")
    (tmp_path / "3.safetensors").write_bytes(b"\x93NUMPY" + bytes(99))
    page = own_files(export_path=tmp_path, tables="true")
    (error,) = page.said("error")
    assert error.startswith("3.safetensors: is not a .safetensors file")
    (warning,) = page.texts("warning")
    assert "2.safetensors has other tensors than 2 others" in warning
    assert labels(page) == ["Compress 3 checkpoints"]
    finished(page.click("export-start"))
    assert "Verified: 3 steps" in page.texts("success")[0]
    cells = [str(v) for t in page.at.table for v in t.value.to_numpy().ravel()]
    assert "\\!\\[p\\](x) 0.safetensors" in cells
    assert not [c for c in cells if "![" in c]


def test_sentences_about_files_are_few() -> None:
    assert page_own_files._first_sentences("abcde", "file") == [*"abcde"]
    more = "And 4 more, each about a file."
    assert page_own_files._first_sentences("abcdefghi", "file") == [*"abcde", more]


def test_nothing_opened(own_files: Make, series: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    page = own_files()
    assert not page.at.button
    assert not page.charts
    assert not page.texts("error") + page.texts("warning")
    (tmp_path / "empty").mkdir()
    for path in (f"{tmp_path}/empty", f"{tmp_path}/\0", "~nobody-of-that-name/x"):
        (error,) = page.set("text_input", "export_path", path).texts("error")
        assert error.endswith(".")
        assert not page.at.button
    monkeypatch.setattr(session.shelf(), "most_places", 0)
    (error,) = page.set("text_input", "export_path", str(series)).texts("error")
    assert error.startswith("This server already keeps 0 series and chains")


def test_a_server_for_others(
    own_files: Make, series: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "1.safetensors").symlink_to(series / "step-0.safetensors")
    monkeypatch.setenv("LCVIZ_FOLDERS", str(tmp_path))
    page = own_files()
    for path in (series, tmp_path / "link"):
        (error,) = page.set("text_input", "export_path", str(path)).texts("error")
        assert "is in none of the folders that this server opens" in error
    monkeypatch.setenv("LCVIZ_FOLDERS", str(series.parent))
    assert not page.set("text_input", "export_path", str(series)).texts("error")


def test_a_chain_as_it_is(own_files: Make, make_chain: Make, monkeypatch: Patch) -> None:
    """Its name becomes a part of scripts and of lines for a shell."""
    monkeypatch.setattr("lcviz.ui.widgets.MOST_STEPS", 3)
    archive = make_chain(*STATES, name='![x](y) """; rm -rf ~ #.LCC', bits=1)
    archive = archive.with_name(f"{archive.name}.zip")
    page = own_files(export_path=archive, export_use="Export it as it is")
    assert page.shows("This is the chain **")
    name = "x-y-rm--rf"
    assert chain_file(page) == f"{name}.lcc.zip"
    codes = page.unfold("export-elsewhere").at.code
    assert f"verify {name}.lcc.zip\n" in "".join(c.value for c in codes)
    assert "Verified: 5 steps, 0 to 4" in page.texts("info")[0]
    assert not page.texts("success")
    (error,) = page.texts("error")  # one bit is too little
    assert re.match(r"Too far for a restart: step \d is behind by \d\d\.\d% .*distance=0\.3", error)
    package, receipt = page.at.session_state["export-as-is"][1]
    with zipfile.ZipFile(io.BytesIO(everything(package, receipt))) as given:
        assert given.namelist() == [package.file, "receipt.json", "README.txt", "reader.py"]
        receipt = receipts.load(given.read("receipt.json"))
        assert receipts.problems(receipt, given.read(package.file)) == []
    assert page.at.select_slider(key="export_step").options == ["2", "3", "4"]
    assert page.shows("newest 3 of 5 steps", "caption")
    page.set("segmented_control", "export_use", "again")
    finished(page.click("export-start"))
    assert not page.shows("as files")
    assert page.texts("error") == [error]  # the new chain is close, to one that is not


def test_a_damaged_chain(own_files: Make, make_chain: Make, monkeypatch: Patch) -> None:
    record = flip(make_chain(*STATES[:3]), 1)
    page = own_files(export_path=record.parent)
    before = session.shelf().nbytes
    finished(page.click("export-start"))
    (error,) = page.texts("error")
    assert error.startswith("Compressing failed: ")
    assert "00000001.delta.safetensors" in error
    assert session.shelf().nbytes == before  # what failed has left its place to others
    page.set("segmented_control", "export_use", "as_is")
    (again,) = page.texts("error")
    assert "does not restore" in again
    for sentence in (error, again):
        assert sentence.endswith("Inspect shows which steps of the chain still restore.")
    monkeypatch.setattr(page_own_files, "verify_as_is", None)  # what failed is not tried again
    assert page.run().texts("error") == [again]
    assert not page.at.get("download_button")


def test_everything_is_kept_until_a_part_is_left_out(own_files: Make, tmp_path: Path) -> None:
    for i in range(3):
        state = {"model": {"w": torch.arange(40.0) * i, "n": torch.tensor(i)}, "epoch": i}
        moments = {"state": {0: {"exp_avg": torch.arange(40.0) * i}}}
        torch.save(state | {"optimizer": moments, "kind": torch.float32}, tmp_path / f"{i}.pt")
    page = own_files(export_path=tmp_path, tables="true")
    (warning,) = page.texts("warning")
    assert "**kind** ('kind' is a dtype" in warning
    pills = page.at.get("button_group")[-1]
    assert pills.options == ["model, 504 B", "epoch", "optimizer, 480 B"]
    finished(page.click("export-start"))
    made = result(page)
    assert set(codec.restore(io.BytesIO(made.load().data))) == {"model", "epoch", "optimizer"}
    kept = "An optimizer's moments are kept in steps of 1/8 of its size."
    assert kept in " ".join(page.texts("caption"))
    (rows,) = (t.value for t in page.unfold("export-tensors").at.table if "stored" in t.value)
    assert set(rows["stored"]) == {"lossy", "exactly", "steps of 1/8 of its size"}
    assert "Left out of chain and files: kind." in " ".join(page.texts("caption"))

    page.at.get("button_group")[-1].set_value(["optimizer"])
    page.run()
    finished(page.click("export-start"))
    made = result(page)
    assert set(codec.restore(io.BytesIO(made.load().data))) == {"model", "epoch"}
    left_out = "Left out of chain and files: kind, optimizer."
    assert page.shows(left_out, "caption")
    page.at.get("button_group")[-1].set_value(["model", "epoch", "optimizer"])
    assert page.run().shows("Keep at least one")
    assert not page.at.button
