"""The dashboard around the codec: experiments (lab), live runs, charts and pages.

    cli           the command `lcviz`; start: the script that it serves
    live, learn, tune, recover, inspect, export, glossary    the pages
    play          Live and Learn as one file that computes in the browser
    ui, report    what pages share; the figures of a chain
    server, run   what visitors share; a training with its saves
    lab           the experiments and measurements behind pages and commands
    app, dashboard    the frame of every page, before and after the heavy imports
    welcome, record   the first screen; its recorded example
    text          numbers and names as text

`lcviz.figures_of("run.lcc")` gives the figures of a chain, for a notebook or a script.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report.chain_figures import ChainFigures

__all__ = ["figures_of"]


def figures_of(source: str | os.PathLike[str], step: int | None = None) -> ChainFigures:
    """Read the figures of a chain; see `lcviz.report.chain_figures.figures_of`."""
    from .report import chain_figures  # heavy: plotly, pandas and torch

    return chain_figures.figures_of(source, step)
