"""The Inspect page as Streamlit runs it, without a browser."""

import gc
import io
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

import codec
from codec.errors import StreamError
from lcviz.inspect import page as inspect
from lcviz.inspect import page_open
from lcviz.server import foreign_files
from lcviz.ui import own_files, session
from tests.lcviz.common import Make, MakePath, Patch, files, flip, stepped

pytestmark = pytest.mark.usefixtures("server")

BAD = Path(__file__).resolve().parents[2] / "golden" / "bad"
FIRST = {"sizes", "value", "exponents"}  # panels
ALL = FIRST | {"tensors"}
EXAMPLE = ("4", "0 to 6")  # its steps


@pytest.fixture(autouse=True)
def _own_shelf() -> None:
    session.shelf.clear()


@pytest.fixture
def path(tmp_path: Path, save: MakePath) -> Path:
    """A chain of nine steps."""
    return save(tmp_path / "run.lcc", 0, 8)


def table(page: Any, column: str) -> Any:
    """The data frame that has this column."""
    (found,) = (d.value for d in page.at.dataframe if column in d.value.columns)
    return found


def details(page: Any) -> list[str]:
    """What each box about damage folds out."""
    folds = [e for e in page.at.expander if e.label == "Details"]
    return [fold.markdown[0].value.replace("\\", "") for fold in folds]


def test_it_opens_on_the_newest_step_with_boxes_closed(inspecting: Make) -> None:
    page = inspecting(unfold=False)
    assert not any(map(page.at.get, ("file_uploader", "text_input", "dataframe")))
    keys = [e.proto.id.rpartition("-panel-")[2] for e in page.at.get("plotly_chart")]
    assert keys == ["value", "sizes", "exponents"]
    assert page.at.select_slider(key="inspect_step").value == 6
    assert len(inspecting().at.dataframe) == 2


