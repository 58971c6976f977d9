"""Bytes and errors of a compressed series, against plain NumPy in float64."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path

import numpy as np
import pytest

from codec.state.tensors import layout_of
from lcviz.export.comparison import Compared, errors, totals, zipped_nbytes


def arrays(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(size=(30, 4)).astype(np.float32),
        "b": rng.normal(size=9).astype(np.float32),
        "n": np.arange(9),  # exact: neither counts
    }


def test_errors_are_those_of_numpy() -> None:
    first, live, track = arrays(0), arrays(1), arrays(2)
    whole, largest, each = errors(layout_of(live), track, live, first)
    assert [(e.name, e.n) for e in each] == [("a", 120), ("b", 9)]

    def of(*names: str) -> tuple[float, float]:
        def flat(state: dict[str, np.ndarray]) -> np.ndarray:
            return np.concatenate([state[n].ravel() for n in names]).astype(np.float64)

        off, moved = flat(track) - flat(live), flat(live) - flat(first)
        return float(np.linalg.norm(off) / np.linalg.norm(moved)), float(np.abs(off).max())

    assert (whole, largest) == pytest.approx(of("a", "b"), rel=1e-6)
    for e in each:
        assert (e.distance, e.largest) == pytest.approx(of(e.name), rel=1e-6)


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
    path.write_bytes(np.arange(2**19, dtype=np.float32).tobytes())
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "x")
    (info,) = archive.infolist()
    assert zipped_nbytes(path) == pytest.approx(info.compress_size + 6, abs=20)  # zlib's head, sum


def step(n: int, distance: float, file: int | None = 10) -> Compared:
    return Compared(n, f"{n}.pt", "delta", 5, 100, file, None, distance, n / 10, (), "")


def test_totals() -> None:
    t = totals([step(0, 0.0), step(1, 0.5), step(2, 0.2)])
    assert (t.n, t.full, t.chain, t.files, t.zipped) == (3, 300, 15, 30, None)
    assert (t.distance, t.worst, t.largest) == (0.5, 1, 0.2)
    assert totals([step(0, 0.0, None), step(1, math.nan)]).files is None
    assert totals([step(0, 0.9), step(1, math.nan), step(2, 1.0)]).worst == 1
