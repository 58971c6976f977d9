"""Distributed checkpoints as far as one process shows them; tests/distributed has the ranks."""

from __future__ import annotations

import errno
import itertools
import json
import os
import pickle
import re
import shutil
import threading
import time
import types
import warnings
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner

import codec
from codec import errors, version
from codec.cli.main import main
from codec.dcp import ChainReader, ChainWriter, files, needed, newest_step
from codec.dcp.chunks import fit_records, tree_name
from codec.dcp.files import is_name, step_at
from codec.dcp.rank_writer import RankWriter
from codec.dcp.reader import resume_from
from codec.record import record as records
from codec.record.settings import Overrides
from codec.scheme.coding import Coding
from codec.scheme.track import ArrayTrack
from codec.state.family import MODEL, Family
from codec.state.policy import MEASURE_OF, Policy, moments_among
from codec.state.tensors import Layout, copy_arrays, spec_of, to_arrays
from codec.storage import directory as storage
from codec.storage import folder as folders
from tests.bits import same
from tests.codec.dcp.steps import kinds, loaded, size
from tests.codec.forging import resign

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is (disabled|unavailable)")
WEIGHT, HALF, FIRST, SECOND = "layer.weight", "layer.half", "exp_avg", "exp_avg_sq"


def state_of(seed: int) -> dict[str, Any]:
    """As a training loop nests it; seed 0 is what a restart begins with, the others are near."""
    rng = torch.Generator().manual_seed(seed)
    start = torch.Generator().manual_seed(100)

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=start) + seed * 0.01 * torch.randn(shape, generator=rng)

    model = {
        WEIGHT: values(40, 30),
        HALF: values(50).bfloat16(),
        "norm.running_var": values(30),
        "norm.num_batches_tracked": torch.tensor(seed),
        "tiny": values(3),
        "none": torch.empty(0, 4),
    }
    moments = {FIRST: values(40, 30), SECOND: values(40, 30) ** 2}
    optimizer = {"state": {WEIGHT: moments}, "param_groups": [{"lr": 0.1}]}
    return {"model": model, "optim": optimizer, "epoch": seed, "text": "x" * seed}


def save_step(writer: ChainWriter, step: Path, seed: int, **given: Any) -> None:
    dcp.save(state_of(seed), storage_writer=writer, checkpoint_id=step, **given)


def test_the_newest_complete_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert newest_step(run) is None
    writer = ChainWriter()
    for seed, name in enumerate(("step-9", "step-10", "step-11")):
        save_step(writer, run / name, seed)
    (run / "latest").symlink_to(run / "step-9")
    (run / "step-12").mkdir()  # a save that was killed leaves records only
    for path in (run / "step-11").glob("*.safetensors"):
        (run / "step-12" / path.name).write_bytes(path.read_bytes())
    assert newest_step(run) == f"{run}/step-11"
    (run / "step-11" / ".metadata").unlink()
    seen = newest_step(str(run))
    assert seen == f"{run}/step-10"
    assert torch.equal(load(seen)["model"]["tiny"], state_of(1)["model"]["tiny"])


def load(step: Path | str) -> Any:
    return loaded(step, state_of(0))


def tensors_of(state: Any, name: str = "") -> dict[str, torch.Tensor]:
    """Last word of the path -> tensor."""
    if isinstance(state, torch.Tensor):
        return {name: state}
    items = state.items() if isinstance(state, dict) else ()
    return {k: v for key, value in items for k, v in tensors_of(value, key).items()}


class Reference:
    """Tracks of the lossy tensors, kept beside the writer's: each by itself, moments in pairs."""

    def __init__(self, coding: Coding | None = None) -> None:
        self.trackers: dict[str, codec.Tracker] = {}
        self.coding = coding or Coding(2, "tensor")

    def step(self, state: dict[str, Any]) -> None:
        values = tensors_of(state)
        for names in ((WEIGHT,), (HALF,), (FIRST, SECOND)):
            if names[0] not in values:
                continue
            mine = {name: values[name].clone() for name in names}
            tracker = self.trackers.get(names[0]) or tracker_of(mine, self.coding)
            tracker.commit(tracker.prepare_arrays(to_arrays(mine, tracker.track.layout)))
            self.trackers |= dict.fromkeys(names, tracker)

    def save(self, writer: ChainWriter, step: Path, seed: int, **given: Any) -> None:
        """Save a state, and check what is loaded."""
        self.step(state_of(seed))
        save_step(writer, step, seed, **given)
        self.check(load(step), state_of(seed))

    def check_all(self, run: Path) -> None:
        """Steps 1, 2 and 3, which were saved in any way."""
        for seed in (1, 2, 3):
            self.step(state_of(seed))
            self.check(load(run / f"{seed}"), state_of(seed))

    def check(self, seen: dict[str, Any], saved: dict[str, Any]) -> None:
        tensors = tensors_of(seen)
        for name, value in tensors_of(saved).items():
            if name in self.trackers:
                value = torch.from_numpy(self.trackers[name].state[name]).to(value.dtype)
            assert tensors[name].dtype == value.dtype
            assert torch.equal(tensors[name].nan_to_num(9), value.nan_to_num(9)), name
        assert (seen["epoch"], seen["text"]) == (saved["epoch"], saved["text"])
        assert seen["optim"]["param_groups"] == saved["optim"]["param_groups"]


def tracker_of(values: dict[str, torch.Tensor], coding: Coding) -> codec.Tracker:
    """One that begins with these values."""
    families = {name: Family(name, target) for name, target in MEASURE_OF.items()}
    specs = (spec_of(name, t, True, families.get(name, MODEL)) for name, t in values.items())
    layout = Layout(tuple(specs))
    arrays = copy_arrays(to_arrays(values, layout))
    return codec.Tracker.resume(ArrayTrack.of(layout, arrays), coding)


def fault(error: pytest.ExceptionInfo[CheckpointException]) -> BaseException:
    """What went wrong on rank 0."""
    seen: BaseException = error.value.failures[0][0]
    return seen


def test_restores_the_track(tmp_path: Path) -> None:
    writer, reference = ChainWriter(bits=2, base_every=3), Reference()
    for seed in range(1, 7):
        state = state_of(seed)
        if seed == 5:  # every fourth save needs no other
            reference = Reference()
        reference.step(state)
        step = tmp_path / f"step-{seed}"
        dcp.save(state, storage_writer=writer, checkpoint_id=step)
        reference.check(load(step), state)
        first = 1 if seed < 5 else 5
        assert needed(step) == [tmp_path / f"step-{i}" for i in range(first, seed + 1)]
        assert kinds(step) == ["base", "base" if seed == first else "delta"]
        if seed != first:
            assert size(step, "delta") * 5 < size(tmp_path / "step-1", "base")
    dcp.save(state, storage_writer=writer, checkpoint_id=tmp_path / "again")  # nothing has changed
    reference.step(state)
    reference.check(load(tmp_path / "again"), state)
    assert kinds(tmp_path / "again") == ["delta"]
    tmp_path.rename(moved := tmp_path.with_name("moved"))
    reference.check(load(moved / "again"), state)


