"""The two links of a run: one to look at it, and one to steer it."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

import streamlit as st

from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING

from . import session
from .live_settings import run_parameters
from .steering import KEY


def popover(run: Run) -> None:
    """The button that opens the links. Visitors who may not steer get only the first one."""
    with st.popover("Share", icon=":material/share:", key="share"):
        st.markdown("**Look**: who has this link sees the run, and cannot change it.")
        st.code(look_link(run), language=None, wrap_lines=True)
        if session.steered().allows(run):
            st.markdown("**Steer**: who has this link can also pause, reset and kill it.")
            st.code(steer_link(run), language=None, wrap_lines=True)


def look_link(run: Run) -> str:
    """The address of this page with the run, without the key that lets others steer it.

    If the run rests, the address names the step, so it shows the same after the run has gone on.
    """
    snapshot = run.snapshot()
    step = {} if snapshot.status == PLAYING else {"step": str(snapshot.newest.step)}
    return _address(step | st.query_params.to_dict() | {"run": run.id})


def steer_link(run: Run) -> str:
    """The address of this page with the run and its key. The form has its settings, for a Reset."""
    return _address(
        {"run": run.id, KEY: session.all_runs().key(run)} | run_parameters(run.settings)
    )


def _address(parameters: dict[str, str]) -> str:
    """The page with these parameters."""
    here = urlsplit(st.context.url or "")
    return f"{here.scheme}://{here.netloc}{here.path}?{urlencode(parameters)}"
