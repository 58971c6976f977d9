"""Receipts: what they tell, what a check of them finds, and the scripts that go with them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import demo_models
from lcviz.__main__ import main
from lcviz.export import archive as export
from lcviz.export import receipt
from lcviz.export import scripts as script
from lcviz.run.run import Run

ROOT = Path(__file__).resolve().parents[3]
MakeRun = Callable[..., Run]
Told = tuple[export.Package, dict[str, Any]]


def run_script(path: Path, *arguments: str | Path) -> tuple[int, str]:
    """Exit code and what it says."""
    done = subprocess.run(
        [sys.executable, path, *map(str, arguments)],
        cwd=path.parent,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=120,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def lay_down(folder: Path, package: export.Package, told: dict[str, Any]) -> Path:
    """All that is downloaded together; the script's path."""
    (folder / package.file).write_bytes(package.data)
    (folder / script.RECEIPT).write_bytes(receipt.dumped(told))
    (folder / script.RESTORING).write_text(script.restoring(told))
    (folder / script.NAME).write_text(script.reproducing(told))
    return folder / script.NAME


@pytest.fixture(scope="session")
def told(finished_runs: Callable[..., Run]) -> Told:
    """A run's package and its receipt."""
    run = finished_runs(stop_after=6, interval=2, optimizer="adam", seed=3)
    package = export.pack(run)
    return package, receipt.of_run(run, package)


def test_what_it_tells_is_so(told: Told, finished_runs: Callable[..., Run]) -> None:
    package, about = told
    run = finished_runs(stop_after=6, interval=2, optimizer="adam", seed=3)
    assert about["archive"]["sha256"] == hashlib.sha256(package.data).hexdigest()
    with zipfile.ZipFile(io.BytesIO(package.data)) as archive:
        expected = {n: hashlib.sha256(archive.read(n)).hexdigest() for n in archive.namelist()}
    assert {r["file"]: r["sha256"] for r in about["records"]} == expected
    assert about["tracks"] == {str(c.step): c.track for c in run.snapshot().checkpoints}
    assert about["sizes"]["float32"] == 4 * 4 * 7850
    assert about["settings"]["last_step"] == 6
    assert about["settings"]["optimizer"] == "adam"
    assert about["machine"]["torch_threads"] == 1
    assert about["versions"]["numpy"] == np.__version__
    assert "changes no byte" in about["reproducible"]
    assert receipt.load(receipt.dumped(about)) == about
    assert dict(receipt.rows(about))["Model"] == "7,850 parameters"


def test_people_read_the_pages_words(told: Told) -> None:
    """Not the code's own, and one bit or thread is one."""
    about = json.loads(json.dumps(told[1]))
    about["settings"] |= {"bits": 1}
    about["machine"] |= {"cores": 1, "torch_threads": 2}
    shown = dict(receipt.rows(about))
    assert shown["Training"].startswith("Adam, learning rate ")
    assert shown["Kept"] == "1 bit, buckets over the whole model, run-length Huffman"
    assert ", 1 core, " in shown["Machine"]
    assert "2 threads of torch" in shown["Machine"]
    about["settings"] |= {"bits": 2, "scope": "tensor", "coder": "huffman"}
    assert dict(receipt.rows(about))["Kept"] == "2 bits, buckets over each tensor, Huffman (paper)"
    foreign = {"optimizer": "<b>", "scope": "x", "coder": "y"}  # anybody can write a receipt
    about["settings"] |= foreign
    assert dict(receipt.rows(about))["Kept"] == "2 bits, buckets over x, y"


def test_the_digest_of_data_is_of_every_example() -> None:
    dataset = demo_models.make_task("logistic-regression", "digits").dataset
    found = hashlib.sha256()
    for tensor in (*dataset.train, *dataset.held_out):
        found.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + tensor.numpy().tobytes())
    assert dataset.digest() == found.hexdigest()
    labels = dataset.held_out[1].clone()
    labels[-1] += 1
    assert replace(dataset, held_out=(dataset.held_out[0], labels)).digest() != dataset.digest()


def test_the_archive_it_is_of_has_no_problem(told: Told) -> None:
    done: list[tuple[int, int]] = []
    assert receipt.problems(told[1], told[0].data, lambda *d: done.append(d)) == []
    assert done == [(i, 4) for i in range(1, 5)]


