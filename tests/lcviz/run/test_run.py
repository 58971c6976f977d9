"""A run: what it saves is true, the same every time, and it does what its buttons say."""

from __future__ import annotations

import errno
import math
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import codec
import codec.storage.directory
import demo_models
from codec.record.record import header_nbytes
from codec.state.tensors import copy_arrays
from demo_models import FOLDER_VARIABLE, Task
from lcviz.lab.anatomy import choices
from lcviz.lab.sizes import huffman_nbytes, runlength_nbytes
from lcviz.run import run as session
from lcviz.run.run import Run, RunError, RunSettings

MakeRun = Callable[..., Run]
MODELS = ("logistic-regression", "lenet5", "alexnet", "matrix-factorization")
CHEAP = ("logistic-regression", "matrix-factorization")
EVERY_BITS = (*range(1, 9), None)
ROOT = Path(__file__).resolve().parents[3]


def chain_bytes(path: Path) -> dict[str, bytes]:
    """Every file of a chain directory."""
    return {p.name: p.read_bytes() for p in path.glob("*.safetensors")}


def played(run: Run) -> session.Snapshot:
    """The run when it has come to rest after Play."""
    run.play()
    return run.wait(120)


def bits_of(array: Any) -> bytes:
    return np.ascontiguousarray(np.asarray(array)).tobytes()


@pytest.fixture
def saves(monkeypatch: pytest.MonkeyPatch) -> dict[int, SimpleNamespace]:
    """step -> .live, the state that was handed to the codec, and .track, the track after it."""
    seen: dict[int, SimpleNamespace] = {}
    save = codec.Checkpointer.save

    def spy(self: codec.Checkpointer, step: int, state: Any) -> codec.Saved:
        live = {name: tensor.detach().numpy().copy() for name, tensor in state.items()}
        saved = save(self, step, state)
        assert self.tracker is not None
        seen[step] = SimpleNamespace(live=live, track=copy_arrays(self.tracker.state))
        return saved

    monkeypatch.setattr(codec.Checkpointer, "save", spy)
    return seen


class Gate:
    """Holds a run's thread in the middle of an iteration until it is let through."""

    def __init__(self, run: Run) -> None:
        self._loss = run.task.loss
        self._entered, self._open = threading.Semaphore(0), threading.Semaphore(0)
        run.task.loss = self._held  # type: ignore[method-assign]

    def _held(self, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        self._entered.release()
        assert self._open.acquire(timeout=60), "nobody opened the gate"
        return self._loss(batch)

    def wait_until_inside(self) -> None:
        """Until an iteration is under way."""
        assert self._entered.acquire(timeout=60), "no iteration began"

    def let_through(self, n: int = 1) -> None:
        """n iterations may go on."""
        for _ in range(n):
            self._open.release()


# The same settings, the same bytes.


@pytest.mark.parametrize(
    ("model", "changes"),
    [(model, {}) for model in MODELS]
    + [
        ("logistic-regression", {"optimizer": "adam"}),
        ("lenet5", {"scope": "tensor"}),
        ("lenet5", {"coder": "huffman"}),
        ("lenet5", {"budget": 0.05}),
    ],
)
def test_same_settings_same_bytes(make_run: MakeRun, model: str, changes: dict[str, Any]) -> None:
    first, second = (make_run(model, stop_after=3, **changes) for _ in range(2))
    assert played(first).status == played(second).status == "finished"
    files = chain_bytes(first.path)
    assert len(files) == 4
    assert files == chain_bytes(second.path)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"lr": 0.2},
        {"momentum": 0.5},
        {"batch_size": 9},
        {"coder": "huffman"},
        {"budget": 0.05},
    ],
)
def test_other_settings_other_bytes(make_run: MakeRun, change: dict[str, Any]) -> None:
    first, second = make_run(stop_after=2), make_run(stop_after=2, **change)
    played(first)
    played(second)
    last = "00000002.delta.safetensors"
    assert chain_bytes(first.path)[last] != chain_bytes(second.path)[last]


def test_pausing_and_stepping_leave_no_trace(make_run: MakeRun) -> None:
    """A run that is stepped through saves what a run in one go saves."""
    stepped, whole = make_run(stop_after=4), make_run(stop_after=4)
    for _ in range(4):
        stepped.step()
        stepped.wait(60)
    played(whole)
    assert chain_bytes(stepped.path) == chain_bytes(whole.path)


# What is restored.

