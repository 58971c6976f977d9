"""One value over the steps, as Streamlit runs the page."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import codec
from lcviz.inspect import page_value
from tests.lcviz.common import Make, MakePath, Patch, flip, until

pytestmark = pytest.mark.usefixtures("server")

BAD = Path(__file__).resolve().parents[2] / "golden" / "bad"
Read = list[list[int]]


@pytest.fixture
def path(tmp_path: Path, save: MakePath) -> Path:
    """A chain of nine steps with bases at 0 and 5."""
    return save(tmp_path / "run.lcc", 0, 8, base_every=4)


@pytest.fixture
def read(monkeypatch: Patch) -> Read:
    """The steps that each reading asks for."""
    asked: list[list[int]] = []
    history = codec.Chain.history

    def noted(self: codec.Chain, name: str, steps: Any = None) -> Any:
        asked.append(list(steps))
        return history(self, name, steps)

    monkeypatch.setattr(codec.Chain, "history", noted)
    return asked


def line(page: Any) -> list[tuple[int, float | None]]:
    """The points of the picture."""
    value, *_ = page.figure("value")["data"]
    return list(zip(value["x"], value["y"]))


def marked(page: Any) -> list[str]:
    """What stands beside points of the line."""
    _, *marks = page.figure("value")["data"]
    return ["".join(mark["text"]) for mark in marks]


def restored(path: Path, index: int, steps: range = range(9)) -> list[tuple[int, float]]:
    """The values themselves."""
    states = [(step, codec.restore(path, step)["w"].reshape(-1)) for step in steps]
    return [(step, float(f"{w[index]:.9g}")) for step, w in states]


def test_another_element_is_free(inspecting: Make, path: Path, read: Read) -> None:
    page = inspecting(inspect_path=path, inspect_value_w=41)
    assert line(page) == restored(path, 41)
    assert sorted(read) == [list(range(5)), list(range(5, 8))]  # step 8 is there already
    assert marked(page) == ["base, exact", "step 8"]
    assert any("The base of step 5 puts it exactly" in text for text in page.sentences)
    page.set("number_input", "inspect_value_w", 1199)
    assert line(page) == restored(path, 1199)
    page.set("select_slider", "inspect_step", 3)
    assert marked(page)[-1] == "step 3"
    assert len(read) == 2


def test_at_first_the_one_that_has_moved_farthest(inspecting: Make, path: Path) -> None:
    """Since the base. It stays while other steps are looked at."""
    base, last = (codec.restore(path, step)["w"].reshape(-1) for step in (5, 8))
    farthest = int(abs(last - base).argmax())
    page = inspecting(inspect_path=path)
    assert line(page) == restored(path, farthest)
    page.set("select_slider", "inspect_step", 2)
    assert line(page) == restored(path, farthest)


def test_of_a_large_tensor_one_element_is_kept(
    inspecting: Make, path: Path, read: Read, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(page_value, "MOST_KEPT", 9 * 4800 - 1)
    page = inspecting(inspect_path=path, inspect_value_w=41)
    page.set("number_input", "inspect_value_w", 7)
    assert line(page) == restored(path, 7)
    assert len(read) == 4
    _, history = page.at.session_state["inspect-history"]
    assert {type(value) for value in history.values.values()} == {float}


def test_new_records_as_they_come(inspecting: Make, path: Path, save: MakePath, read: Read) -> None:
    page = inspecting(inspect_path=path, inspect_follow="true", inspect_value_w=0)
    before = len(read)
    save(path, 9, 9)
    assert line(page.run()) == restored(path, 0, range(10))
    assert len(read) == before  # the page has rebuilt that step itself


def test_what_takes_long_is_read_at_a_click(
    inspecting: Make, path: Path, read: Read, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(page_value, "UNASKED_SECONDS", -1)
    page = inspecting(inspect_path=path, inspect_value_w=0)
    assert ("value" in page.charts, read) == (False, [])
    assert page.at.button(key="inspect-history-read").label == "Read the value at 8 more steps"
    page.click("inspect-history-read")
    assert line(page) == restored(path, 0)
    assert "inspect-history-read" not in page.buttons


def test_records_that_fail(inspecting: Make, path: Path, read: Read, tmp_path: Path) -> None:
    """What can be read is shown, with the record at which that ends."""
    expected = restored(path, 0)
    flip(path, 3)
    page = inspecting(inspect_path=path, inspect_value_w=0)
    assert line(page) == [*expected[:3], (2, None), *expected[5:]]
    told = "Not all steps of this value can be read. 00000003.delta.safetensors: expected content"
    assert page.shows(told)

    shutil.copytree(BAD.parent / "run.lcc", forged := tmp_path / "forged.lcc")
    shutil.copy(BAD / "stream-early.safetensors", forged / "00000001.delta.safetensors")
    page = inspecting(inspect_path=forged, inspect_step=0)
    before = len(read)
    told = "Not all steps of this value can be read. 00000001.delta.safetensors: "
    assert page.run().shows(told)
    assert len(read) == before  # it is not tried again and again


def test_behind_a_url(web_server: Any, started: Make, path: Path, monkeypatch: Patch) -> None:
    """As of a path; what a disk or network fails to give is tried again."""
    pytest.importorskip("aiohttp")

    def fails(self: codec.Chain, name: str, steps: Any = None) -> Any:
        raise codec.ChainError("the network does not answer")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(codec.Chain, "history", fails)
        page = started("--run", f"{web_server.url}/run.lcc")
        until(lambda: page.run().chain is not None)  # a thread asks it first
        told = "Not all steps of this value can be read. the network does not answer."
        assert page.shows(told)
    assert line(page.set("number_input", "inspect_value_w", 0)) == restored(path, 0)
