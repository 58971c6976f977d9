"""Why a save is a base: `Saved.reason`, and the same in the record, the log and `info`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import codec
from codec.cli.main import main
from codec.inspect import Reason
from codec.scheme import twins, warmup
from codec.scheme.context import MOST_PLAIN
from codec.scheme.tracker import Tracker
from codec.storage.directory import Directory
from tests.codec.chains import save_all

Patch = pytest.MonkeyPatch
Before = Callable[[codec.Checkpointer, Path, Patch], object]


def state(n: int, size: int = 40) -> dict[str, Any]:
    return {"w": np.linspace(-1, 1, size, dtype=np.float32) * (1 + n / 100)}


def interrupt(checkpoints: codec.Checkpointer, path: Path, patch: Patch) -> None:
    with (
        mock.patch.object(Tracker, "commit", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        checkpoints.save(1, state(1))


def remove(checkpoints: codec.Checkpointer, path: Path, patch: Patch) -> None:
    (path / codec.Chain(path).entries[0].name).unlink()


def gain(checkpoints: codec.Checkpointer, path: Path, patch: Patch) -> None:
    patch.setattr(Directory, "may_gain_records", True)


def unload(checkpoints: codec.Checkpointer, path: Path, patch: Patch) -> None:
    """As if no kernels were loaded, and the state were large."""
    pytest.importorskip("numba")
    patch.setattr(twins._choice, "is_loaded", False)
    patch.setattr(warmup, "PLAIN_SECONDS", 0)


def nothing(checkpoints: codec.Checkpointer, path: Path, patch: Patch) -> None:
    pass


@pytest.mark.parametrize(
    ("before", "size", "base_every", "reason", "asynchronous"),
    [
        (nothing, 40, 1000, None, True),
        (nothing, 4000, 1000, Reason.LAYOUT, True),
        (nothing, 40, 1, Reason.MANY_DELTAS, False),
        (remove, 40, 1000, Reason.PARENT_GONE, False),
        (interrupt, 40, 1000, Reason.INTERRUPTED, False),
        (gain, 40, 1000, Reason.LATE_RECORD, False),
        (unload, 40, 1000, Reason.KERNELS, False),
    ],
)
def test_why_a_save_is_a_base(
    before: Before,
    size: int,
    base_every: int,
    reason: Reason | None,
    asynchronous: bool,
    tmp_path: Path,
    monkeypatch: Patch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, base_every=base_every, asynchronous=asynchronous) as checkpoints:
        assert checkpoints.save(0, state(0)).reason == Reason.FIRST
        if before is not interrupt:
            assert checkpoints.save(1, state(1)).reason is None
        before(checkpoints, path, monkeypatch)
        saved = checkpoints.save(2, state(2, size))
        assert (saved.reason, saved.kind) == (reason, "base" if reason else "delta")
    newest = codec.Chain(path).entries[-1]
    assert codec.Chain(path).read(newest).reason == reason
    assert main(["info", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["records"]
    assert rows[-1]["reason"] == reason
    assert main(["info", str(path)]) == 0
    line = next(text for text in capsys.readouterr().out.splitlines() if newest.name in text)
    assert line.endswith(f"{newest.name}  {reason or ''}".rstrip())


@pytest.mark.parametrize(("size", "reason"), [(MOST_PLAIN, None), (MOST_PLAIN + 1, Reason.KERNELS)])
def test_a_delta_that_kernels_would_make_smaller(
    size: int, reason: Reason | None, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Its values are too many for a context code in numpy."""
    pytest.importorskip("numba")
    codec.warm_up()
    changes = np.random.default_rng(0).normal(size=(3, size)).astype(np.float32)
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        checkpoints.save(0, {"w": changes[0]})
        assert checkpoints.save(1, {"w": changes[:2].sum(axis=0)}).reason is None
        monkeypatch.setattr(twins._choice, "is_loaded", False)
        saved = checkpoints.save(2, {"w": changes.sum(axis=0)})
        assert (saved.kind, saved.reason) == ("delta", reason)


def test_compact(tmp_path: Path) -> None:
    save_all(tmp_path / "run.lcc", map(state, range(2)))
    codec.compact(tmp_path / "run.lcc")
    chain = codec.Chain(tmp_path / "run.lcc")
    assert [chain.read(entry).reason for entry in chain.entries] == [Reason.ASKED]


def test_a_trainer_logs_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainers = pytest.importorskip("codec.trainers.run")
    caplog.set_level("INFO", trainers.__name__)
    run = trainers.ChainRun(tmp_path / "run.lcc", False, {})
    run.begin(0)
    for step in range(2):
        run.save(step, state(step))
    run.close()
    base, delta = (record.getMessage() for record in caplog.records)
    assert base.endswith("bytes; a base: first record")
    assert "bytes; a restart would be" in delta
