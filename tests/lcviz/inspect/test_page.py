"""The Inspect page as Streamlit runs it, without a browser."""

from __future__ import annotations

import gc
import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest

import codec
from codec.errors import StreamError
from lcviz.inspect import page as inspect
from lcviz.inspect import page_open
from lcviz.run.run import Run
from lcviz.server import foreign_files
from lcviz.ui import own_files, session

pytestmark = pytest.mark.usefixtures("server")

BAD = Path(__file__).resolve().parents[2] / "golden" / "bad"
MakePage = Callable[..., Any]
Save = Callable[..., Path]
Said = Callable[[Any, str], list[str]]
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _own_shelf() -> None:
    session.shelf.clear()


@pytest.fixture
def path(tmp_path: Path, save: Save) -> Path:
    """A chain of nine steps."""
    return save(tmp_path / "run.lcc", 0, 8)


def damage(path: Path, step: int) -> None:
    (record,) = path.glob(f"{step:08d}.*")
    data = bytearray(record.read_bytes())
    data[-3] ^= 8
    record.write_bytes(data)


def table(page: Any, column: str) -> Any:
    """The data frame that has this column."""
    (found,) = (d.value for d in page.at.dataframe if column in d.value.columns)
    return found


def details(page: Any) -> list[str]:
    """What each box about damage folds out."""
    folds = [e for e in page.at.expander if e.label == "Details"]
    return [fold.markdown[0].value.replace("\\", "") for fold in folds]


def test_it_opens_on_the_newest_step_and_what_is_folded_away_costs_nothing(
    inspecting: MakePage,
) -> None:
    page = inspecting(unfold=False)
    for kind in ("file_uploader", "text_input", "dataframe"):
        assert not page.at.get(kind)
    keys = [e.proto.id.rpartition("-panel-")[2] for e in page.at.get("plotly_chart")]
    assert keys == ["tensors", "value", "sizes", "exponents"]
    assert page.at.select_slider(key="inspect_step").value == 6
    assert any(t == "**What step 6 changes in each tensor**" for t in page.texts("markdown"))
    assert len(inspecting().at.dataframe) == 2


def test_the_example_and_a_run(
    inspecting: MakePage, create: Callable[..., Run], monkeypatch: Patch
) -> None:
    with monkeypatch.context() as patch:  # before the example is there
        patch.setattr(session.all_runs(), "prepared", lambda: False)
        page = inspecting(unfold=False)
        assert any("The example is being trained" in t for t in page.texts("info"))
    page = inspecting()
    assert any("the chain of the example run, **Logistic" in t for t in page.texts("markdown"))
    assert page.charts == {"sizes", "tensors", "value", "exponents"}
    assert (page.metrics["Steps"], page.metrics["Complete"]) == (("4", "0 to 6"), ("yes", ""))
    assert not any(t.key == "inspect_follow" for t in page.at.toggle)  # nothing can come

    run = create()
    page = inspecting(run=run.id)
    assert (page.metrics["Steps"], page.metrics["A step"][0]) == (("1", "0 to 0"), "no delta")
    assert "exponents" not in page.charts
    run.step()
    run.wait(60)
    watched: list[bool] = []
    monkeypatch.setattr(run, "watch", lambda *_: watched.append(True))
    assert page.run().metrics["Steps"] == ("2", "0 to 1")
    assert watched
    # What this session has read another has not to read.
    monkeypatch.setattr("lcviz.inspect.page.count_exponents", None)
    assert inspecting(unfold=False, run=run.id).charts == {"sizes", "tensors", "value", "exponents"}


