"""What is kept of the newest steps."""

from __future__ import annotations

from lcviz.run.recent import Newest


def test_the_oldest_go_first() -> None:
    held: Newest[str] = Newest(10)
    for step, nbytes in ((0, 4), (5, 4), (7, 2)):
        held.add(step, f"of {step}", nbytes)
    assert held.steps == (0, 5, 7)
    held.add(9, "of 9", 1)
    assert held.steps == (5, 7, 9)
    assert held.get(0) is None
    assert held.get(5) == "of 5"
    held.add(11, "of 11", 8)
    assert held.steps == (9, 11)


def test_the_newest_stays_whatever_it_takes() -> None:
    held: Newest[str] = Newest(10)
    held.add(1, "small", 1)
    held.add(2, "large", 100)
    assert held.steps == (2,)
    held.add(3, "small", 1)
    assert held.steps == (3,)


def test_a_step_that_comes_again_takes_its_room_once() -> None:
    held: Newest[str] = Newest(10)
    for _ in range(5):
        held.add(1, "again", 6)
        held.add(2, "other", 4)
    assert held.steps == (1, 2)
    held.drop(1)
    held.drop(1)
    held.add(3, "new", 6)
    assert held.steps == (2, 3)


def test_all_but_the_newest_are_let_go() -> None:
    held: Newest[str] = Newest(10)
    for step in (1, 2, 3):
        held.add(step, "some", 3)
    held.keep(5)
    assert held.steps == (1, 2, 3)
    held.keep(1)
    assert held.steps == (3,)
    held.add(4, "more", 7)  # there is room again
    assert held.steps == (3, 4)
    held.keep(0)
    assert held.steps == ()
