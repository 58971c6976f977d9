"""What the experiments share: arguments, trials and parts of tables.

When an experiment is interrupted, its finished trials are kept. Their rows are plain values, as in
JSON and CSV; tables are made of nothing else.
"""

from __future__ import annotations

import argparse
import math
import runpy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from codec.errors import SettingsError
from codec.inspect import SCOPES, rules
from demo_models import DATASETS, MODELS, IncompatibleDataError
from demo_models.model import TEXT_DATA
from lcviz.lab.intervals import Mean, mean
from lcviz.lab.progress import Progress
from lcviz.lab.series import Loss, OwnSeries, Series, TrainedSeries
from lcviz.lab.workload import Workload, workload

from .results_file import Row

Value = TypeVar("Value")
Options = argparse.Namespace
Trial = Sequence[Any]  # the key of one, as JSON holds it
MOST_SEEDS = 1000  # each seed takes a training or more
OWN = "own"  # instead of a model's name
# The models that experiments train by default. Plain SGD hardly trains a transformer.
ALIKE = tuple(name for name, card in MODELS.items() if card.data != TEXT_DATA)
TITLES = {name: card.title for name, card in MODELS.items()} | {OWN: "own"}


class Experiment(ABC):
    """One subcommand."""

    name: str

    @abstractmethod
    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of this experiment to the parser."""

    def trials(self, options: Options) -> list[list[Any]]:
        """The keys of all trials, as JSON holds them: first a model and a seed."""
        return keys_of(options)

    def run(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        """Run one trial; returns its rows, which begin with the model, its data and the seed."""
        model, seed = trial[:2]
        first = {"model": model, "data": _data_text(options, model), "seed": seed}
        return [first | row for row in self.rows(options, trial, progress)]

    @abstractmethod
    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        """The rows of one trial without its first columns."""

    @abstractmethod
    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        """The tables of all rows, in Markdown."""


def argument(
    parser: argparse.ArgumentParser,
    flag: str,
    read: Callable[[str], Any],
    default: Any,
    metavar: str,
    about: str,
) -> None:
    """Add an option whose help ends with its default."""
    values = default if isinstance(default, list | tuple) else [default]
    default_text = ",".join("all" if v is None else f"{v}" for v in values)
    parser.add_argument(
        flag, type=read, default=default, metavar=metavar, help=f"{about} (default: {default_text})"
    )


def workload_arguments(
    parser: argparse.ArgumentParser, seeds: int = 5, models: Sequence[str] = ALIKE
) -> None:
    """Add options for models, data and seeds. seeds, models: the defaults."""
    argument(
        parser, "--models", some_of(list(MODELS)), list(models), "M,…", f"of {', '.join(MODELS)}"
    )
    parser.add_argument(
        "--data",
        choices=list(DATASETS),
        metavar="NAME",
        help=f"of {', '.join(DATASETS)}, for the models that can take it (default: mnist for image "
        "models if --folder is given, else the built-in data)",
    )
    parser.add_argument("--folder", help="where MNIST, MovieLens or Jester files are")
    argument(parser, "--seed", int, 0, "SEED", "the first one")
    argument(parser, "--seeds", whole(1, MOST_SEEDS), seeds, "N", "how many")


def series_arguments(parser: argparse.ArgumentParser, iterations: int = 100) -> None:
    """Add options for a training of one seed, or the user's own checkpoints."""
    workload_arguments(parser, seeds=1)
    own_arguments(parser)
    argument(parser, "--iterations", whole(1), iterations, "N", "of a training")


def own_arguments(parser: argparse.ArgumentParser) -> None:
    """Add options for the user's own checkpoints."""
    parser.add_argument(
        "--own",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="instead of a training: a folder of your checkpoints, files, or a chain",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="PATTERN=HOW",
        help="lossy, exact or skip for names like this in your checkpoints; a ? at the end lets "
        "the pattern match nothing; may be repeated",
    )


def choice_arguments(parser: argparse.ArgumentParser) -> None:
    """Add options for the settings that an experiment does not try out."""
    argument(parser, "--interval", whole(1), 1, "K", "iterations between checkpoints")
    parser.add_argument(
        "--scope", choices=SCOPES, default="model", help="of one alphabet (default: model)"
    )


def data_of(options: Options) -> str | None:
    """The dataset for the models that can take it; None for the built-in data."""
    return options.data or ("mnist" if options.folder else None)


def keys_of(options: Options) -> list[list[Any]]:
    """A trial for each model and seed, or one of the user's own checkpoints.

    Raises demo_models.IncompatibleDataError for data that none of the models can take, and what
    `OwnSeries` does.
    """
    if getattr(options, "own", None):
        user_series(options)
        return [[OWN, None]]
    datasets = [data for model in options.models for data in MODELS[model].data]
    if options.data and options.data not in datasets:
        raise IncompatibleDataError(
            ", ".join(options.models), options.data, dict.fromkeys(datasets)
        )
    seeds = range(options.seed, options.seed + options.seeds)
    return [[model, seed] for model in options.models for seed in seeds]


def user_series(options: Options) -> OwnSeries:
    """The user's own checkpoints."""
    loss = getattr(options, "loss", None)
    return OwnSeries(options.own, rules(options.policy), _function(loss) if loss else None)


