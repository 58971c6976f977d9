"""Who may steer a run: whoever holds its key, in this session or in this browser.

The run's id in the URL lets others look. The key is never there, so a copied address only lets
others look. The key stays in the session and in a cookie, which brings it back after a reload and
into other tabs; a second, private link hands it on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from lcviz.run.run import Run
from lcviz.run.snapshot import RunError
from lcviz.server.runs import Runs

KEY = "steer"  # in a private link, until it is opened
COOKIE = "lcviz-steer"
MOST_KEYS = 12  # in the cookie: a server holds no more runs
MODULE = Path(__file__).with_suffix(".js")


class Steering:
    """The runs that one session may steer, and the one it has just begun.

    A plain object, since a callback that touches the session ends there if another rerun waits.

    keys: of runs, the newest first. begun: a run that the page does not show yet. press: the press
    of the board's Start that began the last run. answer: the last press that began none, the
    settings then, and why. speed: the last text of the speed slider. turn: a lock for beginning or
    steering a run; another click or page waits for it meanwhile, and then sees the outcome.
    """

    def __init__(self, runs: Runs, keys: Sequence[str]) -> None:
        self._runs, self.keys = runs, list(keys)
        self.begun: Run | None = None
        self.press = ""
        self.answer: tuple[str, object, str] = "", None, ""
        self.speed: str | None = None
        self.turn = threading.RLock()
        self._successors: dict[str, str] = {}  # id of a run that was reset -> id of the next one

    def begin(self, run: Run, instead_of: Run | None = None, press: str = "") -> None:
        """Take a run that this session has made: by a reset of another, or by a press of Start."""
        self.keys.insert(0, self._runs.key(run))
        if instead_of is not None:
            self._successors[instead_of.id] = run.id
        self.begun, self.press = run, press or self.press

    def just_begun(self) -> Run | None:
        """A run that the page does not show yet, also if it is being made right now."""
        with self.turn:
            return self.begun

    def newest(self, run_id: str | None) -> str | None:
        """The id of this run, or after resets that of its newest successor.

        A click can arrive before the browser has drawn a reset: it still names the old run.
        """
        while run_id in self._successors:
            run_id = self._successors[run_id]
        return run_id

    def take(self, key: str, run: Run) -> None:
        """Take a key, if it is the run's."""
        if key not in self.keys and self._runs.opened_by(run, [key]):
            self.keys.insert(0, key)

    def allows(self, run: Run) -> bool:
        """Whether this session may steer the run."""
        return self._runs.opened_by(run, self.keys)

    def of(self, run: Run) -> Run:
        """The run, or its newest successor, to steer. Raises RunError unless this session may."""
        with self.turn:
            newest = self._runs.get(self.newest(run.id)) or run
            if not self.allows(newest):
                raise RunError("You are watching this run. Only who began it can steer it.")
            return newest


def keep_in_browser(steering: Steering) -> None:
    """Let the browser keep the keys, for reloads and other tabs; nothing is drawn."""
    data = {"keys": steering.keys[:MOST_KEYS], "cookie": COOKIE, "most": MOST_KEYS}
    _keeper()(key="steering-cookie", data=data)


@cache
def _keeper() -> Any:
    return st.components.v2.component("lcviz.steering", js=MODULE.read_text())
