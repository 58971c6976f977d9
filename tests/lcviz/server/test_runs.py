"""The manager of all runs: ids, the cap, the example, cleaning up."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import codec
import demo_models
from lcviz.run import past
from lcviz.run.run import Run, RunError, RunSettings
from lcviz.server import runs, temp_folders
from lcviz.server.runs import EXAMPLE_ID, IDLE_SECONDS, Runs
from tests.lcviz.common import Answer, Patch, finished, stepped

MakeSettings = Callable[..., RunSettings]


@pytest.fixture
def manager(monkeypatch: Patch, tmp_path: Path, settings_for: MakeSettings) -> Iterator[Runs]:
    """A manager of its own, with a cheap example, its folders in tmp_path, a cap of 3."""
    monkeypatch.setattr(runs, "EXAMPLE", settings_for(stop_after=3))
    monkeypatch.setattr(runs, "MAX_RUNS", 3)
    monkeypatch.setattr(temp_folders.tempfile, "tempdir", str(tmp_path))
    # Tests of pages have another.
    monkeypatch.setattr(runs, "lasting_folder", temp_folders.lasting_folder)
    monkeypatch.setattr(runs.atexit, "register", lambda *_, **__: None)
    made = Runs()
    yield made
    for run in list(made._runs.values()):
        run.close()


@pytest.fixture
def settings(settings_for: MakeSettings) -> RunSettings:
    return settings_for(stop_after=3)


@pytest.fixture
def full(manager: Runs, settings: RunSettings) -> list[Run]:
    """As many runs as the server takes."""
    return [manager.create(settings) for _ in range(3)]


def unwatched(run: Run, seconds: float) -> None:
    """As if nobody had watched it for so long."""
    run._last_watched = time.monotonic() - seconds


def stored(manager: Runs) -> list[str]:
    """The ids of the runs on disk."""
    return [path.name for path in manager._folder.iterdir() if path.is_dir()]


def gone(manager: Runs, run: Run) -> bool:
    """Whether the run is closed, and nothing of it is left."""
    status = run.snapshot().status
    return (manager.get(run.id), status, run.path.exists()) == (None, "closed", False)


def test_ids_are_unguessable_and_different(manager: Runs, full: list[Run]) -> None:
    ids = {run.id for run in full}
    assert len(ids) == len({run.path for run in full}) == 3
    assert {len(bytes.fromhex(i)) for i in ids} == {12}
    assert all(manager.get(run.id) is run for run in full)
    assert {manager.get(i) for i in (None, "", "nobody", "../example", EXAMPLE_ID)} == {None}


def test_the_longest_idle_makes_room(manager: Runs, settings: RunSettings, full: list[Run]) -> None:
    with pytest.raises(RunError, match="already holds 3 runs, its limit"):
        manager.create(settings)
    fresh, older, oldest = full
    unwatched(older, IDLE_SECONDS + 10)
    unwatched(oldest, IDLE_SECONDS + 20)
    new = manager.create(settings)
    assert gone(manager, oldest)
    for run in (fresh, older, new):
        assert manager.get(run.id) is run
        assert run.snapshot().status == "paused"
    manager.close(fresh)
    assert manager.create(settings).snapshot().status == "paused"


def test_no_room_is_made_from_a_playing_run_or_the_example(
    manager: Runs, settings: RunSettings, full: list[Run], gate: Callable[[Run], Any]
) -> None:
    example = manager.example()
    idle, playing, fresh = full
    held = gate(playing)
    playing.play()
    held.wait_until_inside()
    for run in (example, playing):
        unwatched(run, 10 * IDLE_SECONDS)
    with pytest.raises(RunError, match="already holds"):
        manager.create(settings)
    unwatched(idle, IDLE_SECONDS + 1)
    manager.create(settings)
    assert manager.get(idle.id) is None
    assert all(manager.get(run.id) is run for run in (example, playing, fresh))
    held.let_through(10)


def test_racing_threads_make_one_example(manager: Runs, monkeypatch: Patch) -> None:
    """It is finished, and cannot be closed."""
    made = []

    class Counted(Run):
        def __init__(self, run_id: str, settings: RunSettings, path: Path) -> None:
            made.append(run_id)
            super().__init__(run_id, settings, path)

    monkeypatch.setattr(runs, "Run", Counted)
    start = threading.Barrier(4)

    def ask(_: int) -> Run:
        start.wait(300)
        return manager.example()

    with ThreadPoolExecutor(4) as pool:
        (example,) = set(pool.map(ask, range(4)))
    assert made == [EXAMPLE_ID]
    assert (example.snapshot().status, example.snapshot().iteration) == ("finished", 3)
    manager.close(example)
    assert manager.get(EXAMPLE_ID) is manager.example() is example
    assert example.path.is_dir()


def test_getting_ready_waits_for_nobody(manager: Runs, monkeypatch: Patch) -> None:
    """The example is trained in a thread."""
    make, may_train = manager._new, threading.Event()

    def held(*args: Any) -> Run:
        assert may_train.wait(300)
        return make(*args)

    monkeypatch.setattr(manager, "_new", held)
    manager.prepare()
    assert not manager.prepared()
    assert manager.get(EXAMPLE_ID) is None
    may_train.set()
    assert manager.prepared(300)
    assert manager.get(EXAMPLE_ID) is manager.example()


def test_getting_ready_may_fail(manager: Runs, monkeypatch: Patch) -> None:
    """Nobody waits for ever, and whoever asks for the example gets the error."""

    def broken(*_: object) -> None:
        raise RunError("no compiler")

    monkeypatch.setattr(manager, "_new", broken)
    manager.prepare()
    assert manager.prepared(300)
    with pytest.raises(RunError, match="no compiler"):
        manager.example()


def test_a_closed_run_leaves_nothing(
    manager: Runs, settings: RunSettings, monkeypatch: Patch
) -> None:
    """Neither on disk nor in memory, which is given back after all of it was freed."""
    assert stored(manager) == []
    run = finished(manager.create(settings))
    assert stored(manager) == [run.id]
    held: list[tuple[int, ...]] = []
    monkeypatch.setattr(runs.heap, "give_back", lambda: held.append(run.saved.with_states()))
    manager.close(run)
    assert (held, stored(manager)) == ([(3,)], [])
    assert gone(manager, run)


def test_who_still_shows_a_closed_run_reads_on(manager: Runs, settings_for: MakeSettings) -> None:
    """Its files are gone; also of one that was opened again."""
    run_id = finished(manager.create(settings_for(stop_after=4))).id
    manager.close_all()
    run = (manager := Runs()).get(run_id)
    assert run is not None
    before = run.snapshot()
    assert [len(c.alphabets) for c in before.checkpoints] == [0, 1, 1, 1, 1]
    manager.close(run)
    run.saved._journal._recent.clear()
    assert [c.alphabets[0].n for c in before.checkpoints[1:]] == [7850] * 4
    assert run.saved.states() is not None


def test_a_run_that_cannot_start(manager: Runs, settings_for: MakeSettings) -> None:
    for _ in range(5):  # more than the limit
        with pytest.raises(demo_models.DataError):
            manager.create(settings_for(batch_size=10**6))
        with pytest.raises(RunError):
            manager.create(settings_for(interval=9, stop_after=3))
    assert stored(manager) == []
    assert manager.create(settings_for()).snapshot().steps == (0,)


def test_a_run_takes_another_s_place(manager: Runs, settings: RunSettings, full: list[Run]) -> None:
    """Also on a full server and of several tabs; the old one stays if the new one cannot start."""
    old, *_ = full
    with pytest.raises(RunError):
        manager.create(replace(settings, interval=9), old)
    assert manager.get(old.id) is old
    assert old.snapshot().status == "paused"
    new = manager.create(settings, old)
    assert manager.get(new.id) is new
    assert gone(manager, old)
    for instead_of in (old, manager.example()):  # the example gives nobody its place
        with pytest.raises(RunError, match="already holds 3 runs"):
            manager.create(settings, instead_of)
    assert manager.get(new.id) is new
    manager.close(new)
    assert manager.create(settings, old).snapshot().status == "paused"


def test_closing_all_leaves_the_runs(manager: Runs, settings: RunSettings, tmp_path: Path) -> None:
    """At the end of the process, whatever the runs are doing. Of the example nothing stays."""
    made = [manager.example(), manager.create(replace(settings, stop_after=10_000))]
    made[1].play()
    manager.close_all()
    assert [run.snapshot().status for run in made] == ["closed", "closed"]
    assert [path.name for path in tmp_path.iterdir()] == [manager._folder.name]
    assert stored(manager) == [made[1].id]
    names = {t.name for t in threading.enumerate()}
    assert not names & {f"run-{run.id}" for run in made}


def killed_server(in_fork: Answer, settings: RunSettings, moment: int) -> tuple[str, str, int]:
    """Of a run whose server gets SIGKILL while it trains: id, key, and the last iteration.

    moment: a seed for when that happens.
    """
    random = Random(moment)
    iterate = demo_models.Training.iterate

    def told(training: Any, iteration: int) -> float:
        loss = iterate(training, iteration)
        print(iteration)
        return loss

    def train() -> None:
        demo_models.Training.iterate = told  # type: ignore[method-assign]
        made = Runs()
        run = made.create(settings)
        print(run.id, made.key(run))
        run.play()
        while run.iteration < random.randrange(settings.stop_after // 2):
            run.watch()
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.01))
        os.kill(os.getpid(), signal.SIGKILL)

    code, output = in_fork(train)
    assert code == -signal.SIGKILL, output
    named, *iterations = output.splitlines()
    run_id, key = named.split()
    return run_id, key, int(iterations[-1]) if iterations else 0


MOMENTS = [pytest.param(i, marks=[pytest.mark.exhaustive] if i > 2 else []) for i in range(20)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_outlasts_its_server(
    manager: Runs, settings_for: MakeSettings, in_fork: Answer, moment: int
) -> None:
    """At most one interval is lost, whenever it is killed; and it goes on from there."""
    settings = settings_for(interval=3, stop_after=60, momentum=0.9)
    run_id, key, last = killed_server(in_fork, settings, moment)
    run = manager.get(run_id)
    assert run is not None
    assert manager.get(run_id) is run
    assert manager.opened_by(run, [key])
    assert run.settings == settings
    begun = run.snapshot()
    newest = begun.newest.step
    assert last - 3 <= newest <= last
    assert (begun.status, begun.iteration, begun.restarts) == ("paused", newest, (newest,))
    assert begun.message == f"The server was restarted. This run goes on from step {newest}."
    assert begun.steps == tuple(range(0, newest + 1, 3)) == run.saved.with_states()
    assert codec.verify(run.path).steps == begun.steps
    newest_losses = run.saved.newest.losses
    if newest_losses and newest:  # measured on what was trained, not on what was restored
        assert newest_losses.live != newest_losses.restored
    for c in begun.checkpoints[1:]:
        assert sum(a.nbytes for a in c.alphabets) < c.nbytes
        assert run.saved.codes(c.step)
    after = finished(run).snapshot()
    assert (after.status, after.steps) == ("finished", tuple(range(0, 61, 3)))
    assert [c.losses is not None for c in after.checkpoints].count(False) <= 1
    assert after.resumed_at == (newest,)
    assert codec.verify(run.path).ok


def test_kills_outlast_a_server(manager: Runs, settings_for: MakeSettings) -> None:
    """Also of several servers, one after another, and of one that ends as it should."""
    run = manager.create(settings_for(interval=2, stop_after=10))
    stepped(run, 2)
    run.kill()
    dead = run.snapshot()
    for n in (1, 2):
        manager.close_all()
        manager = Runs()
        again = manager.get(run.id)
        assert again is not None
        begun = again.snapshot()
        assert (begun.status, begun.kills, begun.restarts) == ("paused", dead.kills, (4,) * n)
        assert begun.train_seconds == pytest.approx(dead.train_seconds)
        assert [c.losses for c in begun.checkpoints] == [c.losses for c in dead.checkpoints]
    assert finished(again).snapshot().resumed_at == (4,)
    manager.close_all()


def test_what_is_not_gone_on_with(
    manager: Runs, settings: RunSettings, monkeypatch: Patch, tmp_path: Path
) -> None:
    """What another server has, is damaged or of other code; and what is old is deleted."""
    other = Runs()
    kept, damaged, old = made = [finished(other.create(settings)) for _ in range(3)]
    assert all(manager.get(run.id) is None for run in made)
    other.close_all()
    with monkeypatch.context() as patch:
        patch.setattr(past, "_code_digest", lambda: "other")
        assert manager.get(kept.id) is None
    (damaged.path.parent / "journal").write_bytes(b"damaged")
    assert manager.get(damaged.id) is None
    assert manager.get(kept.id) is not None
    assert manager.get(f"../{manager._folder.name}/{old.id}") is None
    two_days_ago = time.time() - 2 * runs.STORED_SECONDS
    for run in made:
        os.utime(run.path.parent / "journal", (two_days_ago, two_days_ago))
    manager.prepare()
    assert manager.prepared(300)
    (thread,) = (t for t in threading.enumerate() if t.name == "prepare")
    thread.join()
    assert stored(manager) == [kept.id]


def test_two_runs_at_once(manager: Runs, settings_for: MakeSettings) -> None:
    """Trained at the same time or alone: the same bytes."""
    together = [manager.create(settings_for(seed=seed)) for seed in (1, 2)]
    for run in together:
        run.play()
    for run in together:
        assert run.wait(300).status == "finished"
    alone = finished(manager.create(settings_for(seed=1)))
    first, second, third = (
        [p.read_bytes() for p in sorted(run.path.glob("*.safetensors"))]
        for run in (*together, alone)
    )
    assert first == third
    assert first != second


def test_a_page_gives_the_interpreter_back_at_once(manager: Runs) -> None:
    """Python's own 5 ms would stop a training at every tick of whoever watches it."""
    assert sys.getswitchinterval() == pytest.approx(runs.SWITCH_SECONDS)
    assert runs.SWITCH_SECONDS < 0.005