@pytest.mark.parametrize("policy", [None, {"*": "exact"}], ids=["lossy", "exact"])
@pytest.mark.parametrize("at", ["records", "metadata", "names"])
def test_a_failed_save_changes_nothing(
    at: str, policy: Any, tmp_path: Path, monkeypatch: Patch
) -> None:
    """The next deltas, of exact tensors their residuals, lead from the last whole step."""
    writer, reference = ChainWriter(bits=2, policy=policy), Reference()
    save_step(writer, tmp_path / "1", 1)
    reference.step(state_of(1))
    fsyncs = iter(range(100))

    def full(descriptor: int) -> None:
        # The steps' directory; file and directory of one record, of another, and of the mark.
        if next(fsyncs) == {"records": 3, "metadata": 5, "names": 6}[at]:
            raise OSError(errno.ENOSPC, "No space left on device")

    system = types.SimpleNamespace(**vars(os))
    system.fsync = full
    monkeypatch.setattr(storage, "os", system)
    with pytest.raises(CheckpointException) as error:
        save_step(writer, tmp_path / "2", 2)
    monkeypatch.undo()
    assert isinstance(fault(error), codec.WriteError), error.value
    left = {path.name for path in (tmp_path / "2").iterdir()}
    assert ".metadata" not in left
    assert at != "records" or not left
    with pytest.raises(CheckpointException, match="no whole checkpoint"):
        load(tmp_path / "2")
    save_step(writer, tmp_path / "2", 3)
    reference.step(state_of(3))  # the distance to the track of the first
    if policy:
        reference.trackers.clear()
    reference.check(load(tmp_path / "2"), state_of(3))
    old = {path.name for path in (tmp_path / "2").iterdir()}
    assert len(old - {".metadata"}) == 2, "what was left has gone"


def test_resumes_from_disk(tmp_path: Path) -> None:
    writer, reference = ChainWriter(bits=2), Reference()
    for seed in (1, 2):
        reference.save(writer, tmp_path / f"{seed}", seed)
    writer = ChainWriter(bits=2, resume=tmp_path / "2", base_every=2)
    for seed, n in ((3, 3), (4, 1)):
        reference = Reference() if seed == 4 else reference
        reference.save(writer, tmp_path / f"{seed}", seed)
        assert len(needed(tmp_path / f"{seed}")) == n
    with pytest.raises(CheckpointException, match="beside each other"):
        dcp.save(
            {}, storage_writer=ChainWriter(bits=2, resume=tmp_path / "2"), checkpoint_id=tmp_path
        )


def trained(step: int) -> dict[str, Any]:
    """As a training has it; the optimizer has moments from its first step on."""
    rng = torch.Generator().manual_seed(step)
    names = (FIRST, SECOND) if step else ()
    moments = {name: torch.rand(30, 20, generator=rng) for name in names}
    model = {"w": torch.randn(30, 20, generator=rng), "head": torch.randn(40, generator=rng)}
    return {"model": model, "optim": {"state": {"w": moments}, "rate": torch.tensor([1.0] * 9)}}


def save_trained(run: Path, *steps: int, **settings: Any) -> None:
    """With a writer that goes on from the newest step."""
    writer = ChainWriter(resume=newest_step(run), **settings)
    for step in steps:
        dcp.save(trained(step), storage_writer=writer, checkpoint_id=run / f"{step}")


def is_exact(run: Path, step: int) -> bool:
    """Whether a step comes back to the last bit."""
    return same(loaded(run / f"{step}", trained(step)), trained(step))


def test_an_exact_training_stays_exact(tmp_path: Path) -> None:
    """Also what comes later; to become lossy, it has to be said."""
    save_trained(tmp_path, 0, policy={"*": "exact"})
    save_trained(tmp_path, 1)
    save_trained(tmp_path, 2, 3, distance=0.1)
    assert all(is_exact(tmp_path, step) for step in (1, 2, 3))
    assert len(needed(tmp_path / "2")) > 1
    with pytest.raises(CheckpointException) as error:
        save_trained(tmp_path, 4, policy={"model.head": "bits=2"})
    assert isinstance(fault(error), errors.SettingsError)
    for text in (
        "'model.w', 'optim.state.w.exp_avg', 'optim.state.w.exp_avg_sq': exact in this chain",
        "with policy={'model.head': 'bits=2'} lossy by default",
        "add to the policy {'model.*': 'lossy', 'optim.*': 'lossy'}",
    ):
        assert text in str(fault(error))
    assert newest_step(tmp_path) == f"{tmp_path}/3"
    save_trained(tmp_path, 4, 5, policy={"model.*": "lossy", "optim.*": "exact"})
    assert [len(needed(tmp_path / step)) for step in "45"] == [1, 2]
    save_trained(tmp_path, 6)
    assert not is_exact(tmp_path, 6)
    assert len(needed(tmp_path / "6")) == 3


