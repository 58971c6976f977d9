"""One restored value: its bits, and how it has moved over the steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import streamlit as st

import codec
from codec.errors import ArchiveError, ParentError, RerunNeededError, VanishedError
from lcviz.lab.lesson import fields
from lcviz.lab.step_tensors import StepFacts
from lcviz.lab.value_history import (
    MOST_KEPT,
    History,
    Place,
    Stretch,
    element,
    read_some,
    read_stretch,
    stretches_of,
)
from lcviz.report.tensors_figure import stored_text
from lcviz.report.value_figure import value_over_steps
from lcviz.text import minus, plain, plural
from lcviz.ui import session, widgets

from .page_open import ChainSource, Findings
from .page_parts import deadline, more_button, progress_bar, sentence
from .page_remote import answer

UNASKED_SECONDS = 2  # of reading without a click
LOOK_SECONDS = 0.2  # of reading between two looks whether the visitor has clicked
_HISTORY = "inspect-history"  # in the session: what was read of the tensor looked at last
_MORE = "inspect-history-read"  # key of the button that reads all steps
T = TypeVar("T")


def one_value(source: ChainSource, findings: Findings, facts: StepFacts) -> None:
    """A chosen value over the steps; its sign, exponent and mantissa."""
    names = [t.name for t in facts.tensors if t.dtype == "F32" and t.n]
    if not names:
        st.markdown("No tensor of this chain is in float32.")
        return
    left, right = st.columns([3, 2])
    with right:
        chosen = _one(facts, names)
    if chosen is not None:
        with left:
            _over_steps(source, findings, facts, *chosen)


def _one(facts: StepFacts, names: list[str]) -> tuple[str, Place] | None:
    """The value that a visitor chooses, at first the one that has moved farthest, and its bits.

    Returns its tensor and place; None if the place is wrong.
    """
    farthest = {name: facts.farthest.get(name, (0, 0.0)) for name in names}
    first = max(names, key=lambda name: farthest[name][1])
    name = widgets.select("Tensor", names, default=first, key="inspect_tensor")
    flat = facts.state[name].reshape(-1)
    index = widgets.checked_number(
        "Value",
        widgets.Limits(0, flat.size - 1, farthest[name][0], 1),
        key=f"inspect_value_{name}",
        text="Its place in the tensor, counted in C order from 0: the last index runs fastest.",
    )
    if index is None:
        return None
    value = np.float32(flat[index])
    place = tuple(int(i) for i in np.unravel_index(index, facts.state[name].shape))
    bit_fields = fields(float(value))
    sign, exponent, mantissa = bit_fields.bits
    st.markdown(
        f"At ({', '.join(map(str, place))}) it is **{minus(f'{value:.9g}')}**, stored as  \n"
        f"{sign} :gray-background[**{exponent}**] {mantissa}"
    )
    if not np.isfinite(value):
        meaning = "all bits of the exponent are 1: infinite, or not a number"
    elif bit_fields.exponent == -127:
        meaning = "all bits of the exponent are 0: zero, or too small for the usual rule"
    else:
        sign_text = "negative" if bit_fields.sign else "positive"
        meaning = (
            f"sign {sign}, {sign_text} · **exponent {int(exponent, 2)} − 127 = "
            f"{minus(bit_fields.exponent)}** · mantissa {bit_fields.mantissa:.8g}"
        )
    st.markdown(f":small[{meaning}]")
    stored = next(stored_text(t) for t in facts.tensors if t.name == name)
    st.markdown(f":small[In this step's record {plain(name)} is stored {stored}.]")
    return name, place


def _over_steps(
    source: ChainSource, findings: Findings, facts: StepFacts, name: str, place: Place
) -> None:
    """The value at all steps, as far as they are read."""
    stretches = stretches_of(findings.catalogue, name)
    rerun = facts.needs_rerun
    history = _known(source, stretches, facts, name, place)
    failed = ""
    try:
        _read(source, stretches, history, facts.step)
    except RerunNeededError:
        rerun = True
    except VanishedError:  # removed meanwhile: the next run of the page lists it anew
        pass
    except codec.LccError as exc:  # of the disk or network: the next run of the page tries again
        failed = str(exc)
    if rerun:
        st.markdown(
            ":small[This chain holds gradients. Its values at other steps come from the "
            "optimizer's own steps, see `codec.rerun.restore`.]"
        )
        return
    points = history.points(stretches, place)
    if sum(p.value is not None for p in points) > 1:
        widgets.show(value_over_steps(points, facts.step), "value")
    of_stretches = [
        problem for s in stretches for problem in (s.problem, history.problem(s)) if problem
    ]
    if problems := [failed] * bool(failed) + of_stretches:
        more = f" {plural(len(problems) - 1, 'more problem')}." if len(problems) > 1 else ""
        widgets.wrong(f"Not all steps of this value can be read. {sentence(problems[0])}{more}")
    missing = sum(len(history.missing(s)) for s in stretches)
    if missing and not failed:
        more_button(f"Read the value at {plural(missing, 'more step')}", _MORE, "read")


def _known(
    source: ChainSource, stretches: Sequence[Stretch], facts: StepFacts, name: str, place: Place
) -> History:
    """What this session has read of a tensor: all of it if it is small, else of one element."""
    array = facts.state[name]
    n_steps = sum(len(s.with_tensor) for s in stretches)
    only = None if array.nbytes * n_steps <= MOST_KEPT else place
    key = (source.key, name, only)
    history = session.cached(_HISTORY, key, lambda: History(name, only))
    here = next((s for s in stretches if facts.step in s.with_tensor), None)
    if here is not None and not facts.needs_rerun:  # no need to read what is on the page
        history.add(here, [(facts.step, array if only is None else element(array, only))])
    history.forget_others(stretches)
    return history


def _read(source: ChainSource, stretches: Sequence[Stretch], history: History, chosen: int) -> None:
    """Read what is missing, the steps around the chosen one first, until the time is over.

    What was read stays known if the visitor leaves meanwhile. Raises RerunNeededError, and
    ChainError if the disk or network fails.
    """
    end = deadline(_MORE, UNASKED_SECONDS)
    nearest = max((i for i, s in enumerate(stretches) if s.base <= chosen), default=0)
    order = sorted(range(len(stretches)), key=lambda i: abs(i - nearest))
    to_read = [stretches[i] for i in order if history.missing(stretches[i])]
    if not to_read:
        return
    total = sum(len(s.with_tensor) for s in stretches)
    with progress_bar("Read this value at {} of {} steps") as progress:
        chain = source.chain()
        ask: Callable[[Callable[[], T]], T] = _at_once
        if isinstance(source.target, str):
            ask = partial(answer, chain.where)
        for stretch in to_read:
            reading, ended = read_stretch(chain, stretch, history), False
            while not ended and time.monotonic() < end:
                read, ended, failed = ask(partial(read_some, reading, LOOK_SECONDS))
                history.add(stretch, read)
                progress(total - sum(len(history.missing(s)) for s in stretches), total)
                if isinstance(failed, codec.RecordError | ParentError | ArchiveError):
                    history.problems[stretch.steps[stretch.base]] = str(failed)
                elif failed is not None:
                    raise failed


def _at_once(act: Callable[[], T]) -> T:
    return act()