def test_a_flipped_bit_is_named(told: Told) -> None:
    data = bytearray(told[0].data)
    data[len(data) // 2] ^= 1
    found = receipt.problems(told[1], bytes(data))
    assert any("SHA-256 is" in problem for problem in found)
    assert any("does not restore" in problem for problem in found)


def test_another_chain_is_told_apart_step_by_step(told: Told, make_run: MakeRun) -> None:
    run = make_run(stop_after=6, interval=2, optimizer="adam", seed=4)
    run.play()
    run.wait(60)
    found = receipt.problems(told[1], export.pack(run).data)
    assert sum("restores to a track" in problem for problem in found) == 4
    assert sum("has another SHA-256" in problem for problem in found) == 4


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("settings", "bits", 8), "says 8 bits, buckets over the model, coder runlength; 3 of 3 "),
        (("settings", "budget", 0.05), "The receipt says a budget of 0.05, "),
        (("settings", "scope", "tensor"), "buckets over the tensor, "),
        (("settings", "coder", "huffman"), "00000002.delta.safetensors first: 2 bits, "),
        (("sizes", "float32", 10**9), "float32 take 1,000,000,000 bytes, and it is 125,600."),
        (("sizes", "records", 1), "its records take 1 bytes"),
        (("sizes", "archive", 1), "the archive has 1 bytes"),
        (("records", 1, {"bytes": 1}), "00000002.delta.safetensors as bytes 1, and it is "),
        (("records", 1, {"kind": "base"}), "as kind base, and it is delta."),
        (("records", 1, {"step": 3}), "as step 3, and it is 2."),
    ],
)
def test_what_it_claims_of_sizes_and_settings_is_compared(
    told: Told, change: tuple[str, Any, Any], expected: str
) -> None:
    about = json.loads(receipt.dumped(told[1]))
    part, key, value = change
    about[part][key] = about[part][key] | value if isinstance(value, dict) else value
    (problem,) = receipt.problems(receipt.load(receipt.dumped(about)), told[0].data)
    assert expected in problem
    assert problem.endswith(".")


def test_of_somebody_s_chain_the_newest_settings_are_told(told: Told) -> None:
    kept = {"bits": 2, "budget": None, "scope": "model", "coder": "runlength"}
    about = receipt.of_archive(told[0], told[1]["sizes"]["float32"], kept)
    assert receipt.problems(about, told[0].data) == []
    other = receipt.of_archive(told[0], told[1]["sizes"]["float32"], kept | {"bits": None})
    (problem,) = receipt.problems(other, told[0].data)
    assert "says all buckets, " in problem
    assert "00000006.delta" in problem


