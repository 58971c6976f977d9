"""Commands, options, names, errors and files: documented if they exist, and only then."""

import argparse
import importlib
import inspect
import re
import runpy
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import codec
import codec.inspect
from benchmarks.experiments import __main__ as lab_cli
from codec import console, errors
from codec.cli import main as codec_cli
from codec.scheme.coding import UNSET
from lcviz.cli import main
from lcviz.cli import tools as tools_cli
from lcviz.inspect.watch_paths import parse_arguments
from lcviz.ui import navigation
from tests.docs.outputs import BLOCK, with_outputs
from tests.docs.pages import ROOT, TEXTS, rows, section, spans, value

API, CLI = "reference/api.md", "reference/cli.md"
ALL = "\n".join(TEXTS.values())
CLIS = {
    "`python -m codec`: chains": codec_cli,
    "`python -m benchmarks.experiments`: the lab": lab_cli,
    "`lcviz`: the tools": tools_cli,
}
PARSERS = pytest.mark.parametrize(
    ("heading", "cli"), CLIS.items(), ids=["codec", "experiments", "lcviz"]
)


def commands_of(cli: ModuleType) -> Mapping[str, argparse.ArgumentParser]:
    """Name -> parser of each command."""
    actions = cli._parser()._actions
    return next(a.choices for a in actions if isinstance(a, argparse._SubParsersAction))


def documented_options(text: str) -> dict[str, set[str]]:
    """Command -> its options, by the tables of a section of the reference."""
    options = {
        name: set[str]()
        for name in re.findall(r"^python -m benchmarks.experiments (\S+)", text, re.M)
    }
    experiments = list(options)
    for head, (first, *others) in rows(text):
        flags = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", " ".join(spans(first))))
        if head == "command":
            options[spans(first)[0].split()[0]] = flags
        elif head.startswith("option"):
            named = spans(head) or (experiments if others[0] == "all" else spans(others[0]))
            for name in named:
                options[name] |= flags
    if "Every command takes `--json`" in text:
        options = {name: flags | {"--json"} for name, flags in options.items()}
    return options


@PARSERS
def test_options(heading: str, cli: ModuleType) -> None:
    """An option counts as documented under any of its names."""
    documented = documented_options(section(CLI, heading))
    actual = {}
    for name, parser in commands_of(cli).items():
        flags = [a.option_strings for a in parser._actions if a.dest != "help"]
        known = documented.get(name, set())
        actual[name] = {next((f for f in own if f in known), own[-1]) for own in flags if own}
    assert documented == actual


@PARSERS
def test_usages(heading: str, cli: ModuleType) -> None:
    """Arguments, brackets around what is optional, and defaults in the tables of commands."""
    for head, cells in rows(section(CLI, heading)):
        if head != "command":
            continue
        usage = spans(cells[0])[0]
        actions = commands_of(cli)[usage.split()[0]]._actions
        positional = re.sub(r"--?[a-z]+( [A-Z0-9]+)?", "", usage)
        assert len(re.findall(r"[A-Z]+", positional)) == sum(not a.option_strings for a in actions)
        optional = re.findall(r"\[(-\S+)(?: (\S+))?\]", usage)
        required = set(re.findall(r"(?<!\[)(?<=\s)--?[a-z]+", usage))
        assert required == {"-o" for a in actions if a.required and a.option_strings}, usage
        for flag, default in optional:
            if default.isdigit():
                (action,) = (a for a in actions if flag in a.option_strings)
                assert action.default == int(default), usage


def test_exit_codes() -> None:
    codes = {int(cells[0]) for head, cells in rows(TEXTS[CLI]) if head == "exit code"}
    bad = {console.BAD_DATA, console.WRONG_USE, console.OLDER, console.INTERRUPTED}
    assert codes == {console.OK, *bad}


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if BLOCK.search(text)])
def test_quoted_outputs(page: str) -> None:
    """`PYTHONPATH=. python tests/docs/outputs.py` renews them."""
    assert TEXTS[page] == with_outputs(TEXTS[page])


def test_options_of_scripts() -> None:
    scripts = re.findall(r"python ((?:benchmarks|examples|tests)/\S+\.py)(.*)", ALL)
    assert len(scripts) > 20
    for script, arguments in scripts:
        source = (ROOT / script).read_text()
        for option in re.findall(r"(?<= )--[a-z-]+", arguments):
            assert f'"{option}"' in source, f"{script} {option}"


def test_arguments_of_the_dashboard() -> None:
    for arguments in re.findall(r"streamlit run app\.py -- ([^`\n]+)", ALL):
        assert parse_arguments(shlex.split(arguments)).problem == ""


def test_options_of_the_dashboard() -> None:
    text = section(CLI, "`lcviz`: the dashboard")
    documented = {spans(cells[0])[0].split()[0] for head, cells in rows(text) if "option" in head}
    actions = main._parser()._actions
    assert documented == {a.option_strings[0] for a in actions if a.dest != "help"}


def test_public_names() -> None:
    names = {word for span in spans(TEXTS[API]) for word in re.findall(r"\w+", span)}
    names |= set(re.findall(r"^ {4}codec\.(\w+)\(", TEXTS[API], re.M))
    assert set(codec.__all__) - names == set()
    inside = spans(section(API, "Look inside"))[1:]
    assert [name for name in inside if not hasattr(codec.inspect, name)] == []
    for part, first, others in re.findall(r"`codec\.(dcp|rerun)\.(\w+)`((?:, `\w+`)*)", TEXTS[API]):
        public = importlib.import_module(f"codec.{part}").__all__
        assert [name for name in (first, *spans(others)) if name not in public] == []