def test_moments_are_in_steps(inspecting: MakePage, tmp_path: Path, said: Said) -> None:
    """Of a measure each, which tables, words and a single value tell."""
    w = np.arange(40, dtype=np.float32)
    with codec.Checkpointer(tmp_path / "run.lcc", 2, coder="runlength") as checkpoints:
        for i in (1, 2):
            v = np.full(40, 4.0**i, np.float32)  # two octaves: eight steps
            moments = {0: {"exp_avg_sq": v}, 1: {"momentum_buffer": w * i}}
            checkpoints.save(i, {"model": {"w": w * i}, "optimizer": {"state": moments}})
    page = inspecting(inspect_path=tmp_path / "run.lcc", tables="true")
    (told,) = [text for text in said(page, "markdown") if "moments are lossy" in text]
    assert told.startswith(":small[The optimizer's moments are lossy: 2 tensors")
    tensors = page.at.dataframe[0].value.set_index("tensor")
    v, m = "optimizer/state/0/exp_avg_sq", "optimizer/state/1/momentum_buffer"
    assert tensors["stored"][v] == "as codes, in steps of 1/4 octave"
    assert tensors["stored"][m] == "as codes, in steps of 1/8 of its size"
    assert (tensors["changed"][v], tensors["largest level"][v]) == (40, 2)
    page.set("selectbox", "inspect_alphabet", m)
    (words,) = (t.value for t in page.at.table if "means" in t.value)
    means = {text.rpartition("then ")[2] for text in words["means"]}
    assert means == {"0"} | {f"+{steps / 8:g} sizes" for steps in (1, 2, 3, 4)}
    page.set("selectbox", "inspect_tensor", m)
    assert any("as codes, in steps of 1/8 of its size." in t for t in said(page, "markdown"))


def test_a_chain_of_gradients_says_that_weights_are_the_base_s(
    inspecting: MakePage, tmp_path: Path, said: Said
) -> None:
    path = shutil.copytree(BAD.parent / "gradients.lcc", tmp_path / "run.lcc")
    page = inspecting(unfold=False, inspect_path=path, inspect_step=1)
    for step in (1, 4, 0):
        texts = said(page.set("select_slider", "inspect_step", step), "info")
        assert sum("holds gradients" in text for text in texts) == min(step, 1)


def test_a_path_in_the_url(inspecting: MakePage, path: Path, monkeypatch: Patch) -> None:
    page = inspecting(inspect_path=path, inspect_step=4)
    chain = codec.Chain(path)
    assert page.metrics["Records"] == ("9", "1 base, 8 deltas")
    assert page.metrics["Kept"] == ("4 bits", "Run-length, whole model")
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
    assert f":blue-background[{bits[0]}] :orange-background[{bits[1:9]}]" in text
    delta = list(chain.replay(4))[-1].delta
    assert delta is not None
    payload = delta.groups[0].encoded.payload
    little = "".join(map(str, np.unpackbits(payload.data, bitorder="little")))
    stream = next(t for t in page.texts("markdown") if t.startswith(":blue-background["))
    shown = "".join(part for part in stream.replace("]", "[").split("[")[1::2])
    assert len(shown) > 24
    assert little.startswith(shown)

    read: list[str] = []
    whole = codec.Chain.read
    monkeypatch.setattr(codec.Chain, "read", lambda c, e: (read.append(e.name), whole(c, e))[1])
    page.run()
    assert read == []  # nothing is read or decoded twice
    page.set("select_slider", "inspect_step", 2)
    assert len(read) == 3
    page.set("select_slider", "inspect_step", 0)
    assert any("Step 0 is a base" in t for t in page.texts("info"))
    assert "tensors" not in page.charts


def test_a_chain_that_is_being_written(inspecting: MakePage, path: Path, save: Save) -> None:
    page = inspecting(inspect_path=path)
    assert page.metrics["Steps"] == ("9", "0 to 8")
    assert not page.texts("success")
    (sentence,) = page.click("verify").texts("success")
    nbytes = sum(f.stat().st_size for f in path.iterdir())
    assert sentence.startswith(f"Verified: 9 records, {nbytes:,} bytes")
    assert "9 steps, 0 to 8," in sentence
    save(path, 9, 9)
    (sentence,) = page.run().texts("success")
    assert sentence.endswith("1 record came since.")
    assert page.metrics["Steps"] == ("10", "0 to 9")
    slider = page.at.select_slider(key="inspect_step")
    assert (len(slider.options), slider.value) == (10, 8)  # it stays where it is
    page.set("toggle", "inspect_follow", True)
    assert not page.at.select_slider
    assert "**Step 9**, the newest." in page.texts("markdown")
    save(path, 10, 10)
    assert "**Step 10**, the newest." in page.run().texts("markdown")


