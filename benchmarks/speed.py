"""The codec side by side with copying memory and with other packages, and what was aimed at.

    pip install -e ".[bench]"
    PYTHONPATH=. python benchmarks/speed.py [--sizes …] [--data …] [--rounds N] [--threads N]

Takes about ten minutes with its defaults, needs 8 GiB of memory, and writes
benchmarks/RESULTS.md. How things are measured: codec/bench/cases.py; the peers: peers.py here.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers
from codec import threads
from codec.bench import cases, command, markdown, samples, scaling
from codec.bench.tasks import DECODE, ENCODE, IN_PLACE

RESULTS = Path(__file__).with_name("RESULTS.md")
LARGE = int(0.95 * 2**24)  # parameters: a perceptron "of 16M" has a few less
SMALL = 2**21
CODER, PAPER = "runlength", "huffman"
INTRODUCTION = f"""
Every row is of one run on one machine, whose other users the figures feel; ratios are taken
within a round and their medians shown, so they tell more than GB/s. *Copy* is `np.copyto` with
all threads. *Encode* is the whole step (subtract, quantize, code, move the track with its
digests) and the BLAKE3 digest of what a record holds of it; *decode* checks that digest and writes
the new track, digests computed, into other arrays; *in place* moves the track itself and
compares its digests. What every method gave back was checked, bit for bit. The `{CODER}` coder
is the one that the goals are about, `{PAPER}` is the paper's. *Encode ÷ zipnn* is beside the
faster of zipnn's two rows. *Extra* memory is the peak beyond the state and its track.
"""


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
    """A goal, where it was looked at, and what was found; found is None if it was not measured."""

    goal: str
    where: str
    wanted: float
    found: float | None
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached, None if it was not measured."""
        if self.found is None:
            return None
        return self.found >= self.wanted if self.at_least else self.found <= self.wanted

    def cells(self) -> list[str]:
        """A line of the table."""
        sign, digits = ("≥" if self.at_least else "≤"), 2 if self.at_least else 3
        found = "not measured" if self.found is None else f"{self.found:.{digits}f}"
        met = {None: markdown.DASH, True: "yes", False: "**no**"}[self.met]
        return [self.goal, self.where, f"{sign} {self.wanted:g}", found, met]


def verdicts(result: Mapping[str, Any]) -> list[Verdict]:
    """Every goal, with what was measured for it."""
    return [*_speeds(result["cases"]), *_sizes(result["cases"]), *_growth(result)]


def _speeds(cases: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    for found in cases:
        tool, zeros = found["tools"][CODER], found["zeros"]
        where = _where(found)
        if found["n"] >= LARGE:
            for row in (r for r in ROWS if r.low <= zeros < r.high):
                at = f"{where}: {row.name}"
                yield Verdict("encode ÷ copy", at, row.encode, tool[ENCODE]["to_copy"])
                yield Verdict("encode ÷ zipnn", at, row.zipnn, to_zipnn(found))
                yield Verdict("decode ÷ copy", at, row.decode, tool[DECODE]["to_copy"])
            if zeros >= IN_PLACE_FROM:
                goal = "decode in place ÷ copy"
                yield Verdict(goal, where, IN_PLACE_GOAL, tool[IN_PLACE]["to_copy"])
        elif found["n"] < SMALL and zeros >= SMALL_FROM:
            yield Verdict("encode ÷ zipnn", where, SMALL_GOAL, to_zipnn(found))


def _sizes(cases: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    for found in cases:
        shuffled = found["shuffled"]
        if shuffled and found["n"] >= LARGE:
            ratio = shuffled[CODER] / found["entropy"]
            goal = "bits ÷ entropy, symbols shuffled"
            yield Verdict(goal, _where(found), ENTROPY_GOAL, ratio, at_least=False)
    pairs = [(f, {name: f["tools"][name]["bits"] for name in (CODER, PAPER)}) for f in cases]
    pairs += [(f, f["shuffled"]) for f in cases if f["shuffled"]]
    if pairs:
        worst, ratio = max(((f, b[CODER] / b[PAPER]) for f, b in pairs), key=lambda pair: pair[1])
        where = f"worst case: {_where(worst)}"
        yield Verdict("bits ÷ the paper's Huffman code", where, 1, ratio, at_least=False)


def _growth(result: Mapping[str, Any]) -> Iterator[Verdict]:
    extra = [
        (r["extra"], f"{samples.size_name(r['n'])} {r['data']}")
        for r in result["memory"]
        if r["coder"] == CODER and r["n"] >= LARGE
    ]
    extra += [
        (r["extra"], f"{samples.size_name(r['n'])} lap:3")
        for r in result["growth"]
        if r["n"] >= LARGE
    ]
    for found, where in extra:
        yield Verdict("extra bytes a parameter", where, EXTRA_GOAL, found, at_least=False)
    rows = result["growth"]
    if len(rows) > 2:
        sizes = [r["n"] for r in rows]
        where = f"{samples.size_name(sizes[0])} to {samples.size_name(sizes[-1])}"
        for action in (ENCODE, IN_PLACE):
            goal = f"{action}: share off a fixed time and one a parameter"
            off = scaling.line(sizes, [r["ns"][action] for r in rows])[2]
            yield Verdict(goal, where, LINEAR_GOAL, off, at_least=False)


def to_zipnn(found: Mapping[str, Any]) -> float | None:
    """Median ratio of our encoding's speed to the faster of zipnn's two; None without zipnn."""
    theirs = [t[ENCODE]["seconds"] for name, t in found["tools"].items() if "zipnn" in name]
    if not theirs:
        return None
    return cases.median_ratio(
        [min(both) for both in zip(*theirs)], found["tools"][CODER][ENCODE]["seconds"]
    )


def text(result: Mapping[str, Any]) -> str:
    """RESULTS.md."""
    found = verdicts(result)
    known = [v for v in found if v.met is not None]
    table = markdown.table(
        ["goal", "where", "wanted", "measured", "met"], [v.cells() for v in found]
    )
    return (
        f"# The codec side by side\n\n{markdown.heading(result)}{INTRODUCTION}\n"
        f"## Goals: {sum(bool(v.met) for v in known)} of {len(known)} met\n\n{table}\n"
        f"{markdown.body(result)}"
    )


def _where(found: Mapping[str, Any]) -> str:
    return f"{samples.size_name(found['n'])} {found['data']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command.add_arguments(parser)
    parser.set_defaults(peers=True, growth=samples.parse_sizes(scaling.SIZES), output=RESULTS)
    options = parser.parse_args(arguments)
    given = sys.argv[1:] if arguments is None else arguments
    begin = time.perf_counter()
    with command.using(options.threads or threads()):
        result = command.collect(
            options.sizes,
            options.data,
            options.rounds,
            peers,
            options.growth,
            shlex.join(["python", "benchmarks/speed.py", *given]),
            lambda line: print(f"{time.perf_counter() - begin:4.0f} s  {line}", flush=True),
        )
    answer = json.dumps(result) + "\n" if options.json else text(result)
    options.output.write_text(answer, encoding="utf-8")
    print(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
