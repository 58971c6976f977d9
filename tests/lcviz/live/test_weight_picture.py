"""The picture of one weight, and what is said of it."""

from dataclasses import replace

import pytest

from codec.inspect import Bucket
from lcviz.lab.follow_weight import Followed, Weight, WeightCode
from lcviz.live.followed import Stair, WeightHistory
from lcviz.live.weight_picture import weight_picture
from tests.worded import worded

BUCKET = Bucket(-4, 1, -0.12, -0.07, 9, 2)
KEPT = Followed(
    8, Weight("c1.weight", 7), (2, 5), 0.5, 0.4, -0.1, BUCKET, -0.095, WeightCode("101"), 0.405
)
DROPPED = replace(KEPT, step=9, track=0.405, live=0.3, delta=-0.105, level=0.0, restored=0.405)
EXACT = Followed(8, KEPT.weight, (2, 5), 0.0, 0.5, 0.5, None, 0.5, None, 0.5, exact=True)
STAIRS = {8: Stair(0.4, 0.5), 9: Stair(0.3, 0.405)}


def test_u_goes_its_way_and_the_track_follows_in_steps() -> None:
    data = worded(weight_picture(WeightHistory(DROPPED, STAIRS), 1, 20).data)
    trained, restored = data["lines"]
    assert (trained["x"], trained["y"]) == ([8, 9], [0.4, 0.3])
    # Just before step 8 the track was 0.5: that is what step 7 left.
    assert (restored["x"], restored["y"]) == ([7, 8, 9], [0.5, 0.405, 0.405])
    assert restored["stairs"]
    assert "stairs" not in trained
    assert data["about"] == "c1.weight (1, 2)"
    assert (data["range"], [m["step"] for m in data["marks"]]) == ([0, 20], [9])


def test_what_a_step_does_in_words() -> None:
    def text(f: Followed, *, carries: bool = True) -> str:
        picture = weight_picture(WeightHistory(f, STAIRS), 1, 20, carries=carries)
        return str(worded(picture.data)["text"]).replace("[[level]]", "level")

    assert text(KEPT) == ("δ = u − ũ = 0.4 − 0.5 = −0.1, bucket −2⁻⁴, level −0.095. Code: 101.")
    assert "level 0: it stays in the next δ" in text(DROPPED)
    assert text(EXACT) == "Stored exactly in step 8: 0.5."
    lost = text(DROPPED, carries=False)
    assert lost.startswith("Changed by −0.105 since the last checkpoint, bucket −2⁻⁴, ")
    assert "level 0: it is lost" in lost
    still = replace(DROPPED, delta=0.0, bucket=None)
    assert "bucket none: δ is 0" in text(still)
    assert WeightHistory(still).bucket is None
    assert WeightHistory(KEPT).bucket == (-4, 1)


def test_small_weights_keep_their_digits() -> None:
    tiny = {9: Stair(1.25e-7, 1.5e-8)}
    trained, restored = worded(weight_picture(WeightHistory(KEPT, tiny), 1, 20).data)["lines"]
    assert (trained["y"], restored["y"]) == ([1.25e-7], [0.405])


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (WeightCode("101"), "101"),
        (WeightCode("101", 2, 17, 0), "101 + 2 bits: 17 zeros, then it"),
        (WeightCode("101", 0, 0, 0), "101: no zeros before it"),
        (WeightCode("101", 1, 1, 0), "101 + 1 bit: 1 zero, then it"),
        (WeightCode("101", 2, 17, 5), "101 + 2 bits: zero 5 of a run of 17"),
        (WeightCode("11", 11, 300, 4, True), "11 + 11 bits, an escape: zero 4 of a run of 300"),
        (WeightCode(""), "none: all values have the same level"),
        (None, "none: zeros at a stream's end need no bits"),
    ],
)
def test_its_bits(said: WeightCode | None, text: str) -> None:
    picture = weight_picture(WeightHistory(replace(KEPT, code=said), STAIRS), 1, 20)
    assert worded(picture.data)["text"].endswith(f" Code: {text}.")
