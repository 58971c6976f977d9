"""Bytes and errors of a compressed series, against plain NumPy in float64, and their charts."""

import io
import math
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codec.state.family import Family
from codec.state.tensors import Layout, layout_of, spec_of
from lcviz.export.comparison import (
    EXACTLY,
    LOSSY,
    ComparedStep,
    TensorError,
    errors,
    totals,
    zipped_nbytes,
)
from lcviz.export.comparison_figure import distance_by_step, sizes_by_step, tensors_of_step
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
TENSORS = tuple(TensorError(f"t{i}", 10, i / 20, i / 100) for i in range(20))
BASE = ComparedStep(0, "e0.pt", "base", 1100, 1000, 1050, 900, 0.0, 0.0, (), "")
STEPS = [
    BASE,
    ComparedStep(10, "e10.pt", "delta", 50, 1000, 1050, 900, 0.25, 0.125, TENSORS, ""),
    ComparedStep(20, "e20.pt", "delta", 50, 1000, 1050, 900, 0.2, 0.5, TENSORS, ""),
]


def arrays(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(size=(30, 4)).astype(np.float32),
        "b": rng.normal(size=9).astype(np.float32),
        "n": np.arange(9),  # exact: has no error
    }


def test_nothing_moved_and_what_is_not_finite() -> None:
    first = arrays(0)
    layout = layout_of(first)
    assert errors(layout, first, first, first)[:2] == (0.0, 0.0)
    other = {**first, "a": first["a"] + 1}
    assert errors(layout, other, first, first)[0] == math.inf
    broken = {**first, "b": np.full(9, np.nan, np.float32)}
    whole, largest, each = errors(layout, broken, broken, first)
    assert math.isnan(whole)
    assert math.isnan(largest)
    assert each[0].distance == 0.0


def test_zipped_is_what_zip_makes_of_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(np.arange(2**19, dtype=np.float32).tobytes())  # several chunks
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "x")
    (info,) = archive.infolist()
    with path.open("rb") as whole:
        nbytes = zipped_nbytes(whole)
    assert nbytes == pytest.approx(info.compress_size + 6, abs=20)  # zlib's head, sum


def test_totals() -> None:
    t = totals(STEPS)
    assert (t.full, t.chain, t.files, t.zipped) == (3000, 1200, 3150, 2700)
    assert (t.furthest, t.largest) == (STEPS[1], 0.5)
    broken = replace(STEPS[1], distance=math.nan, file_nbytes=None)
    t = totals([BASE, broken, STEPS[2]])
    assert (t.furthest, t.files) == (broken, None)


def test_sizes(check_figure: Check) -> None:
    panel = sizes_by_step(STEPS)
    lines = {line["name"]: line for line in check_figure(panel)["data"]}
    assert lines["record of the chain"]["x"] == [0, 10, 20]
    assert lines["record of the chain"]["y"] == [1100, 50, 50]
    assert lines["float32"]["y"] == [1000, 1000, 1000]
    assert panel.table["file bytes"].tolist() == [1050, 1050, 1050]
    # A name stands where its line is not: below its lowest point, above its highest.
    assert lines["record of the chain"]["text"] == ["", "", "record of the chain"]
    assert lines["record of the chain"]["textposition"] == "bottom left"
    assert lines["float32"]["textposition"] == "top left"
    assert panel.title == "Records of 1.20 kB, 40.00 % of float32"
    for part in ("3.00 kB in float32", "3.15 kB as files", "2.70 kB as zipped files"):
        assert part in panel.sentence
    chain = sizes_by_step([replace(c, file_nbytes=None, zipped=None) for c in STEPS])
    assert "file bytes" not in chain.table
    assert "as files" not in chain.sentence


def test_distances(check_figure: Check) -> None:
    panel = distance_by_step(STEPS)
    (restored,) = check_figure(panel)["data"]
    assert restored["y"] == [0.0, 25.0, 20.0]
    assert (restored["text"], restored["textposition"]) == (["", "restored", ""], "top center")
    assert panel.title == "Step 10 is furthest off: 25.00 % of the distance trained"
    assert "weight is 0.5." in panel.sentence
    assert "restores to the last bit" in distance_by_step([BASE]).title
    broken = distance_by_step([BASE, replace(STEPS[1], distance=math.nan, largest=math.nan)])
    assert check_figure(broken)["data"][0]["y"][1] is None
    assert "not finite" in broken.sentence + broken.title


def test_tensors() -> None:
    table, sentence = tensors_of_step(STEPS[1])
    assert table["tensor"].tolist() == [f"t{i}" for i in range(19, -1, -1)]
    assert table["distance"][0] == "95.00 %"
    assert "t19 is furthest from its original, 95.00 %, t0 closest, 0." in sentence
    assert "None of its tensors" in tensors_of_step(BASE)[1]
    stored = replace(STEPS[1], tensors=(*TENSORS, TensorError("n", 1, 0.0, 0.0, EXACTLY)))
    table, sentence = tensors_of_step(stored)
    assert table["stored"].tolist() == ["lossy"] * 20 + ["exactly"]
    assert sentence.endswith("1 tensor is stored exactly.")
    exact = replace(BASE, tensors=(TensorError("w", 9, 0.0, 0.0),))
    assert tensors_of_step(exact)[1].startswith("Step 0 is stored exactly")
    odd = replace(STEPS[1], tensors=(*TENSORS[:2], TensorError("w", 9, math.inf, math.nan)))
    assert tensors_of_step(odd)[0]["tensor"][0] == "w"
    evil = (TensorError("![1](x)", 9, 0.1, 0.1), TensorError("w", 9, 0.0, 0.0))
    _, sentence = tensors_of_step(replace(BASE, kind="delta", tensors=evil))
    assert "\\!\\[1\\](x) is furthest" in sentence


def test_moments_do_not_count_as_weights() -> None:
    rng = np.random.default_rng(0)

    def state() -> dict[str, np.ndarray]:
        names = ("model/w", "optimizer/state/0/exp_avg")
        return {name: rng.normal(size=30).astype(np.float32) for name in names}

    first, live, track = state(), state(), state()
    model, moment = (
        spec_of(name, live[name], family=Family.of(family))
        for name, family in zip(live, ("", "roots=0.5 exp_avg"))
    )
    whole, _, each = errors(Layout((model, moment)), track, live, first)
    assert whole == each[0].distance != each[1].distance
    assert [e.stored for e in each] == [LOSSY, "roots=0.5"]
