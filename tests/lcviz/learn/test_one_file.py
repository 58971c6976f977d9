"""Learn as one file: small, and without anything from elsewhere. Chromium opens it in browser/."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lcviz.cli.lab import main
from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from lcviz.learn.pictures import Start, learn_picture

NAMES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}  # which nobody loads


def test_the_file_is_small_and_needs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "learn.html"
    assert main(["learn", "-o", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == NAMES
    assert not re.search(r"<link|\bimport\b|@import|\bsrc=|url\(|fetch\(|^export ", text, re.M)
    assert "prefers-color-scheme: dark" in text
    (data,) = re.findall(r"^  data: (.+),$", text, re.MULTILINE)
    track, live = map(read_numbers, (TRACK, TRAINED))
    assert json.loads(data) == learn_picture(track, live, live, Start(), alone=True).data


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "-o", str(tmp_path / "no" / "learn.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err
