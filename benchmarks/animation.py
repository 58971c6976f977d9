"""The README's animation: the question, too much thrown away, the track, a crash, the race back.

    PYTHONPATH=. python benchmarks/animation.py [docs/img/live.webp] [--chromium PATH]

It is a recording of the page in Chromium; long waits are shown shorter. Needs Pillow, which comes
with Streamlit.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, expect, sync_playwright

from benchmarks.dashboard.first import warm
from benchmarks.dashboard.serving import FLAGS, PATIENCE, chromium, server

SIZE = 1280, 720
PICTURE_SIZE = 960, 540
PER_SECOND = 8  # pictures
AWAY = SIZE[0] - 240, 24  # where the page has nothing that answers to the pointer
HOLD = 3.0  # seconds that the last picture stays
SECONDS = 6  # that a race takes on the page
MAX_BYTES = 2e6
SETTINGS = "model=Logistic+regression&interval=5&iterations=300&speed=25/s"
# Draws the mouse pointer, which Chromium does not do without a screen. At rest it is not drawn.
POINTER = """addEventListener("DOMContentLoaded", () => {
    const dot = document.createElement("div");
    dot.style = "position: fixed; z-index: 9999999; width: 18px; height: 18px; margin: -9px; " +
        "border-radius: 50%; pointer-events: none; background: #0008; border: 2px solid #fff; " +
        "left: 0; top: 0; visibility: hidden";
    document.body.append(dot);
    let resting;
    const at = event => {
        dot.style.translate = `${event.clientX}px ${event.clientY}px`;
        dot.style.visibility = "visible";
        clearTimeout(resting);
        resting = setTimeout(() => dot.style.visibility = "hidden", 600);
    };
    addEventListener("pointermove", at, true);
    for (const [name, scale] of [["pointerdown", 0.6], ["pointerup", 1]])
        addEventListener(name, () => dot.style.scale = scale, true);
})"""


@dataclass(frozen=True)
class Scene:
    """Begin and end on the clock of the frames, and the longest time to show it. All in seconds."""

    begin: float
    end: float
    most: float


class Film:
    """A recording of a page: a frame for each change from now on."""

    def __init__(self, page: Page) -> None:
        self._page, self._frames = page, list[tuple[float, bytes]]()
        self._scenes: list[Scene] = []
        self._session = page.context.new_cdp_session(page)
        self._session.on("Page.screencastFrame", self._keep)
        self._session.send("Page.startScreencast", {"format": "jpeg", "quality": 95})

    def _keep(self, frame: dict) -> None:
        self._frames.append((time.monotonic(), base64.b64decode(frame["data"])))
        self._session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    @contextlib.contextmanager
    def scene(self, most: float = 60) -> Iterator[None]:
        """Show what happens inside the with statement, in at most this many seconds."""
        begin = time.monotonic()
        yield
        self._scenes.append(Scene(begin, time.monotonic(), most))

    def pictures(self) -> list[tuple[Image.Image, int]]:
        """All pictures that differ, each with its milliseconds."""
        timed_frames: list[tuple[bytes, int]] = []
        tick = 1000 // PER_SECOND
        for scene in self._scenes:
            seconds = scene.end - scene.begin
            n = max(1, round(min(seconds, scene.most) * PER_SECOND))
            for i in range(n):
                frame = self._at(scene.begin + seconds * (i + 1) / n)
                if timed_frames and timed_frames[-1][0] == frame:
                    timed_frames[-1] = frame, timed_frames[-1][1] + tick
                else:
                    timed_frames.append((frame, tick))
        timed_frames[-1] = timed_frames[-1][0], round(1000 * HOLD)
        return [(_image(frame), duration) for frame, duration in timed_frames]

    def _at(self, seconds: float) -> bytes:
        """The frame that the page showed at this time."""
        before = [frame for at, frame in self._frames if at <= seconds]
        return before[-1] if before else self._frames[0][1]


def _image(frame: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(frame)).convert("RGB")
    return image.resize(PICTURE_SIZE, Image.Resampling.LANCZOS)


def play(page: Page, film: Film) -> None:
    """Do on the page what the animation shows."""
    buckets = page.locator("[data-picture=buckets]")
    with film.scene(most=3):  # the question
        page.wait_for_timeout(3000)
    with film.scene(most=5):  # too much is thrown away
        _press(page, "1", buckets)
        page.get_by_text("only a try").wait_for()
        page.wait_for_timeout(2500)
        _press(page, "Back")
        page.get_by_text("only a try").wait_for(state="hidden")
    with film.scene(most=7):  # nothing can be left out without the track
        page.locator("#step").press("End")
        page.wait_for_timeout(1200)
        page.locator("#keep").press("Space")
        page.get_by_text("only a try").wait_for()
        page.wait_for_timeout(2500)
        page.locator("#keep").press("Space")
        page.get_by_text("only a try").wait_for(state="hidden")
        page.wait_for_timeout(1500)
    with film.scene(most=6):
        _press(page, "▶ Start live training")
        page.get_by_role("button", name="Pause").wait_for()
        page.locator("[data-picture=weights]").wait_for()
        page.wait_for_timeout(7000)
    with film.scene(most=2.5):
        _press(page, "Kill it now")
        page.get_by_text(re.compile("Killed at iteration")).wait_for()
        page.wait_for_timeout(1000)
    with film.scene(most=9):
        _press(page, "Race back")
        end = re.compile(r"\b(wins|are level|Nobody wins)\b")
        over = page.locator("p.text").filter(has_text=end).first
        over.wait_for(state="attached")
        page.wait_for_timeout(1000 * SECONDS)  # the race plays
        expect(over).to_have_css("opacity", "1", timeout=PATIENCE)
        page.wait_for_timeout(1500)  # it is read


def _press(page: Page, name: str, inside: Locator | None = None) -> None:
    """Click a button as a person does: the pointer goes there first."""
    box = (inside or page).get_by_role("button", name=name, exact=True).bounding_box()
    assert box is not None, f"{name} is on the page"
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y, steps=12)
    page.wait_for_timeout(250)
    page.mouse.down()
    page.wait_for_timeout(120)
    page.mouse.up()
    page.mouse.move(*AWAY)  # its help would stay


def save(pictures: list[tuple[Image.Image, int]], path: Path) -> int:
    """Write the pictures in the best quality that fits MAX_BYTES. Returns the file's bytes."""
    images, durations = [image for image, _ in pictures], [ms for _, ms in pictures]
    for quality in (80, 70, 60, 50, 40, 30):
        path.parent.mkdir(parents=True, exist_ok=True)
        images[0].save(
            path,
            save_all=True,
            append_images=images[1:],
            duration=durations,
            loop=0,
            quality=quality,
            method=6,
            minimize_size=True,
        )
        if path.stat().st_size <= MAX_BYTES:
            break
    return path.stat().st_size


def main() -> None:
    """Record the animation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, nargs="?", default=Path("docs/img/live.webp"))
    parser.add_argument("--chromium", default=chromium())
    options = parser.parse_args()
    with sync_playwright() as playwright, server("app.py") as ours:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        warm(browser, ours.url)
        context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]})
        context.add_init_script(POINTER)
        context.add_init_script("localStorage.setItem('lcviz-guide', '1')")  # no guide
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{ours.url}/?{SETTINGS}")
        page.locator("[data-picture=examples]").wait_for()
        page.wait_for_timeout(1500)
        film = Film(page)
        play(page, film)
        pictures = film.pictures()
    nbytes = save(pictures, options.path)
    seconds = sum(ms for _, ms in pictures) / 1000
    print(f"{options.path}: {len(pictures)} pictures, {seconds:.0f} s, {nbytes / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
