"""What a training loop holds: bases and deltas, resume, steps, the same bytes twice."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import codec
from codec import errors, version
from codec.cli.main import main
from codec.record import record as records
from codec.record.encode import Draft
from codec.record.reason import Reason
from codec.record.track import Track
from codec.saving import checkpointer
from codec.scheme.coding import Coding
from codec.storage import directory as storage
from tests.codec.chains import GOLDEN, kinds_in, save_all, shorten, tracker_of
from tests.codec.states import random_states, sparse_states

Patch = pytest.MonkeyPatch

Arrays = dict[str, np.ndarray]


def test_saved(tmp_path: Path) -> None:
    first, second = random_states(2)
    path = tmp_path / "a" / "run.lcc"
    base, delta = save_all(path, [first, second], stride=7, bits=2)
    assert (base.step, base.kind, base.delta) == (0, "base", None)
    assert (delta.step, delta.kind) == (7, "delta")
    assert delta.delta is not None
    assert delta.delta.tensors["w"] == "lossy"
    for saved in (base, delta):
        name = f"{saved.step:08d}.{saved.kind}.safetensors"
        assert saved.nbytes == (path / name).stat().st_size
        assert saved.full_nbytes == sum(
            a.size * 4 if k in ("w", "h", "b") else a.nbytes for k, a in first.items()
        )
        assert saved.ratio == saved.full_nbytes / saved.nbytes
        assert saved.seconds > 0


@pytest.mark.parametrize("asynchronous", [False, True])
def test_kernels_are_compiled_beside_the_training(
    asynchronous: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A saving process compiles them itself."""
    calls: list[bool] = []
    monkeypatch.setattr(checkpointer, "load_beside", lambda: calls.append(True))
    codec.Checkpointer(tmp_path / "run.lcc", asynchronous=asynchronous).close()
    assert calls == ([] if asynchronous else [True])


def test_another_version_begins_with_a_base(tmp_path: Path, monkeypatch: Patch) -> None:
    """Bases say who wrote them; deltas have the writer of the base before."""
    path, states = tmp_path / "run.lcc", sparse_states(10)

    def saved(writer: str, first: int, last: int) -> list[Reason | None]:
        monkeypatch.setattr(version, "WRITER", writer)
        saves = save_all(path, states[first:last], first, bits=2, resume=True)
        return [saved.reason for saved in saves]

    assert saved("lcviz 0.2.0", 0, 3) == [Reason.FIRST, None, None]
    assert saved("lcviz 0.2.0", 3, 4) == [None]
    assert saved("lcviz 0.3.0", 4, 7) == [Reason.ANOTHER_VERSION, None, None]
    writers = ["lcviz 0.2.0", None, None, None, "lcviz 0.3.0", None, None]
    chain = codec.Chain(path)
    assert [chain.read(entry).writer for entry in chain.entries] == writers
    assert saved("lcviz 0.3.0", 7, 8) == [None]
    assert saved("lcviz 0.4.0", 8, 10) == [Reason.ANOTHER_VERSION, None]
    assert kinds_in(path) == "bdddbdddbd"
    assert codec.verify(path).ok


def norm(state: Arrays, other: Arrays) -> float:
    """||state - other||, over all tensors."""
    return math.sqrt(sum(((state[k].astype(float) - other[k]) ** 2).sum() for k in state))


def random_walk(n: int, drift: float, seed: int = 0) -> list[Arrays]:
    """Weights that go somewhere: each step in about the same direction as the last one."""
    rng = np.random.default_rng(seed)
    at, way = rng.normal(size=(2, 5000))
    states = []
    for _ in range(n):
        states.append({"a": at[:2000].astype(np.float32), "b": at[2000:].astype(np.float32)})
        way = drift * way + (1 - drift) * rng.normal(size=at.size)
        at = at + 0.01 * way * np.abs(rng.normal(size=at.size))
    return states


@pytest.mark.parametrize(
    ("target", "asynchronous"),
    [({}, False), ({"bits": 2}, True), ({"budget": 0.05}, False)],
    ids=str,
)
def test_a_save_says_what_it_leaves(
    tmp_path: Path, target: dict[str, Any], asynchronous: bool
) -> None:
    """Of its change, and of what was trained since the base; the record says it too, and both go on
    after a new start."""
    path, states = tmp_path / "run.lcc", random_walk(7, 0.9)
    base, track = states[0], states[0]
    for i, state in enumerate(states):
        if i == 4:
            base = track = state
        with codec.Checkpointer(
            path, **target, resume=True, base_every=3, asynchronous=asynchronous
        ) as checkpoints:
            saved = checkpoints.save(i, state).result()
        before, track = track, codec.restore(path)
        assert saved.kind == ("base" if i in (0, 4) else "delta")
        if saved.kind == "base":
            assert (saved.distance, saved.behind) == (0.0, 0.0)
            continue
        left = norm(state, track)
        assert saved.distance == pytest.approx(left / norm(state, before), rel=1e-5)
        assert saved.behind == pytest.approx(left / norm(state, base), rel=1e-5)
        rest = codec.Chain(path).at().record.rest
        assert rest == pytest.approx((saved.distance, saved.behind), abs=0.0006)


