"""One delta with every setting, against codec.quantize and codec.encode of the same values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.state.tensors import layout_of
from lcviz.tune.ab import Moment, Variant
from lcviz.tune.all_settings import by_tensor, columns, every_variant, tried

MakeCase = Callable[..., Any]
NAMES = ("wide", "bias", "still")  # "tiny" has too few values: it is stored exactly


def parts(case: Any, scope: str) -> list[tuple[str, ...]]:
    return [NAMES] if scope == "model" else [(name,) for name in NAMES]


def quantized(case: Any, names: tuple[str, ...], bits: int | None) -> codec.Quantized:
    delta = np.concatenate([(case.after[n] - case.before[n]).ravel() for n in names])
    return codec.quantize(delta, bits)


def test_every_setting_is_there_once() -> None:
    every = every_variant()
    assert len(set(every)) == len(every) == 9 * 2 * 2
    assert every[0] == Variant(1)


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_tried_against_a_chain_of_its_own(make_case: MakeCase, scope: str, tmp_path: Path) -> None:
    """The record that a checkpointer writes after a base of the track, and what it restores."""
    case = make_case(3)
    found = tried(layout_of(case.after), case.before, Moment(7, case.after, 5.0))
    assert list(found) == list(every_variant())
    for i, (v, saved) in enumerate((v, s) for v, s in found.items() if v.scope == scope):
        path = tmp_path / f"{i}.lcc"
        with codec.Checkpointer(path, v.bits, v.scope, v.coder, base_every=None) as checkpointer:
            checkpointer.save(0, case.before)
            told = checkpointer.save(7, case.after)
        assert (saved.step, saved.nbytes, saved.kept) == (7, told.nbytes, told.levels)
        assert saved.reused == 0
        restored = codec.restore(path)
        off = sum(np.square(restored[n] - case.after[n], dtype=np.float64).sum() for n in restored)
        assert saved.distance == pytest.approx(float(np.sqrt(off)) / 5, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_by_tensor_against_the_codec_s_stages(make_case: MakeCase, scope: str, coder: str) -> None:
    case = make_case(5)
    variants = columns(Variant(2, scope, coder))
    assert [v.bits for v in variants] == [1, 2, 3, 4, 5, 6, 7, 8, None]
    found = by_tensor(layout_of(case.after), case.before, Moment(3, case.after, 1.0), variants)
    assert found.step == 3
    assert found.sizes == {name: case.after[name].size for name in NAMES}
    for i, v in enumerate(variants):
        for names in parts(case, scope):
            q = quantized(case, names, v.bits)
            cells = [found.rows[name][i] for name in names]
            assert None not in cells
            bits = sum(c.bits * found.sizes[n] for c, n in zip(cells, names, strict=True))
            assert bits == pytest.approx(8 * codec.encode(q, coder).nbytes)
            values = codec.dequantize(q)
            for name, cell in zip(names, cells, strict=True):
                own, values = np.split(values, [found.sizes[name]])
                delta = (case.after[name] - case.before[name]).ravel().astype(np.float64)
                assert cell.zeros == pytest.approx(float((own == 0).mean()))
                norm = np.linalg.norm(delta)
                error = np.linalg.norm(delta - own) / norm if norm else 0.0
                assert cell.error == pytest.approx(float(error), rel=1e-6)


def test_a_budget_is_one_column_more(make_case: MakeCase) -> None:
    case = make_case(5)
    own = Variant(None, "model", "runlength", 0.05)
    variants = columns(own)
    assert len(variants) == 10
    assert variants[-1] == own
    assert variants[:-1] == columns(Variant(3, "model", "runlength"))
    found = by_tensor(layout_of(case.after), case.before, Moment(1, case.after, 1.0), variants)
    wide = found.rows["wide"]
    assert wide[-1] is not None
    assert wide[-1].bits <= 32 * 0.06 * 1.1


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_a_budget_pays_for_the_header(make_case: MakeCase, scope: str, tmp_path: Path) -> None:
    """Its cells are those of the record that a checkpointer fits into the budget."""
    case = make_case(5)
    own = Variant(None, scope, "runlength", 0.2)
    with codec.Checkpointer(
        tmp_path / "c.lcc", None, scope, budget=own.budget, base_every=None
    ) as checkpointer:
        checkpointer.save(0, case.before)
        told = checkpointer.save(7, case.after)
    assert told.delta is not None
    found = by_tensor(layout_of(case.after), case.before, Moment(7, case.after, 1.0), (own,))
    bits = sum(row[0].bits * found.sizes[name] for name, row in found.rows.items() if row[0])
    assert bits == pytest.approx(8 * sum(g.encoded.nbytes for g in told.delta.groups))


def test_a_tensor_that_is_not_finite_has_no_cell(make_case: MakeCase) -> None:
    case = make_case(5)
    after = case.after | {"bias": np.full_like(case.after["bias"], np.nan)}
    found = by_tensor(layout_of(after), case.before, Moment(1, after, 1.0), (Variant(2),))
    assert found.rows["bias"] == (None,)
    assert found.rows["wide"][0] is not None