def test_errors() -> None:
    """The tree as drawn is that of the classes; warnings are named below it."""
    drawn, above = {}, ["InputError"]
    for lead, name in re.findall(r"^ {4}((?:[│├└─ ]{3})*)(\w+Error)\b", TEXTS[API], re.M):
        above[len(lead) // 3 + 1 :] = [name]
        drawn[name] = above[-2]
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass)]
    parents = {c.__name__: c.__base__.__name__ for c in classes if issubclass(c, errors.LccError)}
    assert drawn == parents | {"LccError": above[0]}
    assert {c.__name__ for c in classes if issubclass(c, Warning)} <= set(spans(TEXTS[API]))


def test_the_signature_of_checkpointer() -> None:
    (quoted,) = re.findall(r"codec\.Checkpointer\((.*?)\)", TEXTS[API], re.DOTALL)
    texts, described = [], set[str]()
    for p in inspect.signature(codec.Checkpointer).parameters.values():
        if p.kind is p.KEYWORD_ONLY and "*" not in texts:
            texts.append("*")
        default = "…" if p.default is UNSET else repr(p.default).replace("'", '"')
        texts.append(p.name if p.default is p.empty else f"{p.name}={default}")
        described.add(p.name)
    assert " ".join(quoted.split()) == ", ".join(texts)
    named = [cells[0] for head, cells in rows(TEXTS[API]) if head == "argument"]
    assert {name for cell in named for name in spans(cell)} == described


def test_defaults_of_functions() -> None:
    """Of calls such as `compact(path, keep=2)`."""
    calls = re.findall(r"`(\w+)\(\w+((?:, \w+=\w+)+)\)`", section(API, "Read and maintain"))
    defaults = [
        (function, *argument.split("="))
        for function, arguments in calls
        for argument in arguments.removeprefix(", ").split(", ")
    ]
    assert len(defaults) == 5
    for function, argument, default in defaults:
        parameters = inspect.signature(getattr(codec, function)).parameters
        assert str(parameters[argument].default) == default


@pytest.mark.parametrize(
    ("page", "sentence", "of"),
    [
        (API, r"returns a `Saved`, what it wrote: (.*?) and more", "codec:Saved"),
        (API, r"returns a `Report`: (.*?) \|", "codec:Report"),
        (API, r"read access to a directory or archive: (.*?) and more", "codec:Chain"),
        ("how-to/own-loop.md", r"((?:`saved\.\w+`[^`]*)+)", "codec:Saved"),
        ("how-to/report.md", r"(\| `figures\[.*?)\n\n", "lcviz.report.chain_figures:ChainFigures"),
    ],
)
def test_attributes(page: str, sentence: str, of: str) -> None:
    kind = value(of)
    for part in re.findall(sentence, TEXTS[page], re.DOTALL):
        for span in spans(part):
            name = re.sub(r"^(saved|figures)\.?|[\[(].*", "", span)
            assert not name or hasattr(kind, name) or name in kind.__annotations__, span


def test_figures_of_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = re.findall(r"```python\n(.*?)```", TEXTS["how-to/report.md"], re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(first, names)
    (quoted,) = re.findall(r"# (.*)\nprint\(list\(figures\)\)", second)
    optional = " code words (if any),"
    drawn = ", ".join(names["figures"])
    assert drawn in (quoted.replace(optional, ""), quoted.replace(" (if any)", ""))


def test_where_in_the_code() -> None:
    """Each function or class is defined in the file that is named before it."""
    text = TEXTS["explanation/where-in-the-code.md"]
    named = re.findall(r"`([\w/]+\.py)` `(?:(\w+)\.)?(\w+)`", text)
    assert len(named) > 20
    for path, kind, name in named:
        source = (ROOT / path).read_text()
        scope = source.partition(f"\nclass {kind}")[2].split("\nclass ")[0] if kind else source
        indent = "    " if kind else ""
        assert re.search(rf"^{indent}(?:def|class) {name}\b", scope, re.M), f"{path} {kind} {name}"


def test_files() -> None:
    folders = "codec|lcviz|demo_models|tests|benchmarks|examples"
    paths = re.findall(rf"`((?:{folders})/[\w./]+)`", ALL)
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "page", ["reference/dashboard.md", "tutorial.md", "how-to/restore-elsewhere.md"]
)
def test_labels(page: str) -> None:
    """What stands in italics is written on a page of the dashboard."""
    sources = (p for suffix in ("py", "js", "html") for p in (ROOT / "lcviz").rglob(f"*.{suffix}"))
    written = "\n".join(path.read_text("utf-8") for path in sources)
    labels = re.findall(r"(?<![*\w])\*([^*\n]+)\*(?!\*)", TEXTS[page])
    assert labels
    assert [label for label in labels if label not in written] == []


def test_pages_of_the_dashboard() -> None:
    table = rows(section("reference/dashboard.md", "Pages"))
    assert [cells[0] for _, cells in table] == [title for title, _ in navigation.PAGES.values()]


def test_sets_of_fault_tests() -> None:
    sets = runpy.run_path(str(ROOT / "tests/faults/all.py"))["SETS"]
    table = rows(section("explanation/guarantees.md", "How it is tested"))
    assert {spans(cells[0])[0] for _, cells in table} == set(sets)


def test_results_in_the_readme() -> None:
    """They are those of the page of results, without one column."""
    results = [cells for _, cells in rows(section("explanation/results.md", "Record sizes"))]
    digits = [cells[1:7] + cells[8:] for cells in results if cells[0] == "digits"]
    assert digits == [c for head, c in rows(section("README.md", "Results")) if head == "kept"]
