"""The README's Python snippets run, and its two commands are what they should be."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TRAINING = [snippet for snippet in SNIPPETS if "checkpoints.restore()" in snippet]
TRAINERS = [s for s in SNIPPETS if "from codec.trainers." in s]  # tests/trainers run them
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
]


def run(code: list[str], folder: Path) -> None:
    """Run Python with the project importable, in an empty folder; shows what it printed."""
    done = subprocess.run(
        [sys.executable, *code],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) >= 2
    assert len(TRAINING) == 1


@pytest.mark.parametrize("snippet", [s for s in SNIPPETS if s not in TRAINING + TRAINERS])
def test_snippet_runs(snippet: str, tmp_path: Path) -> None:
    """As written; what lies in a bucket lies in memory here, which opens the same way."""
    run(["-c", snippet.replace("s3://", "memory://")], tmp_path)


def test_training_and_codec_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first command in a process of its own, as written; the others in this one."""
    from codec.cli.main import main

    (training,) = TRAINING
    run(["-c", training], tmp_path)
    commands = [c for c in COMMANDS if c.startswith("python -m codec")]
    assert len(commands) == 8
    run(commands[0].split()[1:], tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in commands[1:]:
        assert main(command.split()[3:]) == 0, capsys.readouterr()
    for name in ("step2.safetensors", "newest.pt", "run.lcc.zip", "copy.lcc"):
        assert (tmp_path / name).exists()


def test_worked_example_lines() -> None:
    """The table of ten numbers is what the codec computes."""
    import numpy as np

    import codec
    from codec.scheme import huffman

    delta = np.array([0.76, -0.48, 0.2, 0.07, 0.18, 0.49, 0.14, 0.39, 0.82, 0.09], np.float32)
    rows = {line[0]: line for line in README.splitlines() if re.match(r"[EPH]  \w", line)}

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
    from lcviz.__main__ import _parser
    from lcviz.lab.experiments import EXPERIMENTS

    commands = [shlex.split(c, comments=True) for c in COMMANDS if c.startswith("python -m lcviz")]
    asked = {_parser().parse_args(command[3:]).experiment.name for command in commands}
    assert asked == {experiment.name for experiment in EXPERIMENTS}


def test_two_commands() -> None:
    start = "python3 -m venv .venv && . .venv/bin/activate && pip install -r "
    assert f"{start}requirements.txt && streamlit run app.py" in COMMANDS
    assert f"{start}requirements-dev.txt && pytest" in COMMANDS
