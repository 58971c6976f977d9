"""The play page as one file: small, and without anything from elsewhere. Chromium: browser/."""

import json
import re
from pathlib import Path

import pytest

from lcviz.cli.tools import main

NAMES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}  # which nobody loads
MOST = 450_000  # bytes


def test_the_file_is_small_and_needs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "play.html"
    assert main(["play", "-o", str(path), "--seed", "7"]) == 0
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == NAMES
    text = text.replace('<iframe src="${location.href}"', "")  # what *Embed* copies
    assert not re.search(r"<link|\bimport\b|@import|\bsrc=|url\((?!#)|fetch\(|^export ", text, re.M)
    assert "prefers-color-scheme: dark" in text
    (line,) = re.findall(r"openBoard\(document, (.+), null\);$", text, re.MULTILINE)
    assert json.loads(line)["seed"] == 7
    assert {one["link"] for one in json.loads(line)["learn"]["pictures"]} == {None}


@pytest.mark.parametrize("seed", ["-1", "2147483648", "one"])
def test_a_seed_that_is_none(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["play", "--seed", seed])
    assert "seed" in capsys.readouterr().err


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "-o", str(tmp_path / "no" / "play.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err
