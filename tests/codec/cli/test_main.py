"""The command line: answers, exit codes, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from safetensors.torch import load as load_torch

import codec
from codec import console
from codec.cli import commands
from codec.cli.main import main
from codec.storage.directory import remove_unused

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_info(tmp_path: Path, capsys: Capture) -> None:
    """The records, and how much of the newest delta is stored exactly."""
    rng, run = np.random.default_rng(0), tmp_path / "run.lcc"
    with codec.Checkpointer(run, budget=0.2) as checkpoints:
        for step in range(3):
            w = rng.normal(size=(100, 30)).astype(np.float32)
            state = {"model": {"w": w}, "optimizer": {"m": 2 * w, "n": np.full(9, step)}}
            saved = checkpoints.save(step, state)
    assert main(["info", str(run), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
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
    assert main(["info", str(run)]) == 0
    text = capsys.readouterr().out
    assert text.count("delta.safetensors") == 2
    assert f"{saved.exact_nbytes:,} bytes" in text
    assert f"would be behind by {saved.behind:.1%} of what was trained" in text
    damage(run / "00000002.delta.safetensors")
    assert main(["info", str(run)]) == 0
    assert "00000002.delta.safetensors: expected" in capsys.readouterr().out


def test_info_says_which_moments_are_lossy(tmp_path: Path, capsys: Capture) -> None:
    """By the newest base; a damaged one is named."""
    run, moments = tmp_path / "run.lcc", {"exp_avg": np.ones(50, np.float32)}
    state = {"model": {"w": np.ones(9, np.float32)}, "optimizer": {"state": {}}}
    with codec.Checkpointer(run) as checkpoints:
        checkpoints.save(0, state)
        assert main(["info", str(run), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["moments"]
        assert found == {"step": 0, "tensors": {}, "float32_bytes": 0}
        checkpoints.save(1, state | {"optimizer": {"state": {0: moments}}})
    assert main(["info", str(run), "--json"]) == 0
    tensors = {"optimizer/state/0/exp_avg": "bits=3"}
    found = json.loads(capsys.readouterr().out)["moments"]
    assert found == {"step": 1, "tensors": tensors, "float32_bytes": 200}
    assert main(["info", str(run)]) == 0
    said = "The optimizer's moments are lossy, at 3 bits: 1 tensor (exp_avg), 200 bytes in float32"
    assert said in capsys.readouterr().out
    damage(run / "00000001.base.safetensors")
    assert main(["info", str(run)]) == 0
    assert "The newest base: 00000001.base.safetensors: expected" in capsys.readouterr().out


def test_verify(run: Path, capsys: Capture) -> None:
    nbytes = codec.Chain(run).nbytes
    assert main(["verify", "--json", str(run)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"ok": True, "bytes": nbytes, "steps": [0, 10, 20, 30], "problems": []}
    damage(run / "00000020.delta.safetensors")
    assert main(["verify", str(run)]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("problem: 00000020.delta.safetensors: expected ")
    assert second.startswith("problem: 00000030.delta.safetensors: ")
    assert "2 of 4 steps restore" in last


def test_restore(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """The suffix says what is written."""
    out, expected = tmp_path / "out.safetensors", codec.restore(run, 10)
    assert main(["restore", str(run), "-o", str(out), "--step", "10", "--json"]) == 0
    size = out.stat().st_size
    answer = {"output": str(out), "bytes": size, "tensors": 10, "left_out": 0}
    assert json.loads(capsys.readouterr().out) == answer
    found = load(out.read_bytes())
    assert {k: v.tobytes() for k, v in found.items()} == {
        k: v.tobytes() for k, v in expected.items()
    }
    assert main(["restore", str(run), "-o", str(tmp_path / "x.pt")]) == 0
    back = torch.load(tmp_path / "x.pt", weights_only=True)
    assert back["d"].numpy().tobytes() == codec.restore(run)["d"].tobytes()
    for name in ("x", "x.h5"):
        assert main(["restore", str(run), "-o", str(tmp_path / name)]) == 2
        assert not (tmp_path / name).exists()


def test_restore_of_a_nested_state(tmp_path: Path, capsys: Capture) -> None:
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


def test_a_stream_that_does_not_decode(
    run: Path, tmp_path: Path, capsys: Capture, forge: Any, parts_of: Any, apart: Any, recoded: Any
) -> None:
    """Right digests, but bits that are none: found while they are applied."""
    path = run / "00000030.delta.safetensors"
    metadata, arrays = parts_of(path.read_bytes())
    payload = apart(arrays["c"])[0]["payload"]
    expected = codec.restore(run, 20)
    path.write_bytes(forge(metadata, recoded(arrays, {"payload": ~payload})))
    assert main(["verify", str(run)]) == 1
    assert "3 of 4 steps restore" in capsys.readouterr().out
    out = tmp_path / "out.safetensors"
    assert main(["restore", str(run), "-o", str(out), "--step", "30"]) == 1
    assert capsys.readouterr().err.startswith("error: 00000030.delta.safetensors: expected")
    assert not out.exists()
    assert main(["restore", str(run), "-o", str(out)]) == 0
    assert "restored step 20 instead of 30: 00000030.delta" in capsys.readouterr().err
    for name, array in load(out.read_bytes()).items():
        assert array.tobytes() == expected[name].tobytes()


def test_what_cannot_be_written(run: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["restore", str(run), "-o", str(tmp_path / "no" / "out.pt")]) == 1
    assert "could not be written" in capsys.readouterr().err
    with codec.Checkpointer(tmp_path / "odd.lcc") as checkpoints:
        checkpoints.save(0, {"__metadata__": np.zeros(3)})
    out = tmp_path / "out.safetensors"
    assert main(["restore", str(tmp_path / "odd.lcc"), "-o", str(out)]) == 1
    assert capsys.readouterr().err.startswith("error: a .safetensors file cannot hold")
    assert not out.exists()


def test_wrong_use(run: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["restore", str(run), "-o", str(tmp_path / "x.pt"), "--step", "11"]) == 2
    assert "error: " in capsys.readouterr().err
    for wrong in ([], ["destroy", str(run)], ["verify"], ["restore", str(run)], ["info", "a", "b"]):
        with pytest.raises(SystemExit) as caught:
            main(wrong)
        assert caught.value.code == 2
        assert "usage: python -m codec" in capsys.readouterr().err


def test_every_stored_fault_without_a_traceback(
    golden: Path, tmp_path: Path, capsys: Capture
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
    out = tmp_path / "out.safetensors"
    for source in sources:
        assert main(["verify", str(source), "--json"]) == 1, source
        assert main(["restore", str(source), "--step", "1", "-o", str(out)]) == 1, source
        assert main(["info", str(source)]) in (0, 1)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out


def test_as_a_process(run: Path) -> None:
    """-W error must not turn the warning about a skipped record into a traceback."""
    damage(run / "00000030.delta.safetensors")
    out = run.parent / "out.safetensors"
    command = [sys.executable, "-W", "error::UserWarning", "-m", "codec", "restore"]
    root = Path(codec.__file__).parents[1]
    done = subprocess.run(
        [*command, str(run), "-o", str(out)], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout == f"{out}: 10 tensors, {out.stat().st_size:,} bytes\n"
    assert done.stderr.startswith(f"{run}: restored step 20 instead of 30")


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


def test_compress(tmp_path: Path, capsys: Capture) -> None:
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


@pytest.mark.parametrize(
    ("target", "most"),
    [
        (["--tolerance", "0.001"], 0.001),
        (["--policy", "model/w=tolerance=0.01"], 0.01),
        (["--budget", "0.1", "--policy", "model/w=tolerance=0.02"], 0.02),
        (["--budget", "0.1"], None),
        (["--budget", "0.1", "--quantizer", "exponent"], None),
    ],
)
def test_compress_in_steps(
    tmp_path: Path, capsys: Capture, target: list[str], most: float | None
) -> None:
    paths, run = series(tmp_path, 4), tmp_path / "run.lcc"
    assert main(["compress", *map(str, paths), "-o", str(run), *target]) == 0
    capsys.readouterr()
    for step, path in zip(range(0, 40, 10), paths):
        found, meant = codec.restore(run, step)["model"]["w"], torch.load(path)["model"]["w"]
        assert most is None or (found.double() - meant.double()).abs().max() <= most
    (group,) = next(p.delta for p in codec.Chain(run).replay() if p.delta).groups
    assert group.encoded.uniform == ("exponent" not in target)
    assert main(["info", str(run), "--json"]) == 0
    assert main(["verify", str(run)]) == 0


def test_what_cannot_be_compressed(tmp_path: Path, capsys: Capture) -> None:
    """What came before the file that cannot be read is there."""
    paths, run = series(tmp_path, 3), tmp_path / "run.lcc"
    paths[1].write_bytes(paths[1].read_bytes()[:100])
    assert main(["compress", *map(str, paths), "-o", str(run)]) == 1
    error = capsys.readouterr().err
    assert f"{paths[1]}: " in error
    assert "--resume" in error
    assert codec.Chain(run).steps == (0,)
    for wrong in (
        ["--policy", "model"],
        ["--bits", "9"],
        ["--policy", "model/*=tight"],
        ["--policy", "model/*=tolerance=0"],
        ["--tolerance", "0"],
        ["--tolerance", "0.1", "--budget", "0.1"],
        ["--tolerance", "0.1", "--quantizer", "exponent"],
        ["--bits", "3", "--quantizer", "uniform"],
        ["--bits", "3", "--distance", "0.3"],
        ["--distance", "1"],
    ):
        other = ["compress", str(paths[0]), "-o", str(tmp_path / "x.lcc"), *wrong]
        assert main(other) == 2
        assert "error: " in capsys.readouterr().err
    assert main(["compress", str(tmp_path / "a.h5"), "-o", str(tmp_path / "y.lcc")]) == 2
    assert not (tmp_path / "x.lcc").exists()
    assert not (tmp_path / "y.lcc").exists()
    with pytest.raises(SystemExit):
        main(["compress", str(paths[0]), "-o", str(run), "--bits", "two"])
    assert "invalid" in capsys.readouterr().err


def saved_as(folder: Path, *names: str) -> list[str]:
    """A small .pt of each name, all different."""
    for i, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        torch.save({"w": torch.full((50,), float(i)), "name": name}, folder / name)
    return [str(folder / name) for name in names]


def names_by_step(run: Path) -> dict[int, str]:
    return {step: codec.restore(run, step)["name"] for step in codec.Chain(run).steps}


def test_the_steps_of_files(tmp_path: Path, capsys: Capture) -> None:
    """Said on standard error, and in the answer; the other rules are in test_file_steps."""
    for names, arguments, expected in (
        (["c-10.pt", "c-2.pt"], [], {2: "c-2.pt", 10: "c-10.pt"}),
        (["c-1.pt", "c-2.pt"], ["--steps", "9,7"], {7: "c-2.pt", 9: "c-1.pt"}),
        (["b.pt", "a.pt"], ["--steps", "order"], {0: "b.pt", 1: "a.pt"}),
    ):
        run, files = tmp_path / f"{names[0]}.lcc", saved_as(tmp_path, *names)
        assert main(["compress", *files, "-o", str(run), "--json", *arguments]) == 0
        assert names_by_step(run) == expected
        captured = capsys.readouterr()
        found = [(row["step"], row["source"]) for row in json.loads(captured.out)["steps"]]
        assert found == [(step, str(tmp_path / name)) for step, name in expected.items()]
        for step, path in found:
            (line,) = (line for line in captured.err.splitlines() if line.endswith(path))
            assert line.split()[:2] == ["step", str(step)]


@pytest.mark.parametrize(
    ("names", "arguments", "found"),
    [
        (["c-1.pt", "c-2.pt", "best.pt"], [], "best.pt"),
        (["a-1.pt", "b-1.pt"], [], "b-1.pt"),
        (["c-1.pt", "c-2.pt"], ["--steps", "1"], "2 files"),
        (["c-1.pt", "c-2.pt"], ["--steps", "1,1"], "c-2.pt"),
        (["c-1.pt"], ["--steps", "-1"], "-1"),
        ([f"c-{2**63}.pt"], [], str(2**63)),
    ],
)
def test_steps_that_are_not_known(
    names: list[str], arguments: list[str], found: str, tmp_path: Path, capsys: Capture
) -> None:
    """Nothing is written then."""
    run, files = tmp_path / "run.lcc", saved_as(tmp_path, *names)
    assert main(["compress", *files, "-o", str(run), *arguments]) == 2
    assert found in capsys.readouterr().err
    assert not run.exists()


def test_the_same_files_again(tmp_path: Path, capsys: Capture) -> None:
    """After a failure, and with more files, and with nothing to do."""
    run, files = tmp_path / "run.lcc", saved_as(tmp_path, *(f"c-{i}0.pt" for i in range(5)))
    whole = Path(files[3]).read_bytes()
    Path(files[3]).write_bytes(b"")
    again = ["compress", *files, "-o", str(run), "--json"]
    assert main(again) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["class"], error["exit_code"]) == ("SourceError", 1)
    assert "step 20" in error["message"]
    assert "--resume" in error["message"]
    Path(files[3]).write_bytes(whole)
    assert main([*again, "--resume"]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert answer["skipped"] == [0, 10, 20]
    assert [row["step"] for row in answer["records"]] == [30, 40]
    assert "3 of 5 files skipped" in captured.err
    assert names_by_step(run) == {10 * i: f"c-{i}0.pt" for i in range(5)}
    before = {p.name: p.read_bytes() for p in run.iterdir()}
    assert main(["compress", *files[:4], "-o", str(run), "--resume"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert {p.name: p.read_bytes() for p in run.iterdir()} == before


def records_of(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir()}


def test_other_files_than_those_of_the_chain(tmp_path: Path, capsys: Capture) -> None:
    """Those before its newest step cannot be added, and are not skipped either."""
    run, files = tmp_path / "run.lcc", saved_as(tmp_path, *(f"c-{i}.pt" for i in range(6)))
    assert main(["compress", files[1], files[3], "-o", str(run)]) == 0
    before = records_of(run)
    for wrong, blamed in ((files, 0), (files[1:], 2), ([files[2]], 2), ([files[0]], 0)):
        capsys.readouterr()
        assert main(["compress", *wrong, "-o", str(run), "--resume"]) == 2
        assert f"{files[blamed]}: is step {blamed}" in capsys.readouterr().err
        assert records_of(run) == before
    assert main(["compress", *files[3:], "-o", str(run), "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == [3]
    assert codec.Chain(run).steps == (1, 3, 4, 5)


@pytest.mark.parametrize(
    ("first", "second", "arguments", "blamed"),
    [
        ("a.pt", "b.pt", [], ["b.pt", "step 0"]),
        ("a.pt b.pt", "c.pt d.pt", ["--steps", "order"], ["c.pt", "step 0"]),
        ("c-1.pt c-2.pt", "final.pt", [], ["final.pt", "step 0"]),
        ("c-1.pt c-2.pt", "c-1.pt x/c-2.pt", ["--steps", "1,2"], ["c-2.pt", "step 2"]),
        (
            "s100_a9.pt s200_a10.pt",
            "s100_a9.pt s200_a10.pt s300_a10.pt",
            [],
            ["s100_a9.pt", "step 9"],
        ),
    ],
)
def test_resuming_with_files_that_do_not_fit(
    first: str, second: str, arguments: Any, blamed: Any, tmp_path: Path, capsys: Capture
) -> None:
    """None is dropped or stored twice: an error, and the chain is as it was."""
    saved_as(tmp_path, *dict.fromkeys((first + " " + second).split()))
    run = tmp_path / "run.lcc"
    paths, others = ([str(tmp_path / n) for n in names.split()] for names in (first, second))
    assert main(["compress", *paths, "-o", str(run), *arguments]) == 0
    before = records_of(run)
    assert main(["compress", *others, "-o", str(run), "--resume", *arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ")
    assert all(word in error for word in blamed)
    assert records_of(run) == before


def weights(path: Path, seed: int, **exact: Any) -> str:
    w = torch.randn(500, generator=torch.Generator().manual_seed(seed))
    torch.save({"model": {"w": w}, **exact}, path)
    return str(path)


@pytest.mark.parametrize(
    ("which", "others"),
    [
        (0, [{"seed": 9}]),  # a base: all of it
        (2, [{"seed": 9}]),  # the base in the middle
        (3, [{"n": torch.arange(2)}, {"epoch": 1}, {"more": torch.ones(3)}, {"new": 2}]),
    ],
)
def test_files_are_compared_with_the_chain(
    which: int, others: list[dict[str, Any]], tmp_path: Path, capsys: Capture
) -> None:
    run, n, new = tmp_path / "run.lcc", torch.zeros(2, dtype=torch.int64), torch.ones(999)
    known: list[dict[str, Any]] = [
        {"seed": i, "n": n, "epoch": 0} | ({"new": new} if i > 1 else {}) for i in range(4)
    ]  # "new" makes a base of step 2
    files = [weights(tmp_path / f"c-{i}.pt", **own) for i, own in enumerate(known)]
    assert main(["compress", *files, "-o", str(run)]) == 0
    assert [e.kind for e in codec.Chain(run).entries] == ["base", "delta", "base", "delta"]
    files.append(weights(tmp_path / "c-4.pt", **known[3] | {"seed": 4}))
    before = records_of(run)
    for other in others:
        weights(Path(files[which]), **known[which] | other)
        capsys.readouterr()
        assert main(["compress", *files, "-o", str(run), "--resume"]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert f"{files[which]}: " in error
        assert f"step {which}" in error
        assert records_of(run) == before
    weights(Path(files[which]), **known[which])
    assert main(["compress", *files, "-o", str(run), "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == [0, 1, 2, 3]


def test_a_place_in_the_names_that_fits_the_chain(tmp_path: Path, capsys: Capture) -> None:
    names = [f"step{1000 * i}_acc{90 + i}.pt" for i in (1, 2, 3)]
    run, files = tmp_path / "run.lcc", saved_as(tmp_path, *names)
    assert main(["compress", *files[:2], "-o", str(run), "--steps", "1000,2000"]) == 0
    assert main(["compress", *files, "-o", str(run), "--resume"]) == 0
    assert "other numbers" in capsys.readouterr().err
    assert names_by_step(run) == {1000: names[0], 2000: names[1], 3000: names[2]}


def test_history_that_was_compacted_away(tmp_path: Path, capsys: Capture) -> None:
    """Its files are skipped beside others that the chain has; a base of deltas is not the file."""
    run = tmp_path / "run.lcc"
    files = [weights(tmp_path / f"c-{i}.pt", i, epoch=i) for i in range(8)]
    for n in (4, 6):
        assert main(["compress", *files[:n], "-o", str(run), "--resume"]) == 0
        assert main(["compact", str(run), "--base"]) == 0
    assert codec.Chain(run).steps == (3, 4, 5)
    capsys.readouterr()
    assert main(["compress", *files[:3], "-o", str(run), "--resume"]) == 2
    assert f"{files[0]}: " in capsys.readouterr().err
    assert main(["compress", *files[:7], "-o", str(run), "--resume", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["skipped"] == [0, 1, 2, 3, 4, 5]
    assert "3 of 7 files skipped" in captured.err
    assert files[2] in captured.err.splitlines()[-1]
    assert main(["compress", files[7], "-o", str(run), "--resume"]) == 0
    assert codec.Chain(run).steps == (3, 4, 5, 6, 7)


def test_a_guess_from_one_name_is_said(tmp_path: Path, capsys: Capture) -> None:
    names = ["final_fp16.pt", "e3_step7.pt", "step7.pt"]
    for i, path in enumerate(saved_as(tmp_path, *names)):
        assert main(["compress", path, "-o", str(tmp_path / f"{i}.lcc")]) == 0
    none, several, *one = (e for e in capsys.readouterr().err.split("1 file\n")[1:])
    assert "no whole number" in none
    assert "2 whole numbers" in several
    assert one == [""]


def test_the_file_that_cannot_be_stored_is_named(tmp_path: Path, capsys: Capture) -> None:
    run, files = tmp_path / "run.lcc", saved_as(tmp_path, "c-0.pt", "c-1.pt")
    torch.save({"w": torch.eye(9).to_sparse()}, files[1])
    assert main(["compress", *files, "-o", str(run)]) == 1
    assert f"error: {files[1]}: tensor 'w'" in capsys.readouterr().err


def test_a_directory_instead_of_files(tmp_path: Path, capsys: Capture) -> None:
    name = "folder.pt"
    (tmp_path / name).mkdir()
    assert main(["compress", str(tmp_path / name), "-o", str(tmp_path / "run.lcc")]) == 2
    assert f"{name}: is a directory" in capsys.readouterr().err


def test_a_failure_before_the_first_record_leaves_nothing(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    (good,) = saved_as(tmp_path, "c-1.pt")
    (tmp_path / "c-0.pt").write_bytes(b"")
    bad = ["compress", str(tmp_path / "c-0.pt"), good, "-o"]
    assert main([*bad, str(tmp_path / "a" / "b" / "run.lcc")]) == 1
    assert "--resume" not in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    (tmp_path / "empty.lcc").mkdir()
    assert main([*bad, str(tmp_path / "empty.lcc")]) == 1
    assert (tmp_path / "empty.lcc").is_dir()

    def interrupted(path: Path) -> Any:
        (tmp_path / "c" / "notes.txt").write_text("mine")
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "read_state", interrupted)
    assert main(["compress", good, "-o", str(tmp_path / "c" / "run.lcc")]) == 130
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["notes.txt"]


def test_a_directory_that_another_writer_has_stays(tmp_path: Path) -> None:
    run = tmp_path / "a" / "run.lcc"
    with codec.Checkpointer(run):
        remove_unused([run])
        assert run.exists()
    remove_unused([run, run.parent])
    assert list(tmp_path.iterdir()) == []


def test_merge_and_compact(tmp_path: Path, capsys: Capture) -> None:
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
    assert json.loads(capsys.readouterr().out)["records"] == {"before": 4, "after": 4}
    assert main(["compact", str(run), "--base", "--json"]) == 0
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


def test_a_locked_chain(run: Path, capsys: Capture) -> None:
    with codec.Checkpointer(run, resume=True):
        assert main(["compact", str(run)]) == 1
        assert "another writer is at work here" in capsys.readouterr().err


def test_pack_and_unpack(run: Path, tmp_path: Path, capsys: Capture) -> None:
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


def test_export(tmp_path: Path, capsys: Capture) -> None:
    paths, run, out = series(tmp_path, 6), tmp_path / "run.lcc", tmp_path / "out"
    assert main(["compress", *map(str, paths), "-o", str(run), "--json"]) == 0
    assert main(["merge", str(run), "--steps", "3"]) == 0
    assert main(["compact", str(run), "--base"]) == 0
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


def test_interrupted(run: Path, capsys: Capture, monkeypatch: Patch) -> None:
    def stop(*_args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(codec.Chain, "verify", stop)
    assert main(["verify", str(run)]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_every_command_is_explained(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    names = "info verify restore export compress merge compact pack unpack"
    assert all(f"  {name} " in text for name in names.split())


# Errors as JSON, and outputs that fail.


@pytest.mark.parametrize(
    ("arguments", "name", "code"),
    [
        (["info", "no.lcc", "--json"], "ChainNotFoundError", 1),
        (["merge", "no.lcc", "--json", "--steps", "1"], "SettingsError", 2),
        (["merge", "no.lcc", "--json", "--steps", "x"], "UsageError", 2),
        (["--json"], "UsageError", 2),
        (["info", "--js"], "UsageError", 2),
    ],
)
def test_errors_are_json_too(
    arguments: list[str], name: str, code: int, capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        found = main(arguments)
    except SystemExit as exc:
        found = int(exc.code or 0)
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert (error["class"], error["exit_code"], found) == (name, code, code)
    assert error["message"] in captured.err


def test_of_an_answer_that_fails_half_way_nothing_is_left(capsys: Capture) -> None:
    def command() -> int:
        print("half of a long answer " * 99)
        raise codec.LccError("the rest is missing")

    assert console.run(command, ["--json"], {codec.LccError: 1}) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["class"], error["message"]) == ("LccError", "the rest is missing")


def as_a_process(run: Path, shell: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`info` with its output sent somewhere by a shell."""
    command = f"{sys.executable} -m codec info {run} {shell}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=Path(codec.__file__).parents[1],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a file that is full")
@pytest.mark.parametrize(
    ("shell", "unbuffered"), [(">/dev/full", ""), (">&-", ""), ("--json >/dev/full", "1")]
)
def test_an_answer_that_cannot_be_written(run: Path, shell: str, unbuffered: str) -> None:
    done = as_a_process(run, shell, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("shell", ["| head -c 1", ">&- 2>&-"])
def test_who_does_not_listen_gets_no_traceback(run: Path, shell: str) -> None:
    done = as_a_process(run, shell)
    assert done.returncode == (1 if "&" in shell else 0)
    assert done.stderr == ""


def test_ascii_alone(run: Path) -> None:
    strange = run.rename(run.parent / "läuft→.lcc")
    done = as_a_process(strange, "", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    done = as_a_process(strange.parent / "no→", "--json", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "no" in done.stdout
