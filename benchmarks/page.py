"""What a visitor of the dashboard waits for, what watching costs, and whether a crowd fits in.

    PYTHONPATH=. python benchmarks/page.py
        [fresh|restart|warm|controls|clicks|watching|play|soak ...]
        [--pages live learn ...] [--rounds 5] [--clicks 500] [--visitors 8] [--minutes 30]
        [--chromium PATH]

fresh, restart, warm: seconds until the first picture of each page, and of a bare page with one
chart, on a server just installed, just started, and visited before. controls: seconds from a key, a
click or a drag to what it changes. clicks: on the buttons of a training that ticks, beside busy
processes; fails if one is lost. watching: iterations a second of the training, watched and not,
and remounts. play: the page without a server. soak: so many visitors at the same time for so many
minutes; fails on a mix-up, an error, or memory that grows. Without a part: warm, controls,
watching. Each is a module of `dashboard/`. Needs Linux, playwright (requirements-dev.txt) and a
Chromium: Debian's headless shell if it is there, else its chromium.
"""

from __future__ import annotations

import argparse

from playwright.sync_api import sync_playwright

from benchmarks.dashboard import clicks, controls, first, play, soak, watching
from benchmarks.dashboard.serving import FLAGS, chromium, server

PARTS = (*first.SITUATIONS, "controls", "clicks", "watching", "play", "soak")
USUAL = ("warm", "controls", "watching")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="part")
    parser.add_argument("--chromium", default=chromium())
    parser.add_argument("--pages", nargs="+", choices=first.PAGES, default=first.PAGES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clicks", type=int, default=500)
    parser.add_argument("--visitors", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=30)
    options = parser.parse_args()
    parts = options.parts or USUAL
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        print(f"{options.chromium}, version {browser.version}")
        for situation in first.SITUATIONS:
            if situation in parts:
                first.report(browser, situation, options.rounds, tuple(options.pages))
        if {"controls", "watching"} & set(parts):
            with server("app.py") as ours:
                first.warm(browser, ours.url)
                if "controls" in parts:
                    controls.report(browser, ours, options.rounds)
                if "watching" in parts:
                    watching.report(browser, ours, options.rounds)
        if "play" in parts:
            play.report(browser, options.rounds)
        if "clicks" in parts:
            with server("app.py") as ours:
                clicks.report(browser, ours, options.clicks)
        if "soak" in parts:
            with server("app.py") as ours:
                soak.soak(browser, ours, options.visitors, options.minutes)


if __name__ == "__main__":
    main()
