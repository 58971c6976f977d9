"""A receipt: what an archive is, what it was made from, on what, and what was checked.

    {"receipt": 1, "of": "run", "archive": {"file": …, "sha256": …}, "records": […], …}

It is no signature: whoever changes the archive can write another receipt. It tells two honest
people whether they have the same bytes, and lets a script make them again (script). Nothing here
knows a screen.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import codec
import demo_models
from codec.bench.command import machine
from codec.caps import parsed
from codec.errors import ForeignRecordError, RecordError
from codec.record.header import FORMAT
from lcviz.run.run import Run
from lcviz.run.snapshot import Snapshot

from . import receipt_claims as claims
from .archive import Package, digest_of

VERSION = 1
MOST_BYTES = 16 * 2**20  # of a receipt that is read: 100,000 records take as much
PACKAGES = ("numpy", "torch", "numba", "safetensors", "scikit-learn")
SOURCES = (codec, demo_models)  # the code that decides the bytes
_DECIDES = (
    "model",
    "data",
    "optimizer",
    "lr",
    "momentum",
    "batch_size",
    "seed",
    "interval",
    "bits",
    "scope",
    "coder",
    "budget",
)

# How people read what a receipt says in the code's own words.
_OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
_SCOPES = {"model": "the whole model", "tensor": "each tensor"}
_CODERS = {"runlength": "run-length Huffman", "huffman": "Huffman (paper)"}

Receipt = dict[str, Any]


class ReceiptError(Exception):
    """A receipt that cannot be used; the message is a sentence."""


def of_run(run: Run, package: Package) -> Receipt:
    """The receipt of a run's archive."""
    snapshot, dataset = run.snapshot(), run.task.dataset
    settings = {k: v for k, v in asdict(run.settings).items() if k in _DECIDES}
    last = package.steps[-1]
    resumed_at = _restarts(snapshot, last)
    tensors = [[n, str(p.dtype), list(p.shape)] for n, p in run.task.model.named_parameters()]
    full = sum(snapshot.at(step).full_nbytes for step in package.steps)
    return _common("run", package, full) | {
        "what": run.task.title,
        "settings": settings | {"base_every": None, "last_step": last, "resumed_at": resumed_at},
        "model": {
            "name": run.settings.model,
            "parameters": sum(p.numel() for p in run.task.model.parameters()),
            "tensors": tensors,
        },
        "data": {
            "name": dataset.name,
            "title": dataset.title,
            "from_folder": demo_models.DATASETS[dataset.name].needs_folder,
            "examples": [len(dataset.train[0]), len(dataset.held_out[0])],
            "sha256": dataset.digest(),
        },
        "reproducible": reproducible(snapshot, last),
    }


def reproducible(snapshot: Snapshot, last: int) -> str:
    """Which part of a run its script makes again, and how: one or two sentences."""
    same = "All of it: the training has one seed, and pausing, stepping or watching changes no byte"
    restarts = [str(step) for step in _restarts(snapshot, last)]
    if not restarts:
        return f"{same}."
    return (
        f"All of it, its {len(restarts)} restart{'s' * (len(restarts) > 1)} included: the run was "
        f"killed and went on from step {', '.join(restarts)}. What it had trained beyond that was "
        "lost and is in no record; the script trains up to that step, throws model and optimizer "
        "away, restores the step from its own chain, and goes on with a new optimizer, as the run "
        "did."
    )


def _restarts(snapshot: Snapshot, last: int) -> list[int]:
    """The steps a run went on from, as far as they matter: after the last one nothing follows."""
    return [step for step in snapshot.resumed_at if step < last]


def of_files(package: Package, what: str, settings: Mapping[str, Any], more: Receipt) -> Receipt:
    """The receipt of a chain made of somebody's own files.

    settings: of the Checkpointer. more: "files", see `own`, and "full_bytes".
    """
    return _common("files", package, more["full_bytes"]) | {
        "what": what,
        "settings": dict(settings),
        "files": more["files"],
        "reproducible": "All of it, from the same files: the script finds them by their SHA-256, "
        "whatever they are called.",
    }


