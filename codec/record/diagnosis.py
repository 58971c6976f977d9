"""Why a delta failed its own check, examined while everything is still in memory.

The delta is never written, and nothing is lost. But the fault may not come back, and it matters
whether decoding or encoding failed, once or always, or whether the track changed in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from codec.caps import names_of
from codec.errors import LccError, TrackDigestError
from codec.scheme.delta import Delta
from codec.scheme.track import Track, digest_sums
from codec.state.tensors import same_bits

Found = Mapping[str, NDArray[Any]]


def examined(
    error: TrackDigestError, track: Track, meant: Delta, read: Delta, encode: Callable[[], Delta]
) -> TrackDigestError:
    """The same error with the results of a second attempt. Takes about as long as the first.

    Args:
        error: What the check found.
        track: Where the delta starts.
        meant: The delta as it was encoded.
        read: The delta as read from the record's bytes.
        encode: Encodes it again.
    """

    def decoded() -> Iterable[str]:
        sums = track.preview(read).sums
        arrays = track.moved(meant.transition).arrays
        found, exact = (delta.exact_after(arrays) for delta in (read, meant))
        return [*differing(sums, meant.sums or {}), *_differing_arrays(found, exact)]

    def encoded() -> Iterable[str]:
        again = encode()
        other = [
            group.tensors[0].name
            for group, before in zip(again.groups, meant.groups)
            if group.encoded.payload.tobytes() != before.encoded.payload.tobytes()
            or group.encoded.levels.tobytes() != before.encoded.levels.tobytes()
        ]
        return [*other, *differing(again.sums or {}, meant.sums or {})]

    answers = (
        f"decoded again: {_answer(decoded, 'as meant')}",
        f"encoded again: {_answer(encoded, 'the same')}",
        f"the track: {_answer(lambda: changed(track), 'as it was')}",
    )
    found = "; ".join((error.found, *answers))
    return TrackDigestError(error.where, error.expected, found)


def changed(track: Track) -> list[str]:
    """Names of tensors of the track that do not have their digests: no reader could follow it."""
    return differing(digest_sums(track.layout, track.arrays), track.sums)


def differing(sums: Mapping[str, int], meant: Mapping[str, int]) -> list[str]:
    """Names of tensors whose digests are not those that were meant."""
    return [name for name, digest in meant.items() if sums.get(name) != digest]


def _differing_arrays(arrays: Found, meant: Found) -> list[str]:
    return [n for n, a in meant.items() if n not in arrays or not same_bits(arrays[n], a)]


def _answer(ask: Callable[[], Iterable[str]], nothing: str) -> str:
    try:
        names = list(ask())
    except LccError as exc:
        return f"{type(exc).__name__}: {exc}"[:120]
    return f"not {nothing}, in {names_of(names, 1)}" if names else nothing
