"""Binary trees as ECharts draws them: edges with an elbow, dots with labels, hidden axes.

Not ECharts' own tree series: that one cannot label edges, and stops with an error when a tick
changes the shape of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .charts import GREY, Option, base_option

Point = tuple[float, float]  # column, row; rows grow downwards


def elbow(parent: Point, child: Point) -> Option:
    """The edge between two nodes: along the parent's column, then along the child's row."""
    return {"coords": [list(parent), [parent[0], child[1]], list(child)]}


def labels(data: Sequence[Option], size: int = 0, **style: Any) -> Option:
    """A series of dots with labels. size: of a dot in pixels. style: of all labels."""
    return {
        "type": "scatter",
        "symbolSize": size,
        "silent": True,
        "itemStyle": {"opacity": 1},
        "label": {"show": True, "fontSize": 12, **style},
        "data": list(data),
    }


def tree_option(
    edges: Sequence[Option], dots: Sequence[Option], columns: Point, rows: int, grid: Option
) -> Option:
    """A tree on hidden axes. edges: from `elbow`. dots: series from `labels`.

    columns: the least and the largest. rows: how many. grid: pixels on each side.
    """
    lines = {
        "type": "lines",
        "coordinateSystem": "cartesian2d",
        "polyline": True,
        "silent": True,
        "lineStyle": {"color": GREY, "width": 1.3, "opacity": 1, "curveness": 0},
        "data": list(edges),
    }
    hidden = {"show": False, "type": "value"}
    return base_option() | {
        "legend": {"show": False},
        "tooltip": {"show": False},
        "grid": [grid],
        "xAxis": hidden | {"min": columns[0], "max": columns[1]},
        "yAxis": hidden | {"min": -0.5, "max": rows - 0.5, "inverse": True},
        "series": [lines, *dots],
    }
