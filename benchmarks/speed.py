"""The codec's speed beside copying memory and, with --peers, beside other packages.

    PYTHONPATH=. python benchmarks/speed.py [--sizes 1M,16M] [--data mlp:3,lap:3]

prints Markdown, or JSON with --json. benchmarks/RESULTS.md is written by

    pip install -e ".[bench]"
    PYTHONPATH=. python benchmarks/speed.py --peers --growth -o benchmarks/RESULTS.md

in about ten minutes, with 8 GiB of memory. How things are measured: benchmarks/codec_speed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.codec_speed import cases, peers, scaling, tables
from benchmarks.codec_speed.goals import CODER, PAPER, verdicts
from benchmarks.codec_speed.samples import parse_data, parse_sizes
from benchmarks.markdown import table
from codec.scheme.warmup import warm_up
from codec.scheme.workers import set_threads, threads
from lcviz.lab.machine import machine

SIZES, DATA = "1M,16M,64M", "mlp:3,mlp:4,lap:3,gauss:3,gauss:4"
MEMORY = 2**24  # parameters at which peak memory is measured
PACKAGES = ("numpy", "numba", "llvmlite", "xxhash")
INTRODUCTION = f"""
All rows come from one run on one machine, whose other users affect the figures. Ratios are taken
within a round and their medians shown, so they are more reliable than GB/s. *Copy* is `np.copyto`
with all threads. *Encode* is the whole step (subtract, quantize, code, move the track with its
digests) and the BLAKE3 digest of the record's contents. *Decode* checks that digest and writes the
new track into other arrays, computing its digests. *In place* moves the track itself and compares
its digests. Everything restored was compared bit for bit. The goals are for the `{CODER}` coder;
`{PAPER}` is the paper's. *Encode ÷ zipnn* compares with the faster of zipnn's two rows. *Extra*
memory is the peak beyond the state and its track.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print or write the answer."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.output and not options.output.resolve().parent.is_dir():
        parser.error(f"{options.output}: there is no such directory")
    arguments = sys.argv[1:] if arguments is None else arguments
    with using(options.threads or threads()):
        measured = collect(
            options.sizes,
            options.data,
            options.rounds,
            options.peers,
            options.growth,
            shlex.join(["python", "benchmarks/speed.py", *arguments]),
            lambda line: print(line, file=sys.stderr, flush=True),
        )
    answer = json.dumps(measured) + "\n" if options.json else text(measured)
    if options.output:
        options.output.write_text(answer, encoding="utf-8")
    else:
        print(answer, end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes",
        type=parse_sizes,
        default=SIZES,
        metavar="N,N,…",
        help=f"parameters; k and M are powers of two (default: {SIZES})",
    )
    parser.add_argument(
        "--data",
        type=parse_data,
        default=DATA,
        metavar="NAME:BITS,…",
        help=f"mlp, lap or gauss, and the number of bits (default: {DATA})",
    )
    parser.add_argument(
        "--threads", type=_positive, metavar="N", help="threads (default: one per processor)"
    )
    parser.add_argument(
        "--rounds",
        type=_positive,
        default=cases.ROUNDS,
        metavar="N",
        help=f"timed rounds (default: {cases.ROUNDS})",
    )
    parser.add_argument("--peers", action="store_true", help="measure other packages too")
    parser.add_argument(
        "--growth",
        type=parse_sizes,
        nargs="?",
        metavar="N,N,…",
        const=parse_sizes(scaling.SIZES),
        help=f"measure growth (at {scaling.SIZES}), peak memory and a cold start too",
    )
    parser.add_argument("--json", action="store_true", help="answer as one JSON object")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the answer here")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, not {text!r}")
    return int(text)


def collect(
    sizes: Sequence[int],
    data: Sequence[tuple[str, int]],
    rounds: int = cases.ROUNDS,
    with_peers: bool = False,
    growth: Sequence[int] | None = None,
    command: str = "",
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure everything; the answer can be written as JSON.

    Args:
        sizes: Numbers of parameters.
        data: Kinds of data and bits.
        rounds: Timed rounds.
        with_peers: Whether other packages are measured too.
        growth: Sizes for `scaling`, None to leave it out.
        command: The command line, for the answer.
        report: Gets a line about each part.

    Returns:
        date, command, threads, rounds, machine; cases (see `cases.run`); lc_checkpoint (None
        without peers); and growth, memory, cold_start (empty without growth).

    Raises:
        RoundTripError: A task gave back something else than it was given.
        ChildError: A measuring process failed.
    """
    warm_up()
    packages = PACKAGES + (peers.PACKAGES if with_peers else ())
    peer_tools = peers.peer_tools if with_peers else None
    measured: dict[str, Any] = {
        "date": datetime.now().astimezone().isoformat(" ", "minutes"),
        "command": command,
        "threads": threads(),
        "rounds": rounds,
        "machine": machine(packages)
        | {"memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")},
        "lc_checkpoint": peers.lc_checkpoint() if with_peers else None,
        "cases": list(cases.run(sizes, data, rounds, peer_tools, report)),
        "growth": [],
        "memory": [],
        "cold_start": [],
    }
    if growth:
        measured["growth"] = scaling.growth(growth, rounds, report)
        measured["memory"] = list(_memory(data, min(MEMORY, max(growth)), report))
        measured["cold_start"] = scaling.cold_start(report)
    return measured


def _memory(
    data: Iterable[tuple[str, int]], n: int, report: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    for name, bits in data:
        for coder in cases.TIMED:
            extra = scaling.memory(n, name, bits, coder)
            yield {"data": f"{name}:{bits}", "n": n, "coder": coder, "extra": extra}
        report(f"memory for {name}:{bits}")


@contextmanager
def using(n: int) -> Iterator[None]:
    """Let the codec use n threads inside a with statement."""
    usual = threads()
    set_threads(n)
    try:
        yield
    finally:
        set_threads(usual)


def text(measured: dict[str, Any]) -> str:
    """The answer as Markdown."""
    goals = verdicts(measured)
    judged = [goal for goal in goals if goal.met is not None]
    goal_table = table(["goal", "where", "wanted", "measured", "met"], [v.cells() for v in goals])
    return (
        f"# The codec side by side\n\n{tables.heading(measured)}{INTRODUCTION}\n"
        f"## Goals: {sum(bool(v.met) for v in judged)} of {len(judged)} met\n\n{goal_table}\n"
        f"{tables.body(measured)}"
    )


if __name__ == "__main__":
    sys.exit(main())
