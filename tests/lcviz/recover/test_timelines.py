"""What is measured while a training saves; the answers are checked against plain recounting."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from codec import Coding
from lcviz.lab.workload import workload
from lcviz.recover import timelines
from lcviz.recover.timelines import (
    ASYNCHRONOUS,
    COMMITS,
    ENCODES,
    SHOWN,
    STANDS_STILL,
    SYNCHRONOUS,
    TRAINS,
    WAYS,
    WRITES,
    Drill,
    Span,
    Timeline,
)
from tests.lcviz.common import Calls

Patch = pytest.MonkeyPatch
DRILL = Drill(workload("matrix-factorization"), 0, 2, Coding())


@functools.cache
def _measured() -> tuple[tuple[Timeline, ...], list[tuple[int, int]]]:
    return DRILL.measure(0, told := Calls()), told


@pytest.fixture
def measured(forks: None) -> tuple[tuple[Timeline, ...], list[tuple[int, int]]]:
    return _measured()


def test_every_way_shows_the_same_iterations(measured: Any) -> None:
    found, told = measured
    assert tuple(line.way for line in found) == WAYS
    assert DRILL.before == 20
    for line in found:
        assert line.first == 21
        assert [s.step for s in line.loop if s.activity == TRAINS] == list(range(21, 53))
        assert [s.step for s in line.pauses] == list(range(22, 53, 2))
        assert len(line.pauses) == SHOWN
        assert line.loop[0].begin == 0
    n = 2 * DRILL.iterations
    assert told == [(i, n) for i in range(n)]


def test_the_saver_is_the_loop_itself_unless_asynchronous(measured: Any) -> None:
    for line in measured[0]:
        for lane in (line.loop, line.saver):  # nothing of one lane overlaps
            assert all(a.begin <= a.end <= b.begin + 1e-9 for a, b in pairwise(lane))
        pauses = {s.step: s for s in line.pauses}
        inside = ((pauses[s.step], s) for s in line.saver)
        within = all(p.begin <= s.begin <= s.end <= p.end for p, s in inside)
        assert within == (line.way != ASYNCHRONOUS)
        ends = {s.step: s.end for s in line.saver if s.activity == WRITES}
        commits = {s.step: s for s in line.saver if s.activity == COMMITS}
        known = {step: at for at, step in line.durable}
        given = {step: at for at, step in line.handed_over}
        for step, end in ends.items():
            assert end < known[step] < commits[step].end
            begin = next(s.begin for s in line.saver if s.step == step and s.activity == ENCODES)
            assert begin > pauses[step].begin
            if line.way == ASYNCHRONOUS:
                assert given[step] <= pauses[step].end


def test_both_ways_save_the_same(measured: Any) -> None:
    plain, background = measured[0]
    assert plain.track == background.track
    assert plain.nbytes == background.nbytes > 0


def test_what_a_crash_leaves_by_recounting(measured: Any) -> None:
    for line in measured[0]:
        for machine in (True, False):
            changes = line.behind(machine)
            known = line.handed_over if line.way == ASYNCHRONOUS and not machine else line.durable
            for i in range(30):
                second = i * line.end / 29
                done = 20
                for span in line.loop:
                    if span.activity == TRAINS and span.end <= second:
                        done = span.step
                saved = 0
                for at, step in known:
                    if at <= second:
                        saved = step
                assert line.iterated(second) == done
                assert line.restored(second, machine) == saved
                assert line.lost(second, machine) == done - saved
                assert [n for at, n in changes if at <= second][-1] == done - saved
            assert all(a[0] < b[0] and a[1] != b[1] for a, b in pairwise(changes))
        assert line.lost(line.end) == 0


def test_medians_and_shares() -> None:
    ends = [(TRAINS, 1, 0, 2), (STANDS_STILL, 1, 2, 3), (TRAINS, 2, 3, 5), (STANDS_STILL, 2, 5, 6)]
    ends += [(TRAINS, 3, 6, 10), (STANDS_STILL, 3, 10, 14)]
    given = ((-1.0, 0), (3, 1), (6, 2), (14, 3))
    known = ((-0.5, 0), (4, 1), (7.5, 2), (17, 3))
    loop, saver = tuple(Span(*one) for one in ends), (Span(ENCODES, 3, 15, 17),)
    line = Timeline(ASYNCHRONOUS, 1, loop, saver, given, known, 30, "")
    assert (line.iteration, line.pause, line.still, line.end) == (2, 1, 6 / 14, 17)
    assert line.delay == pytest.approx(2.5)  # of 2, 2.5 and 7
    assert line.behind() == [(0, 0), (2, 1), (4, 0), (5, 1), (7.5, 0), (10, 1), (17, 0)]
    behind = line.behind(whole_machine=False)
    assert behind == [(0, 0), (2, 1), (3, 0), (5, 1), (6, 0), (10, 1), (14, 0)]


def test_behind_when_several_things_happen_at_once(monkeypatch: Patch) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        ends = np.unique(rng.integers(1, 12, 6)).tolist()
        loop = tuple(Span(TRAINS, i, end - 1, end) for i, end in enumerate(ends, 1))
        late = ((float(end + rng.integers(0, 4)), i) for i, end in enumerate(ends, 1))
        known = ((-1.0, 0), *late)
        line = Timeline(SYNCHRONOUS, 1, loop, loop, known, known, 1, "")
        changes = line.behind()
        for second in np.arange(0, 16, 0.5).tolist():
            assert [n for at, n in changes if at <= second][-1] == line.lost(second)
        assert all(a[0] < b[0] and a[1] != b[1] for a, b in pairwise(changes))
    iterated, asked = Timeline.iterated, []
    monkeypatch.setattr(Timeline, "iterated", lambda own, at: asked.append(at) or iterated(own, at))
    assert line.behind() == changes
    assert len(asked) <= 1  # one pass: a page asks at every tick


@pytest.mark.usefixtures("forks")
def test_what_progress_raises_leaves_nothing_behind(tmp_path: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr(timelines.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(timelines, "WAYS", (ASYNCHRONOUS,))

    def stop(done: int, _total: int) -> None:
        if done == 3:
            raise KeyError

    with pytest.raises(KeyError):
        DRILL.measure(0, stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("interval", "before"), [(1, 20), (3, 21), (20, 20), (50, 50)])
def test_warm_before(interval: int, before: int) -> None:
    drill = Drill(workload("lenet5"), 0, interval, Coding())
    assert (drill.before, drill.iterations) == (before, before + SHOWN * interval)
