"""One delta with every setting, against chains that the codec writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.state.tensors import layout_of
from lcviz.tune.ab import RunState
from lcviz.tune.all_settings import all_choices, try_all

MakeCase = Callable[..., Any]


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_tried_against_a_chain_of_its_own(make_case: MakeCase, scope: str, tmp_path: Path) -> None:
    """The record that a checkpointer writes after a base of the track, and what it restores."""
    case = make_case(3)
    found = try_all(layout_of(case.after), case.before, RunState(7, case.after, 5.0))
    assert list(found) == list(all_choices())
    assert len(found) == 9 * 2 * 2
    for i, (v, saved) in enumerate((v, s) for v, s in found.items() if v.scope == scope):
        path = tmp_path / f"{i}.lcc"
        with codec.Checkpointer(path, **v.header(), base_every=None) as checkpointer:
            checkpointer.save(0, case.before)
            told = checkpointer.save(7, case.after)
        assert (saved.step, saved.nbytes, saved.kept) == (7, told.nbytes, told.levels)
        assert saved.reused == 0
        restored = codec.restore(path)
        off = sum(np.square(restored[n] - case.after[n], dtype=np.float64).sum() for n in restored)
        assert saved.distance == pytest.approx(float(np.sqrt(off)) / 5, rel=1e-6, abs=1e-9)
