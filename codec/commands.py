"""What the commands of `python -m codec` do. Each returns an exit code, see __main__.

Answers go to standard output, as text or with --json as one JSON object; progress and warnings to
standard error.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from . import upkeep
from .chain import Chain
from .checkpointer import Checkpointer
from .errors import SettingsError, WriteError
from .files import kind_of, read_state, steps_of, write_state
from .location import Location
from .policy import rules
from .upkeep import Change

OK, BAD_DATA, WRONG_USE = 0, 1, 2


class Progress:
    """A bar on standard error, where that is a terminal; called with done and total."""

    def __init__(self, what: str, unit: str = "record") -> None:
        self._bar = tqdm(desc=what, unit=unit, leave=False, disable=None)

    def __call__(self, done: int, total: int) -> None:
        """So many are done."""
        self._bar.total = total
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._bar.close()


def info(options: argparse.Namespace) -> int:
    """What is in the chain, record by record."""
    chain = Chain(options.run)
    rows = [
        {"step": e.step, "first": e.first, "kind": e.kind, "bytes": e.nbytes, "file": e.name}
        for e in chain.entries
    ]
    if options.json:
        return _tell(options, {"run": chain.where, "bytes": chain.nbytes, "records": rows})
    print(f"{'step':>17}  {'kind':<6}  {'bytes':>12}  file")
    for e in chain.entries:
        steps = str(e.step) if e.first == e.step else f"{e.first}-{e.step}"
        print(f"{steps:>17}  {e.kind:<6}  {e.nbytes:>12,}  {e.name}")
    print(f"{len(rows)} records, {chain.nbytes:,} bytes")
    return OK


def verify(options: argparse.Namespace) -> int:
    """Read and replay every record."""
    chain = Chain(options.run)
    report = chain.verify(Progress("checking"))
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


def restore(options: argparse.Namespace) -> int:
    """Write the state of one step as a .safetensors file, which holds its tensors."""
    return _write(options, "safetensors")


def export(options: argparse.Namespace) -> int:
    """Write the state of one step as .safetensors or torch's .pt, or all steps into a folder."""
    if options.all is None:
        return _write(options, kind_of(options.output))
    if options.step is not None:
        raise SettingsError("--all and --step contradict each other")
    chain, folder = Chain(options.run), options.output
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise WriteError(f"{folder}: is no folder and cannot become one: {exc}") from exc
    left_out, done, told = 0, 0, Progress("exporting", "step")
    for done, position in enumerate(chain.every_step(), 1):
        path = folder / f"{position.step:08d}.{options.all}"
        left_out += write_state(path, position.whole(), options.all)[1]
        told(done, len(chain.steps))
    answer = {"output": str(folder), "files": done, "left_out": left_out}
    return _tell(options, answer, f"{folder}: {done} files", _left_out(left_out))


def compress(options: argparse.Namespace) -> int:
    """Make a chain of a series of .safetensors or .pt files: one step each."""
    settings = {"bits": options.bits, "scope": options.scope, "coder": options.coder}
    if options.budget is not None:
        settings["budget"] = options.budget
    policy = rules(options.policy)
    rows: list[dict[str, Any]] = []
    series, told = steps_of(options.files), Progress("compressing", "file")
    where = str(Location(options.output))
    with Checkpointer(options.output, policy=policy, resume=options.resume, **settings) as chain:
        for done, (step, path) in enumerate(series, 1):
            saved = chain.save(step, read_state(path))
            rows.append(
                {"step": step, "source": str(path), "kind": saved.kind, "bytes": saved.nbytes,
                 "full_bytes": saved.full_nbytes}
            )  # fmt: skip
            told(done, len(series))
    if options.json:
        return _tell(options, {"output": where, "records": rows})
    for row in rows:
        times = row["full_bytes"] / row["bytes"]
        print(
            f"step {row['step']:>8}  {row['kind']:<5}  {row['bytes']:>12,} bytes  "
            f"{times:>7.1f} x smaller  {row['source']}"
        )
    return OK


def merge(options: argparse.Namespace) -> int:
    """Put one record in the place of every few consecutive deltas; every step still restores."""
    return _told(options, upkeep.merge(options.run, options.steps, Progress("merging")))


def compact(options: argparse.Namespace) -> int:
    """Write a base of the newest step, and remove what lies before the bases that are kept."""
    return _told(options, upkeep.compact(options.run, options.keep, Progress("checking")))


def pack(options: argparse.Namespace) -> int:
    """Write all records of a directory into one .lcc.zip."""
    nbytes = Chain(options.run).pack(options.output)
    answer = {"output": str(options.output), "bytes": nbytes}
    return _tell(options, answer, f"{options.output}: {nbytes:,} bytes")


def unpack(options: argparse.Namespace) -> int:
    """Write the records of a .lcc.zip into a new directory, each of them checked."""
    chain = upkeep.unpack(options.run, options.output, Progress("unpacking"))
    n, nbytes = len(chain.entries), chain.nbytes
    answer = {"output": chain.where, "records": n, "bytes": nbytes}
    return _tell(options, answer, f"{chain.where}: {n} records, {nbytes:,} bytes")


def _write(options: argparse.Namespace, kind: str) -> int:
    path = options.output
    tensors, left_out = write_state(path, Chain(options.run).restore(options.step), kind)
    nbytes = path.stat().st_size
    answer = {"output": str(path), "bytes": nbytes, "tensors": tensors, "left_out": left_out}
    return _tell(
        options, answer, f"{path}: {tensors} tensors, {nbytes:,} bytes", _left_out(left_out)
    )


def _left_out(n: int) -> str:
    return f"left out, for a .safetensors file holds tensors only: {n} values" if n else ""


def _told(options: argparse.Namespace, change: Change) -> int:
    answer = {
        key: {"before": before, "after": after}
        for key, (before, after) in (
            ("records", change.records), ("bytes", change.nbytes),
            ("restore_seconds", change.restore_seconds),
        )
    }  # fmt: skip
    was, now = ([f"{n:,}" for n in pair] for pair in zip(change.records, change.nbytes))
    seconds = [f"{1000 * s:.1f} ms" for s in change.restore_seconds]
    return _tell(
        options, answer,
        f"before: {was[0]} records, {was[1]} bytes, newest step restored in {seconds[0]}",
        f"after:  {now[0]} records, {now[1]} bytes, newest step restored in {seconds[1]}",
    )  # fmt: skip


def _tell(options: argparse.Namespace, answer: dict[str, Any], *lines: str) -> int:
    if options.json:
        print(json.dumps(answer))
    else:
        print(*(line for line in lines if line), sep="\n")
    return OK


Command = Callable[[argparse.Namespace], int]
