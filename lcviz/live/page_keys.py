"""Live's keys: Space plays and pauses, the right arrow steps."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

MODULE = Path(__file__).with_suffix(".js")


def listen() -> None:
    """Make keys press their buttons; draws nothing."""
    _component()(key="keys")


@cache
def _component() -> Any:
    return st.components.v2.component("lcviz.keys", js=MODULE.read_text(encoding="utf-8"))
