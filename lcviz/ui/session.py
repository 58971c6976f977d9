"""This visitor's session: the run that its pages show, kept in the URL, and the server's parts.

The run's id is in the URL, so a reload or a second tab finds the same run, and two people with
different links do not meet. Who may steer it: see `steering`.
"""

from __future__ import annotations

import math
import os
import secrets
import statistics
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

import codec
import demo_models
from lcviz.lab.removed_bucket import RemovedBuckets
from lcviz.run.run import Run
from lcviz.run.snapshot import BUSY, RunError
from lcviz.server.allowed_paths import FOLDERS, check_within
from lcviz.server.jobs import Jobs
from lcviz.server.quota import Shelf
from lcviz.server.replays import Replays
from lcviz.server.runs import EXAMPLE_ID, Runs

from .polling import rerun_once
from .steering import COOKIE, KEY, Steering

POLL_SECONDS = 1.0
LIVELY_SECONDS = 10.0  # of training; later everything changes more slowly
LATER_POLL_SECONDS, MOST_POLL_SECONDS = 2.0, 4.0
# A look takes time from a training on the same machine: the server renders the pictures, and a
# browser takes about as long to draw them.
LOOK_SHARE = 1 / 40  # the share of the time that rendering may take
LOOKS = 5  # how many looks at a run are timed; then its pace stays as it is
RESTING_POLL_SECONDS = 10.0
STARTING_POLL_SECONDS = 0.3
T = TypeVar("T")
_STEERING = "steering"  # in the session
_VISITOR, _SEEN = "visitor", "seen-run"  # in the session: see `visitor`; the run that it shows
_RUN, WEIGHT = "run", "weight"  # in the URL of every page
_looks: WeakKeyDictionary[Run, list[float]] = WeakKeyDictionary()  # seconds of the first LOOKS


@st.cache_resource(show_spinner=False)
def all_runs() -> Runs:
    """The manager of this server's runs; it prepares the example on first use."""
    runs = Runs()
    runs.prepare()
    return runs


@st.cache_resource(show_spinner=False)
def all_jobs() -> Jobs[Any]:
    """The line of this server's experiments."""
    return Jobs(has_page)


@st.cache_resource(show_spinner=False)
def all_replays() -> Replays:
    """This server's replays: whole runs saved once more, as visitors try other settings."""
    return Replays()


@st.cache_resource(show_spinner=False)
def all_measurements() -> Jobs[RemovedBuckets]:
    """The line of measurements of single steps, apart from `all_jobs`."""
    return Jobs()


@st.cache_resource(show_spinner=False)
def shelf() -> Shelf:
    """This server's disk space for visitors' files."""
    return Shelf()


def check_may_read(*paths: Path) -> None:
    """Raise SourceError, which says what to do, unless a visitor may name these paths."""
    check_within(paths, st.get_option("server.address"), os.environ.get(FOLDERS, ""))


def readable_path(text: str) -> Path:
    """A path that a visitor names. Raises SourceError, which says what to do, if they may not."""
    path = Path(text)
    with suppress(RuntimeError):  # no such user: then there is no such path either
        path = path.expanduser()
    check_may_read(path)
    return path


def current_run() -> Run | None:
    """The run named in the URL, else the finished example; warns if the link is stale.

    None while a new server still trains its example, see `await_example`. None with an error on the
    page if it cannot train it.
    """
    run = own_run()
    if run is None:
        if not all_runs().prepared():
            return None
        try:
            run = all_runs().example()
        except (RunError, codec.LccError, demo_models.DataError, OSError) as exc:
            st.error(
                f"The example run cannot be trained on this server. {str(exc).rstrip('.')}. What "
                "needs no run works all the same; reload the page to try again.",
                icon=":material/error:",
            )
            return None
    return run


def own_run() -> Run | None:
    """The run named in the URL; None without one, with a warning if the link is stale."""
    steerable = steered()
    if (begun := steerable.just_begun()) is not None:
        remember(_RUN, begun.id)
        steerable.begun = None
    run_id = steerable.newest(remembered(_RUN))
    run = None if run_id == EXAMPLE_ID else all_runs().get(run_id)
    if run is None and run_id not in (None, EXAMPLE_ID):
        if all_runs().is_stored(run_id):
            st.warning(
                "The run in this link cannot be opened now: another server has it, this one is "
                "full, or the dashboard has changed since. Reload the page to try again.",
                icon=":material/link_off:",
            )
            return None  # the link stays
        st.warning(
            "The run in this link is no longer on this server: it was reset, gave its place to "
            "another run, or is older than a day. This page now shows the example.",
            icon=":material/link_off:",
        )
    look_at(run)
    return run