def test_far_behind_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the setting that would not be; where the track keeps up, nothing is."""
    states = random_walk(12, 0.95)
    for target, most in (({"bits": 1}, 1), ({}, 0), ({"bits": 6}, 0)):
        caplog.clear()
        with codec.Checkpointer(tmp_path / f"{most}{target}", **target) as checkpoints:
            saves = [checkpoints.save(i, state) for i, state in enumerate(states)]
        if not target:  # without a target a restart is close
            assert checkpoints.coding == Coding(distance=0.3)
            assert all(saved.distance <= 0.3 for saved in saves)
            assert saves[4].behind < 0.15
        said = [r.getMessage() for r in caplog.records if "behind" in r.getMessage()]
        assert len(said) == most
        if said:
            assert saves[-1].behind > 0.5
            assert "pass distance=0.3 instead" in said[0]


@pytest.mark.parametrize(
    ("target", "advised"),
    [
        ({"bits": 1}, 0.3),
        ({"budget": 0.02, "quantizer": "exponent"}, 0.3),
        ({"tolerance": 0.05}, 0.3),
        ({"distance": 0.9}, 0.3),
        ({"distance": 0.3}, 0.15),
        ({}, 0.15),
        ({"distance": 0.1}, 0.05),
        ({"bits": None}, None),  # all buckets: half of what they leave
    ],
)
def test_the_log_names_a_setting_that_brings_a_restart_closer(
    target: dict[str, Any], advised: float | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It never advises what is set already, nor what leaves more."""
    states: list[Any] = random_walk(5, 0.95)
    if advised != 0.3:  # weights that swing, and end close to the base
        rng = np.random.default_rng(0)
        base, swing, way = rng.normal(size=(3, 5000)).astype(np.float32)
        states = [{"w": base + move} for move in (0, swing, -swing, swing, 0.05 * way)]

    last = save_all(tmp_path / "set", states, **target)[-1]
    (said,) = (r.getMessage() for r in caplog.records if "behind" in r.getMessage())
    distance = float(said.removesuffix(" instead").rpartition("pass distance=")[2])
    assert distance == pytest.approx(advised or last.distance / 2, rel=0.05)
    advised_last = save_all(tmp_path / "advised", states, distance=distance)[-1]
    assert advised_last.behind < 0.7 * last.behind


