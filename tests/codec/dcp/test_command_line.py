"""What the command line says of steps that are not whole, lie elsewhere, or lack a file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from codec.cli.main import main
from codec.dcp import ChainWriter, needed
from codec.inspect import Reason
from codec.storage.folder import Disk

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is (disabled|unavailable)")


def save(writer: ChainWriter, run: Path, *names: str, **given: Any) -> None:
    """Save steps that differ a little."""
    for n, name in enumerate(names):
        w = torch.linspace(-1, 1, 300) + 0.01 * torch.randn(300, generator=torch.manual_seed(n))
        state = {"model": {"w": w, "fixed": torch.arange(9)}, "epoch": n}
        dcp.save(state, storage_writer=writer, checkpoint_id=run / name, **given)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three steps, of which each builds on the one before."""
    save(ChainWriter(bits=2), tmp_path / "run", "step-10", "step-20", "step-30")
    return tmp_path / "run"


def error(capsys: Capture, *words: object) -> str:
    """What a command that fails says."""
    assert main([str(word) for word in words]) == 1
    return capsys.readouterr().err


def test_why_records_are_bases(tmp_path: Path, capsys: Capture) -> None:
    """Of the newest record of each bundle: what has not changed is in an earlier step."""
    run = tmp_path / "run"

    def reasons(step: Path) -> set[str | None]:
        assert main(["info", str(step), "--json"]) == 0
        return {row["reason"] for row in json.loads(capsys.readouterr().out)["records"]}

    save(writer := ChainWriter(bits=2, base_every=1), run, "1", "2", "3")
    assert reasons(run / "1") == {Reason.FIRST}
    assert reasons(run / "2") == {None, Reason.FIRST, Reason.NOT_SMALLER}
    assert reasons(run / "3") == {Reason.MANY_DELTAS}
    with pytest.warns(UserWarning, match="does not lie beside"):
        save(writer, tmp_path / "other", "4")
    assert reasons(tmp_path / "other" / "4") == {Reason.ELSEWHERE}
    save(ChainWriter(policy={"model.w": "bits=3"}, resume=run / "3"), run, "5")
    assert reasons(run / "5") == {Reason.POLICY}
    assert main(["info", str(run / "5")]) == 0
    assert capsys.readouterr().out.count(f".base.safetensors  {Reason.POLICY}") == 2


def test_who_needs_a_directory_that_was_renamed(run: Path, capsys: Capture) -> None:
    """The names of records tell, not that of the directory."""
    (run / "step-20" / ".metadata").unlink()
    (run / "step-20").rename(run / "old")
    said = error(capsys, "info", run / "old")
    assert "Do not remove it, for other steps need its records: 'step-30'" in said
    (run / "old").rename(run / "step-20")
    (run / "step-10").rename(run / "first")  # its records are two records away
    (run / "first" / ".metadata").unlink()
    assert "Do not remove it" in error(capsys, "info", run / "first")


def test_no_advice_while_metadata_cannot_be_read(run: Path, capsys: Capture) -> None:
    failed = run / "step-40"
    shutil.copytree(run / "step-30", failed)
    for path in failed.glob("*.safetensors"):
        path.rename(failed / f"__0_{'0' * 16}.base.safetensors")
    (failed / ".metadata").unlink()
    assert "remove this directory" in error(capsys, "info", failed)
    (run / "step-10" / ".metadata").write_bytes(b"no pickle")
    said = error(capsys, "info", failed)
    assert "load another step" in said
    assert "remove" not in said


def test_what_is_missing_is_named(run: Path, capsys: Capture) -> None:
    for path in (run / "step-30").glob("*.delta.safetensors"):
        path.rename(run / path.name)
    assert "safetensors: is missing\n" in error(capsys, "info", run)
    for path in run.glob("*.delta.safetensors"):
        path.rename(run / "step-30" / path.name)
    shutil.rmtree(run / "step-10")  # holds what has not changed since
    said = error(capsys, "info", run)
    assert f"is missing: {run} no longer holds step-10; put back what was moved" in said


def test_steps_without_numbers(run: Path, tmp_path: Path, capsys: Capture) -> None:
    place = tmp_path / "unnumbered"
    shutil.copytree(run / "step-10", place / "final")
    for command in ("info", "verify"):
        said = error(capsys, command, place)
        assert f"name the step's directory, as {place}/final" in said
    assert main(["info", str(place / "final")]) == 0
    (place / "final" / ".metadata").unlink()
    said = error(capsys, "info", place)
    assert f"holds no whole step. {place}/final: has records, but no .metadata" in said


def test_compact_of_what_no_chain_writer_wrote(run: Path, tmp_path: Path, capsys: Capture) -> None:
    plain = tmp_path / "plain" / "step-40"
    dcp.save({"w": torch.ones(9)}, checkpoint_id=plain)
    assert main(["compact", str(plain.parent)]) == 0  # none of them is ours: all stay
    assert "steps removed: none" in capsys.readouterr().out
    assert plain.is_dir()
    plain.rename(run / "step-40")  # stays
    assert main(["compact", str(run)]) == 0
    assert "steps removed: none" in capsys.readouterr().out


def test_names_of_steps_are_escaped(tmp_path: Path, capsys: Capture) -> None:
    """In errors too; records of strangers name the steps that they build on."""
    run, odd = tmp_path / "run", "step-\x1b[31m10"
    save(ChainWriter(bits=2), run, odd, "step-20")
    assert main(["info", str(run / odd)]) == 0
    out = capsys.readouterr().out
    assert "step-\\x1b[31m10: records: " in out
    shutil.rmtree(run / odd)
    said = error(capsys, "info", run)
    assert r"no longer holds step-\x1b[31m10; put back" in said
    assert "\x1b" not in out + said


def test_metadata_that_is_written_between_two_calls(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Disk, "exists", lambda *_: False)
    assert len(needed(run / "step-30")) == 3
