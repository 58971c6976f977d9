"""Questions, asked before the answer is shown. The URL has what was answered or opened."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import streamlit as st

_OPENED = "learn_opened"  # in the URL and in the session: keys of questions, between commas


class Quiz:
    """The questions of one page. everything: all steps are open, whatever is answered."""

    def __init__(self, everything: bool) -> None:
        self._everything = everything
        # Going to another page drops the URL's parameters: the session remembers.
        opened = st.session_state.get(_OPENED, st.query_params.get(_OPENED, ""))
        self._opened = [key for key in opened.split(",") if key]
        self._remember()

    def ask(
        self, key: str, question: str, options: Sequence[str], right: str | Sequence[str], why: str
    ) -> bool:
        """Ask a question; the answer, right or wrong, opens the rest of the step.

        What was once opened stays open, also when other numbers change the question.

        Args:
            key: of the step.
            question, options: what is asked.
            right: the right option, or several.
            why: the explanation.

        Returns:
            Whether the rest of the step is open.
        """
        options = list(dict.fromkeys(options))
        accepted = [right] if isinstance(right, str) else list(right)
        # Another question is another widget, without the old answer.
        asked = zlib.crc32("\n".join((question, *options)).encode())
        answer = st.radio(
            f"**{question}**",
            options,
            index=None,
            horizontal=True,
            key=f"learn_{key}_{asked:08x}",
            bind="query-params",
            persist_state="session",
        )
        if answer is not None:
            self._open(key)
            if answer in accepted:
                st.success(f"Right. {why}", icon=":material/check:")
            else:
                st.warning(f"Not {answer}. {why}", icon=":material/lightbulb:")
        elif self._everything or key in self._opened:
            st.markdown(why)
        elif st.button("Show me", key=f"show-{key}", type="tertiary"):
            self._open(key)
            st.rerun()
        return self._everything or key in self._opened

    def _open(self, key: str) -> None:
        if key not in self._opened:
            self._opened.append(key)
            self._remember()

    def _remember(self) -> None:
        opened = ",".join(self._opened)
        st.session_state[_OPENED] = opened
        if opened and st.query_params.get(_OPENED) != opened:
            st.query_params[_OPENED] = opened
