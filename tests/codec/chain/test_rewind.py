"""A chain that goes back to a step, and what it was until then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.chain.rewind import rewind
from codec.errors import ChainNotFoundError, LockedError, RewoundWarning
from codec.storage.directory import Directory
from tests.codec.chains import all_steps, save_all


@pytest.mark.parametrize(("step", "left"), [(25, (0, 10, 20)), (10, (0, 10)), (0, (0,))])
def test_goes_back_and_keeps_what_was(run: Path, step: int, left: Any) -> None:
    before = all_steps(run)
    with pytest.warns(RewoundWarning, match=rf"from step {step} and was at 30") as caught:
        old = rewind(run, step)
    assert old == run / "until-30.lcc"
    assert caught[0].filename == __file__
    assert all_steps(old) == before
    assert all_steps(run) == {s: before[s] for s in left}
    state = codec.restore(run)
    with codec.Checkpointer(run, bits=3, resume=True) as checkpoints:
        assert checkpoints.save(step + 1, state).kind == "delta"
    assert codec.verify(run).ok
    assert codec.verify(old).ok
    with pytest.warns(RewoundWarning):
        assert rewind(run, step) == run / f"until-{step + 1}.lcc"


def test_nothing_to_go_back_from(tmp_path: Path, run: Path) -> None:
    before = sorted(run.iterdir())
    assert rewind(run, 30) is None
    assert rewind(run, 99) is None
    assert rewind(tmp_path / "none.lcc", 5) is None
    assert sorted(run.iterdir()) == before
    assert not (tmp_path / "none.lcc").exists()


def test_before_the_first_step_a_new_chain_begins(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    for n in (1, 2):  # the second until-9 is not the first
        states = ({"w": np.full(9, step * n, np.float32)} for step in range(5, 10))
        save_all(path, states, 5, resume=True)
        before = all_steps(path)
        with pytest.warns(RewoundWarning):
            old = rewind(path, 4)
        assert old is not None
        assert old.name == ("until-9.lcc" if n == 1 else "until-9-2.lcc")
        assert all_steps(old) == before
        with pytest.raises(ChainNotFoundError):
            codec.Chain(path)


def test_only_who_writes_goes_back(run: Path) -> None:
    with codec.Checkpointer(run, resume=True), pytest.raises(LockedError):
        rewind(run, 10)
    assert codec.Chain(run).steps == (0, 10, 20, 30)


@pytest.mark.filterwarnings("ignore::codec.errors.RewoundWarning")
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_stopped_anywhere_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """At each call that links, removes or makes durable: one of the two chains has each step."""
    calls_left = 1000

    def stopping(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls_left
            calls_left -= 1
            if calls_left < 0:
                raise error(5, "stopped")
            return real(*args, **kwargs)

        return call

    for name in ("link", "unlink", "fsync"):
        monkeypatch.setattr(os, name, stopping(getattr(os, name)))
    share = Directory.share

    def begin(*args: Any) -> Path:
        nonlocal calls_left
        calls_left = done  # from here on: what comes before is the lock
        return share(*args)

    whole = tmp_path / "whole.lcc"
    save_all(whole, ({"w": np.full(9, step, np.float32)} for step in range(4)))
    before = all_steps(whole)
    for done in range(100):
        calls_left, path = 1000, shutil.copytree(whole, tmp_path / f"{done}.lcc")
        with monkeypatch.context() as patch:
            patch.setattr(Directory, "share", begin)
            try:
                rewind(path, 1)
                break
            except (codec.WriteError, KeyboardInterrupt):
                pass
        seen = all_steps(path)
        for old in path.glob("until-3*/"):
            if any(old.iterdir()):
                seen |= all_steps(old)
        assert seen == before, done
    assert done == 4 + 2 + 2 + 1  # links, two directories, records removed, the directory
    assert codec.Chain(path).steps == (0, 1)
