"""`python -m benchmarks.experiments`, as a user runs them."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from benchmarks.experiments.__main__ import main
from benchmarks.experiments.failures import Recovery, comparison
from benchmarks.experiments.tuning import Tune
from codec import Coding
from codec.inspect import DEFAULT_DISTANCE
from lcviz.lab.series import OwnSeries

Capsys = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("forks")
MF = ("--models", "matrix-factorization")
QUICK: dict[str, tuple[str, ...]] = {
    "tune": (
        *MF,
        *("--iterations", "40", "--check", "1", "--bits", "2", "--budgets", ".1"),
        *("--distances", ".3", "--intervals", "1", "--scopes", "model", "--coders", "runlength"),
    ),
    "breakdown": (*MF, "--iterations", "3", "--bits", "all,2"),
    "removed-bucket": (*MF, "--iterations", "2"),
    "overhead": (*MF, "--seeds", "1", "--iterations", "5"),
    "repeated": (*MF, "--iterations", "9", "--failures", "2", "--seeds", "1"),
    "frontier": (
        *MF,
        *("--saves", "6", "--cap", "3", "--seeds", "1", "--shares", ".05", "--bits", "2"),
        *("--optimizer", "adam", "--moments", "default"),
    ),
    "recovery": (*MF, "--fail-at", "3", "--cap", "2", "--seeds", "2", "--shares", ".05"),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LCVIZ_DATA", raising=False)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def asked(capsys: Capsys, name: str, *more: str) -> str:
    assert main([name, *QUICK[name], *more]) == 0
    return capsys.readouterr().out


def exit_code(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as exc:  # argparse's own
        return int(exc.code or 0)


def without_seconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in rows]


def test_what_is_below_a_table_explains_its_columns(capsys: Capsys) -> None:
    for bits, kept in (("3", "those of x = 3."), ("all", "every bucket.")):
        assert kept in asked(capsys, "removed-bucket", "--bits", bits)


@pytest.mark.parametrize("name", QUICK)
def test_tables_and_numbers_again(name: str, capsys: Capsys) -> None:
    """One trial shown in every way, and the same seeds give the same numbers."""
    text = asked(capsys, name)
    assert text.count("\n| ") > 2
    assert name != "tune" or "of 1 fresh seed that failed: " in text
    assert "Matrix factorization on Synthetic ratings; seed" in text
    assert f"torch {torch.__version__}" in text
    assert "± inf" not in text  # of a single seed
    resumed = asked(capsys, name, "--csv", "--resume")
    rows = list(csv.DictReader(io.StringIO(resumed)))
    lines = Path(f"lab/{name}.jsonl").read_text().splitlines()[1:]
    assert len(rows) == sum(len(json.loads(line)["rows"]) for line in lines)

    one = json.loads(asked(capsys, name, "--json", "--resume"))
    assert len(one["rows"]) == len(rows)
    assert one["asked"]["experiment"] == name
    assert one["on"]["versions"]["torch"]
    if name == "breakdown":
        other, third = (
            json.loads(asked(capsys, name, "--json", "--keep", f"seed{seed}.jsonl", "--seed", seed))
            for seed in "07"
        )
        assert without_seconds(one["rows"]) == without_seconds(other["rows"])
        assert without_seconds(one["rows"]) != without_seconds(third["rows"])


def test_an_interrupt_loses_no_trial(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []

    def interrupted(_self: Any, _options: Any, trial: Any, _tell: Any) -> Any:
        ran.append(trial)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return [{"seed": trial[-1]}]

    monkeypatch.setattr(Recovery, "run", interrupted)
    assert main(["recovery", *QUICK["recovery"]]) == 130
    assert "go on with --resume" in capsys.readouterr().err
    again = json.loads(asked(capsys, "recovery", "--json", "--resume"))
    assert again["rows"] == [{"seed": 0}, {"seed": 1}]
    assert ran == [["matrix-factorization", 0], *[["matrix-factorization", 1]] * 2]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("breakdown --models lenet6", 2, "lenet6"),
        ("breakdown --bits 9", 2, "1 to 8, or all"),
        ("recovery --shares 5", 2, "got '5'"),
        ("recovery --shares=", 2, "got ''"),
        ("recovery --shares nan", 2, "got 'nan'"),
        ("repeated MF --share -1", 2, "got '-1'"),
        ("recovery MF --fail-at 0", 2, "1 or more"),
        ("recovery MF --fail-at 3 --interval 4", 2, "interval 4"),
        ("recovery MF --seed -1 --seeds 1", 2, "seed is -1"),
        ("repeated MF --failures 9 --iterations 9", 2, "9 failures"),
        ("breakdown --own nowhere", 1, "nowhere: not found"),
        ("breakdown --own .", 2, "found none"),
        ("breakdown --models lenet5 --data mnist", 1, "LCVIZ_DATA"),
        ("breakdown --models lenet5 --folder nowhere", 1, "nowhere"),
        ("breakdown MF --iterations 2 --interval 5", 2, "interval of 5"),
        ("breakdown MF --seeds 0", 2, "1 to 1,000; got '0'"),
        ("breakdown MF --data mnist", 2, "cannot be trained on 'mnist'"),
        ("breakdown MF --keep .", 1, "not a file"),
        ("tune --own . --policy w", 2, "PATTERN=MODE"),
        ("tune MF --target size=5", 2, "got 'size=5'"),
        ("tune MF --target size=inf", 2, "got 'size=inf'"),
        ("tune MF --iterations 20 --intervals 10", 2, "80 or more are needed"),
        ("tune MF --intervals 1,0", 2, "1 or more"),
        ("tune MF --check -1", 2, "0 or more; got '-1'"),
        ("tune MF --coders huffman,zip", 2, "got 'zip'"),
        ("", 2, "EXPERIMENT"),
    ],
)
def test_mistakes_are_told(arguments: str, code: int, told: str, capsys: Capsys) -> None:
    """With --json as an object, too."""
    found = exit_code([*arguments.replace("MF", " ".join(MF)).split(), "--json"])
    captured = capsys.readouterr()
    assert found == code, captured.err
    assert told in captured.err
    assert "Traceback" not in captured.err
    error = json.loads(captured.out)["error"]
    assert error["exit_code"] == code
    assert error["message"] in captured.err


def test_other_data_are_something_else(capsys: Capsys) -> None:
    """Image models train on MNIST once there is a folder."""
    asked(capsys, "breakdown")
    assert main(["breakdown", *QUICK["breakdown"], "--folder", "images", "--resume"]) == 1
    assert "another data" in capsys.readouterr().err
    assert main(["breakdown", *QUICK["breakdown"], "--scope", "tensor", "--resume"]) == 1
    assert "another scope" in capsys.readouterr().err


def test_a_chain_is_judged_with_caution(capsys: Capsys) -> None:
    """What it left out is not in it. And its default target is one that it can have."""
    with codec.Checkpointer("run.lcc") as checkpoints:
        for step in range(6):
            w = torch.arange(900, dtype=torch.float32) * step
            checkpoints.save(step, {"w": w})
            torch.save({"w": w}, f"{step}.pt")
    few = ["--bits", "2", "--budgets", ".5", "--intervals", "1", "--coders", "huffman"]
    assert main(["tune", "--own", "run.lcc", *few]) == 0
    text = capsys.readouterr().out
    assert "out are unknown" in text
    assert f"the best with distance at most {DEFAULT_DISTANCE:g}." in text
    few[-1] = Coding.safe().coder
    assert main(["tune", "--own", "run.lcc", *few]) == 0
    lines = capsys.readouterr().out.splitlines()
    (default,) = (ln for ln in lines if ln.startswith("| ") and " default " in ln)
    assert Coding.safe().describe() in default
    assert "rework, iterations" not in text
    assert main(["tune", "--own", *(f"{step}.pt" for step in range(6)), *few]) == 0
    text = capsys.readouterr().out
    assert "out are unknown" not in text
    assert "0.pt and 5 more" in text
    assert main(["tune", "--own", "run.lcc", *few, "--policy", "w=skip"]) == 2
    assert "none of its" in capsys.readouterr().err


def test_what_a_comparison_says() -> None:
    """Means over models of means over seeds, and how many times the least they are."""
    rows = [
        {"budget": 0.05, "name": name, "model": model, "cap": 60}
        | {"rework": rework, "rework_raw": 2 * rework}
        for name, reworks in (("LC run-length", (1, 3, 10)), ("SCAR", (5, 7, 50)))
        for model, rework in zip(("a", "a", "b"), reworks)
    ]
    text = comparison([*rows, rows[0] | {"budget": None, "name": "full"}])
    assert "At 5%, on the trend: LC run-length 6.00; SCAR 28.00 (4.7 ×)." in text
    assert "At 5%, without smoothing: LC run-length 12.00; SCAR ≥ 56.00 (≥ 4.7 ×)." in text
    assert "full" not in text
    capped = [row | {"cap": 10, "budget": 0.015} for row in rows]
    text = comparison(capped)
    assert "At 1.5%, on the trend: LC run-length ≥ 6.00; SCAR ≥ 28.00." in text


def test_json_is_that_of_others(capsys: Capsys) -> None:
    """Which has no NaN: the loss of checkpoints that come without a training, say."""
    Path("own").mkdir()
    for i in range(3):
        torch.save({"w": torch.arange(20.0) * i}, f"own/{i}.pt")

    def refused(word: str) -> None:
        raise AssertionError(word)

    assert main(["removed-bucket", "--own", "own", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=refused)["rows"]
    assert rows[0]["loss"] is None
    assert rows[0]["distance"] > 0


def test_what_is_said_twice_counts_once(capsys: Capsys) -> None:
    """Two rows of the same seed would pass for two seeds that agree."""
    twice = ("--models", f"{MF[1]},{MF[1]}", "--shares", ".05,0.05", "--fail-at", "3", "--cap", "2")
    assert main(["recovery", *twice, "--seeds", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert "race" not in rows[0]  # curves are not for the command line
    names = [(row["name"], row["budget"]) for row in rows]
    assert len(names) == len(set(names)) == 7


def test_checks_go_on_with_the_same_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the end, and never back; with long intervals something is saved before a failure."""
    told: list[tuple[int, int]] = []
    run = Tune.run

    def telling(self: Any, options: Any, trial: Any, _tell: Any) -> Any:
        return run(self, options, trial, lambda done, total: told.append((done, total)))

    monkeypatch.setattr(Tune, "run", telling)
    few = ("--iterations", "40", "--bits", "8", "--budgets", ".1", "--coders", "runlength")
    few += ("--distances", ".3", "--scopes", "model", "--quantizers", "uniform")
    asked = ("--intervals", "10", "--target", "distance=9", "--check", "2")
    assert main(["tune", *MF, *few, *asked]) == 0
    done = [n for n, _ in told]
    assert (done, {total for _, total in told}) == (sorted(done), {done[-1]})


