"""Open and export in a browser: a series is uploaded, compressed, compared, and taken along."""

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import codec
from lcviz.export import receipt
from tests.browser.states import MakeTab


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four checkpoints, one of them a .pt."""
    folder, generator = tmp_path_factory.mktemp("mine"), torch.Generator().manual_seed(0)
    w = torch.randn(40, 30, generator=generator)
    for i in range(4):
        w = w + 0.01 * torch.randn(40, 30, generator=generator) ** 3
        if i == 1:
            torch.save({"fc": w}, folder / f"step-{i}.pt")
        else:
            save_file({"fc": w}, folder / f"step-{i}.safetensors")
    return folder


def upload(visitor: Any, files: list[Path], result: str) -> None:
    chooser = visitor.page.locator("input[type=file]")
    visitor.upload(chooser, files)
    visitor.expecting(visitor.page.get_by_text(result)).to_be_visible()


def download(visitor: Any, name: str | re.Pattern[str], folder: Path) -> Path:
    button = visitor.page.get_by_role("button", name=name)
    visitor.expecting(button).to_be_enabled()
    with visitor.page.expect_download() as info:
        button.click()
    path = folder / info.value.suggested_filename
    info.value.save_as(path)
    return path


def test_a_series_is_uploaded_compressed_and_taken_along(
    tab: MakeTab, series: Path, tmp_path: Path
) -> None:
    visitor = tab().open("/export")
    page = visitor.page
    visitor.settled()  # a click while the page still changes may get lost
    page.get_by_text("Files of mine").click()
    visitor.expecting(page.get_by_text("Or a path on this machine")).to_be_visible()
    evil = tmp_path / "step-9.pt"
    evil.write_bytes(b"no checkpoint at all")
    upload(visitor, [*sorted(series.iterdir(), reverse=True), evil], "step-9.pt: not a torch.save")
    visitor.expecting(page.get_by_text("4 checkpoints", exact=True)).to_be_visible()
    visitor.settled()
    page.get_by_text("each tensor").click()
    visitor.expecting(page).to_have_url(re.compile("export_scope=each"))
    visitor.settled()
    page.get_by_role("button", name="Compress 4 checkpoints").click()
    visitor.expecting(page.get_by_text("Verified: 4 steps, 0 to 3")).to_be_visible()
    for name in ("bytes", "distances"):
        chart = page.locator(f".st-key-panel-{name} .js-plotly-plot")
        visitor.expecting(chart).to_contain_text("step")

    chain = download(visitor, re.compile("Download chain"), tmp_path)
    assert codec.verify(chain).ok
    single = download(visitor, re.compile("Download step 3 "), tmp_path)
    restored = load_file(single)["fc"]
    assert torch.equal(restored, codec.restore(chain, 3)["fc"])
    page.get_by_text("Tensors of step 3", exact=True).click()
    original = load_file(series / "step-3.safetensors")["fc"]
    said = page.get_by_text(re.compile("At step 3 fc is furthest")).inner_text()
    first = load_file(series / "step-0.safetensors")["fc"]
    distance = float((restored - original).norm() / (original - first).norm())
    assert f"original, {100 * distance:.2f} %" in said

    everything = download(visitor, "Download everything", tmp_path)
    with zipfile.ZipFile(everything) as archive:
        told = receipt.load(archive.read("receipt.json"))
        data = archive.read(chain.name)
        assert {*archive.namelist()} >= {chain.name, "receipt.json", "reader.py"}
    assert data == chain.read_bytes()
    assert receipt.problems(told, data) == []
    assert [f["name"] for f in told["files"]][1] == "step-1.pt"
    visitor.check_fits()

    # To another page and back: it is still there, and can be closed.
    visitor.go("Glossary")
    visitor.title("Glossary")
    visitor.go("Export")
    visitor.expecting(page.get_by_text("Verified: 4 steps, 0 to 3")).to_be_visible()
    visitor.settled()
    page.get_by_role("button", name="Close the upload").click()
    visitor.expecting(page.get_by_text("4 checkpoints", exact=True)).to_have_count(0)
    upload(visitor, [chain], "This is the chain")  # and a chain of one's own comes back
    visitor.settled()
    page.get_by_role("radio", name="Export it as it is").press("Space")
    visitor.expecting(page.get_by_text("Verified: 4 steps, 0 to 3")).to_be_visible()

    visitor.go("Inspect")
    visitor.expecting(page.get_by_text("The uploaded archive own-4steps")).to_be_visible()
    visitor.check()