def test_behind_weights_that_have_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was trained since the base: the log and `info` have words in place of "inf"."""
    path, rng = tmp_path / "run.lcc", np.random.default_rng(0)
    states = [{"w": rng.normal(size=1000).astype(np.float32)} for _ in range(3)]
    assert save_all(path, [*states, states[0]], bits=1)[-1].behind == math.inf
    (said,) = (r.getMessage() for r in caplog.records if "behind" in r.getMessage())
    assert "would be behind, and the saved weights are where they were at the base (" in said
    assert main(["info", str(path)]) == 0
    assert "behind by 10 times what was trained since the base, or more" in capsys.readouterr().out


@pytest.mark.parametrize("asynchronous", [False, True])
def test_resume_of_a_damaged_chain(run: Path, asynchronous: bool) -> None:
    path = run / "00000030.delta.safetensors"
    shorten(path)
    damaged = path.read_bytes()
    with pytest.warns(errors.SkippedRecordWarning, match="step 20; 1 records after it"):
        checkpoints = codec.Checkpointer(run, resume=True, asynchronous=asynchronous)
    assert checkpoints.step == 20
    assert (run / "00000030.delta.safetensors.unusable").read_bytes() == damaged
    saved = checkpoints.save(30, codec.restore(run))
    assert saved.kind == "delta"
    checkpoints.close()
    assert codec.verify(run).problems == ()
    assert codec.verify(run).steps == (0, 10, 20, 30)
    path.write_bytes(b"again")  # and what was set aside before stays as well
    with pytest.warns(errors.SkippedRecordWarning, match="step 20; 1 records"):
        codec.Checkpointer(run, resume=True).close()
    assert (run / "00000030.delta.safetensors.unusable").read_bytes() == damaged
    assert (run / "00000030.delta.safetensors.unusable-2").read_bytes() == b"again"


def test_resume_of_a_chain_whose_base_is_damaged(tmp_path: Path) -> None:
    """The base before it is gone on from; without one nothing is touched."""
    states = [{"w": np.full(8 if step < 2 else 20, step, np.float32)} for step in range(3)]
    path = tmp_path / "run.lcc"
    assert [s.kind for s in save_all(path, states, bits=None)] == ["base", "delta", "base"]
    shorten(path / "00000002.base.safetensors")
    with pytest.warns(errors.SkippedRecordWarning, match="step 1; 1 records"):
        checkpoints = codec.Checkpointer(path, resume=True)
    assert checkpoints.save(2, states[1]).kind == "delta"
    checkpoints.close()
    assert codec.verify(path).ok
    shorten(path / "00000000.base.safetensors")
    names = sorted(p.name for p in path.iterdir())
    with pytest.raises(codec.RecordError, match="no step restores: put back a copy"):
        codec.Checkpointer(path, resume=True)
    assert sorted(p.name for p in path.iterdir()) == names


def test_a_newer_format_is_not_set_aside(run: Path) -> None:
    (run / "00000030.delta.safetensors").write_bytes(
        (GOLDEN / "bad" / "version-4.safetensors").read_bytes()
    )
    with pytest.raises(errors.VersionError):
        codec.Checkpointer(run, resume=True)
    assert (run / "00000030.delta.safetensors").exists()


def test_path_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(codec.WriteError, match="is no directory and cannot become one"):
        codec.Checkpointer(tmp_path / "x")
    with pytest.raises(codec.WriteError, match="is no directory"):
        codec.Checkpointer(tmp_path / "x" / "run.lcc")


@pytest.mark.parametrize("call", ["mkdir", "open"])  # of the directory, of the lock in it
@pytest.mark.parametrize(
    ("number", "text"), [(errno.EROFS, "read-only file system"), (errno.EACCES, "may not write")]
)
def test_a_place_that_refuses_says_why(
    number: int, text: str, call: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    def refused(where: object, *_args: object, **_named: object) -> None:
        raise OSError(number, os.strerror(number), str(where))

    if call == "open":
        (tmp_path / "run.lcc").mkdir()
    monkeypatch.setattr(os, call, refused)
    with pytest.raises(
        codec.WriteError, match=rf"run\.lcc: .*{text}.*choose another place"
    ) as caught:
        codec.Checkpointer(tmp_path / "run.lcc")
    assert "no directory" not in str(caught.value)


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
        with pytest.raises(errors.StepOrderError, match=f"step {early} is not after .* 5"):
            checkpoints.save(early, state)
    for step in (np.uint64(10**8), 123456789012, 2**63 - 1):
        checkpoints.save(step, state)
    assert codec.Chain(tmp_path / "run.lcc").steps == (5, 10**8, 123456789012, 2**63 - 1)
    assert (tmp_path / "run.lcc" / f"{2**63 - 1}.delta.safetensors").exists()
    assert codec.verify(tmp_path / "run.lcc").ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_dead_writer_holds_no_lock(tmp_path: Path) -> None:
    """Killed without a chance to clean up, its forked child still alive."""
    path, (here, there) = tmp_path / "run.lcc", os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setsid()
            checkpoints = codec.Checkpointer(path)
            checkpoints.save(0, {"n": np.array(1)})
            (path / ".lcc-left-over").touch()
            os.fork()  # which has let go of the lock once it runs
            os.write(there, b".")
            signal.pause()
        os._exit(1)
    os.close(there)
    try:
        assert os.read(here, 1) + os.read(here, 1) == b".."
        with pytest.raises(errors.LockedError):
            codec.Checkpointer(path, resume=True)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with codec.Checkpointer(path, resume=True) as checkpoints:
            assert checkpoints.save(1, {"n": np.array(2)}).kind == "delta"
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.close(here)
    names = sorted(p.name for p in path.iterdir())
    assert names == [".lock", "00000000.base.safetensors", "00000001.delta.safetensors"]


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({"w": [object()]}, errors.DTypeError),
        ({(1, 2): np.zeros(1)}, errors.StateMismatchError),
        ({"\udc80": np.zeros(1)}, errors.DTypeError),
        ([np.zeros(1)], errors.DTypeError),
        ({"w": torch.zeros(9).to_sparse()}, errors.DTypeError),
    ],
)
def test_a_refused_state_changes_nothing(run: Path, state: Any, error: type) -> None:
    before = sorted(run.iterdir())
    checkpoints = codec.Checkpointer(run, resume=True)
    with pytest.raises(error):
        checkpoints.save(40, state)
    assert sorted(run.iterdir()) == before
    assert checkpoints.step == 30


# One that `Coding` refuses: test_coding has the others.
WRONG: list[dict[str, Any]] = [{"bits": 9}]
NO_TARGETS = ["tolerance=0", "tolerance=-1", "bits=9", "distance=1", "tolerance=x", "tolerance"]
WRONG += [{"policy": {"w": t}} for t in (*NO_TARGETS, "bits=", "budget=0.1", "lossy=1")]
WRONG += [{"base_every": n} for n in (0, True, 2.0)] + [{"keep_steps": n} for n in (0, "2")]
WRONG += [{"restore_work": n} for n in (0, -1.0, True, "2", float("nan"))]


@pytest.mark.parametrize("setting", WRONG, ids=str)
def test_settings(tmp_path: Path, setting: dict[str, Any]) -> None:
    more = {"policy": ("tolerance", "bits", "distance")}
    names = [*setting, *(name for key in setting for name in more.get(key, ()))]
    with pytest.raises(codec.SettingsError, match="|".join(names)):
        codec.Checkpointer(tmp_path / "run.lcc", **setting)
    assert not (tmp_path / "run.lcc").exists()


@pytest.mark.parametrize("what", ["digest", "stream"])
def test_a_wrong_record_is_never_published(run: Path, monkeypatch: Patch, what: str) -> None:
    """It is decoded from its own bytes before it gets its name; the track stays as it was."""
    checkpoints = codec.Checkpointer(run, bits=3, resume=True)
    before, tracker = sorted(run.iterdir()), tracker_of(checkpoints)
    track, sums = {k: a.copy() for k, a in tracker.state.items()}, dict(tracker.track.sums)
    real = records.dump_delta

    def wrong(place: records.Place, track: str, delta: codec.Delta, *layout: Any) -> bytes:
        if what == "digest":
            return real(place, "0" * 32, delta, *layout)
        (group,) = delta.groups
        payload = group.encoded.payload
        payload = replace(payload, streams=payload.streams - np.uint32(1))
        encoded = replace(group.encoded, payload=payload)
        damaged = replace(delta, groups=(replace(group, encoded=encoded),))
        return real(place, track, damaged, *layout)

    monkeypatch.setattr(records, "dump_delta", wrong)
    error = errors.TrackDigestError if what == "digest" else errors.MalformedRecordError
    with pytest.raises(error, match=r"^00000040\.delta\.safetensors: "):
        checkpoints.save(40, random_states(1)[0])
    assert sorted(run.iterdir()) == before
    assert (checkpoints.tracker is tracker) == (what == "stream")  # else the next save is a base
    assert all(tracker.state[k].tobytes() == a.tobytes() for k, a in track.items())
    assert tracker.track.sums == sums


def test_interrupted_after_publishing(run: Path) -> None:
    """The record is there, but who knows how far the track went: the next save is a base."""
    *_, state, last = random_states(6)
    checkpoints = codec.Checkpointer(run, bits=3, resume=True)

    def interrupt(track: Track, delta: codec.Delta) -> None:
        track.arrays["w"] += 1
        raise KeyboardInterrupt

    with mock.patch.object(Track, "apply", interrupt), pytest.raises(KeyboardInterrupt):
        checkpoints.save(40, state)
    with pytest.raises(errors.StepOrderError):  # a second record of that step would have no parent
        checkpoints.save(40, last)
    assert codec.restore(run, 40)["d"].tobytes() == state["d"].tobytes()
    saved = checkpoints.save(50, last)
    assert (saved.kind, saved.delta) == ("base", None)
    assert checkpoints.save(60, state).kind == "delta"
    report = codec.verify(run)
    assert (report.problems, report.steps) == ((), (0, 10, 20, 30, 40, 50, 60))
    back = codec.restore(run, 50)
    assert all(back[k].tobytes() == a.tobytes() for k, a in last.items())


# Infinity and NaN that stay


def test_a_warning_names_a_few_of_many_tensors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = {f"tensor{i}": np.zeros(8, np.float32) for i in range(300)}
    broken = {name: a + np.float32(np.nan) for name, a in first.items()}
    save_all(tmp_path / "run.lcc", [first, broken])
    (record,) = caplog.records
    assert "'tensor0'" in record.getMessage()
    assert "297 more" in record.getMessage()
    assert len(record.getMessage()) < 200


# Budgets


@pytest.mark.parametrize(
    ("quantizer", "budget", "scope", "coder"),
    [
        ("exponent", 0.02, "model", "runlength"),
        ("uniform", 0.05, "tensor", "runlength"),
        ("exponent", 0.1, "tensor", "huffman"),
        ("uniform", 0.1, "model", "runlength"),
        ("uniform", 0.3, "tensor", "huffman"),
    ],
)
def test_a_budget_is_kept_on_disk(
    tmp_path: Path, quantizer: str, budget: float, scope: str, coder: str, monkeypatch: Patch
) -> None:
    """What is lossy never takes more than its share of the float32 size, and what was foretold;
    heavy tails."""
    foretold, header = [], records.header_nbytes
    monkeypatch.setattr(
        records, "header_nbytes", lambda *a, **k: foretold.append(header(*a, **k)) or foretold[-1]
    )
    rng, path = np.random.default_rng(5), tmp_path / "run.lcc"
    shapes = {"a": (100, 175), "b": (10_000,)} | {f"c{i}": (30, 50) for i in range(15)}
    state: Arrays = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    settings = {"budget": budget, "scope": scope, "coder": coder, "quantizer": quantizer}
    with codec.Checkpointer(path, **settings) as checkpoints:
        for step in range(3):
            saved = checkpoints.save(step, state | {"exact": rng.normal(size=50)})
            assert saved.nbytes == codec.Chain(path).entries[-1].nbytes
            for k, s in shapes.items():
                state[k] = state[k] + (rng.standard_t(2, size=s) * 1e-4).astype(np.float32)
            if saved.delta is None:
                continue
            assert (saved.full_nbytes, saved.lossy_nbytes) == (4 * 50_000 + 400, 4 * 50_000)
            lossy = saved.nbytes - saved.exact_nbytes
            assert lossy <= budget * saved.lossy_nbytes
            more = sum(g.encoded.nbytes for g in saved.delta.groups) + foretold[-1] - lossy
            small = 3 * len(saved.delta.groups) + 16  # zeros after tables, digits in the header
            assert 0 <= more <= max(0.03 * lossy, small)
            if quantizer == "uniform" and budget < 0.3:  # too few levels for these tails
                assert lossy > 0.97 * budget * saved.lossy_nbytes
            if quantizer == "exponent" and coder == "runlength":
                assert lossy > 0.6 * budget * saved.lossy_nbytes
    assert len(set(foretold)) == 1  # the same for every step
    assert codec.verify(path).ok
    assert [p.delta.coding.budget for p in codec.Chain(path).replay() if p.delta] == [budget] * 2


def test_a_bit_for_every_value_is_too_much_for_a_small_budget(tmp_path: Path) -> None:
    """The error names a budget of two digits that is large enough, with a margin of a quarter."""
    w = np.random.default_rng(0).normal(size=9000).astype(np.float32)

    def save(budget: float) -> None:
        path = tmp_path / f"{budget}.lcc"
        save_all(path, [{"w": w}, {"w": 2 * w}], budget=budget, coder="huffman")

    with pytest.raises(errors.BudgetError, match="runlength") as refused:
        save(0.02)
    named = re.search(r"Pass budget=(0\.0\d\d?) or more", str(refused.value))
    assert named
    enough = float(named[1])
    assert refused.value.budget == enough
    save(enough)
    with pytest.raises(errors.BudgetError):
        save(0.7 * enough)


def test_no_budget_above_the_whole_is_named(tmp_path: Path) -> None:
    states = [{"w": scale * np.arange(40, dtype=np.float32)} for scale in (0, 1)]
    with pytest.raises(errors.BudgetError, match="Pass bits instead of a budget") as refused:
        save_all(tmp_path / "run.lcc", states, budget=0.9)
    assert refused.value.budget is None


SCRIPT = """
import sys
import numpy as np
import codec

