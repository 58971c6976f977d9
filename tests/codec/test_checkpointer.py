"""What a training loop holds: bases and deltas, resume, steps, the same bytes twice."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from codec import checkpointer as checkpointers

Arrays = dict[str, np.ndarray]


def test_saved(tmp_path: Path, random_states: Callable[..., list[Arrays]]) -> None:
    first, second = random_states(2)
    with codec.Checkpointer(tmp_path / "a" / "run.lcc", bits=2) as checkpoints:
        base, delta = checkpoints.save(0, first), checkpoints.save(7, second)
    assert (base.step, base.kind, base.delta) == (0, "base", None)
    assert (delta.step, delta.kind) == (7, "delta")
    assert delta.delta is not None
    assert delta.delta.tensors["w"] == "lossy"
    for saved in (base, delta):
        name = f"{saved.step:08d}.{saved.kind}.safetensors"
        assert saved.nbytes == (tmp_path / "a" / "run.lcc" / name).stat().st_size
        assert saved.full_nbytes == sum(
            a.size * 4 if k in ("w", "h", "b") else a.nbytes for k, a in first.items()
        )
        assert saved.ratio == saved.full_nbytes / saved.nbytes
        assert saved.seconds > 0


@pytest.mark.parametrize("scope", ["model", "tensor"])
@pytest.mark.parametrize("bits", [None, 1, 2, 8])
def test_restores_the_track(
    tmp_path: Path, random_states: Callable[..., list[Arrays]], bits: int | None, scope: str
) -> None:
    states = random_states(5)
    tracker = codec.Tracker(states[0], bits, scope)
    tracks = [tracker.state]
    for state in states[1:]:
        tracker.step(state)
        tracks.append({k: a.copy() for k, a in tracker.state.items()})
    with codec.Checkpointer(tmp_path / "run.lcc", bits, scope) as checkpoints:
        for i, state in enumerate(states):
            checkpoints.save(i, state)
    for i, track in list(enumerate(tracks))[1:]:
        back = codec.restore(tmp_path / "run.lcc", i)
        for name, array in track.items():
            expected = array.astype(states[i][name].dtype)
            assert back[name].dtype == expected.dtype
            assert back[name].tobytes() == expected.tobytes()


def test_torch_in_torch_out(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    state = model.state_dict()
    state |= {
        "half": torch.randn(4, 4, dtype=torch.bfloat16),
        "fp8": torch.ones(9).to(torch.float8_e5m2),
    }
    state["tied"] = state["0.weight"]
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        checkpoints.save(0, state)
        checkpoints.save(1, state)  # nothing moved: every delta is zero
    for step in (0, 1):
        back = codec.restore(tmp_path / "run.lcc", step)
        assert list(back) == list(state)
        for name, tensor in state.items():
            assert back[name].dtype == tensor.dtype
            assert torch.equal(back[name].float(), tensor.float())
    model.load_state_dict({k: back[k] for k in model.state_dict()})


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"n": np.array(3)},
        {"e": np.zeros((0, 4), np.float32)},
        {"a": np.zeros(0, np.float32), "b": np.zeros((0, 0), np.int8), "c": np.array(True)},
    ],
)
def test_states_without_lossy_tensors(tmp_path: Path, state: Arrays) -> None:
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        assert checkpoints.save(0, state).kind == "base"
        assert checkpoints.save(1, state).kind == "delta"
    back = codec.restore(tmp_path / "run.lcc")
    assert {k: (a.shape, a.dtype, a.tolist()) for k, a in back.items()} == {
        k: (a.shape, a.dtype, a.tolist()) for k, a in state.items()
    }
    assert codec.verify(tmp_path / "run.lcc").ok


def test_non_finite_on_disk(tmp_path: Path) -> None:
    good = np.linspace(1, 2, 9, dtype=np.float32)
    bad = good.copy()
    bad[:3] = np.nan, np.inf, -np.inf
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        for step, w in enumerate((good, bad, good, good)):
            saved = checkpoints.save(step, {"w": w, "v": good})
            assert saved.delta is None or saved.delta.non_finite == (("w",) if step < 3 else ())
    for step, w in enumerate((good, bad, good, good)):
        assert codec.restore(tmp_path / "run.lcc", step)["w"].tobytes() == w.tobytes()


def test_a_changed_layout_makes_a_base(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    states = [
        {"w": np.zeros(8, np.float32)},
        {"w": np.ones(8, np.float32)},
        {"w": np.ones(9, np.float32)},  # shape
        {"w": np.ones(9, np.float16)},  # dtype
        {"w": np.ones(9, np.float16), "b": np.zeros(1)},  # one more
        {"b": np.zeros(1), "w": np.ones(9, np.float16)},  # order
        {"b": np.ones(1), "w": np.ones(9, np.float16)},
    ]
    with codec.Checkpointer(path) as checkpoints:
        kinds = [checkpoints.save(i, state).kind for i, state in enumerate(states)]
    assert kinds == ["base", "delta", "base", "base", "base", "base", "delta"]
    assert codec.verify(path).ok
    for i, state in enumerate(states):
        back = codec.restore(path, i)
        assert list(back) == list(state)
        assert all(back[k].tobytes() == a.tobytes() for k, a in state.items())


def test_resume_goes_on_from_the_track_on_disk(
    tmp_path: Path, random_states: Callable[..., list[Arrays]]
) -> None:
    """A resumed chain has the same bytes as one written in one go."""
    states = random_states(6)
    with codec.Checkpointer(tmp_path / "one", bits=2) as checkpoints:
        for i, state in enumerate(states):
            checkpoints.save(i, state)
    for i, state in enumerate(states):
        with codec.Checkpointer(tmp_path / "two", bits=2, resume=True) as checkpoints:
            assert checkpoints.step == (i - 1 if i else None)
            checkpoints.save(i, state)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_resume_of_a_damaged_chain(run: Path) -> None:
    path = run / "00000030.delta.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(codec.TruncatedRecordError, match=r"^00000030.delta"):
        codec.Checkpointer(run, resume=True)


def test_a_chain_is_not_continued_by_accident(run: Path) -> None:
    with pytest.raises(
        codec.StepOrderError, match=r"already holds a chain up to step 30; .* resume=True"
    ):
        codec.Checkpointer(run)


def test_path_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(codec.WriteError, match="is no directory and cannot become one"):
        codec.Checkpointer(tmp_path / "x")
    with pytest.raises(codec.WriteError, match="is no directory"):
        codec.Checkpointer(tmp_path / "x" / "run.lcc")


def test_steps(tmp_path: Path) -> None:
    state = {"w": np.zeros(8, np.float32)}
    checkpoints = codec.Checkpointer(tmp_path / "run.lcc", bits=np.int8(8))  # type: ignore[arg-type]
    for wrong in (-1, 1.0, True, "1", None, 2**63, np.float32(1)):
        with pytest.raises(codec.SettingsError, match="a step is an integer from 0 to"):
            checkpoints.save(wrong, state)  # type: ignore[arg-type]
    saved = checkpoints.save(np.int64(5), state)  # type: ignore[arg-type]
    assert type(saved.step) is int
    assert type(checkpoints.step) is int
    for early in (0, 5, np.uint8(4)):
        with pytest.raises(
            codec.StepOrderError, match=rf"step {early} is not after the chain's newest, 5"
        ):
            checkpoints.save(early, state)
    for step in (np.uint64(10**8), 123456789012, 2**63 - 1):
        checkpoints.save(step, state)
    assert codec.Chain(tmp_path / "run.lcc").steps == (5, 10**8, 123456789012, 2**63 - 1)
    assert (
        sorted(p.name for p in (tmp_path / "run.lcc").iterdir())[-1]
        == f"{2**63 - 1}.delta.safetensors"
    )
    assert codec.verify(tmp_path / "run.lcc").ok


def test_two_writers_do_not_overwrite_each_other(tmp_path: Path) -> None:
    one, two = (codec.Checkpointer(tmp_path / "run.lcc") for _ in range(2))
    one.save(0, {"n": np.array(1)})
    with pytest.raises(codec.StepOrderError, match="exists already"):
        two.save(0, {"n": np.array(2)})
    assert codec.restore(tmp_path / "run.lcc")["n"] == 1


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({"w": [1.0]}, codec.DTypeError),
        ({1: np.zeros(1)}, codec.StateMismatchError),
        ({"\udc80": np.zeros(1)}, codec.StateMismatchError),
        ({"w": torch.zeros(9).to_sparse()}, codec.DTypeError),
    ],
)
def test_a_refused_state_changes_nothing(run: Path, state: Any, error: type) -> None:
    before = sorted(run.iterdir())
    checkpoints = codec.Checkpointer(run, resume=True)
    with pytest.raises(error):
        checkpoints.save(40, state)
    assert sorted(run.iterdir()) == before
    assert checkpoints.step == 30


@pytest.mark.parametrize("setting", [{"bits": 9}, {"scope": "x"}, {"coder": "x"}])
def test_settings(tmp_path: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(codec.SettingsError, match="must be"):
        codec.Checkpointer(tmp_path / "run.lcc", **setting)
    assert not (tmp_path / "run.lcc").exists()


def test_a_record_is_decoded_before_it_is_published(
    run: Path, random_states: Callable[..., list[Arrays]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the encoder wrong, the record would never get its name."""
    checkpoints = codec.Checkpointer(run, bits=3, resume=True)
    before = sorted(run.iterdir())
    real = checkpointers.records.dump_delta

    def wrong(step: int, parent: str, track: str, delta: codec.Step) -> bytes:
        return real(step, parent, "0" * 32, delta)

    monkeypatch.setattr(checkpointers.records, "dump_delta", wrong)
    with pytest.raises(
        codec.TrackDigestError, match=r"00000040\.delta\.safetensors: expected a track"
    ):
        checkpoints.save(40, random_states(1)[0])
    assert sorted(run.iterdir()) == before


SCRIPT = """
import sys
import numpy as np
import codec

rng = np.random.default_rng(1)
with codec.Checkpointer(sys.argv[1], bits=3, scope="tensor") as checkpoints:
    for step in range(3):
        state = {name: rng.normal(size=(30, 7)).astype("f4") for name in ("b", "a", "c")}
        state["a"][0, 0] = np.nan if step == 1 else 0
        checkpoints.save(step, state | {"n": np.array(step), "h": np.ones(9, "f2") * step})
codec.Chain(sys.argv[1]).pack(sys.argv[1] + ".zip")
"""


def test_same_bytes_in_two_processes(tmp_path: Path) -> None:
    root = Path(codec.__file__).parents[1]
    found = []
    for seed in ("1", "2"):
        path = tmp_path / seed
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        subprocess.run([sys.executable, "-c", SCRIPT, str(path)], check=True, env=environment)
        files = [*sorted(path.iterdir()), tmp_path / f"{seed}.zip"]
        found.append([(p.name[-17:], hashlib.sha256(p.read_bytes()).hexdigest()) for p in files])
    assert len(found[0]) == 4
    assert [h for _, h in found[0]] == [h for _, h in found[1]]
