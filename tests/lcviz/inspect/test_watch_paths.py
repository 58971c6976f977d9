"""The arguments of the dashboard's command, and what they name."""

from pathlib import Path

import pytest

from lcviz.inspect.watch_paths import WatchArguments, foreign, parse_arguments


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        ([], ()),
        (["--run=a.lcc", "--run", "runs", "--run", "a.lcc"], ("a.lcc", "runs")),
        (["--run", "a.lcc", "b.lcc", "--run", "c"], ("a.lcc", "b.lcc", "c")),  # by a shell's star
        (["a.lcc"], ("a.lcc",)),  # streamlit run app.py a.lcc
        (["--run", "s3://bucket/run.lcc", " ~/x y.lcc "], ("s3://bucket/run.lcc", "~/x y.lcc")),
    ],
)
def test_runs(arguments: list[str], runs: tuple[str, ...]) -> None:
    assert parse_arguments(arguments) == WatchArguments(runs)


@pytest.mark.parametrize(
    "arguments", [["--rum", "x"], ["--ru", "x"], ["--run"], ["-h"], [""], ["--run", "-1.lcc"]]
)
def test_a_sentence_and_no_exit(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = parse_arguments(["--run", "a.lcc", *arguments])
    assert found.runs == ()
    assert "--run PATH" in found.problem
    assert capsys.readouterr() == ("", "")


def test_no_error_shows_a_url() -> None:
    found = parse_arguments(["--runs=https://u:geheim@host/run.lcc?sig=geheim", "--rum"])
    assert "unrecognized arguments: --runs=…" in found.problem
    assert "geheim" not in found.problem


def test_checkpoints_of_other_kinds(tmp_path: Path) -> None:
    for name in ("mine/c0.pt", "dcp/step-1/__0_0.distcp", "run/00000000.base.safetensors"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    found = {name: foreign(tmp_path / name) for name in ("mine", "dcp", "run", "no")}
    assert found == {"mine": "c0.pt", "dcp": "__0_0.distcp", "run": "", "no": ""}
