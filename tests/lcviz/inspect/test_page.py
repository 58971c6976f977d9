"""The Inspect page as Streamlit runs it, without a browser."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import codec
from lcviz.export import archive as export
from lcviz.export import receipt
from lcviz.inspect import page as inspect
from lcviz.inspect import page_open as opening
from lcviz.run.run import Run
from lcviz.server import foreign_files as foreign
from lcviz.ui import session as state

pytestmark = pytest.mark.usefixtures("server")

BAD = Path(__file__).resolve().parents[2] / "golden" / "bad"
MakePage = Callable[..., Any]


def _inspect_page() -> None:
    from lcviz.inspect import page as inspect

    inspect.page()


@pytest.fixture
def inspecting(page_of: Callable[[AppTest], Any]) -> MakePage:
    """The Inspect page with these URL parameters."""

    def open_page(**parameters: object) -> Any:
        at = AppTest.from_function(_inspect_page, default_timeout=60)
        for name, value in parameters.items():
            at.query_params[name] = str(value)
        return page_of(at).run()

    return open_page


def save(path: Path, first: int, last: int, **settings: Any) -> Path:
    """Steps ``first`` to ``last`` of a chain."""
    rng = np.random.default_rng(first)
    state = {"w": rng.normal(size=(30, 40)).astype(np.float32), "n": np.array(first)}
    if first:
        state = codec.restore(path)
    with codec.Checkpointer(path, resume=first > 0, **settings) as chain:
        for step in range(first, last + 1):
            state["w"] = state["w"] + 0.1 * rng.normal(size=(30, 40)).astype(np.float32) ** 3
            state["n"] = np.array(state["n"] + 1)
            chain.save(step, state)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chain of nine steps."""
    return save(tmp_path / "run.lcc", 0, 8)


def damage(path: Path, step: int) -> None:
    (record,) = path.glob(f"{step:08d}.*")
    data = bytearray(record.read_bytes())
    data[-3] ^= 8
    record.write_bytes(data)


def said(page: Any, kind: str) -> list[str]:
    """What all elements of a kind say, without the escapes of Markdown."""
    return [text.replace("\\", "") for text in page.texts(kind)]


def table(page: Any, column: str) -> Any:
    """The data frame that has this column."""
    (found,) = (d.value for d in page.at.dataframe if column in d.value.columns)
    return found


def test_the_example_is_there_at_once(inspecting: MakePage) -> None:
    page = inspecting()
    assert any("the chain of the example run, **Logistic" in t for t in page.texts("markdown"))
    assert page.charts == {"sizes", "tensors", "exponents"}
    assert page.metrics["Steps"] == ("4", "0 to 6")
    assert page.metrics["Complete"] == ("yes", "every record there")
    assert not any(t.key == "inspect_follow" for t in page.at.toggle)  # nothing can come


def test_a_path_in_the_url(inspecting: MakePage, path: Path) -> None:
    page = inspecting(inspect_path=path, inspect_step=4)
    chain = codec.Chain(path)
    assert page.metrics["Records"] == ("9", "1 base, 8 deltas")
    assert page.metrics["Kept"] == ("2 bits", "in every record")
    records = table(page, "parent")
    assert records["bytes"].tolist() == [e.nbytes for e in chain.entries]
    assert records["digest"].tolist() == [chain.read(e).digest[:8] for e in chain.entries]
    assert "state" not in records  # all is well
    state = codec.restore(path, 4)
    tensors = table(page, "standard deviation").set_index("tensor")
    assert tensors["maximum"]["w"] == pytest.approx(state["w"].max(), rel=1e-4)
    assert tensors["mean"]["n"] == 5
    changed = np.count_nonzero(state["w"] != codec.restore(path, 3)["w"])
    assert tensors["changed"]["w"] == changed
    page.set("select_slider", "inspect_step", 0)
    assert any("Step 0 is a base" in t for t in page.texts("info"))
    assert "tensors" not in page.charts


def test_a_chain_that_is_being_written(inspecting: MakePage, path: Path) -> None:
    page = inspecting(inspect_path=path)
    assert page.metrics["Steps"] == ("9", "0 to 8")
    save(path, 9, 11)
    page.run()
    assert page.metrics["Steps"] == ("12", "0 to 11")
    assert page.metrics["Complete"] == ("yes", "every record there")
    assert len(page.at.select_slider(key="inspect_step").options) == 12
    assert page.at.select_slider(key="inspect_step").value == 8  # stays where it is
    page.set("toggle", "inspect_follow", True)
    assert not page.at.select_slider
    assert "**Step 11**, the newest." in page.texts("markdown")
    save(path, 12, 12)
    page.run()
    assert "**Step 12**, the newest." in page.texts("markdown")


