"""`info`, `verify`, `restore` and `compact` of distributed checkpoints, see `codec.dcp`.

`codec.dcp` needs torch, so it is imported only where there is no chain.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codec.chain.chain import Chain
from codec.errors import ChainError, ChainNotFoundError, RecordError, SettingsError
from codec.storage.location import Location

if TYPE_CHECKING:
    from codec.dcp.files import Step


def chain_or_step(options: argparse.Namespace) -> Chain | Step:
    """What is at RUN: a chain, a step, or the newest of the steps there.

    Raises what `Chain` raises if there is nothing, and ChainNotFoundError for steps none of which
    is whole.
    """
    try:
        return Chain(options.run)
    except ChainNotFoundError:
        step = _step_at(options.run)
        if step is None:
            raise
        return step


def _step_at(place: str) -> Step | None:
    path = Location(place).path
    if isinstance(path, Path) and not _holds_dcp_files(path):
        return None
    try:
        from codec.dcp.files import METADATA, step_at
        from codec.dcp.reader import newest_step
        from codec.dcp.steps import describe_broken, describe_none_whole
    except ImportError:  # without torch, what is there stays unknown
        return None
    step = step_at(place)
    if step.has(METADATA):
        return step
    if newest := newest_step(place):
        return step_at(newest)
    if reason := describe_broken(step) or describe_none_whole(Location(place).folder()):
        raise ChainNotFoundError(reason)
    return None


def _holds_dcp_files(path: Path) -> bool:
    """Whether a directory, or one in it, has a file that a distributed save writes."""
    names = ("*.metadata", "__*.safetensors")
    return any(any(path.glob(f"{above}{name}")) for above in ("", "*/") for name in names)


def info(step: Step) -> tuple[dict[str, Any], list[str]]:
    """JSON and lines about a step."""
    from codec.dcp.files import chain_of
    from codec.dcp.steps import records_of

    rows: list[dict[str, Any]] = []
    needs = {step.name}
    for record in records_of(step):
        at = record.at
        needs |= {need.step for need in record.needs}
        files = chain_of(step.run, [at])
        row = {"rank": at.rank, "kind": at.kind, "step": at.step, "bytes": files.nbytes}
        row["reason"] = None
        with suppress(RecordError, ChainError):  # `verify` explains it
            part = files.part("*")  # reads only how the record begins
            row["reason"] = part.read(part.entries[0]).reason if at.kind == "base" else None
        rows.append(row | {"chunks": len(record.chunks), "file": at.file})
    lines = [f"{'rank':>6}  {'kind':<5}  {'bytes':>12}  {'chunks':>6}  file"]
    lines += [
        f"{row['rank']:>6}  {row['kind']:<5}  {row['bytes']:>12,}  {row['chunks']:>6}  "
        f"{row['step']}/{row['file']}  {row['reason'] or ''}".rstrip()
        for row in rows
    ]
    total = sum(int(row["bytes"]) for row in rows)
    others = sorted(needs - {step.name})
    lines.append(
        f"{step}: records: {len(rows):,}, ranks: {len({row['rank'] for row in rows}):,}, "
        f"bytes: {total:,}; other steps that it needs: {', '.join(others) or 'none'}"
    )
    return {"step": str(step), "bytes": total, "records": rows, "needs": others}, lines


def verify(
    step: Step, progress: Callable[[int, int], None]
) -> tuple[dict[str, Any], list[str], bool]:
    """JSON, lines, and whether a step is intact."""
    from codec.dcp.steps import records_of, verify_step

    n = len(records_of(step))
    problems = verify_step(step, progress)
    ok = not problems
    lines = [f"problem: {problem}" for problem in problems]
    checked = f"{step}, records checked back to their bases: {n:,}"
    lines.append(f"{'ok' if ok else 'DAMAGED'}: {checked}")
    return {"ok": ok, "step": str(step), "records": n, "problems": problems}, lines, ok


def compact(step: Step, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Remove the steps that the newest ones do not need.

    Raises SettingsError, ChainError.

    step: from `chain_or_step`.
    """
    from codec.dcp.retention import Retention

    if step.run != Location(options.run).folder():
        raise SettingsError(f"{step}: is one step; name the directory of the steps, {step.run}")
    gone = Retention.compact(step.run, options.keep_steps)
    line = f"{step.run}: steps removed: {', '.join(gone) or 'none'}"
    return {"run": str(step.run), "removed": gone}, line


def state_of(step: Step) -> dict[Any, Any]:
    """The whole state of a step."""
    from codec.dcp import steps

    return steps.state_of(step)
