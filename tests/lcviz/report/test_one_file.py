"""The report: one file that loads nothing. Chromium opens it in browser/."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from plotly.offline import get_plotlyjs

import codec
from lcviz.cli.tools import main
from lcviz.ui.charts import INK
from tests.lcviz.common import saved

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Three steps; the name of its tensor would end a script."""
    w, name = np.arange(90, dtype=np.float32), "x</script><b>"
    return saved(tmp_path / "run.lcc", ({name: w * step**2} for step in range(3)), bits=2)


def test_the_file_needs_nothing_else(chain: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    assert main(["report", str(chain), "-o", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert text.count("</script>") == 2
    own = text.replace(get_plotlyjs(), "")
    assert not re.search(r"<link|\bimport\b|@import|\bsrc=|url\(|fetch\(|https?://", own)
    assert "prefers-color-scheme: dark" in own
    assert "All of 3 steps, 0 to 2, restore." in own
    (data,) = re.findall(r"^const FIGURES = (.+);$", own, re.MULTILINE)
    figures = json.loads(data)
    assert set(figures) >= {"sizes", "exponents", "buckets", "code-words", "integrity"}
    for figure in figures.values():
        light, dark = figure["light"]["layout"], figure["dark"]["layout"]
        assert light["font"]["color"] != dark["font"]["color"]
        assert light["xaxis"]["tickfont"]["color"] == light["font"]["color"]
    assert "<b>" not in own.replace(data, "")
    bars = [figures["tensors"][theme]["data"][0]["marker"]["color"] for theme in INK]
    assert bars == list(INK.values())  # black bars would be lost in the dark
    (name,) = figures["tensors"]["light"]["layout"]["yaxis"]["ticktext"]
    assert name.endswith("script&gt;&lt;b&gt;")  # Plotly reads tags in texts


def test_a_chain_that_is_too_far(chain: Path, tmp_path: Path, capsys: Capsys) -> None:
    """Nothing is damaged, and yet it is not good."""
    texts, w = [], np.arange(90, dtype=np.float32) % 7
    away = saved(tmp_path / "far.lcc", ({"w": w * step} for step in range(2)), tolerance=9.0)
    for source in (chain, away):
        assert main(["report", str(source), "-o", str(tmp_path / "x.html")]) == 0
        texts.append((tmp_path / "x.html").read_text(encoding="utf-8"))
    assert 'class="verdict good"' in texts[0]
    assert 'class="verdict bad"' in texts[1]
    far = "Too far for a restart: step 1 is behind by 100.0% of what was trained since the base"
    assert f"All of 2 steps, 0 to 1, restore. {far}" in texts[1]
    assert far in capsys.readouterr().err


def test_mistakes_are_told(chain: Path, tmp_path: Path, capsys: Capsys) -> None:
    for arguments, told in (
        ([str(tmp_path / "no.lcc")], "there is no chain directory"),
        ([str(chain), "--step", "7"], "no record holds step 7"),
        ([str(chain), "-o", str(tmp_path / "no" / "x.html")], "cannot be written"),
    ):
        assert main(["report", *arguments]) == 1
        assert told in capsys.readouterr().err


def test_a_damaged_chain_gets_a_report(chain: Path, tmp_path: Path, capsys: Capsys) -> None:
    record = chain / codec.Chain(chain).entries[1].name
    record.write_bytes(record.read_bytes()[:-40])
    path = tmp_path / "report.html"
    assert main(["report", str(chain), "-o", str(path)]) == 0
    assert "Step 0 still restores; 1 to 2 do not." in capsys.readouterr().err
    assert "<summary>Details</summary>" in path.read_text(encoding="utf-8")
