"""The site of the documents, without building it: its navigation, its pages, and what they say."""

import inspect
import os
import re
import runpy
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

import codec
from codec import errors
from codec.dcp import ChainWriter
from codec.inspect import FORMAT
from codec.rerun import GradientCheckpointer
from tests.docs.pages import ROOT, TEXTS, rows, spans

SITE: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
HOOKS = runpy.run_path(str(ROOT / "docs/site_hooks.py"))
OUTSIDE: dict[str, str] = {page: file for file, page in HOOKS["PAGES"].items()}
TABS = "Start, Tutorial, How to, Reference, Explanation, Results, Format, Contribute"
WANTED = {
    "start": "tutorial.md",
    "save in my loop": "how-to/own-loop.md",
    "restore elsewhere": "how-to/restore-elsewhere.md",
    "choose bits": "how-to/choose-settings.md",
    "what is promised": "explanation/guarantees.md",
    "format": "format.md",
    "contribute": "contribute.md",
}
COMPATIBILITY, RESULTS = "reference/compatibility.md", "explanation/results.md"


def entries(nav: Any) -> Iterator[str]:
    """The pages of a navigation."""
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav.values() if isinstance(nav, dict) else nav:
            yield from entries(item)


def links(page: str) -> set[str]:
    """The pages to which a page of the site links."""
    file = OUTSIDE.get(page, f"docs/{page}")
    targets = re.findall(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)", (ROOT / file).read_text("utf-8"))
    found = (os.path.normpath(Path(file).parent / target) for target in targets)
    return {HOOKS["PAGES"].get(path, path.removeprefix("docs/")) for path in found}


def test_the_navigation_has_every_page() -> None:
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    listed = list(entries(SITE["nav"]))
    assert len(listed) == len(set(listed))
    assert set(listed) == pages | set(OUTSIDE) | {HOOKS["PLAY"]}
    assert ", ".join(title for tab in SITE["nav"] for title in tab) == TABS


def test_pages_outside_docs_exist() -> None:
    assert all((ROOT / file).is_file() for file in [*HOOKS["PAGES"], *HOOKS["ASSETS"]])
    assert not {page for page in OUTSIDE if (ROOT / "docs" / page).exists()}, "two of one name"


def test_links_lead_to_pages_of_the_site() -> None:
    """What a code host shows, the site shows too."""
    for page in entries(SITE["nav"]):
        for target in links(page) if page.endswith(".md") else ():
            on_site = target in [*entries(SITE["nav"])] or target.startswith("img/")
            assert on_site, f"{page}: {target}"


@pytest.mark.parametrize("page", WANTED.values(), ids=WANTED)
def test_two_clicks_from_the_first_page(page: str) -> None:
    first = links("start.md")
    assert page in first.union(*(links(one) for one in first if one.endswith(".md")))


def test_numbers_in_tables_stay_in_one_line() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=RESULTS))
    text = "| 1 % | 2 → 3 | 4 ± 5 % | `6 % 7` |\n\n8 %\n\n```\n| 9 % |\n```\n"
    shown = HOOKS["on_page_markdown"](text, page, None, None)
    first, rest = "| 1\xa0% | 2\xa0→\xa03 | 4\xa0±\xa05\xa0% |", text.partition(" 5 % |")[2]
    assert shown == first + rest


def test_nothing_is_loaded_from_elsewhere() -> None:
    assert SITE["theme"]["font"] is False
    assert not {"extra_javascript", "repo_url"} & set(SITE)
    assert "analytics" not in SITE.get("extra", {})
    assert all((ROOT / "docs" / path).is_file() for path in SITE["extra_css"])
    for name in ("docs/site.css", "mkdocs.yml"):
        assert "//" not in (ROOT / name).read_text()


def test_every_requirement_is_exact() -> None:
    text = (ROOT / "requirements-docs.txt").read_text()
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\d.]+", line) for line in lines if line)
    command = "pip install -r requirements-docs.txt && mkdocs build --strict"
    assert command in text
    assert command in TEXTS["CONTRIBUTING.md"]


