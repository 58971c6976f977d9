"""SIGTERM in the context of `Checkpointer.of`: the save under way ends first."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import codec
from codec.storage.directory import Directory

Patch = pytest.MonkeyPatch

InFork = Callable[[Callable[[], Any]], tuple[int, str]]
Act = Callable[[], object]


def term() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def during_saves(monkeypatch: Patch, act: Act) -> None:
    """Let ``act`` happen in the middle of every save."""
    publish = Directory.publish

    def interrupted(self: Directory, *args: Any) -> float:
        act()
        return publish(self, *args)

    monkeypatch.setattr(Directory, "publish", interrupted)


def saving(path: Path, **settings: Any) -> codec.Checkpointer:
    return codec.Checkpointer.of(path, model=torch.nn.Linear(9, 9), **settings)


def check_ended(path: Path, steps: tuple[int, ...]) -> None:
    """These steps restore, and nobody has the chain."""
    assert codec.verify(path).ok
    assert codec.Chain(path).steps == steps
    codec.Checkpointer(path, resume=True).close()


def test_the_save_under_way_ends(tmp_path: Path, in_fork: InFork, monkeypatch: Patch) -> None:
    """Then the process ends as SIGTERM ends it; outside a save it ends at once."""
    path = tmp_path / "run.lcc"

    def outside() -> None:
        with saving(path) as checkpoints:
            checkpoints.save(0)
            term()
            checkpoints.save(1)

    def inside() -> None:
        with saving(path) as checkpoints:
            during_saves(monkeypatch, term)
            checkpoints.save(1)
            checkpoints.save(2)

    assert in_fork(outside) == (-signal.SIGTERM, "")
    check_ended(path, (0,))
    assert in_fork(inside) == (-signal.SIGTERM, "")
    check_ended(path, (0, 1))


def test_a_save_in_another_process_ends(
    tmp_path: Path, in_fork: InFork, monkeypatch: Patch
) -> None:
    path = tmp_path / "run.lcc"

    def act() -> None:
        during_saves(monkeypatch, lambda: time.sleep(0.5))
        with saving(path, asynchronous=True) as checkpoints:
            checkpoints.save(0)
            term()

    assert in_fork(act) == (-signal.SIGTERM, "")
    check_ended(path, (0,))


def test_a_handler_of_ones_own_decides(tmp_path: Path, in_fork: InFork, monkeypatch: Patch) -> None:
    """It is called after the save; the loop goes on, or ends as the handler says."""
    path = tmp_path / "run.lcc"

    def handler(number: int, frame: Any) -> None:
        print("steps", *codec.Chain(path).steps, "signal", number, type(frame).__name__)
        if len(codec.Chain(path).steps) > 1:
            sys.exit(7)

    def act() -> None:
        signal.signal(signal.SIGTERM, handler)
        with saving(path) as checkpoints:
            during_saves(monkeypatch, term)
            checkpoints.save(0)
            checkpoints.save(1)

    code, out = in_fork(act)
    assert (code, out) == (7, "steps 0 signal 15 frame\nsteps 0 1 signal 15 frame\n")
    check_ended(path, (0, 1))


def test_who_has_the_signal(tmp_path: Path, in_fork: InFork) -> None:
    """It is given back. Not taken: what is ignored, in another thread, and by a plain writer. A
    fork, such as a data loader's, ends at once."""

    def act() -> None:
        for before in (signal.SIG_DFL, signal.SIG_IGN):
            signal.signal(signal.SIGTERM, before)
            with saving(tmp_path / f"{before}.lcc") as checkpoints:
                checkpoints.save(0)
                taken = signal.getsignal(signal.SIGTERM)
                assert (taken == before) is (before == signal.SIG_IGN)
                if before == signal.SIG_DFL:
                    if (child := os.fork()) == 0:
                        term()
                    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
                checkpoints.save(1)
            assert signal.getsignal(signal.SIGTERM) == before
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

        def elsewhere() -> None:
            with saving(tmp_path / "thread.lcc") as checkpoints:
                checkpoints.save(0)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        with codec.Checkpointer(tmp_path / "plain.lcc"), saving(tmp_path / "later.lcc"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a later one stays
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        with codec.Checkpointer(tmp_path / "plain.lcc"):
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN

    assert in_fork(act) == (0, "")
    check_ended(tmp_path / "thread.lcc", (0,))
