"""A run: what it saves is true, the same every time, and it does what its buttons say."""

import errno
import math
import os
import queue
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import codec
import codec.storage.directory
import demo_models
from codec.errors import StepOrderError
from codec.state.tensors import copy_arrays
from lcviz.lab.sizes import huffman_nbytes
from lcviz.run import controls, saved_steps, trainer
from lcviz.run.run import Run, RunError, RunSettings, Snapshot
from tests.lcviz.common import SECONDS, Make, MakeRun, Patch, stepped

Saves = dict[int, SimpleNamespace]


def chain_bytes(run: Run) -> dict[str, bytes]:
    """Every file of a run's chain."""
    return {p.name: p.read_bytes() for p in run.path.glob("*.safetensors")}


def played(run: Run) -> Snapshot:
    """The run when it has come to rest after Play."""
    run.play()
    return run.wait(SECONDS)


def bits_of(arrays: Any) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(np.asarray(a)).tobytes() for name, a in arrays.items()}


@pytest.fixture
def saves(monkeypatch: Patch) -> Saves:
    """step -> .live, the state that was handed to the codec, and .track, the track after it."""
    seen: Saves = {}
    save = codec.Checkpointer.save

    def spy(self: codec.Checkpointer, step: int, state: Any) -> codec.Saved:
        live = {name: tensor.detach().numpy().copy() for name, tensor in state.items()}
        saved = save(self, step, state)
        assert self.tracker is not None
        seen[step] = SimpleNamespace(live=live, track=copy_arrays(self.tracker.state))
        return saved

    monkeypatch.setattr(codec.Checkpointer, "save", spy)
    return seen


# What is restored, and what is said of it.


@pytest.mark.parametrize(
    ("model", "scope", "bits", "coder"),
    [
        ("logistic-regression", "model", 1, "runlength"),
        ("logistic-regression", "tensor", 8, "huffman"),
        ("lenet5", "model", None, "runlength"),
        ("lenet5", "tensor", 2, "huffman"),
        ("matrix-factorization", "tensor", 3, "runlength"),
    ],
)
def test_numbers_of_a_checkpoint_are_true(
    make_run: MakeRun, saves: Saves, model: str, scope: str, bits: int | None, coder: str
) -> None:
    """Sizes from the files, losses from restored states, distances from the tensors."""
    run = make_run(model, scope=scope, bits=bits, coder=coder, stop_after=3)
    snapshot = played(run)
    elements = sum(p.numel() for p in run.task.model.parameters())
    chain = codec.Chain(run.path)
    start = saves[0].live

    def norm(a: dict[str, Any], b: dict[str, Any]) -> float:
        return math.sqrt(sum(np.square(a[k].astype(np.float64) - b[k]).sum() for k in a))

    assert snapshot.steps == (0, 1, 2, 3)
    for c, entry in zip(snapshot.checkpoints, chain.entries, strict=True):
        live, track = saves[c.step].live, saves[c.step].track
        restored = codec.restore(run.path, c.step)
        assert bits_of(restored) == bits_of(track)
        assert [t.shape for t in restored.values()] == [a.shape for a in live.values()]
        assert (c.step, c.kind) == (entry.step, entry.kind)
        assert c.nbytes == (run.path / entry.name).stat().st_size
        assert c.full_nbytes == 4 * elements
        assert c.losses.restored == run.task.probe_loss(restored)
        assert c.losses.live == run.task.probe_loss(live)
        assert c.moved == pytest.approx(norm(live, start), rel=1e-9)
        expected = norm(track, live) / norm(live, start) if c.step else 0.0
        assert c.distance == pytest.approx(expected, rel=1e-9)
        assert c.saved.non_finite == ()
        assert c.track == chain.read(entry).track
    assert bits_of(saves[0].track) == bits_of(start)  # the base is exact
    assert snapshot.checkpoints[0].alphabets == ()
    lossy = sum(a.n for a in snapshot.newest.alphabets)
    assert lossy == sum(a.size for a in start.values() if a.size >= 8)
    assert codec.verify(run.path).ok


def test_states_and_codes_are_those_of_the_delta(make_run: MakeRun, saves: Saves) -> None:
    """The track before it, what was handed to the codec, and the difference quantized."""
    run = make_run("lenet5", stop_after=3)
    snapshot = played(run)
    assert run.saved.with_states() == (0, 1, 2, 3)
    assert (run.saved.states(0).before, run.saved.codes(0)) == ({}, [])  # type: ignore[union-attr]
    assert (run.saved.states(9), run.saved.codes(9)) == (None, None)
    assert run.saved.states() is run.saved.states(3)
    for step in (1, 2, 3):
        states, (codes,) = run.saved.states(step), run.saved.codes(step)
        (alphabet,) = snapshot.at(step).alphabets
        before, live = saves[step - 1].track, saves[step].live
        assert states.step == step
        assert (bits_of(states.before), bits_of(states.live)) == (bits_of(before), bits_of(live))
        deltas = [(live[name] - before[name]).ravel() for name in alphabet.names]
        quantized = codec.quantize(np.concatenate(deltas))
        assert codes.tolist() == quantized.codes.tolist()
        assert alphabet.buckets.count.tolist() == quantized.buckets.count.tolist()


