"""Visitors who train at the same time, do what comes to their minds, and see only their own run.

Every visitor has a seed and a number of iterations that nobody else has. After each action the
page is looked at: it says what one's own run says or, if there is none, that it is the example;
there is no error box, nothing fails in the browser, and refusals are the sentences that are meant.
"""

from __future__ import annotations

import json
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Response,
    expect,
)

from .serving import PATIENCE

MODELS = {  # title -> a tensor of it
    "LeNet-5": "c3.weight",
    "Logistic regression": "linear.weight",
    "Matrix factorization": "item.weight",
}
PAGES = ("learn", "tune", "recover", "inspect", "export", "glossary")
STALE = "The run in this link is no longer on this server"
FULL = "This server already holds"
ERRORS = "[data-testid=stException]"
COUNT_CLICKS = """() => {
    window.clicksSeen = 0;
    document.addEventListener('click', () => window.clicksSeen++, {capture: true, once: true});
}"""

SURE = "Delete and start over"  # asked by Reset where there are checkpoints
SOON = """async ([sure, milliseconds]) => {
    const find = name => [...document.querySelectorAll('button')]
        .find(b => b.innerText.includes(name));
    const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));
    find('Reset').click();
    while (!find(sure)) await wait(10);
    find(sure).click();
    await wait(milliseconds);
    find('Step').click();
}"""


