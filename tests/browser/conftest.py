"""One server and one Chromium for all browser tests; its picture alone where that is enough.

Where it is installed, Chromium's headless shell, which needs a quarter less of the processor
(Debian: chromium-headless-shell). Without Playwright or Chromium the tests are skipped; with
LCVIZ_REQUIRE_BROWSER=1, as in continuous integration, they fail instead.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import pytest

from tests.browser import states
from tests.browser.states import PATIENCE, expecting

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request

ROOT = Path(__file__).resolve().parents[2]
# The README's app.py, which looks at what runs more often.
SCRIPT = """
import runpy
import sys

if session := sys.modules.get("lcviz.ui.session"):
    session.POLL_SECONDS, session.LIVELY_SECONDS = 0.4, 1e9
runpy.run_path("app.py")
"""
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser")
ARGUMENTS = [
    "--no-sandbox",
    "--font-render-hinting=none",  # letters as wide as in a window
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SECONDS_TO_START = 90
# The pages' own content: not the library's toolbar.
OWN = {"include": ["[data-testid=stMain]", "[data-testid=stSidebar]"]}
# Half-way through a fade there is no contrast yet.
NO_FADING = "*, *::before, *::after { transition: none !important; animation: none !important; }"
LOOKS = 20  # of axe, at most, until no script has run during one: what a run replaces is pale
# How often the script's state has changed since this was first asked.
CHANGES = """() => {
    window.lcvizChanges ??= [0];
    window.lcvizWatch ??= new MutationObserver(() => { window.lcvizChanges[0] += 1; });
    window.lcvizWatch.observe(document.querySelector('[data-testid=stApp]'),
        { attributeFilter: ['data-test-script-state'] });
    return window.lcvizChanges[0];
}"""
FITS = """() => [document.scrollingElement, document.querySelector('[data-testid=stMain]')]
    .every(node => node.scrollWidth <= node.clientWidth)
    && [...document.querySelectorAll('[data-testid=stTable]')]
    .every(node => node.scrollWidth <= node.clientWidth + 1)"""
HOLDER = """<!DOCTYPE html><meta name=viewport content='width=device-width'>
<style>%s</style><main></main>"""
SHOW = """
window.sent = [];
window.show = (data) => draw({ data: said(data), parentElement: document.querySelector("main"),
    setTriggerValue: (...what) => sent.push(what) });
