"""The Glossary page: all words, the one that was asked for, and those that are looked for."""

import pytest
from streamlit.testing.v1 import AppTest

from lcviz.ui.glossary import GROUPS, TERMS
from tests.lcviz.common import Make

pytestmark = pytest.mark.usefixtures("server")


def shown(at: AppTest) -> list[str]:
    """The words that are explained, from the top."""
    assert not list(at.exception)
    return [m.value[2:].partition("**")[0] for m in at.markdown if m.value.startswith("**")]


def test_every_word_the_one_asked_for_and_those_looked_for(visit: Make) -> None:
    at = visit("glossary", term="phlogiston").at
    assert (shown(at), [s.value for s in at.header]) == (list(TERMS), list(GROUPS))
    assert not at.get("page_link")
    at.query_params["term"] = "code word"
    assert shown(at.run()) == ["code word", *TERMS]
    assert len(at.get("page_link")) == len(TERMS["code word"].pages)
    at.query_params.clear()
    at.text_input(key="glossary_find").set_value("Huffman code").run()
    found = shown(at)
    assert "Huffman code" in found
    assert len(found) < 5
    texts = [f"{name} {TERMS[name].text}".casefold() for name in found]
    assert all("huffman" in text and "code" in text for text in texts)
    assert len(at.get("page_link")) == sum(len(TERMS[name].pages) for name in found)
    at.text_input(key="glossary_find").set_value("phlogiston").run()
    assert shown(at) == []
    assert at.info
