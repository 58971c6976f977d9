"""`python -m benchmarks.experiments frontier`: what is saved, and what a restart from it costs."""

import argparse

import pytest

from benchmarks.experiments.frontier import Frontier
from benchmarks.experiments.results_file import Row

SMALL = "--models matrix-factorization --saves 8 --cap 6 --seeds 1 --shares .05 --bits 2"


def measured(*arguments: str) -> tuple[dict[str, Row], str]:
    """The rows of a trial by what is saved, and the tables."""
    parser = argparse.ArgumentParser()
    Frontier().arguments(parser)
    options = parser.parse_args([*SMALL.split(), *arguments])
    options.own = None
    (trial,) = Frontier().trials(options)
    rows = Frontier().run(options, trial, lambda _done, _total: None)
    by = {"bits" if row["bits"] else row["kind"]: row for row in rows}
    return by, Frontier().tables(options, rows)


@pytest.mark.exhaustive
def test_moments_beside_the_weights() -> None:
    """Without them even exact weights have rework; with them they have none, and cost bytes."""
    model = "--models", "logistic-regression", "--saves", "20"
    without, text = measured(*model, "--optimizer", "adam")
    assert list(without) == ["bits", "exponent", "uniform", "full", "scar", "topn"]
    assert without["full"]["distance"] == 0 < without["full"]["rework"]
    assert without["uniform"]["whole"] < 0.051
    assert "with moments" not in text
    saved, text = measured(*model, "--optimizer", "adam", "--moments", "default")
    assert list(saved) == ["bits", "exponent", "uniform", "full"]
    assert saved["full"]["rework"] == 0
    assert saved["full"]["whole"] > 3
    assert "with moments" in text
    for kind in ("bits", "exponent", "uniform"):
        assert saved[kind]["rework"] < without[kind]["rework"]
    saved, exact = (
        measured("--optimizer", "adam", "--moments", m)[0] for m in ("default", "exact")
    )
    for kind in ("bits", "exponent", "uniform"):
        assert saved[kind]["share"] == exact[kind]["share"]  # of weights alone
        assert saved[kind]["share"] + 0.02 < saved[kind]["whole"] < 0.5 < exact[kind]["whole"]


def test_a_momentum_of_sgd_has_no_bases_after_the_first() -> None:
    """SGD has it from its first step on; the chain begins there."""
    found, _ = measured("--optimizer", "momentum", "--moments", "default")
    assert found["full"]["rework"] == 0
    assert found["uniform"]["share"] + 0.01 < found["uniform"]["whole"] < 0.15


@pytest.mark.parametrize("batch", [2, 128])
def test_batches(batch: int) -> None:
    """Small ones change few values, which a baseline then stores exactly."""
    found, _ = measured("--batch", f"{batch}")
    assert (found["topn"]["distance"] == 0) == (batch == 2)
