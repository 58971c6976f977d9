"""Pictures of a chain that somebody opened."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from codec.storage.source import Entry
from lcviz.inspect.exponents import Moved
from lcviz.inspect.figures import (
    LOST,
    MAX_COLUMNS,
    MAX_POINTS,
    MAX_TENSORS,
    exponents_over_steps,
    records_table,
    sizes_over_steps,
    tensor_bars,
    tensors_table,
)
from lcviz.lab.records import Facts
from lcviz.lab.step_tensors import StepFacts, TensorFacts
from lcviz.text import plain
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


def record(step: int, kind: str = "delta", nbytes: int = 100, **more: Any) -> Facts:
    entry = Entry(step, kind, f"{step:08d}.{kind}.safetensors", nbytes, more.pop("first", step))
    given = {"digest": f"{step:032x}"[::-1], "full_nbytes": 4000, "reached": True, "levels": 3}
    return Facts(entry, more.pop("steps", (step,)), **given | more)


EVERY = (
    record(0, "base", 4100, levels=None),
    record(5, tables=1),
    record(10, nbytes=80, tables=1, again=1),
    record(20, "merged", 300, first=15, steps=(15, 20), tables=4, again=1),
    record(25, digest=None, levels=None, reached=False, problem="x: expected a, found b"),
    record(30, reached=False),
)


def test_every_record_is_a_mark(check_option: Check) -> None:
    panel = sizes_over_steps(EVERY)
    option = check_option(panel)
    found = {s["name"]: s["data"] for s in option["series"]}
    assert found == {
        "base": [[0, 4100]],
        "merged": [[20, 300]],
        "delta, new table": [[5, 100]],
        "delta, no new table": [[10, 80]],
        LOST: [[25, 100], [30, 100]],
    }
    assert len({s["symbol"] for s in option["series"]}) == 5  # not by colour alone
    assert (option["yAxis"]["min"], option["yAxis"]["max"]) == (10, 10_000)
    assert panel.sentence.startswith("6 records, 4.78 kB in all. Deltas take 80 B to 100 B, ")


def test_many_records_are_thinned_and_said_to_be(check_option: Check) -> None:
    many = (EVERY[0], *(record(i, tables=1) for i in range(1, 3 * MAX_POINTS)))
    panel = sizes_over_steps(many)
    data = {s["name"]: s["data"] for s in check_option(panel)["series"]}["delta, new table"]
    assert len(data) <= MAX_POINTS
    assert data[-1][0] == 3 * MAX_POINTS - 1
    assert f"{MAX_POINTS} are drawn" in panel.sentence
    check_option(sizes_over_steps(EVERY[:1]))


def test_records_as_a_table() -> None:
    table = records_table(EVERY)
    assert table["step"].tolist() == ["0", "5", "10", "15–20", "25", "30"]
    assert table["code table"].tolist() == [
        "none" if i == 5 else t
        for i, t in enumerate(["", "new", "used again", "3 new, 1 used again", "", ""])
    ]
    assert table["% of float32"].tolist() == [102.5, 2.5, 2.0, 3.75, 2.5, 2.5]
    assert table["state"].tolist() == 4 * ["ok"] + ["damaged", "after a damaged or missing one"]
    assert table["digest"][1] == "50000000"
    assert table["levels"].isna().tolist() == [True, False, False, False, True, False]


def tensor(name: str = "w", **changes: Any) -> TensorFacts:
    facts = TensorFacts(
        name, (2, 50), "F32", 100, "codes", 25, 0.75, 0.5, -1.0, 2.0, 0.123456789, 0.3, 0
    )
    return replace(facts, **changes)


def step(*tensors: TensorFacts, column: int | None = None) -> StepFacts:
    together = 1 if column is None else 3
    return StepFacts(7, "7", "delta", together, tensors, (), column, {})


def test_bars_of_tensors(check_option: Check) -> None:
    small = tensor("a/very/long/name/that/would/not/fit", n=50, changed=30)
    whole = tensor("n", stored="whole", changed=None)
    panel = tensor_bars(step(small, tensor(), whole))
    option = check_option(panel)
    assert [s["data"] for s in option["series"]] == [[25.0, 60.0], [0.75, 0.75]]
    names = option["yAxis"][0]["data"]
    assert names[0] == "w"
    assert names[1].startswith("…")
    assert len(names[1]) == 26
    assert panel.sentence.startswith("55 of 150 lossy values change in this step, 36.67 %")
    assert "a/very/long/name/that/would/not/fit, 60.00 %" in panel.sentence
    assert panel.table["tensor"].tolist() == [small.name, "w", "n"]


def test_the_words_of_a_merged_record_are_shared_by_its_steps(check_option: Check) -> None:
    panel = tensor_bars(step(tensor(bits=0.25), column=1))
    found = {s["name"]: s["data"] for s in check_option(panel)["series"]}
    assert found == {"values changed, %": [25.0], "bits a parameter and step": [0.25]}
    assert "stand for 3 steps at once: of their bits, each step is given an equal" in panel.sentence


def test_many_tensors(check_option: Check) -> None:
    many = [tensor(f"w{i}", n=i + 1, changed=0) for i in range(MAX_TENSORS + 5)]
    panel = tensor_bars(step(*many))
    assert len(check_option(panel)["series"][0]["data"]) == MAX_TENSORS
    assert f"the {MAX_TENSORS} largest of 35 tensors" in panel.sentence
    assert len(panel.table) == 35


def test_tensors_as_a_table() -> None:
    table = tensors_table(step(tensor(), tensor("n", shape=(), changed=None, low=None)))
    assert table["shape"].tolist() == ["2 × 50", "scalar"]
    assert table["mean"][0] == 0.12346
    assert table["changed"].isna().tolist() == [False, True]


def test_exponents_by_step(check_option: Check) -> None:
    every = [Moved(0, {}, 50, 50), Moved(3, {-7: 10, -5: 1}, 39, 50), Moved(9, {-5: 40}, 10, 50)]
    panel = exponents_over_steps(every)
    option = check_option(panel)
    (heat,) = option["series"]
    assert heat["data"] == [[1, 0, 1.0, 10], [1, 2, 0.0, 1], [2, 2, 1.602, 40]]
    assert option["xAxis"][0]["data"] == [0, 3, 9]
    assert option["yAxis"][0]["data"] == ["−7", "−6", "−5"]
    assert (option["visualMap"]["max"], option["visualMap"]["text"]) == (2, ["100", "1 value"])
    assert len(option["grid"]) == 1
    assert panel.sentence == (
        "Levels reach from 2⁻⁷ to 2⁻⁵. At step 0, 0.00 % of 50 values got a level; at step 9, "
        "80.00 %. Grey: no values."
    )
    assert panel.table.to_dict("list") == {
        "step": [3, 3, 9],
        "exponent": ["−7", "−5", "−5"],
        "values": [10, 1, 40],
    }


def test_foreign_text_is_no_markdown() -> None:
    assert plain("![a](http://b) :red[x] `c` w_1.weight") == (
        "\\!\\[a\\](http\\:\u2060//b) \\:red\\[x\\] \\`c\\` w\\_1.weight"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("www.evil.com", "www\u2060.evil.com"),  # Streamlit would find these after all escapes
        ("me@evil.com", "me@\u2060evil.com"),
        (":material/home:", "\\:\u2060material/home\\:"),
        ("a\n\n# b", "a \\# b"),
        ("1. one", "1\\. one"),
        ("- one", "\\- one"),
        ("&lt;", "\\&lt;"),
        ("\u202egnp.exe\0\ud800", "\ufffdgnp.exe\ufffd\ufffd"),  # would be turned, or not encode
        ("fc1.weight", "fc1.weight"),
        ("0.weight", "0.weight"),
    ],
)
def test_foreign_text_links_nowhere_and_stays_in_its_line(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_the_marked_exponent_has_a_rim(check_option: Check) -> None:
    every = [Moved(3, {-7: 10, -4: 1}, 39, 50)]
    plot, rim = check_option(exponents_over_steps(every, (-6, 1)))["grid"]
    row = plot["height"] / 4
    assert math.isclose(rim["height"], row)
    assert math.isclose(rim["top"], plot["top"] + 2 * row)  # the largest is on top
    assert len(check_option(exponents_over_steps(every, (-9, 0)))["grid"]) == 1


def test_many_steps_are_thinned_and_said_to_be(check_option: Check) -> None:
    every = [Moved(step, {-5: step}, 0, 5000) for step in range(1, 3 * MAX_COLUMNS)]
    panel = exponents_over_steps(every)
    steps = check_option(panel)["xAxis"][0]["data"]
    assert len(steps) <= MAX_COLUMNS
    assert steps[-1] == 3 * MAX_COLUMNS - 1
    assert f"Of 899 steps {len(steps)} are drawn" in panel.sentence
    assert len(panel.table) == 899