def of_archive(package: Package, nbytes: int, kept: Mapping[str, Any]) -> Receipt:
    """The receipt of a chain that somebody brought. kept: bits, budget, scope, coder of its newest
    delta. nbytes: of its steps in float32."""
    return _common("archive", package, nbytes) | {
        "what": "A chain that was opened",
        "verified": {
            "at": told_at(package.at),
            "what": f"All {len(package.steps)} steps were rebuilt from the bytes of the archive; "
            "each has the digest that its own record gives.",
        },
        "settings": dict(kept),
        "reproducible": "Not from here: what the chain was made from is not known. That the "
        "archive is the one told of, can be checked.",
    }


def _common(of: str, package: Package, full_nbytes: int) -> Receipt:
    on = machine(PACKAGES)
    records = [
        {"file": e.name, "step": e.step, "kind": e.kind, "bytes": e.nbytes, "sha256": digest}
        for e, digest in zip(package.entries, package.digests, strict=True)
    ]
    return {
        "receipt": VERSION,
        "of": of,
        "made": told_at(datetime.now(UTC).timestamp()),
        "archive": {"file": package.file, "bytes": len(package.data), "sha256": package.sha256},
        "records": records,
        "tracks": {str(s): track for s, track in zip(package.steps, package.tracks, strict=True)},
        "sizes": {
            "float32": full_nbytes,
            "records": sum(e.nbytes for e in package.entries),
            "archive": len(package.data),
        },
        "verified": {
            "at": told_at(package.at),
            "what": f"All {len(package.steps)} steps were rebuilt from the bytes of the archive "
            "and compared with the tracks that were saved.",
        },
        "machine": {
            "cpu": on["cpu"],
            "cores": on["cores"],
            "system": on["system"],
            "torch_threads": 1,
            "codec_threads": codec.threads(),
        },
        "versions": on["versions"]
        | {"format": FORMAT}
        | {
            f"{package.__name__} (SHA-256 of its source)": source_digest(package)
            for package in SOURCES
        },
    }