def test_the_example_and_a_run(inspecting: Make, create: Make, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:  # before the example is there
        patch.setattr(session.all_runs(), "prepared", lambda: False)
        assert inspecting(unfold=False).shows("The example is being trained", "info")
    page = inspecting()
    assert page.shows("The chain of the example run, **Logistic")
    assert page.charts == ALL
    assert page.chain == EXAMPLE
    whole = r"Inspect: 4 steps in [\d.]+ kB, all whole; a restart misses [\d.]+ % of the training"
    assert re.fullmatch(whole, page.title)
    assert "inspect_follow" not in page.keys("toggle")  # nothing can come

    run = create()
    page = inspecting(run=run)
    assert page.chain == ("1", "0 to 0")
    assert not page.shows("A delta takes")
    assert page.charts == {"sizes"}
    stepped(run)
    watched: list[bool] = []
    monkeypatch.setattr(run, "watch", lambda *_: watched.append(True))
    assert page.run().chain == ("2", "0 to 1")
    assert watched
    # What this session has read another has not to read.
    monkeypatch.setattr("lcviz.inspect.page.count_exponents", None)
    assert inspecting(unfold=False, run=run).charts == FIRST


def test_moments_are_in_steps(inspecting: Make, tmp_path: Path) -> None:
    """Of a measure each, which tables, words and a single value tell."""
    w = np.arange(40, dtype=np.float32)
    with codec.Checkpointer(tmp_path / "run.lcc", 2, coder="runlength") as checkpoints:
        for i in (1, 2):
            v = np.full(40, 4.0**i, np.float32)  # two octaves: eight steps
            moments = {0: {"exp_avg_sq": v}, 1: {"momentum_buffer": w * i}}
            checkpoints.save(i, {"model": {"w": w * i}, "optimizer": {"state": moments}})
    page = inspecting(inspect_path=tmp_path / "run.lcc", tables="true")
    assert page.shows(":small[The optimizer's moments are lossy: 2 tensors")
    tensors = page.at.dataframe[0].value.set_index("tensor")
    v, m = "optimizer/state/0/exp_avg_sq", "optimizer/state/1/momentum_buffer"
    stored = ["as codes, in steps of 1/4 octave", "as codes, in steps of 1/8 of its size"]
    assert tensors["stored"][[v, m]].tolist() == stored
    assert (tensors["changed"][v], tensors["largest level"][v]) == (40, 2)
    page.set("selectbox", "inspect_tensor", m)
    assert page.shows("as codes, in steps of 1/8 of its size.")


def test_weights_of_gradients_are_the_base_s(inspecting: Make, tmp_path: Path) -> None:
    path = shutil.copytree(BAD.parent / "gradients.lcc", tmp_path / "run.lcc")
    page = inspecting(unfold=False, inspect_path=path, inspect_step=1)
    for step in (1, 4, 0):
        page.set("select_slider", "inspect_step", step)
        assert page.shows("holds gradients", "info") == (step > 0)
        assert page.shows("This chain holds gradients. Its")
        assert "value" not in page.charts


def test_a_path_in_the_url(inspecting: Make, path: Path, monkeypatch: Patch) -> None:
    page = inspecting(inspect_path=path, inspect_step=4)
    chain = codec.Chain(path)
    assert page.shows("1 base, 8 deltas, ")
    assert page.shows("Kept: 4 bits, Run-length, whole model.")
    records = table(page, "parent")
    assert records["bytes"].tolist() == [e.nbytes for e in chain.entries]
    assert records["digest"].tolist() == [chain.read(e).digest[:8] for e in chain.entries]
    assert "state" not in records  # all is well
    state, before = codec.restore(path, 4), codec.restore(path, 3)
    tensors = table(page, "standard deviation").set_index("tensor")
    assert tensors["maximum"]["w"] == pytest.approx(state["w"].max(), rel=1e-4)
    assert tensors["changed"]["w"] == np.count_nonzero(state["w"] != before["w"])

    page.set("number_input", "inspect_value_w", 7)
    text = next(t for t in page.texts("markdown") if t.startswith("At (0, 7) it is"))
    bits = f"{int(state['w'][0, 7].view(np.uint32)):032b}"
    assert f"{bits[0]} :gray-background[**{bits[1:9]}**]" in text
    read: list[str] = []
    whole = codec.Chain.read
    monkeypatch.setattr(codec.Chain, "read", lambda c, e: (read.append(e.name), whole(c, e))[1])
    page.run()
    assert read == []  # nothing is read or decoded twice
    page.set("select_slider", "inspect_step", 2)
    assert len(read) == 3
    page.set("select_slider", "inspect_step", 0)
    assert page.shows("Step 0 is a base", "info")
    assert "tensors" not in page.charts


def test_a_chain_that_is_being_written(inspecting: Make, path: Path, save: MakePath) -> None:
    page = inspecting(inspect_path=path)
    assert page.chain == ("9", "0 to 8")
    assert not page.texts("success")
    (sentence,) = page.click("verify").texts("success")
    nbytes = sum(f.stat().st_size for f in path.iterdir())
    assert sentence.startswith(f"Verified: 9 records, {nbytes:,} bytes")
    assert "9 steps, 0 to 8," in sentence
    save(path, 9, 9)
    (sentence,) = page.run().texts("success")
    assert sentence.endswith("1 record came since.")
    assert page.chain == ("10", "0 to 9")
    slider = page.at.select_slider(key="inspect_step")
    assert (len(slider.options), slider.value) == (10, 8)  # it stays where it is
    page.set("toggle", "inspect_follow", True)
    assert not page.at.select_slider
    assert "**Step 9**, the newest." in page.texts("markdown")
    save(path, 10, 10)
    assert "**Step 10**, the newest." in page.run().texts("markdown")


def test_restarts_that_are_too_far(inspecting: Make, tmp_path: Path) -> None:
    """Of an archive any step; where a training may go on the newest one. Then nothing is green."""
    folder, archive = tmp_path / "far.lcc", tmp_path / "far.lcc.zip"
    way = np.random.default_rng(0).normal(size=900).astype(np.float32)
    for steps, settings in ((range(3), {"bits": 1}), (range(3, 4), {"distance": 0.1})):
        with codec.Checkpointer(folder, **settings, resume=True) as checkpoints:
            for step in steps:
                checkpoints.save(step, {"w": way * step})
        codec.Chain(folder).pack(archive)
        for source in (folder, archive):
            far = source == archive or steps[-1] == 2
            page = inspecting(inspect_path=source).click("verify")
            errors = [text.partition(": step ")[0] for text in page.said("error")]
            assert errors == ["Too far for a restart"] * far
            assert len(page.said("success")) == (not far)
            (verified,) = (t for t in page.said("info") + page.said("success") if "Verif" in t)
            assert "decodes bit for bit to what was written. The title says how close" in verified


def test_a_damaged_chain_says_which_record(inspecting: Make, path: Path) -> None:
    flip(path, 5)
    page = inspecting(inspect_path=path)
    told = (
        "Steps 0 to 4 still restore; 5 to 8 do not. Put back a good copy of "
        "00000005.delta.safetensors, or go on from step 4: codec.rewind(path, 4)."
    )
    assert (page.said("error"), page.said("warning")) == ([told], [])  # one box
    (problem,) = details(page)
    assert problem.startswith("- 00000005.delta.safetensors: expected content of BLAKE3 ")
    assert page.title == "Inspect: 4 of 9 steps cannot be restored"
    states = table(page, "parent")["state"].tolist()
    assert states == 5 * ["ok"] + ["damaged"] + 3 * ["after a damaged or missing one"]
    assert page.at.select_slider(key="inspect_step").value == 4
    assert page.charts == ALL
    page.set("select_slider", "inspect_step", 7)
    assert page.said("error") == [told, "Step 7 cannot be restored."]
    assert details(page)[1].startswith("- 00000005.delta")
    page.click("verify")
    assert (page.said("error")[0], page.said("success")) == (told, [])
    lines = details(page)[0].splitlines()
    assert ["its parent" in line for line in lines] == [False, True, True, True]

    flip(path, 0)  # nothing is left
    (lost,) = inspecting(inspect_path=path).said("error")
    assert lost.startswith("No step restores. Put back a good copy of 00000000.base.safetensors")


def test_only_verifying_finds_what_was_forged(inspecting: Make, tmp_path: Path) -> None:
    """Intact bytes that do not decode."""
    shutil.copytree(BAD.parent / "run.lcc", path := tmp_path / "run.lcc")
    shutil.copy(BAD / "stream-early.safetensors", path / "00000001.delta.safetensors")
    page = inspecting(inspect_path=path)
    assert page.shows("Not all records decode.", "error")
    assert "Step 1 cannot be restored." in page.said("error")
    assert "streams that decode" in details(page.click("verify"))[0]
    assert page.said("error")[0].startswith("Step 0 still restores; 1")


def test_paths_that_are_not_opened(inspecting: Make, path: Path, monkeypatch: Patch) -> None:
    page = inspecting()

    def refused(path: str) -> str:
        (error,) = page.set("text_input", "inspect_path", path).said("error")
        assert page.chain is None
        return str(error)

    nothing = "there is no chain directory or .lcc.zip"
    for name, told in (("/tmp/x\0y", "a path is text"), ("~nobody-here/run.lcc", nothing)):
        assert told in refused(name)
    assert nothing in refused(f"/tmp/{'n' * 999}")
    for url in ("https://u:geheim@h/x", "a::s3://b/x", "s3:/b"):
        error = refused(url)
        assert "app.py -- --run URL" in error
        assert "geheim" not in error
    monkeypatch.setenv("LCVIZ_FOLDERS", str(path.parent / "other"))
    assert "is in none of the folders that this server opens" in refused(str(path))
    monkeypatch.setenv("LCVIZ_FOLDERS", str(path.parent))
    assert page.run().chain == ("9", "0 to 8")


@pytest.fixture
def packed(path: Path) -> bytes:
    """The chain as an archive."""
    codec.Chain(path).pack(path.parent / "packed.lcc.zip")
    return (path.parent / "packed.lcc.zip").read_bytes()


def test_an_uploaded_archive(inspecting: Make, packed: bytes, upload: Make) -> None:
    page = inspecting()
    upload(page, "my_run.lcc.zip", packed)
    made = [page_open._ARCHIVES[page.at.session_state["own-uploaded"].value[0]]]
    assert page.shows("The uploaded archive **my_run.lcc.zip**")
    assert page.chain == ("9", "0 to 8")
    assert "inspect_follow" not in page.keys("toggle")
    assert "9 steps" in page.click("verify").texts("success")[0]
    assert page.at.session_state["own-uploaded"].turn == 1  # the server's own copy is let go
    assert session.shelf().nbytes == len(packed)
    page.click("own-close")
    assert (made[0].closed, session.shelf().nbytes) == (True, 0)
    assert page.shows("The chain of the example run")
    upload(page, "again.zip", packed)
    assert session.shelf().nbytes == len(packed)
    made.append(page_open._ARCHIVES[page.at.session_state["own-uploaded"].value[0]])
    for key in ("own-uploaded", "inspect-findings"):  # as when the session ends
        del page.at.session_state[key]
    del page
    gc.collect()
    assert (made[1].closed, session.shelf().nbytes) == (True, 0)


def test_everything_of_export(inspecting: Make, packed: bytes, upload: Make, path: Path) -> None:
    """Uploaded, the chain inside it is found; a path says which file to take."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("run.lcc.zip", packed)
        archive.writestr("receipt.json", b"{}")
    page = upload(inspecting(), "everything.zip", file.getvalue())
    assert (page.texts("error"), page.chain) == ([], ("9", "0 to 8"))
    (path.parent / "everything.zip").write_bytes(file.getvalue())
    page.set("text_input", "inspect_path", str(path.parent / "everything.zip"))
    (error,) = page.said("error")
    assert "holds a chain and other files: unpack it, and enter the path of the .lcc.zip" in error


def test_an_upload_of_another_kind_is_answered(inspecting: Make, upload: Make) -> None:
    """Streamlit's own filter shows a red name, and not what to do."""
    page = inspecting()
    assert not any(one.proto.type for one in page.at.file_uploader)
    upload(page, "notes.txt", b"a note")
    assert page.said("info") == [page_open.NO_CHAIN]
    assert page.chain == EXAMPLE  # what was there before
    page.click("own-close")
    assert (page.texts("info"), session.shelf().nbytes) == ([], 0)


@pytest.fixture
def go(page_of: Callable[[AppTest], Any]) -> Callable[[str], Any]:
    """One session at several pages: go("tune"), then go("inspect")."""

    def script() -> None:
        import importlib

        import streamlit as st

        importlib.import_module(f"lcviz.{st.session_state['page']}.page").page()

    at = AppTest.from_function(script, default_timeout=60)
    for name, own in OWN.items():
        at.query_params[f"{name}_source"] = own

    def go(name: str) -> Any:
        at.session_state["page"] = name
        return page_of(at).run()

    return go


OWN = {"tune": "own files", "recover": "own files", "export": "Files of mine"}


def test_a_path_given_on_another_page(go: Make, path: Path, tmp_path: Path) -> None:
    """And back: what Inspect was given is there on the other."""
    assert not go("export").set("text_input", "export_path", str(path)).texts("error")
    page = go("inspect")
    assert page.chain == ("9", "0 to 8")
    flip(path, 4)
    bad = str(shutil.copytree(path, tmp_path / "bad.lcc"))
    page.set("text_input", "inspect_path", bad)
    assert "cannot be restored" in page.title
    assert go("export").at.text_input(key="export_path").value == bad


def test_files_stay_where_they_are_of_use(go: Make, path: Path, tmp_path: Path) -> None:
    files(tmp_path, ({"w": torch.ones(900) * i} for i in range(3)))
    go("tune").set("text_input", "tune_own", str(tmp_path))
    page = go("inspect").unfold("inspect-else")
    assert (page.texts("error"), page.chain) == ([], EXAMPLE)
    assert go("export").at.text_input(key="export_path").value == str(tmp_path)
    go("inspect").unfold("inspect-else").set("text_input", "inspect_path", str(path))
    other = go("tune")
    assert other.at.text_input(key="tune_own").value == str(path)
    assert other.at.query_params["tune_own"] == str(path)  # the link has it
    other.set("text_input", "tune_own", "")
    assert go("inspect").chain == EXAMPLE


def test_an_upload_on_another_page(go: Make, packed: bytes, upload: Make) -> None:
    """A damaged one as well, which is of no use there."""
    broken = bytearray(packed)
    broken[len(packed) // 2] ^= 8
    for data, told in ((packed, "all whole"), (broken, "cannot be restored")):
        upload(go("recover"), "mine.lcc.zip", bytes(data))
        page = go("inspect")
        assert page.at.button(key="own-close").label.startswith("Close the upload: mine.")
        assert told in page.title
    for nbytes in (3, len(packed) // 2, len(packed) - 1):
        cut = f"ends too early, after {nbytes:,} bytes"
        (error,) = upload(go("recover"), "mine.lcc.zip", packed[:nbytes]).said("error")
        assert error.startswith(f"mine.lcc.zip: is not a valid chain: {cut}")
        (error,) = go("inspect").texts("error")
        assert error.startswith(f"This cannot be opened. The archive {cut}")
        assert "copy or download it again" in error


def test_refused_uploads(
    inspecting: Make, path: Path, packed: bytes, upload: Make, monkeypatch: Patch
) -> None:
    page = inspecting()
    for where, name, value, data, reason in (
        (session.shelf(), "most_bytes", len(packed) - 1, packed, "This server keeps "),
        (foreign_files, "MAX_MEMBERS", 8, packed, "a zip of 9 members; the limit is 8."),
        (own_files, "MOST_MIB", 1, bytes(2**20 + 1), "up to 1.05 MB can be uploaded together"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            (error,) = upload(page, "mine.zip", data).texts("error")
        assert reason in error
        assert (session.shelf().nbytes, page.chain) == (0, EXAMPLE)
    page.set("text_input", "inspect_path", str(path))  # the refusal is said only once
    assert not page.texts("error")
    assert "own-close" in upload(page, "mine.zip", packed).buttons
    page.set("text_input", "inspect_path", str(path.parent / "packed.lcc.zip"))
    assert "own-close" not in page.buttons  # the last request is shown
    assert session.shelf().nbytes == 0


def test_decoding_goes_on_past_one_record(inspecting: Make, path: Path, monkeypatch: Patch) -> None:
    whole = inspect.count_exponents

    def fails(chain: codec.Chain, record: Any) -> Any:
        if record.entry.step == 3:
            raise StreamError("bits that end early")
        return whole(chain, record)

    monkeypatch.setattr(inspect, "count_exponents", fails)
    monkeypatch.setattr(inspect, "UNASKED_SECONDS", -1)
    page = inspecting(inspect_path=path)
    assert "exponents" not in page.charts
    assert "9 of 9" in page.at.button(key="inspect-decode").label
    page.click("inspect-decode")
    assert "inspect-decode" not in page.buttons
    assert page.figure("exponents")["data"][0]["x"] == list("1245678")
    for _ in range(2):  # it is said again, though it is not decoded again
        assert any("bits that end early" in t for t in details(page))
        page.run()
