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


def expecting(what: Any) -> Any:
    """Playwright's expect, as patient as everything here."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE)
    return expect(what)
