"""Learn's own JavaScript computes what Python and the codec do."""

import random

import numpy as np
import pytest

from lcviz.lab.lesson import lesson
from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from lcviz.learn.values import FINEST, checkpoints_of, steps_of, values_of
from lcviz.ui.picture import FOLDER, SCHEME_OF
from tests.node import in_node

ASKED = """args => args.map(([track, live, x, restored, carries]) =>
    [lessonOf(track, live, x), checkpointsOf(track, live, x, 5, restored, carries),
     [0, 5, %d].map(fine => stepsOf(track, live, fine))])"""


def test_the_module_computes_what_the_codec_does() -> None:
    rng = random.Random(0)
    track, live = map(read_numbers, (TRACK, TRAINED))
    asked: list[tuple[list[float], list[float], int | None, int | None, bool]] = []
    for _ in range(60):
        changes = (rng.choice((0, 0, 1)) * rng.gauss(0, 0.5) for _ in live)
        moved = [float(np.float32(v + change)) for v, change in zip(live, changes)]
        asked.append((track, moved, rng.choice((1, 2, 3, None)), 2, rng.random() < 0.5))
    asked.append((track, track, 2, None, True))
    asked.append(([0.0, 0.0, 0.0], [1e-40, -1e-40, 3.0], 1, None, False))
    asked.append(([0.5, 0.5], [0.75, 0.25], 1, None, False))  # alike but for the sign
    files = [*SCHEME_OF["learn"], FOLDER / "learn" / "scheme.js"]
    found = in_node(files, ASKED % FINEST, [list(one) for one in asked])
    for (before, now, x, restored, carries), (stages, checkpoints, steps) in zip(
        asked, found, strict=True
    ):
        assert stages == values_of(lesson(before, now, x))
        assert checkpoints == checkpoints_of(before, now, x, restored=restored, carries=carries)
        if len(now) < 8:  # the codec stores so few numbers whole
            continue
        for fine, step in zip((0, 5, FINEST), steps, strict=True):
            expected = steps_of(before, now, fine)
            assert (step["codes"], step["bits"]) == (expected["codes"], expected["bits"])
            assert step["tolerance"] == pytest.approx(expected["tolerance"])
            if any(step["codes"]):  # else no size is stored
                assert expected["size"] == pytest.approx(step["size"], rel=1e-6)
