"""Command line: python -m codec info | verify | restore RUN, or bench.

RUN is a run.lcc directory or a .lcc.zip; bench measures this machine. Exit code 0: all is
well; 1: the data is not; 2: wrong use. With --json the answer is one JSON object on standard
output.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from .bench import command as bench
from .chain import Chain
from .errors import LccError, StepNotFoundError
from .state import is_tensor, to_safetensors
from .storage import publish
from .tree import leaves

OK, BAD_DATA, WRONG_USE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code and never shows a traceback for a bad chain."""
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # shown below, also under python -W error
        warnings.showwarning = lambda message, *_args, **_kw: print(message, file=sys.stderr)
        try:
            if options.command is bench.run:
                return bench.run(options)
            return int(options.command(Chain(options.run), options))
        except StepNotFoundError as exc:
            print(f"error: {exc}", file=sys.stderr)
            return WRONG_USE
        except LccError as exc:
            print(f"error: {exc}", file=sys.stderr)
            return BAD_DATA
        except BrokenPipeError:  # the reader, say `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return OK


def info(chain: Chain, options: argparse.Namespace) -> int:
    """What is in the chain, record by record."""
    rows = [
        {"step": e.step, "kind": e.kind, "bytes": e.nbytes, "file": e.name} for e in chain.entries
    ]
    if options.json:
        print(json.dumps({"run": str(options.run), "bytes": chain.nbytes, "records": rows}))
        return OK
    print(f"{'step':>10}  {'kind':<5}  {'bytes':>12}  file")
    for row in rows:
        print(f"{row['step']:>10}  {row['kind']:<5}  {row['bytes']:>12,}  {row['file']}")
    print(f"{len(rows)} records, {chain.nbytes:,} bytes")
    return OK


def verify(chain: Chain, options: argparse.Namespace) -> int:
    """Read and replay every record."""
    report = chain.verify(_progress)
    if options.json:
        answer = {
            "ok": report.ok, "bytes": report.nbytes,
            "steps": report.steps, "problems": report.problems,
        }  # fmt: skip
        print(json.dumps(answer))
    else:
        for problem in report.problems:
            print(f"problem: {problem}")
        steps = f"{len(report.steps)} of {len(chain.steps)} steps restore"
        print(f"{'ok' if report.ok else 'DAMAGED'}: {steps}, {report.nbytes:,} bytes checked")
    return OK if report.ok else BAD_DATA


def restore(chain: Chain, options: argparse.Namespace) -> int:
    """Write the state of one step as a plain .safetensors file."""
    state = chain.restore(options.step)
    flat = all(is_tensor(value) for value in state.values())
    found = state if flat else dict(leaves(state))
    tensors = {name: value for name, value in found.items() if is_tensor(value)}
    data = to_safetensors(tensors)
    publish(options.output, lambda file: file.write(data), overwrite=True)
    others = len(found) - len(tensors)
    if options.json:
        answer = {
            "output": str(options.output), "bytes": len(data), "tensors": len(tensors),
            "left_out": others,
        }  # fmt: skip
        print(json.dumps(answer))
        return OK
    print(f"{options.output}: {len(tensors)} tensors, {len(data):,} bytes")
    if others:
        print(f"left out, for a .safetensors file holds tensors only: {others} values")
    return OK


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rchecking record {done} of {total}", end=end, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m codec", description="Look into, check and restore LC-Checkpoint chains."
    )
    commands = parser.add_subparsers(required=True, metavar="info|verify|restore|bench")
    for name, command in (("info", info), ("verify", verify), ("restore", restore)):
        sub = commands.add_parser(name, help=command.__doc__, description=command.__doc__)
        sub.add_argument("run", type=Path, metavar="RUN", help="run.lcc directory or .lcc.zip")
        sub.add_argument("--json", action="store_true", help="answer as one JSON object")
        sub.set_defaults(command=command)
        if command is restore:
            sub.add_argument("--step", type=int, help="the step to restore (default: newest)")
            sub.add_argument(
                "-o", "--output", type=Path, required=True, help="the .safetensors file to write"
            )
    about = bench.run.__doc__
    sub = commands.add_parser("bench", help=about, description=about)
    bench.add_arguments(sub)
    sub.set_defaults(command=bench.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
