"""The recorded experiment that the Recover page opens with.

`python -m lcviz.record_example` writes it.
Losses, distances and bytes come out the same every time, seconds do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import torch

import codec
from lcviz.lab.machine import PACKAGES, machine
from lcviz.lab.progress import unreported
from lcviz.lab.recovery.recovery import Outcome, Protocol, Race
from lcviz.lab.recovery.rework import CrashExperiment

FILE = Path(__file__).parent / "recorded.json"
EXPERIMENT = CrashExperiment("logistic-regression", 0.05, Protocol())
SEEDS = 5
_SHARED = ("undisturbed", "trend", "before", "trend_before")  # by all methods of a seed


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
        """The recording as JSON."""
        values = {
            "experiment": asdict(self.experiment),
            "on": dict(self.on),
            "seeds": [_seed_values(outcomes) for outcomes in self.by_seed],
        }
        return json.dumps(values, allow_nan=False) + "\n"

    @property
    def day(self) -> str:
        """When it was recorded, as "2026-11-23"."""
        return str(self.on["date"])

    @property
    def versions(self) -> str:
        """Names and versions of the packages that the numbers depend on."""
        return ", ".join(f"{name} {version}" for name, version in self.on["versions"].items())


def record(experiment: CrashExperiment, seeds: int) -> Recording:
    """Run an experiment for the seeds from 0 to seeds - 1."""
    torch.set_num_threads(1)  # the same sums every time
    by_seed = tuple(tuple(experiment.fail(seed, unreported)) for seed in range(seeds))
    this_machine = machine(PACKAGES)
    versions = {"lcviz": codec.__version__} | this_machine["versions"]
    made_on = {"cpu": this_machine["cpu"], "versions": versions, "date": date.today().isoformat()}
    return Recording(experiment, by_seed, made_on)


@cache
def recorded() -> Recording:
    """The package's recording."""
    return load(FILE.read_text(encoding="utf-8"))


def load(text: str) -> Recording:
    """A recording from the text of `Recording.dump`."""
    values = json.loads(text)
    settings = values["experiment"]
    protocol = Protocol(**settings.pop("protocol"))
    experiment = CrashExperiment(**settings, protocol=protocol)
    seeds = enumerate(values["seeds"])
    by_seed = tuple(tuple(_outcomes(experiment, seed, of_seed)) for seed, of_seed in seeds)
    return Recording(experiment, by_seed, values["on"])


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
) -> Iterator[Outcome]:
    shared = {name: tuple(values[name]) for name in _SHARED}
    for method, fields in zip(experiment.methods, values["methods"], strict=True):
        assert fields.pop("name") == method.name, "recorded by this version"
        race = Race(restored=tuple(fields.pop("restored")), **shared)
        yield Outcome(method=method, seed=seed, race=race, **fields)
