"""The play page, opened from a file without a network: its training, its pictures, its controls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import codec
from lcviz.cli.tools import main
from lcviz.play.one_file import play_html
from tests.browser.states import PATIENCE, drawn, sheets

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

SIZES = ((1280, 720), (1024, 768), (390, 844))
# What the page shows, before its script has run undefined.
STATE = """Object.defineProperty(window, "state", { get: () => {
    try { return board.state; } catch { return undefined; }
} });"""
PLACES = ("weights", "buckets", "bits", "weight", "loss", "examples")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as one file."""
    path = tmp_path_factory.mktemp("play") / "play.html"
    path.write_text(play_html(), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Callable[..., Page]]:
    """opened("#x=1", (390, 844), color_scheme="dark"): the page, opened as by a double click.

    In the end nothing has gone wrong, and nothing was asked of a network.
    """
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE)
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def make(
        fragment: str = "#seed=0", size: tuple[int, int] = SIZES[0], of: Path = file, **options: Any
    ) -> Page:
        width, height = size
        context = browser.new_context(
            offline=True, viewport={"width": width, "height": height}, **options
        )
        contexts.append(context)
        context.add_init_script(STATE)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: m.type == "error" and problems.append(m.text))
        page.on("request", lambda r: r.url.startswith("http") and problems.append(r.url))
        page.goto(of.as_uri() + fragment)
        page.locator("[data-place=bits] figure").wait_for()
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []


def told(page: Page, place: str) -> Locator:
    """What a picture says."""
    return page.locator(f"[data-place={place}] p.text")


def test_it_opens_where_errors_show(opened: Callable[..., Page]) -> None:
    page = opened("")
    drawn(page)
    assert page.evaluate("state.shown") == 20
    for place in PLACES:
        assert page.locator(f"[data-place={place}] figure").is_visible()
    assert "2 of 10 differ" in told(page, "examples").inner_text()
    assert page.locator("#guide").is_visible()
    # All of it on one screen, but for the words below the last pictures.
    assert page.evaluate("document.documentElement.scrollHeight") <= 760


def test_the_first_minute(opened: Callable[..., Page]) -> None:
    """Five gestures, each on a picture that answers: the model is broken, saved, and crashed."""
    from playwright.sync_api import expect

    page = opened("", reduced_motion="reduce")
    drawn(page)
    ask = page.locator("[data-guide=ask]")
    expect(ask).to_contain_text("1 of 5")
    page.get_by_role("button", name="1", exact=True).click()
    expect(ask).to_contain_text("2 of 5")
    expect(told(page, "examples")).to_contain_text("8 of 10 differ")
    page.locator("#step").fill("600")
    expect(ask).to_contain_text("3 of 5")
    assert accuracy(page, "whole-run") > 0.8
    page.locator("#keep").uncheck()
    expect(ask).to_contain_text("4 of 5")
    drawn(page)
    assert accuracy(page, "whole-run") < 0.4
    page.locator("#keep").check()
    page.get_by_role("button", name="2", exact=True).click()
    page.locator("[data-place=weights] .map").click(position={"x": 30, "y": 30})
    expect(ask).to_contain_text("5 of 5")
    page.locator("#play").click()
    page.wait_for_function("state.playing && state.iteration > 12")
    page.locator("#kill").click()
    page.locator("#race-back").click()
    expect(told(page, "race")).to_contain_text("Full, with")
    expect(ask).to_contain_text("That was all")
    drawn(page)
    assert sheets(page) == 1
    told_on_paper = re.compile("^Four ways .+ At .+B per checkpoint.+TOPN after")
    expect(page.locator("#handout-race")).to_have_text(told_on_paper)
    page.locator("[data-guide=skip]").click()
    page.goto(page.url.partition("#")[0])
    drawn(page)
    assert not page.locator("#guide").is_visible()  # once is enough