def test_restarts_that_are_too_far(inspecting: MakePage, tmp_path: Path, said: Said) -> None:
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
            errors = [text.partition(": step ")[0] for text in said(page, "error")]
            assert errors == ["Too far for a restart"] * far
            assert len(said(page, "success")) == (not far)
            (verified,) = (t for t in said(page, "info") + said(page, "success") if "Verif" in t)
            assert "decodes bit for bit to what was written. *Behind* says how close" in verified


def test_a_damaged_chain_says_which_record(inspecting: MakePage, path: Path, said: Said) -> None:
    damage(path, 5)
    page = inspecting(inspect_path=path)
    told = (
        "Steps 0 to 4 still restore; 5 to 8 do not. Put back a good copy of "
        "00000005.delta.safetensors, or go on from step 4: codec.rewind(path, 4)."
    )
    assert said(page, "error") == [told]  # one box
    assert not said(page, "warning")
    (problem,) = details(page)
    assert problem.startswith("- 00000005.delta.safetensors: expected content of BLAKE3 ")
    assert page.metrics["Complete"] == ("no", "4 steps lost")
    states = table(page, "parent")["state"].tolist()
    assert states == 5 * ["ok"] + ["damaged"] + 3 * ["after a damaged or missing one"]
    assert page.at.select_slider(key="inspect_step").value == 4
    assert page.charts == {"sizes", "tensors", "value", "exponents"}
    page.set("select_slider", "inspect_step", 7)
    assert said(page, "error") == [told, "Step 7 cannot be restored."]
    assert details(page)[1].startswith("- 00000005.delta")
    page.click("verify")
    assert not page.texts("success")
    assert said(page, "error")[0] == told
    lines = details(page)[0].splitlines()
    assert ["its parent" in line for line in lines] == [False, True, True, True]

    damage(path, 0)  # nothing is left
    (lost,) = said(inspecting(inspect_path=path), "error")
    assert lost.startswith("No step restores. Put back a good copy of 00000000.base.safetensors")


def test_only_verifying_finds_what_was_forged(
    inspecting: MakePage, tmp_path: Path, said: Said
) -> None:
    """Intact bytes that do not decode."""
    shutil.copytree(BAD.parent / "run.lcc", path := tmp_path / "run.lcc")
    shutil.copy(BAD / "stream-early.safetensors", path / "00000001.delta.safetensors")
    page = inspecting(inspect_path=path)
    found = said(page, "error")
    assert any(t.startswith("Not all records decode.") for t in found)
    assert "Step 1 cannot be restored." in found
    assert "streams that decode" in details(page.click("verify"))[0]
    assert said(page, "error")[0].startswith("Step 0 still restores; 1")


def test_paths_that_are_not_opened(
    inspecting: MakePage, path: Path, said: Said, monkeypatch: Patch
) -> None:
    page = inspecting()
    for name in ("~nobody-here/run.lcc", "/tmp/x\0y", f"/tmp/{'n' * 999}"):
        page.set("text_input", "inspect_path", name)
        (error,) = said(page, "error")
        reason = "a path is text" if "\0" in name else "there is no chain directory or .lcc.zip"
        assert reason in error
        assert not page.metrics
    for url in ("https://u:geheim@h/x", "a::s3://b/x", "s3:/b"):
        page.set("text_input", "inspect_path", url)
        (error,) = said(page, "error")
        assert "app.py -- --run URL" in error
        assert "geheim" not in error
    monkeypatch.setenv("LCVIZ_FOLDERS", str(path.parent / "other"))
    (error,) = said(page.set("text_input", "inspect_path", str(path)), "error")
    assert "is in none of the folders that this server opens" in error
    assert not page.metrics
    monkeypatch.setenv("LCVIZ_FOLDERS", str(path.parent))
    assert page.run().metrics["Steps"] == ("9", "0 to 8")


