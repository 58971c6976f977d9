"""The tensors of one step, drawn and as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lcviz.lab.step_tensors import StepFacts, TensorFacts
from lcviz.report.tensors_figure import MAX_TENSORS, tensor_bars, tensors_table
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
W = TensorFacts("w", (2, 50), "F32", 100, "codes", 25, 0.75, 0.5, -1.0, 2.0, 0.123456789, 0.3, 0)


def step(*tensors: TensorFacts) -> StepFacts:
    return StepFacts(7, "7", "delta", tensors, (), {})


def test_bars_and_table_of_tensors(check_figure: Check) -> None:
    small = replace(W, name="a/very/long/name/that/would/not/fit", n=50, changed=30)
    whole = replace(W, name="n", stored="whole", changed=None, shape=())
    panel = tensor_bars(step(small, W, whole))
    figure = check_figure(panel)
    assert {bar["name"]: bar["x"] for bar in figure["data"]} == {
        "values changed, %": [25.0, 60.0],
        "bits per parameter": [0.75, 0.75],
    }
    names = figure["layout"]["yaxis"]["ticktext"]
    assert (names[0], names[1][0], len(names[1])) == ("w", "…", 20)
    assert panel.title == "Step 7 changes 36.67 % of 150 lossy values"
    assert panel.sentence.startswith("55 of them; most of all in a/very/")
    assert f"{small.name}, 60.00 %" in panel.sentence
    table = panel.table
    assert table["tensor"].tolist() == [small.name, "w", "n"]
    assert table["shape"].tolist() == ["2 × 50", "2 × 50", "scalar"]
    assert table["mean"][0] == 0.12346
    assert table["changed"].isna().tolist() == [False, False, True]
    assert tensors_table(step()).empty


def test_many_tensors(check_figure: Check) -> None:
    panel = tensor_bars(step(*(replace(W, name=f"w{i}", n=i + 1) for i in range(MAX_TENSORS + 5))))
    assert len(check_figure(panel)["data"][0]["x"]) == MAX_TENSORS
    assert f"the {MAX_TENSORS} largest of 35 tensors" in panel.sentence
    assert len(panel.table) == 35
