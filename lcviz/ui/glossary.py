"""The words of the scheme, each explained in one sentence, and links to them.

A text for the screen marks a word with double brackets: "sorted into [[buckets|bucket]]" shows
"buckets" as a link to the glossary whose tooltip explains "bucket".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

PATH = "glossary"  # of its page
_MARK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")
# Groups of: word (other forms, without plurals in -s): pages that show it at work, its meaning.
_TEXT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
_ENTRY = re.compile(r"^([^ #].*?)(?: \((.+)\))?: (.+)\n((?:  .+\n?)+)", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    """A word, its meaning, the pages (by name) that show it at work, and its other forms."""

    name: str
    text: str
    pages: tuple[str, ...]
    other_forms: tuple[str, ...]


def _terms(entries: str) -> tuple[Term, ...]:
    return tuple(
        Term(
            name,
            " ".join(text.split()),
            tuple(pages.split(", ")),
            tuple(filter(None, other_forms.split(", "))),
        )
        for name, other_forms, pages, text in _ENTRY.findall(entries)
    )


GROUPS = {
    title: _terms(entries)
    for title, _, entries in (group.partition("\n") for group in f"\n{_TEXT}".split("\n# ")[1:])
}
TERMS = {term.name: term for group in GROUPS.values() for term in group}
_FORMS = {
    form + end: term.name
    for term in TERMS.values()
    for form in (term.name, *term.other_forms)
    for end in ("", "s")
    if len(form) > 1 or form == "δ"  # not u, a letter of many formulas
}
_FORM = re.compile(  # longer forms first: "code word" before "code"
    rf"\b({'|'.join(re.escape(form) for form in sorted(_FORMS, key=len, reverse=True))})\b", re.I
)
_BY_CASE = {form.casefold(): name for form, name in _FORMS.items()}


def explained(text: str) -> str:
    """A text for st.markdown in which marked words are links that explain themselves.

    Raises KeyError for a word that the glossary does not have.
    """
    return _MARK.sub(lambda match: _link(match[1], TERMS[match[2] or match[1]]), text)


def linked(title: str) -> str:
    """A title for st.markdown in which the first occurrence of each glossary word is a link."""
    names = set()

    def link(match: re.Match[str]) -> str:
        name = _BY_CASE[match[1].casefold()]
        if name in names:
            return match[1]
        names.add(name)
        return _link(match[1], TERMS[name])

    return _FORM.sub(link, title)


def title_help(title: str) -> dict[str, str]:
    """Fields that explain a picture's title if it is a glossary word, else {}.

    help: the word's meaning. link: its place in the glossary.
    """
    name = _BY_CASE.get(title.casefold())
    return {} if name is None else {"help": TERMS[name].text, "link": address(name)}


def _link(word: str, term: Term) -> str:
    return f'[{word}]({address(term.name)} "{term.text}")'


def address(name: str) -> str:
    """The address of a word in the glossary, relative to any page of the dashboard."""
    return f"{PATH}?term={quote(name)}"
