"""The manager of all runs: ids, the cap, the example, cleaning up."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import demo_models
from lcviz.run.run import Run, RunError, RunSettings
from lcviz.server import runs
from lcviz.server import temp_folders as scratch
from lcviz.server.runs import EXAMPLE_ID, Runs

MakeSettings = Callable[..., RunSettings]


@pytest.fixture
def manager(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings_for: MakeSettings
) -> Iterator[Runs]:
    """A manager of its own, with a cheap example, its folder in tmp_path, a cap of 3."""
    monkeypatch.setattr(runs, "EXAMPLE", settings_for(stop_after=3))
    monkeypatch.setattr(runs, "MAX_RUNS", 3)
    monkeypatch.setattr(scratch.tempfile, "mkdtemp", lambda **_: str(tmp_path))
    monkeypatch.setattr(runs.atexit, "register", lambda *_, **__: None)
    made = Runs()
    yield made
    for run in list(made._runs.values()):
        run.close()


@pytest.fixture
def settings(settings_for: MakeSettings) -> RunSettings:
    return settings_for(stop_after=3)


def test_ids_are_unguessable_and_different(manager: Runs, settings: RunSettings) -> None:
    made = [manager.create(settings) for _ in range(3)]
    ids = {run.id for run in made}
    assert len(ids) == 3
    assert all(len(i) >= 16 for i in ids)  # 12 random bytes
    assert all(manager.get(run.id) is run for run in made)
    assert len({run.path for run in made}) == 3


@pytest.mark.parametrize("unknown", [None, "", "nobody", "../example", EXAMPLE_ID])
def test_unknown_ids(manager: Runs, unknown: str | None) -> None:
    assert manager.get(unknown) is None


def test_the_cap_is_told_in_a_sentence(manager: Runs, settings: RunSettings) -> None:
    kept = [manager.create(settings) for _ in range(3)]
    with pytest.raises(RunError, match="already holds 3 runs, its limit"):
        manager.create(settings)
    assert all(manager.get(run.id) is run for run in kept)
    manager.close(kept[0])
    assert manager.create(settings).snapshot().status == "paused"


def test_room_is_made_from_the_longest_idle_only(manager: Runs, settings: RunSettings) -> None:
    fresh, older, oldest = (manager.create(settings) for _ in range(3))
    older._last_watched -= runs.IDLE_SECONDS + 10
    oldest._last_watched -= runs.IDLE_SECONDS + 20
    new = manager.create(settings)
    assert manager.get(oldest.id) is None
    assert oldest.snapshot().status == "closed"
    assert not oldest.path.exists()
    for run in (fresh, older, new):
        assert manager.get(run.id) is run
        assert run.snapshot().status == "paused"


def test_no_room_is_made_from_a_playing_run_or_the_example(
    manager: Runs, settings: RunSettings
) -> None:
    example = manager.example()
    idle, playing, fresh = (manager.create(settings) for _ in range(3))
    inside, go_on = threading.Event(), threading.Event()
    loss = playing.task.loss

    def held(batch):  # type: ignore[no-untyped-def]
        inside.set()
        assert go_on.wait(60)
        return loss(batch)

    playing.task.loss = held  # type: ignore[method-assign]
    try:
        playing.play()
        assert inside.wait(60)
        for run in (example, playing):
            run._last_watched -= 10 * runs.IDLE_SECONDS
        with pytest.raises(RunError, match="already holds"):
            manager.create(settings)
        idle._last_watched -= runs.IDLE_SECONDS + 1
        manager.create(settings)
        assert manager.get(idle.id) is None
        assert manager.get(playing.id) is playing
        assert manager.get(fresh.id) is fresh
        assert manager.get(EXAMPLE_ID) is example
    finally:
        go_on.set()


def test_the_example_is_finished(manager: Runs) -> None:
    example = manager.example()
    snapshot = example.snapshot()
    assert (snapshot.status, snapshot.iteration) == ("finished", 3)
    assert manager.get(EXAMPLE_ID) is manager.example() is example


def test_racing_threads_make_one_example(manager: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(Run):
        def __init__(self, run_id: str, settings: RunSettings, path: Path) -> None:
            made.append(run_id)
            super().__init__(run_id, settings, path)

    monkeypatch.setattr(runs, "Run", Counted)
    start = threading.Barrier(4)

    def ask(_: int) -> Run:
        start.wait(30)
        return manager.example()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert made == [EXAMPLE_ID]
    assert all(run is found[0] for run in found)


def test_getting_ready_waits_for_nobody(manager: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling goes on in a thread; once it is over the example is there."""
    compiled = threading.Event()
    monkeypatch.setattr(runs.codec, "warm_up", lambda: compiled.wait(60))
    manager.prepare()
    assert not manager.prepared()
    assert manager.get(EXAMPLE_ID) is None
    compiled.set()
    assert manager.prepared(60)
    assert manager.get(EXAMPLE_ID) is manager.example()
    assert manager.example().snapshot().status == "finished"


