"""Receipts: what they say, what a check of them finds, and the scripts that go with them."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load, load_file

import demo_models
from lcviz.cli.tools import main
from lcviz.export import receipt as receipts
from lcviz.export import scripts
from lcviz.export.archive import Package, pack, restore
from lcviz.export.receipt import Receipt
from lcviz.run.run import Run

MakeRun = Callable[..., Run]
Paths = Callable[..., Path]
Answer = Callable[..., tuple[int, str]]
SETTINGS = {"stop_after": 6, "interval": 2, "optimizer": "adam", "seed": 3}


@pytest.fixture(scope="session")
def package(finished_runs: MakeRun) -> Package:
    return pack(finished_runs(**SETTINGS))


@pytest.fixture
def receipt(finished_runs: MakeRun, package: Package) -> Receipt:
    return receipts.of_run(finished_runs(**SETTINGS), package)


def test_what_it_says_is_so(package: Package, receipt: Receipt, finished_runs: MakeRun) -> None:
    run, data = finished_runs(**SETTINGS), package.data
    assert receipt["archive"]["sha256"] == hashlib.sha256(data).hexdigest()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        expected = {n: hashlib.sha256(archive.read(n)).hexdigest() for n in archive.namelist()}
    assert {r["file"]: r["sha256"] for r in receipt["records"]} == expected
    assert receipt["tracks"] == {str(c.step): c.track for c in run.snapshot().checkpoints}
    assert receipt["sizes"]["float32"] == 4 * 4 * 7850
    settings = {"interval": 2, "optimizer": "adam", "seed": 3, "last_step": 6, "resumed_at": []}
    assert {name: receipt["settings"][name] for name in settings} == settings
    assert receipt["machine"]["torch_threads"] == 1
    assert receipt["versions"]["numpy"] == np.__version__
    assert receipt["reproducible"].startswith("Fully reproducible")
    assert receipts.load(receipts.dumped(receipt)) == receipt
    done: list[tuple[int, int]] = []
    assert receipts.problems(receipt, data, lambda *d: done.append(d)) == []
    assert done == [(i, 4) for i in range(1, 5)]


def test_people_read_the_pages_words(receipt: Receipt) -> None:
    """Not the code's own, and one bit or thread is one."""
    receipt["settings"] |= {"bits": 1}
    receipt["machine"] |= {"cores": 1, "torch_threads": 2}
    shown = receipts.describe(receipt)
    assert shown["Model"] == "7,850 parameters"
    assert shown["Training"].startswith("Adam, learning rate ")
    assert shown["Kept"] == "1 bit, buckets over the whole model, run-length"
    assert ", 1 core, " in shown["Machine"]
    assert "2 threads of torch" in shown["Machine"]
    foreign = {"bits": 2, "optimizer": "<b>", "scope": "x", "coder": "y"}  # anybody writes one
    receipt["settings"] |= foreign
    assert receipts.describe(receipt)["Kept"] == "2 bits, buckets over the x, coder y"


def test_the_digest_of_data_is_of_every_example() -> None:
    dataset = demo_models.make_task("logistic-regression", "digits").dataset
    found = hashlib.sha256()
    for tensor in (*dataset.train, *dataset.held_out):
        found.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + tensor.numpy().tobytes())
    assert dataset.digest() == found.hexdigest()
    labels = dataset.held_out[1].clone()
    labels[-1] += 1
    assert replace(dataset, held_out=(dataset.held_out[0], labels)).digest() != dataset.digest()


def test_another_archive_is_told_apart(
    package: Package, receipt: Receipt, finished_runs: MakeRun
) -> None:
    data = bytearray(package.data)
    data[len(data) // 2] ^= 1
    found = receipts.problems(receipt, bytes(data))
    assert any("SHA-256 is" in problem for problem in found)
    assert any("does not restore" in problem for problem in found)
    found = receipts.problems(receipt, pack(finished_runs(**SETTINGS | {"seed": 4})).data)
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
    package: Package, receipt: Receipt, change: tuple[str, Any, Any], expected: str
) -> None:
    part, key, value = change
    receipt[part][key] = receipt[part][key] | value if isinstance(value, dict) else value
    (problem,) = receipts.problems(receipts.load(receipts.dumped(receipt)), package.data)
    assert expected in problem
    assert problem.endswith(".")


