"""The command line: answers, exit codes, no traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from safetensors.torch import load as load_torch

import codec
from codec import console
from codec.cli.main import main
from tests.bits import same
from tests.codec.chains import GOLDEN, records_in, save_all, shorten
from tests.compaction import add_base

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


class Cli:
    """The command line in this process."""

    def __init__(self, capsys: Capture) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: Any, code: int = 0) -> Any:
        """What a command says; it must end with this exit code."""
        self._capsys.readouterr()
        assert main([str(a) for a in arguments]) == code, arguments
        return self._capsys.readouterr()

    def json(self, *arguments: Any, code: int = 0) -> Any:
        """The answer with --json."""
        return json.loads(self(*arguments, "--json", code=code).out)


@pytest.fixture
def cli(capsys: Capture) -> Cli:
    return Cli(capsys)


def test_info(tmp_path: Path, cli: Cli) -> None:
    """The records, and how much of the newest delta is stored exactly."""
    run, states = tmp_path / "run.lcc", []
    for step, w in enumerate(np.random.default_rng(0).normal(size=(3, 100, 30)).astype(np.float32)):
        states.append({"model": {"w": w}, "optimizer": {"m": 2 * w, "n": np.full(9, step)}})
    saved = save_all(run, states, budget=0.2)[-1]
    answer = cli.json("info", run)
    assert (answer["run"], answer["bytes"]) == (str(run), codec.Chain(run).nbytes)
    kinds = [(r["step"], r["kind"], r["bytes"]) for r in answer["records"]]
    assert kinds == [(e.step, e.kind, e.nbytes) for e in codec.Chain(run).entries]
    tensors = answer["newest_delta"].pop("exact_tensors")
    assert answer["newest_delta"] == {
        "step": 2,
        "bytes": saved.nbytes,
        "exact_bytes": saved.exact_nbytes,
        "distance": round(saved.distance, 3),
        "behind": round(saved.behind, 3),
    }
    assert tensors.keys() == {"optimizer/m", "optimizer/n"}
    assert tensors["optimizer/n"] == 72
    assert 9_000 < tensors["optimizer/m"] < 12_000  # as a residual
    text = cli("info", run).out
    assert text.count("delta.safetensors") == 2
    assert f"{saved.exact_nbytes:,} bytes" in text
    assert f"would be behind by {saved.behind:.1%} of what was trained" in text
    shorten(run / "00000002.delta.safetensors")
    assert "00000002.delta.safetensors: expected" in cli("info", run).out


def test_info_says_which_moments_are_lossy(tmp_path: Path, cli: Cli) -> None:
    """By the newest base; a damaged one is named."""
    run, moments = tmp_path / "run.lcc", {"exp_avg": np.ones(50, np.float32)}
    state = {"model": {"w": np.ones(9, np.float32)}, "optimizer": {"state": {}}}
    with codec.Checkpointer(run) as checkpoints:
        for step, tensors, nbytes in (
            (0, {}, 0),
            (1, {"optimizer/state/0/exp_avg": "sizes=0.125"}, 200),
        ):
            checkpoints.save(step, state)
            expected = {"step": step, "tensors": tensors, "float32_bytes": nbytes}
            assert cli.json("info", run)["moments"] == expected
            state = state | {"optimizer": {"state": {0: moments}}}
    said = "The optimizer's moments are lossy: 1 tensor (exp_avg), 200 bytes in float32"
    assert said in cli("info", run).out
    shorten(run / "00000001.base.safetensors")
    assert "The newest base: 00000001.base.safetensors: expected" in cli("info", run).out


def test_names_cannot_write_to_the_terminal(tmp_path: Path, cli: Cli) -> None:
    """Files come from strangers: what is not printable in a name is escaped, and JSON has it."""
    run = tmp_path / "run.lcc"
    names = ["a\nb", "\x1b[31mred", "tab\t", "\u202eright", "東京", "back\\"]
    save_all(run, [{"model": {name: np.ones(2, np.float32) for name in names}, "v\x07": 1}])
    out = cli("info", run, "--tensors").out
    rows = [line.split() for line in out.splitlines()[1:-1]]
    shown = [r"a\nb", r"\x1b[31mred", r"tab\t", r"\u202eright", "東京", "back\\"]
    assert {row[0] for row in rows} == {*(f"model/{name}" for name in shown), r"v\x07"}
    assert all(row[1:3] == ["float32", "2"] for row in rows if row[1] != "value")
    answer = cli.json("info", run, "--tensors")
    assert {row["name"] for row in answer["tensors"]} == {f"model/{name}" for name in names}
    strange = run.rename(run.parent / "strange\x1b[31m.lcc")
    assert r"strange\x1b[31m.lcc" in cli("info", strange, "--tensors").out


def test_info_lists_tensors(tmp_path: Path, cli: Cli) -> None:
    """By the names that --only takes, at any step. A pattern without a match leads here."""
    run, out = tmp_path / "run.lcc", tmp_path / "out.pt"
    state: dict[str, Any] = {"model": {"w": np.ones((4, 5), np.float32)}, "epoch": 1}
    state["tied"] = state["model"]["w"]
    save_all(run, [state, state | {"new": torch.ones(3, dtype=torch.bfloat16)}, state])
    answer = cli.json("info", run, "--tensors", "--step", 1)
    w = {"dtype": "float32", "shape": [4, 5], "stored": "lossy"}
    new = {"name": "new", "dtype": "bfloat16", "shape": [3], "stored": "exact"}
    assert (answer["run"], answer["step"], answer["values"]) == (str(run), 1, ["epoch"])
    assert answer["tensors"] == [{"name": "model/w", **w}, {"name": "tied", **w}, new]
    assert cli.json("info", run, "--tensors")["step"] == 2
    lines = cli("info", run, "--tensors").out.splitlines()
    rows = [line.split() for line in lines[:-1]]
    assert rows[0] == ["name", "dtype", "shape", "stored"]
    assert sorted(rows[1:]) == [
        ["epoch", "value", "-", "exact"],
        ["model/w", "float32", "4x5", "lossy"],
        ["tied", "float32", "4x5", "lossy"],
    ]
    assert lines[-1] == f"step 2 of {run}: tensors: 2, other values: 1"
    for name, *_ in rows[1:]:
        cli("restore", run, "--only", name, "-o", out)
    said = cli("restore", run, "--only", "model.w", "-o", out, code=2).err
    assert "'model/w'" in said
    assert "`python -m codec info RUN --tensors` lists all" in said
    assert "--tensors" in cli("info", run, "--step", 1, code=2).err
    cli("info", run, "--tensors", "--step", 3, code=2)


def test_verify(run: Path, cli: Cli) -> None:
    answer = {"ok": True, "bytes": codec.Chain(run).nbytes, "problems": []}
    assert cli.json("verify", run) == answer | {"steps": [0, 10, 20, 30]}
    shorten(run / "00000020.delta.safetensors")
    first, second, last = cli("verify", run, code=1).out.splitlines()
    assert first.startswith("problem: 00000020.delta.safetensors: expected ")
    assert second.startswith("problem: 00000030.delta.safetensors: ")
    assert "2 of 4 steps restore" in last


def test_restore(run: Path, tmp_path: Path, cli: Cli) -> None:
    """The suffix says what is written."""
    out, expected = tmp_path / "out.safetensors", codec.restore(run, 10)
    answer = cli.json("restore", run, "-o", out, "--step", 10)
    size = out.stat().st_size
    assert answer == {"output": str(out), "bytes": size, "tensors": 10, "left_out": 0}
    first = {k: v.tobytes() for k, v in load(out.read_bytes()).items()}
    assert first == {k: v.tobytes() for k, v in expected.items()}
    cli("restore", run, "-o", tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt", weights_only=True)
    assert back["d"].numpy().tobytes() == codec.restore(run)["d"].tobytes()
    for name in ("x", "x.h5"):
        cli("restore", run, "-o", tmp_path / name, code=2)
        assert not (tmp_path / name).exists()
    shorten(run / "00000020.delta.safetensors")
    said = cli("restore", run, "-o", tmp_path / "new.pt", "--step", 20, code=1).err
    assert said.startswith("error: 00000020.delta.safetensors: expected")
    assert not (tmp_path / "new.pt").exists()
    said = cli("restore", run, "-o", out).err
    assert "restored step 10 instead of 30: 00000020.delta" in said
    assert {k: v.tobytes() for k, v in load(out.read_bytes()).items()} == first


def test_restore_of_a_nested_state(tmp_path: Path, cli: Cli) -> None:
    """By their paths; what is one tensor in two places is there twice, other values are not."""
    run, out = tmp_path / "run.lcc", tmp_path / "out.safetensors"
    w = torch.arange(9.0)
    state = {"model": {"w": w, "tied": w}, "epoch": 3, "more": [np.arange(3), "text"]}
    save_all(run, [state])
    text = cli("restore", run, "-o", out).out
    assert "3 tensors, " in text
    assert text.endswith("a .safetensors file holds tensors only: 2 values\n")
    back = {name: tensor.tolist() for name, tensor in load_torch(out.read_bytes()).items()}
    assert back == {"model/w": w.tolist(), "model/tied": w.tolist(), "more/0": [0, 1, 2]}
    save_all(tmp_path / "flat.lcc", [{"a/b": w, "tied": w}])
    cli("restore", tmp_path / "flat.lcc", "-o", out)
    assert set(load_torch(out.read_bytes())) == {"a/b", "tied"}


def test_what_cannot_be_written(run: Path, tmp_path: Path, cli: Cli) -> None:
    error = cli("restore", run, "-o", tmp_path / "no" / "out.pt", code=1).err
    assert "could not be written" in error
    save_all(tmp_path / "odd.lcc", [{"__metadata__": np.zeros(3)}])
    out = tmp_path / "out.safetensors"
    error = cli("restore", tmp_path / "odd.lcc", "-o", out, code=1).err
    assert error.startswith("error: a .safetensors file cannot hold")
    assert not out.exists()


def test_wrong_use(run: Path, tmp_path: Path, cli: Cli, capsys: Capture) -> None:
    assert "error: " in cli("restore", run, "-o", tmp_path / "x.pt", "--step", 11, code=2).err
    for wrong in ([], ["destroy", str(run)], ["verify"], ["restore", str(run)], ["info", "a", "b"]):
        with pytest.raises(SystemExit) as caught:
            main(wrong)
        assert caught.value.code == 2
        assert "usage: python -m codec" in capsys.readouterr().err


def test_every_stored_fault_without_a_traceback(tmp_path: Path, cli: Cli, capsys: Capture) -> None:
    """Some broken records as the base or the delta of a chain, each broken archive."""
    sources = [p for p in (GOLDEN / "bad").iterdir() if p.suffix != ".safetensors"]
    names = ("00000000.base.safetensors", "00000001.delta.safetensors")
    for i, path in enumerate(sorted((GOLDEN / "bad").glob("*.safetensors"))[::5]):
        run = tmp_path / path.stem
        shutil.copytree(GOLDEN / "run.lcc", run)
        (run / names[i % 2]).write_bytes(path.read_bytes())
        sources.append(run)
    assert len(sources) > 20
    out = tmp_path / "out.safetensors"
    for source in sources:
        said = cli("verify", source, "--json", code=1)
        said += cli("restore", source, "--step", 1, "-o", out, code=1)
        assert main(["info", str(source)]) in (0, 1)
        assert "Traceback" not in "".join((*said, *capsys.readouterr()))


# Commands that write.


def series(folder: Path, n: int = 10) -> list[Path]:
    """A .pt each, of a nested state, steps 0, 10, 20…"""
    rng = torch.Generator().manual_seed(0)
    w, paths = torch.zeros(3000), []
    for step in range(0, 10 * n, 10):
        w = w + torch.randn(3000, generator=rng) * (torch.rand(3000, generator=rng) < 0.05)
        paths.append(folder / f"checkpoint-{step}.pt")
        torch.save({"model": {"w": w}, "epoch": step}, paths[-1])
    return paths


def test_compress(tmp_path: Path, cli: Cli) -> None:
    paths, run = series(tmp_path, 5), tmp_path / "run.lcc"
    cli("compress", *paths, "-o", run)
    deltas = [position.delta for position in codec.Chain(run).replay() if position.delta]
    assert {delta.coding for delta in deltas} == {codec.Coding.safe()}
    far = "oo far for a restart: step "
    said = [cli(command, run).out for command in ("verify", "info")]
    assert far not in "".join(said)
    shutil.rmtree(run)
    said = [cli("compress", *paths, "-o", run, "--bits", 1).out]
    said += [cli(command, run).out for command in ("verify", "info")]
    assert all(far in text and "save with distance=0.3 instead" in text for text in said), said
    shutil.rmtree(run)
    lines = cli("compress", *paths[2::-1], "-o", run, "--bits", "all").out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("step       10  delta")
    assert lines[1].endswith(f"x smaller  {paths[1]}")
    assert codec.Chain(run).steps == (0, 10, 20)
    assert codec.restore(run)["epoch"] == 20
    again = ["compress", *paths[3:], "-o", run]
    assert "already holds a chain" in cli(*again, "--json", code=2).err
    rows = cli.json(*again, "--resume", "--budget", 0.5, "--policy", "model/*=exact")["records"]
    assert [(r["step"], r["source"]) for r in rows] == [(30, str(paths[3])), (40, str(paths[4]))]
    assert [r["bytes"] for r in rows] == [e.nbytes for e in codec.Chain(run).entries[-2:]]
    assert torch.equal(codec.restore(run)["model"]["w"], torch.load(paths[4])["model"]["w"])


@pytest.mark.parametrize(
    ("target", "coding", "family"),
    [
        ("--tolerance 0.001", {"tolerance": 0.001}, ""),
        ("--budget 0.1 --policy model/w=tolerance=0.02", {"budget": 0.1}, "tolerance=0.02"),
        ("--budget 0.1 --quantizer exponent", {"budget": 0.1, "quantizer": "exponent"}, ""),
        ("--scope tensor --coder huffman", {"scope": "tensor", "coder": "huffman"}, ""),
    ],
)
def test_compress_with_settings(
    tmp_path: Path, cli: Cli, target: str, coding: dict[str, Any], family: str
) -> None:
    run = tmp_path / "run.lcc"
    cli("compress", *series(tmp_path, 2), "-o", run, *target.split())
    delta = codec.Chain(run).at().delta
    assert delta.coding == codec.Coding.safe(**coding)
    assert str(delta.groups[0].tensors[0].family) == family


def test_what_cannot_be_compressed(tmp_path: Path, cli: Cli, capsys: Capture) -> None:
    """What came before the file that cannot be read is there."""
    paths, run = series(tmp_path, 3), tmp_path / "run.lcc"
    paths[1].write_bytes(paths[1].read_bytes()[:100])
    error = cli("compress", *paths, "-o", run, code=1).err
    assert f"{paths[1]}: " in error
    assert "--resume" in error
    assert codec.Chain(run).steps == (0,)
    for wrong in ("--policy model", "--bits 9", "--tolerance 0.1 --quantizer exponent"):
        error = cli("compress", paths[0], "-o", tmp_path / "x.lcc", *wrong.split(), code=2).err
        assert "error: " in error
    cli("compress", tmp_path / "a.h5", "-o", tmp_path / "x.lcc", code=2)
    (tmp_path / "folder.pt").mkdir()
    error = cli("compress", tmp_path / "folder.pt", "-o", tmp_path / "x.lcc", code=2).err
    assert "folder.pt: is a directory" in error
    assert not (tmp_path / "x.lcc").exists()
    with pytest.raises(SystemExit):
        main(["compress", str(paths[0]), "-o", str(run), "--bits", "two"])
    assert "invalid" in capsys.readouterr().err
    torch.save({"w": torch.eye(9).to_sparse()}, paths[1])
    error = cli("compress", *paths, "-o", tmp_path / "y.lcc", code=1).err
    assert f"error: {paths[1]}: tensor 'w'" in error


def saved_as(folder: Path, *names: str) -> list[str]:
    """A small .pt of each name, all different."""
    for i, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        torch.save({"w": torch.full((50,), float(i)), "name": name}, folder / name)
    return [str(folder / name) for name in names]


def names_by_step(run: Path) -> dict[int, str]:
    return {step: codec.restore(run, step)["name"] for step in codec.Chain(run).steps}


def test_the_steps_of_files(tmp_path: Path, cli: Cli) -> None:
    """Said on standard error, and in the answer; the other rules are in test_file_steps."""
    for names, arguments, expected in (
        (["c-10.pt", "c-2.pt"], [], {2: "c-2.pt", 10: "c-10.pt"}),
        (["c-1.pt", "c-2.pt"], ["--steps", "9,7"], {7: "c-2.pt", 9: "c-1.pt"}),
        (["b.pt", "a.pt"], ["--steps", "order"], {0: "b.pt", 1: "a.pt"}),
    ):
        run, files = tmp_path / f"{names[0]}.lcc", saved_as(tmp_path, *names)
        said = cli("compress", *files, "-o", run, "--json", *arguments)
        assert names_by_step(run) == expected
        rows = [(row["step"], row["source"]) for row in json.loads(said.out)["steps"]]
        assert rows == [(step, str(tmp_path / name)) for step, name in expected.items()]
        for step, path in rows:
            (line,) = (line for line in said.err.splitlines() if line.endswith(path))
            assert line.split()[:2] == ["step", str(step)]


@pytest.mark.parametrize(
    ("names", "arguments", "blamed"),
    [
        (["a-1.pt", "b-1.pt"], [], "b-1.pt"),
        (["c-1.pt"], ["--steps", "-1"], "-1"),
        ([f"c-{2**63}.pt"], [], str(2**63)),
    ],
)
def test_steps_that_are_not_known(
    names: list[str], arguments: list[str], blamed: str, tmp_path: Path, cli: Cli
) -> None:
    """Nothing is written then."""
    run, files = tmp_path / "run.lcc", saved_as(tmp_path, *names)
    assert blamed in cli("compress", *files, "-o", run, *arguments, code=2).err
    assert not run.exists()


def test_the_same_files_again(tmp_path: Path, cli: Cli) -> None:
    """After a failure, and with more files, and with nothing to do."""
    run, files = tmp_path / "run.lcc", saved_as(tmp_path, *(f"c-{i}0.pt" for i in range(5)))
    whole = Path(files[3]).read_bytes()
    Path(files[3]).write_bytes(b"")
    error = cli.json("compress", *files, "-o", run, code=1)["error"]
    assert (error["class"], error["exit_code"]) == ("SourceError", 1)
    assert "step 20" in error["message"]
    assert "--resume" in error["message"]
    Path(files[3]).write_bytes(whole)
    said = cli("compress", *files, "-o", run, "--json", "--resume")
    answer = json.loads(said.out)
    assert answer["skipped"] == [0, 10, 20]
    assert [row["step"] for row in answer["records"]] == [30, 40]
    assert "3 of 5 files skipped" in said.err
    assert names_by_step(run) == {10 * i: f"c-{i}0.pt" for i in range(5)}
    before = records_in(run)
    assert "no file comes after it" in cli("compress", *files[:4], "-o", run, "--resume").out
    assert records_in(run) == before


@pytest.mark.parametrize(
    ("second", "got"),
    [
        # Those between its steps cannot be added, and are not skipped either.
        ("c-1.pt c-2.pt c-3.pt c-4.pt", "c-2.pt: is step 2"),
        ("c-2.pt", "c-2.pt: is step 2"),
        ("c-0.pt c-1.pt c-3.pt c-4.pt", [0, 1, 3]),
        ("c-3.pt c-4.pt c-5.pt", [3]),
    ],
)
def test_resuming_with_other_files(
    second: str, got: str | list[int], tmp_path: Path, cli: Cli
) -> None:
    """An error, and the chain is as it was, or they are appended."""
    run, files = tmp_path / "run.lcc", saved_as(tmp_path, *(f"c-{i}.pt" for i in range(6)))
    cli("compress", files[1], files[3], "-o", run)
    before = records_in(run)
    again = ["compress", *(tmp_path / name for name in second.split()), "-o", run, "--resume"]
    if isinstance(got, str):
        assert got in cli(*again, code=2).err.splitlines()[-1]
        assert records_in(run) == before
    else:
        assert cli.json(*again)["skipped"] == got
        assert codec.Chain(run).steps[:3] == (1, 3, 4)


def test_history_that_was_compacted_away(tmp_path: Path, cli: Cli) -> None:
    """Its files are skipped."""
    run = tmp_path / "run.lcc"
    files = saved_as(tmp_path, *(f"c-{i}.pt" for i in range(7)))
    for n in (4, 6):
        cli("compress", *files[:n], "-o", run, "--resume")
        cli("compact", run, "--keep-steps", 3)
    assert codec.Chain(run).steps == (3, 4, 5)
    said = cli("compress", *files, "-o", run, "--resume", "--json")
    assert json.loads(said.out)["skipped"] == [0, 1, 2, 3, 4, 5]
    assert "6 of 7 files skipped" in said.err
    assert codec.Chain(run).steps == (3, 4, 5, 6)


@pytest.mark.parametrize(
    ("name", "guess"),
    [("final_fp16.pt", "no whole number"), ("e3_step7.pt", "2 whole numbers"), ("step7.pt", "")],
)
def test_a_guess_from_one_name_is_said(name: str, guess: str, tmp_path: Path, cli: Cli) -> None:
    said = cli("compress", *saved_as(tmp_path, name), "-o", tmp_path / "run.lcc").err
    rest = said.partition("1 file\n")[2]
    assert guess in rest
    assert bool(rest) == bool(guess)


def test_compact(tmp_path: Path, cli: Cli) -> None:
    paths, run = series(tmp_path, 5), tmp_path / "run.lcc"
    cli("compress", *paths, "-o", run)
    expected = {step: codec.restore(run, step)["model"]["w"] for step in codec.Chain(run).steps}
    before = codec.Chain(run).nbytes
    assert cli.json("compact", run, "--keep-steps", 5)["records"] == {"before": 5, "after": 5}
    lines = cli("compact", run, "--keep-steps", 2).out.splitlines()
    after = codec.Chain(run).nbytes
    assert lines[0].startswith(f"before: 5 records, {before:,} bytes")
    assert lines[1].startswith(f"after:  2 records, {after:,} bytes")
    for step in (30, 40):
        assert torch.equal(codec.restore(run, step)["model"]["w"], expected[step])
    assert "      30  base " in cli("info", run).out
    answer = cli.json("compact", run)
    assert answer["records"] == {"before": 2, "after": 1}
    assert answer["bytes"] == {"before": after, "after": codec.Chain(run).nbytes}
    assert "ok: 1 of 1 steps restore" in cli("verify", run).out
    cli("compact", run, "--keep-steps", 0, code=2)
    cli("compact", tmp_path / "no.lcc", code=1)
    assert not (tmp_path / "no.lcc").exists()
    with codec.Checkpointer(run, resume=True):
        assert "another writer is at work here" in cli("compact", run, code=1).err


def test_pack_and_unpack(run: Path, tmp_path: Path, cli: Cli) -> None:
    archive, back = tmp_path / "run.lcc.zip", tmp_path / "back.lcc"
    text = cli("pack", run, "-o", archive).out
    assert text == f"{archive}: {archive.stat().st_size:,} bytes\n"
    answer = cli.json("unpack", archive, "-o", back)
    assert answer == {"output": str(back), "records": 4, "bytes": codec.Chain(run).nbytes}
    assert records_in(back) == records_in(run)
    assert "holds a chain already" in cli("unpack", archive, "-o", back, code=2).err
    cut = tmp_path / "cut.lcc.zip"
    cut.write_bytes(archive.read_bytes()[:-5])
    for command in (["info", cut], ["verify", cut], ["restore", cut, "-o", tmp_path / "x.pt"]):
        error = cli(*command, code=1).err
        assert error.startswith(f"error: {cut}: ends too early, after ")
        assert error.endswith("copy or download it again\n")
    shorten(run / "00000020.delta.safetensors")
    cli("pack", run, "-o", archive)
    error = cli("unpack", archive, "-o", tmp_path / "third.lcc", code=1).err
    assert "error: 00000020.delta.safetensors: expected " in error


def test_restore_of_all_steps(tmp_path: Path, cli: Cli) -> None:
    paths, run, out = series(tmp_path, 4), tmp_path / "run.lcc", tmp_path / "out"
    cli("compress", *paths, "-o", run)
    add_base(run)
    assert cli("restore", run, "--all", "pt", "-o", out).out == f"{out}: 4 files\n"
    for step in range(0, 40, 10):
        assert same(torch.load(out / f"{step:08d}.pt"), codec.restore(run, step))
    answer = cli.json("restore", run, "--all", "safetensors", "-o", out)
    assert answer == {"output": str(out), "files": 4, "left_out": 4}
    single = tmp_path / "one.pt"
    cli("restore", run, "--step", 20, "-o", single)
    assert torch.load(single)["epoch"] == 20
    cli("restore", run, "--all", "pt", "--step", 10, "-o", out, code=2)
    assert "is no folder" in cli("restore", run, "--all", "pt", "-o", single, code=1).err


def test_interrupted(run: Path, cli: Cli, monkeypatch: Patch) -> None:
    monkeypatch.setattr(codec.Chain, "verify", mock.Mock(side_effect=KeyboardInterrupt))
    assert "interrupted" in cli("verify", run, code=130).err


def test_every_command_is_explained(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    names = "info verify restore compress compact pack unpack"
    assert all(f"  {name} " in text for name in names.split())


# Errors as JSON, and outputs that fail.


@pytest.mark.parametrize(
    ("arguments", "name", "code"),
    [
        (["info", "no.lcc", "--json"], "ChainNotFoundError", 1),
        (["compact", "no.lcc", "--json", "--keep", "x"], "UsageError", 2),
        (["info", "--js"], "UsageError", 2),
    ],
)
def test_errors_are_json_too(
    arguments: list[str], name: str, code: int, capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        exit_code = main(arguments)
    except SystemExit as exc:
        exit_code = int(exc.code or 0)
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert (error["class"], error["exit_code"], exit_code) == (name, code, code)
    assert error["message"] in captured.err


def test_of_an_answer_that_fails_half_way_nothing_is_left(capsys: Capture) -> None:
    def command() -> int:
        print("half of a long answer " * 99)
        raise codec.LccError("the rest is missing")

    assert console.run(command, ["--json"], {codec.LccError: 1}) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["class"], error["message"]) == ("LccError", "the rest is missing")


def shell(command: str, **environment: str) -> Any:
    """What a shell makes of a command."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=Path(codec.__file__).parents[1],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )


