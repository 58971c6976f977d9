"""Properties that are computed once."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from codec.lazy import lazy


@dataclass(frozen=True)
class Sum:
    """Adds two numbers; says when it begins, and waits until it may go on."""

    numbers: tuple[int, int]
    begun: threading.Event
    may_end: threading.Event

    @lazy
    def total(self) -> int:
        """The sum."""
        self.begun.set()
        self.may_end.wait(60)
        return sum(self.numbers)


def test_a_process_forked_meanwhile_computes_its_own() -> None:
    begun, may_end, passed = threading.Event(), threading.Event(), threading.Event()
    passed.set()
    slow, other = Sum((1, 2), begun, may_end), Sum((3, 4), passed, passed)
    thread = threading.Thread(target=lambda: slow.total)
    thread.start()
    assert begun.wait(60)
    pid = os.fork()
    if pid == 0:
        threading.Timer(30, os._exit, (1,)).start()  # a child that waits for the lock for ever
        os._exit(0 if other.total == 7 else 2)
    _, status = os.waitpid(pid, 0)
    may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert slow.total == 3


def test_it_is_computed_once_and_documented() -> None:
    passed = threading.Event()
    passed.set()
    numbers = Sum((1, 2), passed, passed)
    assert numbers.total == 3
    passed.clear()
    assert numbers.total == 3
    assert not numbers.begun.is_set()
    assert Sum.total.__doc__ == "The sum."
