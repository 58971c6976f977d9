"""What Learn's pictures draw: the paper's example, runs of zeros, and five checkpoints."""

import json

import numpy as np
import pytest

import codec
from lcviz.learn.neighbours import neighbours_values
from lcviz.learn.numbers import TRACK, TRAINED, read_numbers, write_numbers
from lcviz.learn.pictures import BITS, PICTURES, Start, learn_picture
from lcviz.learn.questions import QUESTIONS
from lcviz.learn.runs import ZEROS, runs_values
from lcviz.learn.values import checkpoints_of

TEN = read_numbers(TRACK), read_numbers(TRAINED)


def test_a_picture_is_plain_json_for_every_x() -> None:
    found = learn_picture(*TEN, TEN[1], Start(x=1))
    assert json.loads(json.dumps(found.data, allow_nan=False)) == found.data
    assert [one["picture"] for one in found.data["pictures"]] == list(PICTURES) == list(QUESTIONS)
    assert all(one["link"].startswith("glossary?term=") for one in found.data["pictures"])
    bits = {one["x"]: one["lesson"]["bits"] for one in found.data["lessons"]}
    assert list(bits) == list(BITS)
    assert bits[2] == {"float32": 320, "e": 30, "p": 20, "h": 18}
    assert (bits[1], bits[None]["h"]) == ({"float32": 320, "e": 30, "p": 10, "h": 10}, 23)
    merges = [len(one["lesson"]["merges"]) for one in found.data["lessons"]]
    assert max(merges) <= Start().merges  # the tiles are joined at first
    assert found.table["written"].tolist() == pytest.approx([0.79, *[0] * 7, 0.79, 0])


def test_runs_are_what_the_codec_writes() -> None:
    found = runs_values()
    assert [w["run"] for w in found["words"]] == list(ZEROS)
    assert sum(w["bits"] for w in found["words"]) == found["bits"] == 28
    assert sum(found["lengths"][v] for v in found["values"]) == found["plain"] == 206
    assert all(found["values"][word["at"]] == word["value"] for word in found["words"])
    assert found["bits"] / found["n"] < 1 <= found["plain"] / found["n"]


def test_the_track_follows_as_a_tracker_does() -> None:
    before, live = (np.array(values, np.float32) for values in TEN)
    tracker = codec.Tracker({"w": before}, 2)
    now = before
    found = checkpoints_of(*TEN, 2)
    assert found[0] == {"live": before.tolist(), "track": before.tolist(), "written": [0.0] * 10}
    for checkpoint in found[1:]:
        now = now + (live - before)
        tracker.step({"w": now})
        assert checkpoint["live"] == now.tolist()
        assert checkpoint["track"] == tracker.state["w"].tolist()
    written = [c["written"][2] for c in found]  # c waits, until what has piled up is large
    assert written[1] == 0.0
    assert written[2] > 0.3


def test_neighbours_are_what_the_codec_writes() -> None:
    """A real δ: its context code is a fifth smaller than runs; shuffled, runs are kept."""
    found = neighbours_values()
    as_trained, shuffled = found["orders"]
    assert sorted(as_trained["values"]) == sorted(shuffled["values"])
    assert len(as_trained["values"]) == found["rows"] * found["columns"] == 640
    assert as_trained["context"] < 0.8 * as_trained["runs"]
    assert sum(as_trained["shares"]) == pytest.approx(as_trained["context"], abs=16)
    assert shuffled["context"] == shuffled["runs"]
    assert shuffled["shares"] is None
    values = np.array(as_trained["values"]).reshape(10, 64)
    edge = [8 * row + column for row in range(8) for column in (0, 7)]  # pixels that stay black
    assert values[:, edge].mean() < 0.2 * values.mean()


def test_answers() -> None:
    right = {name: q.options[q.right] for name, q in QUESTIONS.items()}
    assert (right["delta"], right["slots"], right["restart"]) == ("0.2", "7", "0.4")
    assert min(length for length in runs_values()["lengths"] if length) == 1
    assert right["runs"] == "32"
    step = checkpoints_of([1.0, 0.0], [1.2, 5.0], 1)
    assert step[1]["track"][0] == 1.0  # 0.2 is left out, and next time it is 0.4
    assert step[2]["live"][0] - step[1]["track"][0] == pytest.approx(0.4)


def test_reading_and_writing_numbers() -> None:
    assert read_numbers(" 1, −2;\t3e-1 ") == [1.0, -2.0, pytest.approx(0.3)]
    assert write_numbers(read_numbers(TRAINED)) == TRAINED
    assert read_numbers(write_numbers([1e-7, np.pi])) == [np.float32(1e-7), np.float32(np.pi)]
