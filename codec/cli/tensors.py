"""What `info --tensors` says: the names that --only and policies take, and what stands below them.

Not done here: reading a layout (chain, codec.dcp.steps).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codec.caps import printable
from codec.chain.chain import Chain
from codec.state.selection import tensor_names
from codec.state.tree import value_names

if TYPE_CHECKING:
    from codec.dcp.files import Step

LOSSY, EXACT, MIXED = "lossy", "exact", "lossy in parts"
Answer = tuple[dict[str, Any], list[str]]  # JSON and lines


@dataclass(frozen=True)
class Row:
    """A tensor of a step. stored: LOSSY, EXACT or MIXED."""

    name: str
    dtype: str
    shape: Sequence[int]
    stored: str

    def json(self) -> dict[str, Any]:
        """As JSON."""
        fields = {"name": self.name, "dtype": self.dtype}
        return {**fields, "shape": list(self.shape), "stored": self.stored}


def of_chain(chain: Chain, step: int | None) -> Answer:
    """The tensors and values of a step, by the names that --only takes.

    Raises as `Chain.layout`.
    """
    layout = chain.layout(step)
    step = max(entry.step for entry in chain.entries) if step is None else step
    rows = []
    for name, number in tensor_names(layout):
        t = layout.tensors[number]
        rows.append(Row(name, t.dtype_name, t.shape, LOSSY if t.lossy else EXACT))
    values = value_names(layout.structure)
    where = f"step {step} of {chain.where}"
    return _answer({"run": chain.where, "step": step}, where, rows, values)


def of_step(step: Step) -> Answer:
    """The tensors and values of a distributed step, by the names that a policy takes.

    Raises as `codec.dcp.steps.contents_of`.
    """
    from codec.dcp.steps import contents_of

    tensors, values = contents_of(step)
    rows = [Row(t.name, t.dtype, t.shape, _stored(t.lossy)) for t in tensors]
    return _answer({"step": str(step)}, str(step), rows, values)


def _stored(lossy: frozenset[bool]) -> str:
    if True not in lossy:
        return EXACT
    return MIXED if False in lossy else LOSSY


def _answer(
    about: dict[str, Any], where: str, rows: Sequence[Row], values: Iterable[str]
) -> Answer:
    names = list(values)
    answer = {**about, "tensors": [row.json() for row in rows], "values": names}
    table = [("name", "dtype", "shape", "stored")]
    table += [
        (printable(r.name), r.dtype, "x".join(map(str, r.shape)) or "-", r.stored) for r in rows
    ]
    table += [(printable(name), "value", "-", EXACT) for name in names]
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ["  ".join(cell.ljust(n) for cell, n in zip(row, widths)).rstrip() for row in table]
    lines.append(f"{where}: tensors: {len(rows):,}, other values: {len(names):,}")
    return answer, lines
