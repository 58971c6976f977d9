"""What a receipt says beyond digests, compared with the archive: sizes, kinds, settings.

What was trained, on which data and machine, and when, is in no archive: only making it again by the
receipt's script shows that. Nothing here knows a screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codec.caps import typed
from codec.storage.source import Entry

_SETTINGS = ("bits", "budget", "scope", "coder")
_SIZES = ("float32", "records", "archive")
_RECORD = {"file": str, "sha256": str, "kind": str, "step": int, "bytes": int}


def check_types(receipt: Mapping[str, Any]) -> None:
    """Raise KeyError, TypeError or ValueError unless all that is compared here is there."""
    for record in receipt["records"]:
        for name, kind in _RECORD.items():
            typed(record[name], kind)
    for name in _SIZES:
        typed(receipt["sizes"][name], int)
    told = [receipt["settings"][name] for name in _SETTINGS]
    for value, kinds in zip(told, ((int, type(None)), (float, int, type(None)), (str,), (str,))):
        if type(value) not in kinds:
            raise TypeError("a setting is of another type")
    typed(receipt["of"], str)


def of_records(receipt: Mapping[str, Any], entries: Sequence[Entry]) -> list[str]:
    """What is told of single records and is not so: sentences."""
    told = {record["file"]: record for record in receipt["records"]}
    if len(told) != len(receipt["records"]):
        return ["The receipt tells of a record twice."]
    found = []
    for entry in entries:
        if (record := told.get(entry.name)) is None:
            continue
        has = {"bytes": entry.nbytes, "kind": entry.kind, "step": entry.step}
        found += [
            f"The receipt gives the record {entry.name} as {name} {record[name]}, and it is {own}."
            for name, own in has.items()
            if record[name] != own
        ]
    return found


def of_sizes(receipt: Mapping[str, Any], sizes: Mapping[str, int]) -> list[str]:
    """As above. sizes: as a receipt has them, of this archive."""
    return [
        f"The receipt says that {what} {receipt['sizes'][name]:,} bytes, and it is {sizes[name]:,}."
        for name, what in (
            ("float32", "its steps in float32 take"),
            ("records", "its records take"),
            ("archive", "the archive has"),
        )
        if receipt["sizes"][name] != sizes[name]
    ]


def of_settings(
    receipt: Mapping[str, Any], kept: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[str]:
    """As above. kept: name and metadata of every record that is no base, in their order."""
    if receipt["of"] == "archive":  # somebody else's chain: told of the newest one
        kept = kept[-1:]
    told = _words(receipt["settings"])
    other = [(name, own) for name, metadata in kept if (own := _words(metadata)) != told]
    if not other:
        return []
    return [
        f"The receipt says {told}; {len(other)} of {len(kept)} records were written otherwise, "
        f"{other[0][0]} first: {other[0][1]}."
    ]


def _words(settings: Mapping[str, Any]) -> str:
    bits, budget = settings["bits"], settings["budget"]
    keep = f"a budget of {budget!r}" if budget is not None else f"{bits} bits"
    if bits is None and budget is None:
        keep = "all buckets"
    return f"{keep}, buckets over the {settings['scope']}, coder {settings['coder']}"
