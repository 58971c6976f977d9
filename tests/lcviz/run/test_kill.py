"""A run is killed and goes on: what is gone is gone, what was saved is there to the last bit."""

from __future__ import annotations

import gc
import queue
import shutil
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import codec
import demo_models
from codec.record.record import track_digest
from codec.scheme.track import digest_sums
from lcviz.lab.recovery.kill import fingerprint
from lcviz.run import run as session
from lcviz.run.run import Run, RunError, RunSettings
from lcviz.run.snapshot import Snapshot

MakeRun = Callable[..., Run]


def chain_bytes(path: Path) -> dict[str, bytes]:
    """Every file of a chain directory."""
    return {p.name: p.read_bytes() for p in path.glob("*.safetensors")}


def play_to(run: Run, iteration: int) -> Snapshot:
    """Play until that iteration is trained, then pause."""
    loss = run.task.loss

    def pausing(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        if run.snapshot().iteration == iteration - 1:
            run.pause()
        return loss(batch)

    run.task.loss = pausing  # type: ignore[method-assign]
    run.play()
    snapshot = run.wait(60)
    run.task.loss = loss  # type: ignore[method-assign]
    return snapshot


def killed(run: Run) -> Snapshot:
    run.kill()
    return run.snapshot()


# What is gone, and what is left.


@pytest.mark.parametrize("iteration", [2, 3, 6])
def test_the_model_is_gone_and_the_chain_is_not(make_run: MakeRun, iteration: int) -> None:
    """Paused after a save, between two, and finished."""
    run = make_run("lenet5", optimizer="adam", interval=2, stop_after=6)
    before = play_to(run, iteration)
    assert before.iteration == iteration
    alive = [weakref.ref(p) for p in run.task.model.parameters()]
    alive += [weakref.ref(run._training), weakref.ref(run._checkpointer)]
    died_as = fingerprint(run.task.model.state_dict())
    files = chain_bytes(run.path)
    after = killed(run)
    gc.collect()
    assert not any(ref() for ref in alive)
    assert all(p.is_meta for p in run.task.model.parameters())
    assert not run._thread.is_alive()
    assert (after.status, after.iteration, after.steps) == ("killed", iteration, before.steps)
    (kill,) = after.kills
    assert (kill.iteration, kill.step, kill.lost) == (iteration, iteration // 2 * 2, iteration % 2)
    assert kill.died_as == died_as
    assert kill.pace.iteration == pytest.approx(after.train_seconds / iteration)
    assert kill.pace.probe > 0
    assert kill.pace.save > 0
    assert chain_bytes(run.path) == files
    assert codec.verify(run.path).ok
    assert after.newest.restored_loss == run.task.probe_loss(codec.restore(run.path))


def test_what_was_shown_stays(make_run: MakeRun) -> None:
    run, other = make_run(stop_after=4), make_run(stop_after=4)
    play_to(run, 3)
    play_to(other, 3)
    states, codes = run.states(), run.codes(3)
    killed(run)
    assert run.states() is states
    assert run.codes(3) is codes
    assert run.removed_buckets(3) == other.removed_buckets(3)


def test_losses_are_known_at_the_end(make_run: MakeRun) -> None:
    run = make_run(stop_after=9, loss_share=0.0)
    run.play()
    while not run.snapshot().iteration >= 3:
        pass
    assert killed(run).newest.measured


# When it can be killed.


def test_the_iteration_under_way_is_finished(make_run: MakeRun) -> None:
    run = make_run(interval=3, stop_after=9)
    play_to(run, 3)
    loss, inside, go_on = run.task.loss, threading.Event(), threading.Event()

    def held(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        inside.set()
        assert go_on.wait(60)
        return loss(batch)

    run.task.loss = held  # type: ignore[method-assign]
    run.play()
    assert inside.wait(60)
    killers = [threading.Thread(target=run.kill) for _ in range(2)]
    for thread in killers:
        thread.start()
    while not run._dying:
        pass
    assert run.snapshot().status == "playing"  # not dead yet
    go_on.set()
    for thread in killers:
        thread.join(60)
    after = run.snapshot()
    assert (after.status, after.iteration, after.newest.step) == ("killed", 4, 3)
    assert len(after.kills) == 1


def test_a_save_under_way_is_finished(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(stop_after=9)
    play_to(run, 1)
    save, inside, go_on = codec.Checkpointer.save, threading.Event(), threading.Event()

    def held(self: codec.Checkpointer, step: int, state: Any) -> codec.Saved:
        inside.set()
        assert go_on.wait(60)
        return save(self, step, state)

    monkeypatch.setattr(codec.Checkpointer, "save", held)
    run.play()
    assert inside.wait(60)
    killer = threading.Thread(target=run.kill)
    killer.start()
    while not run._dying:
        pass
    go_on.set()
    killer.join(60)
    after = run.snapshot()
    assert (after.status, after.iteration, after.newest.step) == ("killed", 2, 2)
    assert codec.verify(run.path).ok
    assert codec.Chain(run.path).steps == (0, 1, 2)


def test_killed_once_more_is_killed_once(make_run: MakeRun) -> None:
    run = make_run()
    play_to(run, 2)
    assert killed(run) == killed(run)


def test_buttons_of_a_dead_run_do_nothing(make_run: MakeRun) -> None:
    run = make_run()
    play_to(run, 2)
    before = killed(run)
    run.play()
    run.step()
    run.pause()
    assert run.wait(1) == before


def test_nothing_to_kill(make_run: MakeRun) -> None:
    run = make_run()
    with pytest.raises(RunError, match="Nothing but the base is saved"):
        run.kill()
    assert run.snapshot().status == "paused"
    diverged = make_run("lenet5", lr=1e6, stop_after=40)
    diverged.play()
    assert diverged.wait(60).status == "failed"
    run.close()
    for over in (diverged, run):
        with pytest.raises(RunError, match="over already"):
            over.kill()


def test_one_that_fails_in_the_last_moment(make_run: MakeRun) -> None:
    run = make_run(stop_after=9)
    play_to(run, 2)
    inside, go_on = threading.Event(), threading.Event()

    def held(_batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        inside.set()
        assert go_on.wait(60)
        return torch.tensor(float("nan"), requires_grad=True)

    run.task.loss = held  # type: ignore[method-assign]
    run.play()
    assert inside.wait(60)
    killer = threading.Thread(target=run.kill)
    killer.start()
    while not run._dying:
        pass
    go_on.set()
    killer.join(60)
    assert run.snapshot().status == "failed"
    assert run.snapshot().kills == ()


def test_closing_a_dead_run(make_run: MakeRun) -> None:
    run = make_run()
    play_to(run, 2)
    killed(run)
    run.close()
    assert run.snapshot().status == "closed"
    assert not run.path.exists()
    with pytest.raises(RunError, match="Only a run that was killed"):
        run.go_on()


# Going on.


def told_again(settings: RunSettings, chain: Path, newest: int, iterations: int) -> tuple[Any, str]:
    """A new process, told plainly: restore, train on with the same batches, append to the chain.

    The files, and the fingerprint of the model at the end.
    """
    torch.set_num_threads(1)
    s = settings
    task = demo_models.make_task(s.model, s.data, seed=s.seed)
    task.model.load_state_dict(codec.restore(chain, newest))
    training = demo_models.Training(task, s.optimizer, s.lr, s.momentum, s.batch_size)
    with codec.Checkpointer(
        chain, s.bits, s.scope, s.coder, budget=s.budget, base_every=None, resume=True
    ) as checkpoints:
        for iteration in range(newest + 1, iterations + 1):
            training.iterate(iteration)
            if iteration % s.interval == 0:
                checkpoints.save(iteration, task.model.state_dict())
    return chain_bytes(chain), fingerprint(task.model.state_dict())


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("logistic-regression", {"momentum": 0.9}),
        ("logistic-regression", {"optimizer": "adam", "scope": "tensor"}),
        ("lenet5", {"coder": "huffman"}),
        ("matrix-factorization", {"budget": 0.1}),
    ],
)
def test_it_goes_on_as_a_new_process_would(
    make_run: MakeRun, tmp_path: Path, model: str, changes: dict[str, Any]
) -> None:
    run = make_run(model, interval=2, stop_after=9, **changes)
    play_to(run, 5)
    killed(run)
    copied = tmp_path / "copied.lcc"
    shutil.copytree(run.path, copied)
    run.go_on()
    begun = run.snapshot()
    assert (begun.status, begun.iteration, begun.steps) == ("paused", 4, (0, 2, 4))
    assert fingerprint(run.task.model.state_dict()) == fingerprint(codec.restore(run.path, 4))
    run.play()
    after = run.wait(60)
    assert (after.status, after.steps) == ("finished", (0, 2, 4, 6, 8))
    assert after.trained == 10
    assert after.rate == pytest.approx(10 / after.wall_seconds)
    files, died_as = told_again(run.settings, copied, 4, 9)
    assert chain_bytes(run.path) == files
    assert fingerprint(run.task.model.state_dict()) == died_as
    assert codec.verify(run.path).ok
    every = zip(after.checkpoints, codec.Chain(run.path).replay(), strict=True)
    for c, position in every:
        sums = digest_sums(position.layout, position.state)
        assert c.track == track_digest(position.layout, position.state, sums)
        assert c.restored_loss == run.task.probe_loss(codec.restore(run.path, c.step))
    start, states = codec.restore(run.path, 0), run.states()
    assert states is not None
    squares = (((states.live[n] - start[n].numpy()).astype("f8") ** 2).sum() for n in start)
    assert after.newest.moved == pytest.approx(float(sum(squares)) ** 0.5)


def test_killed_again_and_again(make_run: MakeRun) -> None:
    """Also twice at the same step, without a save between."""
    run = make_run(interval=3, stop_after=12)
    play_to(run, 4)
    killed(run)
    run.go_on()
    again = killed(run)
    assert [(k.iteration, k.step) for k in again.kills] == [(4, 3), (3, 3)]
    run.go_on()
    play_to(run, 8)
    assert killed(run).kills[-1].step == 6
    assert run.snapshot().trained == 9
    run.go_on()
    run.play()
    after = run.wait(60)
    assert (after.status, after.steps, after.trained) == ("finished", (0, 3, 6, 9, 12), 15)
    assert codec.verify(run.path).ok


def test_only_a_killed_run_goes_on(make_run: MakeRun) -> None:
    run = make_run()
    play_to(run, 2)
    with pytest.raises(RunError, match="Only a run that was killed"):
        run.go_on()
    assert run.snapshot().status == "paused"


@pytest.mark.parametrize("name", ["00000000.base.safetensors", "00000003.delta.safetensors"])
def test_a_chain_that_was_damaged_meanwhile(make_run: MakeRun, name: str) -> None:
    run = make_run()
    play_to(run, 3)
    before = killed(run)
    file = run.path / name
    file.write_bytes(file.read_bytes()[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", codec.SkippedRecordWarning)  # it sets records aside
        with pytest.raises(RunError, match="be read" if "base" in name else "step 3 on disk"):
            run.go_on()
    assert run.snapshot() == before
    assert all(p.is_meta for p in run.task.model.parameters())


# Going on beside whoever asked for it.


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A long chain: it is read once this event is set."""
    read, restarted = threading.Event(), session.restarted

    def slow(*arguments: Any) -> Any:
        assert read.wait(60)
        return restarted(*arguments)

    monkeypatch.setattr(session, "restarted", slow)
    yield read
    read.set()


def test_going_on_beside(make_run: MakeRun, slowly: threading.Event) -> None:
    """Nobody waits for a long chain, and several tabs that ask for it are as good as one."""
    run = make_run(interval=2, stop_after=6)
    play_to(run, 3)
    before = killed(run)
    for _ in range(2):
        run.go_on_beside()
    run.kill()  # of another tab that has not seen it yet
    during = run.wait(0.01)
    assert during == replace(before, status="restoring")
    assert [t.name for t in threading.enumerate()].count(f"restore-{run.id}") == 1
    assert (during.trained, during.resumed_at) == (3, ())
    slowly.set()
    run.go_on_beside(60)
    after = run.wait(60)
    assert (after.status, after.steps, after.trained) == ("finished", (0, 2, 4, 6), 7)
    assert after.resumed_at == (2,)
    assert len(after.kills) == 1
    assert codec.verify(run.path).ok


def test_going_on_beside_is_for_the_dead(make_run: MakeRun) -> None:
    run = make_run()
    play_to(run, 2)
    before = run.snapshot()
    run.go_on_beside(60)
    assert run.snapshot() == before


def test_a_damaged_chain_is_told_beside_too(make_run: MakeRun) -> None:
    """And once it is whole again, the run goes on."""
    run = make_run(stop_after=5)
    play_to(run, 3)
    before = killed(run)
    file = run.path / "00000000.base.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    run.go_on_beside(60)
    after = run.snapshot()
    assert after.message.startswith("The chain of this run cannot be read. ")
    assert replace(after, message="") == before
    file.write_bytes(whole)
    run.go_on_beside(60)
    after = run.wait(60)
    assert (after.status, after.message) == ("finished", "")


def test_an_unexpected_error_beside_is_told_and_not_swallowed(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, unhandled: queue.Queue[BaseException]
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    run = make_run()
    play_to(run, 3)
    killed(run)
    monkeypatch.setattr(session, "restarted", broken)
    run.go_on_beside(60)
    after = run.snapshot()
    assert after.status == "killed"
    assert "unexpected error: ValueError('a bug')" in after.message
    assert str(unhandled.get(timeout=60)) == "a bug"


def test_closed_while_it_is_restored(make_run: MakeRun, slowly: threading.Event) -> None:
    run = make_run()
    play_to(run, 3)
    killed(run)
    run.go_on_beside()
    closer = threading.Thread(target=run.close)
    closer.start()
    while run.snapshot().status != "closed":
        pass
    slowly.set()
    closer.join(60)
    run.go_on_beside(60)
    assert run.wait(60).status == "closed"
    assert not run.path.exists()
    assert not run._thread.is_alive()


@pytest.mark.parametrize("how", ["kill", "close"])
def test_an_end_that_is_asked_for_while_losses_are_measured(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The thread does not go to sleep over it."""
    run = make_run(stop_after=6)
    play_to(run, 2)
    measuring, measure = threading.Event(), Run._measure_losses

    def slow(self: Run) -> None:
        if self.snapshot().newest.measured:  # once more, on the way to rest
            measuring.set()
            deadline = time.monotonic() + 300
            while not self._ending() and time.monotonic() < deadline:
                time.sleep(0.01)
        measure(self)

    monkeypatch.setattr(Run, "_measure_losses", slow)
    run.step()
    assert measuring.wait(300)
    end = threading.Thread(target=getattr(run, how), daemon=True)
    end.start()
    end.join(300)
    assert not end.is_alive()
    monkeypatch.undo()
