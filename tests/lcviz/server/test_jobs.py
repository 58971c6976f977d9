"""The line of experiments: one at a time, shared, kept, stopped when nobody wants them."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import codec
from lcviz.lab.progress import Progress, Report
from lcviz.server import jobs
from lcviz.server.jobs import DONE, FAILED, IDLE, STOPPED, WAITING, WORKING, CrowdedError, Jobs
from tests.lcviz.common import Patch

SECONDS = 300  # for anything awaited


class Gate:
    """Work that a test lets through word by word: part n gives 10 n after two words."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self._inside, self._go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, part: int, progress: Report) -> int:
        for word in (1, 2):
            self._inside.release()
            assert self._go.acquire(timeout=SECONDS)
            progress(word, 2, [f"word {word}"])
        self.done.append(part)
        return 10 * part

    def await_word(self) -> None:
        """Until the work is about to tell."""
        assert self._inside.acquire(timeout=SECONDS)

    def let(self, words: int = 1) -> None:
        """Have so many words told."""
        for _ in range(words):
            self._go.release()


def quick(part: int, progress: Progress) -> int:
    progress(1, 1)
    return part


@pytest.fixture
def line(monkeypatch: Patch) -> Iterator[Jobs[int]]:
    monkeypatch.setattr(jobs.atexit, "register", lambda *_, **__: None)
    made: Jobs[int] = Jobs()
    yield made
    made.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.let(100)  # nothing may hang after a test that failed


def values(line: Jobs[int], experiment: str, parts: int) -> list[int]:
    return [found.value for found in line.look(experiment, parts).finished_parts]


def test_progress_by_part_and_within(line: Jobs[int], gate: Gate) -> None:
    assert line.look("a", 2).status == IDLE
    line.ask("a", 2, gate, "me")
    gate.await_word()
    view = line.look("a", 2, "me")
    assert (view.status, view.finished_parts, view.share, view.watchers) == (WORKING, (), 0, 1)
    gate.let()
    gate.await_word()
    view = line.look("a", 2, "me")
    assert (view.share, view.so_far) == (0.5, ["word 1"])
    gate.let()
    gate.await_word()  # of the second part
    view = line.look("a", 2, "me")
    assert ([found.value for found in view.finished_parts], view.share) == ([0], 0)
    gate.let(2)
    view = line.wait("a", 2, SECONDS)
    assert [found.value for found in view.finished_parts] == [0, 10]
    assert (view.status, view.so_far) == (DONE, None)
    assert abs(time.time() - view.finished_parts[1].at) < SECONDS


def test_what_is_there_is_given_at_once_and_more_of_it_is_added(line: Jobs[int]) -> None:
    line.ask("a", 2, quick, "me")
    first = line.wait("a", 2, SECONDS)

    def never(_part: int, _progress: Progress) -> int:
        raise AssertionError("it is there already")

    line.ask("a", 2, never, "somebody else")
    assert (line.look("a", 2), line.look("a", 1).status) == (first, DONE)
    assert (line.look("a", 3).status, values(line, "a", 3)) == (IDLE, [0, 1])
    more = []
    line.ask("a", 4, lambda part, _tell: more.append(part) or part, "me")  # type: ignore[func-returns-value]
    assert (line.wait("a", 4, SECONDS).status, more) == (DONE, [2, 3])
    assert line.look("b", 2).finished_parts == ()


def test_stopped_within_a_part_finished_parts_stay(line: Jobs[int], gate: Gate) -> None:
    line.ask("a", 3, gate, "me")
    gate.let(3)
    for _ in range(4):
        gate.await_word()  # the second word of the second part is next
    line.leave("me")
    view = line.look("a", 3)
    assert (view.status, view.message) == (STOPPED, "Stopped.")  # before the work knows
    gate.let()
    assert line.wait("a", 3, SECONDS).status == STOPPED
    assert (gate.done, values(line, "a", 3)) == ([0], [0])
    gate.let(100)
    line.ask("a", 3, gate, "me")
    assert (line.wait("a", 3, SECONDS).status, gate.done) == (DONE, [0, 1, 2])


def test_one_at_a_time_and_in_order(line: Jobs[int], gate: Gate) -> None:
    other = Gate()
    line.ask("a", 1, gate, "me")
    line.ask("b", 1, other, "you")
    line.ask("c", 1, quick, "she")
    gate.await_word()
    found = [(view.status, view.ahead) for view in (line.look(name, 1) for name in "abc")]
    assert found == [(WORKING, 0), (WAITING, 1), (WAITING, 2)]
    gate.let(2)
    other.await_word()
    assert line.look("c", 1).ahead == 1
    line.leave("she")  # out of the line at once
    assert line.look("c", 1).status == STOPPED
    other.let(2)
    assert (line.wait("b", 1, SECONDS).status, values(line, "c", 1)) == (DONE, [])


