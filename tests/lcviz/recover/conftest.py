"""What the tests of this page share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from lcviz.recover import timelines as of
from lcviz.recover.timelines import Span, Timeline
from lcviz.ui import session


@pytest.fixture
def _nothing_known() -> Iterator[None]:
    """Experiments of one test are nobody else's."""
    yield
    session.all_jobs().close()
    session.all_jobs.clear()


@pytest.fixture
def recovering(visit: Callable[..., Any], _nothing_known: None) -> Callable[..., Any]:
    """The Recover page of a session of its own, opened with these URL parameters."""
    return partial(visit, "recover")


@pytest.fixture(scope="session")
def timelines() -> tuple[Timeline, ...]:
    """Iterations 9, 10 and 11 of 10 ms each, saved in two ways."""
    return _line(of.SYNCHRONOUS), _line(of.ASYNCHRONOUS)


def _line(way: str) -> Timeline:
    """Iterations 9, 10 and 11, of 10 ms each; steps 9 and 10 are saved within 4 ms, in seconds."""
    late = 0.002 if way == of.ASYNCHRONOUS else 0.0
    loop = (
        Span(of.TRAINS, 9, 0.0, 0.010),
        Span(of.STANDS_STILL, 9, 0.010, 0.014 - late),
        Span(of.TRAINS, 10, 0.014, 0.024),
        Span(of.STANDS_STILL, 10, 0.024, 0.028),
        Span(of.TRAINS, 11, 0.060, 0.070),
    )
    saver = tuple(
        Span(what, step, begin + i / 1000, begin + (i + 1) / 1000)
        for step, begin in ((9, 0.010 + late), (10, 0.024 + late))
        for i, what in enumerate((of.ENCODES, of.CHECKS, of.WRITES, of.COMMITS))
    )
    durable = ((-0.01, 8), (0.014 + late, 9), (0.028 + late, 10))
    given = ((-0.02, 8), (0.012, 9), (0.026, 10))
    return Timeline(way, 9, loop, saver, given, durable, 1000, "t")
