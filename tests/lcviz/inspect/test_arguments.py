"""What stands behind the -- of the dashboard's command."""

from __future__ import annotations

import pytest

from lcviz.inspect.arguments import Asked, asked


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        ([], ()),
        (["--run", "a.lcc"], ("a.lcc",)),
        (["--run=a.lcc", "--run", "runs", "--run", "a.lcc"], ("a.lcc", "runs")),
        (["--run", "a.lcc", "b.lcc", "--run", "c"], ("a.lcc", "b.lcc", "c")),  # by a shell's star
        (["a.lcc"], ("a.lcc",)),  # streamlit run app.py a.lcc
        (["--run", "s3://bucket/run.lcc", " ~/x y.lcc "], ("s3://bucket/run.lcc", "~/x y.lcc")),
        (["--run", "-1.lcc"], None),
    ],
)
def test_runs(arguments: list[str], runs: tuple[str, ...] | None) -> None:
    found = asked(arguments)
    if runs is None:
        assert found.runs == ()
        assert "expected at least one argument" in found.problem
    else:
        assert found == Asked(runs)


@pytest.mark.parametrize("arguments", [["--rum", "x"], ["--ru", "x"], ["--run"], ["-h"], [""]])
def test_a_sentence_and_no_exit(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(["--run", "a.lcc", *arguments])
    assert found.runs == ()
    assert found.problem.startswith("These arguments are not understood: ")
    assert found.problem.endswith("stands --run PATH, as often as you like.")
    assert capsys.readouterr() == ("", "")


def test_of_a_url_no_error_tells() -> None:
    found = asked(["--runs=https://u:geheim@host/run.lcc?sig=geheim", "--rum"])
    assert "unrecognized arguments: --runs=…. After" in found.problem
    assert "geheim" not in found.problem
