"""One call at a time, in the process that made the object: `Checkpointer` saves or says no."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import codec
from codec.errors import LockedError, StepOrderError
from codec.saving.call_lock import CallLock
from codec.saving.checkpointer import Front

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX's signals and forks")
InFork = Callable[[Callable[[], Any]], tuple[int, str]]
BOTH = pytest.mark.parametrize("asynchronous", [False, True])


def test_other_threads_wait(tmp_path: Path) -> None:
    lock, inside = CallLock(tmp_path), []
    thread = threading.Thread(target=lock.run, args=(inside.append, 1))

    def outer() -> None:
        thread.start()
        thread.join(0.1)
        assert inside == []
        with pytest.raises(LockedError, match="another call is under way"):
            lock.run(inside.append, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lock.run(outer)
    thread.join()
    lock.run(inside.append, 3)
    assert inside == [1, 3]


@BOTH
def test_saves_from_several_threads(tmp_path: Path, asynchronous: bool) -> None:
    path, said = tmp_path / "run.lcc", threading.Lock()
    with codec.Checkpointer(path, policy={"*": "exact"}, asynchronous=asynchronous) as checkpoints:

        def save() -> None:
            for _ in range(10):
                with said:
                    step = (checkpoints.step or 0) + 1
                try:
                    saved = checkpoints.save(step, {"w": np.full(1000, step)})
                    assert saved.nbytes > 0
                except StepOrderError:  # another one was faster
                    pass

        threads = [threading.Thread(target=save, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        assert not any(thread.is_alive() for thread in threads)
    report = codec.verify(path)
    assert report.ok
    assert len(report.steps) >= 10
    for step in report.steps:
        assert (codec.restore(path, step)["w"] == step).all()


@BOTH
def test_a_signal_s_handler_in_the_midst_of_a_save(tmp_path: Path, asynchronous: bool) -> None:
    state = {"w": np.zeros(9)}

    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGUSR1)

    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=asynchronous) as checkpoints:
        previous = signal.signal(signal.SIGUSR1, lambda *_: checkpoints.save(2, state))
        try:
            with (
                mock.patch.object(Front, "look_at", interrupted),
                pytest.raises(LockedError, match="another call is under way"),
            ):
                checkpoints.save(1, state)
        finally:
            signal.signal(signal.SIGUSR1, previous)
        checkpoints.save(3, state)
    assert codec.verify(tmp_path / "run.lcc").steps == (3,)


@BOTH
def test_a_fork_writes_nothing(tmp_path: Path, asynchronous: bool, in_fork: InFork) -> None:
    path, state = tmp_path / "run.lcc", {"w": np.zeros(9)}

    def save() -> None:
        with pytest.raises(LockedError, match=r"only process .* writes here, and this one"):
            checkpoints.save(1, state)
        with pytest.raises(LockedError):
            checkpoints.restore()

    with codec.Checkpointer(path, asynchronous=asynchronous) as checkpoints:
        checkpoints.save(0, state)
        assert in_fork(save) == (0, "")
        checkpoints.save(2, state)
    assert codec.verify(path).ok
    assert codec.verify(path).steps == (0, 2)


@BOTH
def test_a_fork_that_leaves_the_with_takes_nothing_along(
    tmp_path: Path, asynchronous: bool, in_fork: InFork
) -> None:
    """Neither the lock nor an answer that this process waits for."""
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, asynchronous=asynchronous) as checkpoints:
        saved = checkpoints.save(0, {"w": np.zeros(9)})

        def leave() -> None:
            with checkpoints:
                raise SystemExit(5)

        assert in_fork(leave) == (5, "")
        assert in_fork(checkpoints.close) == (0, "")
        with pytest.raises(LockedError):
            codec.Checkpointer(path, resume=True)
        assert saved.kind == "base"
    assert codec.verify(path).steps == (0,)
