"""A chain in numbers, from the heads or the contents of its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from codec import Coding
from codec.inspect import lost_before

from .records import RecordFacts

NEWEST = 20  # records whose pace is measured


@dataclass(frozen=True)
class Point:
    """A chain up to one of its records.

    share: bytes of the record over those of its state in float32; None for a base. nbytes: of all
    records so far. full_nbytes: of as many full float32 checkpoints.
    """

    step: int
    share: float | None
    nbytes: int
    full_nbytes: int


@dataclass(frozen=True)
class Summary:
    """A chain in numbers.

    steps: of all records, by the names of their files, rising. reached: steps that records lead to
    without a gap (contents only). kinds: kind -> number of records. stamp: when the last record was
    written, ns, 0 if unknown. gap: median seconds between the newest records, None if unknown.
    nbytes: of all records. full_nbytes: of as many full float32 checkpoints. share, step_nbytes: of
    a step that is not a base, on average: its bytes over those in float32, and its bytes; None if
    they are unknown. codings: the settings, the newest last. behind: of the newest record, None if
    unknown; moments: of the newest base; tables, tables_reused: sums; see `RecordFacts`. points:
    one for each record that is not damaged.
    """

    steps: tuple[int, ...]
    reached: tuple[int, ...]
    kinds: Mapping[str, int]
    stamp: int
    gap: float | None
    nbytes: int
    full_nbytes: int
    share: float | None
    step_nbytes: float | None
    codings: tuple[Coding, ...]
    behind: float | None
    moments: str
    tables: int
    tables_reused: int
    problems: tuple[str, ...]
    points: tuple[Point, ...]

    @property
    def newest(self) -> int:
        """The last step, 0 if no record can be read."""
        return self.steps[-1] if self.steps else 0

    @property
    def times(self) -> float | None:
        """How many times smaller the chain is than full checkpoints."""
        return self.full_nbytes / self.nbytes if self.nbytes and self.full_nbytes else None


def summarize(facts: Sequence[RecordFacts]) -> Summary:
    """A chain in numbers. facts: in reading order; of damaged records only the bytes count."""
    full = nbytes = full_nbytes = delta_nbytes = delta_full = n_deltas = 0
    points = []
    behind: float | None = None
    codings: dict[Coding, None] = {}
    for f in facts:
        e = f.entry
        nbytes += e.nbytes
        if f.problem:
            continue
        behind = f.rest and f.rest.behind
        if e.kind == "base" or f.full_nbytes:  # heads of deltas lack it
            full = f.full_nbytes
        share = None
        full_nbytes += full
        if f.coding is not None:
            delta_nbytes += e.nbytes
            delta_full += full
            n_deltas += 1
            codings.pop(f.coding, None)
            codings[f.coding] = None
            share = e.nbytes / full if full else None
        points.append(Point(e.step, share, nbytes, full_nbytes))
    stamps = sorted(f.stamp for f in facts if f.stamp)
    gaps = [(b - a) / 1e9 for a, b in pairwise(stamps[-NEWEST:])]
    kinds = [f.entry.kind for f in facts]
    problems = [f.problem for f in facts if f.problem]
    return Summary(
        steps=tuple(sorted({f.entry.step for f in facts})),
        reached=tuple(sorted({f.entry.step for f in facts if f.reached})),
        kinds={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        stamp=stamps[-1] if stamps else 0,
        gap=median(gaps) if gaps else None,
        nbytes=nbytes,
        full_nbytes=full_nbytes,
        share=delta_nbytes / delta_full if delta_full else None,
        step_nbytes=delta_nbytes / n_deltas if n_deltas else None,
        codings=tuple(codings),
        behind=behind,
        moments=next((f.moments for f in reversed(facts) if f.entry.kind == "base"), ""),
        tables=sum(f.tables for f in facts),
        tables_reused=sum(f.tables_reused for f in facts),
        problems=(*problems, *_lost_before_base(facts)),
        points=tuple(points),
    )


def _lost_before_base(facts: Sequence[RecordFacts]) -> list[str]:
    """A sentence if the record before the newest base is missing, see `lost_before`."""
    bases = [i for i, f in enumerate(facts) if f.entry.kind == "base" and not f.problem]
    if not bases or not bases[-1] or facts[bases[-1] - 1].problem:
        return []
    base, identities = facts[bases[-1]], {f.identity for f in facts[: bases[-1]]}
    lost = lost_before(base.entry.name, base.parent, identities - {None})
    return [lost] if lost else []
