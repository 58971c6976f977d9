"""Finds out why a delta failed its check, while everything is still in memory.

Such a delta is never written, so nothing is lost. But the fault may not occur again, and it matters
whether encoding or decoding failed, once or always, or whether the track changed in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from codec.caps import names_of
from codec.errors import LccError, TrackDigestError
from codec.scheme.delta import Delta
from codec.scheme.track import digest_sums
from codec.state.tensors import same_bits

from .track import Track


def examined(
    error: TrackDigestError, track: Track, original: Delta, read: Delta, encode: Callable[[], Delta]
) -> TrackDigestError:
    """The error with the results of a second attempt, which takes about as long as the first.

    Args:
        error: Of the failed check.
        track: Before the delta.
        original: The delta as it was encoded.
        read: The delta as read from the record's bytes.
        encode: Encodes the delta again.
    """

    def decoded() -> Iterable[str]:
        sums = track.preview(read).sums
        arrays = track.moved(original.transition).arrays
        exact, original_exact = (delta.exact_after(arrays) for delta in (read, original))
        return [*differing(sums, original.sums or {}), *_differing_arrays(exact, original_exact)]

    def encoded() -> Iterable[str]:
        again = encode()
        names = [
            group.tensors[0].name
            for group, before in zip(again.groups, original.groups)
            if group.encoded.payload.data.tobytes() != before.encoded.payload.data.tobytes()
            or group.encoded.levels.tobytes() != before.encoded.levels.tobytes()
        ]
        return [*names, *differing(again.sums or {}, original.sums or {})]

    comparisons = (
        f"decoded again: {_comparison(decoded, 'as meant')}",
        f"encoded again: {_comparison(encoded, 'the same')}",
        f"the track: {_comparison(lambda: changed(track), 'as it was')}",
    )
    return TrackDigestError(error.where, error.expected, "; ".join((error.found, *comparisons)))


def changed(track: Track) -> list[str]:
    """Names of tensors that have changed in memory: their digests are not the track's."""
    return differing(digest_sums(track.layout, track.arrays), track.sums)


def differing(sums: Mapping[str, int], expected: Mapping[str, int]) -> list[str]:
    """Names of tensors whose digests differ from the expected ones, or are missing."""
    return [name for name, digest in expected.items() if sums.get(name) != digest]


def _differing_arrays(
    arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]
) -> list[str]:
    return [n for n, a in expected.items() if n not in arrays or not same_bits(arrays[n], a)]


def _comparison(differences: Callable[[], Iterable[str]], agreement: str) -> str:
    """The first tensor that differs, as text; ``agreement`` if none does."""
    try:
        names = list(differences())
    except LccError as exc:
        return f"{type(exc).__name__}: {exc}"[:120]
    return f"not {agreement}, in {names_of(names, 1)}" if names else agreement
