"""The recorded experiment: the numbers that this version finds again, and what damage leads to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcviz.lab.recovery.recovery import Protocol
from lcviz.lab.recovery.rework import CrashExperiment
from lcviz.recover import recorded as recordings
from lcviz.recover.record import EXPERIMENT, SEEDS, main, record
from lcviz.recover.recorded import FILE, Recording, RecordingError, load, recorded

MOST = 300_000  # bytes of the file
SMALL = CrashExperiment("matrix-factorization", 0.05, Protocol(10, 1, 10))


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy that tests may change, in place of the package's own."""
    path = tmp_path / "recorded.json"
    path.write_bytes(FILE.read_bytes())
    monkeypatch.setattr(recordings, "FILE", path)
    recorded.cache_clear()
    yield path
    recorded.cache_clear()


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


def test_nothing_is_lost_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record(SMALL, 2)
    assert load(recording.dump()) == recording
    monkeypatch.setattr("lcviz.recover.record.EXPERIMENT", SMALL)
    monkeypatch.setattr("lcviz.recover.record.SEEDS", 1)
    main([str(tmp_path / "file.json")])
    assert load((tmp_path / "file.json").read_text()).experiment == SMALL


def test_damage_is_told(damaged: Path) -> None:
    text = damaged.read_text()
    for other in (text.replace("0.7", "0.8", 1), text[:-20], "", "[]", "null", '{"sha256": ""}'):
        damaged.write_text(other)
        recorded.cache_clear()
        with pytest.raises(RecordingError, match=r"recorded\.json: it .*Run your own"):
            recorded()
    damaged.write_bytes(b"\xff\xfe")
    with pytest.raises(RecordingError, match="cannot be read"):
        recorded()
    damaged.unlink()
    with pytest.raises(RecordingError, match="No such file"):
        recorded()


def test_of_another_version(damaged: Path) -> None:
    """What another version wrote is whole, but does not fit."""
    values = json.loads(damaged.read_text())
    values["experiment"]["protocol"]["unheard"] = 1
    with pytest.raises(RecordingError, match="no recording of this version"):
        load(_signed(values))
    del values["experiment"]["protocol"]["unheard"]
    values["seeds"][0]["methods"][1]["name"] = "other"
    with pytest.raises(RecordingError, match="methods"):
        load(_signed(values))
    del values["seeds"][0]["methods"][1:]
    with pytest.raises(RecordingError, match="no recording of this version"):
        load(_signed(values))


def _signed(values: dict[str, object]) -> str:
    del values["sha256"]
    values["sha256"] = recordings._digest(values)
    return json.dumps(values)


def test_who_made_it() -> None:
    recording: Recording = recorded()
    assert "torch" in recording.versions
    assert recording.day.startswith("20")