def await_example() -> None:
    """Say that the example is being trained, and run the whole page again once it is there."""
    if all_runs().prepared():
        return
    st.info(
        "The example is being trained, which takes a few seconds.", icon=":material/hourglass_top:"
    )
    rerun_with_example()


def rerun_with_example() -> None:
    """Run the whole page again as soon as a new server has its example."""
    rerun_once(all_runs().prepared, STARTING_POLL_SECONDS)


def steered() -> Steering:
    """The runs that this session may steer."""
    if _STEERING not in st.session_state:
        cookie = st.context.cookies.get(COOKIE, "")
        st.session_state[_STEERING] = Steering(all_runs(), [k for k in cookie.split(".") if k])
    steering: Steering = st.session_state[_STEERING]
    return steering


def look_at(run: Run | None) -> None:
    """Make this session and its URL show a run of a visitor, or none."""
    if run is not None and KEY in st.query_params:  # a private link
        steered().take(st.query_params.pop(KEY), run)
    seen: Run | None = st.session_state.get(_SEEN)
    if seen is not None and seen is not run:
        seen.leave(visitor())
    st.session_state[_SEEN] = run
    if run is not None:
        run.watch(visitor(), has_page)
    remember(_RUN, run.id if run else None)


def visitor() -> str:
    """An id of this session: Streamlit's, a slash, and a random part that nobody else knows."""
    context = get_script_run_ctx()
    assert context is not None, "a page is drawn"
    text: str = st.session_state.setdefault(
        _VISITOR, f"{context.session_id}/{secrets.token_hex(8)}"
    )
    return text


def has_page(visitor: str) -> bool:
    """Whether a visitor has any page open. visitor: the id; more may follow after a slash."""
    return runtime.exists() and runtime.get_instance().is_active_session(visitor.partition("/")[0])


def keep_in_url() -> None:
    """Write the run and the followed weight into the URL of every page.

    A change of page drops them from it; a reload or a link then still finds them.
    """
    for name in (_RUN, WEIGHT):
        if value := remembered(name):
            remember(name, value)


def remembered(name: str) -> str | None:
    """A setting that all pages share: from the URL, else its last value in this session.

    A change of page drops the URL's parameters.
    """
    value = st.query_params.get(name, st.session_state.get(f"remembered-{name}"))
    return None if value is None else str(value)


def remember(name: str, value: str | None) -> None:
    """Store a setting in this session and its URL; None removes it from both."""
    st.session_state[f"remembered-{name}"] = value
    if value is None:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value


def cached(place: str, key: object, make: Callable[[], T]) -> T:
    """What `make` returns, made once while this session asks `place` for the same key.

    If it raises, nothing is stored.
    """
    entry: tuple[object, T] | None = st.session_state.get(place)
    if entry is None or entry[0] != key:
        st.session_state.pop(place, None)  # frees it before the next one is made
        entry = st.session_state[place] = key, make()
    return entry[1]


def is_example(run: Run) -> bool:
    """True for the server's own finished run, which nobody can change."""
    return run.id == EXAMPLE_ID


def poll_interval(run: Run) -> float | None:
    """Seconds between looks at a run; None for the example, which never changes.

    A run at rest is looked at too: another tab may have played or reset it.
    """
    if is_example(run):
        return None
    snapshot = run.snapshot()
    if snapshot.status not in BUSY:
        return RESTING_POLL_SECONDS
    if snapshot.wall_seconds < LIVELY_SECONDS:
        return POLL_SECONDS
    looks = _looks.get(run, [])
    if len(looks) < LOOKS:
        return LATER_POLL_SECONDS
    seconds = math.ceil(2 * statistics.median(looks) / LOOK_SHARE) / 2
    return min(max(seconds, LATER_POLL_SECONDS), MOST_POLL_SECONDS)


def time_look(run: Run, seconds: float) -> None:
    """Record how many seconds a look at a run has taken: slow looks become less frequent.

    Only the first LOOKS count: each change of pace runs the whole page again.
    """
    looks = _looks.setdefault(run, [])
    if len(looks) < LOOKS:
        looks.append(seconds)
