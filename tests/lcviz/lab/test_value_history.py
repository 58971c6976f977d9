"""Values of a tensor over the steps, against restored states."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import codec
from lcviz.lab.records import Catalogue, list_records, read_contents
from lcviz.lab.value_history import (
    History,
    Place,
    Stretch,
    element,
    read_some,
    read_stretch,
    stretches_of,
)
from tests.compaction import add_base

STEPS = 10
AT = (1, 2)


def write(path: Path) -> Path:
    """Bases at 0, 4 and 8; w gets a row at step 3, late comes at 5, and half is in float16."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(30, 40)).astype(np.float32)
    with codec.Checkpointer(path, bits=2, base_every=3) as chain:
        for step in range(STEPS):
            if step == 3:
                w = np.vstack([w, np.ones((1, 40), np.float32)])
            w = w + (0.1 * rng.normal(size=w.shape) ** 3).astype(np.float32)
            state = {"w": w, "half": w.astype(np.float16), "n": np.array(step)}
            chain.save(step, state | ({"late": w + 1} if step >= 5 else {}))
    return path


def catalogue_of(path: Path) -> Catalogue:
    chain = codec.Chain(path)
    *_, last = read_contents(chain, list_records(chain, path), Catalogue())
    return last


def read_all(path: Path, name: str, place: Place | None) -> tuple[History, list[Stretch]]:
    history, stretches = History(name, place), stretches_of(catalogue_of(path), name)
    for stretch in stretches:
        read, ended, failed = read_some(read_stretch(codec.Chain(path), stretch, history), 1e9)
        assert ended
        history.add(stretch, read)
        if failed is not None:
            history.problems[stretch.steps[stretch.base]] = str(failed)
    return history, stretches


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("chain") / "run.lcc")


@pytest.fixture(params=["as saved", "compacted", "archive"])
def source(request: pytest.FixtureRequest, path: Path, tmp_path: Path) -> Path:
    if request.param == "archive":
        codec.Chain(path).pack(tmp_path / "run.lcc.zip")
        return tmp_path / "run.lcc.zip"
    copied = tmp_path / "run.lcc"
    shutil.copytree(path, copied)
    if request.param == "compacted":
        add_base(copied)
    return copied


@pytest.mark.parametrize("place", [None, AT, (30, 1)])
def test_each_value_is_the_restored_one(source: Path, place: Place | None) -> None:
    history, stretches = read_all(source, "w", place)
    compacted = (source / "00000009.base.safetensors").exists()
    bases = [0, 4, 8, *[9] * compacted]
    assert [s.base for s in stretches] == bases
    at = place or AT
    steps = [(step, step in (0, 4, 8)) for step in range(STEPS)] + [(9, True)] * compacted
    expected = [(step, element(codec.restore(source, step)["w"], at), base) for step, base in steps]
    found = [(p.step, p.value, p.is_base) for p in history.points(stretches, at)]
    assert found == expected
    missing = [step for step, value, _ in found if value is None]
    assert missing == ([0, 1, 2] if place == (30, 1) else [])
    assert not any(map(history.missing, stretches))
    kept = {type(values) for values in history.values.values()} - {type(None)}
    assert kept == ({np.ndarray} if place is None else {float})


def test_a_tensor_that_comes_later_and_one_in_another_dtype(path: Path) -> None:
    history, stretches = read_all(path, "late", AT)
    values = [p.value for p in history.points(stretches, AT)]
    assert values[:5] == [None] * 5
    assert values[5:] == [float(codec.restore(path, s)["late"][AT]) for s in range(5, STEPS)]
    assert not any(s.with_tensor for s in stretches_of(catalogue_of(path), "half"))


def test_only_what_is_missing_is_read(path: Path) -> None:
    history, stretches = History("w", None), stretches_of(catalogue_of(path), "w")
    reading = read_stretch(codec.Chain(path), stretches[1], history)
    read, ended, failed = read_some(reading, 0.0)
    assert ([step for step, _ in read], ended, failed) == ([4], False, None)
    history.add(stretches[1], read)
    assert history.missing(stretches[1]) == [5, 6, 7]
    history.add(stretches[1], read_some(reading, 1e9)[0])
    assert history.missing(stretches[1]) == []
    chain = codec.Chain(path)
    assert list(read_stretch(chain, stretches[1], history)) == []
    history.forget_others(stretches[2:])
    assert history.values == {}
