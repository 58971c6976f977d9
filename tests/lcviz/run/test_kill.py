"""A run is killed and goes on: what is gone is gone, what was saved is there to the last bit."""

import gc
import queue
import shutil
import threading
import warnings
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import codec
import demo_models
from codec.errors import SkippedRecordWarning
from codec.record.track import Track
from lcviz.lab.recovery.kill import fingerprint
from lcviz.run import run as run_module
from lcviz.run.run import Run, RunError, RunSettings, Snapshot
from tests.lcviz.common import SECONDS, Make, MakeRun, Patch, until


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
    snapshot = run.wait(SECONDS)
    run.task.loss = loss  # type: ignore[method-assign]
    return snapshot


def killed(run: Run, iteration: int = 0) -> Snapshot:
    """The run, killed; iteration: played to before."""
    if iteration:
        play_to(run, iteration)
    run.kill()
    return run.snapshot()


def asked_to_die(run: Run, n: int = 1) -> list[threading.Thread]:
    """So many threads that kill it, in the middle of an iteration."""
    killers = [threading.Thread(target=run.kill) for _ in range(n)]
    for thread in killers:
        thread.start()
    until(lambda: run.status == "dying")
    return killers


# What is gone, and what is left.


@pytest.mark.parametrize("iteration", [3, 6])
def test_the_model_is_gone_and_the_chain_is_not(make_run: MakeRun, iteration: int) -> None:
    """Paused between two saves, and finished; what was shown stays."""
    run = make_run("lenet5", optimizer="adam", interval=2, stop_after=6)
    before = play_to(run, iteration)
    assert before.iteration == iteration
    alive: list[Any] = [weakref.ref(p) for p in run.task.model.parameters()]
    alive += [weakref.ref(run._trainer.live.training), weakref.ref(run._trainer.live.checkpointer)]
    died_as = fingerprint(run.task.model.state_dict())
    files, states = chain_bytes(run.path), run.saved.states()
    codes = run.saved.codes(before.newest.step)
    after = killed(run)
    gc.collect()
    assert not any(ref() for ref in alive)
    assert all(p.is_meta for p in run.task.model.parameters())
    assert f"run-{run.id}" not in {t.name for t in threading.enumerate()}
    assert (after.status, after.iteration, after.steps) == ("killed", iteration, before.steps)
    (kill,) = after.kills
    assert (kill.iteration, kill.step, kill.lost) == (iteration, iteration // 2 * 2, iteration % 2)
    assert kill.last_fingerprint == died_as
    assert kill.pace.iteration == pytest.approx(after.train_seconds / iteration)
    assert min(kill.pace.probe, kill.pace.save) > 0
    assert chain_bytes(run.path) == files
    assert codec.verify(run.path).ok
    assert after.newest.losses.restored == run.task.probe_loss(codec.restore(run.path))
    assert run.saved.states() is states
    assert run.saved.codes(after.newest.step) is codes
    for again in (run.kill, run.play, run.step, run.pause):
        again()
        assert run.wait(1) == after


# When it can be killed.


def test_the_iteration_under_way_is_finished(make_run: MakeRun, gate: Make) -> None:
    """Two killers kill it once; the newest losses are known at the end."""
    run = make_run(interval=3, stop_after=9, loss_share=1e-6)
    play_to(run, 5)
    held = gate(run)
    run.play()
    held.wait_until_inside()
    killers = asked_to_die(run, 2)
    assert run.snapshot().status == "playing"  # not dead yet
    held.let_through()
    for thread in killers:
        thread.join(SECONDS)
    after = run.snapshot()
    assert (after.status, after.iteration, after.newest.step) == ("killed", 6, 6)
    assert after.newest.losses
    assert len(after.kills) == 1
    assert codec.verify(run.path).ok
    assert codec.Chain(run.path).steps == (0, 3, 6)


def test_one_that_fails_in_the_last_moment(make_run: MakeRun, gate: Make) -> None:
    run = make_run(stop_after=9)
    play_to(run, 2)
    held = gate(run)
    run.play()
    held.wait_until_inside()
    (killer,) = asked_to_die(run)
    held.let_through(nan=True)
    killer.join(SECONDS)
    assert (run.snapshot().status, run.snapshot().kills) == ("failed", ())


def test_nothing_to_kill(make_run: MakeRun) -> None:
    run = make_run()
    with pytest.raises(RunError, match="Only the base is saved"):
        run.kill()
    assert run.snapshot().status == "paused"
    with pytest.raises(RunError, match="This run was not killed"):
        run.go_on()
    diverged = make_run("lenet5", lr=1e6, stop_after=40)
    diverged.play()
    assert diverged.wait(SECONDS).status == "failed"
    run.close()
    for over in (diverged, run):
        with pytest.raises(RunError, match="over already"):
            over.kill()
    dead = make_run()
    killed(dead, 2)
    dead.close()
    assert dead.snapshot().status == "closed"
    assert not dead.path.exists()
    with pytest.raises(RunError, match="This run was not killed"):
        dead.go_on()


# Going on.


def in_a_new_process(
    settings: RunSettings, chain: Path, newest: int, iterations: int
) -> tuple[Any, str]:
    """What a new process would do: restore, train on with the same batches, append to the chain.

    The files, and the fingerprint of the model at the end.
    """
    torch.set_num_threads(1)
    s = settings
    task = demo_models.make_task(s.model, s.data, seed=s.seed)
    task.model.load_state_dict(codec.restore(chain, newest))
    training = demo_models.Training(task, s.optimizer, s.lr, s.momentum, s.batch_size)
    going_on = codec.Checkpointer(chain, **s.coding.header(), restore_work=None, resume=True)
    with going_on as checkpoints:
        for iteration in range(newest + 1, iterations + 1):
            training.iterate(iteration)
            if iteration % s.interval == 0:
                checkpoints.save(iteration, task.model.state_dict())
    return chain_bytes(chain), fingerprint(task.model.state_dict())


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("logistic-regression", {"optimizer": "adam", "scope": "tensor"}),
        ("lenet5", {"coder": "huffman", "momentum": 0.9}),
        ("matrix-factorization", {"budget": 0.1}),
    ],
)
def test_like_a_new_process(make_run: MakeRun, tmp_path: Path, model: str, changes: Any) -> None:
    run = make_run(model, interval=2, stop_after=7, **changes)
    killed(run, 5)
    copied = tmp_path / "copied.lcc"
    shutil.copytree(run.path, copied)
    run.go_on()
    begun = run.snapshot()
    assert (begun.status, begun.iteration, begun.steps) == ("paused", 4, (0, 2, 4))
    assert fingerprint(run.task.model.state_dict()) == fingerprint(codec.restore(run.path, 4))
    run.play()
    after = run.wait(SECONDS)
    assert (after.status, after.steps, after.trained) == ("finished", (0, 2, 4, 6), 8)
    assert after.rate == pytest.approx(8 / after.wall_seconds)
    files, died_as = in_a_new_process(run.settings, copied, 4, 7)
    assert chain_bytes(run.path) == files
    assert fingerprint(run.task.model.state_dict()) == died_as
    assert codec.verify(run.path).ok
    for c, position in zip(after.checkpoints, codec.Chain(run.path).replay(), strict=True):
        assert c.track == Track.of(position.track.layout, position.track.arrays).digest
        assert c.losses.restored == run.task.probe_loss(codec.restore(run.path, c.step))
    start, states = codec.restore(run.path, 0), run.saved.states()
    assert states is not None
    squares = (((states.live[n] - start[n].numpy()).astype("f8") ** 2).sum() for n in start)
    assert after.newest.moved == pytest.approx(float(sum(squares)) ** 0.5)


