"""The words in a picture of curves cover neither a curve, nor its end, nor each other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from lcviz.live.loss_picture import loss_picture
from tests.worded import worded

if TYPE_CHECKING:
    from playwright.sync_api import Page

Line = dict[str, Any]
Shown = Callable[..., "Page"]
LOOK = """() => {
    const box = (node) => { const { left, right, top, bottom } = node.getBoundingClientRect();
        return { left, right, top: top + 3, bottom: bottom - 1 }; }; // the letters
    const svg = document.querySelector('svg').getBoundingClientRect();
    const points = [...document.querySelectorAll('g.lines > path')].flatMap(path =>
        [...Array(400).keys()].map(i => path.getPointAtLength(i * path.getTotalLength() / 399))
            .map(({ x, y }) => [x + svg.left, y + svg.top]));
    const words = [...document.querySelectorAll('g.names text'), ...document.querySelectorAll(
        'g.grid > g:last-child text')].map(node => [node.textContent, box(node)]);
    const dots = [...document.querySelectorAll('g.names circle')].map(
        node => node.getBoundingClientRect());
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom
        && b.top < a.bottom;
    return words.flatMap(([text, a], i) => [
        ...points.filter(([x, y]) => a.left < x && x < a.right && a.top < y && y < a.bottom)
            .slice(0, 1).map(() => `${text} on a line`),
        ...dots.filter(b => meet(a, b)).map(() => `${text} on a dot`),
        ...words.slice(i + 1).filter(([, b]) => meet(a, b)).map(([other]) => `${text}, ${other}`),
    ]);
}"""


def line(name: str, x: list[float], y: list[float], **more: Any) -> Line:
    named = {"label": name, "colour": "live", "dash": "solid", "ends": True}
    return {"name": name, "x": x, "y": y} | named | more


BEFORE = line("before", [-10, 0], [0.3, 0.3], label="", ends=False)
RACES = {
    "falls to the level": [line("SCAR > 40", [0, 5, 40], [1.0, 0.6, 0.33])],
    "ends near the crash": [
        line("full 0", [0], [0.3]),
        line("LC 2.1", [0, 2.1], [0.35, 0.3]),
        line("SCAR > 40", [0, 5, 40], [1.0, 0.45, 0.32]),
        line("TOPN > 40", [0, 5, 40], [0.9, 0.42, 0.31]),
    ],
}


COMMON = {"picture": "curves", "title": "", "about": "", "text": "", "marks": [], "log": False}
COMMON |= {"unit": "iteration", "clickable": False, "range": [-10, 10], "height": 230}


@pytest.fixture
def shown(alone: Callable[..., Page]) -> Shown:
    """shown(data): a page with nothing but the picture of these data, where time stands still."""
    return lambda data, **how: alone("curves", COMMON | data, stopped=True, **how)


@pytest.mark.parametrize("lines", RACES.values(), ids=RACES)
def test_words_stand_where_no_line_is(shown: Shown, lines: list[Line]) -> None:
    level = {"y": 0.3, "text": "0.300 before"}
    page = shown({"lines": [BEFORE, *lines], "level": level, "range": [-10, 40]})
    assert page.evaluate(LOOK) == []


RACE = {
    "lines": [
        BEFORE,
        line("no crash", [0, 10], [0.3, 0.2], ends=False),
        line("full 2", [0, 2], [0.4, 0.3]),
        line("SCAR 8", [0, 8], [1.1, 0.3]),
    ],
    "text": "full wins",
    "play": 6,
}
PLAYED = """() => {
    const seen = (nodes) => [...nodes].filter(node => node.checkVisibility({
        visibilityProperty: true, opacityProperty: true }));
    const words = (select) => seen(document.querySelectorAll(select)).map(n => n.textContent);
    const dots = seen(document.querySelectorAll('g.now circle'));
    return [words('g.now text'), words('g.names > g'), dots.length, words('p.text')];
}"""
OVER = [[], ["full 2", "SCAR 8", "no crash"], 0, ["full wins"]]


def test_a_race_is_played_once_and_again_on_a_click(shown: Shown) -> None:
    """Whatever draws the same lines again meanwhile: a page that looks every second does."""
    page = shown(RACE)
    assert page.evaluate(PLAYED) == [["iteration 0"], [], 3, []]
    page.clock.run_for(3000)
    seen = page.evaluate(PLAYED)
    assert seen == [["iteration 3"], ["full 2"], 2, []]  # 10 · ½ ** 1.5
    front = page.locator("g.now > line")
    middle = front.bounding_box()["x"]
    for dot in page.locator("g.now circle").all():  # where its line ends
        box = dot.bounding_box()
        assert abs(box["x"] + box["width"] / 2 - middle) < 1
    wide = page.locator("g.now rect").get_attribute("width")
    assert float(wide) == float(front.get_attribute("x1"))
    page.evaluate("show", COMMON | RACE)
    assert page.evaluate(PLAYED) == seen
    page.clock.run_for(3100)
    assert page.evaluate(PLAYED) == OVER
    page.evaluate("show", COMMON | RACE)
    page.clock.run_for(100)
    assert page.evaluate(PLAYED) == OVER
    again = page.get_by_role("button", name="See it again")
    again.click()
    page.clock.run_for(1000)
    assert page.evaluate(PLAYED) == [["iteration 0"], [], 3, []]
    page.evaluate("show", COMMON | RACE | {"play": None})  # another picture in its place
    assert page.evaluate(PLAYED) == OVER
    assert again.count() == 0


def test_the_end_is_there_at_once(shown: Shown) -> None:
    """For whoever wants no motion."""
    page = shown(RACE, reduced_motion="reduce")
    assert page.evaluate(PLAYED) == OVER
    assert page.get_by_role("button", name="See it again").count() == 0


def test_twelve_lines_that_end_together_can_be_told_apart(shown: Shown) -> None:
    lines = [line(f"run {i}", [0, 100], [i, 50 + 0.01 * i]) for i in range(12)]
    page = shown({"lines": lines, "range": [0, 100], "height": 300, "right": 200})
    assert page.evaluate(LOOK) == []
    leads = page.locator("g.names path[d]")
    assert 9 <= leads.count() <= 12  # from the end of a line to a name that had to move
    page.locator("svg").hover(position={"x": 60, "y": 250})
    rows = page.locator("g.hover tspan")
    assert rows.all_text_contents()[:2] == ["iteration 0", "run 0 0"]
    tops = [row.bounding_box()["y"] for row in rows.all()]
    assert all(b - a >= 13 for a, b in pairwise(tops))
    assert len(tops) == 13


MARKS = """() => {
    const box = (node) => node.getBoundingClientRect();
    const words = [...document.querySelectorAll('g.marks text')].filter(t => t.textContent);
    const rules = [...document.querySelectorAll('g.grid line, g.marks line')];
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom
        && b.top < a.bottom - 3;
    const seen = document.querySelector('svg').getBoundingClientRect();
    return words.flatMap((word, i) => [
        ...rules.filter(rule => meet(box(word), box(rule))).map(() => `${word.textContent} struck`),
        ...words.slice(i + 1).filter(other => meet(box(word), box(other)))
            .map(other => `${word.textContent}, ${other.textContent}`),
        ...[word].filter(w => box(w).left < seen.left || box(w).right > seen.right)
            .map(w => `${w.textContent} outside`),
    ]);
}"""


@pytest.mark.parametrize("width", [800, 330])
def test_no_word_of_a_mark_is_struck_or_cut(shown: Shown, width: int) -> None:
    losses = {0: (2.3, 2.3), 100: (1.1, 1.2), 200: (0.9, 1.0)}
    page = shown(loss_picture(losses, 200, 200, [200]).data, width=width)
    for kills in ([200], [185], [5], [40, 60], [40, 60, 66], [150, 160, 170, 180]):
        facts = loss_picture(losses, 200, 200, kills).data
        page.evaluate("show", facts)
        assert page.evaluate(MARKS) == [], kills
        texts, titles = (page.locator(f"g.marks {part}") for part in ("text", "title"))
        said = map("".join, zip(texts.all_text_contents(), titles.all_text_contents(), strict=True))
        assert list(said) == [*(mark["text"] for mark in worded(facts)["marks"]), "200"]


def test_a_word_of_a_mark_that_has_no_room_is_left_out(shown: Shown) -> None:
    picture = loss_picture({0: (2.3, 2.3), 200: (0.9, 1.0)}, 100, 200, [98, 99, 101])
    page = shown(picture.data, width=330)
    texts = page.locator("g.marks text").all_text_contents()
    assert texts == ["step 100", "killed", "", "", "200"]  # the last is the end of the axis