@cache
def _function(text: str) -> Loss:
    """The function that FILE.py:FUNCTION names. Raises codec.SettingsError if there is none."""
    path, _, name = text.rpartition(":")
    if not Path(path).is_file():
        raise SettingsError(f"--loss {text}: file not found; give FILE.py:FUNCTION")
    loss: Loss | None = runpy.run_path(path).get(name)
    if not callable(loss):
        raise SettingsError(f"--loss {text}: the file has no such function")
    return loss


def caution(options: Options) -> str:
    """What a reader must know about the user's own checkpoints; "" for a training."""
    if not getattr(options, "own", None):
        return ""
    series = user_series(options)
    if why := series.why_counted:
        return f"The checkpoints are counted from 0, in the order given: {why}."
    if not series.is_chain:
        return ""
    return (
        "A chain holds what a restart would load, not what was trained. The changes that it left "
        "out are unknown, so small numbers here say little; checkpoints of the training itself say "
        "more."
    )


def workload_of(options: Options, model: str) -> Workload:
    """What is trained: on the chosen data, or on the model's default if it cannot take them."""
    data = data_of(options)
    return workload(model, data if data in MODELS[model].data else None, options.folder)


def _data_text(options: Options, model: str) -> str:
    """The name of a dataset, or the paths of the user's own checkpoints."""
    paths = [str(path) for path in getattr(options, "own", None) or ()]
    if not paths:
        return workload_of(options, model).data
    return ", ".join(paths) if len(paths) <= 3 else f"{paths[0]} and {len(paths) - 1} more"


def provenance(rows: Sequence[Row], environment: Mapping[str, Any]) -> str:
    """A sentence below a table: models, data, seeds, machine, versions and date."""
    data_by_model = {r["model"]: DATASETS[r["data"]].title for r in rows if r["model"] != OWN}
    user_data = list(dict.fromkeys(r["data"] for r in rows if r["model"] == OWN))
    parts = [f"{TITLES[model]} on {data}" for model, data in data_by_model.items()] + user_data
    seeds = sorted({r["seed"] for r in rows if r["seed"] is not None})
    if seeds:
        parts.append(f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}")
    versions = ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
    return (
        f"{'; '.join(parts)}. {environment['cpu']}, {environment['cores']} cores, "
        f"one thread of torch; {versions}; {environment['date']}."
    )


def titled(model: str, seed: int | None) -> str:
    """The heading of one trial's table."""
    return TITLES[model] if seed is None else f"{TITLES[model]}, seed {seed}"


def series_of(options: Options, model: str, seed: int) -> Series:
    """The states that an experiment runs on."""
    if options.own:
        return user_series(options)
    interval = getattr(options, "interval", 1)
    return TrainedSeries(workload_of(options, model), seed, options.iterations, interval)


def with_interval(average: Mean, digits: int = 2, sign: str = "") -> str:
    """A mean ± half of its interval; the mean alone if there is none, as for a single seed."""
    text = f"{average.value:{sign}.{digits}f}"
    return f"{text} ± {average.half:.{digits}f}" if math.isfinite(average.half) else text


def percent(share: float) -> str:
    """A share in percent, with up to three digits."""
    return f"{100 * share:.3g}%"


def average(rows: Sequence[Row], key: str) -> float:
    """The mean of the rows' values under a key."""
    return mean([row[key] for row in rows]).value


def grouped(rows: Sequence[Row], *keys: str) -> Iterable[tuple[list[Any], list[Row]]]:
    """The rows grouped by their values under these keys, groups in order of their first row."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return ((list(key), group) for key, group in groups.items())


def listed(read: Callable[[str], Value]) -> Callable[[str], list[Value]]:
    """A reader of values separated by commas. A repeated value counts once: twice it would make
    intervals too narrow."""
    return lambda text: list(dict.fromkeys(map(read, text.split(","))))


def some_of(names: Sequence[str]) -> Callable[[str], list[str]]:
    """A reader of some of these names, separated by commas."""

    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"choose from {', '.join(names)}; got {text!r}")
        return text

    return listed(read)


def whole(least: int, most: int = sys.maxsize) -> Callable[[str], int]:
    """A reader of whole numbers in this range."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            upto = "or more" if most == sys.maxsize else f"to {most:,}"
            raise argparse.ArgumentTypeError(f"give a whole number, {least} {upto}; got {text!r}")
        return number

    return read


def number(accepted: Callable[[float], bool], rule: str) -> Callable[[str], float]:
    """A reader of numbers. accepted: which; NaN must not be. rule: the same in words."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not accepted(value):
            raise argparse.ArgumentTypeError(f"{rule}; got {text!r}")
        return value

    return read


share = number(lambda v: 0 < v <= 1, "a share is above 0 and at most 1: 0.05 is 5 %")


def bits(text: str) -> int | None:
    """Read x of priority promotion, None for all buckets."""
    if text == "all":
        return None
    if text not in tuple("12345678"):
        raise argparse.ArgumentTypeError(f"bits are 1 to 8, or all; got {text!r}")
    return int(text)