@pytest.mark.parametrize(
    ("optimizer", "lr", "momentum", "changes"),
    [("sgd", 0.2, 0.5, {"batch_size": 9, "seed": 1}), ("adam", 0.01, 0.0, {})],
)
def test_training_is_that_of_a_plain_loop(
    make_run: MakeRun, optimizer: str, lr: float, momentum: float, changes: dict[str, int]
) -> None:
    """Saving and measuring do not disturb the training: losses equal those of a bare loop."""
    run = make_run(optimizer=optimizer, lr=lr, momentum=momentum, stop_after=5, **changes)
    task = demo_models.make_task("logistic-regression", "digits", seed=changes.get("seed", 0))
    optimiser = demo_models.make_optimizer(optimizer, task.model.parameters(), lr, momentum)
    expected = [task.probe_loss()]
    for iteration in range(1, 6):
        optimiser.zero_grad()
        loss = task.loss(task.batch(iteration, changes.get("batch_size", 128)))
        loss.backward()
        optimiser.step()
        expected.append(task.probe_loss())
    found = [c.live_loss for c in played(run).checkpoints]
    assert found == pytest.approx(expected, rel=1e-6)


# Play, pause, step, finish, close.


def test_stepping_leaves_no_trace(make_run: MakeRun) -> None:
    """Each step is one interval; in the end the chain is that of a run in one go."""
    run, whole = make_run(interval=2, stop_after=6), make_run(interval=2, stop_after=6)
    new = run.snapshot()
    assert (new.status, new.iteration, new.steps) == ("paused", 0, (0,))
    assert new.newest.live_loss == new.newest.losses.restored
    for i, status in ((2, "paused"), (4, "paused"), (6, "finished")):
        snapshot = stepped(run)
        assert (snapshot.status, snapshot.iteration, snapshot.newest.step) == (status, i, i)
    assert (played(whole).status, chain_bytes(run)) == ("finished", chain_bytes(whole))
    for again in (run.play, run.step, run.pause):
        again()
        assert run.wait(SECONDS) == snapshot


def test_pause_waits_for_the_iteration_under_way(make_run: MakeRun, gate: Make) -> None:
    """And a step from between two checkpoints ends at the next."""
    run = make_run(interval=3, stop_after=9)
    held = gate(run)
    run.play()
    held.wait_until_inside()
    run.pause()
    assert run.snapshot().status == "playing"  # until it has come to rest
    assert run.wait(0.01).status == "playing"
    held.let_through()
    snapshot = run.wait(SECONDS)
    assert (snapshot.status, snapshot.iteration, snapshot.newest.step) == ("paused", 1, 0)
    held.let_through(50)
    assert run.wait(0.05).iteration == 1  # and nothing more is trained
    snapshot = stepped(run)
    assert (snapshot.iteration, snapshot.newest.step) == (3, 3)
    assert played(run).status == "finished"


def test_step_while_playing_ends_the_playing(make_run: MakeRun, gate: Make) -> None:
    run = make_run(stop_after=500)
    held = gate(run)
    run.play()
    held.wait_until_inside()
    run.step()
    held.let_through(500)
    snapshot = run.wait(SECONDS)
    assert (snapshot.status, snapshot.iteration) == ("paused", 1)


def test_interval_of_seven(make_run: MakeRun) -> None:
    """Iterations between checkpoints are trained but not saved, the last ones neither."""
    run, every = make_run(interval=7, stop_after=20), make_run(interval=1, stop_after=14)
    snapshot = played(run)
    assert (snapshot.status, snapshot.iteration, snapshot.steps) == ("finished", 20, (0, 7, 14))
    assert [snapshot.at(s).step for s in (-1, 0, 6, 7, 13, 14, 999)] == [0, 0, 0, 7, 7, 14, 14]
    assert played(every).newest.live_loss == snapshot.newest.live_loss  # the same training


def test_the_speed_limit_begins_with_the_first_picture(make_run: MakeRun) -> None:
    """Until then there is nothing to see."""
    run = make_run(interval=5, stop_after=10)
    wait, waits = run.changed.wait, threading.Event()

    def noted(seconds: float | None = None) -> bool:
        if seconds is not None:
            waits.set()
        return wait(seconds)

    run.changed.wait = noted  # type: ignore[method-assign, assignment]
    run.set_speed(1e-3)
    run.play()
    assert waits.wait(SECONDS)
    snapshot = run.snapshot()
    assert (snapshot.status, snapshot.iteration) == ("playing", 5)
    run.set_speed(None)  # ends the wait
    assert run.wait(SECONDS).status == "finished"


