"""What visitors try on whole runs."""

import threading
from collections.abc import Iterator

import pytest

from codec import Coding
from lcviz.run.whole_run import Replay, Trial
from lcviz.server import replays
from lcviz.server.replays import Replays
from tests.lcviz.common import SECONDS, MakeRun, Patch, stepped


@pytest.fixture
def line() -> Iterator[Replays]:
    found = Replays()
    yield found
    found.close()


def test_it_goes_on_with_the_run(line: Replays, make_run: MakeRun) -> None:
    """More checkpoints of the run are saved in addition, and none twice."""
    run = make_run(stop_after=6)
    trial = Trial(Coding(1))
    for n in (1, 2, 3):
        stepped(run)
        found = line.look(run, trial, n, "me", SECONDS)
        assert [step.step for step in found.steps] == list(range(1, n + 1))
        assert found.is_over
        assert (set(found.losses), found.at(n)) == (set(range(1, n + 1)), found.steps[-1])
    again = line.look(run, trial, 3, "you", 0)
    assert (again.replay, again.steps) == (found.replay, found.steps)


def test_only_some_are_measured(line: Replays, finished_runs: MakeRun, monkeypatch: Patch) -> None:
    monkeypatch.setattr(replays, "MEASURED", 2)
    found = line.look(finished_runs(), Trial(Coding(1)), 2, "me", SECONDS)
    assert list(found.losses) == [2, 3, 6]


def test_the_newest_try_wins(line: Replays, finished_runs: MakeRun, monkeypatch: Patch) -> None:
    """What nobody wants any more ends after the step under way."""
    save, go = Replay.save, threading.Event()
    saved: list[Trial] = []

    def slow(replay: Replay, step: int, *, measured: bool) -> object:
        saved.append(replay.trial)
        if replay.trial == first:
            assert go.wait(SECONDS)
        return save(replay, step, measured=measured)

    first, second = Trial(Coding(1)), Trial(Coding(3))
    monkeypatch.setattr(Replay, "save", slow)
    run = finished_runs()
    begun = line.look(run, first, 6, "me", 0)
    assert (begun.steps, begun.is_over, begun.n) == ((), False, 6)
    line.look(run, second, 6, "me", 0)
    go.set()
    found = line.look(run, second, 6, "me", SECONDS)
    assert (found.is_over, len(found.steps)) == (True, 6)
    assert saved.count(first) <= 1


def test_a_setting_that_cannot_save_says_why(line: Replays, finished_runs: MakeRun) -> None:
    found = line.look(finished_runs(), Trial(Coding(budget=0.001)), 6, "me", SECONDS)
    assert found.is_over
    assert "too small" in found.problem


def test_few_are_kept(line: Replays, finished_runs: MakeRun, monkeypatch: Patch) -> None:
    """One that made room is done again when somebody asks for it."""
    monkeypatch.setattr(replays, "KEPT", 2)
    run = finished_runs()
    codings = [Trial(Coding(bits)) for bits in (1, 2, 3)]
    first = [line.look(run, trial, 6, "me", SECONDS) for trial in codings]
    again = line.look(run, codings[0], 6, "me", SECONDS)
    assert again.replay is not first[0].replay
    assert again.steps == first[0].steps
    assert again.replay.delta(6) is not None