RESTORED = [
    (m, s, b, 3 if m in CHEAP else 2)
    for m in demo_models.MODELS
    for s in ("model", "tensor")
    for b in EVERY_BITS
]


@pytest.mark.parametrize(("model", "scope", "bits", "n"), RESTORED)
def test_restored_is_the_track_bit_for_bit(
    make_run: MakeRun,
    saves: dict[int, SimpleNamespace],
    model: str,
    scope: str,
    bits: int | None,
    n: int,
) -> None:
    run = make_run(model, scope=scope, bits=bits, stop_after=n)
    assert played(run).steps == tuple(range(n + 1))
    for step, seen in saves.items():
        restored = codec.restore(run.path, step)
        assert list(restored) == list(seen.track)
        for name, tensor in restored.items():
            assert tensor.dtype == torch.float32
            assert tensor.shape == seen.track[name].shape
            assert bits_of(tensor) == bits_of(seen.track[name])
    for name, array in saves[0].live.items():  # the base is exact
        assert bits_of(saves[0].track[name]) == bits_of(array)
    assert codec.verify(run.path).ok


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_coders_and_budgets_restore_the_same_way(
    make_run: MakeRun, saves: dict[int, SimpleNamespace], scope: str, coder: str
) -> None:
    """With a budget too; and the coder changes no weight."""
    tracks = []
    for kept in ({"bits": 2}, {"budget": 0.2}):
        run = make_run(scope=scope, coder=coder, stop_after=4, **kept)
        saves.clear()
        played(run)
        for step, seen in saves.items():
            for name, tensor in codec.restore(run.path, step).items():
                assert bits_of(tensor) == bits_of(seen.track[name])
        tracks.append({name: bits_of(array) for name, array in saves[4].track.items()})
    plain = make_run(scope=scope, stop_after=4)
    played(plain)
    restored = {name: bits_of(tensor) for name, tensor in codec.restore(plain.path, 4).items()}
    assert restored == tracks[0] != tracks[1]


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
@pytest.mark.parametrize("scope", ["model", "tensor"])
@pytest.mark.parametrize("budget", [0.05, 0.2])
def test_a_budget_is_kept(make_run: MakeRun, budget: float, scope: str, coder: str) -> None:
    """Records fit into it; and with the whole model one bucket more would not.

    Not with the longest header that a record of this run can have, which the codec allows for.
    """
    run = make_run("lenet5", budget=budget, scope=scope, coder=coder, stop_after=5)
    checkpoints = played(run).checkpoints
    base = next(codec.Chain(run.path).replay())
    exact = {t.name: base.state[t.name] for t in base.layout.tensors if not t.lossy}
    longest = header_nbytes(1, base.layout, exact, scope, coder, budget)
    for c in checkpoints[1:]:
        assert c.lossy_nbytes == 4 * sum(a.n for a in c.alphabets)
        room = budget * c.lossy_nbytes
        assert c.nbytes - c.exact_nbytes <= room
        if len(c.alphabets) > 1 or c.alphabets[0].kept == len(c.alphabets[0].buckets):
            continue
        (a,), (codes,) = c.alphabets, run.codes(c.step)
        if coder == "runlength":
            more = runlength_nbytes(codes, a.buckets.keeping(a.kept + 1))
        else:
            more = huffman_nbytes(a.counts(a.kept + 1))
        assert longest + more > room


def test_codes_are_those_of_the_exponent_stage(
    make_run: MakeRun, saves: dict[int, SimpleNamespace]
) -> None:
    """Of what was saved less the track before, which the save itself moves."""
    run = make_run("lenet5", stop_after=3)
    snapshot = played(run)
    assert run.codes(0) == []
    assert run.codes(9) is None
    for step in (1, 2, 3):
        (codes,), (alphabet,) = run.codes(step), snapshot.at(step).alphabets
        before, live = saves[step - 1].track, saves[step].live
        delta = np.concatenate([(live[n] - before[n]).ravel() for n in alphabet.names])
        quantized = codec.quantize(delta)
        assert codes.tolist() == quantized.codes.tolist()
        assert alphabet.buckets.count.tolist() == quantized.buckets.count.tolist()
        record = codec.Chain(run.path)
        delta_record = next(p.delta for p in record.replay(step) if p.entry.step == step)
        assert alphabet.buckets.levels.tolist() == delta_record.groups[0].encoded.levels.tolist()