def test_records_that_are_not_there_or_twice(package: Package, receipt: Receipt) -> None:
    first = receipt["records"].pop(0)
    (problem,) = receipts.problems(receipt, package.data)
    assert problem == f"The record {first['file']} is not in the receipt."
    receipt["records"] += [first, first, first | {"file": "x"}]
    twice, missing = receipts.problems(receipt, package.data)
    assert "twice" in twice
    assert missing == "The record x is not in the archive."
    receipt["tracks"]["8"] = "0"
    assert "1 of the steps do not restore, 8 first." in receipts.problems(receipt, package.data)


def test_of_an_opened_chain_it_has_the_newest_settings(package: Package) -> None:
    receipt = receipts.of_archive(package)
    assert receipt["settings"] == {
        "bits": 2,
        "budget": None,
        "tolerance": None,
        "distance": None,
        "quantizer": "exponent",
        "scope": "model",
        "coder": "runlength",
    }
    assert receipts.problems(receipt, package.data) == []
    for name in ("tolerance", "quantizer"):  # older receipts lack them
        del receipt["settings"][name]
    assert receipts.problems(receipt, package.data) == []
    receipt["settings"]["bits"] = None
    (problem,) = receipts.problems(receipt, package.data)
    assert "says all buckets, " in problem
    assert "00000006.delta" in problem


