"""Questions before what they ask about is shown."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st


class Quiz:
    """The questions of one page.

    everything: all is open, and the questions are only there to be answered.
    """

    def __init__(self, everything: bool) -> None:
        self._everything = everything

    def ask(
        self, key: str, question: str, options: Sequence[str], right: str | Sequence[str], why: str
    ) -> bool:
        """Whether the answer, right or wrong, was given or asked for: then the rest is shown.

        What was once opened stays open, also when other numbers make another question of it.
        """
        options = list(dict.fromkeys(options))
        accepted = [right] if isinstance(right, str) else list(right)
        # Another question is another widget: the old answer means nothing to it.
        answer = st.radio(
            f"**{question}**", options, index=None, horizontal=True,
            key=f"answer-{key}-{hash((question, *options))}",
        )  # fmt: skip
        opened = f"opened-{key}"
        if answer is not None:
            st.session_state[opened] = True
            if answer in accepted:
                st.success(f"Right. {why}", icon=":material/check:")
            else:
                st.warning(f"Not {answer}. {why}", icon=":material/lightbulb:")
        elif self._everything or st.session_state.get(opened):
            st.markdown(why)
        elif st.button("Show me", key=f"show-{key}", type="tertiary"):
            st.session_state[opened] = True
            st.rerun()
        return answer is not None or self._everything or bool(st.session_state.get(opened))