@pytest.mark.parametrize("name", ["damaged-member.lcc.zip", "parent.lcc", "truncated.lcc.zip"])
def test_broken_archives_and_folders(inspecting: MakePage, name: str) -> None:
    page = inspecting(unfold=False, inspect_path=BAD / name)
    assert page.texts("error")
    if not name.startswith("truncated"):  # the base can be shown
        assert page.metrics["Complete"][0] == "no"


@pytest.fixture
def packed(path: Path) -> bytes:
    """The chain as an archive."""
    codec.Chain(path).pack(path.parent / "packed.lcc.zip")
    return (path.parent / "packed.lcc.zip").read_bytes()


def test_an_uploaded_archive(
    inspecting: MakePage, packed: bytes, said: Said, upload: Callable[..., Any]
) -> None:
    page = inspecting()
    upload(page, "my_run.lcc.zip", packed)
    made = [page_open._ARCHIVES[page.at.session_state["own-uploaded"][0]]]
    assert any("the uploaded archive **my_run.lcc.zip**" in t for t in said(page, "markdown"))
    assert page.metrics["Steps"] == ("9", "0 to 8")
    assert not any(t.key == "inspect_follow" for t in page.at.toggle)
    assert "9 steps" in page.click("verify").texts("success")[0]
    assert page.at.session_state["own-turn"] == 1  # the server's own copy is let go
    assert session.shelf().nbytes == len(packed)
    page.click("own-close")
    assert (made[0].closed, session.shelf().nbytes) == (True, 0)
    assert any("the example run" in t for t in page.texts("markdown"))
    upload(page, "again.zip", packed)
    assert session.shelf().nbytes == len(packed)
    made.append(page_open._ARCHIVES[page.at.session_state["own-uploaded"][0]])
    for key in ("own-uploaded", "inspect-findings"):  # as when the session ends
        del page.at.session_state[key]
    del page
    gc.collect()
    assert (made[1].closed, session.shelf().nbytes) == (True, 0)


def test_everything_that_export_gave_is_opened(
    inspecting: MakePage, packed: bytes, said: Said, upload: Callable[..., Any], path: Path
) -> None:
    """Uploaded, the chain inside it is found; a path says which file to take."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("run.lcc.zip", packed)
        archive.writestr("receipt.json", b"{}")
    page = inspecting()
    upload(page, "everything.zip", file.getvalue())
    assert not page.texts("error")
    assert page.metrics["Steps"] == ("9", "0 to 8")
    assert session.shelf().nbytes == len(packed)
    (path.parent / "everything.zip").write_bytes(file.getvalue())
    page.set("text_input", "inspect_path", str(path.parent / "everything.zip"))
    (error,) = said(page, "error")
    assert "holds a chain and other files: unpack it, and enter the path of the .lcc.zip" in error


def test_an_upload_of_another_kind_is_answered(
    inspecting: MakePage, said: Said, upload: Callable[..., Any]
) -> None:
    """Streamlit's own filter shows a red name, and not what to do."""
    page = inspecting()
    assert not any(one.proto.type for one in page.at.file_uploader)
    upload(page, "notes.txt", b"a note")
    assert said(page, "info") == [page_open.NO_CHAIN]
    assert page.metrics["Steps"] == ("4", "0 to 6")  # what was there before
    page.click("own-close")
    assert not page.texts("info")
    assert session.shelf().nbytes == 0


@pytest.fixture
def visit(page_of: Callable[[AppTest], Any]) -> Callable[[str], Any]:
    """One session at several pages: visit("tune"), then visit("inspect")."""

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
PATHS = {"tune": "tune_own", "recover": "recover_own", "export": "export_path"}


@pytest.mark.parametrize("name", ["tune", "export"])
def test_a_path_that_was_given_on_another_page(
    name: str, visit: Callable[[str], Any], path: Path, tmp_path: Path
) -> None:
    """And back: what Inspect was given is there on the other."""
    other = visit(name).set("text_input", PATHS[name], str(path))
    assert not other.texts("error")
    page = visit("inspect")
    assert page.metrics["Steps"] == ("9", "0 to 8")
    damage(path, 4)
    shutil.copytree(path, tmp_path / "bad.lcc")
    page.set("text_input", "inspect_path", str(tmp_path / "bad.lcc"))
    assert page.metrics["Complete"][0] == "no"
    other = visit(name)
    assert other.at.text_input(key=PATHS[name]).value == str(tmp_path / "bad.lcc")


