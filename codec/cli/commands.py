"""The commands of `python -m codec`; each returns an exit code. Their docstrings are their help.

Answers go to standard output, as text or with --json as one JSON object; progress and warnings go
to standard error.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from codec.caps import names_of, printable
from codec.chain import upkeep
from codec.chain.chain import Chain
from codec.console import BAD_DATA, OK, OLDER, say
from codec.errors import ChainError, RecordError, SettingsError, StepOrderError, WriteError
from codec.record.exact import PREFIX
from codec.record.record import stored_layout
from codec.record.residuals import RESIDUALS
from codec.record.small import SMALL
from codec.saving.checkpointer import Checkpointer
from codec.saving.recorder import check_step
from codec.scheme.coding import KEYS
from codec.scheme.remainder import DeltaRest, Rest, describe_behind, restart_warning
from codec.state.file_steps import Series, numbered, steps_of_files, whole_numbers
from codec.state.policy import describe_moments, rules
from codec.state.tensor_files import kind_of, naming, read_state, write_state
from codec.storage import guard as guards
from codec.storage.entry import Entry
from codec.storage.location import Location

from . import distributed, tensors
from .newest import newest_intact

Command = Callable[[argparse.Namespace], int]


class Progress:
    """A progress bar on standard error if that is a terminal; call it with done and total."""

    def __init__(self, label: str, unit: str = "record") -> None:
        from tqdm import tqdm  # slow to import, and some commands show no bar

        self._bar = tqdm(desc=label, unit=unit, leave=False, disable=None)

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` are done."""
        self._bar.total = total
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._bar.close()


def info(options: argparse.Namespace) -> int:
    """List the records of a chain, or of a step of a distributed checkpoint.

    With --tensors, list the tensors of a step instead: name, dtype, shape, lossy or exact. They are
    not read.
    """
    if options.step is not None and not options.tensors:
        raise SettingsError("--step chooses the step whose tensors --tensors lists; give both")
    chain = distributed.chain_or_step(options)
    if not isinstance(chain, Chain):
        if options.tensors:
            raise SettingsError(f"{chain}: is a step; --tensors is for chains")
        answer, lines = distributed.info(chain)
        return _answer(options, answer, *lines)
    if options.tensors:
        answer, lines = tensors.of_chain(chain, options.step)
        return _answer(options, answer, *lines)
    reasons = _reasons(chain)
    rows = [
        {"step": e.step, "kind": e.kind, "bytes": e.nbytes, "file": e.name}
        | {"reason": reasons.get(e.name)}
        for e in chain.entries
    ]
    newest = next((e for e in reversed(chain.entries) if e.kind != "base"), None)
    exact, *sentences = _newest_delta(chain, newest) if newest else ({},)
    writer, moments, of_moments = _newest_base(chain)
    answer = {
        "run": chain.where,
        "bytes": chain.nbytes,
        "writer": writer,
        "records": rows,
        "newest_delta": exact,
        "moments": moments,
    }
    lines = [f"{'step':>8}  {'kind':<5}  {'bytes':>12}  file; the reason for a base"]
    for e in chain.entries:
        reason = reasons.get(e.name) or ""
        lines.append(f"{e.step:>8}  {e.kind:<5}  {e.nbytes:>12,}  {e.name}  {reason}".rstrip())
    written = f"; the newest base was written by {writer}" if writer else ""
    lines.append(f"{len(chain.entries)} records, {chain.nbytes:,} bytes{written}")
    return _answer(options, answer, *lines, *sentences, of_moments)


def _reasons(chain: Chain) -> dict[str, str | None]:
    """File name of each base -> why it is one; None if it does not say, or cannot be read."""
    part, reasons = chain.part("*"), dict[str, str | None]()  # reads only how a record begins
    bases = [entry for entry in chain.entries if entry.kind == "base"]
    part.expect(bases)
    for entry in bases:
        with suppress(RecordError, ChainError):  # `verify` explains it
            reasons[entry.name] = part.read(entry).reason
    return reasons


