"""Several runs in one picture."""

from pathlib import Path
from typing import Any

from codec import Coding
from codec.storage.entry import Entry
from lcviz.inspect.watch import Watched
from lcviz.inspect.watch_picture import runs_over_steps
from lcviz.lab.chain_summary import summarize
from lcviz.lab.records import RecordFacts
from lcviz.ui.picture import Picture


def run(name: str, i: int = 0, nbytes: int = 9, full: int = 9, stamp: int = 2) -> Watched:
    """A base and a delta of so many bytes, which came then."""
    base, delta = Entry(0, "base", "", 9), Entry(1, "delta", "", nbytes)
    facts = [RecordFacts(base, 1, None, full), RecordFacts(delta, stamp, Coding())]
    return Watched(name, Path(name), i, summarize(facts))


def drawn(runs: list[Watched], measure: str) -> Picture:
    found = runs_over_steps(runs, measure)
    assert found is not None
    return found


def test_of_many_runs_those_with_the_newest_records_are_drawn() -> None:
    runs = [run(f"r{i}", i, stamp=stamp) for i, stamp in enumerate([30, *range(28, 14, -1)])]
    picture = drawn([*runs[1:], runs[0]], "bytes")
    lines: list[dict[str, Any]] = picture.values["lines"]
    assert [line["name"] for line in lines] == [f"r{i}" for i in range(12)]
    assert len({(line["colour"], line["dash"]) for line in lines}) == 12  # no two alike
    assert "the 12 runs with the newest records" in picture.data["text"]
    assert picture.data["about"] == "bytes on disk, by step"


def test_shares_that_differ_many_times_are_drawn_on_a_log_scale_that_is_named() -> None:
    for largest, log in ((1000, False), (2100, True)):  # bytes, beside a record of 100
        runs = [run(f"r{i}", i, nbytes, 9000) for i, nbytes in enumerate((100, largest))]
        picture = drawn(runs, "share")
        assert (picture.values["log"], picture.data["about"].endswith("log scale")) == (log, log)
        assert not drawn(runs, "bytes").values["log"]


def test_long_names_are_shortened_unless_only_their_beginnings_differ() -> None:
    long = "seed-0-of-a-sweep-of-learning-rates.lcc"
    for other, labels in (
        ("b.lcc", ["…a-sweep-of-learning-rates.lcc", "b.lcc"]),
        ("1" + long, [long, "1" + long]),
    ):
        lines = drawn([run(long, 0), run(other, 1)], "bytes").values["lines"]
        assert [line["label"] for line in lines] == labels
        assert [line["name"] for line in lines] == [long, other]
