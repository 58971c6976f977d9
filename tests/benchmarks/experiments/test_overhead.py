"""What is counted when a training saves; no test depends on how long it takes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.experiments import overhead
from benchmarks.experiments.overhead import MODES, WARM_UP, round_of, train
from lcviz.lab.workload import workload
from tests.lcviz.common import Calls


@pytest.mark.usefixtures("forks")
def test_every_mode_once(tmp_path: Path) -> None:
    calls, how = Calls(), {"bits": 3, "base_every": 3}
    costs = round_of(workload("matrix-factorization"), 0, 6, how, calls, tmp_path)
    assert tuple(cost.mode for cost in costs) == MODES
    assert calls == [(n, 4) for n in range(1, 5)]
    plain, loop, beside, skip = costs
    assert (plain.above, plain.call, plain.saved, dict(plain.stages)) == (0, 0, 0, {})
    for cost in (loop, beside, skip):
        assert cost.above == pytest.approx(cost.iteration / plain.iteration - 1)
        assert cost.call > 0
    for cost in (loop, beside):
        assert cost.saved == 1
        assert tuple(cost.stages) == ("encode", "check", "write", "advance")
    assert loop.nbytes == beside.nbytes > 0
    assert list(tmp_path.iterdir()) == []


def test_all_that_is_waited_for_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still but for what is done."""
    now = 0.0

    def lasts(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Saved:
        nbytes = property(lambda _: lasts(10))

    iterate = lambda step: lasts(3 if step > WARM_UP else 1000)  # noqa: E731
    training = SimpleNamespace(iterate=iterate, state=lambda: {"model": 1})
    of: Any = SimpleNamespace(training=lambda _seed: training)
    save: Any = lambda *_: (lasts(0.5), Saved())[1]  # noqa: E731
    monkeypatch.setattr(overhead.time, "perf_counter", lambda: now)
    assert train(of, 0, 4, save) == ((4 * 3.5 + 10) / 4, 0.5)
