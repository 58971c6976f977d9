"""The recorded experiment that the Recover page opens with. `python -m lcviz.recover.record`
writes it."""

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
_OF_A_SEED = ("undisturbed", "trend", "before", "trend_before")  # the same for every method


class RecordingError(Exception):
    """A recording that cannot be read; the message says what to do."""


@dataclass(frozen=True)
class Recording:
    """A finished experiment.

    by_seed: the outcomes of each seed, from 0 on, in the order of the experiment's methods. on: the
    processor, the versions and the date.
    """

    experiment: CrashExperiment
    by_seed: tuple[tuple[Outcome, ...], ...]
    on: Mapping[str, Any]

    def dump(self) -> str:
        """As JSON, with a digest."""
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
        """Of the packages that the numbers depend on."""
        return ", ".join(f"{name} {version}" for name, version in self.on["versions"].items())


@cache
def recorded() -> Recording:
    """The package's own. Raises RecordingError."""
    try:
        return load(FILE.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecordingError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else str(exc)
        raise RecordingError(
            f"The recorded experiment cannot be read: {FILE.name}: {why}. Run your own below; "
            f"install lcviz again, or run `{COMMAND}`, to get the recording back."
        ) from exc


def load(text: str) -> Recording:
    """What `Recording.dump` has written. Raises RecordingError."""
    try:
        values = json.loads(text)
        digest = values.pop("sha256")
        if digest != _digest(values):
            raise RecordingError("it was changed or damaged, its digest does not fit")
        own = values["experiment"]
        protocol = Protocol(**own.pop("protocol"))
        experiment = CrashExperiment(**own, protocol=protocol)
        by_seed = tuple(
            tuple(_outcomes(experiment, seed, one)) for seed, one in enumerate(values["seeds"])
        )
        return Recording(experiment, by_seed, values["on"])
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise RecordingError("it is no recording of this version") from exc


def _seed_values(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """What all methods share, and of each method the rest."""
    race = asdict(outcomes[0].race)
    methods = []
    for o in outcomes:
        own = {k: v for k, v in asdict(o).items() if k not in ("method", "seed", "race")}
        methods.append({"name": o.method.name} | own | {"restored": o.race.restored})
    return {name: race[name] for name in _OF_A_SEED} | {"methods": methods}


def _outcomes(
    experiment: CrashExperiment, seed: int, values: Mapping[str, Any]
) -> Sequence[Outcome]:
    shared = {name: tuple(values[name]) for name in _OF_A_SEED}
    found = []
    for method, own in zip(experiment.methods, values["methods"], strict=True):
        own = dict(own)
        if own.pop("name") != method.name:
            raise RecordingError("its methods are not those of this version")
        race = Race(restored=tuple(own.pop("restored")), **shared)
        found.append(Outcome(method=method, seed=seed, race=race, **own))
    return found


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
