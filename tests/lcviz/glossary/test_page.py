"""The Glossary page: all words, the one that was asked for, and those that are looked for."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from lcviz.ui.glossary import GROUPS, TERMS

pytestmark = pytest.mark.usefixtures("server")


def _app() -> None:
    from lcviz.glossary import page as glossary

    glossary.page()


@pytest.fixture
def at() -> AppTest:
    return AppTest.from_function(_app, default_timeout=30)


def told(at: AppTest) -> list[str]:
    """The words that are explained, from the top."""
    assert not list(at.exception)
    return [m.value[2:].partition("**")[0] for m in at.markdown if m.value.startswith("**")]


def test_every_word_is_there(at: AppTest) -> None:
    assert told(at.run()) == list(TERMS)
    assert [s.value for s in at.subheader] == list(GROUPS)
    assert len(at.get("page_link")) == sum(len(t.seen) for t in TERMS.values())


def test_the_word_of_the_link_comes_first(at: AppTest) -> None:
    at.query_params["term"] = "code word"
    assert told(at.run())[0] == "code word"
    assert len(told(at)) == len(TERMS) + 1
    at.query_params["term"] = "phlogiston"
    assert told(at.run()) == list(TERMS)


def test_finding_a_word(at: AppTest) -> None:
    at.run()
    at.text_input(key="glossary_find").set_value("Huffman code").run()
    assert "Huffman code" in told(at)
    assert len(told(at)) < 5
    assert all(
        "huffman" in f"{t} {TERMS[t].text}".casefold() and "code" in f"{t} {TERMS[t].text}"
        for t in told(at)
    )
    at.text_input(key="glossary_find").set_value("phlogiston").run()
    assert told(at) == []
    assert at.info
