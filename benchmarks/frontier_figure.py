"""The figure of docs/explanation/results.md: bytes against distance, for buckets and equal steps.

python -m benchmarks.experiments frontier --folder FOLDER
PYTHONPATH=. python benchmarks/frontier_figure.py lab/frontier.jsonl docs/img/frontier.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from playwright.sync_api import sync_playwright
from plotly.subplots import make_subplots

from benchmarks.dashboard.serving import FLAGS
from benchmarks.experiments.base import TITLES
from lcviz.lab.intervals import mean
from lcviz.ui.charts import BLUE, GREEN, VERMILION

LOOKS = {
    "exponent": ("exponent buckets, by budget", VERMILION, "lines+markers", "circle", "dash"),
    "uniform": ("equal steps, by budget", BLUE, "lines+markers", "square", "solid"),
    "bits": ("the paper: 1, 2, 3 bits", GREEN, "markers", "diamond", "solid"),
}
WIDTH, HEIGHT = 1000, 560


def figure(rows: list[dict[str, Any]]) -> go.Figure:
    """One panel a model; means over the seeds. Points at a distance of 1 or more, which restore
    nothing, are left out."""
    models = list(dict.fromkeys(r["model"] for r in rows))
    panels = make_subplots(2, 2, subplot_titles=[TITLES[m] for m in models], vertical_spacing=0.2)
    for i, model in enumerate(models):
        for kind, (name, colour, mode, symbol, dash) in LOOKS.items():
            points: dict[object, list[dict[str, Any]]] = {}
            for r in rows:
                row_kind = "bits" if r["bits"] else r["kind"]
                if r["model"] == model and row_kind == kind and r["distance"] < 1:
                    points.setdefault(r["bits"] or r["budget"], []).append(r)
            x = [100 * mean([r["share"] for r in same]).value for same in points.values()]
            y = [mean([r["distance"] for r in same]).value for same in points.values()]
            trace = go.Scatter(
                name=name,
                x=x,
                y=y,
                mode=mode,
                line={"color": colour, "dash": dash},
                marker={"symbol": symbol, "size": 9, "color": colour},
                showlegend=i == 0,
            )
            panels.add_trace(trace, row=i // 2 + 1, col=i % 2 + 1)
    panels.update_xaxes(type="log", dtick="D2")
    panels.update_xaxes(title="on disk, % of float32", row=2)
    panels.update_yaxes(type="log", title="distance", dtick=1)
    panels.update_layout(
        width=WIDTH,
        height=HEIGHT,
        template="simple_white",
        margin={"l": 60, "r": 20, "t": 60, "b": 50},
        legend={"orientation": "h", "x": 0, "y": 1.08, "yanchor": "bottom"},
    )
    return panels


def main() -> None:
    """Read the trials, and draw them into a picture file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    trials = [json.loads(line) for line in options.results.read_text().splitlines()][1:]
    drawn = figure([row for trial in trials for row in trial["rows"]])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_content(drawn.to_html(config={"staticPlot": True}))
        page.locator(".main-svg").first.wait_for()
        page.screenshot(path=options.picture)
        browser.close()


if __name__ == "__main__":
    main()
