"""The README and docs: Python snippets and commands run, links lead somewhere."""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "examples" / "README.md",
        ROOT / "codec" / "FORMAT.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    )
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.DOTALL)


def commands(page: str, program: str = "") -> list[str]:
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    return [line for line in lines if line.startswith(program)]


# tests/trainers run the snippets of trainers
SNIPPETS = {
    page: code
    for page in PAGES
    if (code := "\n".join(blocks(page, "python"))) and "from codec.trainers." not in code
}
CODEC = [page for page in PAGES if commands(page, "python -m codec ")]


def snippets() -> None:
    """What a process runs, in which warnings are not errors."""
    warnings.resetwarnings()
    runpy.run_path("snippets.py", run_name="__main__")


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("page", [page for page in SNIPPETS if page != "README.md"])
def test_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, as written; memory stands in for the bucket."""
    monkeypatch.chdir(tmp_path)
    Path("snippets.py").write_text(SNIPPETS[page].replace("s3://", "memory://"))
    if "distributed" in SNIPPETS[page]:  # process groups stay out of this process
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=snippets)
        process.start()
        process.join()
        assert process.exitcode == 0
    else:
        runpy.run_path("snippets.py", run_name="__main__")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the README's loop saved."""
    folder = tmp_path_factory.mktemp("chain")
    with contextlib.chdir(folder):
        exec(compile(SNIPPETS["README.md"], "README.md", "exec"), {"__name__": "__main__"})
    return folder


def test_codec_in_a_process_of_its_own(chain: Path) -> None:
    first = commands("README.md", "python -m codec ")[0]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, *first.split()[1:]]
    subprocess.run(command, cwd=chain, env=environment, check=True, capture_output=True)


@pytest.mark.parametrize("page", CODEC)
def test_codec_commands_run(
    page: str,
    chain: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On a copy of the README's chain; every file that a command names for its answer is there."""
    from codec.cli.main import main

    shutil.copytree(chain / "run.lcc", tmp_path / "run.lcc")
    monkeypatch.chdir(tmp_path)
    for command in commands(page, "python -m codec "):
        arguments = shlex.split(command)[3:]
        assert main(arguments) == 0, capsys.readouterr()
        if "-o" in arguments:
            assert Path(arguments[arguments.index("-o") + 1]).exists()


def test_every_codec_command_is_shown() -> None:
    shown = {command.split()[3] for page in CODEC for command in commands(page, "python -m codec ")}
    wanted = "info verify restore compact pack unpack compress guard"
    assert shown == set(wanted.split())


def test_worked_example_lines() -> None:
    """The table of ten numbers is what the codec computes."""
    import numpy as np

    import codec
    from codec.scheme import huffman

    delta = np.array([0.76, -0.48, 0.2, 0.07, 0.18, 0.49, 0.14, 0.39, 0.82, 0.09], np.float32)
    text = PAGES["docs/explanation/scheme.md"]
    rows = {line[0]: line for line in text.splitlines() if re.match(r"[EPH]  \w", line)}

    def numbers(row: str) -> list[float]:
        text = rows[row][18:].replace("−", "-").split()
        return [float(word) for word in text[:10]]

    e, p = codec.quantize(delta), codec.quantize(delta, 2)
    assert numbers("E") == [round(float(v), 2) for v in codec.dequantize(e)]
    assert numbers("P") == [round(float(v), 2) for v in codec.dequantize(p)]
    words = huffman.code_words(codec.encode(p).code_lengths)
    assert rows["H"][18:].split()[:10] == [words[c] for c in p.codes]
    assert codec.encode(p).payload_bits == 18
    assert "18 bits" in rows["H"]


def test_lab_commands_are_understood() -> None:
    from benchmarks.experiments import EXPERIMENTS
    from benchmarks.experiments.__main__ import _parser

    start = "python -m benchmarks.experiments"
    lab = [shlex.split(c, comments=True) for page in PAGES for c in commands(page, start)]
    asked = [_parser().parse_args(command[3:]).experiment.name for command in lab]
    assert {*asked} == {experiment.name for experiment in EXPERIMENTS}


def test_two_commands() -> None:
    start = "python3 -m venv .venv && . .venv/bin/activate && pip install -r "
    assert f"{start}requirements.txt && streamlit run app.py" in commands("README.md")
    assert f"{start}requirements-dev.txt && pytest" in commands("README.md")


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 180


def anchors(text: str) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Relative links and pictures; the headings they name."""
    links = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", PAGES[page])
    for target in ("".join(link) for link in links):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        place = (ROOT / page).parent / path if path else ROOT / page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place.read_text(encoding="utf-8")), target
