"""The quick set of what examples/killed.py shows: killed, resumed, and the curve it gives."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import codec

STEPS = 200  # well after the kills, which may come late; an epoch is 44 steps
KILLS = (14, 46)
ENDED = ["--steps", str(STEPS)]


@pytest.fixture(scope="module")
def killed() -> Iterator[ModuleType]:
    """examples/killed.py, found as it is where it is run as a script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(codec.__file__).parents[1] / "examples"))
        yield importlib.import_module("killed")


@pytest.fixture(scope="module")
def alone(killed: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that was not killed."""
    return killed.train(tmp_path_factory.mktemp("examples") / "alone", [*ENDED, "--exact"])


def test_exact_goes_on_as_if_nothing_had_been(
    killed: ModuleType, alone: Any, tmp_path: Path
) -> None:
    moments = [(step, 0.0) for step in KILLS]
    exact = killed.train(tmp_path / "exact", [*ENDED, "--exact"], moments)
    assert exact.kills == len(KILLS)
    assert [step for step, _ in alone.told] == list(range(1, STEPS + 1))
    assert set(exact.told) == set(alone.told)  # also of steps told twice
    assert (exact.weights == alone.weights).all()
    assert "Warning" not in (tmp_path / "exact" / "output.txt").read_text()


def test_lossy_goes_on_from_the_newest_step_on_disk(
    killed: ModuleType, alone: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "lossy"
    assert killed.kill(folder, ENDED, KILLS[0], 0.0)
    newest = codec.Chain(folder / "run.lcc").steps[-1]
    assert KILLS[0] - 1 <= newest < STEPS
    before = killed.told(folder / "losses.csv")
    told = list(killed.train(folder, ENDED).told)
    assert told[: len(before)] == before
    assert set(before) <= set(alone.told)  # saving changes no training
    after = dict(told[len(before) :])
    assert list(after) == list(range(newest + 1, STEPS + 1))
    assert all(math.isfinite(loss) for loss in after.values())
    differences = [abs(after[step] - loss) for step, loss in alone.told if step in after]
    assert 0 < max(differences) < 0.25
    assert "Warning" not in (folder / "output.txt").read_text()
