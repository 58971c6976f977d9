"""Open without a server: the button that downloads Live as one file, as it is on the page."""

from __future__ import annotations

from functools import partial
from typing import Any

import streamlit as st

from lcviz.play.one_file import play_html
from lcviz.run.run import Run
from lcviz.run.snapshot import RunSettings
from lcviz.run.whole_run import Trial
from lcviz.server.runs import EXAMPLE

from .page_attempt import stored_attempt
from .page_step_slider import viewed_checkpoint

CODERS = ("runlength", "huffman")  # of the play page


def play_button(run: Run, settings: RunSettings) -> None:
    """Offer the play page with the settings on this page."""
    attempt, coding = stored_attempt(), run.settings.coding
    own = Trial(coding)
    tried = attempt.trial(coding) if attempt else own
    step = min(max(viewed_checkpoint(run.snapshot()).step, EXAMPLE.interval), EXAMPLE.stop_after)
    st.download_button(
        "Open without a server",
        partial(play_html, settings.seed, _setting(tried), step, _setting(own)),
        "play.html",
        "text/html",
        key="play-page",
        icon=":material/download:",
        on_click="ignore",
        help="This page as one file, for a lecture or a mail. It trains logistic regression on the "
        "digits in the browser, with this seed, and the bits, coder and track that you try here.",
    )


def _setting(trial: Trial) -> dict[str, Any]:
    """A trial as the play page names it, without targets that it does not know."""
    setting: dict[str, Any] = {"carries": trial.carries}
    if trial.coding.coder in CODERS:
        setting["coder"] = trial.coding.coder
    if trial.most_buckets is not None:
        setting["most"] = trial.most_buckets
    if trial.coding.by_bits:
        setting["x"] = trial.coding.bits
    elif trial.coding.budget is not None and trial.coding.uniform:
        setting["budget"] = trial.coding.budget
    return setting
