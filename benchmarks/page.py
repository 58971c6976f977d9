"""What a visitor of the dashboard waits for, what watching costs, and whether a crowd fits in.

    PYTHONPATH=. python benchmarks/page.py [first|controls|watching|soak ...] [--rounds 5]
        [--visitors 8] [--minutes 30] [--chromium /usr/bin/chromium]

first: seconds until the first chart of each page, and of a bare page with one chart. controls:
seconds from a key or a click to what it changes. watching: iterations a second of the training,
watched and not, and remounts. soak: so many visitors at the same time for so many minutes, on a
server of their own; fails on a mix-up, an error, or memory that grows. Without a part: the first
three. Each is a module of `dashboard/`. Needs Linux, playwright (requirements-dev.txt) and a
Chromium.
"""

from __future__ import annotations

import argparse

from playwright.sync_api import sync_playwright

from benchmarks.dashboard import controls, first, soak, watching
from benchmarks.dashboard.serving import FLAGS, server

PARTS = ("first", "controls", "watching", "soak")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="part")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--visitors", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=30)
    options = parser.parse_args()
    parts = options.parts or PARTS[:-1]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        if {"first", "controls", "watching"} & set(parts):
            with server("app.py") as ours:
                first.warm(browser, ours.url)
                if "first" in parts:
                    with server("benchmarks/bare_page.py") as bare:
                        first.report(browser, ours, bare, options.rounds)
                if "controls" in parts:
                    controls.report(browser, ours, options.rounds)
                if "watching" in parts:
                    watching.report(browser, ours, options.rounds)
        if "soak" in parts:
            with server("app.py") as ours:
                soak.soak(browser, ours, options.visitors, options.minutes)


if __name__ == "__main__":
    main()
