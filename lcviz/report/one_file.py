"""The figures of a chain as one HTML file, which contains Plotly and loads nothing."""

from __future__ import annotations

import json
import re
from html import escape
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
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: {ink[light]}; --paper: {paper[light]}; --bad: #b3261e;
  --good: #00654a; --link: #00568a; --rim: rgba(128,128,128,0.4); }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: {ink[dark]}; --paper: {paper[dark]}; --bad: #ff9d94; --good: #5fd3ae;
    --link: #7cc4f5; }}
}}
body {{ margin: 0; font: 16px/1.45 {font}; color: var(--ink); background: var(--paper); }}
main {{ max-width: 1400px; margin: auto; padding: 1rem 1.2rem 2rem; }}
h1 {{ font-size: 1.7rem; margin: 0; }} h2 {{ font-size: 1.1rem; margin: 0 0 0.2rem; }}
p {{ margin: 0.3rem 0; }}
.verdict {{ border-left: 4px solid; padding-left: 0.8rem; font-weight: 600; }}
.good {{ color: var(--good); }} .bad {{ color: var(--bad); }}
dl {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(210px, 1fr)); gap: 0.6rem; }}
dt {{ font-size: 0.85rem; }} dd {{ margin: 0; font-weight: 600; }}
.figures {{ columns: 2 520px; column-gap: 1rem; }}
section {{ border: 1px solid var(--rim); border-radius: 8px; padding: 0.7rem 0.9rem;
  margin-bottom: 1rem; break-inside: avoid; }}
figure {{ margin: 0; }}
summary {{ cursor: pointer; color: var(--link); font-size: 0.9rem; margin-top: 0.3rem; }}
.rows {{ max-height: 320px; overflow: auto; }}
table {{ border-collapse: collapse; font-size: 0.85rem; }}
th, td {{ padding: 0.15rem 0.6rem; text-align: right; border-bottom: 1px solid var(--rim); }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{date}</p>
{verdict}
<dl>{settings}</dl>
<div class="figures">
{sections}
</div>
</main>
<script>{plotly}</script>
<script>
const FIGURES = {figures};
const dark = matchMedia("(prefers-color-scheme: dark)");
function draw() {{
  const theme = dark.matches ? "dark" : "light";
  for (const [name, figure] of Object.entries(FIGURES)) {{
    Plotly.react(name, figure.data, structuredClone(figure.layout[theme]), {{
      responsive: true, displaylogo: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      toImageButtonOptions: {{ filename: name, scale: 2 }},
    }});
  }}
}}
draw();
dark.addEventListener("change", draw);
</script>
</body>
</html>
"""


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
    return _PAGE.format(
        title=escape(f"Chain {figures.name}"),
        date=date,
        verdict=_verdict(figures),
        settings=settings,
        sections="\n".join(sections),
        # A "</" would end the script.
        figures=json.dumps(data_by_id, allow_nan=False).replace("</", "<\\/"),
        plotly=get_plotlyjs(),
        ink=INK,
        paper=PAPER,
        font=_FONT,
    )


def shown_text(sentence: str) -> str:
    """A sentence of Markdown as plain text."""
    return re.sub(r"\\(.)", r"\1", sentence).replace("\u2060", "")


def _verdict(figures: ChainFigures) -> str:
    kind = "bad" if figures.problems else "good"
    text = f'<p class="verdict {kind}">{escape(figures.verdict)}</p>'
    if figures.problems:
        lines = "".join(f"<li>{escape(problem)}</li>" for problem in figures.problems[:MOST_ROWS])
        text += f"<details><summary>Details</summary><ul>{lines}</ul></details>"
    return text


def _id(name: str) -> str:
    return name.replace(" ", "-")


def _figure(panel: Panel) -> dict[str, Any]:
    """The data of a figure and its layout in both themes, as JSON."""
    assert isinstance(panel.figure, go.Figure)
    whole = json.loads(panel.figure.to_json())
    return {"data": whole["data"], "layout": {theme: _layout(panel.figure, theme) for theme in INK}}


def _layout(figure: go.Figure, theme: str) -> dict[str, Any]:
    inked = inked_figure(figure, theme)
    inked.update_layout(
        template="none",
        font={"family": _FONT, "color": INK[theme]},
        paper_bgcolor=PAPER[theme],
        hoverlabel={"bgcolor": PAPER[theme], "font": {"color": INK[theme]}},
    )
    if inked.layout.plot_bgcolor is None:
        inked.update_layout(plot_bgcolor=PAPER[theme])
    layout: dict[str, Any] = json.loads(inked.to_json())["layout"]
    return layout


def _section(name: str, panel: Panel) -> str:
    title = escape(panel.title)
    return (
        f'<section><h2>{title}</h2><figure aria-label="{escape(panel.alt)}">'
        f'<div id="{_id(name)}" style="height: {panel.height}px"></div></figure>'
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
