"""The direction of imports: the codec knows nobody, the screen is known by few."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = {"codec", "demo_models", "lcviz"}
MAY_IMPORT = {
    "codec": {"codec"},
    "demo_models": {"demo_models"},
    "lcviz": OURS,
}
FILES = sorted(p for package in OURS for p in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Full names of all modules a file imports anywhere, relative ones resolved."""
    package = path.relative_to(ROOT).parent.parts
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


def tops(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_import_downwards(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert tops(path) & OURS <= MAY_IMPORT[package]
    assert "app" not in tops(path)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_streamlit_stays_in_the_pages(path: Path) -> None:
    place = path.relative_to(ROOT)
    on_screen = place.parent == Path("lcviz/pages") or place == Path("lcviz/state.py")
    if not on_screen:
        assert "streamlit" not in tops(path)


@pytest.mark.parametrize("package", ["codec", "demo_models"])
def test_what_is_below_draws_nothing(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        assert not tops(path) & {"plotly", "streamlit"}, path


@pytest.mark.parametrize("folder", ["lab", "figures"])
def test_lab_and_figures_know_no_page_and_no_run(folder: str) -> None:
    for path in (ROOT / "lcviz" / folder).rglob("*.py"):
        names = imported(path)
        for above in ("lcviz.pages", "lcviz.state", "lcviz.session", "lcviz.runs", "lcviz.export"):
            assert not any(n == above or n.startswith(above + ".") for n in names), (path, above)
        if folder == "lab":
            assert not any(n.startswith("lcviz.figures") for n in names), path
            assert not tops(path) & {"plotly", "pandas", "torch"}, path


def test_the_app_imports_lcviz_only() -> None:
    assert tops(ROOT / "app.py") <= {"pathlib", "streamlit", "lcviz", "__future__"}


def test_relative_imports_are_resolved() -> None:
    """The checks above see through `from ..session import Run`."""
    names = imported(ROOT / "lcviz" / "pages" / "live.py")
    assert "lcviz.session" in names
    assert "lcviz.state" in names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_every_package_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {
        ".".join(p.parent.relative_to(ROOT).parts)
        for package in OURS
        for p in (ROOT / package).rglob("__init__.py")
    }
    assert set(settings["tool"]["setuptools"]["packages"]) == packages