def test_shared_by_two_and_left_by_one(line: Jobs[int], gate: Gate) -> None:
    """Whoever asks for another job leaves the first, which goes on for others."""
    line.ask("a", 1, gate, "me")
    line.ask("a", 1, gate, "you")
    gate.await_word()
    assert line.look("a", 1).watchers == 2
    line.ask("b", 1, quick, "me")
    assert line.look("a", 1).watchers == 1
    line.leave("you")
    assert line.look("a", 1).status == STOPPED
    line.ask("a", 1, gate, "she")  # in time
    assert line.look("a", 1).status == WORKING
    gate.let(2)
    assert (line.wait("b", 1, SECONDS).status, line.look("a", 1).status) == (DONE, DONE)
    assert gate.done == [0]


def test_nobody_watches(line: Jobs[int], gate: Gate, monkeypatch: Patch) -> None:
    now = 1000.0
    clock = SimpleNamespace(**vars(time) | {"monotonic": lambda: now})
    monkeypatch.setattr(jobs, "time", clock)
    pages = {"she"}
    monkeypatch.setattr(line, "_is_open", pages.__contains__)
    line.ask("a", 1, gate, "me")
    line.ask("b", 1, quick, "you")
    line.ask("c", 1, quick, "she")  # and reads another page
    gate.await_word()
    for _ in range(5):
        now += 0.6 * jobs.WATCH_SECONDS
        assert line.look("a", 1, "me").status == WORKING  # a sign of life each time
    assert line.look("b", 1).status == STOPPED  # nobody looked at the one in line
    assert line.look("c", 1).status == WAITING
    pages.clear()
    now += 1.1 * jobs.WATCH_SECONDS
    gate.let(2)
    view = line.wait("a", 1, SECONDS)
    assert (view.status, view.message) == (STOPPED, jobs.UNWATCHED)
    assert line.look("c", 1).status == STOPPED


def test_the_line_is_capped(line: Jobs[int], gate: Gate, monkeypatch: Patch) -> None:
    monkeypatch.setattr(jobs, "MAX_WAITING", 2)
    for i in range(3):
        line.ask(i, 1, gate, f"visitor {i}")
    with pytest.raises(CrowdedError, match="limit is 2"):
        line.ask("more", 1, gate, "visitor 3")
    line.ask(1, 1, gate, "visitor 3")  # sharing takes no room
    line.ask("more", 1, gate, "visitor 2")  # nor does changing one's mind
    assert line.look(2, 1).status == STOPPED
    assert [line.look(x, 1).ahead for x in (1, "more")] == [1, 2]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (codec.SettingsError("nothing fits."), "nothing fits."),
        (OSError("disk full"), "disk full."),
        (OSError(28, "No space left", "/secret/place"), "No space left."),
        (MemoryError(), "memory"),
        (ZeroDivisionError("oh"), "ZeroDivisionError('oh')"),
    ],
)
def test_errors_are_told(error: Exception, message: str, line: Jobs[int], gate: Gate) -> None:
    def fails(part: int, _progress: Progress) -> int:
        if part:
            raise error
        return part

    line.ask("a", 2, fails, "me")
    line.ask("b", 1, quick, "you")
    view = line.wait("a", 2, SECONDS)
    assert view.status == FAILED
    assert message in view.message
    assert "secret" not in view.message
    assert (values(line, "a", 2), line.wait("b", 1, SECONDS).status) == ([0], DONE)
    line.ask("c", 1, gate, "you")
    line.ask("a", 2, quick, "me")  # once more, and the error is forgotten
    line.leave("me")
    assert line.look("a", 2).status == STOPPED
    gate.let(2)
    line.ask("a", 2, quick, "me")
    assert line.wait("a", 2, SECONDS).status == DONE


def test_only_so_many_are_kept(line: Jobs[int], monkeypatch: Patch) -> None:
    monkeypatch.setattr(jobs, "MAX_KEPT", 2)
    for i in range(3):
        line.ask(i, 1, quick, "me")
        assert line.wait(i, 1, SECONDS).status == DONE
    assert [line.look(i, 1).status for i in range(3)] == [IDLE, DONE, DONE]
    line.forget(2)
    line.forget("never asked for")
    assert [line.look(i, 1).status for i in range(3)] == [IDLE, DONE, IDLE]


def test_closing_stops_and_waits(line: Jobs[int]) -> None:
    began, ended = threading.Event(), threading.Event()

    def endless(_part: int, progress: Progress) -> int:
        began.set()
        try:
            while True:
                progress(1, 2)
                time.sleep(0.01)
        finally:
            ended.set()

    line.ask("a", 1, endless, "me")
    assert began.wait(SECONDS)
    line.close()
    assert ended.is_set()
    assert line.look("a", 1).status == STOPPED
