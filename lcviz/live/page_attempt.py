"""What a visitor tries on Live: another coding, fewer buckets, or no track."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import streamlit as st

from codec import Coding
from lcviz.lab.follow_weight import Weight
from lcviz.run.whole_run import Trial
from lcviz.ui.coding_form import widget_values
from lcviz.ui.set_widgets import set_widgets, set_widgets_next

from .followed import Stair

# The run's id, the number of crashes, and whether a race back has begun. A change ends every trial.
Era = tuple[str, int, bool]
Stairs = Mapping[int, Stair]
CUT = "cut"  # in the URL: how many buckets of each step a visitor keeps
CARRIES = "carries"  # key of the switch: whether the changes left out stay in the next δ
_ATTEMPT = "live-attempt"  # in the session: the `Attempt`


@dataclass
class Attempt:
    """What a visitor tries in one era.

    form: the coding of the sidebar. untried: the form's coding when the era began, which stands for
    the run's own; None after a picture has set the form. most_buckets: of each step, None for all
    that the coding keeps. raised_budget: a budget that took the place of one that held no change in
    some step; None if none did. is_ahead: whether the sidebar does not show the form yet. stairs:
    those that were drawn last, by their weight and trial.
    """

    era: Era
    form: Coding
    untried: Coding | None
    most_buckets: int | None = None
    raised_budget: float | None = None
    is_ahead: bool = False
    stairs: dict[tuple[Weight, Trial | None], Stairs] = field(default_factory=dict)

    def trial(self, actual: Coding) -> Trial:
        """How the whole run is saved once more. actual: the run's own coding."""
        coding = actual if self.form == self.untried else self.form
        return Trial(coding, self.most_buckets, bool(st.session_state.get(CARRIES, True)))

    def keep(self, most: int | None) -> None:
        """From now on keep ``most`` buckets of each step; None for all that the coding keeps."""
        self.most_buckets = most
        if most is not None:
            st.query_params[CUT] = str(most)

    def use(self, coding: Coding, **switches: bool) -> None:
        """Set the sidebar to a coding, which the page then tries. switches: by widget key."""
        self.keep(None)
        set_widgets({**widget_values(coding), **switches})
        self.form, self.untried, self.is_ahead = coding, None, True

    def raise_budget(self, coding: Coding, budget: float) -> None:
        """Try a coding with a larger budget; the page has to be drawn again."""
        self.raised_budget = budget
        self.form, self.untried, self.is_ahead = replace(coding, budget=budget), None, True
        set_widgets_next(widget_values(self.form))


def forget_attempt() -> None:
    """Begin anew: the next attempt is what the URL and the sidebar say."""
    st.session_state.pop(_ATTEMPT, None)


def stored_attempt() -> Attempt | None:
    """The attempt of the last era that the page showed."""
    attempt: Attempt | None = st.session_state.get(_ATTEMPT)
    return attempt


def attempt_in(era: Era, sidebar: Coding, actual: Coding) -> Attempt:
    """The attempt of this era. sidebar: its coding, unless a picture has changed it since.

    New checkpoints do not change an attempt; a new era begins another one. What is in a link is
    tried at once.
    """
    attempt = stored_attempt()
    if attempt is None:
        linked = widget_values(sidebar).keys() & st.query_params.to_dict().keys()
        text = st.query_params.get(CUT, "")
        most = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else None
        attempt = Attempt(era, sidebar, actual if linked else sidebar, most)
    elif attempt.era != era:
        form = attempt.form if attempt.is_ahead else sidebar
        attempt = Attempt(era, form, form, is_ahead=attempt.is_ahead)
    elif not attempt.is_ahead:
        attempt.form = sidebar
    if attempt.most_buckets is None:
        st.query_params.pop(CUT, None)
    st.session_state[_ATTEMPT] = attempt
    return attempt
