"""What `info --tensors` says: the names that --only and policies take."""

from __future__ import annotations

from typing import Any

from codec.caps import printable
from codec.chain.chain import Chain
from codec.state.selection import tensor_names
from codec.state.tree import value_names


def of_chain(chain: Chain, step: int | None) -> tuple[dict[str, Any], list[str]]:
    """JSON and lines: the tensors and values of a step, by the names that --only takes.

    Raises as `Chain.layout`.
    """
    layout = chain.layout(step)
    step = chain.steps[-1] if step is None else step
    rows: list[dict[str, Any]] = []
    for name, number in tensor_names(layout):
        t = layout.tensors[number]
        stored = "lossy" if t.lossy else "exact"
        rows.append({"name": name, "dtype": t.dtype_name, "shape": list(t.shape), "stored": stored})
    values = value_names(layout.structure)
    table = [("name", "dtype", "shape", "stored")]
    table += [
        (printable(r["name"]), r["dtype"], "x".join(map(str, r["shape"])) or "-", r["stored"])
        for r in rows
    ]
    table += [(printable(name), "value", "-", "exact") for name in values]
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ["  ".join(cell.ljust(n) for cell, n in zip(row, widths)).rstrip() for row in table]
    lines.append(
        f"step {step} of {chain.where}: tensors: {len(rows):,}, other values: {len(values):,}"
    )
    return {"run": chain.where, "step": step, "tensors": rows, "values": values}, lines
