"""Every package says what its modules are, in the order to read them; its wheel has all files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAPS = [
    path
    for room in ("codec", "lcviz", "demo_models")
    for path in sorted((ROOT / room).rglob("__init__.py"))
    if re.search(r"in this order:|Reading order", path.read_text())
]


def names(text: str) -> set[str]:
    """What the lines of a map begin with, several names between commas."""
    text = re.split(r"in this order:|Reading order", text)[1]
    entry = re.compile(r"^    (\w+/?(?:, \w+)*),?(?:  |$| )", re.MULTILINE)
    return {name for found in entry.findall(text) for name in found.strip("/").split(", ")}


@pytest.mark.parametrize("path", MAPS, ids=lambda path: path.parent.name)
def test_the_map_of_a_package(path: Path) -> None:
    text, folder = path.read_text(), path.parent
    modules = {p.stem for p in folder.glob("*.py")} - {"__init__", "__main__"}
    there = modules | {p.name for p in folder.iterdir() if p.is_dir()}
    assert names(text) <= there
    # A feature called X is drawn by X_figure and shown by page_X.
    words = set(re.findall(r"\w+", text))
    for name in modules:
        assert {name, name.removeprefix("page_").removesuffix("_figure")} & words, name


def test_there_are_maps() -> None:
    assert len(MAPS) > 20


@pytest.mark.parametrize("package", ["codec", "lcviz"])
def test_the_wheel_has_every_file_that_is_not_code(package: str) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folder = ROOT / package
    packed = {path for glob in settings["package-data"][package] for path in folder.glob(glob)}
    files = {path for path in folder.rglob("*.*") if "__pycache__" not in path.parts}
    assert {path for path in files if path.suffix != ".py" and path.is_file()} <= packed
