"""The recorded experiment: this version finds its numbers again."""

from __future__ import annotations

import pytest

from lcviz.lab.recovery.recovery import Protocol
from lcviz.lab.recovery.rework import CrashExperiment
from lcviz.recover.recorded import EXPERIMENT, FILE, SEEDS, Recording, load, record, recorded

MOST = 300_000  # bytes of the file
SMALL = CrashExperiment("matrix-factorization", 0.05, Protocol(10, 1, 10))


def test_it_is_what_the_command_would_write_today() -> None:
    """Losses, distances and bytes of one seed; another processor adds up in another order."""
    kept = load(FILE.read_text())
    assert FILE.stat().st_size < MOST
    assert (kept.experiment, len(kept.by_seed)) == (EXPERIMENT, SEEDS)
    (again,) = record(EXPERIMENT, 1).by_seed
    for old, new in zip(kept.by_seed[0], again, strict=True):
        assert (old.method, old.seed, old.capped) == (new.method, new.seed, new.capped)
        assert old.nbytes == pytest.approx(new.nbytes, rel=0.01)
        assert old.share == pytest.approx(new.share, rel=0.01)
        assert old.distance == pytest.approx(new.distance, rel=0.02)
        assert old.loss_before == pytest.approx(new.loss_before, rel=1e-4)
        assert old.loss_restored == pytest.approx(new.loss_restored, rel=1e-3)
        assert old.rework == pytest.approx(new.rework, abs=0.2)
        assert old.race.undisturbed == pytest.approx(new.race.undisturbed, rel=1e-3)
        assert old.race.trend == pytest.approx(new.race.trend, rel=1e-3)
        both = zip(old.race.restored, new.race.restored)
        assert all(a == pytest.approx(b, rel=1e-2) for a, b in both)


def test_nothing_is_lost_on_the_way() -> None:
    recording = record(SMALL, 2)
    assert load(recording.dump()) == recording


def test_who_made_it() -> None:
    recording: Recording = recorded()
    assert "torch" in recording.versions
    assert recording.day.startswith("20")
