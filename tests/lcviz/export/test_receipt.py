"""Receipts: what they say, what a check of them finds, and what is downloaded with them."""

import hashlib
import io
import json
import re
import shlex
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load, load_file

import demo_models
from lcviz.cli.tools import main
from lcviz.export import bundle
from lcviz.export import receipt as receipts
from lcviz.export.archive import Package, pack, restore
from lcviz.export.receipt import Receipt
from lcviz.run.run import Run
from tests.lcviz.common import Answer, Calls, MakePath, MakeRun, stepped

SETTINGS = {"stop_after": 6, "interval": 2, "optimizer": "adam", "seed": 3}


@pytest.fixture(scope="session")
def package(finished_runs: MakeRun) -> Package:
    return pack(finished_runs(**SETTINGS))


@pytest.fixture
def receipt(finished_runs: MakeRun, package: Package) -> Receipt:
    return receipts.of_run(finished_runs(**SETTINGS), package)


@pytest.fixture
def folder(package: Package, receipt: Receipt, lay_down: MakePath) -> Path:
    """Of all that is downloaded."""
    return lay_down(package, receipt)


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
    assert receipts.load(receipts.dumped(receipt)) == receipt
    assert receipts.problems(receipt, data, done := Calls()) == []
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


def test_the_digest_of_data_is_of_every_example() -> None:
    dataset = demo_models.make_task("logistic-regression", "digits").dataset
    found = hashlib.sha256()
    for tensor in (*dataset.train, *dataset.held_out):
        found.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + tensor.numpy().tobytes())
    assert dataset.digest() == found.hexdigest()
    labels = dataset.held_out[1].clone()
    labels[-1] += 1
    assert replace(dataset, held_out=(dataset.held_out[0], labels)).digest() != dataset.digest()


def test_another_archive(package: Package, receipt: Receipt, finished_runs: MakeRun) -> None:
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
        (("settings", "bits", 8), "says 8 bits, buckets over the whole model, run-length; 3 of 3 "),
        (("settings", "scope", "tensor"), "buckets over each tensor, "),
        (("settings", "coder", "huffman"), "00000002.delta.safetensors first: 2 bits, "),
        (("sizes", "float32", 10**9), "float32 take 1,000,000,000 bytes, and it is 125,600."),
        (("sizes", "records", 1), "its records take 1 bytes"),
        (("sizes", "archive", 1), "the archive has 1 bytes"),
        (("records", 1, {"bytes": 1}), "00000002.delta.safetensors as bytes 1, and it is "),
        (("records", 1, {"kind": "base"}), "as kind base, and it is delta."),
        (("records", 1, {"step": 3}), "as step 3, and it is 2."),
    ],
)
def test_claims(package: Package, receipt: Receipt, change: Any, expected: str) -> None:
    """What it says of sizes and settings is compared."""
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
    targets = {"bits": 2, "budget": None, "tolerance": None, "distance": None}
    how = {"quantizer": "exponent", "scope": "model", "coder": "runlength"}
    assert receipt["settings"] == targets | how
    assert receipts.problems(receipt, package.data) == []
    receipt["settings"]["bits"] = None
    (problem,) = receipts.problems(receipt, package.data)
    assert "says all buckets over " in problem
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


def test_the_command(package: Package, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paper = folder / bundle.RECEIPT
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


def test_readme_and_reader(package: Package, folder: Path, run_here: Answer) -> None:
    """The commands of the readme do what it says, in the folder of the zip."""
    text = (folder / bundle.README).read_text()
    lists, restores = re.findall(r"^    python reader.py (.*?)(?: {4,}.*)?$", text, re.MULTILINE)
    assert run_here(folder / bundle.READER, *shlex.split(lists)) == (0, "0\n2\n4\n6\n")
    assert run_here(folder / bundle.READER, *shlex.split(restores))[0] == 0
    expected, read = load(restore(package, 6).data), load_file(folder / "step6.safetensors")
    assert expected.keys() == read.keys()
    assert all(read[name].equal(expected[name]) for name in read)
    (folder / package.file).unlink()
    assert run_here(folder / bundle.READER, *shlex.split(lists)) == (1, "")


def test_restarts(make_run: MakeRun) -> None:
    """One from the last step may come: it has changed nothing yet."""

    def told(run: Run) -> tuple[list[int], bool]:
        receipt = receipts.of_run(run, pack(run))
        restarted = receipts.describe(receipt)["Training"].partition("; restarted from")
        return receipt["settings"]["resumed_at"], restarted[2] == " step 2 and 6"

    run = make_run(stop_after=8, interval=2)
    stepped(run, 1)
    run.kill()
    run.go_on()
    stepped(run, 2)
    run.kill()
    run.go_on()
    assert told(run) == ([2], False)
    stepped(run, 1)
    assert told(run) == ([2, 6], True)


def test_folder_data(make_run: MakeRun, tmp_path: Path) -> None:
    """Where it lay is nobody's business."""
    rows = [f"{i % 20},{i % 33},{i % 5 + 1}.0,0\n" for i in range(300)]
    (tmp_path / "ratings.csv").write_text("".join(["userId,movieId,rating,timestamp\n", *rows]))
    run = make_run("matrix-factorization", data="movielens", folder=str(tmp_path))
    stepped(run)
    assert str(tmp_path) not in json.dumps(receipts.of_run(run, pack(run)))