def _newest_delta(chain: Chain, entry: Entry) -> tuple[dict[str, Any], str, str, str]:
    """What `info` says about the newest delta: its JSON, a sentence about its exact part, which no
    setting makes smaller, one about how far behind a restart would be, and one if that is too
    far."""
    try:
        record = chain.read(entry)
    except (RecordError, ChainError) as exc:  # `verify` explains it
        return {"step": entry.step, "problem": str(exc)}, f"The newest delta: {exc}", "", ""
    tensors = {
        name.removeprefix(RESIDUALS).removeprefix(PREFIX): array.nbytes
        for name, array in record.arrays.items()
        if name.startswith((PREFIX, RESIDUALS, SMALL))
    }
    answer = {
        "step": entry.step,
        "bytes": record.nbytes,
        "exact_bytes": record.exact_nbytes,
        "exact_tensors": tensors,
    }
    behind = warning = ""
    if (rest := record.rest) and record.coding:
        answer |= {"distance": rest.distance, "behind": rest.behind}
        behind = (
            f"The newest delta leaves {rest.distance:.1%} of its change for the next one: a "
            f"restart would be {describe_behind(rest.behind)}"
        )
        warning = restart_warning([DeltaRest(entry.step, record.coding, rest)])
    names = names_of(sorted(tensors, key=lambda name: -tensors[name]))
    share = 100 * record.exact_nbytes / record.nbytes
    exact = (
        f"{record.exact_nbytes:,} bytes ({share:.0f} %) of the newest delta are stored exactly, "
        f"outside any budget{f': {names}' if names else ''}"
    )
    return answer, exact, behind, warning


def _newest_base(chain: Chain) -> tuple[str | None, dict[str, Any], str]:
    """What `info` says about the newest base: its writer, then the JSON and the sentence about the
    optimizer's lossy tensors."""
    entry = next((e for e in reversed(chain.entries) if e.kind == "base"), None)
    if entry is None:
        return None, {}, ""
    try:
        record = chain.read(entry)
        layout = stored_layout(record)
    except (RecordError, ChainError) as exc:
        return None, {"step": entry.step, "problem": str(exc)}, f"The newest base: {exc}"
    moments = [t for t in layout.tensors if t.measure]
    sentence = describe_moments(moments)
    answer = {
        "step": entry.step,
        "tensors": {t.name: str(t.family.target) for t in moments},
        "float32_bytes": sum(t.track_nbytes for t in moments),
    }
    return record.writer, answer, sentence[:1].upper() + sentence[1:]


def guard(options: argparse.Namespace) -> int:
    """Write digests beside a file or directory that is no chain; verify compares them.

    With --newest, print the path of the newest checkpoint in a folder that is intact, whoever wrote
    it; why newer ones are not goes to standard error.
    """
    if options.newest:
        return _newest(options)
    guarded = guards.guard(options.path, Progress("reading", "B"))
    answer = {"list": str(guarded.path), "files": guarded.files, "bytes": guarded.nbytes}
    line = f"{guarded.path}: digests of files: {guarded.files:,}, bytes: {guarded.nbytes:,}"
    return _answer(options, answer, line)


def _newest(options: argparse.Namespace) -> int:
    path, problems = newest_intact(options.path)
    for other, problem in problems:
        say(f"passed over: {other}: {problem}")
    rows = [{"path": str(other), "problem": problem} for other, problem in problems]
    answer = {"path": None if path is None else str(path), "passed_over": rows}
    if path is None:
        say(f"{options.path}: no checkpoint there is intact")
    if options.json:
        print(json.dumps(answer))
    elif path is not None:
        print(path)
    return BAD_DATA if path is None else OLDER if problems else OK


def _verify_guarded(options: argparse.Namespace, path: Path) -> int:
    """Compare files with the digests that `guard` wrote."""
    guarded = guards.check(path, Progress("reading", "B"))
    problems, ok = guarded.problems, not guarded.problems
    _answer(
        options,
        {"ok": ok, "files": guarded.files, "problems": problems, "bytes": guarded.nbytes},
        *(f"problem: {problem}" for problem in problems),
        f"{'ok' if ok else 'DAMAGED'}: {guarded.files:,} files, {guarded.nbytes:,} bytes checked",
    )
    return OK if ok else BAD_DATA


def verify(options: argparse.Namespace) -> int:
    """Read and replay every record; or compare files with the digests that guard wrote.

    It checks that the records are as they were written. It also says if a restart from the newest
    delta would be too far behind the training; that does not change the exit code.

    Of distributed checkpoints, a step: its metadata is unpickled, so verify only what people you
    trust have saved.
    """
    path = Location(options.run).path
    if isinstance(path, Path) and guards.is_guarded(path):
        return _verify_guarded(options, path)
    chain = distributed.chain_or_step(options)
    if not isinstance(chain, Chain):
        answer, lines, ok = distributed.verify(chain, Progress("checking"))
        _answer(options, answer, *lines)
        return OK if ok else BAD_DATA
    report = chain.verify(Progress("checking"))
    answer = {name: getattr(report, name) for name in ("ok", "steps", "problems")}
    steps = f"{len(report.steps)} of {len(chain.steps)} steps restore"
    newest = chain.entries[-1]
    warning = "" if newest.kind == "base" else _newest_delta(chain, newest)[-1]
    _answer(
        options,
        answer | {"bytes": report.nbytes},
        *(f"problem: {problem}" for problem in report.problems),
        f"{'ok' if report.ok else 'DAMAGED'}: {steps}, {report.nbytes:,} bytes checked",
        warning,
    )
    return OK if report.ok else BAD_DATA


