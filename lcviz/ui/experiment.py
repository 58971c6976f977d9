"""How a page asks for an experiment of this server, follows it, and stops it.

A job goes on while somebody watches it, see `jobs`. While this session follows one, its part of the
page looks again every second. A job that this session has stopped may go on for others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import streamlit as st

from lcviz.server.jobs import (
    ACTIVE,
    DONE,
    FAILED,
    IDLE,
    STOPPED,
    WAITING,
    CrowdedError,
    View,
    Work,
)
from lcviz.text import plain, plural

from . import session, widgets
from .polling import polled

T = TypeVar("T")
Key = tuple[Hashable, int]  # an experiment, and how many parts of it


@dataclass(frozen=True)
class ControlTexts:
    """What the controls of a job say.

    start, icon, help: of the button that asks for it. working: its progress. done: the text once it
    is finished. after_stop: added once it is stopped: what stays. stop_help: of the button that
    stops it. failed: the text before the reason of a failure. wrong: why nobody can ask for it now;
    "" if they can.
    """

    start: str
    icon: str
    working: str
    help: str | None = None
    done: str = ""
    after_stop: str = ""
    stop_help: str | None = None
    failed: str = "The experiment failed"
    wrong: str = ""


@dataclass(frozen=True)
class PageJob(Generic[T]):
    """A job that one part of a page can ask for.

    name: of that part, in the keys of its widgets and in the session. experiment, parts, work: as
    for `Jobs.ask`.
    """

    name: str
    experiment: Hashable
    parts: int
    work: Work[T]

    @property
    def key(self) -> Key:
        """The experiment and its parts."""
        return self.experiment, self.parts

    @property
    def newest_key(self) -> Key | None:
        """The job that this session has asked for last in this part of the page."""
        return cast("Key | None", st.session_state.get(f"{self.name}-asked"))

    def follow(self, show: Callable[[View[T], bool], None]) -> None:
        """Call show(view, watching), again every second while this session follows the job."""
        watching = self.watched  # only a run of the whole page can change the pace
        polled(session.POLL_SECONDS if watching else None, self._look, show, watching)

    def begin(self) -> None:
        """Ask for the job without a click, unless it is done, active, failed, or stopped here.

        If the line is full, the visitor can still click the button.
        """
        status = session.all_jobs().look(*self.key).status
        if status in (IDLE, STOPPED) and self._stopped_key != self.key:
            with suppress(CrowdedError):
                self._ask()

    def look(self, watching: bool) -> View[T]:
        """The job as it is; watching keeps it going."""
        return session.all_jobs().look(*self.key, self._watcher() if watching else None)

    def controls(
        self, view: View[T], watching: bool, words: ControlTexts, *, bar: bool = True
    ) -> None:
        """The button that starts or stops the job, its progress, and how it ended.

        bar: whether a bar shows the progress, too.
        """
        problem = ""
        with st.container(
            horizontal=True,
            vertical_alignment="center",
            key=f"{self.name}-controls",
            width="stretch" if bar else "content",
        ):
            if watching:
                self._stop_button(words.stop_help)
                st.markdown(_progress_text(view, words.working), width="content")
            elif view.status != DONE:
                problem = self._start_button(words)
            elif words.done:
                st.markdown(words.done, width="content")
        if bar and watching and view.status != WAITING:
            st.progress((len(view.finished_parts) + view.share) / self.parts)
        if problem:
            st.error(problem, icon=":material/hourglass_disabled:")
        elif view.status == FAILED:
            st.error(f"{words.failed}: {plain(view.message)}", icon=":material/error:")
        elif not watching and view.status in ACTIVE:
            st.info("Somebody else has asked for this one: it goes on for them.")
        elif view.status == STOPPED:
            st.info(f"{view.message}{words.after_stop}", icon=":material/stop_circle:")

    def _stop_button(self, text: str | None) -> None:
        """Leave the job when the button is clicked. text: its help."""
        if widgets.button(
            "Stop",
            self._leave,
            icon=":material/stop:",
            key=f"{self.name}-stop",
            type="primary",
            help=text,
        ):
            st.rerun()

    def _start_button(self, words: ControlTexts) -> str:
        """Ask for the job when the button is clicked; returns why that fails."""
        problems: list[str] = []

        def ask() -> None:
            try:
                self._ask()
            except CrowdedError as exc:
                problems.append(str(exc))

        if widgets.button(
            words.start,
            ask,
            icon=words.icon,
            key=f"{self.name}-start",
            type="primary",
            help=words.wrong or words.help,
            disabled=bool(words.wrong),
        ):
            if problems:
                return problems[-1]
            st.rerun()
        return ""

    def _look(self, show: Callable[[View[T], bool], None], watching: bool) -> None:
        view = self.look(watching)
        if watching != self.watched:
            st.rerun()  # the whole page: polling begins or ends
        show(view, watching)

    @property
    def watched(self) -> bool:
        """Whether this session follows the job, which others may have asked for."""
        active = session.all_jobs().look(*self.key).status in ACTIVE
        return active and self._stopped_key != self.key

    def _ask(self) -> None:
        """Get in line. Raises CrowdedError if the line is full."""
        session.all_jobs().ask(self.experiment, self.parts, self.work, self._watcher())
        st.session_state[f"{self.name}-asked"] = self.key
        st.session_state.pop(f"{self.name}-left", None)

    def _leave(self) -> None:
        """Watch the job no longer."""
        session.all_jobs().leave(self._watcher())
        st.session_state[f"{self.name}-left"] = self.key

    @property
    def _stopped_key(self) -> Key | None:
        """The job that this session has stopped last in this part of the page."""
        return cast("Key | None", st.session_state.get(f"{self.name}-left"))

    def _watcher(self) -> str:
        """This session, for this part of the page."""
        return f"{session.visitor()}/{self.name}"


def _progress_text(view: View[T], working: str) -> str:
    more = view.watchers - 1
    shared = f" Shared with {plural(more, 'other page')}." if more > 0 else ""
    if view.status == WAITING:
        return (
            "Waiting: one experiment runs at a time on this server. In line before this one: "
            f"{view.ahead}.{shared}"
        )
    return f"{working}{shared}"
