"""Plans of a save in which both moments of a parameter are on one rank.

DCP gives each tensor that several ranks have to one of them, and the moments of a parameter often
to two. But a first moment is coded by the second one beside it, in one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, WriteItem

from codec.state.moments import second_of

# The plans of the last save, as DCP made them. DCP, too, may keep plans for all saves of a process:
# a rank then sends an empty plan if its plan has not changed.
_last: list[SavePlan] = []


def naming_pairs(plan: SavePlan) -> SavePlan:
    """A rank's plan; its `storage_data` are the first moments whose second one the rank also has.

    DCP calls this before it gives each tensor to one rank.
    """
    indices = {item.index for item in plan.items}
    return replace(plan, storage_data={i for i in indices if _second_of(i) in indices})


def with_pairs(plans: Sequence[SavePlan]) -> list[SavePlan]:
    """The plans of all ranks, in which one rank writes both moments of a parameter.

    Where DCP has chosen two ranks, it is the one that has both; if both have, the one with less to
    write. If neither has, they stay apart.
    """
    if not any(plan.usable for plan in plans):  # each rank goes on with its plan of the last save
        return list(plans)
    if not all(plan.usable for plan in plans):
        plans = [p if p.usable else last for p, last in zip(plans, _last, strict=True)]
    _last[:] = plans
    parts = [{item.index: item for item in plan.items} for plan in plans]
    ranks = {index: rank for rank, part in enumerate(parts) for index in part}
    apart = []
    for first, rank in ranks.items():
        second = _second_of(first)
        if second in ranks and ranks[second] != rank:
            able = [r for r in (rank, ranks[second]) if first in (plans[r].storage_data or ())]
            apart += [((first, second), able)] if able else []
    moved = [([parts[ranks[i]].pop(i) for i in pair], able) for pair, able in apart]
    loads = [sum(map(_nbytes, part.values())) for part in parts]
    for items, able in moved:
        rank = min(able, key=loads.__getitem__)
        parts[rank] |= {item.index: item for item in items}
        loads[rank] += sum(map(_nbytes, items))
    return [replace(plan, items=list(part.values())) for plan, part in zip(plans, parts)]


def _second_of(index: MetadataIndex) -> MetadataIndex | None:
    """The second moment beside a first one, of the same part of a tensor."""
    second = second_of(index.fqn)
    return MetadataIndex(second, index.offset) if second else None


def _nbytes(item: WriteItem) -> int:
    """Of its tensor; 0 of other values."""
    return item.tensor_storage_size() or 0