def test_names_and_signatures() -> None:
    """Every public name and every error has its line."""
    page = TEXTS["reference/python.md"]
    shown = set(re.findall(r"^::: codec\.([\w.]+)$", page, re.M))
    shown |= set(re.findall(r"`codec\.(__version__|errors)`", page))
    kinds = inspect.getmembers(errors, inspect.isclass)
    faults = {f"errors.{name}" for name, kind in kinds if issubclass(kind, Exception)}
    also_in_codec = {name for name in codec.__all__ if f"errors.{name}" in faults}
    assert shown == set(codec.__all__) - also_in_codec | faults
    assert also_in_codec <= set(spans(page))


def test_what_can_be_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = (cells[0] for head, cells in rows(TEXTS["start.md"]) if head == "extra")
    table = {spans(name)[0] for name in names if "`" in name}
    assert table == set(project["optional-dependencies"]) - {"bench", "dev"}
    assert 'pip install ".[dashboard]"\nlcviz\n' in TEXTS["start.md"]


def test_settings_exist() -> None:
    """What the table of scenarios passes, somebody takes."""
    calls = (codec.Checkpointer, ChainWriter, GradientCheckpointer)
    taken = {name for call in calls for name in inspect.signature(call).parameters}
    table = [cells[1] for head, cells in rows(TEXTS["how-to/which-knob.md"]) if head == "scenario"]
    passed = {name for cell in table for name in re.findall(r"(\w+)=", cell)}
    assert len(passed) > 8
    assert passed <= taken


def test_a_record_of_a_newer_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page on compatibility, line by line."""
    page = TEXTS[COMPATIBILITY]
    assert f"version is {FORMAT}." in page
    monkeypatch.chdir(tmp_path)
    with codec.Checkpointer("run.lcc", bits=2) as checkpoints:
        for step in range(2):
            checkpoints.save(step, {"w": np.linspace(-1, 1 + step, 100, dtype=np.float32)})
    newer = ROOT / "tests/golden/bad/version-4.safetensors"
    shutil.copy(newer, "run.lcc/00000002.delta.safetensors")
    files = {path.name: path.read_bytes() for path in Path("run.lcc").glob("*.safetensors")}

    with pytest.warns(errors.SkippedRecordWarning, match="restored step 1 instead of 2"):
        assert codec.restore("run.lcc")["w"][-1] == pytest.approx(2, rel=0.1)
    report = codec.verify("run.lcc")
    assert report.steps == (0, 1)
    assert "update this package" in report.problems[0]
    calls = (
        lambda: codec.restore("run.lcc", 2),
        lambda: codec.Checkpointer("run.lcc", resume=True),
        lambda: codec.compact("run.lcc"),
    )
    for call in calls:
        with pytest.raises(errors.VersionError, match="update this package"):
            call()
    codec.pack("run.lcc", "run.lcc.zip")
    assert newer.read_bytes() in Path("run.lcc.zip").read_bytes()
    there = {path.name: path.read_bytes() for path in Path("run.lcc").glob("*.safetensors")}
    assert there == files


@pytest.mark.parametrize(
    ("page", "quoted", "measured"),
    [
        ("how-to/which-knob.md", "with AdamW 1.6 % of float32", "| 1 | 2 bits | 1.60 % |"),
        ("how-to/which-knob.md", "the default's 5.7 %", "(default)** | 5.65 % |"),
        ("how-to/which-knob.md", "[29 % of the state]", "| float32 | 0.288 | 0.666 |"),
        ("how-to/which-knob.md", "[67 % of the state]", "| float32 | 0.288 | 0.666 |"),
        ("how-to/which-knob.md", "0.67 instead of", "| digits | 2 bits | tensor | 0.67 %"),
        ("how-to/which-knob.md", "instead of 0.32 %", "| digits | 2 bits | model | 0.32 %"),
        ("how-to/which-knob.md", "[0.87 of the bytes]", "| all | 324 | 0.869 |"),
        ("explanation/mistakes.md", "517 thousandths of a nat", "up to 517 thousandths"),
        (
            "explanation/mistakes.md",
            "9 iterations and the byte transformer 3",
            "costs 9 and 3 iterations",
        ),
    ],
)
def test_quoted_results(page: str, quoted: str, measured: str) -> None:
    assert quoted in " ".join(TEXTS[page].split())
    assert measured in " ".join(TEXTS[RESULTS].split())
