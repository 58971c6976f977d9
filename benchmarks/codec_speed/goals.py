"""What was aimed at, and whether it is met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .cases import median_ratio
from .samples import size_name
from .scaling import fit_line
from .tables import DASH
from .tasks import DECODE, ENCODE, IN_PLACE

LARGE = int(0.95 * 2**24)  # parameters: a perceptron "of 16M" has a few less
SMALL = 2**21
CODER, PAPER = "runlength", "huffman"


@dataclass(frozen=True)
class Row:
    """Goals for deltas with a share of zeros from low to high."""

    name: str
    low: float
    high: float
    encode: float
    zipnn: float
    decode: float


ROWS = (
    Row("≥ 99 % zeros", 0.98, 1.01, 0.75, 12, 0.9),
    Row("~94 % zeros", 0.90, 0.98, 0.25, 4, 0.6),
    Row("~78 % zeros", 0.70, 0.90, 0.20, 3.5, 0.4),
    Row("~62 % zeros", 0.50, 0.70, 0.14, 2.2, 0.3),
)
IN_PLACE_GOAL, IN_PLACE_FROM = 1.2, 0.935
ENTROPY_GOAL, EXTRA_GOAL, LINEAR_GOAL, SMALL_GOAL, SMALL_FROM = 1.015, 1.25, 0.15, 3.0, 0.98


@dataclass(frozen=True)
class Verdict:
    """A goal for one case, and the figure measured there, None if it was not measured."""

    goal: str
    where: str
    target: float
    measured: float | None
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached, None if it was not measured."""
        if self.measured is None:
            return None
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    def cells(self) -> list[str]:
        """A line of the table."""
        sign, digits = ("≥" if self.at_least else "≤"), 2 if self.at_least else 3
        measured = "not measured" if self.measured is None else f"{self.measured:.{digits}f}"
        met = {None: DASH, True: "yes", False: "**no**"}[self.met]
        return [self.goal, self.where, f"{sign} {self.target:g}", measured, met]


def verdicts(measured: Mapping[str, Any]) -> list[Verdict]:
    """The verdicts on all goals. measured: what `speed.collect` returns."""
    return [*_speeds(measured["cases"]), *_sizes(measured["cases"]), *_growth(measured)]


def _speeds(cases: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    for case in cases:
        tool, zeros = case["tools"][CODER], case["zeros"]
        where = _where(case)
        if case["n"] >= LARGE:
            for row in (r for r in ROWS if r.low <= zeros < r.high):
                at = f"{where}: {row.name}"
                yield Verdict("encode ÷ copy", at, row.encode, tool[ENCODE]["to_copy"])
                yield Verdict("encode ÷ zipnn", at, row.zipnn, _to_zipnn(case))
                yield Verdict("decode ÷ copy", at, row.decode, tool[DECODE]["to_copy"])
            if zeros >= IN_PLACE_FROM:
                goal = "decode in place ÷ copy"
                yield Verdict(goal, where, IN_PLACE_GOAL, tool[IN_PLACE]["to_copy"])
        elif case["n"] < SMALL and zeros >= SMALL_FROM:
            yield Verdict("encode ÷ zipnn", where, SMALL_GOAL, _to_zipnn(case))


def _sizes(cases: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    for case in cases:
        shuffled = case["shuffled"]
        if shuffled and case["n"] >= LARGE:
            ratio = shuffled[CODER] / case["entropy"]
            goal = "bits ÷ entropy, symbols shuffled"
            yield Verdict(goal, _where(case), ENTROPY_GOAL, ratio, at_least=False)
    pairs = [(c, {name: c["tools"][name]["bits"] for name in (CODER, PAPER)}) for c in cases]
    pairs += [(c, c["shuffled"]) for c in cases if c["shuffled"]]
    if pairs:
        worst, ratio = max(((c, b[CODER] / b[PAPER]) for c, b in pairs), key=lambda pair: pair[1])
        where = f"worst case: {_where(worst)}"
        yield Verdict("bits ÷ the paper's Huffman code", where, 1, ratio, at_least=False)


def _growth(measured: Mapping[str, Any]) -> Iterator[Verdict]:
    extra = [
        (r["extra"], f"{size_name(r['n'])} {r['data']}")
        for r in measured["memory"]
        if r["coder"] == CODER and r["n"] >= LARGE
    ]
    rows = measured["growth"]
    extra += [(r["extra"], f"{size_name(r['n'])} lap:3") for r in rows if r["n"] >= LARGE]
    for nbytes, where in extra:
        yield Verdict("extra bytes a parameter", where, EXTRA_GOAL, nbytes, at_least=False)
    if len(rows) > 2:
        sizes = [r["n"] for r in rows]
        where = f"{size_name(sizes[0])} to {size_name(sizes[-1])}"
        for action in (ENCODE, IN_PLACE):
            goal = f"{action}: share off a fixed time and one a parameter"
            off = fit_line(sizes, [r["ns"][action] for r in rows])[2]
            yield Verdict(goal, where, LINEAR_GOAL, off, at_least=False)


def _to_zipnn(case: Mapping[str, Any]) -> float | None:
    """Median ratio of our encoding's speed to the faster of zipnn's two; None without zipnn."""
    theirs = [t[ENCODE]["seconds"] for name, t in case["tools"].items() if "zipnn" in name]
    if not theirs:
        return None
    faster = [min(times) for times in zip(*theirs)]
    return median_ratio(faster, case["tools"][CODER][ENCODE]["seconds"])


def _where(case: Mapping[str, Any]) -> str:
    return f"{size_name(case['n'])} {case['data']}"