def restore(options: argparse.Namespace) -> int:
    """Write the state of one step, or of all steps, to .safetensors (tensors only) or .pt files.

    Of distributed checkpoints, RUN is the step: its metadata is unpickled, so restore only what
    people you trust have saved.
    """
    if options.all is not None:
        return _restore_all(options)
    path = options.output
    kind = kind_of(path)
    chain = distributed.chain_or_step(options)
    if isinstance(chain, Chain):
        state = chain.restore(options.step, only=options.only)
    elif options.step is not None or options.only:
        raise SettingsError(f"{chain}: is a step; --step and --only are for chains")
    else:
        state = distributed.state_of(chain)
    tensors, left_out = write_state(path, state, kind)
    nbytes = path.stat().st_size
    answer = {"output": str(path), "bytes": nbytes, "tensors": tensors, "left_out": left_out}
    line = f"{path}: {tensors} tensors, {nbytes:,} bytes"
    return _answer(options, answer, line, _describe_left_out(left_out))


def _restore_all(options: argparse.Namespace) -> int:
    """Write the state of each step to a file in a folder."""
    if options.step is not None:
        raise SettingsError("--all and --step exclude each other; give one of them")
    chain, folder = Chain(options.run), options.output
    chain = chain.part(options.only) if options.only else chain
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise WriteError(f"{folder}: is no folder and cannot become one: {exc}") from exc
    left_out, done, progress = 0, 0, Progress("restoring", "step")
    for done, position in enumerate(chain.every_step(), 1):
        path = folder / f"{position.step:08d}.{options.all}"
        left_out += write_state(path, position.whole(), options.all)[1]
        progress(done, len(chain.steps))
    answer = {"output": str(folder), "files": done, "left_out": left_out}
    return _answer(options, answer, f"{folder}: {done} files", _describe_left_out(left_out))


def compress(options: argparse.Namespace) -> int:
    """Make a chain from a series of .safetensors or .pt files, one step per file.

    With --resume, the chain is continued by the files whose steps come after its newest. All others
    are skipped; they are not compared with the chain.
    """
    settings = {key: getattr(options, key) for key in KEYS}
    policy = rules(options.policy) or None  # None: the chain's
    series, where = _series(options), str(Location(options.output))
    rows: list[dict[str, Any]] = []
    deltas: list[DeltaRest] = []
    with _checkpointer(options, policy, settings) as chain:
        _say_series(series, guessed=options.steps is None)
        new = series if chain.step is None else _after(chain.step, series, Chain(chain.path))
        progress = Progress("compressing", "file")
        try:
            for step, path in new:
                state = read_state(path)
                with naming(path):
                    saved = chain.save(step, state)
                deltas.append(DeltaRest(step, chain.coding, Rest(saved.distance, saved.behind)))
                sizes = {"bytes": saved.nbytes, "full_bytes": saved.full_nbytes}
                rows.append({"step": step, "source": str(path), "kind": saved.kind} | sizes)
                progress(len(rows), len(new))
        except BaseException as exc:
            if chain.step is not None:
                exc.add_note(f"{where} is at step {chain.step}: --resume goes on from there")
            raise
        newest = chain.step
    answer = {
        "output": where,
        "records": rows,
        "steps": [{"step": step, "source": str(path)} for step, path in series],
        "skipped": [step for step, _ in series[: len(series) - len(new)]],
    }
    lines = [
        f"step {row['step']:>8}  {row['kind']:<5}  {row['bytes']:>12,} bytes  "
        f"{row['full_bytes'] / row['bytes']:>7.1f} x smaller  {row['source']}"
        for row in rows
    ]
    nothing = f"nothing to do: {where} is at step {newest}, and no file comes after it"
    return _answer(options, answer, *(lines or [nothing]), restart_warning(deltas))