"""
_log = pytest.StashKey[Path]()


def _missing(what: str) -> None:
    if os.environ.get("LCVIZ_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{what} is missing, and LCVIZ_REQUIRE_BROWSER=1 asks for it")
    pytest.skip(f"{what} is missing")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
    """Show the end of the server's log below a failed test."""
    report = yield
    log = item.config.stash.get(_log, None)
    if report.failed and log is not None and log.exists():
        report.sections.append(("server log", log.read_text(errors="replace")[-4000:]))
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("Playwright")
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        _missing("Chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def server(
    browser: Browser,
    kernels: None,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Iterator[str]:
    """The dashboard's URL; its server is ended afterwards."""
    script = tmp_path_factory.mktemp("server") / "script.py"
    script.write_text(SCRIPT)
    pytestconfig.stash[_log] = script.with_name("log")
    with _serving(script.with_name("log"), script) as url:
        page = browser.new_page()
        page.goto(url)
        # Everything is imported: the sidebar is there, folded.
        page.get_by_test_id("stExpandSidebarButton").wait_for(timeout=5 * PATIENCE)
        page.close()
        yield url


@contextlib.contextmanager
def _serving(
    log: Path,
    script: str | Path,
    *arguments: str,
    port: int = 0,
    processes: list[subprocess.Popen[bytes]] | None = None,
) -> Iterator[str]:
    """A server's URL.

    arguments: of the dashboard, behind the --. port: 0 for any. processes: gets that of the server.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(script)]
    command += ["--server.port", str(port), "--server.headless", "true", "--", *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "LCVIZ_DATA"}
    environment["PYTHONPATH"] = str(ROOT)
    # Tests write byte code and caches next to the sources: no reason to look at those again.
    environment["STREAMLIT_SERVER_FILE_WATCHER_TYPE"] = "none"
    url = f"http://127.0.0.1:{port}"
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        if processes is not None:
            processes.append(process)
        try:
            _wait_until_healthy(url, process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')}")


class Tab:
    """A browser tab at the dashboard that keeps account of everything that goes wrong in it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.problems: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("request", self._request)
        page.on("requestfailed", self._failed)

    def _console(self, message: ConsoleMessage) -> None:
        # Streamlit itself looks for its own address below the page's first.
        own = "status of 404" in message.text and "/_stcore/" in message.location["url"]
        if message.type == "error" and not own:
            self.problems.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        host = urlsplit(request.url).hostname
        if host not in ("127.0.0.1", None):  # data: and blob: have no host
            self.problems.append(f"request to another host: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a download, or a page that was left
            self.problems.append(f"failed: {request.url}: {request.failure}")

    def open(self, path: str = "/") -> Tab:
        """Open a path of the dashboard."""
        self.page.goto(self.url + path)
        return self

    def go(self, name: str) -> None:
        """To another page by its link, once this one stands: before that a click may get lost.

        Seen once in hundreds of times, on a machine that was busy; the browser's or Streamlit's.
        """
        link = self.page.get_by_test_id("stToolbar").get_by_role("link", name=name, exact=True)
        self.expecting(link).to_be_visible()
        self.settled()
        link.click()

    def settled(self) -> None:
        """Wait until no script is running, and nothing of the run before is left."""
        states.settled(self.page)

    def title(self, told: str | re.Pattern[str]) -> Locator:
        """The page's title, once it is this one alone: a title it replaces may stay a moment."""
        title = self.page.get_by_role("heading", level=1)
        self.expecting(title.filter(has_text=told)).to_have_count(1)
        self.expecting(title).to_have_count(1)
        return title

    def figure(self, key: str) -> Locator:
        """The picture of a panel."""
        return self.page.locator(f".st-key-panel-{key} .js-plotly-plot")

    def upload(self, chooser: Locator, files: Path | list[Path]) -> None:
        """Choose files, once nothing redraws the place for them."""
        self.settled()
        chooser.set_input_files(files)

    def check_on_first_screen(self, what: Locator) -> None:
        """All of it is visible in a window of 1280×720, without scrolling."""
        self.page.set_viewport_size({"width": 1280, "height": 720})
        self.settled()
        self.expecting(what.first).to_be_visible()
        self.page.wait_for_function(FITS)
        # Once what is above has its final height. Until then it may be drawn anew, and be there
        # twice for a moment.
        self.expecting(what.first).to_be_in_viewport(ratio=1)
        self.expecting(what).to_have_count(1)

    def check_fits(self) -> None:
        """Nothing scrolls sideways and no table is cut, in a wide and in a narrow window."""
        for width in (1400, 800):
            self.resize(width)

    def resize(self, width: int) -> None:
        """Give the window another width; its content has to fit."""
        self.page.set_viewport_size({"width": width, "height": 1000})
        self.page.wait_for_function(FITS)  # charts follow the window a moment later

    expecting = staticmethod(expecting)

    def check_accessible(self, shown: str, only: Sequence[str] = ()) -> None:
        """Axe finds nothing once that is shown and the script is done.

        only: its rules that are looked at, if not all.
        """
        from axe_playwright_python.sync_playwright import Axe

        self.expecting(self.page.locator(shown).first).to_be_visible()
        self.page.add_style_tag(content=NO_FADING)
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        options |= {"runOnly": list(only)} if only else {}
        for _ in range(LOOKS):
            self.settled()
            before = self.page.evaluate(CHANGES)
            found = Axe().run(self.page, context=OWN, options=options).response["violations"]
            if self.page.evaluate(CHANGES) == before:
                break
        told = [(v["id"], n["html"][:200], n["failureSummary"]) for v in found for n in v["nodes"]]
        assert told == []

    def check(self) -> None:
        """Nothing went wrong: no error box, no console error, no foreign request."""
        from playwright.sync_api import expect

        expect(self.page.get_by_test_id("stException")).to_have_count(0)
        assert self.problems == []

    @property
    def run_id(self) -> str | None:
        """The run in the URL."""
        found = re.search(r"[?&]run=([^&]+)", self.page.url)
        return found[1] if found else None


@pytest.fixture(scope="session")
def visits(browser: Browser) -> Iterator[BrowserContext]:
    """What all tabs share: the browser's cache, as with a person who opens several."""
    with browser.new_context(accept_downloads=True, reduced_motion="reduce") as context:
        yield context


MakeTab = Callable[..., Tab]


@contextlib.contextmanager
def _tabs(visits: BrowserContext, server: str) -> Iterator[MakeTab]:
    pages = []

    def make(color_scheme: Literal["light", "dark"] = "light", width: int = 1400) -> Tab:
        page = visits.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 1000})
        page.emulate_media(color_scheme=color_scheme)
        return Tab(page, server)

    yield make
    for page in pages:
        # Streamlit keeps there that the settings were unfolded: the next tab begins without.
        if not page.is_closed() and page.url.startswith("http"):
            page.evaluate("localStorage.clear()")
        page.close()


