"""A receipt says what an archive is, what it was made from, on what machine, and what was checked.

    {"receipt": 1, "of": "run", "archive": {"file": …, "sha256": …}, "records": […], …}

It is no signature: whoever changes the archive can write another receipt. It shows two honest
people whether they have the same bytes. Only training again could show that the archive was made
from what its receipt says.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import codec
import demo_models
from codec import Coding
from codec.errors import ForeignRecordError, RecordError, SettingsError
from codec.inspect import FORMAT, Entry, parsed, typed
from lcviz.lab.machine import machine, source_digest
from lcviz.lab.progress import Progress
from lcviz.run.run import Run
from lcviz.text import enumerated, plural

from .archive import Package, digest_of

VERSION = 1
MOST_BYTES = 16 * 2**20  # of a receipt: enough for 100,000 records
# Packages that decide the bytes, or that the check of a receipt needs.
PACKAGES = (
    *("numpy", "torch", "numba", "safetensors", "xxhash", "blake3", "filelock", "tqdm"),
    *("pandas", "scikit-learn"),
)
SOURCES = (codec, demo_models)  # the code that decides the bytes
_TRAINING = "model data optimizer lr momentum batch_size seed interval optimizer_state"
_RECORD = {"file": str, "sha256": str, "kind": str, "step": int, "bytes": int}
_SIZES = {
    "float32": "its steps in float32 take",
    "records": "its records take",
    "archive": "the archive has",
}
# An optimizer's name in a receipt -> for people.
_OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}

Receipt = dict[str, Any]


class ReceiptError(Exception):
    """A receipt that cannot be used; the message is a sentence."""


def of_run(run: Run, package: Package) -> Receipt:
    """The receipt of a run's archive."""
    dataset, last, settings = run.task.dataset, package.steps[-1], run.settings
    # A restart from `last` changes no step of the archive.
    restarts = [step for step in run.snapshot().resumed_at if step < last]
    parameters = dict(run.task.model.named_parameters())
    return _receipt("run", package) | {
        "what": run.task.title,
        "settings": {name: getattr(settings, name) for name in _TRAINING.split()}
        | settings.coding.header()
        | {"restore_work": None, "last_step": last, "resumed_at": restarts},
        "model": {
            "name": settings.model,
            "parameters": sum(p.numel() for p in parameters.values()),
            "tensors": [[n, str(p.dtype), list(p.shape)] for n, p in parameters.items()],
        },
        "data": {
            "name": dataset.name,
            "title": dataset.title,
            "from_folder": demo_models.DATASETS[dataset.name].needs_folder,
            "examples": [len(dataset.train[0]), len(dataset.held_out[0])],
            "sha256": dataset.digest(),
        },
    }


def of_files(
    package: Package, what: str, settings: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
) -> Receipt:
    """The receipt of a chain made of a visitor's own files.

    Args:
        package: the verified archive.
        what: the files in words.
        settings: of the Checkpointer.
        files: name, step, bytes, sha256 and left-out outermost keys of each.
    """
    return _receipt("files", package) | {
        "what": what,
        "settings": dict(settings),
        "files": list(files),
    }


def names_left_out(receipt: Receipt) -> list[str]:
    """The outermost keys that were left out of at least one file."""
    files = receipt.get("files", [])
    return list(dict.fromkeys(name for file in files for name in file.get("left_out", [])))


def of_archive(package: Package) -> Receipt:
    """The receipt of a chain that a visitor opened; its settings are those of the newest delta."""
    return _receipt("archive", package, "each has the digest that its own record gives") | {
        "what": "A chain that was opened",
        "settings": (package.coding or Coding(None)).header(),
    }


def _receipt(
    of: str, package: Package, compared: str = "compared with the tracks that were saved"
) -> Receipt:
    """The parts that every receipt has."""
    host = machine(PACKAGES)
    sources = {f"{p.__name__} (SHA-256 of its source)": source_digest(p) for p in SOURCES}
    return {
        "receipt": VERSION,
        "of": of,
        "made": _time(datetime.now(UTC).timestamp()),
        "archive": {"file": package.file, "bytes": len(package.data), "sha256": package.sha256},
        "records": [
            {"file": e.name, "step": e.step, "kind": e.kind, "bytes": e.nbytes, "sha256": digest}
            for e, digest in zip(package.entries, package.digests, strict=True)
        ],
        "tracks": {str(s): track for s, track in zip(package.steps, package.tracks, strict=True)},
        "sizes": {
            "float32": package.full_nbytes,
            "records": sum(e.nbytes for e in package.entries),
            "archive": len(package.data),
        },
        "verified": {
            "at": _time(package.at),
            "what": f"All {len(package.steps)} steps were rebuilt from the bytes of the archive, "
            f"and {compared}.",
        },
        "machine": {key: host[key] for key in ("cpu", "cores", "system")}
        | {"torch_threads": 1, "codec_threads": codec.threads()},
        "versions": host["versions"] | {"format": FORMAT} | sources,
    }


