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


def counted(path: Path) -> list[StepExponents]:
    chain = codec.Chain(path)
    *_, found = read_contents(chain, list_records(chain, path), Catalogue())
    return [one for record in found.records if (one := count_exponents(chain, record))]


def write(path: Path, bits: int | None) -> Path:
    rng = np.random.default_rng(5)
    state = {"w": rng.normal(size=500), "b": rng.normal(size=40)}
    state = {k: v.astype(np.float32) for k, v in state.items()}
    with codec.Checkpointer(path, bits=bits, scope="tensor") as chain:
        for i in range(4):
            chain.save(i, state)
            state = {
                k: (v + 0.1 * rng.normal(size=v.shape) ** 3).astype(np.float32)
                for k, v in state.items()
            }
    return path


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
    with codec.Checkpointer(tmp_path / "run.lcc", bits=None) as chain:
        chain.save(0, {"w": np.zeros(20, np.float32)})
        chain.save(1, {"w": np.array(10 * [0.0] + 10 * [1e-41], np.float32)})
    (only,) = counted(tmp_path / "run.lcc")
    assert (dict(only.counts), only.zeros) == ({-127: 10}, 10)
