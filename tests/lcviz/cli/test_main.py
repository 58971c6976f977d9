"""The command `lcviz`: help, the commands behind it, and the dashboard that it opens."""

import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from lcviz.cli import main, serve, tools
from tests.lcviz.common import Patch, saved

ROOT = Path(__file__).parents[3]


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from lcviz.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(*sorted(m for m in sys.modules if '.' not in m))"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT)
    modules = set(output.splitlines()[-1].split())
    assert not modules & {"numpy", "numba", "codec", "torch", "streamlit", "pandas"}
    for option in ("--run", "--data", "--port", "--host", "--no-browser"):
        assert option in output
    for name in main.TOOLS:
        assert f"\n  {name} " in output


def test_help_says_what_each_command_says_of_itself() -> None:
    commands = tools._parser()._subparsers
    assert commands is not None
    choices = commands._group_actions[0].choices
    assert choices is not None
    assert set(choices) == {*main.TOOLS} - {"codec"}


def test_codec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """lcviz codec … is python -m codec …, and neither imports numba to read a chain's header."""
    assert main.main(["codec", "info", str(tmp_path / "none.lcc")]) == 1
    assert "none.lcc" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main.main(["codec", "--help"])
    assert "usage: lcviz codec" in capsys.readouterr().out


def test_info_needs_no_compiler(tmp_path: Path) -> None:
    saved(tmp_path / "run.lcc", ({"w": [1.0, 2.0, float(n)], "n": n} for n in range(3)))
    code = (
        "import sys; from lcviz.cli.main import main\n"
        f"assert main(['codec', 'info', {str(tmp_path / 'run.lcc')!r}]) == 0\n"
        "assert not {'numba', 'torch', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)


@pytest.mark.parametrize("words", [[], ["play"]], ids=["dashboard", "command"])
def test_a_part_that_is_not_installed(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: Patch
) -> None:
    def gone(_: object) -> int:
        raise ModuleNotFoundError("No module named 'plotly.graph_objects'", name="plotly.x")

    monkeypatch.setattr(serve, "serve", gone)
    monkeypatch.setattr(tools, "main", gone)
    assert main.main(words) == 2
    error = capsys.readouterr().err
    assert "plotly is not installed" in error
    assert "pip install 'lcviz-checkpoint[dashboard]'" in error


def test_a_mistake_of_ours_is_no_missing_part(monkeypatch: Patch) -> None:
    def broken(_: object) -> int:
        raise ModuleNotFoundError("No module named 'lcviz.nothing'", name="lcviz.nothing")

    monkeypatch.setattr(tools, "main", broken)
    with pytest.raises(ModuleNotFoundError):
        main.main(["play"])


def test_every_needed_package_is_asked_for(monkeypatch: Patch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "sklearn" else name)
    assert main.main(["--no-browser"]) == 2


def test_settings_of_the_server_travel_along() -> None:
    settings = [folder / ".streamlit" / "config.toml" for folder in (ROOT, serve.SCRIPT.parent)]
    assert settings[0].read_text() == settings[1].read_text()
    assert (ROOT / "app.py").read_text() == serve.SCRIPT.read_text()


def test_dashboard(tmp_path: Path) -> None:
    """Anywhere but in the repository: the script and the settings are those of the package."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "from lcviz.cli.main import main; sys.exit(main())"
    )
    arguments = ["--no-browser", "--port", str(port), "--run", "run.lcc", "--data", "."]
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any(f"http://127.0.0.1:{port}" in line for line in lines)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health") as answer:
            assert answer.read() == b"ok"
    finally:
        process.terminate()
        process.communicate()