class Visitor:
    """One browser with cookies of its own, which steer its runs, unless `browser` is a context.

    number: from 0; determines model, seed and iterations.

    Raises AssertionError as soon as anything is seen that should not be.
    """

    def __init__(
        self, browser: Browser | BrowserContext, url: str, number: int, said: Counter[str]
    ) -> None:
        self._context = browser.new_context() if isinstance(browser, Browser) else browser
        self._alone = self._context is not browser
        self._url, self._said = url, said
        expect.set_options(timeout=PATIENCE)
        self.model, self._weight = list(MODELS.items())[number % len(MODELS)]
        self.seed, self.iterations = 1001 + number, 5001 + number
        self._random = random.Random(number)
        self.run: str | None = None  # the id of one's own run
        self._left: list[str] = []  # runs that were left without a word
        self.problems: list[str] = []
        self._arrive()

    # What a visitor does; each is followed by a look.

    def start(self) -> None:
        """Begin a run, from the example, or instead of the one that there is."""
        self._new_run("Reset" if self.run else "Start live training")

    def plays(self) -> bool:
        """Whether one's own run does."""
        return bool(self._button("Pause").count())

    def press(self, name: str) -> None:
        """One button of one's own run, and what follows from it is seen.

        Raises AssertionError if nothing does.
        """
        if name == "Reset":
            self._new_run(name)
        elif name == "Step":
            before = self._step()
            self._button(name).click()
            expect(self._iteration()).not_to_have_text(before)
            expect(self._button("Play")).to_be_visible()
            self._settled()
        else:
            self._press(name, "Play" if name == "Pause" else "Pause")

    def reset_and_step(self, milliseconds: int) -> None:
        """Step so soon after Reset that the browser has not drawn the new run.

        Raises AssertionError if the new run does not step.
        """
        for _ in range(2):  # the new run will be one behind
            self.press("Step")
        step = self._step()
        self.page.evaluate(SOON, [SURE, milliseconds])
        expect(self._iteration()).not_to_have_text(step)
        expect(self._button("Play")).to_be_visible()  # else the new run would play on
        self._settled()
        before, self.run = self.run, self._run_in_url()
        assert self.run not in (None, before), self.seen()

    def _new_run(self, button: str) -> None:
        """Press what begins a run."""
        if self.page.get_by_text(FULL).count():
            self.reload()  # else an old refusal would be taken for a new one
        before = self.run
        self._button(button).click()
        seen = (
            "([before, ...texts]) => (new URLSearchParams(location.search).get('run') ?? null) !== "
            "before || texts.some(text => document.body.innerText.includes(text))"
        )
        self.page.wait_for_function(seen, arg=[before, FULL, SURE])
        if (sure := self.page.get_by_role("button", name=SURE)).count():
            sure.click()
            self.page.wait_for_function(seen, arg=[before, FULL])
        self._settled()
        if FULL in self.page.locator("body").inner_text():
            self._said["refused: the server is full"] += 1
            return
        self.run = self._run_in_url()
        assert self.run not in (None, before), "a new run has an id of its own"

    def pause_or_play(self) -> None:
        """Whichever it is."""
        if self._button("Pause").count():
            self._press("Pause", "Play")
        elif self._button("Play").count() and self._button("Play").is_enabled():
            self._press("Play", "Pause")

    def step(self) -> None:
        """Stop, and go to the next checkpoint."""
        if self._button("Pause").count():
            self._press("Pause", "Play")
        if self._button("Step").is_enabled():
            self._button("Step").click()
            self._settled()

    def reload(self) -> None:
        """The same address again."""
        self.page.reload()
        self._opened()

    def visit(self) -> None:
        """Another page and back, with the link."""
        path = self._random.choice(PAGES)
        self.page.get_by_role("link", name=path.title(), exact=True).first.click()
        expect(self.page.get_by_role("heading", level=1)).not_to_have_text("LC-Checkpoint, live")
        self._settled()
        if path == "export":
            self._take_along()
        self._check()
        self._own(path)
        self.page.get_by_role("link", name="Live", exact=True).first.click()
        self._opened()

    def _take_along(self) -> None:
        """Download everything that Export offers: its receipt tells of one's own run."""
        # A button asks for its file as soon as it is drawn; who leaves earlier makes that fail.
        self.page.wait_for_load_state("networkidle")
        with self.page.expect_download() as waiting:
            self.page.get_by_role("button", name="Download everything").click()
        with zipfile.ZipFile(waiting.value.path()) as archive:
            receipt = json.loads(archive.read("receipt.json"))
        assert self.run is None or receipt["settings"]["seed"] == self.seed, receipt["settings"]

    def follow(self) -> None:
        """A weight of one's own model."""
        weight = f"weight={self._weight}:{self._random.randrange(40)}"
        run = f"&run={self.run}" if self.run else ""
        self.page.goto(f"{self._url}/?{self._settings()}&{weight}{run}")
        self._opened()

    def leave(self) -> None:
        """Close the tab without a word; come again at once, with the link or without."""
        self.page.close()
        if self.run and self._random.random() < 0.5:
            self._left.append(self.run)
            self.run = None
        self._arrive()

    def come_back(self) -> None:
        """With the link of a run that was left long ago, if it is still there."""
        if not self._left:
            return
        self.run = self._left.pop(self._random.randrange(len(self._left)))
        self.page.goto(f"{self._url}/?{self._settings()}&run={self.run}")
        self._opened()

    def act(self) -> str:
        """Do something, and look; returns what it was."""
        if self.run is None and self._random.random() < 0.8:
            action: Callable[[], None] = self.start
        else:
            action = self._random.choice(
                [
                    self.pause_or_play,
                    self.pause_or_play,
                    self.step,
                    self.start,
                    self.reload,
                    self.visit,
                    self.visit,
                    self.follow,
                    self.leave,
                    self.come_back,
                ]
            )
            if self.run is None and action in (self.pause_or_play, self.step):
                action = self.visit
        self._said[action.__name__] += 1
        action()
        self.look()
        return action.__name__

    def look(self) -> None:
        """The Live page says one's own run, or the example, and nothing went wrong."""
        self._check()
        if self.run is None:
            expect(self.page.locator(".board:not(.served)")).to_be_visible()
            return
        self._own("Live")
        headline = self.page.locator("[data-picture=headline]")
        if headline.count():  # none while only the base is saved
            expect(headline).to_contain_text(f"of {self.iterations}")
        expect(self.page.get_by_text(f", seed {self.seed} ·")).to_have_count(1)

    def seen(self) -> str:
        """What is on the screen, for a message."""
        status = self.page.get_by_test_id("stApp").get_attribute("data-test-script-state")
        return f"{self.run} at {self.page.url}, {status}:\n{self.page.inner_text('body')[:2000]}"

    def close(self) -> None:
        """Leave for good."""
        self.page.close()
        if self._alone:
            self._context.close()

    # How.

    def _arrive(self) -> None:
        self.page: Page = self._context.new_page()
        self.page.set_viewport_size({"width": 1280, "height": 900})
        self.page.set_default_timeout(PATIENCE)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("console", self._console)
        self.page.on("response", self._response)
        run = f"&run={self.run}" if self.run else ""
        self.page.goto(f"{self._url}/?{self._settings()}{run}")
        self._opened()

    def _opened(self) -> None:
        """Wait for Live to stand, whatever it shows; a run that made room is one's own no more."""
        expect(self.page.locator(".board, .st-key-controls").first).to_be_visible()
        self._settled()
        if self.page.get_by_text(STALE).count():
            self._said["stale link"] += 1
            self.run = None

    def _settings(self) -> str:
        return f"model={quote(self.model)}&seed={self.seed}&iterations={self.iterations}"

    def _press(self, name: str, then: str) -> None:
        """A button that another takes the place of."""
        self.page.evaluate(COUNT_CLICKS)
        self._button(name).click()
        try:
            expect(self._button(then)).to_be_visible()
        except AssertionError as exc:
            clicks = self.page.evaluate("window.clicksSeen")
            shown = self.page.locator(".st-key-controls").inner_text()
            self.reload()  # what the server has
            raise AssertionError(
                f"{name} did nothing, of which the page saw {clicks} clicks. It showed:\n{shown}\n"
                f"and anew:\n{self.page.locator('.st-key-controls').inner_text()}"
            ) from exc
        self._settled()

    def _button(self, name: str):
        return self.page.locator(".st-key-controls, .board .controls").get_by_role(
            "button", name=name
        )

    def _iteration(self) -> Locator:
        return self.page.locator("[data-picture=headline] .said > span").first

    def _step(self) -> str:
        """What the headline says of the step; "" while only the base is saved."""
        return self._iteration().inner_text() if self._iteration().count() else ""

    def _settled(self) -> None:
        app = self.page.get_by_test_id("stApp")
        expect(app).to_have_attribute("data-test-script-state", "notRunning")

    def _run_in_url(self) -> str | None:
        return parse_qs(urlsplit(self.page.url).query).get("run", [None])[0]

    def _own(self, page: str) -> None:
        """The run that the page shows is one's own."""
        shown = self._run_in_url()
        if shown != self.run:
            stale = self.page.get_by_text(STALE).count()
            raise AssertionError(
                f"{page} shows {shown}, not {self.run}, {'saying so' if stale else 'silently'}: "
                f"{self.page.url}\n{self.page.get_by_test_id('stMain').inner_text()[:1000]}"
            )

    def _check(self) -> None:
        expect(self.page.locator(ERRORS)).to_have_count(0)
        assert self.problems == [], self.problems
        alerts = self.page.locator("[data-testid=stAlertContentError]").all_inner_texts()
        assert all(FULL in text for text in alerts), alerts

    def _console(self, message: ConsoleMessage) -> None:
        # What cannot be loaded is seen as a response, with its address.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(f"console: {message.text}")

    def _response(self, response: Response) -> None:
        # Streamlit itself looks for its own address below the page's first.
        own = response.status == 404 and "/_stcore/" in response.url
        if response.status >= 400 and not own:
            self.problems.append(f"{response.status}: {response.url}")


def tracebacks(log: str) -> list[str]:
    """What a server's log says of unexpected errors."""
    return re.findall(r"^(?:Traceback .*|Exception in .*|Task exception .*)$", log, re.MULTILINE)
