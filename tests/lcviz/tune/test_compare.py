"""One delta with every setting, against the codec's own chains, codec.quantize and codec.encode."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme.coding import Coding
from codec.state.tensors import layout_of
from lcviz.tune.compare import OneDelta, all_settings, try_all, try_one

MakeCase = Callable[..., Any]
NAMES = ("wide", "bias", "still")  # "tiny" has too few values: it is stored exactly
LOSS = 0.25


def one_delta(case: Any, **changes: Any) -> OneDelta:
    after = case.after | changes
    return OneDelta("run", 7, layout_of(after), case.before, after, 5.0)


def save_both(path: Path, case: Any, coding: Coding) -> codec.Saved:
    """What a checkpointer says of the second of two states."""
    with codec.Checkpointer(path, **coding.header(), restore_work=None) as checkpointer:
        checkpointer.save(0, case.before)
        return checkpointer.save(7, case.after)


def test_tried_against_a_chain_of_its_own(make_case: MakeCase, tmp_path: Path) -> None:
    """The record that a checkpointer writes after a base of the track, and what it restores."""
    case = make_case(3)
    found = try_all(one_delta(case))
    assert list(found) == list(all_settings())
    assert len(found) == 9 * 2 * 3
    for v, trial in list(found.items())[::5]:
        path = tmp_path / f"{v.describe()}.lcc"
        told = save_both(path, case, v)
        assert told.delta is not None
        levels = sum(group.encoded.n_levels for group in told.delta.groups)
        assert (trial.nbytes, trial.buckets) == (told.nbytes, levels)
        assert not trial.tensors
        assert math.isnan(trial.loss)
        restored = codec.restore(path)
        off = sum(np.square(restored[n] - case.after[n], dtype=np.float64).sum() for n in restored)
        assert trial.distance == pytest.approx(float(np.sqrt(off)) / 5, rel=1e-6, abs=1e-9)
        total = sum(float(array.sum()) for array in restored.values())
        with_loss = try_one(one_delta(case), v, lambda track: sum(a.sum() for a in track.values()))
        assert with_loss.loss == pytest.approx(total)


def quantized(case: Any, names: tuple[str, ...], bits: int | None) -> codec.Quantized:
    delta = np.concatenate([(case.after[n] - case.before[n]).ravel() for n in names])
    return codec.quantize(delta, bits)


@pytest.mark.parametrize(
    ("bits", "scope", "coder"), [(1, "tensor", "runlength"), (None, "model", "huffman")]
)
def test_against_the_stages(make_case: MakeCase, bits: int | None, scope: str, coder: str) -> None:
    case = make_case(5)
    sizes = {name: case.after[name].size for name in NAMES}
    tensors = try_one(one_delta(case), Coding(bits, scope, coder), lambda _: LOSS).tensors
    assert tensors.keys() == sizes.keys()
    for names in [NAMES] if scope == "model" else [(name,) for name in NAMES]:
        q = quantized(case, names, bits)
        found = [tensors[name] for name in names]
        assert None not in found
        total = sum(c.bits * sizes[n] for c, n in zip(found, names, strict=True))
        assert total == pytest.approx(8 * codec.encode(q, coder).nbytes)
        values = codec.dequantize(q)
        for name, tensor in zip(names, found, strict=True):
            own, values = np.split(values, [sizes[name]])
            delta = (case.after[name] - case.before[name]).ravel().astype(np.float64)
            assert tensor.zeros == pytest.approx(float((own == 0).mean()))
            norm = np.linalg.norm(delta)
            error = np.linalg.norm(delta - own) / norm if norm else 0.0
            assert tensor.error == pytest.approx(float(error), rel=1e-6)


def test_a_budget_pays_for_the_header(make_case: MakeCase, tmp_path: Path) -> None:
    """Its tensors are those of the record that a checkpointer fits into the budget."""
    case, own = make_case(5), Coding(None, "tensor", "runlength", 0.2)
    told = save_both(tmp_path / "c.lcc", case, own)
    assert told.delta is not None
    tensors = try_one(one_delta(case), own, lambda _: LOSS).tensors
    bits = sum(t.bits * case.after[name].size for name, t in tensors.items() if t)
    assert bits == pytest.approx(8 * sum(g.encoded.nbytes for g in told.delta.groups))


def test_a_tensor_that_is_not_finite_is_stored_whole(make_case: MakeCase) -> None:
    case = make_case(5)
    delta = one_delta(case, bias=np.full_like(case.after["bias"], np.nan))
    tensors = try_one(delta, Coding(2), lambda _: LOSS).tensors
    assert tensors["bias"] is None
    assert tensors["wide"] is not None
