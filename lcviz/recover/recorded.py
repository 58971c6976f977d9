"""The recorded experiment that the Recover page opens with; `python -m lcviz.recover.record`
writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lcviz.lab.recovery.recovery import Outcome, Protocol, Race
from lcviz.lab.recovery.rework import CrashExperiment

FILE = Path(__file__).parent / "recorded.json"
COMMAND = "python -m lcviz.recover.record"
_SHARED = ("undisturbed", "trend", "before", "trend_before")  # by all methods of a seed


class RecordingError(Exception):
    """A recording that cannot be read; the message says what to do."""


@dataclass(frozen=True)
class Recording:
    """A finished experiment.

    by_seed: outcomes by seed, from 0 on, in the order of the experiment's methods. on: processor,
    versions and date.
    """

    experiment: CrashExperiment
    by_seed: tuple[tuple[Outcome, ...], ...]
    on: Mapping[str, Any]

    def dump(self) -> str:
        """The recording as JSON, with a digest."""
        values = {
            "experiment": asdict(self.experiment),
            "on": dict(self.on),
            "seeds": [_seed_values(outcomes) for outcomes in self.by_seed],
        }
        return json.dumps({"sha256": _digest(values)} | values, allow_nan=False) + "\n"

    @property
    def day(self) -> str:
        """When it was recorded, as "2026-11-23"."""
        return str(self.on["date"])

    @property
    def versions(self) -> str:
        """Names and versions of the packages that the numbers depend on."""
        return ", ".join(f"{name} {version}" for name, version in self.on["versions"].items())


@cache
def recorded() -> Recording:
    """The package's recording. Raises RecordingError."""
    try:
        return load(FILE.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecordingError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise RecordingError(
            f"The recorded experiment cannot be read: {FILE.name}: {why}. Run your own below; "
            f"install lcviz again, or run `{COMMAND}`, to get the recording back."
        ) from exc


def load(text: str) -> Recording:
    """A recording from the text of `Recording.dump`. Raises RecordingError."""
    try:
        values = json.loads(text)
        digest = values.pop("sha256")
        if digest != _digest(values):
            raise RecordingError("it was changed or damaged: its digest does not match")
        settings = values["experiment"]
        protocol = Protocol(**settings.pop("protocol"))
        experiment = CrashExperiment(**settings, protocol=protocol)
        by_seed = tuple(
            tuple(_outcomes(experiment, seed, of_seed))
            for seed, of_seed in enumerate(values["seeds"])
        )
        return Recording(experiment, by_seed, values["on"])
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise RecordingError("it is no recording of this version") from exc


def _seed_values(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The values that all methods share, once, and those of each method."""
    race = asdict(outcomes[0].race)
    methods = []
    for outcome in outcomes:
        fields = {k: v for k, v in asdict(outcome).items() if k not in ("method", "seed", "race")}
        methods.append({"name": outcome.method.name} | fields | {"restored": outcome.race.restored})
    return {name: race[name] for name in _SHARED} | {"methods": methods}


def _outcomes(
    experiment: CrashExperiment, seed: int, values: Mapping[str, Any]
) -> Sequence[Outcome]:
    shared = {name: tuple(values[name]) for name in _SHARED}
    outcomes = []
    for method, fields in zip(experiment.methods, values["methods"], strict=True):
        fields = dict(fields)
        if fields.pop("name") != method.name:
            raise RecordingError("its methods are not those of this version")
        race = Race(restored=tuple(fields.pop("restored")), **shared)
        outcomes.append(Outcome(method=method, seed=seed, race=race, **fields))
    return outcomes


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
