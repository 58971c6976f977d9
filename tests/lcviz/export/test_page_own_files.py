"""Files of one's own on the Export page, as Streamlit runs it without a browser."""

from __future__ import annotations

import gc
import io
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest

import codec
from lcviz.export import archive as export
from lcviz.export import compress as compressing
from lcviz.server.quota import Shelf
from lcviz.ui import session as state

pytestmark = pytest.mark.usefixtures("server")

SECONDS = 60
Bringing = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_shelf() -> Iterator[None]:
    state.shelf.clear()
    yield
    state.all_jobs().close()
    state.all_jobs.clear()
    state.shelf.clear()


@pytest.fixture
def bringing(page_of: Callable[[AppTest], Any]) -> Bringing:
    """The page with files of mine, opened with these URL parameters."""

    def script() -> None:
        from lcviz.export import page as export

        export.page()

    def open_page(**parameters: Any) -> Any:
        at = AppTest.from_function(script, default_timeout=SECONDS)
        for name, value in ({"export_source": "Files of mine"} | parameters).items():
            at.query_params[name] = str(value)
        return page_of(at).run()

    return open_page


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four checkpoints."""
    folder, generator = tmp_path_factory.mktemp("mine"), torch.Generator().manual_seed(0)
    w = torch.randn(40, 30, generator=generator)
    for i in range(4):
        w = w + 0.01 * torch.randn(40, 30, generator=generator) ** 3
        save_file({"fc.weight": w, "fc.bias": w[0].clone()}, folder / f"step-{5 * i}.safetensors")
    return folder


def finished(page: Any) -> Any:
    """Wait for what this page has asked for."""
    state.all_jobs().wait(*page.at.session_state["export-asked"], SECONDS)
    return page.run()


def labels(page: Any) -> list[str]:
    return [b.label for b in page.at.get("download_button")]


def test_nothing_is_there_until_something_is_opened(bringing: Bringing) -> None:
    page = bringing()
    assert not page.at.button
    assert not page.charts
    assert not page.texts("error") + page.texts("warning")
    assert page.at.get("file_uploader")


def test_opened_compressed_compared_and_offered(bringing: Bringing, series: Path) -> None:
    page = bringing(export_path=series, export_bits="3", export_coder="Huffman (paper)")
    assert any(
        t.startswith("**4 checkpoints**") and "last number" in t for t in page.texts("markdown")
    )
    (files,) = page.at.dataframe
    assert files.value["step"].tolist() == [0, 5, 10, 15]
    assert [b.label for b in page.at.button] == ["Compress 4 checkpoints"]
    finished(page.click("export-start"))
    assert page.charts == {"bytes", "distances", "records", "tensors"}
    made = state.all_jobs().look(*page.at.session_state["export-asked"]).found[0].value
    assert made.how == compressing.How(bits=3, coder="huffman")
    package = made.loaded()
    assert (
        f"all 4 steps, 0 to 15, were rebuilt from the {len(package.data):,} bytes"
        in (page.texts("success")[0])
    )
    assert "own-4steps-bits3-model-huffman.lcc.zip" in labels(page)[0]
    assert "-step15.safetensors" in labels(page)[1]
    assert labels(page)[2:] == ["Download everything", "Receipt", "Script"]
    full, files_bytes = 4 * 4 * 1230, sum(p.stat().st_size for p in series.iterdir())
    records = sum(e.nbytes for e in package.entries)
    assert page.metrics["In float32"] == (f"{full / 1e3:.1f} kB", "4 steps")
    assert page.metrics["As files"][0] == f"{files_bytes / 1e3:.1f} kB"
    assert page.metrics["The chain"][1] == f"{100 * records / full:.2f} % of float32"
    worst = max(made.steps, key=lambda c: c.distance)
    assert page.metrics["Furthest step"] == (f"{100 * worst.distance:.2f} %", f"step {worst.step}")
    page.set("select_slider", "export_step", 5)
    assert "step 5 bit for bit" in page.texts("success")[1]
    assert any("At step 5 fc." in s for s in page.sentences)
    assert torch.equal(
        codec.restore(io.BytesIO(package.data), 0)["fc.bias"],
        compressing_original(series, 0),
    )


def compressing_original(series: Path, step: int) -> torch.Tensor:
    from safetensors.torch import load_file

    return load_file(series / f"step-{step}.safetensors")["fc.bias"]


def test_other_settings_are_another_chain_and_the_first_is_kept(
    bringing: Bringing, series: Path
) -> None:
    page = bringing(export_path=series)
    finished(page.click("export-start"))
    first = labels(page)[0]
    page.set("segmented_control", "export_scope", "tensor")
    assert [b.key for b in page.at.button] == ["export-start"]
    finished(page.click("export-start"))
    assert labels(page)[0] != first
    page.set("segmented_control", "export_scope", "model")
    assert labels(page)[0] == first  # nothing was done again
    assert not page.at.button


def test_only_so_many_chains_are_kept(
    bringing: Bringing, series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcviz.export.page_own_files.MOST_KEPT", 1)
    page = bringing(export_path=series)
    finished(page.click("export-start"))
    shelf: Shelf = state.shelf()
    assert len(shelf._taken) == 2  # what was opened, and the chain
    page.set("segmented_control", "export_scope", "tensor")
    assert len(shelf._taken) == 1
    page.set("segmented_control", "export_scope", "model")
    assert [b.key for b in page.at.button] == ["export-start"]


def test_what_is_refused_is_said_and_the_rest_is_taken(bringing: Bringing, tmp_path: Path) -> None:
    for i in range(2):
        save_file({"w": torch.ones(9) * i}, tmp_path / f"{i}.safetensors")
    save_file({"v": torch.ones(9)}, tmp_path / "2.safetensors")
    (tmp_path / "3.safetensors").write_bytes(b"\x93NUMPY" + bytes(99))
    page = bringing(export_path=tmp_path)
    (error,) = page.texts("error")
    assert error.replace("\\", "").startswith("3.safetensors: is no .safetensors file")
    (warning,) = page.texts("warning")
    assert warning.startswith("2.safetensors has other tensors than 2 others")
    assert [b.label for b in page.at.button] == ["Compress 3 checkpoints"]
    finished(page.click("export-start"))
    assert "all 3 steps" in page.texts("success")[0]


@pytest.mark.parametrize("path", ["nowhere", "empty", "\0", "x" * 5000, "~nobody-of-that-name/x"])
def test_a_path_that_leads_nowhere(path: str, bringing: Bringing, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    page = bringing(export_path=f"{tmp_path}/{path}" if path != "~nobody-of-that-name/x" else path)
    (error,) = page.texts("error")
    assert error.count(".") >= 1
    assert not page.at.button


def test_a_chain_as_it_is_and_again(bringing: Bringing, series: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    with codec.Checkpointer(tmp_path / "run.lcc", bits=1) as chain:
        for i in range(3):
            chain.save(i, load_file(series / f"step-{5 * i}.safetensors"))
    codec.Chain(tmp_path / "run.lcc").pack(tmp_path / "mine.lcc.zip")
    page = bringing(export_path=tmp_path / "mine.lcc.zip", export_use="Export it as it is")
    assert any("This is the chain **mine.lcc.zip**" in t for t in page.texts("markdown"))
    assert labels(page)[0].startswith("Download mine.lcc.zip (")
    assert "all 3 steps, 0 to 2" in page.texts("success")[0]
    assert labels(page)[2:] == ["Download everything", "Receipt"]  # nothing to make it again from
    assert any("what the chain was made from is not known" in t for t in page.texts("info"))
    page.set("segmented_control", "export_use", "again")
    finished(page.click("export-start"))
    assert page.metrics["As files"] == ("a chain", "")
    assert labels(page)[-1] == "Script"


def test_a_long_chain_has_a_slider_that_a_browser_bears(
    bringing: Bringing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcviz.export.page_downloads.MOST_STEPS", 3)
    with codec.Checkpointer(tmp_path / "run.lcc") as chain:
        for i in range(5):
            chain.save(i, {"w": torch.arange(20.0) * i})
    page = bringing(export_path=tmp_path / "run.lcc", export_use="Export it as it is")
    assert page.at.select_slider(key="export_step").options == ["2", "3", "4"]
    assert "The newest 3 of 5 steps can be chosen." in page.texts("caption")


def test_a_damaged_chain(bringing: Bringing, tmp_path: Path) -> None:
    with codec.Checkpointer(tmp_path / "run.lcc") as chain:
        for i in range(3):
            chain.save(i, {"w": torch.arange(20.0) * i})
    record = tmp_path / "run.lcc" / "00000001.delta.safetensors"
    data = bytearray(record.read_bytes())
    data[-1] ^= 1
    record.write_bytes(data)
    page = bringing(export_path=tmp_path / "run.lcc")
    finished(page.click("export-start"))
    (error,) = page.texts("error")
    assert error.startswith("Compressing failed: ")
    assert "00000001.delta.safetensors" in error
    assert len(state.shelf()._taken) == 1  # what failed has left its place to others
    page.set("segmented_control", "export_use", "as_is")
    (again,) = page.texts("error")
    assert "does not restore" in again
    for sentence in (error, again):
        assert sentence.endswith("Inspect shows which steps of the chain still restore.")
    with pytest.MonkeyPatch.context() as patch:  # what failed is not tried at every click
        patch.setattr(export, "check", None)
        assert page.set("toggle", "tables", True).texts("error") == [again]
    assert not page.at.get("download_button")


def test_an_archive_of_a_hostile_name(bringing: Bringing, series: Path, tmp_path: Path) -> None:
    """It becomes a part of scripts and of lines for a shell."""
    from safetensors.torch import load_file

    with codec.Checkpointer(tmp_path / "run.lcc", bits=1) as chain:
        for i in range(2):
            chain.save(i, load_file(series / f"step-{5 * i}.safetensors"))
    evil = tmp_path / '![x](y) """; rm -rf ~ #.LCC.ZIP'
    codec.Chain(tmp_path / "run.lcc").pack(evil)
    page = bringing(export_path=evil, export_use="Export it as it is")
    name = "x-y-rm--rf"
    assert labels(page)[0].startswith(f"Download {name}.lcc.zip (")
    assert f"verify {name}.lcc.zip\n" in "".join(c.value for c in page.at.code)


