"""The command line: answers, exit codes, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from safetensors.torch import load as load_torch

import codec
from codec.__main__ import main


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_info(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(run)]) == 0
    text = capsys.readouterr().out
    assert text.count("delta.safetensors") == 3
    assert f"4 records, {codec.Chain(run).nbytes:,} bytes" in text
    assert main(["info", str(run), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["run"] == str(run)
    assert answer["bytes"] == sum(r["bytes"] for r in answer["records"])
    assert answer["records"][1]["file"] == "00000010.delta.safetensors"
    assert [(r["step"], r["kind"]) for r in answer["records"]] == [
        (0, "base"), (10, "delta"), (20, "delta"), (30, "delta"),
    ]  # fmt: skip


def test_verify(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nbytes = codec.Chain(run).nbytes
    assert main(["verify", str(run)]) == 0
    assert capsys.readouterr().out == f"ok: 4 of 4 steps restore, {nbytes:,} bytes checked\n"
    assert main(["verify", "--json", str(run)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"ok": True, "bytes": nbytes, "steps": [0, 10, 20, 30], "problems": []}
    damage(run / "00000020.delta.safetensors")
    assert main(["verify", str(run)]) == 1
    text = capsys.readouterr().out.splitlines()
    assert text[0].startswith("problem: 00000020.delta.safetensors: expected ")
    assert text[1].startswith("problem: 00000030.delta.safetensors: its parent, digest ")
    assert text[2].startswith("DAMAGED: 2 of 4 steps restore")
    assert main(["verify", "--json", str(run)]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["steps"], len(answer["problems"])) == (False, [0, 10], 2)


def test_restore(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.safetensors"
    assert main(["restore", str(run), "-o", str(out), "--step", "10"]) == 0
    assert capsys.readouterr().out == f"{out}: 10 tensors, {out.stat().st_size:,} bytes\n"
    expected = codec.restore(run, 10)
    for name, array in load(out.read_bytes()).items():
        assert array.tobytes() == expected[name].tobytes()
    assert main(["restore", str(run), "-o", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {
        "output": str(out), "bytes": out.stat().st_size, "tensors": 10, "left_out": 0,
    }  # fmt: skip
    assert load(out.read_bytes())["d"].tobytes() == codec.restore(run)["d"].tobytes()


def test_restore_torch(tmp_path: Path) -> None:
    run, out = tmp_path / "run.lcc", tmp_path / "out.safetensors"
    with codec.Checkpointer(run) as checkpoints:
        checkpoints.save(0, {"w": torch.ones(3, dtype=torch.bfloat16)})
    assert main(["restore", str(run), "-o", str(out)]) == 0
    assert load_torch(out.read_bytes())["w"].dtype == torch.bfloat16


def test_restore_of_a_nested_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By their paths; what is one tensor in two places is there twice, other values are not."""
    run, out = tmp_path / "run.lcc", tmp_path / "out.safetensors"
    w = torch.arange(9.0)
    state = {"model": {"w": w, "tied": w}, "epoch": 3, "more": [np.arange(3), "text"]}
    with codec.Checkpointer(run) as checkpoints:
        checkpoints.save(0, state)
    assert main(["restore", str(run), "-o", str(out)]) == 0
    assert "3 tensors, " in (text := capsys.readouterr().out)
    assert text.endswith("a .safetensors file holds tensors only: 2 values\n")
    back = {name: tensor.tolist() for name, tensor in load_torch(out.read_bytes()).items()}
    assert back == {"model/w": w.tolist(), "model/tied": w.tolist(), "more/0": [0, 1, 2]}
    with codec.Checkpointer(tmp_path / "flat.lcc") as checkpoints:
        checkpoints.save(0, {"a/b": w, "tied": w})
    assert main(["restore", str(tmp_path / "flat.lcc"), "-o", str(out)]) == 0
    assert set(load_torch(out.read_bytes())) == {"a/b", "tied"}


def test_restore_falls_back_and_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(run / "00000030.delta.safetensors")
    out = tmp_path / "out.safetensors"
    assert main(["restore", str(run), "-o", str(out)]) == 0
    assert "restored step 20 instead of 30: 00000030.delta" in capsys.readouterr().err
    assert main(["restore", str(run), "-o", str(out), "--step", "30"]) == 1
    assert capsys.readouterr().err.startswith("error: 00000030.delta.safetensors: expected ")