def _time(seconds: float) -> str:
    """A time in seconds since the epoch as text, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def dumped(receipt: Receipt) -> bytes:
    """The receipt as a file."""
    return (json.dumps(receipt, indent=1, ensure_ascii=False) + "\n").encode()


def load(data: bytes) -> Receipt:
    """A receipt from a file. Raises ReceiptError unless it has all that a check needs."""
    if len(data) > MOST_BYTES:
        raise ReceiptError(f"A receipt has at most {MOST_BYTES:,} bytes; this has {len(data):,}.")
    try:
        receipt = parsed(data, "the file", "a receipt", ForeignRecordError)
    except RecordError as exc:
        raise ReceiptError(f"This is no receipt: {exc}.") from exc
    if receipt.get("receipt") != VERSION:
        raise ReceiptError("This is no receipt of version 1.")
    try:
        _check_types(receipt)
    except (KeyError, TypeError, ValueError, AttributeError, SettingsError) as exc:
        raise ReceiptError(
            "This receipt's archive, records, tracks, sizes or settings are missing or malformed."
        ) from exc
    return receipt


def _check_types(receipt: Receipt) -> None:
    """Raise one of the errors that `load` expects unless `problems` can use the receipt."""
    archive, records, tracks = receipt["archive"], receipt["records"], receipt["tracks"]
    expected: list[tuple[Any, dict[str, type]]] = [(receipt, {"of": str})]
    expected += [(archive, {"file": str, "sha256": str, "bytes": int})]
    expected += [(receipt["sizes"], dict.fromkeys(_SIZES, int)), *((r, _RECORD) for r in records)]
    for part, kinds in expected:
        for name, kind in kinds.items():
            typed(part[name], kind)
    checks = [isinstance(track, str) and int(step) >= 0 for step, track in tracks.items()]
    _coding(receipt)
    checks += [bool(records), bool(tracks), Path(archive["file"]).name == archive["file"]]
    if not all(checks):
        raise ValueError("a part is not what it should be")


def problems(receipt: Receipt, data: bytes, progress: Progress | None = None) -> list[str]:
    """What a receipt says wrongly of an archive, as sentences; none if all of it is true.

    Every record is hashed and every step rebuilt even if the archive's own hash differs, so that
    the sentences say where it does.

    Args:
        receipt: as from `load`.
        data: the archive.
        progress: called after every step.
    """
    mismatches = []
    archive, tracks = receipt["archive"], receipt["tracks"]
    if len(data) != archive["bytes"]:
        mismatches.append(f"The archive has {len(data):,} bytes, not {archive['bytes']:,}.")
    if (sha256 := hashlib.sha256(data).hexdigest()) != archive["sha256"]:
        mismatches.append(f"The archive's SHA-256 is {sha256}, not {archive['sha256']}.")
    try:
        chain = codec.Chain(io.BytesIO(data))
        mismatches += _problems_of_records(receipt["records"], chain)
        seen, full_nbytes, settings = set(), 0, {}
        for position in chain.every_step():
            step = str(position.step)
            seen.add(step)
            full_nbytes += position.track.layout.nbytes
            if (coding := position.record.coding) is not None:
                settings[position.entry.name] = coding
            track = digest_of(position.track.layout, position.track.arrays)
            if tracks.get(step) != track:
                mismatches.append(f"Step {step} restores to a track of another digest: {track}.")
            if progress:
                progress(len(seen), len(tracks))
        if missing := sorted(tracks.keys() - seen, key=int):
            mismatches.append(f"{len(missing)} of the steps do not restore, {missing[0]} first.")
        sizes = {"float32": full_nbytes, "records": chain.nbytes, "archive": len(data)}
        mismatches += [
            f"The receipt says that {what} {stated:,} bytes, and it is {sizes[name]:,}."
            for name, what in _SIZES.items()
            if (stated := receipt["sizes"][name]) != sizes[name]
        ]
        mismatches += _problems_of_settings(receipt, list(settings.items()))
    except codec.LccError as exc:
        mismatches.append(f"The archive does not restore: {str(exc).rstrip('.')}.")
    return mismatches


def _problems_of_records(records: Sequence[Mapping[str, Any]], chain: codec.Chain) -> list[str]:
    stated = {record["file"]: record for record in records}
    entries: dict[str, Entry] = {entry.name: entry for entry in chain.entries}
    mismatches = []
    if len(stated) != len(records):
        mismatches.append("The receipt lists a record twice.")
    for name in sorted(stated.keys() ^ entries.keys()):
        where = "archive" if name in stated else "receipt"
        mismatches.append(f"The record {name} is not in the {where}.")
    for name in sorted(stated.keys() & entries.keys()):
        entry, record = entries[name], stated[name]
        digest = hashlib.sha256(chain.read_bytes(entry)).hexdigest()
        if record["sha256"] != digest:
            mismatches.append(f"The record {name} has another SHA-256: {digest}.")
        actual = {"bytes": entry.nbytes, "kind": entry.kind, "step": entry.step}
        mismatches += [
            f"The receipt gives the record {name} as {key} {record[key]}, and it is {value}."
            for key, value in actual.items()
            if record[key] != value
        ]
    return mismatches


def _problems_of_settings(receipt: Receipt, written: Sequence[tuple[str, Coding]]) -> list[str]:
    """written: name and settings of every record that is not a base, in order."""
    if receipt["of"] == "archive":  # such a receipt has only the settings of the newest delta
        written = written[-1:]
    stated = _coding(receipt)
    differing = [(name, coding) for name, coding in written if coding != stated]
    if not differing:
        return []
    first, coding = differing[0]
    return [
        f"The receipt says {stated.describe()}; {len(differing)} of {len(written)} records were "
        f"written otherwise, {first} first: {coding.describe()}."
    ]


def _coding(receipt: Receipt) -> Coding:
    """The codec's settings. Raises KeyError, TypeError or SettingsError if one is wrong."""
    return Coding(**{key: receipt["settings"][key] for key in Coding().header()})