def test_names_in_tables_are_no_markdown(bringing: Bringing, tmp_path: Path) -> None:
    """Streamlit reads the cells of a plain table as Markdown: a picture would be fetched."""
    for i in range(2):
        save_file({"![t](x)": torch.ones(9) * i}, tmp_path / f"![p](x) {i}.safetensors")
    page = bringing(export_path=tmp_path, tables="true")
    finished(page.click("export-start"))
    cells = [str(v) for t in page.at.table for v in t.value.to_numpy().ravel()]
    for name in ("\\!\\[p\\](x) 0.safetensors", "\\!\\[t\\](x)"):
        assert name in cells
    assert not [c for c in cells if "![" in c]


def test_sentences_about_files_are_few(bringing: Bringing, tmp_path: Path) -> None:
    for i in range(9):
        (tmp_path / f"{i}.pt").write_bytes(b"evil")
        save_file({f"w{i}": torch.ones(9)}, tmp_path / f"{i + 20}.safetensors")
    page = bringing(export_path=tmp_path)
    assert len(page.texts("error")) == len(page.texts("warning")) == 6
    assert page.texts("error")[-1] == "And 4 more, each of a file that was not taken."
    assert page.texts("warning")[-1].startswith("And 3 more, each of a file that is unlike")


def test_what_was_asked_for_last_is_opened(bringing: Bringing, series: Path) -> None:
    def upload(page: Any, data: bytes) -> Any:
        turn = page.at.session_state["export-turn"]
        given = [("1.safetensors", data, "application/octet-stream")]
        page.at.file_uploader(key=f"export_upload_{turn}").set_value(given)
        return page.run()

    page = upload(bringing(), (series / "step-5.safetensors").read_bytes())
    assert [b.key for b in page.at.button] == ["export-close", "export-start"]
    page.set("text_input", "export_path", str(series))
    assert [b.label for b in page.at.button] == ["Compress 4 checkpoints"]
    assert state.shelf().nbytes == 0
    upload(page, (series / "step-5.safetensors").read_bytes())
    assert page.at.button(key="export-close")
    page.click("export-close")
    assert [b.label for b in page.at.button] == ["Compress 4 checkpoints"]


