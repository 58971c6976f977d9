"""All figures of a chain: what a notebook and a report get, also of a damaged one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

import codec
import lcviz
from codec.errors import ChainNotFoundError, StepNotFoundError
from lcviz.lab.measures import distance
from lcviz.report.chain_figures import figures_of
from tests.lcviz.common import Calls, flip, saved

Check = Callable[[Any], dict[str, Any]]
NAMES = ["sizes", "exponents", "buckets", "code words", "removed bucket", "tensors", "integrity"]


def save(path: Path, n: int = 9, **settings: Any) -> Path:
    """A chain of n steps."""
    rng = np.random.default_rng(0)
    state = {"w": rng.normal(size=(30, 40)).astype(np.float32), "n": np.array(0)}
    with codec.Checkpointer(path, **{"bits": 2} | settings) as chain:
        for step in range(n):
            state["w"] = state["w"] + 0.1 * rng.normal(size=(30, 40)).astype(np.float32) ** 3
            state["n"] = np.array(step)
            chain.save(step, state)
    return path


def test_figures_by_name(tmp_path: Path, check_figure: Check) -> None:
    path = save(tmp_path / "run.lcc")
    figures = figures_of(path, progress=(told := Calls()))
    assert (list(figures), len(figures)) == (NAMES, len(NAMES))
    for name, panel in figures.panels.items():
        check_figure(panel)
        assert isinstance(figures[name], go.Figure)
        assert figures[name].layout.title.text == panel.title
        assert figures.text(name).endswith(".")
    assert not figures.problems
    assert not figures.missing
    assert figures.verdict == "All of 9 steps, 0 to 8, restore."
    assert figures.date is not None
    assert figures.settings["Records"] == "9 (1 base, 8 deltas)"
    assert figures.settings["Kept"] == "2 bits, buckets over the whole model"
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)

    assert "Step 3 " in figures_of(path, step=3).panels["buckets"].title
    with pytest.raises(StepNotFoundError, match="no record holds step 99"):
        figures_of(path, step=99)
    with pytest.raises(ChainNotFoundError):
        figures_of(tmp_path / "no.lcc")


def test_lossy_moments_are_told(tmp_path: Path) -> None:
    """Of the newest base; a chain without any has no such line. Buckets are those of weights."""
    assert "Optimizer" not in figures_of(save(tmp_path / "model.lcc")).settings
    path, w = tmp_path / "run.lcc", np.arange(40, dtype=np.float32)
    moments = ({0: {"momentum_buffer": w * step}} for step in range(3))
    states = ({"model": {"w": w + i}, "optimizer": {"state": m}} for i, m in enumerate(moments))
    figures = figures_of(saved(path, states, bits=2))
    told = figures.settings["Optimizer"]
    assert told.startswith("The optimizer's moments are lossy: 1 tensor ")
    assert figures.panels["buckets"].table["values"].tolist() == [40]
    assert figures.panels["exponents"].table["values"].tolist() == [40, 40]
    (removed,) = figures["removed bucket"].data
    assert list(removed.y) == [50]  # of two steps of the same length, one


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
def test_buckets_and_words_are_those_of_the_record(tmp_path: Path, coder: str) -> None:
    path = save(tmp_path / "run.lcc", coder=coder)
    figures = figures_of(path)
    delta = list(codec.Chain(path).replay())[-1].delta
    assert delta is not None
    (group,) = delta.groups
    codes = codec.decode(group.encoded).codes
    levels = group.encoded.levels[codes]
    table = figures.panels["buckets"].table
    positive, negative = int((levels > 0).sum()), int((levels < 0).sum())
    assert sum(table["values"]) == positive + negative
    assert sum(n for b, n in zip(table["bucket"], table["values"]) if b[0] == "+") == positive
    bars = figures["buckets"].data
    assert [bar.marker.pattern.shape for bar in bars] == ["", "/"]  # not by colour alone
    words = figures.panels["code words"].table
    assert words["bits, extra bits included"].sum() == group.encoded.payload_bits
    shares = figures["code words"].data[0].x
    assert sum(shares) == pytest.approx(100, abs=0.1)
    if coder == "huffman":
        assert words["times"].sum() == codes.size
    else:
        assert words["times"].sum() == positive + negative


def test_a_removed_bucket_is_what_the_restored_step_lacks(tmp_path: Path) -> None:
    path = save(tmp_path / "run.lcc")
    panel = figures_of(path).panels["removed bucket"]
    states = [codec.restore(path, step) for step in (0, 7, 8)]
    base, before, after = ({"w": state["w"]} for state in states)
    largest = np.abs(after["w"] - before["w"]).max()
    trained = distance(after, base)
    bars = {(x, bar.name): y for bar in panel.figure.data for x, y in zip(bar.x, bar.y)}
    exponent = int(np.floor(np.log2(largest)))
    sign = "positive" if (after["w"] - before["w"]).max() == largest else "negative"
    moves = after["w"] - before["w"]
    own = (np.floor(np.log2(np.abs(np.where(moves, moves, 1)))) == exponent) & (moves != 0)
    own &= (moves > 0) == (sign == "positive")
    moved = 100 * np.linalg.norm(moves[own]) / trained
    assert bars[exponent, sign] == pytest.approx(moved, rel=1e-3)
    assert "neither the live weights nor the model" in panel.sentence


def test_a_damaged_chain(tmp_path: Path) -> None:
    path = save(tmp_path / "run.lcc")
    name = flip(path, 5).name
    figures = figures_of(path)
    assert list(figures) == NAMES
    assert figures.verdict == (
        f"Steps 0 to 4 still restore; 5 to 8 do not. Put back a good copy of {name}, or go on "
        "from step 4: codec.rewind(path, 4)."
    )
    assert any("BLAKE3" in problem for problem in figures.problems)
    assert "Step 4 " in figures.panels["buckets"].title
    lost = {trace.name: list(trace.x) for trace in figures["integrity"].data}
    assert lost == {"restores": [0, 1, 2, 3, 4], "lost": [5, 6, 7, 8]}

    flip(path, 0)
    figures = figures_of(path)
    assert list(figures) == ["sizes", "integrity"]
    assert set(figures.missing) == {"exponents over time", "buckets, code words, removed bucket"}
    assert figures.verdict.startswith("No step restores. Put back a good copy of 00000000.base")
    assert "No delta restores." in figures.to_html()


def test_a_missing_record_and_a_later_base(tmp_path: Path) -> None:
    path = save(tmp_path / "run.lcc", base_every=4)
    (path / "00000001.delta.safetensors").unlink()
    verdict = figures_of(path).verdict
    assert verdict == (
        "Steps 0 and 5 to 8 still restore; 2 to 4 do not. The newest step restores: a training "
        "can go on. Put back the record before 00000002.delta.safetensors to get the others back."
    )


def test_a_chain_of_a_single_base(tmp_path: Path) -> None:
    base = figures_of(save(tmp_path / "base.lcc", 1))
    assert list(base) == ["sizes", "integrity"]
    assert base.verdict == "All of 1 step, 0, restore."


def test_the_package_stays_light_and_gives_the_figures(tmp_path: Path) -> None:
    heavy = "{'plotly', 'torch', 'pandas', 'streamlit', 'numpy'}"
    code = f"import lcviz, sys; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    root = Path(lcviz.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
    figures = lcviz.figures_of(save(tmp_path / "run.lcc", 3))
    shown = figures._repr_html_()
    assert shown.startswith("<iframe")
    assert "&lt;h1&gt;Chain run.lcc" in shown  # a page of its own, as text of an attribute
