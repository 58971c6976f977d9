"""Pictures of every page, light and dark: the first screen at three sizes, and the whole page.

    PYTHONPATH=. python benchmarks/screenshots.py FOLDER [--chromium /usr/bin/chromium]

docs/img holds parts of some of them, for the README.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.dashboard.serving import FLAGS, server

CHARTS = {
    "live": "[data-picture=examples]",
    "learn": "[data-picture=restart] svg",
    "tune": ".st-key-panel-frontier .js-plotly-plot .main-svg",
    "recover": "[data-picture=curves] svg",
    "inspect": ".st-key-panel-exponents .js-plotly-plot .main-svg",
    "export": "[data-testid=stDownloadButton]",
    "glossary": ".st-key-glossary-asked",
}
SIZES = (1280, 720), (1400, 900), (800, 1000)
PATHS = {
    "live": "/",
    "glossary": "/glossary?term=bucket",
}


def shoot(
    browser: Browser, address: str, name: str, scheme: str, size: tuple[int, int], folder: Path
) -> None:
    """Take pictures of one page once its chart is drawn: the first screen, and the whole page."""
    width, height = size
    context = browser.new_context(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": width, "height": height},
    )
    page = context.new_page()
    page.goto(address + PATHS.get(name, f"/{name}"))
    page.locator(CHARTS[name]).first.wait_for(timeout=60_000)
    page.wait_for_timeout(1500)
    page.screenshot(path=folder / f"{name}-{scheme}-{width}x{height}.png")
    page.set_viewport_size({"width": width, "height": full_height(page)})
    page.wait_for_timeout(1500)
    page.screenshot(path=folder / f"{name}-{scheme}-{width}-whole.png")
    context.close()


def full_height(page: Page) -> int:
    """The height at which the page shows everything without scrolling."""
    return int(page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")) + 20


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, server("app.py") as ours:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        for name in CHARTS:
            for scheme in ("light", "dark"):
                for size in SIZES:
                    shoot(browser, ours.url, name, scheme, size, options.folder)


if __name__ == "__main__":
    main()