@pytest.mark.parametrize("scope", ["model", "tensor"])
@pytest.mark.parametrize("model", ["logistic-regression", "lenet5", "matrix-factorization"])
def test_numbers_of_a_checkpoint_are_true(
    make_run: MakeRun, saves: dict[int, SimpleNamespace], model: str, scope: str
) -> None:
    """Sizes from the files, losses from restored states, distances from the tensors."""
    run = make_run(model, scope=scope, stop_after=4)
    snapshot = played(run)
    elements = sum(p.numel() for p in run.task.model.parameters())
    chain = codec.Chain(run.path)
    start = saves[0].live

    def norm(a: dict[str, Any], b: dict[str, Any]) -> float:
        return math.sqrt(sum(np.square(a[k].astype(np.float64) - b[k]).sum() for k in a))

    for c, entry in zip(snapshot.checkpoints, chain.entries, strict=True):
        live, track = saves[c.step].live, saves[c.step].track
        assert (c.step, c.kind) == (entry.step, entry.kind)
        assert c.nbytes == (run.path / entry.name).stat().st_size
        assert c.full_nbytes == 4 * elements
        assert c.restored_loss == run.task.probe_loss(codec.restore(run.path, c.step))
        assert c.live_loss == run.task.probe_loss(live)
        assert c.moved == pytest.approx(norm(live, start), rel=1e-9)
        expected = norm(track, live) / norm(live, start) if c.step else 0.0
        assert c.distance == pytest.approx(expected, rel=1e-9)
        arrays = load_file(run.path / entry.name)
        counted = sum(a.nbytes for name, a in arrays.items() if name not in ("more", "structure"))
        delta = chain.at(c.step).delta
        tables = [g.encoded.table_nbytes for g in delta.groups] if delta else []
        heads = sum(4 * math.ceil((6 + n) / 4) - n for n in tables)  # rows, and zeros after tables
        assert c.stream_nbytes == counted - heads
        assert c.non_finite == ()
        assert c.track == chain.read(entry).track
        assert min(c.train_seconds, c.codec_seconds, c.measure_seconds) >= 0
    assert snapshot.checkpoints[0].alphabets == ()
    assert snapshot.checkpoints[0].distance == 0.0
    lossy = sum(a.n for a in snapshot.newest.alphabets)
    assert lossy == sum(a.size for a in start.values() if a.size >= 8)
    assert snapshot.codec_seconds == pytest.approx(
        sum(c.codec_seconds for c in snapshot.checkpoints)
    )


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_is_that_of_a_plain_loop(make_run: MakeRun, optimizer: str) -> None:
    """Saving and measuring do not disturb the training: losses equal those of a bare loop."""
    run = make_run(optimizer=optimizer, stop_after=5)
    s = run.settings
    task = demo_models.make_task(s.model, s.data, seed=s.seed)
    optimiser = demo_models.make_optimizer(optimizer, task.model.parameters(), s.lr, s.momentum)
    expected = [task.probe_loss()]
    for iteration in range(1, 6):
        optimiser.zero_grad()
        loss = task.loss(task.batch(iteration, s.batch_size))
        loss.backward()
        optimiser.step()
        expected += [loss.item(), task.probe_loss()]
    base, *deltas = played(run).checkpoints
    assert math.isnan(base.train_loss)
    found = [base.live_loss, *(loss for c in deltas for loss in (c.train_loss, c.live_loss))]
    assert found == pytest.approx(expected, rel=1e-6)


# Play, pause, step, finish, close.


def test_a_new_run_is_paused_at_its_base(make_run: MakeRun) -> None:
    snapshot = make_run().snapshot()
    assert (snapshot.status, snapshot.iteration, snapshot.steps) == ("paused", 0, (0,))
    assert snapshot.newest.kind == "base"
    assert snapshot.newest.live_loss == snapshot.newest.restored_loss


def test_play_runs_to_the_end_and_stays_there(make_run: MakeRun) -> None:
    run = make_run(stop_after=3)
    assert played(run).status == "finished"
    for again in (run.play, run.step, run.pause):
        again()
        snapshot = run.wait(60)
        assert (snapshot.status, snapshot.iteration, snapshot.message) == ("finished", 3, "")


