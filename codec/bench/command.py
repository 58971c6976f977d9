"""The command `bench`, and a run of all its parts."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from codec.console import OK, say
from codec.errors import SettingsError
from codec.scheme.coders import CODERS
from codec.scheme.warmup import warm_up
from codec.scheme.workers import set_threads, threads
from codec.storage.directory import publish
from codec.storage.location import local_path

from . import cases, markdown, scaling
from .cases import ROUNDS
from .samples import parse_data, parse_sizes

SIZES, DATA = "1M,16M,64M", "mlp:3,mlp:4,lap:3,gauss:3,gauss:4"
MEMORY = 2**24  # parameters at which peak memory is measured
PACKAGES = ("numpy", "numba", "llvmlite", "xxhash")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    parser.add_argument(
        "--sizes",
        type=checked(parse_sizes),
        default=SIZES,
        metavar="N,N,…",
        help=f"parameters; k and M are powers of two (default: {SIZES})",
    )
    parser.add_argument(
        "--data",
        type=checked(parse_data),
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
        default=ROUNDS,
        metavar="N",
        help=f"timed rounds (default: {ROUNDS})",
    )
    parser.add_argument(
        "--peers", action="store_true", help="measure other packages too; only in the repository"
    )
    parser.add_argument(
        "--growth",
        type=checked(parse_sizes),
        nargs="?",
        metavar="N,N,…",
        const=parse_sizes(scaling.SIZES),
        help=f"measure growth (at {scaling.SIZES}), peak memory and a cold start too",
    )
    parser.add_argument("--json", action="store_true", help="answer as one JSON object")
    parser.add_argument(
        "-o",
        "--output",
        type=checked(local_path),
        metavar="FILE",
        help="the file to write the answer to",
    )


def run(options: argparse.Namespace) -> int:
    """Time encoding and decoding against copying the same memory."""
    if options.output and not options.output.resolve().parent.is_dir():
        raise SettingsError(f"{options.output}: there is no such directory")
    peers = None
    if options.peers:
        try:
            peers = importlib.import_module("benchmarks.peers")
        except ModuleNotFoundError as exc:
            raise SettingsError(f"--peers works only in the root of the repository: {exc}") from exc
    with using(options.threads or threads()):
        result = collect(
            options.sizes,
            options.data,
            options.rounds,
            peers,
            options.growth,
            shlex.join(["python", "-m", "codec", *sys.argv[1:]]),
            say,
        )
    answer = json.dumps(result) + "\n" if options.json else markdown.report(result)
    if options.output:
        publish(options.output, lambda file: file.write(answer.encode()), overwrite=True)
    else:
        print(answer, end="")
    return OK


def collect(
    sizes: Sequence[int],
    data: Sequence[tuple[str, int]],
    rounds: int = ROUNDS,
    peers: Any = None,
    growth: Sequence[int] | None = None,
    command: str = "",
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure everything; the answer can be written as JSON.

    Args:
        sizes: Numbers of parameters.
        data: Kinds of data and bits.
        rounds: Timed rounds.
        peers: The module benchmarks.peers, or None.
        growth: Sizes for `scaling`, None to leave it out.
        command: The command line, for the answer.
        report: Gets a line about each part.

    Returns:
        date, command, threads, rounds, machine; cases (see `cases.run`); lc_checkpoint (None
        without peers); and growth, memory, cold_start (empty without growth).

    Raises:
        RoundTripError: A task did not give back what it was given.
        ChildError: A measuring process failed.
    """
    warm_up()
    packages = PACKAGES + (peers.PACKAGES if peers else ())
    result: dict[str, Any] = {
        "date": datetime.now().astimezone().isoformat(" ", "minutes"),
        "command": command,
        "threads": threads(),
        "rounds": rounds,
        "machine": machine(packages),
        "lc_checkpoint": peers.lc_checkpoint() if peers else None,
        "cases": list(cases.run(sizes, data, rounds, peers.tools if peers else None, report)),
        "growth": [],
        "memory": [],
        "cold_start": [],
    }
    if growth:
        result["growth"] = scaling.growth(growth, rounds, report)
        result["memory"] = list(_memory(data, min(MEMORY, max(growth)), report))
        result["cold_start"] = scaling.cold_start(report)
    return result


def machine(packages: Iterable[str] = PACKAGES) -> dict[str, Any]:
    """This machine: cpu, cores, memory (bytes, None if unknown), system, versions."""
    cpu = platform.processor() or platform.machine()
    with suppress(OSError):
        named = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        cpu = named[1] if named else cpu
    memory = None
    with suppress(AttributeError, ValueError, OSError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {"Python": platform.python_version()}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": cpu,
        "cores": cores,
        "memory": memory,
        "system": platform.platform(terse=True),
        "versions": versions,
    }


@contextmanager
def using(n: int) -> Iterator[None]:
    """Let the codec use n threads inside a with statement."""
    usual = threads()
    set_threads(n)
    try:
        yield
    finally:
        set_threads(usual)


def _memory(
    data: Iterable[tuple[str, int]], n: int, report: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    for name, bits in data:
        for coder in CODERS:
            extra = scaling.memory(n, name, bits, coder)
            yield {"data": f"{name}:{bits}", "n": n, "coder": coder, "extra": extra}
        report(f"memory for {name}:{bits}")


def checked(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type for argparse, which shows the texts only of its own errors."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from exc

    return parsed


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, not {text!r}")
    return int(text)
