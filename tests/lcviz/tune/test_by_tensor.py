"""One delta tensor by tensor, against codec.quantize and codec.encode of the same values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme.coding import Coding
from codec.state.tensors import layout_of
from lcviz.tune.ab import RunState
from lcviz.tune.by_tensor import by_tensor, choices_in_columns

MakeCase = Callable[..., Any]
NAMES = ("wide", "bias", "still")  # "tiny" has too few values: it is stored exactly


def parts(case: Any, scope: str) -> list[tuple[str, ...]]:
    return [NAMES] if scope == "model" else [(name,) for name in NAMES]


def quantized(case: Any, names: tuple[str, ...], bits: int | None) -> codec.Quantized:
    delta = np.concatenate([(case.after[n] - case.before[n]).ravel() for n in names])
    return codec.quantize(delta, bits)


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_by_tensor_against_the_codec_s_stages(make_case: MakeCase, scope: str, coder: str) -> None:
    case = make_case(5)
    choices = choices_in_columns(Coding(2, scope, coder))
    assert [v.bits for v in choices] == [1, 2, 3, 4, 5, 6, 7, 8, None]
    found = by_tensor(layout_of(case.after), case.before, RunState(3, case.after, 1.0), choices)
    assert found.step == 3
    assert found.sizes == {name: case.after[name].size for name in NAMES}
    for i, v in enumerate(choices):
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


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_a_budget_pays_for_the_header(make_case: MakeCase, scope: str, tmp_path: Path) -> None:
    """Its cells are those of the record that a checkpointer fits into the budget."""
    case = make_case(5)
    own = Coding(None, scope, "runlength", 0.2)
    assert choices_in_columns(own)[9:] == (own,)
    with codec.Checkpointer(
        tmp_path / "c.lcc", None, scope, budget=own.budget, base_every=None
    ) as checkpointer:
        checkpointer.save(0, case.before)
        told = checkpointer.save(7, case.after)
    assert told.delta is not None
    found = by_tensor(layout_of(case.after), case.before, RunState(7, case.after, 1.0), (own,))
    bits = sum(row[0].bits * found.sizes[name] for name, row in found.rows.items() if row[0])
    assert bits == pytest.approx(8 * sum(g.encoded.nbytes for g in told.delta.groups))


def test_a_tensor_that_is_not_finite_has_no_cell(make_case: MakeCase) -> None:
    case = make_case(5)
    after = case.after | {"bias": np.full_like(case.after["bias"], np.nan)}
    found = by_tensor(layout_of(after), case.before, RunState(1, after, 1.0), (Coding(2),))
    assert found.rows["bias"] == (None,)
    assert found.rows["wide"][0] is not None