def test_nothing_is_read_or_decoded_twice(
    inspecting: MakePage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = inspecting(inspect_path=path)
    read: list[str] = []
    whole = codec.Chain.read

    def counted(self: codec.Chain, entry: Any) -> Any:
        read.append(entry.name)
        return whole(self, entry)

    monkeypatch.setattr(codec.Chain, "read", counted)
    page.run()
    assert read == []
    page.set("select_slider", "inspect_step", 2)
    assert len(read) == 3


def test_verify(inspecting: MakePage, path: Path) -> None:
    page = inspecting(inspect_path=path)
    assert not page.texts("success")
    (sentence,) = page.click("verify").texts("success")
    nbytes = sum(f.stat().st_size for f in path.iterdir())
    assert sentence.startswith(f"Verified: 9 records, {nbytes:,} bytes, have the digests")
    assert "9 steps, 0 to 8, were rebuilt" in sentence
    save(path, 9, 9)
    (sentence,) = page.run().texts("success")
    assert sentence.endswith("1 record came since.")


def test_a_damaged_chain_says_which_record(inspecting: MakePage, path: Path) -> None:
    damage(path, 5)
    page = inspecting(inspect_path=path)
    (problem,) = said(page, "error")
    assert problem.startswith("00000005.delta.safetensors: expected content of BLAKE3 ")
    assert ", found " in problem
    assert "4 steps from 5 to 8 cannot be restored" in said(page, "warning")[0]
    assert page.metrics["Complete"] == ("no", "4 steps lost")
    states = table(page, "parent")["state"].tolist()
    assert states == 5 * ["ok"] + ["damaged"] + 3 * ["after a damaged or missing one"]
    assert page.at.select_slider(key="inspect_step").value == 4
    assert page.charts == {"sizes", "tensors", "exponents"}
    page.set("select_slider", "inspect_step", 7)
    assert said(page, "error")[1].startswith("Step 7 cannot be restored. 00000005.delta")
    page.click("verify")
    assert not page.texts("success")
    damaged = "Damaged: of 9 records, 5 steps still restore, with the digests they were saved with."
    assert any(t.startswith(damaged) for t in said(page, "warning"))
    assert sum("expected content of BLAKE3" in t for t in said(page, "error")) == 3


def test_without_its_base_nothing_is_left(inspecting: MakePage, path: Path) -> None:
    """No word of other steps, where there are none; and the state is told before the digests."""
    damage(path, 0)
    page = inspecting(inspect_path=path)
    (lost,) = said(page, "warning")
    assert lost.startswith("No step can be restored, since ")
    assert "others" not in lost
    assert list(table(page, "parent").columns[:3]) == ["step", "kind", "state"]
    damaged = "Damaged: of 9 records, no step restores. "
    assert any(t.startswith(damaged) for t in said(page.click("verify"), "warning"))


def test_only_verifying_finds_what_was_forged(
    inspecting: MakePage, tmp_path: Path
) -> None:  # intact bytes that do not decode
    for good in (BAD.parent / "run.lcc").iterdir():
        shutil.copy(good, tmp_path)
    shutil.copy(BAD / "stream-early.safetensors", tmp_path / "00000001.delta.safetensors")
    page = inspecting(inspect_path=tmp_path)
    assert any("Step 1 cannot be restored." in t for t in said(page, "error"))
    assert any("Not all could be decoded" in t for t in said(page, "warning"))
    assert any("streams that decode" in t for t in said(page.click("verify"), "error"))


@pytest.mark.parametrize("name", ["a/b.lcc", "~nobody-here/run.lcc", "x\0y", "[a](b)", "n" * 999])
def test_a_path_that_is_not_there(inspecting: MakePage, name: str) -> None:
    page = inspecting()
    page.set("text_input", "inspect_path", f"/tmp/{name}" if name[0] != "~" else name)
    (error,) = said(page, "error")
    assert error.startswith("This cannot be opened. ")
    reason = "a path is text" if "\0" in name else "there is no chain directory or .lcc.zip"
    assert reason in error
    assert not page.metrics


@pytest.mark.parametrize("url", ["s3://b/run.lcc", "https://u:geheim@h/x", "a::s3://b/x", "s3:/b"])
def test_a_url_is_no_path(inspecting: MakePage, url: str) -> None:
    page = inspecting()
    page.set("text_input", "inspect_path", url)
    assert said(page, "error") == [
        "A path on this server's disks is taken here. A URL is given to the server when it is "
        "started: streamlit run app.py -- --run URL."
    ]


@pytest.mark.parametrize("file", sorted(BAD.glob("*.lcc*")), ids=lambda p: p.name)
def test_broken_archives_and_folders(inspecting: MakePage, file: Path) -> None:
    page = inspecting(inspect_path=file)
    assert page.texts("error")
    if file.name in ("damaged-member.lcc.zip", "parent.lcc"):  # the base can be shown
        assert page.metrics["Complete"][0] == "no"


def upload(page: Any, name: str, data: bytes) -> Any:
    turn = page.at.session_state["inspect-turn"]
    given = (name, data, "application/zip")
    page.at.file_uploader(key=f"inspect_upload_{turn}").set_value(given)
    return page.run()


def test_an_uploaded_archive(
    inspecting: MakePage, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    create = opening.tempfile.TemporaryFile
    monkeypatch.setattr(
        opening.tempfile, "TemporaryFile", lambda: made.append(create()) or made[-1]
    )
    codec.Chain(path).pack(tmp_path / "my_run.lcc.zip")
    page = inspecting()
    upload(page, "my_run.lcc.zip", (tmp_path / "my_run.lcc.zip").read_bytes())
    assert any(
        "This is the uploaded archive **my_run.lcc.zip**" in t for t in said(page, "markdown")
    )
    assert page.metrics["Steps"] == ("9", "0 to 8")
    assert not any(t.key == "inspect_follow" for t in page.at.toggle)
    assert "all of 9 steps" in page.click("verify").texts("success")[0]
    assert page.at.session_state["inspect-turn"] == 1  # the server's own copy is let go
    assert state.shelf().nbytes == (tmp_path / "my_run.lcc.zip").stat().st_size
    page.click("inspect-close")
    assert made[0].closed
    assert state.shelf().nbytes == 0
    assert any("the example run" in t for t in page.texts("markdown"))
    upload(page, "evil.zip", b"PK\x05\x06 no archive")
    (evil,) = said(page, "error")
    assert evil.startswith("This cannot be opened. The archive is not a readable .lcc.zip")
    assert not made[1].closed
    upload(page, "again.zip", (tmp_path / "my_run.lcc.zip").read_bytes())
    assert made[1].closed
    for key in ("inspect-upload", "inspect-held"):  # as when the session ends
        del page.at.session_state[key]
    del page
    gc.collect()
    assert made[2].closed


def test_an_upload_that_does_not_fit_or_is_not_to_be_opened(
    inspecting: MakePage, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec.Chain(path).pack(tmp_path / "mine.lcc.zip")
    data = (tmp_path / "mine.lcc.zip").read_bytes()
    page = inspecting()
    monkeypatch.setattr(state.shelf(), "most_bytes", len(data) - 1)
    (error,) = upload(page, "mine.lcc.zip", data).texts("error")
    assert error.startswith("The upload cannot be kept on disk. This server keeps ")
    assert state.shelf().nbytes == 0
    monkeypatch.undo()
    monkeypatch.setattr(foreign, "MAX_MEMBERS", 8)
    (error,) = upload(page, "mine.lcc.zip", data).texts("error")
    assert error == "mine.lcc.zip: is a zip of 9 members; 8 are taken."
    assert page.metrics["Steps"] == ("4", "0 to 6")  # what was there before
    monkeypatch.undo()
    page.set("text_input", "inspect_path", str(path))  # who goes on is not told for ever
    assert not page.texts("error")
    assert upload(page, "mine.lcc.zip", data).at.button(key="inspect-close")
    page.set("text_input", "inspect_path", str(tmp_path / "mine.lcc.zip"))
    assert not any(b.key == "inspect-close" for b in page.at.button)  # the last one asked for
    assert state.shelf().nbytes == 0


def test_a_path_that_this_server_does_not_open(
    inspecting: MakePage, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LCVIZ_FOLDERS", str(tmp_path / "other"))
    page = inspecting(inspect_path=path)
    (error,) = said(page, "error")
    assert "is in none of the folders that this server opens" in error
    assert not page.metrics
    monkeypatch.setenv("LCVIZ_FOLDERS", str(tmp_path))
    assert inspecting(inspect_path=path).metrics["Steps"] == ("9", "0 to 8")


def give(page: Any, about: dict[str, Any] | bytes) -> Any:
    data = about if isinstance(about, bytes) else receipt.dumped(about)
    page.at.file_uploader(key="inspect_receipt").set_value(("r.json", data, "application/json"))
    return page.run()


@pytest.mark.parametrize("way", ["run", "folder", "archive", "upload"])
def test_a_receipt_is_checked(
    way: str, inspecting: MakePage, create: Callable[..., Run], tmp_path: Path
) -> None:
    run = create(stop_after=4)
    run.play()
    run.wait(60)
    package = export.pack(run)
    (tmp_path / package.file).write_bytes(package.data)
    where = {
        "run": {"run": run.id},
        "folder": {"inspect_path": run.path},
        "archive": {"inspect_path": tmp_path / package.file},
        "upload": {},
    }[way]
    page = inspecting(**where)
    if way == "upload":
        upload(page, package.file, package.data)
    about = receipt.of_run(run, package)
    give(page, about)
    assert not page.texts("success")
    (success,) = page.click("check-receipt").texts("success")
    assert success.startswith("As the receipt says: 5 records, 5 steps, all digests, sizes and")
    assert "What it was made from, where and when, is only told" in success
    other = about | {"settings": about["settings"] | {"bits": 7}}
    assert not give(page, other).texts("success")  # another receipt is not checked yet
    (error,) = page.click("check-receipt").texts("error")
    assert error.startswith("The receipt says 7 bits, ")
    assert "not the chain that the receipt was made for" in page.texts("warning")[0]


@pytest.mark.parametrize("data", [b"", b"PK", b'{"receipt": 1}', b"[" * 10**5])
def test_what_is_no_receipt(data: bytes, inspecting: MakePage) -> None:
    page = give(inspecting(), data)
    (error,) = said(page, "error")
    assert error.startswith("This ")
    assert not any(b.key == "check-receipt" for b in page.at.button)


def test_a_receipt_of_another_chain(
    inspecting: MakePage, path: Path, create: Callable[..., Run]
) -> None:
    """Whatever it says is shown as just that, and not all of it."""
    run = create(stop_after=4)
    run.play()
    run.wait(60)
    about = receipt.of_run(run, export.pack(run))
    about["records"] += [about["records"][0] | {"file": f"[x{i}](http://y)"} for i in range(99)]
    page = give(inspecting(inspect_path=path), about).click("check-receipt")
    errors = page.texts("error")
    assert len(errors) == inspect.MOST_PROBLEMS
    assert not any("[x0](" in e for e in errors)
    assert "more differences beside these." in page.texts("warning")[0]


def test_an_upload_that_is_too_large(inspecting: MakePage, monkeypatch: pytest.MonkeyPatch) -> None:
    page = inspecting()
    monkeypatch.setattr(opening, "UPLOAD_MIB", 1)
    upload(page, "large.zip", bytes(2**20 + 1))
    (error,) = page.texts("error")
    assert error.startswith("large.zip has 1.05 MB; up to 1.05 MB can be uploaded")
    assert page.metrics["Steps"] == ("4", "0 to 6")  # what was there before


def test_bits_and_one_value(inspecting: MakePage, path: Path) -> None:
    page = inspecting(inspect_path=path, inspect_step=3)
    value = codec.restore(path, 3)["w"].reshape(-1)[7]
    page.set("number_input", "inspect_value_w", 7)
    text = next(t for t in page.texts("markdown") if t.startswith("At (0, 7) it is"))
    bits = f"{int(np.float32(value).view(np.uint32)):032b}"
    assert f":blue-background[{bits[0]}] :orange-background[{bits[1:9]}]" in text
    delta = list(codec.Chain(path).replay(3))[-1].delta
    assert delta is not None
    payload = delta.groups[0].encoded.payload
    little = "".join(map(str, np.unpackbits(payload.view(np.uint8), bitorder="little")))
    stream = next(t for t in page.texts("markdown") if t.startswith(":blue-background["))
    shown = "".join(part for part in stream.replace("]", "[").split("[")[1::2])
    assert len(shown) > 24
    assert little.startswith(shown)


def test_a_run_is_followed_and_watched(
    inspecting: MakePage, create: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create()
    page = inspecting(run=run.id)
    assert page.metrics["Steps"] == ("1", "0 to 0")
    assert page.metrics["A step"][0] == "no delta"
    assert any("There is no step yet" in t for t in page.texts("info"))
    run.step()
    run.wait(60)
    watched: list[bool] = []
    monkeypatch.setattr(run, "watch", lambda: watched.append(True))
    page.run()
    assert page.metrics["Steps"] == ("2", "0 to 1")
    assert watched


def test_decoding_stops_and_goes_on(
    inspecting: MakePage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect, "UNASKED_SECONDS", -1)
    page = inspecting(inspect_path=path)
    assert "exponents" not in page.charts
    assert page.at.button(key="inspect-decode").label == "Decode the other 9 of 9 records"
    page.click("inspect-decode")
    assert "exponents" in page.charts
    assert not any(b.key == "inspect-decode" for b in page.at.button)


def test_one_record_that_does_not_decode_leaves_the_others(
    inspecting: MakePage, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = inspect.moved

    def fails(chain: codec.Chain, read: Any) -> Any:
        if read.facts.entry.step == 3:
            raise codec.StreamError("bits that end early")
        return whole(chain, read)

    monkeypatch.setattr(inspect, "moved", fails)
    page = inspecting(inspect_path=path)
    held = page.at.session_state["inspect-held"].moved
    assert [len(held[key]) for key in sorted(held, key=lambda k: k[0].step)] == [
        0,
        1,
        1,
        0,
        1,
        1,
        1,
        1,
        1,
    ]
    for _ in range(2):  # it is said again, though it is not decoded again
        assert any("bits that end early" in t for t in said(page, "warning"))
        page.run()
