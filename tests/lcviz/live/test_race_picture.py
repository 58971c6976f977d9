"""The race on Live: lines, marks, the table, and a verdict that is honest whoever wins."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lcviz.lab.recovery.kill import OnDisk
from lcviz.lab.recovery.methods import Method
from lcviz.lab.recovery.recovery import Outcome, Race
from lcviz.ui.race import race_picture
from tests.worded import worded

METHODS = {
    "full": Method("full"),
    "SCAR": Method("scar", 0.05),
    "TOPN": Method("topn", 0.05),
    "LC": OnDisk("lc", chain=Path("run.lcc"), newest=9),
}
CALM = (2.0, 1.9, 1.8, 1.7, 1.6)
TREND = (2.0, 1.8, 1.6, 1.4, 1.2)
BEFORE, TREND_BEFORE = (2.6, 2.3, 2.0), (2.5, 2.2, 2.0)
CAP = 4


def outcome(name: str, rework: float, above: Sequence[float] = (0.1,) * 5) -> Outcome:
    """above: what the restored training is above the undisturbed one, by iteration."""
    restored = tuple(c + a for c, a in zip(CALM, above))
    raw = next((r for r, loss in enumerate(restored) if loss <= CALM[0]), CAP)
    nbytes = 24_000.0 if name == "full" else 1200.0
    race = Race(CALM, TREND, restored, BEFORE, TREND_BEFORE)
    losses, share = (CALM[0], restored[0], 0.1), nbytes / 24_000
    capped = rework == CAP
    return Outcome(
        METHODS[name], 0, rework, capped, raw, *losses, nbytes, share, 0.002, 0.001, race
    )


RACE = (
    outcome("full", 0.0, (0.0,)),
    outcome("SCAR", 4.0, (3.0,) * 5),
    outcome("TOPN", 1.4, (0.3, 0.25, 0.15)),
    outcome("LC", 0.7, (0.1, 0.05)),
)


def amounts(**rework: float) -> list[Outcome]:
    return [outcome(name, rework.get(name, 0.0)) for name in METHODS]


def race(outcomes: Sequence[Outcome], **more: Any) -> dict[str, Any]:
    return worded(race_picture(outcomes, 83, same_bytes=True, **more).data)


def test_a_race_under_way() -> None:
    """The last method still runs: its line has no end, and nobody has won."""
    data = race(RACE[:3], over=False)
    drawn = {line["name"]: line for line in data["lines"]}
    assert list(drawn) == ["before", "no crash", "full", "SCAR", "TOPN"]
    assert (data["marks"][0]["text"], data["range"]) == ("crash at 83", [-2, 4])
    assert (drawn["TOPN"]["label"], drawn["TOPN"]["ends"]) == ("TOPN", False)
    assert (drawn["SCAR"]["label"], drawn["SCAR"]["ends"]) == ("SCAR > 4", True)
    assert "wins" not in data["text"]
    assert "play" not in data


def test_an_estimate_that_differs_is_explained() -> None:
    explained = " The estimate was about 0.9: it reads the loss curve, the race trains again."
    assert race(RACE, estimate=0.9)["text"].endswith(explained)
    assert "estimate" not in race(RACE, estimate=0.7)["text"]
    assert "estimate" not in race(RACE[:3], over=False, estimate=0.9)["text"]


@pytest.mark.parametrize(
    ("found", "winners", "facts"),
    [
        (RACE, "LC wins", ["TOPN after 1.4, 2 × as many", "SCAR after more than 4"]),
        (amounts(full=1, SCAR=2, TOPN=0.5, LC=1), "TOPN wins", ["is back after 1 iteration."]),
        (
            amounts(full=4, SCAR=4, TOPN=4, LC=4),
            "nobody wins",
            ["was back within 4 iterations", "not back within 4 iterations."],
        ),
        (amounts(SCAR=3, TOPN=0.01, LC=0), "LC and TOPN are level", ["SCAR after 3."]),
        (amounts(SCAR=1.0004, TOPN=1.2, LC=1.2), "SCAR wins", ["back after 1 iteration;"]),
        (amounts(SCAR=2, TOPN=2, LC=2.02), "SCAR, TOPN and LC are level", ["20 × the bytes"]),
        (
            [replace(o, nbytes=24_000.0) for o in amounts(SCAR=2, TOPN=3, LC=0)],
            "LC wins",
            ["Full, with 24.0 kB each"],
        ),
    ],
)
def test_verdicts(found: Sequence[Outcome], winners: str, facts: list[str]) -> None:
    text = race(found)["text"].replace("[[", "").replace("]]", "")
    assert f" per checkpoint on average {winners}" in text
    for fact in facts:
        assert fact in text