def test_the_first_minute_takes_other_ways(opened: Callable[..., Page]) -> None:
    """Keys, and what comes later first: nothing has to be done twice."""
    from playwright.sync_api import expect

    page = opened("", reduced_motion="reduce")
    drawn(page)
    ask = page.locator("[data-guide=ask]")
    page.locator("[data-place=bits] .row span >> nth=2").click()  # a weight, by its code word
    page.wait_for_function("state.chosen === 1")
    expect(ask).to_contain_text("1 of 5")
    cut = page.get_by_role("slider", name="Cut between kept and postponed buckets")
    cut.focus()
    for _ in range(2):
        cut.press("ArrowLeft")
    expect(ask).to_contain_text("2 of 5")  # only a setting that is computed counts
    cut.press("ArrowLeft")
    page.wait_for_function("state.setting.most === 0")
    page.locator("#step").focus()
    page.locator("#step").press("End")
    page.wait_for_function("state.shown === 600")
    expect(ask).to_contain_text("2 of 5: No slot is left")
    expect(page.locator("[data-guide=said]")).to_have_text("")  # no bucket is kept any more
    page.get_by_role("button", name="2", exact=True).click()
    expect(ask).to_contain_text("3 of 5")
    page.locator("#keep").focus()
    page.keyboard.press("Space")
    expect(ask).to_contain_text("5 of 5: Switch “Keep what is dropped for next time” on again.")
    page.locator("#kill").click()
    expect(ask).to_contain_text("Press “Race back”")
    page.locator("#race-back").click()
    expect(ask).to_contain_text("That was all")


COVERED = """() => {
    const [guide, said, target] = ['#guide', '[data-place=headline]', '.guided'].map(
        name => document.querySelector(name).getBoundingClientRect());
    const clear = (above, below) => above.bottom <= below.top + 1;
    const apart = clear(guide, target) && (clear(said, target) || clear(target, said));
    return apart && guide.top >= 0 && target.bottom <= innerHeight ? '' :
        [guide.top, guide.bottom, said.top, said.bottom, target.top, target.bottom].join();
}"""


def test_the_guide_covers_nothing_on_a_phone(opened: Callable[..., Page]) -> None:
    """It opens with its question. What a gesture does is in sight; *Where?* leads to the next."""
    from playwright.sync_api import expect

    page = opened("", SIZES[2], has_touch=True, is_mobile=True, reduced_motion="reduce")
    drawn(page)
    assert page.evaluate("scrollY") == 0
    ask, where = page.locator("[data-guide=ask]"), page.get_by_role("button", name="Where?")
    acts = (
        lambda: page.get_by_role("button", name="1", exact=True).tap(),
        lambda: page.locator("#step").fill("600"),
        lambda: page.locator("#keep").uncheck(),
        lambda: page.locator("#keep").check(),
    )
    for number, act in zip("1234", acts):
        expect(ask).to_contain_text(f"{number} of 5")
        drawn(page)
        if number == "2":
            expect(told(page, "examples")).to_be_in_viewport()
        where.tap()
        assert page.evaluate(COVERED) == ""
        act()
    page.get_by_role("button", name="2", exact=True).tap()
    expect(ask).to_contain_text("4 of 5: Press a pixel")
    page.locator("[data-place=weights] .map").tap(position={"x": 30, "y": 30})
    expect(ask).to_contain_text("5 of 5: Press")
    drawn(page)
    where.tap()
    assert page.evaluate(COVERED) == ""