def test_close_ends_the_thread_and_deletes_the_chain(make_run: MakeRun) -> None:
    """Only the newest states stay, for those who still show them."""
    run = make_run(stop_after=10_000)
    stepped(run)
    run.play()
    run.close()
    assert not run.path.exists()
    assert f"run-{run.id}" not in {t.name for t in threading.enumerate()}
    newest = run.snapshot().newest.step
    assert run.saved.with_states() == (newest,)
    assert run.saved.codes(newest) is None
    for again in (run.play, run.step, run.pause, run.close):
        again()
        assert run.wait(1).status == "closed"


def test_who_waits_for_a_run_is_woken_when_it_is_closed(make_run: MakeRun, gate: Make) -> None:
    """Step in one tab, Reset in another, in the middle of an iteration."""
    run = make_run(stop_after=50)
    held = gate(run)
    run.step()
    held.wait_until_inside()
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(run.wait().status), daemon=True)
    waiting.start()
    run.stop()
    held.let_through()
    waiting.join(300)
    assert found == ["closed"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"interval": 0}, RunError),
        ({"stop_after": 0}, RunError),
        ({"interval": 30, "stop_after": 20}, RunError),
        ({"batch_size": 100_000}, demo_models.DataError),
        ({"lr": 0.0}, demo_models.DataError),
        ({"model": "resnet"}, demo_models.DataError),
    ],
)
def test_impossible_settings(tmp_path: Path, changes: dict[str, Any], error: Any) -> None:
    """The error comes from the constructor, and no chain is begun."""
    settings = {"lr": 0.1, "model": "logistic-regression"} | changes
    with pytest.raises(error):
        Run("x", RunSettings(**settings), tmp_path / "run.lcc")
    assert not (tmp_path / "run.lcc").exists()


def test_a_chain_that_is_there_is_not_touched(finished_runs: MakeRun) -> None:
    run = finished_runs(stop_after=2)
    run._trainer.thread.join()  # which closes the chain last
    before = chain_bytes(run)
    with pytest.raises(StepOrderError):
        Run("second", run.settings, run.path)
    assert chain_bytes(run) == before


# Measuring losses.


def test_losses_are_measured_only_sometimes(make_run: MakeRun) -> None:
    """With hardly any time for it the base and every rest are known, and no byte changes."""
    rare = make_run("lenet5", stop_after=6, loss_share=1e-6)
    always = make_run("lenet5", stop_after=6)
    at_rest = stepped(rare).newest
    few, all_of_them = played(rare), played(always)
    assert list(all_of_them.losses) == list(range(7))
    assert at_rest.losses
    measured = list(few.losses)
    assert {0, 1, 6} <= set(measured) < set(range(7))
    for c in few.checkpoints:
        twin = all_of_them.checkpoints[c.step]
        assert c.losses in (None, twin.losses)
    assert chain_bytes(rare) == chain_bytes(always)


def test_the_first_delta_is_always_measured(make_run: MakeRun) -> None:
    """Whatever the time: without it a page has no loss to compare with."""
    assert {0, 1, 6} <= set(played(make_run(stop_after=6, loss_share=1e-6)).losses)


# Watching.