@pytest.mark.parametrize(
    "changes",
    [
        {"records": [{"file": 3}]},
        {"records": [{"file": 3, "sha256": "a", "kind": "base", "step": 0, "bytes": 1}]},
        {"records": []},
        {"tracks": {"x": "y"}},
        {"tracks": {"-1": "y"}},
        {"tracks": {}},
        {"sizes": {"float32": 1.5, "records": 1, "archive": 1}},
        {"settings": {}},
        {"settings": {"bits": "2", "budget": None, "scope": "model", "coder": "x"}},
        {"archive": {"file": "../../etc/passwd", "sha256": "a", "bytes": 1}},
        {"archive": []},
    ],
)
def test_a_malformed_receipt(receipt: Receipt, changes: dict[str, Any]) -> None:
    with pytest.raises(receipts.ReceiptError, match="missing or malformed"):
        receipts.load(json.dumps(receipt | changes).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\3\4", b"[]", b'{"receipt": 1, "receipt": 1}', b"[" * 10**6, b'{"receipt": 2}'],
)
def test_what_is_no_receipt(data: bytes) -> None:
    with pytest.raises(receipts.ReceiptError, match="This is no receipt"):
        receipts.load(data)


def test_the_command(
    package: Package, receipt: Receipt, lay_down: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    paper = lay_down(package, receipt).with_name(scripts.RECEIPT)
    archive = paper.with_name(package.file)
    assert main(["receipt", str(paper)]) == 0
    assert capsys.readouterr().out.startswith(f"ok: {archive}, ")
    archive.write_bytes(package.data[:-1])
    assert main(["receipt", str(paper), str(archive), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"]
    assert len(answer["problems"]) == 3
    archive.unlink()
    assert main(["receipt", str(paper)]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_the_script_trains_the_same_bytes(
    package: Package, receipt: Receipt, reproduce: Answer, tmp_path: Path
) -> None:
    """In a process of its own, where the dashboard and pytest are not there: see `test_page`."""
    code, output = reproduce(package, receipt, "-o", "again.zip")
    assert (code, output.splitlines()[-1]) == (0, "the same: every byte is that of the receipt")
    assert (tmp_path / "again.zip").read_bytes() == package.data


@pytest.mark.parametrize(
    ("part", "changes", "expected"),
    [
        ("archive", {"sha256": "0" * 64}, "The archive differs from the receipt's. The versions"),
        ("data", {"sha256": "0" * 64}, "The training data have another SHA-256 than those of the"),
        ("settings", {"seed": 4}, "The record 00000000.base.safetensors is the first that differs"),
    ],
)
def test_the_script_says_what_differs(
    part: str,
    changes: Receipt,
    expected: str,
    package: Package,
    receipt: Receipt,
    reproduce: Answer,
) -> None:
    receipt[part] |= changes
    if part == "settings":
        receipt["versions"]["numpy"] = "1.0"
        expected += f". Here is numpy {np.__version__} instead of 1.0."
    code, output = reproduce(package, receipt)
    assert code == 1
    assert f"NOT THE SAME: {expected}" in output


def test_the_readme_and_the_reader(
    package: Package, receipt: Receipt, lay_down: Paths, run_here: Answer
) -> None:
    """The commands of the readme do what it says, in the folder of the zip."""
    folder = lay_down(package, receipt).parent
    text = (folder / scripts.README).read_text()
    lists, restores = re.findall(r"^    python reader.py (.*?)(?: {4,}.*)?$", text, re.MULTILINE)
    assert run_here(folder / scripts.READER, *shlex.split(lists)) == (0, "0\n2\n4\n6\n")
    assert run_here(folder / scripts.READER, *shlex.split(restores))[0] == 0
    expected, read = load(restore(package, 6).data), load_file(folder / "step6.safetensors")
    assert expected.keys() == read.keys()
    assert all(read[name].equal(expected[name]) for name in read)
    (folder / package.file).unlink()
    assert run_here(folder / scripts.READER, *shlex.split(lists)) == (1, "")


def test_the_script_says_what_to_install(
    package: Package, receipt: Receipt, lay_down: Paths, tmp_path: Path
) -> None:
    """In an empty folder, where nothing but Python is there."""
    path = lay_down(package, receipt)
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-S", path], cwd=tmp_path / "empty", text=True, capture_output=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("The package numpy is missing here. Install the lcviz ")
    assert done.stderr.rstrip().splitlines()[-1] == "    pip install FOLDER-OF-LCVIZ"


def test_scripts_that_people_have_go_on_working(receipt: Receipt) -> None:
    """These are the only names of the project that they use: see the scripts of a release."""
    lines = {line.strip() for line in scripts.reproduce_script(receipt).splitlines()}
    imports = {line for line in lines if line.startswith(("import ", "from "))}
    ours = {line for line in imports if "codec" in line or "demo_models" in line}
    assert ours == {"import codec", "import demo_models"}


@pytest.mark.parametrize(
    ("changes", "optimizer"),
    [
        ({"momentum": 0.9}, "a new optimizer"),
        ({"optimizer": "adam", "optimizer_state": True}, "the saved optimizer's state"),
    ],
)
def test_a_run_that_was_killed_is_made_again_with_its_restarts(
    make_run: MakeRun, reproduce: Answer, changes: dict[str, Any], optimizer: str
) -> None:
    """A training that went on without a break would save other bytes."""

    def steps(run: Run, n: int) -> None:
        for _ in range(n):
            run.step()
            run.wait(60)

    def made_again(restarts: list[int]) -> Package:
        package = pack(run)
        receipt = receipts.of_run(run, package)
        assert receipt["settings"]["resumed_at"] == restarts
        assert str(restarts)[1:-1] in receipt["reproducible"]
        assert f"goes on with {optimizer}" in receipt["reproducible"]
        assert reproduce(package, receipt)[0] == 0
        return package

    run, straight = (make_run(stop_after=8, interval=2, **changes) for _ in range(2))
    steps(run, 1)
    run.kill()
    run.go_on()
    steps(run, 2)
    run.kill()
    made_again([2])  # the second restart may come, and has changed nothing yet
    run.go_on()
    steps(run, 1)
    package = made_again([2, 6])
    straight.play()
    straight.wait(60)
    assert pack(straight).data != package.data


def test_data_of_a_folder_are_asked_for(
    make_run: MakeRun, tmp_path: Path, lay_down: Paths, run_here: Answer
) -> None:
    for name, step in (("ml", 1), ("other", 2)):
        rows = [f"{i % 20},{i % 33},{i * step % 5 + 1}.0,0" for i in range(300)]
        (tmp_path / name).mkdir()
        text = "\n".join(["userId,movieId,rating,timestamp", *rows])
        (tmp_path / name / "ratings.csv").write_text(text + "\n")
    run = make_run("matrix-factorization", data="movielens", folder=str(tmp_path / "ml"))
    run.step()
    run.wait(60)
    package = pack(run)
    receipt = receipts.of_run(run, package)
    assert str(tmp_path) not in json.dumps(receipt)  # where it lay is nobody's business
    path = lay_down(package, receipt)
    assert run_here(path, tmp_path / "ml")[0] == 0
    code, output = run_here(path, tmp_path / "other")
    assert (code, "another SHA-256" in output) == (1, True)
    code, output = run_here(path, tmp_path / "nowhere")
    assert (code, "There is no folder" in output) == (1, True)
