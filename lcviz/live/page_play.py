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
from lcviz.text import enumerated

from .page_attempt import stored_attempt
from .page_step import viewed_checkpoint

CODERS = ("runlength", "huffman")  # of the board's worker


def play_button(run: Run, settings: RunSettings) -> None:
    """Offer the play page with the settings on this page."""
    attempt, coding = stored_attempt(), run.settings.coding
    own = Trial(coding)
    tried = attempt.trial(coding) if attempt else own
    step = min(max(viewed_checkpoint(run.snapshot()).step, EXAMPLE.interval), EXAMPLE.stop_after)
    (setting, unknown), (saved, _) = board_setting(tried), board_setting(own)
    st.download_button(
        "Open without a server",
        partial(play_html, settings.seed, setting, step, saved),
        "play.html",
        "text/html",
        key="play-page",
        icon=":material/download:",
        on_click="ignore",
        help="This page as one file, for a lecture or a mail. It trains logistic regression on the "
        "digits in the browser, with this seed, and the bits, coder and track that you try here. "
        f"{unknown}",
    )


def board_setting(trial: Trial) -> tuple[dict[str, Any], str]:
    """A trial as the board's worker names it, and a sentence on what the worker does not know."""
    coding, unknown = trial.coding, []
    setting: dict[str, Any] = {"x": EXAMPLE.coding.bits, "most": trial.most_buckets, "budget": None}
    setting |= {"coder": EXAMPLE.coding.coder, "carries": trial.carries}
    if coding.coder in CODERS:
        setting["coder"] = coding.coder
    else:
        unknown.append(f"the {coding.coder} coder")
    if coding.scope != "model":
        unknown.append("buckets over each tensor")
    if coding.by_bits:
        setting["x"] = coding.bits
    elif coding.budget is not None and coding.uniform:
        setting["budget"] = round(coding.budget, 6)  # of a percentage
    else:
        unknown.append(f"a {coding.target}" if coding.uniform else "a budget of powers of two")
    if not unknown:
        return setting, ""
    return setting, f"This example does not know {enumerated(unknown)}: a run on this server does."