def test_a_server_for_others_opens_no_path(
    bringing: Bringing, series: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCVIZ_FOLDERS", str(tmp_path))
    page = bringing(export_path=series)
    (error,) = page.texts("error")
    assert "is in none of the folders that this server opens" in error
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "1.safetensors").symlink_to(series / "step-0.safetensors")
    assert "is in none of the folders" in bringing(export_path=tmp_path / "link").texts("error")[0]
    monkeypatch.setenv("LCVIZ_FOLDERS", str(series.parent))
    assert not bringing(export_path=series).texts("error")


def test_what_was_measured_goes_with_its_chain(
    bringing: Bringing, series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lcviz.export.page_own_files.MOST_KEPT", 1)
    page = bringing(export_path=series)
    finished(page.click("export-start"))
    assert len(state.all_jobs()._kept) == 1
    page.set("segmented_control", "export_scope", "tensor")
    gc.collect()
    assert len(state.all_jobs()._kept) == 0


def test_stopped(bringing: Bringing, series: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compress, go_on = compressing.compress, threading.Event()

    def slow(*arguments: Any) -> Any:
        progress = arguments[-1]
        while not go_on.wait(0.02):
            progress(1, 8)
        return compress(*arguments)

    monkeypatch.setattr(compressing, "compress", slow)
    page = bringing(export_path=series).click("export-start")
    assert [b.key for b in page.at.button] == ["export-stop"]
    page.click("export-stop")
    finished(page)
    assert page.texts("info") == ["Stopped."]
    go_on.set()
    finished(page.click("export-start"))
    assert page.charts == {"bytes", "distances", "records", "tensors"}


def test_a_full_server_is_told(
    bringing: Bringing, series: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state.shelf(), "most_places", 0)
    page = bringing(export_path=series)
    (error,) = page.texts("error")
    assert re.match("This server already keeps 0 series and chains", error)


def test_a_budget(bringing: Bringing, series: Path) -> None:
    page = bringing(export_path=series, export_keep="Budget", export_budget="30", export_base="2")
    finished(page.click("export-start"))
    assert "own-4steps-budget30-model-runlength.lcc.zip" in labels(page)[0]
    made = state.all_jobs().look(*page.at.session_state["export-asked"]).found[0].value
    assert [c.kind for c in made.steps] == ["base", "delta", "delta", "base"]
    assert all(c.nbytes <= 0.3 * c.full_nbytes for c in made.steps if c.kind == "delta")