def test_a_stream_that_does_not_decode(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    forge: Callable[[Any, dict[str, np.ndarray]], bytes], parts_of: Callable[[bytes], Any],
    apart: Callable[..., Any], recoded: Callable[..., dict[str, np.ndarray]],
) -> None:  # fmt: skip
    """Right digests, but bits that are none: found while they are applied."""
    path = run / "00000030.delta.safetensors"
    metadata, arrays = parts_of(path.read_bytes())
    payload = apart(arrays["coded"])[0]["payload"]
    expected = codec.restore(run, 20)
    path.write_bytes(forge(metadata, recoded(arrays, {"payload": ~payload})))
    assert main(["verify", str(run)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("problem: 00000030.delta.safetensors: expected streams that decode, ")
    assert "DAMAGED: 3 of 4 steps restore" in text
    out = tmp_path / "out.safetensors"
    assert main(["restore", str(run), "-o", str(out), "--step", "30"]) == 1
    assert capsys.readouterr().err.startswith("error: 00000030.delta.safetensors: expected streams")
    assert not out.exists()
    assert main(["restore", str(run), "-o", str(out)]) == 0
    assert "restored step 20 instead of 30: 00000030.delta" in capsys.readouterr().err
    for name, array in load(out.read_bytes()).items():
        assert array.tobytes() == expected[name].tobytes()


def test_archives(run: Path, tmp_path: Path, golden: Path) -> None:
    for name, chain in (("run", run), ("tokens", golden / "tokens.lcc")):
        codec.Chain(chain).pack(tmp_path / f"{name}.lcc.zip")
        assert main(["verify", str(tmp_path / f"{name}.lcc.zip")]) == 0
    assert main(["info", str(golden / "bad" / "truncated.lcc.zip")]) == 1


def test_what_cannot_be_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["restore", str(run), "-o", str(tmp_path / "no" / "out")]) == 1
    assert "could not be written" in capsys.readouterr().err
    with codec.Checkpointer(tmp_path / "odd.lcc") as checkpoints:
        checkpoints.save(0, {"__metadata__": np.zeros(3)})
    assert main(["restore", str(tmp_path / "odd.lcc"), "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.startswith("error: a .safetensors file cannot hold")
    assert not (tmp_path / "out").exists()


def test_wrong_use(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restore", str(run), "-o", str(tmp_path / "x"), "--step", "11"]) == 2
    assert "error: " in capsys.readouterr().err
    for wrong in ([], ["destroy", str(run)], ["verify"], ["restore", str(run)], ["info", "a", "b"]):
        with pytest.raises(SystemExit) as caught:
            main(wrong)
        assert caught.value.code == 2
        assert "usage: python -m codec" in capsys.readouterr().err


def test_every_stored_fault_without_a_traceback(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each broken record as the base or the delta of a chain, each broken archive."""
    sources = [p for p in (golden / "bad").iterdir() if p.suffix != ".safetensors"]
    for path in (golden / "bad").glob("*.safetensors"):
        for name in ("00000000.base.safetensors", "00000001.delta.safetensors"):
            run = tmp_path / f"{path.stem}-{name[9]}"
            run.mkdir()
            for good in (golden / "run.lcc").iterdir():
                (run / good.name).write_bytes(good.read_bytes())
            (run / name).write_bytes(path.read_bytes())
            sources.append(run)
    assert len(sources) > 50
    for source in sources:
        assert main(["verify", str(source), "--json"]) == 1, source
        assert main(["restore", str(source), "--step", "1", "-o", str(tmp_path / "out")]) == 1, (
            source
        )
        assert main(["info", str(source)]) in (0, 1)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out


def test_as_a_process(run: Path) -> None:
    """-W error must not turn the warning about a skipped record into a traceback."""
    damage(run / "00000030.delta.safetensors")
    out = run.parent / "out"
    command = [sys.executable, "-W", "error::UserWarning", "-m", "codec"]
    root = Path(codec.__file__).parents[1]
    done = subprocess.run(
        [*command, "restore", str(run), "-o", str(out)], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout == f"{out}: 10 tensors, {out.stat().st_size:,} bytes\n"
    assert done.stderr.startswith(f"{run}: restored step 20 instead of 30")
    assert "Traceback" not in done.stderr
    done = subprocess.run(
        [*command, "info", str(run / "no")], cwd=root, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


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


def test_compress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, run = series(tmp_path), tmp_path / "run.lcc"
    assert main(["compress", *map(str, paths[:8][::-1]), "-o", str(run), "--bits", "all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[1].startswith("step       10  delta")
    assert lines[1].endswith(f"x smaller  {paths[1]}")
    assert codec.Chain(run).steps == tuple(range(0, 80, 10))
    assert codec.restore(run)["epoch"] == 70
    again = ["compress", *map(str, paths[8:]), "-o", str(run), "--json"]
    assert main(again) == 2
    assert "already holds a chain" in capsys.readouterr().err
    assert main([*again, "--resume", "--budget", "0.5", "--policy", "model/*=exact"]) == 0
    rows = json.loads(capsys.readouterr().out)["records"]
    assert [(r["step"], r["source"]) for r in rows] == [(80, str(paths[8])), (90, str(paths[9]))]
    assert [r["bytes"] for r in rows] == [e.nbytes for e in codec.Chain(run).entries[-2:]]
    assert torch.equal(codec.restore(run)["model"]["w"], torch.load(paths[9])["model"]["w"])


def test_what_cannot_be_compressed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What came before the file that cannot be read is there."""
    paths, run = series(tmp_path, 3), tmp_path / "run.lcc"
    paths[1].write_bytes(paths[1].read_bytes()[:100])
    assert main(["compress", *map(str, paths), "-o", str(run)]) == 1
    assert f"{paths[1]}: cannot be read" in capsys.readouterr().err
    assert codec.Chain(run).steps == (0,)
    for wrong in (["--policy", "model"], ["--bits", "9"], ["--policy", "model/*=tight"]):
        other = ["compress", str(paths[0]), "-o", str(tmp_path / "x.lcc"), *wrong]
        assert main(other) == 2
        assert capsys.readouterr().err.startswith("error: ")
    assert main(["compress", str(tmp_path / "a.h5"), "-o", str(tmp_path / "y.lcc")]) == 2
    with pytest.raises(SystemExit):
        main(["compress", str(paths[0]), "-o", str(run), "--bits", "two"])
    assert "invalid" in capsys.readouterr().err


def test_merge_and_compact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, run = series(tmp_path), tmp_path / "run.lcc"
    assert main(["compress", *map(str, paths), "-o", str(run), "--json"]) == 0
    expected = {step: codec.restore(run, step)["model"]["w"] for step in codec.Chain(run).steps}
    before = codec.Chain(run).nbytes
    capsys.readouterr()
    assert main(["merge", str(run), "--steps", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    after = codec.Chain(run).nbytes
    assert lines[0].startswith(f"before: 10 records, {before:,} bytes, newest step restored in ")
    assert lines[1].startswith(f"after:  4 records, {after:,} bytes, newest step restored in ")
    for step, w in expected.items():
        assert torch.equal(codec.restore(run, step)["model"]["w"], w)
    assert main(["info", str(run)]) == 0
    assert "10-40  merged" in capsys.readouterr().out
    assert main(["compact", str(run), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["records"] == {"before": 4, "after": 5}
    assert answer["bytes"] == {"before": after, "after": codec.Chain(run).nbytes}
    assert set(answer["restore_seconds"]) == {"before", "after"}
    assert main(["verify", str(run)]) == 0
    assert "ok: 10 of 10 steps restore" in capsys.readouterr().out
    for wrong in (["merge", str(run), "--steps", "1"], ["compact", str(run), "--keep", "1"]):
        assert main(wrong) == 2
    assert main(["merge", str(tmp_path / "no.lcc")]) == 1
    assert not (tmp_path / "no.lcc").exists()


def test_a_locked_chain(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with codec.Checkpointer(run, resume=True):
        assert main(["compact", str(run)]) == 1
        assert "another writer is at work here" in capsys.readouterr().err


def test_pack_and_unpack(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive, back = tmp_path / "run.lcc.zip", tmp_path / "back.lcc"
    assert main(["pack", str(run), "-o", str(archive)]) == 0
    assert capsys.readouterr().out == f"{archive}: {archive.stat().st_size:,} bytes\n"
    assert main(["unpack", str(archive), "-o", str(back), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"output": str(back), "records": 4, "bytes": codec.Chain(run).nbytes}
    for entry in codec.Chain(run).entries:
        assert (back / entry.name).read_bytes() == (run / entry.name).read_bytes()
    assert main(["unpack", str(archive), "-o", str(back)]) == 2
    assert "holds a chain already" in capsys.readouterr().err
    damage(run / "00000020.delta.safetensors")
    assert main(["pack", str(run), "-o", str(archive)]) == 0
    assert main(["unpack", str(archive), "-o", str(tmp_path / "third.lcc")]) == 1
    assert "error: 00000020.delta.safetensors: expected " in capsys.readouterr().err


def test_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, run, out = series(tmp_path, 6), tmp_path / "run.lcc", tmp_path / "out"
    assert main(["compress", *map(str, paths), "-o", str(run), "--json"]) == 0
    assert main(["merge", str(run), "--steps", "3"]) == 0
    assert main(["compact", str(run)]) == 0
    capsys.readouterr()
    assert main(["export", str(run), "--all", "pt", "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 6 files\n"
    for step in range(0, 60, 10):
        state, expected = torch.load(out / f"{step:08d}.pt"), codec.restore(run, step)
        assert state["epoch"] == step
        assert torch.equal(state["model"]["w"], expected["model"]["w"])
    assert main(["export", str(run), "--all", "safetensors", "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"output": str(out), "files": 6, "left_out": 6}
    single = tmp_path / "one.pt"
    assert main(["export", str(run), "--step", "20", "-o", str(single)]) == 0
    assert torch.load(single)["epoch"] == 20
    assert main(["export", str(run), "-o", str(tmp_path / "one.h5")]) == 2
    assert main(["export", str(run), "--all", "pt", "--step", "10", "-o", str(out)]) == 2
    assert main(["export", str(run), "--all", "pt", "-o", str(single)]) == 1
    assert "is no folder" in capsys.readouterr().err


def test_interrupted(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(codec.Chain, "verify", stop)
    assert main(["verify", str(run)]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_every_command_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for name in (
        "info", "verify", "restore", "export", "compress", "merge", "compact", "pack", "unpack",
        "bench",
    ):  # fmt: skip
        assert f"  {name} " in text