def test_a_step_says_its_settings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From bases alone and from deltas, to any rank; others are used, and said."""
    given: dict[str, Any] = {"bits": 4, "scope": "model", "coder": "huffman"}
    save_trained(tmp_path, 0, **given)
    for step in (1, 2):
        save_trained(tmp_path, step)
    assert "goes on with" not in caplog.text
    save_trained(tmp_path, 3, tolerance=0.01)
    assert f"{tmp_path}/2: goes on with tolerance=0.01 instead of bits=4" in caplog.text
    save_trained(tmp_path, 4)
    ways = [{"bits": 4}, {"bits": 4}, {"tolerance": 0.01}, {"tolerance": 0.01}]
    for step, way in enumerate(ways, 1):
        deltas = map(Path.read_bytes, (tmp_path / f"{step}").glob("*.delta.*"))
        codings = {records.load(data, "delta").coding for data in deltas}
        assert Coding(scope="model", coder="huffman", **way) in codings
    for rank in (0, 7):  # 7 had nothing in the step, and reads the base of another one
        state, settings = resume_from(step_at(tmp_path / "1"), rank, Overrides())
        assert settings.coding == Coding(4, "model", "huffman")
        assert bool(state.bundles) == (rank == 0)


def test_another_version_begins_with_bases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "WRITER", "lcviz 0.2.0")
    writer = ChainWriter(bits=2)
    for seed in (1, 2):
        save_step(writer, tmp_path / f"{seed}", seed)
    monkeypatch.setattr(version, "WRITER", "lcviz 0.3.0")
    writer = ChainWriter(bits=2, resume=tmp_path / "2")
    for seed, n in ((3, 1), (4, 2)):
        save_step(writer, tmp_path / f"{seed}", seed)
        assert len(needed(tmp_path / f"{seed}")) == n


@pytest.mark.parametrize("policy", [None, {"*": "exact"}], ids=["lossy", "exact"])
def test_what_is_missing_or_damaged_is_named(policy: Any, tmp_path: Path) -> None:
    """Of lossy tracks, and of exact residuals."""
    writer = ChainWriter(bits=2, policy=policy)
    steps = [tmp_path / f"step-{seed}" for seed in (1, 2, 3)]
    for seed, step in enumerate(steps, 1):
        save_step(writer, step, seed)

    def refused(kind: type[Exception], *words: str) -> None:
        with pytest.raises(CheckpointException) as error:
            load(steps[2])
        assert type(fault(error)) is kind, fault(error)
        assert all(word in str(fault(error)) for word in words), fault(error)

    steps[1].rename(tmp_path / "away")
    refused(errors.ParentError, "step-3", "no longer holds step-2")
    (tmp_path / "away").rename(steps[1])
    (parent,) = steps[1].glob("*.delta.safetensors")
    data = parent.read_bytes()
    parent.unlink()
    refused(errors.ParentError, parent.name, "is missing", "step-3")
    parent.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused(errors.DigestError, parent.name)
    (other,) = steps[2].glob("*.delta.safetensors")
    parent.write_bytes(other.read_bytes())
    refused(errors.MalformedRecordError, parent.name, "delta of step 1")
    parent.write_bytes(data)
    load(steps[2])
    for file in steps[0].iterdir():
        file.unlink()
    steps[0].rmdir()  # the next save builds on what there is
    save_step(writer, tmp_path / "step-4", 4)
    assert needed(tmp_path / "step-4") == [tmp_path / "step-4"]


@pytest.mark.parametrize("how", ["removed", "emptied", "resumed"])
def test_a_training_that_goes_back(how: str, tmp_path: Path) -> None:
    """Steps are removed and saved again: their directories are there, what was in them is not."""
    steps = {seed: tmp_path / f"{seed}" for seed in range(1, 6)}
    writer, reference = ChainWriter(bits=2), Reference()
    for seed in (1, 2, 3):
        save_step(writer, steps[seed], seed)
    if how == "resumed":
        writer = ChainWriter(bits=2, resume=steps[3])
        save_step(writer, steps[4], 4)
        steps[4] = tmp_path / "4 again"
    for seed in (2, 3):
        for file in steps[seed].iterdir():
            file.unlink()
        if how == "removed":
            steps[seed].rmdir()
    for seed in (2, 3, 4, 5):
        reference.save(writer, steps[seed], seed)
        assert needed(steps[seed]) == sorted(steps[s] for s in range(2, seed + 1))


def test_links_are_followed(tmp_path: Path) -> None:
    run, latest, link = tmp_path / "run", tmp_path / "run" / "latest", tmp_path / "link"
    writer, reference = ChainWriter(bits=2), Reference()
    for seed in (1, 2):
        reference.save(writer, run / f"{seed}", seed)
    latest.symlink_to("2")
    link.symlink_to("run")
    assert needed(latest) == needed(link / "2") == [run / "1", run / "2"]
    writer = ChainWriter(bits=2, resume=latest)
    for seed, folder in ((3, run), (4, link)):  # the same steps, whichever way
        reference.save(writer, folder / f"{seed}", seed)
        latest.unlink()
        latest.symlink_to(f"{seed}")
        for step in (run / f"{seed}", latest, link / "latest"):
            reference.check(load(step), state_of(seed))
        assert needed(latest) == [run / f"{s}" for s in range(1, seed + 1)]


def test_another_job_that_was_faster(tmp_path: Path, monkeypatch: Patch) -> None:
    """With the same content, so that no record goes; its checkpoint stays, whatever comes then."""
    finish = ChainWriter.finish

    def overtaken(self: ChainWriter, **given: Any) -> None:
        monkeypatch.undo()
        save_step(ChainWriter(bits=2), tmp_path / "1", 1)
        monkeypatch.setattr(dcp.FileSystemWriter, "finish", refuse)
        finish(self, **given)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ChainWriter, "finish", overtaken)
    with pytest.raises(CheckpointException) as error:
        save_step(ChainWriter(bits=2), tmp_path / "1", 1)
    assert isinstance(fault(error), errors.StepOrderError)
    assert torch.equal(load(tmp_path / "1")["model"][WEIGHT], state_of(1)["model"][WEIGHT])


def test_a_step_that_goes_during_a_save(tmp_path: Path, monkeypatch: Patch) -> None:
    """Somebody keeps one step, and removes the last while the next one builds on it."""
    writer, finish = ChainWriter(bits=2), ChainWriter.finish
    states = [{"w": state_of(seed)["model"][WEIGHT]} for seed in (1, 2, 3)]
    dcp.save(states[0], storage_writer=writer, checkpoint_id=tmp_path / "1")

    def hasty(self: ChainWriter, **given: Any) -> None:
        monkeypatch.undo()
        shutil.rmtree(tmp_path / "1")
        finish(self, **given)

    monkeypatch.setattr(ChainWriter, "finish", hasty)
    with pytest.raises(CheckpointException, match="builds on 1, which was removed") as error:
        dcp.save(states[1], storage_writer=writer, checkpoint_id=tmp_path / "2")
    assert isinstance(fault(error), codec.WriteError)
    dcp.save(states[2], storage_writer=writer, checkpoint_id=tmp_path / "2")
    assert same(loaded(tmp_path / "2", states[2]), states[2]), "a base"


@pytest.mark.parametrize("url", [Path("gs://bucket/run/1"), "s3://bucket"])
def test_what_is_no_step(url: str | Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """URLs are texts, and name a step in a run."""
    monkeypatch.chdir(tmp_path)
    state = {"w": torch.ones(9)}
    for use in (
        lambda: ChainWriter(url),
        lambda: ChainWriter(resume=url),
        lambda: ChainReader(url),
        lambda: needed(url),
        lambda: dcp.save(state, storage_writer=ChainWriter(), checkpoint_id=url),
        lambda: dcp.load(state, storage_reader=ChainReader("."), checkpoint_id=url),
    ):
        with pytest.raises(codec.SettingsError, match=r"is no directory of a step|as text"):
            use()
    assert not list(tmp_path.iterdir())
    dcp.save(state, storage_writer=ChainWriter(f"./{url}"))
    assert needed(f"./{url}") == [Path(f"./{url}").resolve()]


def test_what_cannot_be_resumed_from(tmp_path: Path) -> None:
    """Every save says what to do about it."""
    writer = ChainWriter(bits=2)
    for seed in (1, 2):
        save_step(writer, tmp_path / f"{seed}", seed)
    (tmp_path / "1").rename(tmp_path / "away")
    writer = ChainWriter(bits=2, resume=tmp_path / "2")
    for seed in (3, 4):
        with pytest.raises(CheckpointException, match="Without resume=") as error:
            save_step(writer, tmp_path / f"{seed}", seed)
        assert isinstance(fault(error), errors.ParentError)
        assert "no longer holds 1" in str(fault(error))
    (tmp_path / "away").rename(tmp_path / "1")
    (parent,) = (tmp_path / "2").glob("*.delta.safetensors")
    data = parent.read_bytes()
    parent.write_bytes(data[:-1])
    with pytest.raises(CheckpointException, match="Without resume=") as error:
        save_step(writer, tmp_path / "3", 3)
    assert isinstance(fault(error), errors.TruncatedRecordError)
    parent.write_bytes(data)
    save_step(writer, tmp_path / "3", 3)
    assert len(needed(tmp_path / "3")) == 3


def test_steps_that_are_not_beside_each_other(tmp_path: Path) -> None:
    writer = ChainWriter(bits=2)
    for seed in (1, 2, 3):
        step = tmp_path / f"step-{seed}" / "dcp"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            save_step(writer, step, seed)
        note = [str(w.message) for w in caught if "beside" in str(w.message)]
        assert len(note) == (seed == 2), "once"
        assert seed != 2 or note[0].startswith(
            f"{step} does not lie beside the steps in {tmp_path}"
        )
        assert needed(step) == [step]


def test_damaged_metadata_is_named(tmp_path: Path) -> None:
    """A load raises our error, not DCP's AssertionError, whatever its planner looks at first."""
    step, mark = tmp_path / "1", tmp_path / "1" / ".metadata"
    save_step(ChainWriter(bits=2), step, 1)
    data = mark.read_bytes()

    class Curious(DefaultLoadPlanner):
        def set_up_planner(self, state_dict: Any, metadata: Any = None, *_: Any, **__: Any) -> None:
            assert metadata.state_dict_metadata

    def refused(path: Path, kind: type[Exception], words: str) -> None:
        for planner in (None, Curious()):
            with pytest.raises(CheckpointException) as error:
                dcp.load({"a": 1}, storage_reader=ChainReader(path), planner=planner)
            assert type(fault(error)) is kind, error.value
            assert re.search(words, str(fault(error))), error.value

    named = r"1/\.metadata: DCP's metadata cannot be read"
    for damaged in (b"", data[:50], data[: len(data) // 2], pickle.dumps(3), b"\x00" * 9):
        mark.write_bytes(damaged)
        with pytest.raises(codec.ChainError, match=named):
            needed(step)
        refused(step, codec.ChainError, named)
    refused(tmp_path / "none", errors.ChainNotFoundError, "there is no such directory")
    refused(tmp_path, errors.ChainNotFoundError, r"\['1'\]: load one of these")


@pytest.mark.parametrize(
    "of",
    [
        {"records": [("../away", ...)]},
        {"records": [("/away", ...)]},
        {"records": [(None, "../away/__0")]},
        {"records": []},
        {"rank": "0/../../away/__0"},
    ],
    ids=repr,
)
def test_metadata_cannot_lead_elsewhere(of: dict[str, Any], tmp_path: Path) -> None:
    step = tmp_path / "run" / "1"
    dcp.save({"w": torch.ones(9)}, storage_writer=ChainWriter(bits=2), checkpoint_id=step)
    (file,) = step.glob("*.safetensors")
    away = tmp_path / "away"
    away.mkdir()
    (away / file.name).write_bytes(file.read_bytes())  # what a digest alone would let pass
    metadata = ChainReader(step).read_metadata()
    (item,) = metadata.storage_data.values()
    ((_, digits),) = item["of"]["records"]
    item["of"].update(of)
    item["of"]["records"] = [(d, digits if f is ... else f) for d, f in item["of"]["records"]]
    (step / ".metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(CheckpointException) as error:
        dcp.load({"w": torch.zeros(9)}, storage_reader=ChainReader(step))
    assert isinstance(fault(error), errors.SourceError)
    with pytest.raises(errors.SourceError):
        needed(step)


def test_a_chain_is_not_in_memory_as_a_whole(tmp_path: Path, monkeypatch: Patch) -> None:
    writer, reference = ChainWriter(bits=2), Reference()
    for seed in range(1, 7):
        reference.save(writer, tmp_path / f"{seed}", seed)
    refs: list[weakref.ref[Any]] = []
    most, read = 0, records.load

    def noted(data: bytes, where: str) -> Any:
        nonlocal most
        record = read(data, where)
        refs.append(weakref.ref(record.arrays))
        most = max(most, sum(ref() is not None for ref in refs))
        return record

    monkeypatch.setattr(records, "load", noted)
    reference.check(load(tmp_path / "6"), state_of(6))
    assert len(refs) > 6
    assert most == 2


def test_new_directories_are_durable(tmp_path: Path, monkeypatch: Patch) -> None:
    """Of all that a step is in, before it is whole; then that of its mark."""
    done: list[Path] = []

    def noted(path: Path) -> None:
        assert path == step or not list(step.glob("*.metadata"))
        done.append(path)

    for module in (storage, folders):
        monkeypatch.setattr(module, "fsync_directory", noted)
    writer = ChainWriter(bits=2)
    for name in ("1", "2"):
        step = tmp_path / "new" / "run" / name
        done.clear()
        dcp.save({"w": torch.ones(9)}, storage_writer=writer, checkpoint_id=step)
        above = [tmp_path, step.parent.parent] if name == "1" else []
        n_files = len(list(step.iterdir()))
        assert done == [*above, step.parent, *[step] * n_files]
        assert n_files == 2


def test_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    """A step, or the newest in a directory of steps: its records, a check, its state."""
    run, out = tmp_path / "run", tmp_path / "out.pt"
    writer = ChainWriter(bits=2)
    for seed in range(3):
        save_step(writer, run / f"step-{seed}", seed)
    assert main(["info", "--json", str(run)]) == main(["info", "--json", str(run / "step-2")]) == 0
    newest, named = map(json.loads, capsys.readouterr().out.splitlines())
    assert newest == named
    assert newest["step"] == str(run / "step-2")
    assert newest["needs"] == ["step-0", "step-1"]
    own = (run / "step-2").glob("*.safetensors")
    files = {row["file"]: row["bytes"] for row in newest["records"] if row["step"] == "step-2"}
    assert files == {path.name: path.stat().st_size for path in own}
    assert main(["info", str(run)]) == main(["verify", str(run)]) == 0
    assert re.search(r"ok: .*step-2, records checked", capsys.readouterr().out)
    assert main(["restore", str(run / "step-1"), "-o", str(out)]) == 0
    seen, expected = torch.load(out, weights_only=False), load(run / "step-1")
    assert tensors_of(seen).keys() == tensors_of(expected).keys()
    for name, tensor in tensors_of(seen).items():
        assert tensor.equal(tensors_of(expected)[name]), name
    for words in (["restore", "--step", "1"], ["restore", "--only", "x"]):
        assert main([*words, str(run), "-o", str(out)]) == 2
    (path,) = (p for p in (run / "step-1").glob("*.delta.*") if p.stat().st_size > 300)
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["verify", str(run)]) == 1
    said = capsys.readouterr().out
    assert "DAMAGED" in said
    assert path.name in said
    path.unlink()
    assert main(["verify", "--json", str(run / "step-2")]) == 1
    assert main(["verify", str(run / "step-0")]) == 0
    mark = run / "step-0" / ".metadata"
    metadata = pickle.loads(mark.read_bytes())
    next(iter(metadata.storage_data.values()))["tensor"] = "another"
    mark.write_bytes(pickle.dumps(metadata))
    assert main(["verify", str(run / "step-0")]) == 1
    assert "has no chunk 'another'" in capsys.readouterr().out
    assert main(["restore", str(run), "-o", str(out)]) == 1
    assert f"{path.name}: is missing" in capsys.readouterr().err
    assert main(["verify", str(tmp_path)]) == 1


def test_a_failed_save_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    """Records without metadata: what they are, and what to do with them."""
    run = tmp_path / "run"
    writer = ChainWriter(bits=2)
    for seed in range(3):
        save_step(writer, run / f"step-{seed}", seed)

    def said_of(place: Path, command: str = "info") -> str:
        output = ["-o", str(tmp_path / "out.pt")] * (command == "restore")
        assert main([command, str(place), *output]) == 1
        return capsys.readouterr().err

    (run / "step-2" / ".metadata").unlink()
    for command in ("info", "verify", "restore"):
        said = said_of(run / "step-2", command)
        assert "step-2: has records, but no .metadata, so it cannot be loaded: the save" in said
        assert "No other step needs its records" in said
        assert "remove this directory or save to it again" in said
    (run / "step-0" / ".metadata").unlink()  # as `keep` does
    assert "Do not remove it, for other steps need its records: 'step-1'" in said_of(run / "step-0")
    (run / "step-1" / ".metadata").unlink()
    assert f"{run}: holds no whole step. {run}/step-2: has records" in said_of(run)
    dcp.save({"w": torch.ones(9)}, checkpoint_id=tmp_path / "plain" / "step-0")
    (tmp_path / "plain" / "step-0" / ".metadata").unlink()
    assert "holds no records" in said_of(tmp_path / "plain" / "step-0")


def test_verify_compares_the_digests_in_a_record(tmp_path: Path, capsys: Capture) -> None:
    """Those of its blocks, which a load does not use: a record with wrong ones loads."""
    step = tmp_path / "run" / "step-0"
    state = {"model": {"w": torch.randn(200, 100)}}
    dcp.save(state, storage_writer=ChainWriter(), checkpoint_id=step)
    (path,) = step.glob("*.base.*")
    mark, data = step / ".metadata", path.read_bytes()
    metadata = pickle.loads(mark.read_bytes())
    path.unlink()
    for field in (b'"head":"', b'"chunks":"'):
        begin = data.index(field) + len(field)
        other = b"B" if data[begin : begin + 1] == b"A" else b"A"
        forged = resign(data[:begin] + other + data[begin + 1 :])
        digits = records.load(forged, "forged").digest[: files.DIGITS]
        path = step / f"__0_{digits}.base.safetensors"
        path.write_bytes(forged)
        for item in metadata.storage_data.values():
            item["of"]["records"] = [(None, digits)]
        mark.write_bytes(pickle.dumps(metadata))
        assert same(loaded(step, state), state)
        assert main(["verify", str(step)]) == 1
        assert re.search(f"{path.name}: expected .*(digests|BLAKE3)", capsys.readouterr().out)


def test_compact_on_the_command_line(tmp_path: Path, capsys: Capture, monkeypatch: Patch) -> None:
    """What the newest steps do not need goes; what has no number stays. One step is refused."""
    run = tmp_path / "run"
    writer = ChainWriter(bits=2, base_every=1)
    for seed, name in enumerate(("mine", "step-9", "step-10", "step-11", "step-12", "step-13")):
        save_step(writer, run / name, seed)
    dcp.save({"w": torch.ones(9)}, checkpoint_id=run / "step-8")  # by PyTorch's own writer
    dcp.save({"w": torch.ones(9)}, checkpoint_id=run / "step-14")
    shutil.copytree(run / "step-13", run / "step-15")
    (run / "step-15" / ".metadata").unlink()  # as a save that was killed
    assert main(["compact", str(run), "--keep-steps", "1", "--json"]) == 0
    removed = json.loads(capsys.readouterr().out)["removed"]
    left = {path.name for path in run.iterdir()}
    others = {"step-8", "step-14", "step-15"}
    assert {"mine", "step-13", *others} <= left
    assert set(removed) == {f"step-{n}" for n in range(9, 14)} - left
    assert len(removed) >= 2
    for name in left - others:
        load(run / name)
    for name in ("step-8", "step-14"):
        dcp.load(plain := {"w": torch.zeros(9)}, checkpoint_id=run / name)
        assert plain["w"].all()
    assert main(["compact", str(run), "--keep-steps", "0"]) == 2
    (tmp_path / "latest").symlink_to(run / "step-13")
    one_step = ["step-13", "./step-13/", "../run/step-13", "../latest", str(run / "step-13")]
    monkeypatch.chdir(run)
    for name in one_step:
        assert main(["compact", name, "--keep-steps", "1"]) == 2, name
    monkeypatch.chdir(run / "step-13")
    assert main(["compact", "."]) == 2
    assert {path.name for path in run.iterdir()} == left
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    assert main(["compact", "run/"]) == 0
    assert main(["compact", str(run)]) == 0
    assert "steps removed: none" in capsys.readouterr().out


def test_refuses(tmp_path: Path) -> None:
    writer = ChainWriter(tmp_path / "1", bits=2)
    dcp.save(state_of(1), storage_writer=writer)
    with pytest.raises(CheckpointException, match="which is never overwritten") as error:
        dcp.save(state_of(1), storage_writer=writer)
    assert isinstance(fault(error), errors.StepOrderError)
    with pytest.raises(CheckpointException, match="checkpoint_id"):
        dcp.save({}, storage_writer=ChainWriter(bits=2))
    with pytest.raises((CheckpointException, codec.SettingsError), match="use_collectives=False"):
        save_step(ChainWriter(), tmp_path / "alone", 1, use_collectives=False)
    with pytest.raises(codec.SettingsError, match=r"AsyncCheckpointerType\.THREAD"):
        pickle.dumps(writer)
    for wrong, message in (
        ({"policy": {"*": "skip"}}, "leave it out of the state"),
        ({"policy": {"*": "skip?"}}, "leave it out of the state"),
        ({"bits": 9}, "bits"),
        ({"policy": {"*": "tolerance=-1"}}, "the largest error"),
        ({"base_every": 0}, "base_every"),
        ({"base_every": None, "keep_steps": 3}, "base_every"),  # to keep steps needs bases
        *(({"keep_steps": keep}, "keep") for keep in (0, -1, True, 2.0, "3")),
    ):
        with pytest.raises(codec.SettingsError, match=message):
            ChainWriter(**wrong)  # type: ignore[arg-type]
    with pytest.raises(CheckpointException, match="Unicode"):
        dcp.save({"\ud800": 1}, storage_writer=writer, checkpoint_id=tmp_path / "2")
    dcp.save({"a": torch.ones(9)}, checkpoint_id=tmp_path / "plain")
    with pytest.raises(errors.SourceError, match="DCP's own reader"):
        needed(tmp_path / "plain")
    with pytest.raises(errors.ChainNotFoundError):
        needed(tmp_path / "nothing")
    names = {"", ".", "..", "a/b", "a\\b", "\0", 3}
    assert not any(map(is_name, names))
    assert is_name("step 10")


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    """At the first save, before a record is written, unless it is marked; tests/distributed has
    what other ranks hold."""
    state = {"model": {"w": torch.ones(40)}, "optim": {"step": 1}}
    wrong = ChainWriter(tmp_path / "1", policy={"model.*": "lossy", "model/*": "exact"})
    for _ in range(2):
        with pytest.raises(CheckpointException) as error:
            dcp.save(state, storage_writer=wrong)
        assert isinstance(fault(error), codec.SettingsError)
        assert "'model/*' matches nothing" in str(fault(error))
        assert "nearest names are 'model.w'" in str(fault(error))
        assert "It would match 'model.w' if . and / were the same" in str(fault(error))
    assert not list((tmp_path / "1").iterdir())
    marked = ChainWriter(policy={"model.*": "exact?", "model/*": "lossy?"})
    for step in (2, 3):  # only the first save is asked
        dcp.save(state, storage_writer=marked, checkpoint_id=tmp_path / f"{step}")
        state = {"other": torch.ones(40)}


def test_a_save_waits_for_one_that_has_not_begun(tmp_path: Path, monkeypatch: Patch) -> None:
    """DCP tells a writer where to save, and then asks the state what is in it, which may take
    long. A thread that begins meanwhile is not to change where this one saves; and it comes first,
    for on all ranks the order is the same."""
    writer, reference = ChainWriter(bits=2), Reference()
    reached, order = threading.Event(), []
    reset, write = ChainWriter.reset, ChainWriter.write_data

    def late(self: ChainWriter, *given: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            assert reached.wait(300)
            time.sleep(0.2)
        reset(self, *given)

    def noted(self: ChainWriter, *given: Any) -> Any:
        order.append(Path(self.path).name)
        return write(self, *given)

    class Slow:
        """A stateful object, as training loops have them."""

        def state_dict(self) -> dict[str, Any]:
            reached.set()
            time.sleep(0.1)
            model: dict[str, Any] = state_of(3)["model"]
            return model

        def load_state_dict(self, state: Any) -> None: ...

    save_step(writer, tmp_path / "1", 1)
    monkeypatch.setattr(ChainWriter, "reset", late)
    monkeypatch.setattr(ChainWriter, "write_data", noted)
    save: Future[Any] = dcp.async_save(
        state_of(2), storage_writer=writer, checkpoint_id=tmp_path / "2"
    )
    state = {**state_of(3), "model": Slow()}
    dcp.save(state, storage_writer=writer, checkpoint_id=tmp_path / "3")
    save.result(300)
    assert order == ["2", "3"]
    reference.check_all(tmp_path)


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("at", ["a stage", "between stages"])
def test_two_saves_at_once(at: str, thread: bool, tmp_path: Path, monkeypatch: Patch) -> None:
    """One of them is refused; the other is whole, and goes where it was asked to. In one thread: a
    signal's handler, say."""
    writer = ChainWriter(bits=2)
    failures: dict[str, CheckpointException] = {}

    def save(seed: int) -> None:
        try:
            save_step(writer, tmp_path / f"{seed}", seed)
        except CheckpointException as exc:
            failures[f"{seed}"] = exc

    def second() -> None:
        monkeypatch.undo()
        if thread:
            other = threading.Thread(target=save, args=(2,))
            other.start()
            other.join()
        else:
            save(2)

    place, name = (RankWriter, "run") if at == "a stage" else (DefaultSavePlanner, "finish_plan")
    call = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *given: (second(), call(*given))[1])
    save(1)
    refused, saved = ("2", "1") if at == "a stage" else ("1", "2")
    assert list(failures) == [refused]
    assert isinstance(failures[refused].failures[0][0], errors.LockedError)
    assert "two saves at once" in str(failures[refused])
    assert not (tmp_path / refused / ".metadata").exists()
    assert load(tmp_path / saved)["epoch"] == int(saved)
    save(3)
    assert needed(tmp_path / "3") == [tmp_path / saved, tmp_path / "3"]
    assert load(tmp_path / "3")["epoch"] == 3


def test_the_thread_of_async_save_ends(tmp_path: Path, monkeypatch: Patch) -> None:
    threads: list[threading.Thread] = []
    run = RankWriter.run
    monkeypatch.setattr(
        RankWriter,
        "run",
        lambda *given: (threads.append(threading.current_thread()), run(*given))[1],
    )
    before = threading.enumerate()
    dcp.async_save(state_of(1), storage_writer=ChainWriter(tmp_path / "1", bits=2)).result(300)
    threads[0].join(300)
    note = "codec.dcp.current_save waits until the thread of async_save ends"
    assert threads[0] not in before, f"torch saves in a thread that it had: {note}"
    assert not threads[0].is_alive(), f"torch keeps the thread of a save: {note}"


def test_a_state_that_no_thread_takes(monkeypatch: Patch) -> None:
    monkeypatch.setattr("codec.dcp.current_save.PATIENCE", 0.01)
    writer = ChainWriter(bits=2)
    writer.stage(state_of(1))
    with pytest.raises(errors.LockedError, match="never saved"):
        writer.stage(state_of(2))
    writer.stage(state_of(2))


@pytest.mark.parametrize("save", [dcp.save, lambda *a, **k: dcp.async_save(*a, **k).result(300)])
def test_a_planner_that_fails(save: Any, tmp_path: Path) -> None:
    """DCP does not tell the writer; the next save goes on, whichever thread it is in."""

    class Failing(DefaultSavePlanner):
        def set_up_planner(
            self, state_dict: Any, storage_meta: Any = None, is_coordinator: bool = False
        ) -> None:
            raise KeyError("no plan")

    writer = ChainWriter(tmp_path / "1", bits=2)
    with pytest.raises(CheckpointException, match="no plan"):
        save(state_of(1), storage_writer=writer, planner=Failing())
    dcp.async_save(state_of(1), storage_writer=writer).result(300)
    assert torch.equal(load(tmp_path / "1")["model"][WEIGHT], state_of(1)["model"][WEIGHT])


NAMES = [  # path of keys, whether it is lossy
    (("layer.weight",), True),
    (("model", "layer.weight"), True),
    (("app", "model", "layer.weight"), True),
    (("model", "norm.running_mean"), False),
    (("state_dict", "layer.exp_avg"), True),  # the model's, whatever its name
    (("optim", "state", "layer.weight", "exp_avg"), True),
    (("optim", "state", "weights", "exp_avg"), True),
    (("optim", "state.layer.weight.exp_avg"), True),
    (("state.layer.weight.exp_avg",), True),
    (("optimizer.0.momentum_buffer",), True),
    (("optim", "state", "layer.weight", "exp_inf"), True),
    (("state.layer.weight.sum",), True),
    (("state.layer.weight.prev",), False),
    (("layer.weight.exp_avg_sq",), False),
    (("ema", "layer.weight"), False),
    (("app", "optim", "model", "x"), False),
]


@pytest.mark.parametrize(("path", "lossy"), NAMES)
def test_which_chunks_are_lossy(path: tuple[str, ...], lossy: bool) -> None:
    fqn = ".".join(path)
    name = tree_name(fqn, path)
    moments = moments_among([name])
    assert (Policy().mode(fqn, (), moments, tree_name=name) != "exact") is lossy
    for patterns, mode in (
        ({"*": "lossy"}, "lossy"),
        ({"nothing": "lossy", "*": "exact"}, "exact"),
    ):
        assert Policy(patterns).mode(fqn, (), moments, tree_name=name) == mode


def adam_of(step: int) -> dict[str, Any]:
    """Moments of two parameters, whose gradients have many magnitudes."""
    rng = torch.Generator().manual_seed(step)
    scale = torch.exp2(-torch.arange(400.0) % 24)
    m, v = scale * torch.randn(400, generator=rng), scale**2 * (1 + torch.rand(400, generator=rng))
    states = {k: {FIRST: m.clone(), SECOND: v.clone(), "step": step} for k in "ab"}
    return {"model": {"w": torch.ones(400) * step}, "optim": {"state": states}}


@pytest.mark.parametrize("most", [2**28, 1600])
def test_moments_are_near_in_their_measures(
    most: int, tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a record holds no more than one tensor: a first moment has the second beside it.
    A policy makes them exact."""
    monkeypatch.setattr("codec.dcp.chunks.MAX_TRACK_NBYTES", most)
    writer = ChainWriter(bits=2)
    for step in range(4):
        dcp.save(adam_of(step), storage_writer=writer, checkpoint_id=tmp_path / f"{step}")
    (message,) = [r.getMessage() for r in caplog.records if r.name.startswith("codec")]
    assert "4 tensors (exp_avg, exp_avg_sq)" in message
    assert "policy={'optim.*': 'exact'}" in message
    seen = loaded(tmp_path / "3", adam_of(3))["optim"]["state"]
    for name, moments in adam_of(3)["optim"]["state"].items():
        off = (seen[name][FIRST] - moments[FIRST]).abs() / seen[name][SECOND].sqrt()
        assert 0 < off.max() <= 0.25
        assert 0.1 < (seen[name][SECOND] / moments[SECOND] - 1).abs().max() <= 0.125
    exact = ChainWriter(bits=2, policy={"optim.*": "exact"})
    for step in range(2):
        dcp.save(adam_of(step), storage_writer=exact, checkpoint_id=tmp_path / f"exact {step}")
    live = adam_of(1)["optim"]["state"]
    assert same(loaded(tmp_path / "exact 1", adam_of(1))["optim"]["state"], live)


@pytest.mark.parametrize("changed", [FIRST, SECOND])
def test_a_moment_that_loses_its_track(changed: str, tmp_path: Path) -> None:
    """By another dtype. Both moments are then in one record, and stay there."""
    writer = ChainWriter(bits=2)
    for seed in range(4):
        state = state_of(seed)
        moments = state["optim"]["state"][WEIGHT]
        if seed > 1:
            moments[changed] = moments[changed].bfloat16()
        dcp.save(state, storage_writer=writer, checkpoint_id=tmp_path / f"{seed}")
        stored = ChainReader(tmp_path / f"{seed}").read_metadata().storage_data
        of = {index.fqn.rpartition(".")[2]: item["of"] for index, item in stored.items()}
        assert of[FIRST] == of[SECOND]
        assert len(of[FIRST]["records"]) == (1, 2, 1, 2)[seed]
        assert len(list((tmp_path / f"{seed}").glob("*.safetensors"))) == (2, 2, 3, 3)[seed]


def test_records_stay_small(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("codec.dcp.chunks.MAX_TRACK_NBYTES", 10)
    monkeypatch.setattr("codec.dcp.chunks.MAX_RECORD_CHUNKS", 3)
    sizes = [4, 6, 1, 30, 0, 0, 0, 0]
    assert list(fit_records(zip(sizes, sizes))) == [[4, 6], [1], [30], [0, 0, 0], [0]]
    monkeypatch.setattr("codec.dcp.chunks.MAX_RECORD_CHUNKS", 1)
    writer, reference = ChainWriter(bits=2), Reference()
    for seed in (1, 2):
        reference.save(writer, tmp_path / f"{seed}", seed)
    reference.check(load(tmp_path / "2"), state_of(2))
    assert len(list((tmp_path / "2").glob("*.delta.safetensors"))) == 3
    gone = state_of(3)
    del gone["model"][HALF]
    dcp.save(gone, storage_writer=writer, checkpoint_id=tmp_path / "3")
    assert len(list((tmp_path / "3").glob("*.delta.safetensors"))) == 2
    save_step(writer, tmp_path / "4", 4)
    seen = load(tmp_path / "4")["model"]
    assert torch.equal(seen[HALF], state_of(4)["model"][HALF]), "a base again"
    assert not torch.equal(seen[WEIGHT], state_of(4)["model"][WEIGHT])


def small_of(step: int) -> dict[str, Any]:
    """One lossy tensor, and what is exact."""
    return {"model": {"w": torch.full((40,), float(step))}, "epoch": step}


def save_small(writer: ChainWriter, run: Path, *steps: int) -> None:
    """Save small states."""
    for step in steps:
        dcp.save(small_of(step), storage_writer=writer, checkpoint_id=run / f"{step}")


def whole_steps(run: Path) -> set[int]:
    """Those with metadata: each of them is to be loadable, see `load_all`."""
    return {int(path.parent.name) for path in run.glob("*/.metadata")}


def load_all(run: Path) -> None:
    """Small states."""
    for step in whole_steps(run):
        state = loaded(run / f"{step}", small_of(step))
        assert state["epoch"] == step
        assert abs(float(state["model"]["w"][0]) - step) < 1


def left(run: Path) -> set[str]:
    return {path.name for path in run.iterdir()}


@pytest.mark.parametrize(("keep", "base_every"), [(1, 4), (3, 1)])
def test_keep(tmp_path: Path, keep: int, base_every: int) -> None:
    """The newest stay and all that they build on; nothing else does, and no directory is left."""
    writer, reference = ChainWriter(bits=2, keep_steps=keep, base_every=base_every), Reference()
    for step in range(1, 9):
        if (step - 1) % (base_every + 1) == 0:
            reference = Reference()
        reference.save(writer, tmp_path / f"{step}", step)
        newest = range(max(1, step - keep + 1), step + 1)
        first = newest[0] - (newest[0] - 1) % (base_every + 1)  # its base
        assert left(tmp_path) == {f"{i}" for i in range(first, step + 1)}
        assert whole_steps(tmp_path) == set(range(first, step + 1))
    for step in whole_steps(tmp_path):
        assert load(tmp_path / f"{step}")["epoch"] == step


@pytest.mark.parametrize(("given", "most"), [({}, 6), ({"base_every": 50}, 12)], ids=str)
def test_keep_alone(tmp_path: Path, given: dict[str, int], most: int) -> None:
    """A base comes so often that at most twice as many steps are there as are kept."""
    writer, numbers = ChainWriter(keep_steps=3, **given), []
    for step in range(1, 13):
        save_small(writer, tmp_path, step)
        numbers.append(len(left(tmp_path)))
        assert {step, max(1, step - 1), max(1, step - 2)} <= whole_steps(tmp_path)
    assert max(numbers) == most


def test_keep_after_a_resume(tmp_path: Path) -> None:
    """What the first writer has left goes as well; what another training has saved there does not,
    nor what that builds on."""
    ours, theirs = (
        ChainWriter(bits=2, keep_steps=2, base_every=2),
        ChainWriter(bits=2, base_every=None),
    )
    for step in range(1, 6):
        save_small(ours, tmp_path, step)
        if step == 5:  # goes on from ours, which is a base's delta
            theirs = ChainWriter(bits=2, resume=tmp_path / f"{step}")
        save_small(theirs, tmp_path, step + 100)
    assert {4, 5, 101, 102, 103, 104, 105} == whole_steps(tmp_path)
    dcp.save(small_of(1), checkpoint_id=tmp_path / "plain")
    (tmp_path / "notes").mkdir()
    writer = ChainWriter(bits=2, keep_steps=2, base_every=2, resume=tmp_path / "5")
    for step in range(6, 14):
        save_small(writer, tmp_path, step)
        dcp.load(small_of(0), storage_reader=ChainReader(tmp_path / "105"))
    theirs_need = {path.name for path in needed(tmp_path / "105")}
    assert {"4", "5"} <= theirs_need
    others = {"plain", "notes", "101", "102", "103", "104", *theirs_need}
    assert left(tmp_path) >= {*others, "12", "13"}
    assert not left(tmp_path) & {"6", "7", "8", "9"}
    shutil.rmtree(tmp_path / "105")
    save_small(writer, tmp_path, 14, 15, 16, 17)
    assert not {"4", "5"} & left(tmp_path)


def test_keep_of_steps_that_are_needed_in_part(tmp_path: Path) -> None:
    """Step 6 builds on 1 and 5, and 5 on 4, which goes: 5 no longer says that it is whole."""
    writer = ChainWriter(bits=2, keep_steps=1, base_every=50)
    for step in range(1, 7):
        b, c = torch.tensor((step + 1) // 2), torch.tensor(step // 2)
        exact = {"a": torch.zeros(9), "b": b, "c": c}
        dcp.save({"optim": exact}, storage_writer=writer, checkpoint_id=tmp_path / f"{step}")
    assert {path.name for path in needed(tmp_path / "6")} == {"1", "5", "6"} == left(tmp_path)
    assert whole_steps(tmp_path) == {1, 6}
    for step in (1, 6):
        seen = loaded(tmp_path / f"{step}", {"optim": exact})["optim"]
        assert (seen["b"], seen["c"]) == ((step + 1) // 2, step // 2)
    exact["b"] += 1
    dcp.save({"optim": exact}, storage_writer=writer, checkpoint_id=tmp_path / "7")
    assert left(tmp_path) == {"1", "6", "7"}


def test_keep_that_is_interrupted_anywhere(tmp_path: Path, monkeypatch: Patch) -> None:
    """Killed before any of the calls that remove: every step that says it is whole loads, and the
    next writer cleans up."""
    names, at = ("unlink", "rmdir"), 0
    while True:
        run, calls = tmp_path / f"{at}", itertools.count()
        writer = ChainWriter(bits=2, keep_steps=2, base_every=1)
        save_small(writer, run, 1, 2, 3, 4)
        assert whole_steps(run) == {3, 4}
        for step in (5, 6):
            with monkeypatch.context() as patch:
                for name in names:
                    call = getattr(os, name)

                    def kill(*args: Any, call: Any = call, **kwargs: Any) -> Any:
                        if (run / f"{step}" / ".metadata").exists() and next(calls) == at:  # noqa: B023
                            raise KeyboardInterrupt
                        return call(*args, **kwargs)

                    patch.setattr(os, name, kill)
                try:
                    save_small(writer, run, step)
                except (KeyboardInterrupt, CheckpointException):
                    break
        load_all(run)
        assert {step - 1, step} <= whole_steps(run)
        if next(calls) <= at:
            break
        writer = ChainWriter(bits=2, keep_steps=2, base_every=1, resume=run / f"{step}")
        save_small(writer, run, *range(step + 1, step + 6))
        assert left(run) == {f"{more}" for more in whole_steps(run)}
        assert min(whole_steps(run)) >= step + 3
        load_all(run)
        at += 1
    assert at >= 6, "files of two steps, and their directories"


def test_keep_leaves_what_is_not_the_writer_s(tmp_path: Path) -> None:
    writer = ChainWriter(bits=2, keep_steps=1, base_every=1)
    for step in range(1, 5):
        save_small(writer, tmp_path, step)
        (tmp_path / f"{step}" / "loader.json").write_text("{}")
    assert whole_steps(tmp_path) == {3, 4}
    assert left(tmp_path / "1") == left(tmp_path / "2") == {"loader.json"}


def test_keep_that_cannot_remove(
    tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """The save stands, and the next one tries again."""
    writer = ChainWriter(bits=2, keep_steps=1, base_every=1)
    for step in range(1, 5):
        with monkeypatch.context() as patch:
            if step == 3:

                def refuse(*_: Any, **__: Any) -> None:
                    raise PermissionError(errno.EACCES, "no")

                patch.setattr(os, "unlink", refuse)
            save_small(writer, tmp_path, step)
        assert ("earlier steps stay" in caplog.text) == (step >= 3)
        assert len(whole_steps(tmp_path)) == (step if step < 4 else 2)
    load_all(tmp_path)


def test_keep_counts_the_steps_of_each_run(tmp_path: Path) -> None:
    """A writer that goes on elsewhere leaves what it has saved before."""
    writer = ChainWriter(bits=2, keep_steps=2, base_every=1)
    for run, steps in (("first", range(1, 6)), ("second", range(1, 4)), ("first", range(6, 8))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # its first save there is a base
            save_small(writer, tmp_path / run, *steps)
        if run == "second":
            assert whole_steps(tmp_path / "first") >= {4, 5}
    assert whole_steps(tmp_path / "second") >= {2, 3}
    assert whole_steps(tmp_path / "first") == {6, 7}
    for run in ("first", "second"):
        load_all(tmp_path / run)


def test_of_tied_tensors_the_strictest_rule_counts(tmp_path: Path) -> None:
    """Exact under one name is exact under all, while they are one; as `codec.Checkpointer` does."""
    policy = {"copy.*": "exact", "copies.*": "exact"}
    writer, shared, other = ChainWriter(bits=1, policy=policy), torch.zeros(40), torch.zeros(40)

    def state(w: torch.Tensor, free: torch.Tensor, copy: torch.Tensor) -> dict[str, Any]:
        return {"model": {"w": w, "free": free}, "copy": {"w": copy}, "copies": [copy]}

    for step, tied in enumerate([True, True, True, False, False, True, True]):
        generator = torch.Generator().manual_seed(step)
        for tensor in (shared, other):
            tensor += torch.randn(40, generator=generator).exp()
        saved, path = state(shared, other + 1, shared if tied else other), tmp_path / str(step)
        if step % 2:
            dcp.async_save(saved, storage_writer=writer, checkpoint_id=path).result()
        else:
            dcp.save(saved, storage_writer=writer, checkpoint_id=path)
        back = loaded(path, saved)
        assert torch.equal(back["copy"]["w"], saved["copy"]["w"])
        assert torch.equal(back["copies"][0], saved["copy"]["w"])
        if step not in (0, 3):  # where it was exact until then, a track begins with a base
            assert torch.equal(back["model"]["w"], shared) == tied
            assert not torch.equal(back["model"]["free"], other + 1)