def test_getting_ready_may_fail(manager: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever, and whoever asks for the example is told."""

    def broken() -> None:
        raise RunError("no compiler")

    monkeypatch.setattr(runs.codec, "warm_up", broken)
    manager.prepare()
    assert manager.prepared(60)
    with pytest.raises(RunError, match="no compiler"):
        manager.example()


def test_the_example_cannot_be_closed(manager: Runs) -> None:
    example = manager.example()
    manager.close(example)
    assert manager.get(EXAMPLE_ID) is example
    assert example.path.is_dir()


def test_close_forgets_the_run_and_leaves_nothing(
    manager: Runs, settings: RunSettings, tmp_path: Path
) -> None:
    run = manager.create(settings)
    assert list(tmp_path.iterdir())
    manager.close(run)
    assert manager.get(run.id) is None
    assert run.snapshot().status == "closed"
    assert list(tmp_path.iterdir()) == []


def test_memory_of_a_closed_run_is_given_back(
    manager: Runs, settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After all that it kept was let go of."""
    run = manager.create(settings)
    run.play()
    run.wait(60)
    held: list[tuple[int, ...]] = []
    monkeypatch.setattr(runs.heap, "give_back", lambda: held.append(run.steps_held()))
    manager.create(settings, run)
    assert held == [(3,)]


def test_a_run_that_cannot_start_leaves_nothing(
    manager: Runs, settings_for: MakeSettings, tmp_path: Path
) -> None:
    for _ in range(5):  # more than the cap
        with pytest.raises(demo_models.DataError):
            manager.create(settings_for(batch_size=10**6))
        with pytest.raises(RunError):
            manager.create(settings_for(interval=9, stop_after=3))
    assert list(tmp_path.iterdir()) == []
    assert manager.create(settings_for()).snapshot().steps == (0,)


def test_a_run_takes_another_one_s_place(manager: Runs, settings: RunSettings) -> None:
    """Even on a full server; and the old one stays if the new one cannot start."""
    old, *_ = (manager.create(settings) for _ in range(3))
    with pytest.raises(RunError):
        manager.create(replace(settings, interval=9), old)
    assert manager.get(old.id) is old
    assert old.snapshot().status == "paused"
    new = manager.create(settings, old)
    assert manager.get(new.id) is new
    assert manager.get(old.id) is None
    assert old.snapshot().status == "closed"
    assert not old.path.exists()


def test_one_run_s_place_is_taken_once(manager: Runs, settings: RunSettings) -> None:
    """Several tabs that show one run reset it at once: the server's limit holds."""
    old, *_ = (manager.create(settings) for _ in range(3))
    new = manager.create(settings, old)
    with pytest.raises(RunError, match="already holds 3 runs"):
        manager.create(settings, old)
    assert manager.get(new.id) is new
    manager.close(new)
    assert manager.create(settings, old).snapshot().status == "paused"


def test_the_example_gives_nobody_its_place(manager: Runs, settings: RunSettings) -> None:
    example = manager.example()
    for _ in range(3):
        manager.create(settings, example)
    with pytest.raises(RunError, match="already holds 3 runs"):
        manager.create(settings, example)
    assert manager.get(EXAMPLE_ID) is example


def test_closing_all_leaves_nothing(manager: Runs, settings: RunSettings, tmp_path: Path) -> None:
    """At the end of the process, whatever the runs are doing."""
    made = [manager.example(), manager.create(replace(settings, stop_after=10_000))]
    made[1].play()
    manager.close_all()
    assert [run.snapshot().status for run in made] == ["closed", "closed"]
    assert not tmp_path.exists()
    names = {t.name for t in threading.enumerate()}
    assert not names & {f"run-{run.id}" for run in made}


def test_two_runs_at_once_do_not_disturb_each_other(
    manager: Runs, settings_for: MakeSettings
) -> None:
    """Trained at the same time or alone: the same bytes."""
    together = [manager.create(settings_for(seed=seed)) for seed in (1, 2)]
    for run in together:
        run.play()
    for run in together:
        assert run.wait(60).status == "finished"
    alone = manager.create(settings_for(seed=1))
    alone.play()
    alone.wait(60)
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
