"""Levels by exponent, counted the slow way from decoded codes."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import codec
from lcviz.lab.records import Catalogue, list_records, read_contents
from lcviz.report.exponents import StepExponents, count_exponents
from tests.lcviz.common import saved


def counted(path: Path) -> list[StepExponents]:
    chain = codec.Chain(path)
    *_, found = read_contents(chain, list_records(chain, path), Catalogue())
    return [one for record in found.records if (one := count_exponents(chain, record))]


def write(path: Path, bits: int | None) -> Path:
    rng = np.random.default_rng(5)
    state = {"w": rng.normal(size=500), "b": rng.normal(size=40)}
    state = {k: v.astype(np.float32) for k, v in state.items()}
    states = [state]
    for _ in range(3):
        changes = {k: 0.1 * rng.normal(size=v.shape) ** 3 for k, v in state.items()}
        states.append({k: (v + changes[k]).astype(np.float32) for k, v in states[-1].items()})
    return saved(path, states, bits=bits, scope="tensor")


@pytest.mark.parametrize("bits", [2, None])
def test_counts_are_those_of_every_single_code(tmp_path: Path, bits: int | None) -> None:
    path = write(tmp_path / "run.lcc", bits)
    found = counted(path)
    assert [m.step for m in found] == [1, 2, 3]
    positions = {p.step: p.delta for p in codec.Chain(path).replay()}
    for m in found:
        delta = positions[m.step]
        assert delta is not None
        slow: Counter[int] = Counter()
        for group in delta.groups:
            for code in codec.decode(group.encoded).codes.tolist():
                level = float(group.encoded.levels[code])
                if level:
                    slow[math.frexp(level)[1] - 1] += 1
        assert dict(m.counts) == dict(slow)
        assert (m.zeros, m.n) == (540 - sum(slow.values()), 540)


def test_small_levels_are_subnormal(tmp_path: Path) -> None:
    states = ({"w": np.array(10 * [0.0] + 10 * [value], np.float32)} for value in (0.0, 1e-41))
    (only,) = counted(saved(tmp_path / "run.lcc", states, bits=None))
    assert (dict(only.counts), only.zeros) == ({-127: 10}, 10)
