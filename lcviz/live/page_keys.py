"""Live's keys: Space plays and pauses, the right arrow steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import streamlit as st


def listen() -> None:
    """Make keys press their buttons; draws nothing."""
    _component()(key="keys")


@cache
def _component() -> Any:
    return st.components.v2.component("lcviz.keys", js=_LISTEN)


# A key is ignored while the focused element needs it. A group of buttons needs its arrows.
_LISTEN = """
export default function () {
  document.addEventListener("keydown", press);
  return () => document.removeEventListener("keydown", press);
}

function press(event) {
  const at = document.activeElement ?? document.body;
  const free = at === document.body || (event.key === "ArrowRight" && at.matches(BUTTON));
  if (!free || event.ctrlKey || event.metaKey || event.altKey) return;
  const names = { " ": ["play", "pause"], ArrowRight: ["step"] }[event.key] ?? [];
  const wanted = names.map((name) => `.st-key-${name} button:not([disabled])`).join();
  const button = wanted && document.querySelector(wanted);
  if (!button) return;
  event.preventDefault();
  button.click();
}

const BUTTON = "button:not([role]), button[role=button]";
"""
