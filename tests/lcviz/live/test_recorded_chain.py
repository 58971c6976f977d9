"""A chain as Live's pictures: which steps, which names, which sizes."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.errors import StepNotFoundError
from lcviz.live.recorded_chain import recorded_chain
from tests.docs.pages import ROOT
from tests.worded import all_worded

GOLDEN = ROOT / "tests/golden"


def unpacked(text: str) -> dict[str, Any]:
    """The JSON of the pictures."""
    whole: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text), wbits=-15))
    return whole


def chain_of(path: Path, tensors: dict[str, Any], steps: range = range(0, 80, 10)) -> Path:
    """Save random changes of nested tensors, by shape."""
    rng = np.random.default_rng(0)

    def filled(tree: dict[str, Any]) -> dict[str, Any]:
        return {
            k: filled(v) if isinstance(v, dict) else rng.normal(size=v).astype(np.float32)
            for k, v in tree.items()
        }

    with codec.Checkpointer(path, bits=2) as checkpoints:
        for step in steps:
            checkpoints.save(step, filled(tensors))
    return path


@pytest.mark.parametrize(
    "tensors",
    [
        {"model": {"encoder": {"w": (30, 40)}}},
        {"a": {"b": (30, 40)}, "a.b": (30, 40)},
        {"optimizer": {"state": {"w": {"momentum_buffer": (30, 40)}}}, "model": {"w": (30, 40)}},
    ],
    ids=["nested", "alike", "momentum"],
)
def test_names(tmp_path: Path, tensors: dict[str, Any]) -> None:
    """Weights have short names, each its own; an optimizer's tensors are no weights."""
    recorded = recorded_chain(chain_of(tmp_path / "run.lcc", tensors))
    assert recorded.title == "run.lcc, 7 steps"
    whole = unpacked(recorded.pictures)
    assert [one["step"] for one in whole["steps"]] == list(range(10, 80, 10))
    assert [step for step, _ in whole["lines"]["weight"]] == list(range(0, 80, 10))
    assert all("momentum" not in s["pictures"]["weights"]["tensor"] for s in whole["steps"])


def test_sizes_are_those_on_disk(tmp_path: Path) -> None:
    path = chain_of(tmp_path / "run.lcc", {"w": (60, 70)}, range(40))
    entries = codec.Chain(path).entries
    sizes = unpacked(recorded_chain(path).pictures)["lines"]["loss"]
    on_disk = sum(e.nbytes for e in entries if e.kind != "base")
    assert sum(nbytes for _, nbytes in sizes) == on_disk


@pytest.mark.parametrize("name", ["run", "tokens", "edits", "steps", "layouts", "moments"])
def test_golden_chains(name: str) -> None:
    """Of many kinds: new tensors, equal steps, a base in place of a delta, moments."""
    whole = unpacked(recorded_chain(GOLDEN / f"{name}.lcc").pictures)
    lines = whole["lines"]
    for one in whole["steps"]:
        facts = one["pictures"]
        facts["loss"] |= {"sizes": lines["loss"]}
        facts["weight"] |= {"restored": lines["weight"]}
        drawn = dict(zip(facts, all_worded([*facts.values()])))
        assert drawn["headline"]["status"] == f"step {one['step']}, recorded"
        assert drawn["loss"]["title"] == "Sizes"
        assert drawn["weight"]["text"].startswith(("ũ moves by", "ũ stays", "Stored exactly"))
        for name in ("weights", "buckets", "bits"):
            assert drawn[name]["text"].endswith(".")
        assert not drawn["buckets"]["options"]
        assert not drawn["bits"]["coders"]


def test_a_chain_without_weights() -> None:
    with pytest.raises(StepNotFoundError, match="no record holds a delta of weights"):
        recorded_chain(GOLDEN / "exact.lcc")