def test_a_page_on_a_host_offers_a_line_to_embed_it(browser: Browser, file: Path) -> None:
    """A file does not: nobody else could see it."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.route("**/*", lambda route: route.fulfill(path=file))
    page.goto("https://board.example/#x=1")
    drawn(page)
    page.get_by_role("button", name="Embed").click()
    page.get_by_role("button", name="Copied").wait_for()
    line = page.evaluate("navigator.clipboard.readText()")
    assert f'<iframe src="{page.url}" ' in line
    assert "#x=1&" in page.url
    page.goto(file.as_uri())
    drawn(page)
    assert not page.locator("#embed").is_visible()
    context.close()


def test_back_returns_to_the_tab_before(opened: Callable[..., Page]) -> None:
    """The run stays. A link that is pasted still opens its moment."""
    page = opened("#step=50")
    drawn(page)
    page.evaluate("window.visited = true")
    page.locator("#kill").click()
    page.wait_for_function("state.dead")
    page.locator("#to-learn").click()
    page.locator("#learn").wait_for()
    page.wait_for_function("location.hash.includes('tab=learn')")
    page.go_back()
    page.locator("#live").wait_for()
    assert page.evaluate("visited && state.dead")
    page.wait_for_function("!location.hash.includes('tab=') && location.hash.includes('dead=1')")
    page.go_forward()
    page.locator("#learn").wait_for()
    assert page.evaluate("visited")
    page.evaluate("location.hash = 'step=70'")
    page.wait_for_function("window.visited === undefined && state?.shown === 70")


def accuracy(page: Page, whose: str) -> float:
    """Of the restored model: a share."""
    number = page.locator(f"[data-place=examples] [data-quantity={whose}-accuracy]")
    return float(number.get_attribute("data-value"))


def test_a_link_shows_the_same_moment(opened: Callable[..., Page]) -> None:
    page = opened("#seed=3&at=347&x=3&coder=huffman&step=newest", reduced_motion="reduce")
    page.wait_for_function("state?.iteration === 347")
    page.locator("#kill").click()
    page.locator("#race-back").click()
    page.locator("[data-place=race] figure").wait_for()
    page.locator("#step").fill("120")
    page.wait_for_function("state.shown === 120 && location.hash.includes('step=120')")
    expected = {place: told(page, place).inner_text() for place in (*PLACES, "race")}
    other = opened(f"#{page.url.partition('#')[2]}", reduced_motion="reduce")
    other.locator("[data-place=race] figure").wait_for()
    drawn(other)
    for place, text in expected.items():
        assert told(other, place).inner_text() == text
    assert "Killed at 347, 7 iterations not saved" in other.locator("#loss-told").inner_text()
    other.locator("#go-on").click()
    other.wait_for_function("!state.dead && state.playing && state.iteration > 340")
    assert other.evaluate("state.kills") == [347]


def test_a_link_tells_what_is_tried_from_what_the_run_has(opened: Callable[..., Page]) -> None:
    page = opened("#own=x%3D3%26keep%3D0&step=50")
    drawn(page)
    assert page.evaluate("[state.own.x, state.own.carries]") == [3, False]
    assert page.evaluate("[state.setting.x, state.setting.carries]") == [2, True]
    page.wait_for_function("location.hash.includes('own=x%3D3%26keep%3D0')")
    assert (
        "the run has 3 bits and loses what is dropped"
        in page.locator("[data-place=headline] .said").inner_text()
    )


def test_a_crash_at_the_end(opened: Callable[..., Page]) -> None:
    """The run stays what it was: there is nothing left to train."""
    page = opened("#step=newest")
    drawn(page)
    page.locator("#kill").click()
    page.wait_for_function("state.dead && state.step === null")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press(" ")  # Play is not there
    page.locator("#go-on").click()
    page.wait_for_function("!state.dead")
    assert page.evaluate("[state.iteration, state.kills, state.playing]") == [600, [600], False]


def test_a_crash_at_the_step_that_is_shown(opened: Callable[..., Page]) -> None:
    """With its price; the training goes on from there."""
    page = opened("#step=50", reduced_motion="reduce")
    drawn(page)
    costs = page.locator("[data-place=headline] [data-quantity=crash-cost]")
    price = costs.get_attribute("data-value")
    assert page.get_by_text("a crash at 50 costs").is_visible()
    page.locator("#kill").click()
    page.wait_for_function("state.dead && state.iteration === 50")
    assert page.evaluate("[state.kills, state.shown, state.own.x]") == [[50], 50, 2]
    assert costs.get_attribute("data-value") == price
    page.locator("#go-on").click()
    page.wait_for_function("state.playing && state.iteration > 51")


def test_training_is_steered(opened: Callable[..., Page]) -> None:
    """By buttons and by keys; a new seed is another training."""
    from playwright.sync_api import expect

    page = opened("#at=20&step=newest")
    page.wait_for_function("state?.iteration === 20")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("state.iteration === 30 && state.shown === 30")
    page.keyboard.press(" ")
    page.wait_for_function("state.playing && state.iteration > 31")
    page.keyboard.press(" ")
    page.wait_for_function("!state.playing")
    page.locator("#speed").fill("5")
    page.locator("#play").click()
    page.wait_for_function("state.finished && !state.playing")
    drawn(page)
    expect(page.locator("#play")).to_have_text("▶ Train live")
    first = told(page, "loss").inner_text()
    page.locator("#seed").fill("8")
    page.locator("#reset").click()
    page.wait_for_function("state.seed === 8 && state.finished")
    drawn(page)
    assert told(page, "loss").inner_text() != first
    page.locator("#seed").fill("seven")
    page.locator("#seed").press("Enter")
    expect(page.locator("#message")).to_contain_text("A seed is a whole number")
    assert page.evaluate("state.seed") == 8


def test_everything_can_be_tried(opened: Callable[..., Page]) -> None:
    """Each x, equal steps, both coders, the cut, what a bucket is worth."""
    from playwright.sync_api import expect

    page = opened("#step=200")
    drawn(page)
    button = page.get_by_role("button", name=re.compile("^equal steps$"))
    button.click()
    expect(told(page, "buckets")).to_contain_text("Steps of")
    drawn(page)
    assert 0.001 < page.evaluate("state.setting.budget") < 0.1
    first = page.locator("[data-place=buckets] g.bars > g").first
    first.hover()
    expect(page.locator("[data-place=buckets] .told")).to_contain_text(" step")
    first.click()  # a weight of that bar is followed
    page.wait_for_function("state.chosen === 1")
    expect(page.locator("g.bars > g:has(rect[stroke-width='3'])")).to_have_count(1)
    for x in ("4", "all", "2"):
        page.get_by_role("button", name=x, exact=True).click()
        page.wait_for_function(f"String(state.setting.x ?? 'all') === '{x}'")
    page.get_by_role("button", name="Huffman", exact=True).click()
    page.wait_for_function("state.setting.coder === 'huffman'")
    expect(page.locator("[data-place=bits] .compare .here")).to_contain_text("Huffman (paper)")
    page.get_by_role("button", name="Back").click()
    page.wait_for_function("state.isOwn")
    page.get_by_role("button", name="error without it").click()
    expect(told(page, "buckets")).to_contain_text("the loss is")
    cut = page.get_by_role("slider", name="Cut between kept and postponed buckets")
    cut.focus()
    cut.press("ArrowRight")
    page.wait_for_function("state.setting.most === 4")
    page.locator("[data-place=bits] .row span >> nth=2").click()
    page.locator("[data-place=loss] svg").click(position={"x": 150, "y": 40})
    page.wait_for_function("state.step !== 200")


def test_a_finger_drags_the_cut(opened: Callable[..., Page]) -> None:
    page = opened("#step=50", SIZES[2], has_touch=True, is_mobile=True)
    drawn(page)
    handle = page.get_by_role("slider", name="Cut between kept and postponed buckets")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        *(("touchMove", [{"x": x + 20 * i, "y": y}]) for i in range(1, 5)),
        ("touchEnd", []),
    ):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_function("state.setting.most > 3")


LOOKS = [(scheme, size) for scheme in ("light", "dark") for size in SIZES]


@pytest.mark.parametrize(
    ("scheme", "size"),
    [LOOKS[0], *(pytest.param(*look, marks=pytest.mark.exhaustive) for look in LOOKS[1:])],
)
def test_axe_finds_nothing(opened: Callable[..., Page], size: tuple[int, int], scheme: str) -> None:
    """On all tabs, before and after a crash, in a lecture; nothing scrolls sideways."""
    from axe_playwright_python.sync_playwright import Axe

    page = opened("", size, color_scheme=scheme, reduced_motion="reduce")
    drawn(page)

    def check() -> None:
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        assert [(v["id"], n["html"][:200]) for v in found for n in v["nodes"]] == []

    check()
    page.locator("#kill").click()
    page.locator("#race-back").click()
    page.locator("[data-place=race] figure").wait_for()
    check()
    page.locator("#to-files").click()
    drawn(page)
    check()
    page.locator("#to-learn").click()
    page.locator(".learn .card >> nth=6").wait_for()
    check()
    if size[0] > 700:
        page.locator("#begin-lecture").click()
        check()


def states(folder: Path) -> list[Path]:
    """Files of a training that never was."""
    rng, paths = np.random.default_rng(0), []
    weights = {"a.weight": rng.normal(size=(30, 40)), "b.bias": rng.normal(size=(50,))}
    for step in (9, 10, 11):
        paths.append(folder / f"step-{step}.safetensors")
        save_file({name: w.astype(np.float32) for name, w in weights.items()}, paths[-1])
        for w in weights.values():
            w += 0.01 * rng.normal(size=w.shape) ** 3
    return paths


def in_checkpoint(page: Page) -> int:
    """The size that the headline says."""
    number = page.locator("[data-place=headline] [data-quantity=checkpoint-bytes]")
    return int(number.get_attribute("data-value") or "")


def test_files_of_one_s_own(opened: Callable[..., Page], tmp_path: Path) -> None:
    """An example; then files in any setting, with the codec's bytes; wrong ones change nothing."""
    from playwright.sync_api import expect

    page = opened("#tab=files", reduced_motion="reduce")
    drawn(page)
    expect(page.locator("#files-about")).to_contain_text("a small training, saved at four")
    paths = states(tmp_path)
    page.locator("#file-input").set_input_files([paths[2], paths[0], paths[1]])
    page.wait_for_function("state?.files?.length === 3 && !state.isExample")
    drawn(page)
    expect(page.locator("[data-place=headline]")).to_contain_text("step-10 → step-11")
    page.get_by_role("button", name="2", exact=True).click()
    drawn(page)
    first, *later = [load_file(path) for path in paths]
    tracker = codec.Tracker(first, bits=2)
    groups = [tracker.step(state).groups[0] for state in later]
    assert in_checkpoint(page) == 6 + groups[-1].encoded.nbytes
    expect(page.locator("#lines")).to_contain_text('codec.Checkpointer("run.lcc", bits=2)')
    expect(page.locator(".sizes")).to_contain_text("the codec’s residual")
    rate = page.get_by_role("slider", name="Learning rate")
    expect(told(page, "gaps")).to_contain_text("At 1e−5 it would change 100 %")
    rate.focus()
    for _ in range(2):
        rate.press("PageDown")
    expect(rate).to_have_attribute("aria-valuetext", "1e−7")
    expect(told(page, "gaps")).not_to_contain_text("would change 100 %")
    page.locator("#step").fill("2")
    drawn(page)
    assert in_checkpoint(page) == 6 + groups[0].encoded.nbytes
    page.locator(".tensors button", has_text="b.bias").click()
    expect(told(page, "weights")).to_contain_text("in b.bias (50)")
    paths[0].write_bytes(paths[0].read_bytes()[:-9])
    page.locator("#file-input").set_input_files(paths)
    expect(page.locator("#message")).to_have_text(
        "step-9.safetensors is incomplete: copy it again."
    )
    expect(told(page, "weights")).to_contain_text("in b.bias (50)")
    page.locator("#distance").fill("0.5")
    page.locator("#distance").press("Enter")
    drawn(page)
    page.wait_for_url(re.compile("#tab=files&distance=0.5$"))
    page.locator("#to-live").click()
    drawn(page)
    expect(told(page, "examples")).to_contain_text("differ")
    page.locator("#to-files").click()
    drawn(page)
    expect(told(page, "weights")).to_contain_text("in b.bias (50)")


