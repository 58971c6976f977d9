"""The glossary: every marked word is in it, and links say what they mean."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from lcviz.ui.glossary import GROUPS, TERMS, address, explained, linked, title_help

LCVIZ = Path(__file__).resolve().parents[3] / "lcviz"
MARK = re.compile(r"\[\[([^\]|]+)(?:\|([^\]|]+))?\]\]")


def test_a_marked_word_becomes_a_link_that_explains_itself() -> None:
    """Other brackets stay; an unknown word is an error."""
    text = explained("Sort into [[buckets|bucket]], by [[exponent]].")
    assert text == (
        f'Sort into [buckets](glossary?term=bucket "{TERMS["bucket"].text}"), '
        f'by [exponent](glossary?term=exponent "{TERMS["exponent"].text}").'
    )
    text = "[a link](https://example.org) and a[0][[1]"
    assert explained(text) == text
    with pytest.raises(KeyError):
        explained("[[phlogiston]]")


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Exponent buckets of δ (number of values)", ["exponent", "bucket", "delta"]),
        ("Loss: live and restored", ["loss"]),
        ("Size of each checkpoint; a checkpoint", ["checkpoint"]),
        ("The very code words", ["code word"]),
        ("Run-length Huffman code: zeros", ["run-length coder"]),
        ("Nothing of the kind, u or xs", []),
    ],
)
def test_words_of_a_title_are_links(title: str, words: list[str]) -> None:
    text = linked(title)
    assert [unquote(w) for w in re.findall(r"\?term=([^ ]+) ", text)] == words
    assert re.sub(r'\[([^\]]+)\]\([^"]+"[^"]+"\)', r"\1", text) == title


def test_a_term_can_stand_in_a_tooltip() -> None:
    """Which is plain text between quotation marks; and each term names pages."""
    names = [t.name.casefold() for group in GROUPS.values() for t in group]
    assert len(names) == len(set(names)) == len(TERMS) == 47
    assert address("code word") == "glossary?term=code%20word"
    pages = {path.parent.name for path in LCVIZ.glob("*/page.py")}
    for term in TERMS.values():
        assert len(re.findall(r"\.(?= |$)", term.text.replace("et al.", ""))) == 1  # one sentence
        assert term.text[-1] == "."
        assert len(term.text) <= 100
        assert not set(term.text) & set('"\n*`[]<>')
        assert set(term.pages) <= pages
        assert term.pages


def test_marked_words_are_in_the_glossary() -> None:
    """In all texts of the pages."""
    marked = {
        found[1] or found[0]
        for path in LCVIZ.rglob("page*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in MARK.findall(node.value)
    }
    assert marked, "the pages use it"
    assert marked <= set(TERMS)


def test_a_picture_s_title_is_explained_if_it_is_a_word() -> None:
    assert title_help("Buckets") == {"help": TERMS["bucket"].text, "link": address("bucket")}
    assert title_help("δ")["link"] == address("delta")
    assert title_help("Size of each bucket") == title_help("") == {}
