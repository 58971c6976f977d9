"""What browser tests share: states of a page that it names itself, to wait for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

MakeTab = Callable[..., Any]  # fixtures that are functions
Save = Callable[..., Path]
PATIENCE = 120_000  # milliseconds for anything awaited: a busy machine is slow, not wrong
SETTLED = """() => {
    const app = document.querySelector('[data-testid=stApp]');
    return app?.dataset.testScriptState === 'notRunning'
        && !document.querySelector('[data-stale=true]');
}"""


def settled(page: Page) -> None:
    """Wait until no script is running, and nothing of the run before is left."""
    page.wait_for_function(SETTLED)


def drawn(page: Page) -> None:
    """Wait until everything that was asked of the board's worker is computed and drawn."""
    page.locator(".board[data-settled]").wait_for()


def sheets(page: Page) -> int:
    """How many sheets of paper the page takes."""
    return int(page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n"))


def expecting(what: Any) -> Any:
    """Playwright's expect, as patient as everything here."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE)
    return expect(what)