def told_at(seconds: float) -> str:
    """A moment as text, UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def source_digest(package: Any) -> str:
    """SHA-256 of a package's Python files, by their names."""
    folder, found = Path(package.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        data = path.read_bytes()
        found.update(f"{path.relative_to(folder).as_posix()} {len(data)}\n".encode() + data)
    return found.hexdigest()


def dumped(receipt: Receipt) -> bytes:
    """As a file."""
    return (json.dumps(receipt, indent=1, ensure_ascii=False) + "\n").encode()


def load(data: bytes) -> Receipt:
    """A receipt from a file. Raises ReceiptError for what is none, or lacks what a check needs."""
    if len(data) > MOST_BYTES:
        raise ReceiptError(f"A receipt has at most {MOST_BYTES:,} bytes; this has {len(data):,}.")
    try:
        receipt = parsed(data, "the file", "a receipt", ForeignRecordError)
    except RecordError as exc:
        raise ReceiptError(f"This is no receipt: {exc}.") from exc
    if receipt.get("receipt") != VERSION:
        raise ReceiptError("This is no receipt of version 1: it does not begin with that.")
    try:
        archive = receipt["archive"]
        right = [isinstance(archive[k], str) for k in ("file", "sha256")]
        right += [isinstance(archive["bytes"], int)]
        right += [isinstance(r[k], str) for r in receipt["records"] for k in ("file", "sha256")]
        right += [isinstance(t, str) and int(s) >= 0 for s, t in receipt["tracks"].items()]
        right += [Path(archive["file"]).name == archive["file"]]
        right += [bool(receipt["records"]), bool(receipt["tracks"])]
        if all(right):
            claims.check_types(receipt)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ReceiptError(
            "This receipt lacks its archive, records, tracks, sizes or settings."
        ) from exc
    if not all(right):
        raise ReceiptError("This receipt's archive, records or tracks are not what they should be.")
    return receipt


def problems(
    receipt: Receipt, data: bytes, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """What an archive's bytes have against them: sentences, none if all is as the receipt says.

    Every record is hashed and every step rebuilt, whatever the archive's own hash says: so it is
    told what differs. Sizes and settings are compared too, see `claims`. progress(steps done, in
    all).
    """
    found = []
    archive, tracks = receipt["archive"], receipt["tracks"]
    if len(data) != archive["bytes"]:
        found.append(f"The archive has {len(data):,} bytes, not {archive['bytes']:,}.")
    if (own := hashlib.sha256(data).hexdigest()) != archive["sha256"]:
        found.append(f"The archive's SHA-256 is {own}, not {archive['sha256']}.")
    try:
        chain = codec.Chain(io.BytesIO(data))
        told = {r["file"]: r["sha256"] for r in receipt["records"]}
        for name in sorted(told.keys() ^ {e.name for e in chain.entries}):
            where = "is not in the archive" if name in told else "is not in the receipt"
            found.append(f"The record {name} {where}.")
        for entry in chain.entries:
            digest = hashlib.sha256(chain.read_bytes(entry)).hexdigest()
            if told.get(entry.name, digest) != digest:
                found.append(f"The record {entry.name} has another SHA-256: {digest}.")
        found += claims.of_records(receipt, chain.entries)
        seen, full, kept = set(), 0, {}
        for position in chain.every_step():
            step = str(position.step)
            seen.add(step)
            full += position.layout.nbytes
            if position.entry.kind != "base":
                kept[position.entry.name] = position.record.metadata
            track = digest_of(position.layout, position.state)
            if tracks.get(step) != track:
                found.append(f"Step {step} restores to a track of digest {track}, not as told.")
            if progress:
                progress(len(seen), len(tracks))
        if missing := sorted(tracks.keys() - seen, key=int):
            found.append(f"Of the steps told, {len(missing)} do not restore: {missing[0]} first.")
        sizes = {"float32": full, "records": chain.nbytes, "archive": len(data)}
        found += claims.of_sizes(receipt, sizes)
        found += claims.of_settings(receipt, list(kept.items()))
    except codec.LccError as exc:
        found.append(f"The archive does not restore: {str(exc).rstrip('.')}.")
    return found


def rows(receipt: Receipt) -> list[tuple[str, str]]:
    """The receipt for people: what, and its value; without the lists."""
    s, sizes, on = receipt["settings"], receipt["sizes"], receipt["machine"]
    kept = "all buckets" if s["bits"] is None else _plural(s["bits"], "bit")
    if s["budget"] is not None:
        kept = f"a budget of {100 * s['budget']:g} % of float32"
    found = [("What", receipt["what"])]
    if receipt["of"] == "run":
        momentum = f", momentum {s['momentum']:g}" if s["momentum"] else ""
        data, k = receipt["data"], s["interval"]
        every = "every iteration" if k == 1 else f"every {k} iterations"
        found += [
            (
                "Training",
                f"{_OPTIMIZERS.get(s['optimizer'], s['optimizer'])}, learning rate "
                f"{s['lr']:g}{momentum}, batch size {s['batch_size']}, seed {s['seed']}, "
                f"saved {every} up to {s['last_step']}",
            ),
            (
                "Data",
                f"{data['title']}: {data['examples'][0]:,} examples to train on, "
                f"{data['examples'][1]:,} held out; SHA-256 {data['sha256']}",
            ),
            ("Model", f"{receipt['model']['parameters']:,} parameters"),
        ]
    elif receipt["of"] == "files":
        found += [("Files", f"{len(receipt['files'])}, the SHA-256 of each in the file")]
    versions = ", ".join(
        f"{k} {v[:16] if 'SHA' in k else v}"
        for k, v in ((k, str(v)) for k, v in receipt["versions"].items())
    )
    return [
        *found,
        (
            "Kept",
            f"{kept}, buckets over {_SCOPES.get(s['scope'], s['scope'])}, "
            f"{_CODERS.get(s['coder'], s['coder'])}",
        ),
        ("Archive", f"{sizes['archive']:,} bytes, SHA-256 {receipt['archive']['sha256']}"),
        (
            "Records",
            f"{len(receipt['records'])}, {sizes['records']:,} bytes; the SHA-256 of each "
            "in the file",
        ),
        (
            "Steps",
            f"{len(receipt['tracks'])}, the track digest of each in the file; "
            f"{sizes['float32']:,} bytes in float32",
        ),
        ("Verified", f"{receipt['verified']['at']}: {receipt['verified']['what']}"),
        ("Reproducible", receipt["reproducible"]),
        (
            "Machine",
            f"{on['cpu']}, {_plural(on['cores'], 'core')}, {on['system']}; "
            f"{_plural(on['torch_threads'], 'thread')} of torch, "
            f"{on['codec_threads']} of the codec",
        ),
        ("Versions", versions),
    ]


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"
