"""Pictures of our own: small JavaScript modules that word and draw plain values in place.

A module `pictures/NAME.js` draws what `Picture.data` says. The function in SAYS that has the name
of its `kind`, or else of its module, makes title and sentences of facts. Without one, the values
have them already. All modules share `numbers.js`, `words.js`, `common.js` and `pictures.css`; some
have a `NAME.css` beside it. They need no server: the same files draw the pages that are exported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from .glossary import title_help

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).parent / "pictures"
# The scheme in JavaScript: each file uses those before it.
_NAMES = "buckets huffman runs tables steps contexts stream tracker residual"
SCHEME = tuple(FOLDER / "scheme" / f"{name}.js" for name in _NAMES.split())
SCHEME_OF = {"learn": SCHEME[:1]}  # what a module uses of it
# What the glossary explains in titles, and in the texts that SAYS makes.
TITLES = ("Size", "δ", "Buckets", "Equal steps", "Bits", "One weight", "Loss", "Reads", "Race back")
WORDS = (
    *("bits per parameter", "code table", "dead zone", "entropy", "level", "SCAR", "slot", "slots"),
    *("TOPN", "track"),
)
# Streamlit looks for tables in every value of a dict, and sends a list as it is.
UNWRAP = "\nexport default (component) => draw({ ...component, data: said(component.data[0]) });\n"
_SENT = "sent-events"  # in the session: event -> what was sent last
HAS_TABLES = "has-tables"  # in the session: whether the page has pictures with numbers
Events = Mapping[str, Callable[[Any], None]]  # name -> called with what the picture sends


def finite(number: float | None) -> float | None:
    """A number of a picture; None, in JSON null, for NaN and infinity."""
    return number if number is not None and math.isfinite(number) else None


@dataclass(frozen=True)
class Picture:
    """What a module draws, as values that can be written as JSON.

    name: of the module. values: facts; or, where SAYS has no function for them, what is drawn, with
    title (two words), about (a few more) and text (a sentence, also for those who do not see it).
    numbers: its table, or a function that makes the table when it is shown.
    """

    name: str
    values: dict[str, Any]
    numbers: pd.DataFrame | Callable[[], pd.DataFrame]

    @property
    def data(self) -> dict[str, Any]:
        """Everything that the module gets."""
        return {"picture": self.name} | self.values

    @cached_property
    def table(self) -> pd.DataFrame:
        """The numbers as a table."""
        return self.numbers() if callable(self.numbers) else self.numbers


def show(picture: Picture, key: str, events: Events | None = None) -> None:
    """Draw a picture, and its table if tables are switched on. key: of its place on the page."""
    mount(picture.data, key, events)
    if tables_shown():
        from . import widgets  # heavier than all the rest of this module

        widgets.show_table(picture.table, f"{key}-picture")


def tables_shown() -> bool:
    """Whether tables of numbers are switched on.

    The switch comes at the end of the page. It is drawn there only if this function was called.
    """
    st.session_state[HAS_TABLES] = True
    return bool(st.session_state.get("tables", st.query_params.get("tables") == "true"))


def mount(data: Mapping[str, Any], key: str, events: Events | None = None) -> None:
    """Word and draw a picture."""
    explained = {**data, **title_help(data.get("title", ""))}
    connect(_component(data["picture"]), f"picture-{key}", explained, events or {})


def connect(
    component: Callable[..., Any], key: str, data: Mapping[str, Any], events: Events
) -> None:
    """Mount a component. key: the component's."""
    callbacks = {
        f"on_{name}_change": partial(_call, key, name, handle) for name, handle in events.items()
    }
    component(key=key, data=[data], **callbacks)


def stored(*names: str) -> Events:
    """Events that are stored until `act_on`: their page may not be imported yet."""
    sent = st.session_state.setdefault(_SENT, {})
    return {name: partial(sent.__setitem__, name) for name in names}


def act_on(name: str, handle: Callable[[Any], None]) -> None:
    """Call ``handle`` with what a picture has sent; kept until that has returned."""
    sent = st.session_state.get(_SENT, {})
    if name in sent:
        handle(sent[name])
        del sent[name]


def drawing(name: str) -> str:
    """The script of a module, with a function draw(component) in place of its default export."""
    return shared_script() + own_script(name)


def shared_script(*, links: bool = True) -> str:
    """What all modules share. links: whether there is a glossary to link to."""
    helps = {
        kind: {word.lower(): help_ for word in words if (help_ := title_help(word))}
        for kind, words in (("titles", TITLES), ("words", WORDS))
    }
    if not links:
        helps = {
            kind: {word: {"help": help_["help"]} for word, help_ in words.items()}
            for kind, words in helps.items()
        }
    numbers, words, common = (
        (FOLDER / f"{name}.js").read_text(encoding="utf-8")
        for name in ("numbers", "words", "common")
    )
    glossary = f"Object.assign(GLOSSARY, {json.dumps(helps, ensure_ascii=False)});\n"
    return numbers + words + glossary + common


def own_script(name: str) -> str:
    """A module without what all share: its style, part of the scheme, folder NAME, itself."""
    parts = [*SCHEME_OF.get(name, ()), *sorted((FOLDER / name).glob("*.js")), FOLDER / f"{name}.js"]
    whole = "".join(path.read_text(encoding="utf-8") for path in parts)
    own_style = FOLDER / f"{name}.css"
    if own_style.exists():
        whole = f"const STYLE = {json.dumps(own_style.read_text(encoding='utf-8'))};\n{whole}"
    return whole.replace("export default function", "function draw", 1)


def style() -> str:
    """The style of all modules."""
    return (FOLDER / "pictures.css").read_text(encoding="utf-8")


@cache
def _component(name: str) -> Callable[..., Any]:
    component: Callable[..., Any] = st.components.v2.component(
        f"lcviz.{name}", js=drawing(name) + UNWRAP, css=style()
    )
    return component


def _call(place: str, name: str, handle: Callable[[Any], None]) -> None:
    """Hand on what a picture has sent. Nothing was sent if another event has changed."""
    value = st.session_state.get(place, {}).get(name)  # the mount may be gone by now
    if value is not None:
        handle(value)
