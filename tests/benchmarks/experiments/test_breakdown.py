"""Sizes after each stage, against the worked example and what the codec writes."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import codec
from benchmarks.experiments.breakdown import breakdown
from codec import Coding
from codec.state.tensors import copy_arrays
from lcviz.lab.series import OwnSeries, TrainedSeries
from lcviz.lab.workload import workload
from tests.lcviz.common import files

PAPER = [0.76, -0.48, 0.2, 0.07, 0.18, 0.49, 0.14, 0.39, 0.82, 0.09]


@pytest.fixture
def example(tmp_path: Path) -> OwnSeries:
    """The paper's ten numbers, as a step from zeros."""
    return OwnSeries([files(tmp_path, ({"w": torch.tensor(w)} for w in ([0.0] * 10, PAPER)))])


def test_the_worked_example(example: OwnSeries) -> None:
    (two,) = breakdown(example, Coding(2))
    assert (two.step, two.bits, two.n, two.symbols) == (1, 2, 10, 5)
    assert two.e == 30 / 8 + 4 * 5  # five buckets, no zero: 3 bits, and the levels
    assert two.ep == 20 / 8 + 4 * 3
    assert two.huffman == 3 + 2 + 4 * 3  # 18 bits, a table of 2 bytes
    assert two.entropy * 8 == pytest.approx(17.61, abs=0.005)
    (every,) = breakdown(example, Coding(None))
    assert every.ep == every.e == two.e
    assert every.huffman == math.ceil(23 / 8) + 3 + 4 * 5


def test_against_what_the_codec_writes() -> None:
    series = TrainedSeries(workload("logistic-regression"), 0, iterations=3)
    first, *others = [copy_arrays(moment.arrays) for moment in series]
    found = list(breakdown(series, Coding(2, "tensor")))
    assert [s.step for s in found] == [1, 2, 3]
    tracker = codec.Tracker(first, 2, "tensor")
    for stages, state in zip(found, others, strict=True):
        groups = tracker.step(state).groups
        levels = sum(g.encoded.levels.size - 1 for g in groups)
        fresh = [codec.encode(codec.decode(g.encoded), "huffman") for g in groups]
        bits = sum(math.ceil(e.payload_bits / 8) + e.table_nbytes for e in fresh)
        assert (stages.n, stages.huffman) == (7850, bits + 4 * levels)
        assert stages.runlength <= stages.huffman <= stages.ep + 64
        assert stages.e > stages.ep == 7850 / 4 + 4 * levels
        if not any(g.encoded.cached for g in groups):
            own = sum(g.encoded.payload_bits / 8 + g.encoded.table_nbytes for g in groups)
            assert stages.runlength == pytest.approx(own + 4 * levels, abs=2)


def test_moments_are_left_out(example: OwnSeries, tmp_path: Path) -> None:
    """Those that are not finite, too."""
    alone = list(breakdown(example, Coding(2)))
    for i in range(2):
        moments = {0: {"exp_avg": torch.ones(20) * i}, 1: {"exp_avg": torch.full((9,), math.inf)}}
        state = torch.load(tmp_path / f"{i}.pt") | {"optimizer": {"state": moments}}
        torch.save(state, tmp_path / f"{i}.pt")
    assert list(breakdown(OwnSeries([tmp_path]), Coding(2))) == alone


def test_a_model_at_rest(tmp_path: Path) -> None:
    still_twice = files(tmp_path, 2 * [{"w": torch.ones(10)}])
    (still,) = breakdown(OwnSeries([still_twice]), Coding(None))
    assert (still.symbols, still.e, still.huffman, still.entropy) == (1, 0, 0, 0)
    assert np.isfinite(still.runlength)


def test_nothing_to_quantize(tmp_path: Path) -> None:
    """A tensor with infinity is stored whole; where there is no other, that is said."""
    states = [{"b": torch.full((10,), math.inf * (-1) ** i)} for i in range(3)]
    files(tmp_path, (state | {"w": torch.ones(10) * i} for i, state in enumerate(states)))
    for stages in breakdown(OwnSeries([tmp_path]), Coding(2)):
        assert stages.n == 20
        for nbytes in (stages.e, stages.ep, stages.huffman, stages.runlength, stages.entropy):
            assert 40 <= nbytes < 80
    files(tmp_path, states)
    with pytest.raises(codec.SettingsError, match="every change holds NaN or infinity"):
        list(breakdown(OwnSeries([tmp_path]), Coding(2)))
    torch.save({"c": torch.ones(10)}, tmp_path / "1.pt")
    with pytest.raises(codec.SettingsError, match="no two checkpoints in a row"):
        list(breakdown(OwnSeries([tmp_path]), Coding(2)))