def test_pause_waits_for_the_iteration_under_way(make_run: MakeRun) -> None:
    run = make_run(stop_after=50)
    gate = Gate(run)
    run.play()
    gate.wait_until_inside()
    run.pause()
    assert run.snapshot().status == "playing"  # until it has come to rest
    assert run.wait(0.01).status == "playing"
    gate.let_through()
    snapshot = run.wait(60)
    assert (snapshot.status, snapshot.iteration, snapshot.newest.step) == ("paused", 1, 1)
    gate.let_through(50)
    assert run.wait(0.05).iteration == 1  # and nothing more is trained
    run.play()
    assert run.wait(60).status == "finished"


@pytest.mark.parametrize("interval", [1, 3])
def test_step_goes_on_by_exactly_one_interval(make_run: MakeRun, interval: int) -> None:
    run = make_run(interval=interval, stop_after=4 * interval)
    for i in range(1, 4):
        run.step()
        snapshot = run.wait(60)
        assert (snapshot.status, snapshot.iteration) == ("paused", i * interval)
        assert snapshot.newest.step == i * interval
    run.step()
    assert run.wait(60).status == "finished"


def test_step_from_between_two_checkpoints_ends_at_the_next(make_run: MakeRun) -> None:
    """Paused at iteration 1 of an interval of 3: a step trains up to the checkpoint of 3."""
    run = make_run(interval=3, stop_after=30)
    gate = Gate(run)
    run.play()
    gate.wait_until_inside()
    run.pause()
    gate.let_through()
    assert run.wait(60).iteration == 1
    gate.let_through(30)
    run.step()
    snapshot = run.wait(60)
    assert (snapshot.iteration, snapshot.newest.step) == (3, 3)


def test_step_while_playing_ends_the_playing(make_run: MakeRun) -> None:
    run = make_run(stop_after=500)
    gate = Gate(run)
    run.play()
    gate.wait_until_inside()
    run.step()
    gate.let_through(500)
    snapshot = run.wait(60)
    assert snapshot.status == "paused"
    assert snapshot.iteration <= 2


def test_interval_of_seven(make_run: MakeRun) -> None:
    """Iterations between checkpoints are trained but not saved, the last ones neither."""
    run = make_run(interval=7, stop_after=20)
    snapshot = played(run)
    assert (snapshot.status, snapshot.iteration, snapshot.steps) == ("finished", 20, (0, 7, 14))
    assert codec.verify(run.path).steps == (0, 7, 14)
    assert [snapshot.at(s).step for s in (-1, 0, 6, 7, 13, 14, 999)] == [0, 0, 0, 7, 7, 14, 14]
    every = make_run(interval=1, stop_after=14)
    assert played(every).newest.live_loss == snapshot.newest.live_loss  # the same training


def test_close_ends_the_thread_and_deletes_the_chain(make_run: MakeRun) -> None:
    run = make_run(stop_after=10_000)
    run.play()
    run.close()
    assert not run.path.exists()
    assert f"run-{run.id}" not in {t.name for t in threading.enumerate()}
    for again in (run.play, run.step, run.pause, run.close):
        again()
        assert run.wait(1).status == "closed"


def test_who_waits_for_a_run_is_woken_when_it_is_closed(make_run: MakeRun) -> None:
    """Step in one tab, Reset in another, in the middle of an iteration."""
    run = make_run(stop_after=50)
    gate = Gate(run)
    run.step()
    gate.wait_until_inside()
    run.stop()
    gate.let_through()
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(run.wait().status), daemon=True)
    waiting.start()
    waiting.join(300)
    assert found == ["closed"]


