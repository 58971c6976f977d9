"""Live before a run of one's own: the board with its example, and the beginning of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from codec import Coding
from lcviz.play import page_board
from lcviz.run.run import Run
from lcviz.run.whole_run import Trial
from lcviz.server.runs import EXAMPLE
from lcviz.ui import picture, session, widgets
from lcviz.ui.coding_form import LEAST_BUDGET, MOST_BUDGET, widget_values
from lcviz.ui.set_widgets import set_widgets
from lcviz.ui.settings import Form, begin_run

from .page_attempt import CARRIES, CUT, forget_attempt
from .page_play import board_setting

_AGREED = "board-agreed"  # in the session: (how often the sidebar differed, the setting of both)
_PRESSED = "board-pressed"  # in the session: the press of Start that came last


def take_sent() -> None:
    """Take what a visitor has done on the board, maybe before this page was imported."""
    picture.act_on("tried", _use)
    picture.act_on("start", _press)


def show_example(form: Form) -> None:
    """The board. It trains its example in the browser, until a run begins."""
    steering, pressed = session.steered(), st.session_state.get(_PRESSED, "")
    if pressed not in (steering.answer[0], steering.press):
        problem = form.correct_first or create_run(form, press=pressed)
        if not problem:
            st.rerun()
        steering.answer = pressed, form.settings, problem
    _, then, problem = steering.answer
    if then != form.settings:
        problem = ""
    use = None
    if form.coding is not None:
        setting, unknown = board_setting(Trial(form.coding, carries=_carries()))
        n, agreed = _agreed()
        if setting != agreed:
            n, _ = st.session_state[_AGREED] = n + 1, setting
        use = n, setting
        problem = problem or unknown
    with st.container(key="board"):
        page_board.mount(
            picture.stored("tried", "start"),
            use=use,
            problem=problem,
            wrong=form.correct_first,
            started=pressed,
        )


def _agreed() -> tuple[int, dict[str, Any]]:
    stored: tuple[int, dict[str, Any]] | None = st.session_state.get(_AGREED)
    return stored or (0, board_setting(Trial(EXAMPLE.coding))[0])


def _carries() -> bool:
    return bool(st.session_state.get(CARRIES, True))


def _use(changed: Mapping[str, Any]) -> None:
    """Set the sidebar to what is tried on the board.

    changed: what differs from before, of the type `Setting` of tracker.js. What only the sidebar
    knows stays as it is.
    """
    n, before = _agreed()
    setting = {**before, **changed}
    values: dict[str, Any] = {}
    if changed.get("budget") is not None:
        budget = min(max(setting["budget"], LEAST_BUDGET), MOST_BUDGET)
        values |= widget_values(Coding(budget=budget))
    elif {"x", "budget"} & changed.keys():
        values |= widget_values(Coding(setting["x"]))
    values = {name: values[name] for name in values if name not in ("coder", "scope")}
    if "coder" in changed:
        values["coder"] = changed["coder"]
    if "carries" in changed:
        values[CARRIES] = changed["carries"]
    set_widgets(values)
    st.session_state[_AGREED] = n, setting


def _press(start: Mapping[str, Any]) -> None:
    """Begin a run with what is tried on the board. A press that is sent again changes nothing."""
    steering = session.steered()
    if start["press"] in (steering.answer[0], steering.press):
        return
    if start["changed"]:
        _use(start["changed"])
    forget_attempt()
    st.query_params.pop(CUT, None)
    if start["most"] is not None:
        st.query_params[CUT] = str(start["most"])
    st.session_state[_PRESSED] = start["press"]


def start_button(form: Form, label: str) -> str | None:
    """The button for a run of one's own. Returns the error if the run cannot start."""
    steering = session.steered()
    problem = begin_button(
        label,
        form,
        type="primary",
        icon=":material/play_arrow:",
        key="start",
        about=len(steering.keys),  # a second click does not begin a second run
        help=form.correct_first or "With the sidebar settings.",
    )
    show_form_error(form)
    return problem


def begin_button(label: str, form: Form, instead_of: Run | None = None, **how: Any) -> str | None:
    """A button that begins a run and shows it. Returns the error if the run cannot start.

    instead_of: the run that it ends. how: as for `widgets.button`.
    """
    problems: list[str] = []
    begin = lambda: problems.append(create_run(form, instead_of))  # noqa: E731
    clicked = widgets.button(label, begin, disabled=bool(form.wrong), **how)
    if clicked and not problems[-1]:
        st.rerun()
    return problems[-1] if clicked else None


def show_form_error(form: Form) -> None:
    """Why no run can begin, beside the buttons: the sidebar may be folded away."""
    if form.wrong:
        st.markdown(f":red[:material/error: {form.correct_first}]", width="content")


def create_run(form: Form, instead_of: Run | None = None, press: str = "") -> str:
    """Begin a run. Returns the error if it cannot start; then nothing has changed.

    press: the press of Start that asks for it.
    """
    assert form.settings is not None, "else the button is disabled"
    return begin_run(form.settings, instead_of, press)