def test_killed_again_and_again(make_run: MakeRun) -> None:
    """Also twice at the same step, without a save between."""
    run = make_run(interval=3, stop_after=12)
    killed(run, 4)
    run.go_on()
    again = killed(run)
    assert [(k.iteration, k.step) for k in again.kills] == [(4, 3), (3, 3)]
    run.go_on()
    assert (killed(run, 8).kills[-1].step, run.snapshot().trained) == (6, 9)
    run.go_on()
    run.play()
    after = run.wait(SECONDS)
    assert (after.status, after.steps, after.trained) == ("finished", (0, 3, 6, 9, 12), 15)
    assert codec.verify(run.path).ok


@pytest.mark.parametrize("name", ["00000000.base.safetensors", "00000003.delta.safetensors"])
def test_a_chain_that_was_damaged_meanwhile(make_run: MakeRun, name: str) -> None:
    """It stays killed, whoever waits for it or not; a base that is whole again is restored."""
    run = make_run(stop_after=5)
    before = killed(run, 3)
    file = run.path / name
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkippedRecordWarning)  # it sets records aside
        with pytest.raises(RunError, match="be read" if "base" in name else "step 3 on disk") as e:
            run.go_on()
    assert run.snapshot() == replace(before, message=str(e.value))
    assert all(p.is_meta for p in run.task.model.parameters())
    if "base" in name:
        run.go_on_in_background(SECONDS)
        assert run.snapshot() == replace(before, message=str(e.value))
        file.write_bytes(whole)
        run.go_on_in_background(SECONDS)
        after = run.wait(SECONDS)
        assert (after.status, after.message) == ("finished", "")


