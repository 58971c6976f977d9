"""The approximate track: what a decoder rebuilds, and the distance each step is taken to.

    delta_t = u_t - track_{t-1}        track_t = track_{t-1} + dequantize(quantize(delta_t))

The distance is taken to the track, not to u_{t-1}, so that what one step drops the next one
sees again (PAPER: "On Efficient Constructions of Checkpoints", ICML 2020). Encoder and
decoder advance the track with the one function `apply`, so the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import kernels
from .coding import Encoded, check_coder, encode
from .errors import SettingsError, StateMismatchError
from .quantize import Quantized, check_bits, quantize
from .state import Arrays, Layout, TensorSpec, copy_arrays, layout_of, to_arrays

SCOPES = ("model", "tensor")


@dataclass(frozen=True)
class Group:
    """Tensors that share one alphabet: the whole model, or a single tensor.

    tensors: their specs, in the order of their elements in the codes. quantized and
    encoded: the same codes before and after the lossless stage.
    """

    tensors: tuple[TensorSpec, ...]
    quantized: Quantized
    encoded: Encoded


@dataclass(frozen=True)
class Step:
    """One delta: everything that leads from one state of the track to the next.

    groups: the lossy tensors. exact: name -> array, the tensors stored as they are in this
    step. non_finite: names of lossy tensors that are among the exact ones because their
    delta held NaN or infinity.
    """

    groups: tuple[Group, ...]
    exact: Arrays
    non_finite: tuple[str, ...]
    bits: int | None
    scope: str
    coder: str

    @property
    def nbytes(self) -> int:
        """Bytes of payloads, tables, levels and exact tensors; a record adds its header."""
        exact = sum(array.nbytes for array in self.exact.values())
        return exact + sum(group.encoded.nbytes for group in self.groups)

    @property
    def tensors(self) -> dict[str, str]:
        """Name -> how it is stored in this step: "lossy" or "exact"."""
        lossy = {t.name: "lossy" for group in self.groups for t in group.tensors}
        return lossy | dict.fromkeys(self.exact, "exact")


class Tracker:
    """Turns a sequence of states into deltas, keeping the track the decoder will have.

    state: the first one, name -> numpy array or torch tensor; it is copied and becomes the
    track exactly. bits: 1..8, or None for the exponent stage alone. scope: "model" for one
    alphabet over all parameters (the paper), "tensor" for one a tensor. coder: "huffman".

    Raises SettingsError for settings out of range, DTypeError for what is no tensor.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        bits: int | None = 2,
        scope: str = "model",
        coder: str = "huffman",
    ) -> None:
        self.bits = check_settings(bits, scope, coder)
        self.scope, self.coder = scope, coder
        self.layout = layout_of(state)
        self.state = copy_arrays(to_arrays(state, self.layout))

    @classmethod
    def resume(
        cls, layout: Layout, track: Arrays, bits: int | None, scope: str, coder: str
    ) -> Tracker:
        """A tracker that goes on from a track rebuilt from disk; it takes the arrays over."""
        tracker = cls({}, bits, scope, coder)
        tracker.layout, tracker.state = layout, track
        return tracker

    def step(self, state: Mapping[str, Any]) -> Step:
        """Encode the distance from the track to ``state`` and advance the track.

        Raises what `prepare` does; the track then stays where it is.
        """
        step = self.prepare(state)
        apply(step, self.state)
        return step

    def prepare(self, state: Mapping[str, Any]) -> Step:
        """Encode the distance from the track to ``state``; the track stays where it is.

        Raises StateMismatchError if names, shapes or dtypes differ from the first state's,
        DTypeError for what is no tensor.
        """
        check_same_layout(self.layout, layout_of(state))
        arrays = to_arrays(state, self.layout)
        deltas: Arrays = {}
        exact = {t.name: arrays[t.name].copy() for t in self.layout.tensors if not t.lossy}
        non_finite = []
        for spec in self.layout.tensors:
            if not spec.lossy:
                continue
            with np.errstate(all="ignore"):  # what is not finite is handled right below
                delta = arrays[spec.name] - self.state[spec.name]
            if np.isfinite(delta).all():
                deltas[spec.name] = delta
            else:
                exact[spec.name] = arrays[spec.name].copy()
                non_finite.append(spec.name)
        groups = []
        for tensors in alphabets(self.layout, self.scope, non_finite):
            quantized = quantize(_joined([deltas[t.name] for t in tensors]), self.bits)
            groups.append(Group(tensors, quantized, encode(quantized, self.coder)))
        return Step(tuple(groups), exact, tuple(non_finite), self.bits, self.scope, self.coder)


def apply(step: Step, state: Arrays) -> None:
    """Advance a track by one step, in place.

    state: name -> writable C-contiguous array, float32 for lossy tensors. Elements whose level is 0
    are left untouched, so a -0.0 stays one. Raises StateMismatchError, before anything is
    changed, if an array is missing or has another shape or dtype.
    """
    for spec in (t for group in step.groups for t in group.tensors):
        _check_array(state, spec.name, spec.shape, np.dtype(np.float32))
    for name, array in step.exact.items():
        _check_array(state, name, array.shape, array.dtype)
    for group in step.groups:
        position = 0
        for spec in group.tensors:
            codes = group.quantized.codes[position : position + spec.size]
            kernels.add_levels(state[spec.name].reshape(-1), codes, group.quantized.levels)
            position += spec.size
    for name, array in step.exact.items():
        state[name][...] = array


def alphabets(
    layout: Layout, scope: str, left_out: Sequence[str] = ()
) -> Iterator[tuple[TensorSpec, ...]]:
    """The lossy tensors of each alphabet, without those of ``left_out``, in record order."""
    without = frozenset(left_out)
    lossy = tuple(t for t in layout.tensors if t.lossy and t.name not in without)
    if scope == "tensor":
        yield from ((t,) for t in lossy)
    elif lossy:
        yield lossy


def check_settings(bits: int | None, scope: str, coder: str) -> int | None:
    """bits as a Python int or None. Raises SettingsError unless all three are in their range."""
    check_coder(coder)
    if scope not in SCOPES:
        raise SettingsError(f"scope must be one of {', '.join(SCOPES)}; got {scope!r}")
    return check_bits(bits)


def check_same_layout(expected: Layout, found: Layout) -> None:
    """Raise StateMismatchError that names the first difference."""
    if expected == found:
        return
    old, new = ({t.name: t for t in layout.tensors} for layout in (expected, found))
    for name in old:
        if name not in new:
            raise StateMismatchError(f"tensor {name!r} of the track is missing from the state")
    for name in new:
        if name not in old:
            raise StateMismatchError(f"tensor {name!r} is not part of the track")
    for name, spec in old.items():
        if spec != new[name]:
            raise StateMismatchError(
                f"tensor {name!r} is {new[name].dtype} {new[name].shape}, "
                f"but the track has {spec.dtype} {spec.shape}"
            )
    raise StateMismatchError(
        f"the state's tensors are in another order or of another library "
        f"({found.framework}, the track is from {expected.framework})"
    )


def _joined(deltas: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    return deltas[0] if len(deltas) == 1 else np.concatenate([d.reshape(-1) for d in deltas])


def _check_array(state: Arrays, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if name not in state:
        raise StateMismatchError(f"tensor {name!r} of the step is missing from the state")
    array = state[name]
    if array.shape != shape or array.dtype != dtype or not array.flags.carray:
        raise StateMismatchError(
            f"tensor {name!r} of the state is {array.dtype} {array.shape}; "
            f"expected {dtype} {shape}, writable and C-contiguous"
        )