def changed(about: dict[str, Any], **changes: Any) -> bytes:
    return json.dumps(about | changes).encode()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"receipt": 2}, "no receipt of version 1"),
        ({"records": [{"file": 3}]}, "lacks"),
        ({"records": [{"file": 3, "sha256": "a"}]}, "not what they should be"),
        ({"tracks": {"x": "y"}}, "lacks"),
        ({"tracks": {}}, "not what they"),
        ({"records": []}, "not what they"),
        ({"sizes": {"float32": 1.5, "records": 1, "archive": 1}}, "lacks"),
        ({"settings": {}}, "lacks"),
        ({"settings": {"bits": "2", "budget": None, "scope": "model", "coder": "x"}}, "lacks"),
        ({"archive": {"file": "../../etc/passwd", "sha256": "a", "bytes": 1}}, "not what they"),
        ({"archive": []}, "lacks"),
    ],
)
def test_what_is_no_receipt(told: Told, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(receipt.ReceiptError, match=expected):
        receipt.load(changed(told[1], **changes))


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\3\4", b"[]", b'{"receipt": 1, "receipt": 1}', b"[" * 10**6, b'{"a":' + b"[" * 10**5],
)
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(receipt.ReceiptError, match="This is no receipt: "):
        receipt.load(data)


def test_the_command(told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lay_down(tmp_path, *told)
    paper, archive = tmp_path / script.RECEIPT, tmp_path / told[0].file
    assert main(["receipt", str(paper)]) == 0
    assert capsys.readouterr().out.startswith(f"ok: {archive}, ")
    archive.write_bytes(told[0].data[:-1])
    assert main(["receipt", str(paper), str(archive), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"]
    assert len(answer["problems"]) == 3
    archive.unlink()
    assert main(["receipt", str(paper)]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_the_script_trains_the_same_bytes(told: Told, tmp_path: Path) -> None:
    path = lay_down(tmp_path, *told)
    code, said = run_script(path, "-o", "again.zip")
    assert (code, said.splitlines()[-1]) == (0, "the same: every byte is that of the receipt")
    assert f"SHA-256 {told[0].sha256}" in said
    assert (tmp_path / "again.zip").read_bytes() == told[0].data


def test_the_script_says_what_differs(
    told: Told, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    package, about = told
    other = about | {"versions": about["versions"] | {"numpy": "1.0"}}
    path = lay_down(tmp_path, package, other)
    path.write_text(path.read_text().replace("SEED = 3", "SEED = 4"))
    code, said = run_here(path)
    assert code == 1
    assert "NOT THE SAME: The record 00000000.base.safetensors is the first that differs." in said
    assert f"Here is numpy {np.__version__} instead of 1.0." in said


def test_the_script_compares_the_archive_itself(
    told: Told, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    package, about = told
    other = about | {"archive": about["archive"] | {"sha256": "0" * 64}}
    code, said = run_here(lay_down(tmp_path, package, other))
    assert code == 1
    assert "NOT THE SAME: The archive differs from the receipt's. The versions are the s" in said


def test_the_script_refuses_other_data(
    told: Told, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    package, about = told
    path = lay_down(tmp_path, package, about | {"data": about["data"] | {"sha256": "0" * 64}})
    assert run_here(path) == (
        1,
        "NOT THE SAME: The training data have another SHA-256 than those of the receipt.\n",
    )


def test_the_script_restores(told: Told, tmp_path: Path, run_here: Callable[..., Any]) -> None:
    path = lay_down(tmp_path, *told)
    assert run_here(path.with_name(script.RESTORING), "4")[0] == 0
    restored = export.plain(told[0], 4)
    assert (tmp_path / "step4.safetensors").read_bytes() == restored.data


def test_the_script_that_restores_says_what_is_wrong(
    told: Told, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    path = lay_down(tmp_path, *told).with_name(script.RESTORING)
    code, said = run_here(path, "5")
    assert (code, said.startswith("error: ")) == (1, True)
    assert "no record of step 5" in said
    (tmp_path / told[0].file).unlink()
    code, said = run_here(path)
    assert (code, "there is no chain" in said) == (1, True)


@pytest.mark.parametrize("name", ['a"""; raise SystemExit(9) #', "a\\", "a\n b", "$(x)", "é"])
def test_no_archive_s_name_is_code(
    name: str, told: Told, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    package = replace(told[0], name=name)
    about = told[1] | {"archive": told[1]["archive"] | {"file": package.file}}
    path = lay_down(tmp_path, package, about).with_name(script.RESTORING)
    assert run_here(path, "4")[0] == 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("my_run-2.1", "my_run-2.1"),
        ('x"; rm -rf ~ #', "x-rm--rf"),
        ("--help", "help"),
        ("![a](http://b)", "a-http-b"),
        ("../..", "chain"),
        ("é" * 300, "chain"),
        ("a" * 300, "a" * 100),
    ],
)
def test_a_name_that_any_disk_and_shell_takes(given: str, expected: str) -> None:
    assert export.safe_name(given) == expected


def test_a_run_that_was_killed_is_made_again_with_its_restarts(
    make_run: MakeRun, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    """With momentum: a training that went on without a break would save other bytes."""

    def steps(run: Run, n: int) -> None:
        for _ in range(n):
            run.step()
            run.wait(60)

    run, straight = (make_run(stop_after=8, interval=2, momentum=0.9) for _ in range(2))
    steps(run, 1)
    run.kill()
    run.go_on()
    steps(run, 2)
    run.kill()
    package = export.pack(run)  # the second restart may come, and has changed nothing yet
    about = receipt.of_run(run, package)
    assert about["settings"]["resumed_at"] == [2]
    assert run_here(lay_down(tmp_path, package, about))[0] == 0
    run.go_on()
    steps(run, 1)
    package = export.pack(run)
    about = receipt.of_run(run, package)
    assert about["settings"]["resumed_at"] == [2, 6]
    assert "went on from step 2, 6" in about["reproducible"]
    assert run_here(lay_down(tmp_path, package, about))[0] == 0
    straight.play()
    straight.wait(60)
    assert export.pack(straight).data != package.data


def test_data_of_a_folder_are_asked_for(
    make_run: MakeRun, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    for name, step in (("ml", 1), ("other", 2)):
        rows = [f"{i % 20},{i % 33},{i * step % 5 + 1}.0,0" for i in range(300)]
        (tmp_path / name).mkdir()
        text = "\n".join(["userId,movieId,rating,timestamp", *rows])
        (tmp_path / name / "ratings.csv").write_text(text + "\n")
    run = make_run("matrix-factorization", data="movielens", folder=str(tmp_path / "ml"))
    run.play()
    assert run.wait(60).status == "finished"
    package = export.pack(run)
    about = receipt.of_run(run, package)
    assert str(tmp_path) not in json.dumps(about)  # where it lay is nobody's business
    path = lay_down(tmp_path, package, about)
    assert run_here(path, tmp_path / "ml")[0] == 0
    code, said = run_here(path, tmp_path / "other")
    assert (code, "another SHA-256" in said) == (1, True)
    code, said = run_here(path, tmp_path / "nowhere")
    assert (code, "There is no folder" in said) == (1, True)
