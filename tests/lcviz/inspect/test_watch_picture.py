"""Several runs in one picture."""

from __future__ import annotations

from pathlib import Path

from codec import Coding
from codec.storage.entry import Entry
from lcviz.inspect.watch import Watched
from lcviz.inspect.watch_picture import runs_over_steps
from lcviz.lab.chain_summary import summarize
from lcviz.lab.records import RecordFacts


def test_of_many_runs_those_with_the_newest_records_are_drawn(tmp_path: Path) -> None:
    base, delta = (Entry(i, kind, "", 9) for i, kind in enumerate(("base", "delta")))
    runs = [
        Watched(
            f"r{i}",
            tmp_path,
            i,
            summarize([RecordFacts(base, 1, None, 9), RecordFacts(delta, stamp)]),
        )
        for i, stamp in enumerate([30, *range(28, 14, -1)])
    ]
    drawn = runs_over_steps([*runs[1:], runs[0]], "bytes")
    assert drawn is not None
    lines = drawn.values["lines"]
    assert [line["name"] for line in lines] == [f"r{i}" for i in range(12)]
    assert len({(line["colour"], line["dash"]) for line in lines}) == 12  # no two alike
    assert "the 12 runs with the newest records" in drawn.data["text"]
    assert drawn.data["about"] == "bytes on disk, by step"


def test_shares_that_differ_many_times_are_drawn_on_a_log_scale_that_is_named(
    tmp_path: Path,
) -> None:
    for largest, log in ((1000, False), (2100, True)):  # bytes, beside a record of 100
        runs = []
        for i, nbytes in enumerate((100, largest)):
            base, delta = Entry(0, "base", "", 9), Entry(1, "delta", "", nbytes)
            facts = [RecordFacts(base, 1, None, 9000), RecordFacts(delta, 2, Coding())]
            runs.append(Watched(f"r{i}", tmp_path, i, summarize(facts)))
        drawn = runs_over_steps(runs, "share")
        assert drawn is not None
        assert drawn.values["log"] is log
        assert drawn.data["about"].endswith("log scale") is log
        linear = runs_over_steps(runs, "bytes")
        assert linear is not None
        assert not linear.values["log"]


def test_long_names_are_shortened_unless_only_their_beginnings_differ(tmp_path: Path) -> None:
    base, delta = Entry(0, "base", "", 9), Entry(1, "delta", "", 9)
    summary = summarize([RecordFacts(base, 1, None, 9), RecordFacts(delta, 2)])
    long = "seed-0-of-a-sweep-of-learning-rates.lcc"
    for other, labels in (
        ("b.lcc", ["…a-sweep-of-learning-rates.lcc", "b.lcc"]),
        ("1" + long, [long, "1" + long]),
    ):
        runs = [Watched(name, tmp_path, i, summary) for i, name in enumerate((long, other))]
        drawn = runs_over_steps(runs, "bytes")
        assert drawn is not None
        assert [line["label"] for line in drawn.values["lines"]] == labels
        assert [line["name"] for line in drawn.values["lines"]] == [long, other]