def test_pauses_when_nobody_watches(make_run: MakeRun, monkeypatch: Patch) -> None:
    """Each iteration takes five seconds of a clock that the test turns."""
    clock = SimpleNamespace(now=1000.0, perf_counter=time.perf_counter)
    clock.monotonic = lambda: clock.now
    for module in (controls, trainer):
        monkeypatch.setattr(module, "time", clock)

    def slow_run(*, watches: bool) -> Run:
        run = make_run(stop_after=10)
        run.leave("the test")
        loss = run.task.loss

        def take_five_seconds(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
            clock.now += 5.0
            if watches:
                run.watch()
            return loss(batch)

        run.task.loss = take_five_seconds  # type: ignore[method-assign]
        return run

    run, watched, visited = (slow_run(watches=watches) for watches in (False, True, False))
    for iteration, status in ((4, "paused"), (8, "paused"), (10, "finished")):
        snapshot = played(run)
        assert (snapshot.iteration, snapshot.status) == (iteration, status)  # 20 s at 5 s each
        assert ("no visitor had a page open" in snapshot.message) == (status == "paused")
    assert played(watched).status == "finished"
    clock.now += 7
    assert watched.seconds_unwatched() == 7
    watched.watch()
    assert watched.seconds_unwatched() == 0
    pages = {"me": 1, "you": 1}  # each shows something else meanwhile
    for visitor in pages:
        visited.watch(visitor, lambda visitor: pages[visitor] > 0)
    pages["you"] = 0
    assert played(visited).status == "finished"
    clock.now += 30
    assert visited.seconds_unwatched() == 0
    visited.leave("me")
    clock.now += 30
    assert visited.seconds_unwatched() == 30


# Failures.


@pytest.mark.parametrize(("model", "lr"), [("lenet5", 1e6), ("matrix-factorization", 100.0)])
def test_divergence_ends_the_run(make_run: MakeRun, saves: Saves, model: str, lr: float) -> None:
    run = make_run(model, lr=lr, stop_after=60)
    snapshot = played(run)
    steps, last = snapshot.steps, snapshot.steps[-1]
    assert (snapshot.status, snapshot.iteration) == ("failed", last)
    told = f" at iteration {last + 1}. Every checkpoint up to step {last} restores"
    assert told in snapshot.message
    assert codec.verify(run.path).steps == steps
    for step in steps:
        assert bits_of(codec.restore(run.path, step)) == bits_of(saves[step].track)


def test_weights_that_overflow_are_still_saved(make_run: MakeRun) -> None:
    """The loss was finite, the update was not: such tensors are stored exactly, and said."""
    run = make_run(stop_after=5)
    weight = next(run.task.model.parameters())
    update = run._trainer.live.training._optimizer.step

    def overflow(*_: object) -> None:
        update()
        if run.snapshot().iteration == 1:
            with torch.no_grad():
                weight[0, 0] = math.inf

    run._trainer.live.training._optimizer.step = overflow  # type: ignore[method-assign, assignment]
    snapshot = stepped(run, 2)
    assert (snapshot.status, snapshot.steps) == ("paused", (0, 1, 2))
    (name,) = snapshot.newest.saved.non_finite
    restored = codec.restore(run.path, 2)[name]
    assert restored.numpy().tobytes() == weight.detach().numpy().tobytes()
    assert codec.verify(run.path).ok


def test_a_full_disk_ends_the_run(make_run: MakeRun, saves: Saves, monkeypatch: Patch) -> None:
    run = make_run(stop_after=10)
    stepped(run, 2)
    before = chain_bytes(run)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(codec.storage.directory.os, "link", refuse)  # no record is published
    snapshot = played(run)
    assert (snapshot.status, snapshot.steps) == ("failed", (0, 1, 2))
    assert "No space left on device. Every earlier checkpoint still restores." in snapshot.message
    assert chain_bytes(run) == before
    assert codec.verify(run.path).steps == (0, 1, 2)
    for step in (0, 1, 2):
        assert bits_of(codec.restore(run.path, step)) == bits_of(saves[step].track)


def test_an_unexpected_error(make_run: MakeRun, unhandled: queue.Queue[BaseException]) -> None:
    run = make_run(stop_after=10)
    stepped(run)

    def broken(batch: object) -> torch.Tensor:
        raise ValueError("a bug")

    run.task.loss = broken  # type: ignore[method-assign]
    snapshot = played(run)
    assert snapshot.status == "failed"
    assert "a bug" in snapshot.message
    assert str(unhandled.get(timeout=60)) == "a bug"
    assert codec.verify(run.path).steps == (0, 1)


# What is kept of older steps.


def test_only_the_newest_codes_are_kept(make_run: MakeRun, monkeypatch: Patch) -> None:
    """7,850 parameters, a byte each: in 20,000 bytes the last two steps find room."""
    monkeypatch.setattr(saved_steps, "CODES_BUDGET", 20_000)
    run = make_run(stop_after=4)
    played(run)
    assert run.saved.codes(2) is None
    assert all(run.saved.codes(step) is not None for step in (3, 4))


# The figures that the project promises.


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
def test_accepted_sizes(make_run: MakeRun, coder: str) -> None:
    """LeNet-5, 2 bits, every iteration saved: a delta record is at most 4.2 % of float32 with
    the paper's code and far less with run lengths, and with the exponent stage alone at most
    15 %."""
    run = make_run("lenet5", bits=2, stop_after=100, coder=coder, loss_share=0.01)
    base, *deltas = played(run).checkpoints
    assert len(deltas) == 100
    share = sum(c.nbytes for c in deltas) / sum(c.full_nbytes for c in deltas)
    coded = sum(c.saved.exact_nbytes + sum(a.nbytes for a in c.alphabets) for c in deltas)
    header = share - coded / sum(c.full_nbytes for c in deltas)
    alphabets = [a for c in deltas for a in c.alphabets]
    every = sum(huffman_nbytes(a.counts(len(a.buckets))) for a in alphabets)
    alone = every / sum(4 * a.n for a in alphabets)
    assert share <= (0.042 if coder == "huffman" else 0.0105)
    assert alone + header <= 0.15
    assert deltas[-1].live_loss < base.live_loss
