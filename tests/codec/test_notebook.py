"""HTML for notebooks: what is in a file stays text, and long chains stay short."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import codec
from codec.notebook import MOST_BARS


def test_names_are_text(tmp_path: Path) -> None:
    with codec.Checkpointer(tmp_path / "<b>.lcc") as checkpoints:
        checkpoints.save(0, {"<script>": np.zeros(3, np.float32)})
    chain = codec.Chain(tmp_path / "<b>.lcc")
    for page in (chain._repr_html_(), chain.read(chain.entries[0])._repr_html_()):
        assert "<b>" not in page
        assert "<script>" not in page
    assert "t/&lt;script&gt;" in page


def test_a_long_chain(tmp_path: Path) -> None:
    n = MOST_BARS + 5
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        for step in range(n):
            checkpoints.save(step, {"w": np.full(9, step, np.float32)})
    page = codec.Chain(tmp_path / "run.lcc")._repr_html_()
    assert page.count("<tr>") == MOST_BARS + 1
    assert "… and 5 more" in page
    assert re.search(rf"{n} records, [\d,]+ bytes", page)
    assert f"delta {n - 1}<" in page
    assert f"Steps 0 to {n - 1}." in page


@pytest.mark.parametrize("bits", [2, None])
def test_quantized_values(bits: int | None) -> None:
    values = np.array([1.5, 1.25, -0.75, 0.3, 0.01, 0], np.float32)
    page = codec.quantize(values, bits)._repr_html_()
    assert "6 values in 4 buckets" in page
    assert ">2⁰<" in page
    assert ">−2⁻¹<" in page
    assert page.count("→") == (3 if bits else 4)
    assert ("2² − 1 buckets are kept: 4 values" in page) == bool(bits)


def test_levels_without_buckets() -> None:
    encoded = codec.encode(codec.quantize(np.array([1.0, 0.0, 0.0], np.float32), 2))
    assert "3 values at 2 levels" in codec.decode(encoded)._repr_html_()