path, threads = sys.argv[1], int(sys.argv[2])
codec.set_threads(threads)
rng = np.random.default_rng(1)
for number, settings in enumerate((
    {"bits": 3, "scope": "tensor"}, {"bits": None, "coder": "huffman"}, {"budget": 0.05},
    {"tolerance": 1e-3}, {"budget": 0.05, "quantizer": "exponent"},
)):
    with codec.Checkpointer(f"{path}/{number}", **settings) as checkpoints:
        for step in range(3):
            state = {name: rng.standard_t(3, size=(150, 450)).astype("f4") for name in ("b", "a")}
            state["c"] = rng.normal(size=(30, 7)).astype("f4")
            state["c"][0, 0] = np.nan if step == 1 else 0
            state["o"] = np.full(70_000, step, "f4")
            checkpoints.save(step, state | {"n": np.array(step), "h": np.ones(9, "f2") * step})
"""


def test_same_bytes_in_another_process(tmp_path: Path, monkeypatch: Patch) -> None:
    """Neither the order of sets nor that of threads shows in a record."""
    root = Path(codec.__file__).parents[1]
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "there"), "3"]
    subprocess.run(command, check=True, env=environment)
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "here"), "1"])
    threads = codec.threads()
    try:
        exec(SCRIPT, {})
    finally:
        codec.set_threads(threads)
    here, there = (
        {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*.safetensors")}
        for path in (tmp_path / "here", tmp_path / "there")
    )
    assert len(here) == 5 * 3
    assert here == there


def test_an_interrupted_step_is_saved_again(run: Path) -> None:
    """As who handles Ctrl-C would do it: nobody was told of the delta, which is taken back."""
    *_, state, last = random_states(6)
    publish = storage.publish

    def interrupted(*args: Any, **kwargs: Any) -> None:
        publish(*args, **kwargs)
        raise KeyboardInterrupt

    with codec.Checkpointer(run, bits=3, resume=True) as checkpoints:
        with mock.patch.object(storage, "publish", interrupted), pytest.raises(KeyboardInterrupt):
            checkpoints.save(40, state)
        assert (run / "00000040.delta.safetensors").exists()
        assert checkpoints.save(40, last).kind == "delta"
        assert checkpoints.save(45, last).kind == "delta"
    for step in (40, None):
        restored = codec.restore(run, step)
        assert all(restored[k].tobytes() == last[k].tobytes() for k in ("d", "ids"))
    assert (codec.verify(run).problems, codec.verify(run).steps) == ((), (0, 10, 20, 30, 40, 45))


def test_a_record_is_checked_while_the_disk_writes(run: Path, monkeypatch: Patch) -> None:
    """A record that fails has no name, and the next save is a delta to the same track."""
    *_, state, last = random_states(6)
    begun, fails = [], [True, False]
    advise, check = os.posix_fadvise, Draft.check

    def advised(file: int, *others: Any) -> None:
        begun.append(os.fstat(file).st_size)
        advise(file, *others)

    def checked(draft: Draft, track: Track) -> Any:
        assert begun.pop() == len(draft.data)
        assert not (run / draft.name).exists()
        if fails.pop(0):
            raise errors.DigestError("r", "x", "y")
        return check(draft, track)

    with codec.Checkpointer(run, bits=3, resume=True) as checkpoints:
        monkeypatch.setattr(os, "posix_fadvise", advised)
        monkeypatch.setattr(Draft, "check", checked)
        with pytest.raises(errors.DigestError):
            checkpoints.save(40, state)
        saved = checkpoints.save(50, last)
        assert saved.kind == "delta"
    assert (codec.verify(run).problems, codec.verify(run).steps) == ((), (0, 10, 20, 30, 50))


def test_what_a_save_returns_takes_less_than_the_state(tmp_path: Path) -> None:
    """Who keeps it for each step keeps what was coded, not what spared decoding it."""
    rng, states = np.random.default_rng(0), []
    for step in range(2):
        moments = {"exp_avg": rng.normal(size=9000), "exp_avg_sq": rng.random(9000)}
        state = {name: array.astype(np.float32) for name, array in moments.items()}
        states.append({"optimizer": {"state": {0: state}}, "ids": np.arange(9000) + step})
    saved = save_all(tmp_path / "run.lcc", states)[-1]
    assert saved.delta.residuals
    assert not saved.delta.after
    assert len(saved.delta.groups) == 2
    assert all(group.encoded.known is None for group in saved.delta.groups)


def test_a_record_that_could_not_be_taken_back(tmp_path: Path, monkeypatch: Patch) -> None:
    """It has its name, but the save failed, and so did removing it: the next save does that."""
    states = random_states(4)
    refuse = mock.Mock(side_effect=OSError(errno.EIO, "no"))
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        for step in (0, 10):
            with monkeypatch.context() as patch:
                patch.setattr(storage, "fsync_directory", refuse)
                patch.setattr(os, "unlink", refuse)
                with pytest.raises(codec.WriteError):
                    checkpoints.save(step, states[0])
                with pytest.raises(codec.WriteError, match="left of a failed save"):
                    checkpoints.save(step + 1, states[0])
            assert codec.Chain(tmp_path / "run.lcc").steps[-1] == step
            assert checkpoints.save(step + 1, states[1]).kind == ("delta" if step else "base")
    report = codec.verify(tmp_path / "run.lcc")
    assert (report.problems, report.steps) == ((), (1, 11))


def test_a_disk_that_cannot_be_read_for_a_while(run: Path) -> None:
    """The newest base is damaged, and of what is before it nothing is set aside."""
    save_all(run, [{"other": np.zeros(9, np.float32)}], 40, resume=True)
    (run / "00000040.base.safetensors").write_bytes(b"damaged")
    before = sorted(run.iterdir())
    read_bytes = Path.read_bytes

    def fail(path: Path) -> bytes:
        if path.name.startswith("00000010"):
            raise OSError(errno.EIO, "no")
        return read_bytes(path)

    with (
        mock.patch.object(Path, "read_bytes", fail),
        pytest.raises(codec.ChainError, match=r"00000010\.delta.*cannot be read"),
    ):
        codec.Checkpointer(run, resume=True)
    assert sorted(run.iterdir()) == before
    with pytest.warns(errors.SkippedRecordWarning, match="goes on from step 30; 1 records"):
        assert codec.Checkpointer(run, resume=True).step == 30


@pytest.mark.parametrize("call", ["stat", "scandir"])
def test_a_directory_that_cannot_be_looked_into(run: Path, call: str) -> None:
    """It is not taken for an empty one, and the lock is let go of."""
    real = getattr(os, call)
    for failing in range(8):
        calls = iter(range(100))

        def refuse(path: Any = ".", *args: Any, calls: Any = calls, **kwargs: Any) -> Any:
            if str(path) == str(run) and next(calls) == failing:  # noqa: B023
                raise OSError(errno.EIO, "no")
            return real(path, *args, **kwargs)

        with mock.patch.object(os, call, refuse), contextlib.suppress(codec.ChainError):
            codec.Checkpointer(run, resume=True).close()
    assert codec.Checkpointer(run, resume=True).step == 30


@pytest.mark.parametrize("asynchronous", [False, True])
def test_restore_of_what_is_there(tmp_path: Path, asynchronous: bool) -> None:
    """The same as from disk, and its own memory: what is done to it reaches no record."""
    path, w = tmp_path / "run.lcc", torch.arange(20.0)
    with codec.Checkpointer(path, asynchronous=asynchronous) as checkpoints:
        assert (checkpoints.step, checkpoints.restore()) == (None, None)
        for step in range(3):
            checkpoints.save(step, {"model": {"w": w * step, "tied": w}, "step": step})
            state = checkpoints.restore()
            expected = codec.restore(path)
            assert state is not None
            assert state["step"] == expected["step"] == step
            assert torch.equal(state["model"]["w"], expected["model"]["w"])
            state["model"]["w"].zero_()
    with codec.Checkpointer(path, resume=True, asynchronous=asynchronous) as checkpoints:
        state = checkpoints.restore()
        assert state is not None
        assert checkpoints.step == state["step"] == 2
        assert torch.equal(state["model"]["w"], codec.restore(path)["model"]["w"])


# Bases by a policy


def test_base_every(tmp_path: Path) -> None:
    """So many deltas, then a base of the state itself; counted across a resume too."""
    path, states = tmp_path / "run.lcc", sparse_states(9)
    for begin, end in ((0, 2), (2, 7), (7, 9)):
        saves = save_all(path, states[begin:end], begin, base_every=3, resume=True)
        assert [s.kind for s in saves] == ["delta" if s.step % 4 else "base" for s in saves]
    assert kinds_in(path) == "bdddbdddb"
    for step in (4, 8):
        back = codec.restore(path, step)
        assert all(back[k].tobytes() == a.tobytes() for k, a in states[step].items())
    chain = codec.Chain(path)
    assert [p.step for p in chain.replay()] == [8]
    bases = [chain.read(e) for e in chain.entries if e.kind == "base"]
    assert [(b.replaces, b.identity == b.digest) for b in bases] == [(None, True)] * 3
    assert bases[1].parent == chain.read(chain.entries[3]).digest
    assert codec.verify(path).ok


def test_what_base_every_counts(tmp_path: Path) -> None:
    """From other tensors on anew; and without it there are no bases but the first."""
    others = ({"w": np.zeros(8 if step < 2 else 20, np.float32)} for step in range(9))
    save_all(tmp_path / "other", others, base_every=3)
    assert kinds_in(tmp_path / "other") == "bd" + "bddd" + "bdd"
    grown = ({"w": np.full(16, step * 1.1**step, np.float32)} for step in range(40))
    save_all(tmp_path / "none", grown, restore_work=None)
    assert kinds_in(tmp_path / "none") == "b" + 39 * "d"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_restore_work(tmp_path: Path, asynchronous: bool) -> None:
    """Bases come when a restore would decode so many states: later with deltas of a part of it,
    earlier with context codes. Counted across a resume too."""
    path, n = tmp_path / "run.lcc", 300_000
    rng, arrays = np.random.default_rng(0), {"w": np.zeros(n, np.float32), "v": np.arange(9.0)}

    def save(steps: Iterable[int], changed: str, **settings: Any) -> None:
        options = {"restore_work": 4, "resume": True, "asynchronous": asynchronous} | settings
        with codec.Checkpointer(path, **options) as checkpoints:
            for step in steps:
                size = arrays[changed].size
                change = rng.normal(size=size).astype(arrays[changed].dtype)
                arrays[changed] = arrays[changed] + change
                checkpoints.save(step, arrays)

    save(range(7), "w")
    save(range(7, 10), "w")
    assert kinds_in(path) == "bddddbdddd"
    save(range(10, 20), "v")  # a record still takes the time of a million values
    assert kinds_in(path)[10:] == "b" + 6 * "d" + "b" + 2 * "d"
    save(range(20, 29), "w", coder="context")
    assert kinds_in(path)[20:] == "ddb" + "dddb" + "dd"
    save(range(29, 40), "w", coder="runlength", restore_work=None)
    assert "b" not in kinds_in(path)[29:]


@pytest.mark.parametrize(("stride", "expected"), [(1, "bdddbddd"), (1000, "bdddddbd")])
def test_exact_changes_take_more_work(tmp_path: Path, stride: int, expected: str) -> None:
    """If there are many."""
    rng, w = np.random.default_rng(0), np.zeros(300_000, np.float32)
    settings = {"restore_work": 4, "policy": {"*": "exact"}}
    with codec.Checkpointer(tmp_path / "run.lcc", **settings) as checkpoints:
        for step in range(8):
            w[::stride] += rng.normal(size=w[::stride].size).astype(np.float32)
            checkpoints.save(step, {"w": w})
    assert kinds_in(tmp_path / "run.lcc") == expected


def test_small_states_have_few_bases(tmp_path: Path) -> None:
    """By default what a restore may decode does not depend on the size of a small state."""
    states = ({"w": np.full(16, step, np.float32)} for step in range(250))
    save_all(tmp_path / "run.lcc", states)
    assert kinds_in(tmp_path / "run.lcc") == "b" + 135 * "d" + "b" + 113 * "d"


@pytest.mark.parametrize(("keep", "asynchronous"), [(1, False), (2, True), (5, False)])
def test_keep_steps(tmp_path: Path, keep: int, asynchronous: bool) -> None:
    """So many restore; what they do not need is gone at once, also after a resume."""
    path, states = tmp_path / "run.lcc", sparse_states(12)
    options = {"base_every": 2, "keep_steps": keep, "asynchronous": asynchronous}
    seen = []
    for steps in (range(5), range(5, 12)):
        with codec.Checkpointer(path, resume=True, **options) as checkpoints:
            for step in steps:
                assert checkpoints.save(step, states[step]).nbytes > 0  # it is there
                seen.append(kinds_in(path))
    bases = "bddbddbddbdd"
    for step, left in enumerate(seen):
        first = max(step - keep + 1, 0)
        assert left == bases[first - first % 3 : step + 1], step
    report = codec.verify(path)
    assert (report.problems, report.steps[-keep:]) == ((), tuple(range(12))[-keep:])


def test_bases_come_early_where_steps_are_kept(tmp_path: Path) -> None:
    """With three steps, the files never take more than 3.2 times the bytes of a base."""
    path, rng, w = tmp_path / "run.lcc", np.random.default_rng(0), np.zeros(100_000, np.float32)
    most = 0
    with codec.Checkpointer(path, keep_steps=3) as checkpoints:
        for step in range(60):
            w = w + rng.normal(size=w.size).astype(np.float32)
            checkpoints.save(step, {"w": w})
            most = max(most, codec.Chain(path).nbytes)
    assert 2 * w.nbytes < most <= 3.2 * w.nbytes


@pytest.mark.parametrize("asynchronous", [False, True])
def test_compact_beside_a_training(tmp_path: Path, asynchronous: bool) -> None:
    """The chain goes on from the base, with the track and the tables that it had."""
    states, left = sparse_states(12), tmp_path / "left"
    save_all(left, states, bits=2)
    with codec.Checkpointer(tmp_path / "c", 2, asynchronous=asynchronous) as checkpoints:
        with pytest.raises(codec.errors.ChainNotFoundError):
            checkpoints.compact()
        for step, state in enumerate(states):
            checkpoints.save(step, state)
            if step == 5:
                assert checkpoints.compact(3).records == (6, 3)
            if step == 8:
                checkpoints.compact()
                assert checkpoints.restore()["n"] == 8
    assert kinds_in(tmp_path / "c") == "bddd"
    chains = codec.Chain(left), codec.Chain(tmp_path / "c")
    for step in (8, 9, 10, 11):
        assert len({chain.at(step).track.digest for chain in chains}) == 1
    assert codec.verify(tmp_path / "c").ok


def test_a_compaction_that_cannot_read_what_it_leaves(tmp_path: Path) -> None:
    """The chain goes on with a base."""
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path) as checkpoints:
        for step in range(3):
            checkpoints.save(step, {"w": np.full(9, step, np.float32)})
        with (
            mock.patch.object(codec.Chain, "newest", side_effect=codec.ChainError("broken")),
            pytest.raises(codec.ChainError, match="broken"),
        ):
            checkpoints.compact()
        assert checkpoints.save(3, {"w": np.full(9, 3, np.float32)}).kind == "base"
    assert codec.verify(path).steps == (2, 3)


def test_history_that_cannot_be_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The save stands; what could not be removed goes with the next one. A part that is gone
    is no damage."""
    path, unlink, removed = tmp_path / "run.lcc", os.unlink, []

    def refuse(path: Any, *args: Any, **kwargs: Any) -> None:
        if str(path).endswith(".safetensors"):
            if removed:
                raise PermissionError(13, "Permission denied")
            removed.append(path)
        unlink(path, *args, **kwargs)

    with codec.Checkpointer(path, base_every=1, keep_steps=2) as checkpoints:
        with mock.patch.object(os, "unlink", refuse):
            for step in range(5):
                checkpoints.save(step, {"w": np.full(8, step, np.float32)})
                assert codec.verify(path).ok
            assert kinds_in(path) == "bbdb"  # the delta of step 1 is gone
            assert "old records may not all have been removed: " in caplog.text
        checkpoints.save(5, {"w": np.zeros(8, np.float32)})
    assert kinds_in(path) == "bd"
    assert codec.verify(path).steps == (4, 5)
