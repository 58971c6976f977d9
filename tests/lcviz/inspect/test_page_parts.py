"""Errors as sentences: text from anybody's files is no Markdown, links nowhere, stays in line."""

import pytest

from lcviz.inspect.page_parts import sentence


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![a](http://b) :red[x] `c`", "\\!\\[a\\](http\\:\u2060//b) \\:red\\[x\\] \\`c\\`"),
        ("www.evil.com", "www\u2060.evil.com"),  # Streamlit would find these after all escapes
        ("me@evil.com", "me@\u2060evil.com"),
        (":material/home:", "\\:\u2060material/home\\:"),
        ("a\n\n# b", "a \\# b"),
        ("1. one", "1\\. one"),
        ("- one", "\\- one"),
        ("&lt;", "\\&lt;"),
        ("\u202egnp.exe\0\ud800", "\ufffdgnp.exe\ufffd\ufffd"),  # would be turned, or not encode
        ("fc1.weight", "fc1.weight"),
        ("0.w_1", "0.w\\_1"),
        ("the archive: is damaged", "The archive is damaged"),
        ("the archive: member x is damaged.", "The archive\\: member x is damaged"),
    ],
)
def test_foreign_text(text: str, shown: str) -> None:
    assert sentence(text) == shown + "."