def describe(receipt: Receipt) -> dict[str, str]:
    """The receipt for people, without its lists: name -> words."""
    settings, sizes, host = receipt["settings"], receipt["sizes"], receipt["machine"]
    facts = {"What": receipt["what"]}
    if receipt["of"] == "run":
        momentum = f", momentum {settings['momentum']:g}" if settings["momentum"] else ""
        n, optimizer = settings["interval"], settings["optimizer"]
        interval = "iteration" if n == 1 else f"{n} iterations"
        whole = " with the optimizer" if settings.get("optimizer_state") else ""
        if steps := settings["resumed_at"]:
            whole += f"; restarted from step {enumerated(list(map(str, steps)))}"
        data = receipt["data"]
        facts["Training"] = (
            f"{_OPTIMIZERS.get(optimizer, optimizer)}, learning rate {settings['lr']:g}{momentum}, "
            f"batch size {settings['batch_size']}, seed {settings['seed']}, saved every {interval} "
            f"up to {settings['last_step']}{whole}"
        )
        facts["Data"] = (
            f"{data['title']}: {data['examples'][0]:,} examples to train on, "
            f"{data['examples'][1]:,} held out; SHA-256 {data['sha256']}"
        )
        facts["Model"] = f"{receipt['model']['parameters']:,} parameters"
    elif receipt["of"] == "files":
        facts["Files"] = f"{len(receipt['files'])}, the SHA-256 of each in the file"
        if left_out := names_left_out(receipt):
            facts["Left out"] = ", ".join(left_out)
    versions = {k: str(v)[:16] if "SHA" in k else v for k, v in receipt["versions"].items()}
    return facts | {
        "Kept": _coding(receipt).describe(),
        "Archive": f"{sizes['archive']:,} bytes, SHA-256 {receipt['archive']['sha256']}",
        "Records": f"{len(receipt['records'])}, {sizes['records']:,} bytes; the SHA-256 of each in "
        "the file",
        "Steps": f"{len(receipt['tracks'])}, the track digest of each in the file; "
        f"{sizes['float32']:,} bytes in float32",
        "Verified": f"{receipt['verified']['at']}: {receipt['verified']['what']}",
        "Machine": f"{host['cpu']}, {plural(host['cores'], 'core')}, {host['system']}; "
        f"{plural(host['torch_threads'], 'thread')} of torch, {host['codec_threads']} of the codec",
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