# Going on in the background.


def test_going_on_in_the_background(make_run: MakeRun, slowly: threading.Event) -> None:
    """Nobody waits for a long chain, and several tabs that ask for it are as good as one."""
    run = make_run(interval=2, stop_after=6)
    paused = play_to(run, 3)
    run.go_on_in_background(SECONDS)  # for the dead only
    assert run.snapshot() == paused
    before = killed(run)
    for _ in range(2):
        run.go_on_in_background()
    run.kill()  # of another tab that has not seen it yet
    during = run.wait(0.01)
    assert during == replace(before, status="restoring")
    assert [t.name for t in threading.enumerate()].count(f"restore-{run.id}") == 1
    assert (during.trained, during.resumed_at) == (3, ())
    slowly.set()
    run.go_on_in_background(SECONDS)
    after = run.wait(SECONDS)
    assert (after.status, after.steps, after.trained) == ("finished", (0, 2, 4, 6), 7)
    assert (after.resumed_at, len(after.kills)) == ((2,), 1)
    assert codec.verify(run.path).ok


def test_an_unexpected_error(
    make_run: MakeRun, monkeypatch: Patch, unhandled: queue.Queue[BaseException]
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    run = make_run()
    killed(run, 3)
    monkeypatch.setattr(run_module, "restarted_model", broken)
    run.go_on_in_background(SECONDS)
    after = run.snapshot()
    assert after.status == "killed"
    assert "ValueError('a bug')" in after.message
    assert str(unhandled.get(timeout=SECONDS)) == "a bug"


def test_closed_while_it_is_restored(make_run: MakeRun, slowly: threading.Event) -> None:
    run = make_run()
    killed(run, 3)
    run.go_on_in_background()
    closer = threading.Thread(target=run.close)
    closer.start()
    until(lambda: run.snapshot().status == "closed")
    slowly.set()
    closer.join(SECONDS)
    run.go_on_in_background(SECONDS)
    assert run.wait(SECONDS).status == "closed"
    assert not run.path.exists()
    assert f"run-{run.id}" not in {t.name for t in threading.enumerate()}


@pytest.mark.parametrize("how", ["kill", "close"])
def test_an_end_while_losses_are_measured(make_run: MakeRun, monkeypatch: Patch, how: str) -> None:
    """The thread does not go to sleep over it."""
    run = make_run(stop_after=6, loss_share=1e-6)
    play_to(run, 2)
    measuring, measure = threading.Event(), run.task.probe_metric

    def slow(state: Any) -> tuple[float, float]:
        measuring.set()
        until(lambda: run.status in ("dying", "closed"))
        return measure(state)

    monkeypatch.setattr(run.task, "probe_metric", slow)
    run.step()
    assert measuring.wait(SECONDS)
    end = threading.Thread(target=getattr(run, how), daemon=True)
    end.start()
    end.join(SECONDS)
    assert not end.is_alive()