def test_files_are_dropped_anywhere(opened: Callable[..., Page], tmp_path: Path) -> None:
    """Also on Live: they open their tab."""
    from playwright.sync_api import expect

    page = opened("")
    drawn(page)
    given = [[path.name, list(path.read_bytes())] for path in states(tmp_path)]
    page.evaluate(
        """given => {
            const dataTransfer = new DataTransfer();
            for (const [name, bytes] of given)
                dataTransfer.items.add(new File([new Uint8Array(bytes)], name));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
        }""",
        given,
    )
    page.wait_for_function("state?.files?.length === 3 && !state.isExample")
    drawn(page)
    expect(page.locator("#to-files")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#files-about")).to_contain_text("3 files")
    assert sheets(page) == 1


def test_a_lecture_and_its_handout(opened: Callable[..., Page]) -> None:
    """One picture at a time, with its question; arrows go on, S shows what to say."""
    from playwright.sync_api import expect

    page = opened("#step=100", color_scheme="dark")
    drawn(page)
    page.locator("#begin-lecture").click()
    question = page.locator("#lecture h1")
    expect(question).to_have_text("What has to be stored?")
    page.keyboard.press("ArrowRight")
    expect(question).to_have_text("Which changes can wait?")
    shown = [place for place in PLACES if page.locator(f"[data-place={place}]").is_visible()]
    assert shown == ["buckets"]
    sentence = page.locator("#lecture p")
    assert not sentence.is_visible()
    page.keyboard.press("s")
    expect(sentence).to_be_visible()
    for place in ("bits", "weight", "loss", "examples", "race"):
        page.keyboard.press("ArrowRight")
        slide = page.locator(f"[data-place={place}]")
        expect(slide).to_be_visible()
        drawn(page)
        box = slide.bounding_box()
        # The screen is filled, beside what is on the right.
        assert 850 <= box["x"] + box["width"] <= 930, place
        assert 480 <= box["y"] + box["height"] <= 720, place
    expect(page.locator("[data-place=race] svg").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#lecture")).to_be_hidden()
    drawn(page)
    assert sheets(page) == 1


def test_a_recorded_chain(opened: Callable[..., Page], tmp_path: Path) -> None:
    """Its steps can be looked at; nothing can be trained."""
    from playwright.sync_api import expect

    path, target = tmp_path / "run.lcc", tmp_path / "recorded.html"
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(40, 50)).astype(np.float32)
    with codec.Checkpointer(path, bits=2) as checkpoints:
        for step in range(12):
            checkpoints.save(step, {"net": {"weight": weights}})
            weights = weights + 0.1 * rng.normal(size=(40, 50)).astype(np.float32) ** 3
    assert main(["play", "--run", str(path), "-o", str(target)]) == 0
    assert target.stat().st_size < 3_000_000
    page = opened("#step=7", of=target)
    expect(page.locator("#step-told")).to_have_text("step 7")
    drawn(page)
    size = codec.Chain(path).entries[7].nbytes
    number = page.locator("[data-place=headline] [data-quantity=checkpoint-bytes]")
    assert float(number.get_attribute("data-value")) == size
    page.locator("#step").fill("0")
    expect(page.locator("#step-told")).to_have_text("step 1")
    page.wait_for_function("location.hash.includes('step=1')")
    assert not page.locator("#play").is_visible()
    assert "Only Learn computes here" in page.locator(".question").inner_text()
    page.locator("#to-learn").click()
    page.locator(".learn .card >> nth=6").wait_for()


def test_live_offers_the_page(
    tab: Callable[..., Any], opened: Callable[..., Page], tmp_path: Path
) -> None:
    """With the seed, the step and the setting of the visitor."""
    visitor = tab().open("/?seed=4&iterations=20&speed=full")
    page = visitor.page
    page.get_by_role("button", name="Start live training").click()
    visitor.expecting(page.get_by_text("iteration 20 of 20, finished")).to_be_visible()
    visitor.settled()
    page.locator("[data-place=buckets]").get_by_role("button", name="1", exact=True).click()
    visitor.expecting(page.get_by_text("only a try: the run has 2 bits")).to_be_visible()
    visitor.settled()
    with page.expect_download() as download:
        page.get_by_role("button", name="Open without a server").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    visitor.check()
    page = opened("", of=path)
    page.wait_for_function("state?.shown === 20")
    assert page.evaluate("[state.seed, state.setting.x, state.own.x]") == [4, 1, 2]