@pytest.fixture
def tab(visits: BrowserContext, server: str) -> Iterator[MakeTab]:
    """A tab of its own, and with it a session: tab(color_scheme="dark", width=800)."""
    before = visits.pages
    with _tabs(visits, server) as make:
        yield make
    for page in visits.pages:  # opened by those
        if page not in before:
            page.close()


@pytest.fixture(scope="session")
def save() -> Callable[..., Path]:
    """Save steps first to last of a chain, see `save_steps`."""
    from tests.lcviz.common import save_steps

    return save_steps


Alone = Callable[..., "Page"]


@pytest.fixture
def alone(browser: Browser) -> Iterator[Alone]:
    """alone(name, data, width=390): a page that holds one of our own pictures and nothing else.

    show(data) draws it again; `sent` has what it would have told the server. stopped: its clock
    stands still, at a second after the start. options: of the browser's context.
    """
    from lcviz.ui.picture import drawing, style

    with contextlib.ExitStack() as stack:

        def make(
            name: str,
            data: Any,
            width: int = 800,
            height: int = 400,
            stopped: bool = False,
            **options: Any,
        ) -> Page:
            size = {"width": width, "height": height}
            context = stack.enter_context(
                browser.new_context(offline=True, viewport=size, **options)
            )
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            if stopped:
                page.clock.install(time=0)
                page.clock.pause_at(1000)
            page.set_content(HOLDER % style().replace(":host", ":root"))
            page.add_script_tag(content=drawing(name) + SHOW)
            page.evaluate("show", data)
            return page

        yield make


@pytest.fixture
def watching(
    visits: BrowserContext, tmp_path: Path, pytestconfig: pytest.Config
) -> Iterator[MakeTab]:
    """Such a tab at a server of its own, started as the README says, with arguments."""
    with contextlib.ExitStack() as stack:
        before = pytestconfig.stash.get(_log, None)

        def make(*arguments: str | Path, **options: Any) -> Tab:
            log = pytestconfig.stash[_log] = tmp_path / "server.log"
            url = stack.enter_context(_serving(log, "app.py", *map(str, arguments)))
            return stack.enter_context(_tabs(visits, url))(**options)

        yield make
        if before is not None:
            pytestconfig.stash[_log] = before


@pytest.fixture
def dying(
    visits: BrowserContext, kernels: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Tab, Callable[[], None], Callable[[], None]]]:
    """A tab at a server of its own, and functions that kill the server, and start it again."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    processes: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:

        def serve(port: int = 0) -> str:
            log = tmp_path / f"log-{len(processes)}"
            return stack.enter_context(_serving(log, "app.py", port=port, processes=processes))

        url = serve()

        def kill() -> None:
            processes[-1].kill()
            processes[-1].wait()

        def start() -> None:
            serve(int(url.rpartition(":")[2]))

        yield stack.enter_context(_tabs(visits, url))(), kill, start