ANSWERS = f"""
import runpy, sys
run = runpy.run_path({console.__file__!r})["run"]
sys.exit(run(lambda: print("an answer, " * 20_000) or 0, None, {{}}))
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a file that is full")
@pytest.mark.parametrize(
    ("output", "unbuffered", "code", "error"),
    [
        (">/dev/full", "", 1, "error: standard output: "),
        (">&-", "", 1, "error: standard output: "),
        (">/dev/full", "1", 1, "error: standard output: "),
        ("| head -c 1", "", 0, ""),
        (">&- 2>&-", "", 1, ""),
    ],
)
def test_an_answer_that_cannot_be_written(
    output: str, unbuffered: str, code: int, error: str
) -> None:
    """Nor does who does not listen get a traceback. What writes imports nothing of the codec."""
    command = f"{sys.executable} -c '{ANSWERS.replace(chr(39), chr(34))}' {output}"
    done = shell(command, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == code
    assert done.stderr.startswith(error)
    assert len(done.stderr.splitlines()) == bool(error)


def test_ascii_alone(run: Path) -> None:
    """And -W error must not turn the warning about a skipped record into a traceback."""
    shorten(run / "00000030.delta.safetensors")
    strange, out = run.rename(run.parent / "läuft→.lcc"), run.parent / "out→.safetensors"
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    command = f"-W error::UserWarning -m codec restore {strange} -o {out}"
    done = shell(f"{sys.executable} {command}", **ascii_only)
    assert done.returncode == 0
    name = os.fsencode(out).decode("ascii", "surrogateescape")
    name = name.encode("ascii", "backslashreplace").decode()
    assert done.stdout == f"{name}: 10 tensors, {out.stat().st_size:,} bytes\n"
    (line,) = done.stderr.splitlines()
    assert ".lcc: restored step 20 instead of 30" in line