def compact(options: argparse.Namespace) -> int:
    """Remove what the newest steps do not need, after writing a base of the oldest of them.

    Of distributed checkpoints, RUN is the directory of the steps: those that the newest steps do
    not need are removed. Nobody may be saving meanwhile.
    """
    chain = distributed.chain_or_step(options)
    if not isinstance(chain, Chain):
        answer, line = distributed.compact(chain, options)
        return _answer(options, answer, line)
    change = upkeep.compact(options.run, options.keep_steps, Progress("checking"))
    pairs = {"records": change.records, "bytes": change.nbytes}
    answer = {key: {"before": before, "after": after} for key, (before, after) in pairs.items()}
    lines = [
        f"{when} {records:,} records, {nbytes:,} bytes"
        for when, records, nbytes in zip(("before:", "after: "), *pairs.values())
    ]
    return _answer(options, answer, *lines)


def pack(options: argparse.Namespace) -> int:
    """Write all records of a directory to one .lcc.zip."""
    nbytes = Chain(options.run).pack(options.output)
    answer = {"output": str(options.output), "bytes": nbytes}
    return _answer(options, answer, f"{options.output}: {nbytes:,} bytes")


def unpack(options: argparse.Namespace) -> int:
    """Write the records of a .lcc.zip to a new directory, and check each of them."""
    chain = upkeep.unpack(options.run, options.output, Progress("unpacking"))
    n, nbytes = len(chain.entries), chain.nbytes
    answer = {"output": chain.where, "records": n, "bytes": nbytes}
    return _answer(options, answer, f"{chain.where}: {n} records, {nbytes:,} bytes")


def _series(options: argparse.Namespace) -> Series:
    """The files with their steps, by rising step. Raises SettingsError."""
    for path in options.files:
        if path.is_dir():
            raise SettingsError(f"{path}: is a directory; name its files")
        kind_of(path)
    if options.steps is not None:
        series = numbered(options.files, None if options.steps == "order" else options.steps)
    else:
        try:
            series = steps_of_files(options.files)
        except SettingsError as exc:
            exc.add_note(
                "give the steps in the order of the files: --steps 0,10,20 or, for 0, 1, 2…, "
                "--steps order"
            )
            raise
    for step, _ in series:
        check_step(step, None)
    return series


def _after(newest: int, series: Series, chain: Chain) -> Series:
    """The files that a chain can append; says how many others there are.

    Raises StepOrderError for a file between two steps of the chain.
    """
    for step, path in series:
        if chain.steps[0] < step < newest and step not in chain.steps:
            raise StepOrderError(
                f"{path}: is step {step}, which {chain.where} lacks and cannot add before its "
                f"newest step, {newest}; leave such files out, give their steps with --steps, or "
                "choose another output"
            )
    new = [(step, path) for step, path in series if step > newest]
    if n_skipped := len(series) - len(new):
        say(
            f"{n_skipped} of {len(series)} files skipped, by their steps: {chain.where} is at "
            f"step {newest}"
        )
    return new


def _say_series(series: Series, guessed: bool) -> None:
    """Say which file is which step; of many files the first few and the last."""
    first = series if len(series) <= 6 else series[:4]
    for step, path in first:
        say(f"step {step:>8}  {path}")
    if len(first) < len(series):
        step, path = series[-1]
        say(f"{'…':>13}  {len(series) - len(first) - 1} more")
        say(f"step {step:>8}  {path}")
    say(f"{len(series)} file{'s' * (len(series) != 1)}")
    if guessed and len(series) == 1:
        step, path = series[0]
        numbers = whole_numbers(path.stem)
        if len(numbers) != 1:
            count = f"{len(numbers)} whole numbers" if numbers else "no whole number"
            say(f"its name has {count}: step {step} is used; --steps gives another step")


def _checkpointer(
    options: argparse.Namespace, policy: Mapping[str, str] | None, settings: Mapping[str, Any]
) -> Checkpointer:
    try:
        return Checkpointer(options.output, policy=policy, resume=options.resume, **settings)
    except StepOrderError as exc:
        exc.add_note("on the command line that is --resume")
        raise


def _describe_left_out(n: int) -> str:
    return f"left out, for a .safetensors file holds tensors only: {n} values" if n else ""


def _answer(options: argparse.Namespace, answer: dict[str, Any], *lines: str) -> int:
    """Print an answer as JSON or as lines; returns OK.

    Lines may name what is in files of strangers: what is not printable is escaped.
    """
    if options.json:
        print(json.dumps(answer))
    else:
        print(*map(printable, filter(None, lines)), sep="\n")
    return OK
