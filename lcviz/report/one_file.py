"""The figures of a chain as one HTML file, which contains Plotly and loads nothing."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from lcviz.ui.charts import INK, Panel, inked_figure

if TYPE_CHECKING:
    from .chain_figures import ChainFigures

MOST_ROWS = 1000  # of a table
PAPER = {"light": "#ffffff", "dark": "#0e1117"}
_FONT = "system-ui, sans-serif"
_PAGE = Path(__file__).with_name("page.html")


def report_html(figures: ChainFigures) -> str:
    """The report of a chain as one HTML file."""
    date = "Date unknown."
    if figures.date is not None:
        date = f"Newest record: {figures.date:%Y-%m-%d %H:%M} UTC."
    data_by_id = {_id(name): _figure(panel) for name, panel in figures.panels.items()}
    sections = [_section(name, panel) for name, panel in figures.panels.items()]
    sections += [_missing(name, why) for name, why in figures.missing.items()]
    settings = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in figures.settings.items()
    )
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title=escape(f"Chain {figures.name}"),
        date=date,
        verdict=_verdict(figures),
        settings=settings,
        sections="\n".join(sections),
        # A "</" would end the script.
        figures=json.dumps(data_by_id, allow_nan=False).replace("</", "<\\/"),
        plotly=get_plotlyjs(),
        font=_FONT,
        **{f"ink_{theme}": colour for theme, colour in INK.items()},
        **{f"paper_{theme}": colour for theme, colour in PAPER.items()},
    )


def shown_text(sentence: str) -> str:
    """A sentence of Markdown as plain text."""
    return re.sub(r"\\(.)", r"\1", sentence).replace("\u2060", "")


def _verdict(figures: ChainFigures) -> str:
    kind = "bad" if figures.problems or figures.warning else "good"
    text = f'<p class="verdict {kind}">{escape(figures.verdict)} {escape(figures.warning)}</p>'
    if figures.problems:
        lines = "".join(f"<li>{escape(problem)}</li>" for problem in figures.problems[:MOST_ROWS])
        text += f"<details><summary>Details</summary><ul>{lines}</ul></details>"
    return text


def _id(name: str) -> str:
    return name.replace(" ", "-")


def _figure(panel: Panel) -> dict[str, Any]:
    """A figure in both themes, as JSON."""
    assert isinstance(panel.figure, go.Figure)
    return {theme: _themed(panel.figure, theme) for theme in INK}


def _themed(figure: go.Figure, theme: str) -> dict[str, Any]:
    inked = inked_figure(figure, theme)
    inked.update_layout(
        template="none",
        font={"family": _FONT, "color": INK[theme]},
        paper_bgcolor=PAPER[theme],
        hoverlabel={"bgcolor": PAPER[theme], "font": {"color": INK[theme]}},
    )
    if inked.layout.plot_bgcolor is None:
        inked.update_layout(plot_bgcolor=PAPER[theme])
    themed: dict[str, Any] = json.loads(inked.to_json())
    return themed


def _section(name: str, panel: Panel) -> str:
    title = escape(panel.title)
    return (
        f'<section><h2>{title}</h2><figure aria-label="{escape(panel.alt)}">'
        f'<div id="{_id(name)}" style="height: {panel.figure.layout.height}px"></div></figure>'
        f"<p>{escape(shown_text(panel.sentence))}</p>"
        f"<details><summary>Numbers: {title}</summary>"
        f'<div class="rows" role="region" aria-label="{title}" tabindex="0">'
        f"{_table(panel.table)}</div></details></section>"
    )


def _table(table: pd.DataFrame) -> str:
    more = len(table) - MOST_ROWS
    text: str = table.head(MOST_ROWS).to_html(index=False, border=0, na_rep="–", escape=True)
    return text + (f"<p>And {more:,} more rows.</p>" if more > 0 else "")


def _missing(name: str, why: str) -> str:
    return f"<section><h2>{escape(name.capitalize())}</h2><p>{escape(why)}</p></section>"