def test_a_closed_run_lets_go_of_what_it_kept(make_run: MakeRun) -> None:
    """Whoever still shows it holds it for a while."""
    run = make_run(stop_after=4)
    played(run)
    newest = run.states()
    run.close()
    assert run.steps_held() == (4,)
    assert run.states() is newest
    assert all(run.codes(step) is None for step in range(5))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"interval": 0}, "are at least 1"),
        ({"stop_after": 0}, "are at least 1"),
        ({"interval": 30, "stop_after": 20}, "nothing would be saved: lower the interval"),
    ],
)
def test_impossible_settings(make_run: MakeRun, changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(RunError, match=sentence):
        make_run(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 100_000},
        {"data": "mnist", "folder": "/nowhere"},
        {"data": "jester"},
        {"lr": 0.0},
        {"momentum": 1.0},
        {"model": "resnet"},
    ],
)
def test_settings_that_the_models_refuse(
    make_run: MakeRun, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """The error comes from the constructor, and no chain is begun."""
    settings = {"lr": 0.1, "model": "logistic-regression"} | changes
    with pytest.raises(demo_models.DataError):
        Run("x", RunSettings(**settings), tmp_path / "run.lcc")
    assert not (tmp_path / "run.lcc").exists()


def test_a_chain_that_is_there_is_not_touched(make_run: MakeRun) -> None:
    run = make_run(stop_after=1)
    played(run)
    run._thread.join()  # which lets go of the chain last
    before = chain_bytes(run.path)
    with pytest.raises(codec.StepOrderError):
        Run("second", run.settings, run.path)
    assert chain_bytes(run.path) == before


# Measuring losses.


def test_losses_are_measured_only_now_and_then(make_run: MakeRun) -> None:
    """With hardly any time for it the base and the newest are known, and no byte changes."""
    rare = make_run("lenet5", stop_after=6, loss_share=1e-6)
    always = make_run("lenet5", stop_after=6)
    few, all_of_them = played(rare), played(always)
    assert [c.step for c in all_of_them.measured] == list(range(7))
    measured = [c.step for c in few.measured]
    assert measured[0] == 0
    assert measured[-1] == 6
    assert len(measured) < 7
    for c in few.measured:
        twin = all_of_them.checkpoints[c.step]
        assert (c.live_loss, c.restored_loss) == (twin.live_loss, twin.restored_loss)
    for c in few.checkpoints:
        assert (c.live_loss is None) == (c.restored_loss is None) == (not c.measured)
    assert chain_bytes(rare.path) == chain_bytes(always.path)


def test_a_pause_measures_the_newest_checkpoint(make_run: MakeRun) -> None:
    run = make_run("lenet5", stop_after=6, loss_share=1e-6)
    for step in (1, 2, 3):
        run.step()
        snapshot = run.wait(60)
        assert snapshot.newest.step == step
        assert snapshot.newest.restored_loss == run.task.probe_loss(codec.restore(run.path, step))


# Watching.


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.perf_counter = time.perf_counter

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(session, "time", made)
    return made


def five_seconds_an_iteration(run: Run, clock: Clock, watched: bool) -> None:
    loss = run.task.loss

    def slow(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        clock.now += 5.0
        if watched:
            run.watch()
        return loss(batch)

    run.task.loss = slow  # type: ignore[method-assign]


def test_pauses_when_nobody_watches(make_run: MakeRun, clock: Clock) -> None:
    run = make_run(stop_after=10)
    five_seconds_an_iteration(run, clock, watched=False)
    for iteration, status in ((4, "paused"), (8, "paused"), (10, "finished")):
        snapshot = played(run)
        assert (snapshot.iteration, snapshot.status) == (iteration, status)  # 20 s at 5 s each
        if status == "paused":
            assert snapshot.message.startswith("Paused, because no page was watching.")
    assert snapshot.message == ""


def test_goes_on_while_somebody_watches(make_run: MakeRun, clock: Clock) -> None:
    run = make_run(stop_after=10)
    five_seconds_an_iteration(run, clock, watched=True)
    assert played(run).status == "finished"
    clock.now += 7
    assert run.seconds_unwatched() == 7
    run.watch()
    assert run.seconds_unwatched() == 0


# Failures.


@pytest.mark.parametrize(
    ("model", "lr", "optimizer"),
    [("lenet5", 1e6, "sgd"), ("matrix-factorization", 100.0, "sgd"), ("alexnet", 1e6, "sgd")],
)
def test_divergence_ends_the_run_with_a_sentence(
    make_run: MakeRun, saves: dict[int, SimpleNamespace], model: str, lr: float, optimizer: str
) -> None:
    run = make_run(model, lr=lr, optimizer=optimizer, stop_after=60)
    snapshot = played(run)
    assert snapshot.status == "failed"
    steps = snapshot.steps
    assert snapshot.iteration == steps[-1]
    assert snapshot.message.startswith("Training diverged: the loss became ")
    assert f" at iteration {steps[-1] + 1}. Every checkpoint up to step {steps[-1]} restores" in (
        snapshot.message
    )
    assert "lower learning rate" in snapshot.message
    assert codec.verify(run.path).steps == steps
    for step in steps:
        for name, tensor in codec.restore(run.path, step).items():
            assert bits_of(tensor) == bits_of(saves[step].track[name])


def test_weights_that_overflow_are_still_saved(make_run: MakeRun) -> None:
    """The loss was finite, the update was not: such tensors are stored exactly, and said."""
    run = make_run(stop_after=5)
    weight = next(run.task.model.parameters())
    update = run._training._optimizer.step

    def overflow(*_: object) -> None:
        update()
        if run.snapshot().iteration == 1:
            with torch.no_grad():
                weight[0, 0] = math.inf

    run._training._optimizer.step = overflow  # type: ignore[method-assign, assignment]
    for _ in range(2):
        run.step()
        snapshot = run.wait(60)
    assert snapshot.status == "paused", snapshot.message
    assert snapshot.steps == (0, 1, 2)
    assert len(snapshot.newest.non_finite) == 1
    name = snapshot.newest.non_finite[0]
    restored = codec.restore(run.path, 2)[name]
    assert bits_of(restored) == bits_of(weight.detach())
    assert codec.verify(run.path).ok


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """fill(): from then on no record can be published."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr(codec.storage.directory.os, "link", refuse)


def test_a_full_disk_ends_the_run_with_a_sentence(
    make_run: MakeRun, saves: dict[int, SimpleNamespace], full_disk: Callable[[], None]
) -> None:
    run = make_run(stop_after=10)
    for _ in range(2):
        run.step()
        run.wait(60)
    before = chain_bytes(run.path)
    full_disk()
    snapshot = played(run)
    assert snapshot.status == "failed"
    assert snapshot.message.startswith("Saving failed")
    assert "No space left on device. Every earlier checkpoint still restores." in snapshot.message
    assert snapshot.steps == (0, 1, 2)
    assert chain_bytes(run.path) == before
    assert codec.verify(run.path).steps == (0, 1, 2)
    for step in (0, 1, 2):
        for name, tensor in codec.restore(run.path, step).items():
            assert bits_of(tensor) == bits_of(saves[step].track[name])


def test_an_unexpected_error_is_told_and_not_swallowed(
    make_run: MakeRun, unhandled: queue.Queue[BaseException]
) -> None:
    run = make_run(stop_after=10)
    run.step()
    run.wait(60)

    def broken(batch: object) -> torch.Tensor:
        raise ValueError("a bug")

    run.task.loss = broken  # type: ignore[method-assign]
    snapshot = played(run)
    assert snapshot.status == "failed"
    assert "unexpected error" in snapshot.message
    assert "a bug" in snapshot.message
    assert str(unhandled.get(timeout=60)) == "a bug"
    assert codec.verify(run.path).steps == (0, 1)


# The removed-bucket experiment on a run.


@pytest.mark.parametrize("model", ["logistic-regression", "lenet5"])
def test_removed_buckets_start_from_the_true_states(
    make_run: MakeRun, saves: dict[int, SimpleNamespace], model: str
) -> None:
    """With nothing left out: the track before, plus E of the delta, plus what is stored exactly."""
    run = make_run(model, stop_after=3)
    snapshot = played(run)
    result = run.removed_buckets(3)
    before, live = saves[2].track, saves[3].live
    lossy = [t for a in snapshot.newest.alphabets for t in a.names]
    delta = np.concatenate([(live[n] - before[n]).ravel() for n in lossy])
    middle = codec.dequantize(codec.quantize(delta))
    state, position = copy_arrays(live), 0  # tiny tensors are stored as they are
    for name in lossy:
        size = before[name].size
        part = middle[position : position + size].reshape(before[name].shape)
        state[name] = before[name] + part
        position += size
    assert result.step == 3
    assert result.loss == run.task.probe_loss(state)
    off = math.sqrt(sum(np.square(state[n].astype(np.float64) - live[n]).sum() for n in live))
    assert result.distance == pytest.approx(off / snapshot.newest.moved, rel=1e-3)
    assert sum(b.count for b in result.buckets) == np.count_nonzero(delta)
    if model == "lenet5":
        assert len(lossy) < len(live)  # its first bias is one of the tiny tensors


def test_removed_buckets_are_measured_once(make_run: MakeRun) -> None:
    run = make_run(stop_after=2)
    played(run)
    calls: list[tuple[int, int]] = []
    first = run.removed_buckets(2, lambda *done: calls.append(done))
    assert calls[-1] == (len(first.buckets), len(first.buckets))
    again = run.removed_buckets(2, lambda *done: calls.append(done))
    assert again is first
    assert len(calls) == len(first.buckets)


@pytest.mark.parametrize("model", ["logistic-regression", "lenet5"])
def test_removed_buckets_of_a_step_that_is_held_need_no_chain(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    """To replay a chain takes the longer, the longer it is; the numbers are the same."""
    held = make_run(model, stop_after=4)
    monkeypatch.setattr(session, "STATES_BUDGET", 0)
    let_go = make_run(model, stop_after=4)
    played(held)
    played(let_go)
    assert held.states(3) is not None
    assert let_go.states(3) is None
    expected = let_go.removed_buckets(3)
    before = copy_arrays(held.states(3).before)

    def unread(*_: object) -> None:
        raise AssertionError("the chain was read")

    monkeypatch.setattr(codec.Chain, "replay", unread)
    assert held.removed_buckets(3) == expected
    for name, array in before.items():  # what is held is as it was
        assert bits_of(held.states(3).before[name]) == bits_of(array)


def test_removed_buckets_of_the_base(make_run: MakeRun) -> None:
    with pytest.raises(RunError, match="The base is stored exactly"):
        make_run().removed_buckets(0)


def test_only_the_newest_codes_are_kept(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """7,850 parameters, a byte each: in 20,000 bytes the last two steps find room."""
    monkeypatch.setattr(session, "CODES_BUDGET", 20_000)
    run = make_run(stop_after=4)
    played(run)
    assert run.codes(2) is None
    assert run.codes(3) is not None
    with pytest.raises(RunError, match="step 2 are no longer in memory"):
        run.removed_buckets(2)
    assert run.removed_buckets(3).step == 3
    assert run.removed_buckets(4).step == 4


def test_states_of_every_step_held(
    make_run: MakeRun, saves: dict[int, SimpleNamespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a delta lies between: the track before it, and what was handed to the codec."""
    run = make_run(stop_after=4)
    played(run)
    assert run.steps_held() == (0, 1, 2, 3, 4)
    base = run.states(0)
    assert base is not None
    assert base.before == {}
    for step in (1, 2, 3, 4):
        states = run.states(step)
        assert states is not None
        assert states.step == step
        for name, live in saves[step].live.items():
            assert bits_of(states.live[name]) == bits_of(live)
            assert bits_of(states.before[name]) == bits_of(saves[step - 1].track[name])
    assert run.states() is run.states(4)
    assert run.states(5) is None
    monkeypatch.setattr(session, "STATES_BUDGET", 150_000)  # 62,800 bytes a step
    few = make_run(stop_after=4)
    played(few)
    assert few.steps_held() == (3, 4)


# The figures that the project promises.


def mnist_folder() -> Path | None:
    """Where MNIST is on this machine, if it is."""
    for folder in (os.environ.get(FOLDER_VARIABLE), ROOT.parent / "shared" / "data" / "mnist"):
        if folder and Path(folder).is_dir():
            try:
                demo_models.make_task("lenet5", "mnist", folder=folder)
            except demo_models.DataError:
                continue
            return Path(folder)
    return None


@pytest.mark.parametrize("coder", ["huffman", "runlength"])
@pytest.mark.parametrize("data", ["digits", "mnist"])
def test_accepted_sizes(make_run: MakeRun, data: str, coder: str) -> None:
    """LeNet-5, 2 bits, every iteration saved: a delta record is at most 4.2 % of float32 with
    the paper's code and far less with run lengths, and with the exponent stage alone at most
    15 %."""
    folder = mnist_folder() if data == "mnist" else None
    if data == "mnist" and folder is None:
        pytest.skip("no MNIST files on this machine")
    run = make_run(
        "lenet5", data=data, folder=folder and str(folder), bits=2, coder=coder, stop_after=100
    )
    deltas = played(run).checkpoints[1:]
    assert len(deltas) == 100
    share = sum(c.nbytes for c in deltas) / sum(c.full_nbytes for c in deltas)
    header = sum(c.nbytes - c.stream_nbytes for c in deltas) / sum(c.full_nbytes for c in deltas)
    every = [choices(c.alphabets)[-1].sizes for c in deltas]
    alone = sum(sizes.share(sizes.huffman) for sizes in every) / 100
    assert share <= (0.042 if coder == "huffman" else 0.0105)
    assert alone + header <= 0.15
    assert deltas[-1].live_loss < deltas[0].live_loss


def test_task_is_the_settings_task(make_run: MakeRun) -> None:
    run = make_run("matrix-factorization", seed=3)
    assert isinstance(run.task, Task)
    assert (run.task.seed, run.task.name) == (3, "matrix-factorization/synthetic-ratings")
