"""Addresses that nobody meant: each page stands, whatever its URL says."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from demo_models import MODELS

pytestmark = pytest.mark.usefixtures("server")

SECONDS = 300  # also on a busy machine
VALUES = ("inf", "<b>[x](y)$z$", "-1", "9" * 5000, "", "\x00", "nan", "٤", "a,b,,c", "1e999")
SETTINGS = """model optimizer momentum iterations seed interval keep bits budget coder scope losses
    folder"""
OF_MODELS = " ".join(
    f"data_{card.name} batch_{card.name} "
    + " ".join(f"lr_{card.name}_{o}" for o in card.optimizers)
    for card in MODELS.values()
)
LIMITS = "want rework distance size rate seconds"
OF_TUNE = " ".join(f"tune_{of}_{limit}" for of in ("run", "files") for limit in LIMITS.split())
PAGES = {  # parameters of their own
    "live": f"""{SETTINGS} {OF_MODELS} step killed_loss speed
        live_crash live_crashes live_shows""",
    "learn": """carry learn_bits learn_follow learn_merges learn_folded learn_tolerance
        learn_answers u track learn_step""",
    "tune": f"{OF_TUNE} tune_source tune_own tune_model tune_wide",
    "recover": """recover_source recover_own recover_model recover_share recover_interval
        recover_fail_at recover_seeds recover_cap recover_seed_5 recover_loss
        recover_crash recover_crashes recover_shows""",
    "inspect": """inspect_follow inspect_step inspect_tensor inspect_alphabet
        inspect_value_linear.weight""",
    "export": "export_source export_step export_path export_without",
}
# What opens a part of a page that has parameters of its own.
OPENED = {
    "live": ({"keep": "Budget", "optimizer": "Adam"},),
    "learn": ({"carry": "16 weights of this run"},),
    "tune": (
        {"tune_source": "another model"},
        {"tune_source": "own files"},
        *({"tune_run_want": want} for want in ("distance", "size", "a day")),
    ),
    "recover": ({"recover_source": "own files"},),
    "export": ({"export_source": "Files of mine"},),
}


def script(name: str) -> None:
    """A page, with what every page begins and ends with."""
    import streamlit as st

    from lcviz import dashboard
    from lcviz.ui import navigation

    dashboard.run(st.navigation([navigation.page(name)], position="hidden"))


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", PAGES)
def test_every_parameter_says_nonsense(name: str, every: int) -> None:
    """Each says all of it, and some of it where another part of the page is open."""
    parameters = f"run weight bucket tables {PAGES[name]}".split()
    cases = [({}, i) for i in range(len(VALUES))]
    cases += [(opened, i) for opened in OPENED.get(name, ()) for i in (0, 2, 3, 5)]
    for opened, first in cases[::every]:
        values = VALUES[first:] + VALUES[:first]
        at = AppTest.from_function(script, args=(name,), default_timeout=SECONDS)
        for key, value in (dict(zip(parameters, cycle(values))) | opened).items():
            at.query_params[key] = value
        at.run()
        shown: list[Any] = [(e.message, e.stack_trace) for e in at.exception]
        assert shown == [], (opened, values)
    at.run()
    assert not at.exception