def test_files_that_are_no_chain_stay_where_they_are_of_use(
    visit: Callable[[str], Any], path: Path, tmp_path: Path
) -> None:
    for i in range(3):
        save_file({"w": torch.ones(900) * i}, tmp_path / f"{i}.safetensors")
    visit("tune").set("text_input", "tune_own", str(tmp_path))
    page = visit("inspect").unfold("inspect-else")
    assert not page.texts("error")
    assert page.metrics["Steps"] == ("4", "0 to 6")  # of the example
    assert visit("export").at.text_input(key="export_path").value == str(tmp_path)
    visit("inspect").unfold("inspect-else").set("text_input", "inspect_path", str(path))
    other = visit("tune")
    assert other.at.text_input(key="tune_own").value == str(path)
    assert other.at.query_params["tune_own"] == str(path)  # the link has it
    other.set("text_input", "tune_own", "")
    assert visit("inspect").metrics["Steps"] == ("4", "0 to 6")


def test_an_upload_on_another_page(
    visit: Callable[[str], Any], packed: bytes, upload: Callable[..., Any]
) -> None:
    """A damaged one as well, which is of no use there."""
    broken = bytearray(packed)
    broken[len(packed) // 2] ^= 8
    for data, told in ((packed, "yes"), (broken, "no")):
        upload(visit("recover"), "mine.lcc.zip", bytes(data))
        page = visit("inspect")
        assert page.at.button(key="own-close").label.startswith("Close the upload: mine.")
        assert page.metrics["Complete"][0] == told
    for nbytes in (3, len(packed) // 2, len(packed) - 1):
        cut = f"ends too early, after {nbytes:,} bytes"
        (error,) = upload(visit("recover"), "mine.lcc.zip", packed[:nbytes]).texts("error")
        assert error.replace("\\", "").startswith(f"mine.lcc.zip: is not a valid chain: {cut}")
        (error,) = visit("inspect").texts("error")
        assert error.startswith(f"This cannot be opened. The archive {cut}")
        assert "copy or download it again" in error


def test_uploads_that_are_refused(
    inspecting: MakePage, path: Path, packed: bytes, upload: Callable[..., Any], monkeypatch: Patch
) -> None:
    page = inspecting()
    for where, name, value, data, reason in (
        (session.shelf(), "most_bytes", len(packed) - 1, packed, "This server keeps "),
        (foreign_files, "MAX_MEMBERS", 8, packed, "a zip of 9 members; the limit is 8."),
        (own_files, "UPLOAD_MIB", 1, bytes(2**20 + 1), "can be uploaded together, 1.05 MB each"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            (error,) = upload(page, "mine.zip", data).texts("error")
        assert reason in error
        assert session.shelf().nbytes == 0
        assert page.metrics["Steps"] == ("4", "0 to 6")  # what was there before
    page.set("text_input", "inspect_path", str(path))  # the refusal is said only once
    assert not page.texts("error")
    assert upload(page, "mine.zip", packed).at.button(key="own-close")
    page.set("text_input", "inspect_path", str(path.parent / "packed.lcc.zip"))
    assert not any(b.key == "own-close" for b in page.at.button)  # the last request is shown
    assert session.shelf().nbytes == 0


def test_decoding_stops_goes_on_and_survives_one_record(
    inspecting: MakePage, path: Path, said: Said, monkeypatch: Patch
) -> None:
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
    assert not any(b.key == "inspect-decode" for b in page.at.button)
    steps = page.figure("exponents")["data"][0]["x"]
    assert steps == list("1245678")
    for _ in range(2):  # it is said again, though it is not decoded again
        assert any("bits that end early" in t for t in details(page))
        page.run()
