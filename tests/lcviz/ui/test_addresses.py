"""Addresses that nobody meant: each page stands, whatever its URL says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from demo_models import MODELS

pytestmark = pytest.mark.usefixtures("server")

SECONDS = 60
VALUES = (
    "",
    " ",
    "inf",
    "-inf",
    "nan",
    "1e999",
    "-1",
    "0",
    "9" * 5000,
    "0" * 12 + "7",
    "٤",
    "\x00",
    "<b>[x](y)$z$",
    "../../etc",
    "true",
    "None",
    "é" * 300,
    "a,b,,c",
    "1.5",
)
SHARED = ("run", "weight", "bucket", "tables")
SETTINGS = (
    "model",
    "optimizer",
    "momentum",
    "iterations",
    "seed",
    "interval",
    "keep",
    "bits",
    "budget",
    "coder",
    "scope",
    "losses",
    "folder",
)
OF_MODELS = tuple(
    name
    for card in MODELS.values()
    for name in (
        f"data_{card.name}",
        f"batch_{card.name}",
        *(f"lr_{card.name}_{o}" for o in card.optimizers),
    )
)
TIMELINES = ("crash", "crashes", "shows")
PAGES = {
    "live": (
        *SHARED,
        *SETTINGS,
        *OF_MODELS,
        "step",
        "paper",
        "tensor",
        "killed_loss",
        *(f"live_{name}" for name in TIMELINES),
    ),
    "learn": (
        *SHARED,
        "carry",
        "learn_bits",
        "learn_scope",
        "learn_follow_ten",
        "everything",
        "u",
        "track",
        "learn_opened",
        "learn_merges",
        "learn_step",
        "learn_follow_run",
        "learn_written_10",
    ),
    "tune": (
        *SHARED,
        "tune_view",
        "tune_mode",
        "tune_out",
        "tune_scope",
        "tune_k",
        "tune_measure",
        "tune_pick",
        "tune_source",
        "tune_own",
        "tune_model",
        "tune_wide",
        "tune_want_True",
        "tune_size",
        "tune_distance",
        "tune_rework",
        *(f"tune_{who}_{of}" for who in "ab" for of in SETTINGS),
    ),
    "recover": (
        *SHARED,
        "recover_model",
        "recover_share",
        "recover_interval",
        "recover_fail_at",
        "recover_seeds",
        "recover_cap",
        "recover_seed_5",
        "recover_loss",
        *(f"recover_{name}" for name in TIMELINES),
    ),
    "inspect": (
        *SHARED,
        "inspect_follow",
        "inspect_step",
        "inspect_tensor",
        "inspect_alphabet",
        "inspect_value_linear.weight",
    ),
    "export": (*SHARED, "export_source", "export_step"),
}
# What opens a part of a page that has parameters of its own.
OPENED = {
    "live": ({"keep": "Budget"}, {"optimizer": "Adam"}),
    "learn": ({"carry": "16 weights of this run", "everything": "true"}, {"everything": "true"}),
    "tune": (
        {"tune_view": "Recommend one"},
        {"tune_view": "All settings"},
        {"tune_view": "Tensor by tensor"},
        {"tune_view": "Bucket by bucket"},
        {"tune_view": "Bucket by bucket", "tune_mode": "Leave out any"},
    ),
    "export": ({"export_source": "Files of mine"},),
}


@pytest.fixture
def at_page() -> Callable[..., AppTest]:
    """A page of its own, with these parameters and the line above every page."""

    def script(name: str) -> None:
        import importlib

        from lcviz.ui import follow_weight

        follow_weight.toolbar()
        importlib.import_module(f"lcviz.{name}.page").page()

    def run(name: str, parameters: dict[str, str]) -> AppTest:
        at = AppTest.from_function(script, args=(name,), default_timeout=SECONDS)
        for key, value in parameters.items():
            at.query_params[key] = value
        return at.run()

    return run


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v[:12]))
@pytest.mark.parametrize("name", PAGES)
def test_every_parameter_says_nonsense(
    at_page: Callable[..., AppTest], name: str, value: str
) -> None:
    for opened in ({}, *OPENED.get(name, ())):
        at = at_page(name, dict.fromkeys(PAGES[name], value) | opened)
        told: list[Any] = [(e.message, e.stack_trace) for e in at.exception]
        assert told == [], opened
        at.run()
        assert not at.exception, opened