def states(folder: Path, names: Sequence[str]) -> None:
    """Checkpoints of one series that moves, in the order of the names."""
    rng, w = np.random.default_rng(0), np.zeros(900, np.float32)
    folder.mkdir()
    for name in names:
        w = w + rng.normal(size=900).astype(np.float32)
        torch.save({"w": torch.from_numpy(w)}, folder / name)


@pytest.mark.parametrize(("target", "interval", "n"), [("distance=3", 1, 3), ("size=.9", 5, 15)])
def test_few_checkpoints_of_one_s_own_will_do(
    target: str, interval: int, n: int, capsys: Capsys
) -> None:
    """No loss is known, so none is looked for after a failure: three intervals, and all numbers
    are finite; one checkpoint fewer is refused, with the number that would do."""
    states(Path("own"), [f"{i}.pt" for i in range(n)])
    few = ["--bits", "all", "--budgets", ".5", "--coders", "huffman", "--scopes", "model"]
    asked = ["tune", "--own", "own", "--target", target, "--intervals", str(interval), *few]
    assert main([*asked, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert any(row["recommended"] for row in rows)
    assert all(row["distance_bound"] is not None for row in rows)
    assert all(row["share_bound"] is not None for row in rows)
    Path(f"own/{n - 1}.pt").unlink()
    assert main([*asked, "--keep", "other.jsonl"]) == 2
    assert f" {n} or more" in capsys.readouterr().err


def test_a_crash_of_checkpoints_of_one_s_own(capsys: Capsys) -> None:
    """In distance; with a loss of one's own also in steps."""
    states(Path("own"), [f"{i}.pt" for i in range(4)])
    asked = ["recovery", "--own", "own", "--shares", ".1"]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert "| LC run-length         | 10% " in text
    assert "restored at step 3" in text
    assert "loss" not in text
    code = "def good(state):\n    return 9 - abs(state['w']).mean()\n"
    Path("losses.py").write_text(code)
    assert main([*asked, "--loss", "losses.py:good", "--keep", "other.jsonl"]) == 0
    text = capsys.readouterr().out
    assert "| steps lost |" in text
    assert "the loss of losses.py:good at" in text
    for wrong, told in (
        (["--own", "own", "--loss", "losses.py:bad"], "has no such function"),
        (["--own", "own", "--loss", "nowhere.py:good"], "file not found"),
        (["--own", "own", "--loss", "good"], "file not found"),
        (["--loss", "losses.py:good"], "name them with --own"),
    ):
        assert main(["recovery", *wrong]) == 2
        assert told in capsys.readouterr().err


def test_names_that_do_not_tell_the_steps(capsys: Capsys) -> None:
    """They are taken in an order that people expect, and it is said."""
    states(Path("own"), ["c9.pt", "c10.pt", "d.pt"])
    assert main(["breakdown", "--own", "own", "--bits", "all"]) == 0
    text = capsys.readouterr().out
    assert "counted from 0" in text
    assert "d.pt" in text
    second = list(OwnSeries([Path("own")]))[1]
    assert np.array_equal(second.arrays["w"], torch.load("own/c10.pt")["w"])
    Path("own/d.pt").unlink()
    assert main(["breakdown", "--own", "own", "--bits", "all", "--keep", "other.jsonl"]) == 0
    assert "counted" not in capsys.readouterr().out
