"""`python -m lcviz resume`: what stays of a training's pace with less than exact moments."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from codec import Coding
from lcviz.cli.lab import main
from lcviz.lab.experiments.results_file import Row
from lcviz.lab.experiments.resume import EXACTLY, WAYS, Resume, _fall
from lcviz.lab.recovery.methods import NONE, Method, lc
from lcviz.lab.recovery.recovery import Protocol, fail_and_recover
from lcviz.lab.workload import workload


def asked(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    Resume().arguments(parser)
    small = "--models logistic-regression --at 9 --horizon 4 --interval 1,2 --seeds 2 --saves 4"
    options = parser.parse_args([*small.split(), *arguments])
    options.own = None
    return options


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    options = asked()
    trial = Resume().trials(options)[0]
    return Resume().run(options, trial, lambda _done, _total: None)


def test_trials() -> None:
    trials = Resume().trials(asked("--beta2", ".9"))
    assert trials == [["logistic-regression", seed, 0.9, 9, k] for seed in (0, 1) for k in (1, 2)]


def test_ways_compared(rows: list[Row]) -> None:
    by = {row["way"]: row for row in rows}
    assert (list(by), by[EXACTLY]["extra"]) == (list(WAYS), 0)
    assert by["whole state, exact"]["peak"] == 0
    steps = ("in half the steps", "in steps", "in double steps")
    sizes = [by[f"moments {how}"]["share"] for how in steps]
    sizes = [by["whole state, exact"]["share"], by[EXACTLY]["share"], *sizes]
    assert sizes == sorted(sizes, reverse=True)
    assert 1 < sizes[0] < 1.1
    assert by["new optimizer"]["share"] < sizes[-1]
    assert by["new optimizer"]["extra"] > abs(by["moments in steps"]["extra"])


def test_ways_hold_the_same_weights() -> None:
    of = replace(workload("logistic-regression"), optimizer="adamw", lr=0.001)
    stop = Protocol(fail_at=9, interval=2, cap=3, smooth=1, first=3, whole=True)
    ways = [way for way in WAYS.values() if way.kind == "lc"]
    assert len({o.loss_restored for o in fail_and_recover(of, 0, ways, stop)}) == 1


def test_fall_of_a_line() -> None:
    assert _fall([3.0, 2.5, 2.0, 1.5]) == pytest.approx(0.5)
    assert _fall([1.0, 2.0]) == pytest.approx(-1)


def test_a_table_has_a_line_a_way(rows: list[Row]) -> None:
    rows = [row | {"fall": 0.0005} for row in rows]
    shifted = [row | {"seed": 1, "extra": row["extra"] + 0.002} for row in rows]
    text = Resume().tables(asked(), [*rows, *shifted])
    (exact,) = (line for line in text.splitlines() if line.startswith(f"| {EXACTLY}"))
    assert " +1.00 ± 1.00 " in exact
    assert exact.endswith("| +2.0               |")
    assert "Logistic regression, saved every 1" in text
    assert "β2 0.95, stopped at 9" in text


def test_races_go_on_to_the_cap() -> None:
    of = replace(workload("logistic-regression"), optimizer="adamw", lr=0.001)
    stop = Protocol(fail_at=6, cap=5, smooth=1, whole=True)
    full, bare = fail_and_recover(of, 0, [Method("full"), lc(Coding(), NONE)], stop)
    assert (full.race.restored, len(bare.race.restored)) == (full.race.undisturbed, 6)
    few = replace(stop, whole=False)
    (short,) = fail_and_recover(of, 0, [Method("full")], few)
    assert (short.rework, len(short.race.restored)) < (full.rework + 1, 6)


def test_checkpoints_begin_where_the_protocol_says() -> None:
    of = workload("matrix-factorization")
    late = Protocol(fail_at=12, interval=3, cap=2, smooth=1, first=4)
    (full,) = fail_and_recover(of, 0, [Method("full")], late)
    (same,) = fail_and_recover(of, 0, [Method("full")], replace(late, fail_at=10))
    assert 0 < full.distance < 1  # the newest checkpoint is that of iteration 10
    assert same.distance == 0


@pytest.mark.parametrize("wrong", ["--beta2=1", "--beta2=x", "--at=1"])
def test_wrong_use(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["resume", wrong])
    assert wrong.partition("=")[2] in capsys.readouterr().err
