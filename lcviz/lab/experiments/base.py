"""What the experiments of `python -m lcviz` share: their arguments, and what they run on.

A trial is kept as a whole when a run is interrupted. Its rows are plain values, as in JSON and CSV;
tables are made of nothing else.
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
from lcviz.lab.intervals import Mean
from lcviz.lab.progress import Progress as Tell
from lcviz.lab.series import Loss, OwnSeries, Series, TrainedSeries
from lcviz.lab.workload import Workload, workload

from .results_file import Row

Value = TypeVar("Value")
MOST_SEEDS = 1000  # every one is a training or more
OWN = "own"  # instead of a model's name
# What experiments train unless told otherwise. Plain SGD hardly trains a transformer.
ALIKE = tuple(name for name, card in MODELS.items() if card.data != TEXT_DATA)
TITLES = {name: card.title for name, card in MODELS.items()} | {OWN: "own"}


class Experiment(ABC):
    """One subcommand."""

    name: str

    @abstractmethod
    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """What can be asked of this one."""

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """Their keys, as JSON holds them: a model and a seed each, unless overridden."""
        return list(workload_keys(options))

    @abstractmethod
    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """One trial."""

    @abstractmethod
    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """Markdown."""


def argument(
    parser: argparse.ArgumentParser,
    flag: str,
    read: Callable[[str], Any],
    default: Any,
    metavar: str,
    about: str,
) -> None:
    """An option whose help ends with its default."""
    values = default if isinstance(default, list | tuple) else [default]
    shown = ",".join("all" if v is None else f"{v}" for v in values)
    parser.add_argument(
        flag, type=read, default=default, metavar=metavar, help=f"{about} (default: {shown})"
    )


def workload_arguments(
    parser: argparse.ArgumentParser, seeds: int = 5, models: Sequence[str] = ALIKE
) -> None:
    """Which models, data and seeds. models: unless others are asked for."""
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
    """A training of one seed, or checkpoints of the user's own."""
    workload_arguments(parser, seeds=1)
    own_arguments(parser)
    argument(parser, "--iterations", whole(1), iterations, "N", "of a training")


def own_arguments(parser: argparse.ArgumentParser) -> None:
    """Checkpoints of the user's own."""
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
    """What is chosen in advance, where an experiment does not try every setting."""
    argument(parser, "--interval", whole(1), 1, "K", "iterations between checkpoints")
    parser.add_argument(
        "--scope", choices=SCOPES, default="model", help="of one alphabet (default: model)"
    )


def data_of(options: argparse.Namespace) -> str | None:
    """What the models that can take it are trained on; None for what is built in."""
    return options.data or ("mnist" if options.folder else None)


def workload_keys(options: argparse.Namespace) -> Iterable[list[Any]]:
    """One trial a model and seed. Raises demo_models.IncompatibleDataError for data that none of
    the models can take."""
    can = [data for model in options.models for data in MODELS[model].data]
    if options.data and options.data not in can:
        raise IncompatibleDataError(", ".join(options.models), options.data, dict.fromkeys(can))
    seeds = range(options.seed, options.seed + options.seeds)
    return ([model, seed] for model in options.models for seed in seeds)


def series_keys(options: argparse.Namespace) -> Iterable[list[Any]]:
    """The same, or one of the user's own checkpoints. Raises what `OwnSeries` does."""
    if options.own:
        found_of(options)
        return [[OWN, None]]
    return workload_keys(options)


def found_of(options: argparse.Namespace) -> OwnSeries:
    """The user's own checkpoints."""
    loss = getattr(options, "loss", None)
    return OwnSeries(options.own, rules(options.policy), _function(loss) if loss else None)


@cache
def _function(text: str) -> Loss:
    """What FILE.py:FUNCTION names. Raises codec.SettingsError if it is not there."""
    path, _, name = text.rpartition(":")
    if not Path(path).is_file():
        raise SettingsError(f"--loss {text}: there is no such file; give FILE.py:FUNCTION")
    found: Loss | None = runpy.run_path(path).get(name)
    if not callable(found):
        raise SettingsError(f"--loss {text}: the file has no such function")
    return found


def caution(options: argparse.Namespace) -> str:
    """What a reader has to know of the user's own series; nothing of any other."""
    if not getattr(options, "own", None):
        return ""
    found = found_of(options)
    if why := found.why_counted:
        return f"The checkpoints are counted from 0, in the order given: {why}."
    if not found.is_chain:
        return ""
    return (
        "A chain holds what a restart would load, not what was trained: changes that it left out "
        "cannot be judged any more, so small numbers here say little. Checkpoints of the training "
        "itself say more."
    )


def workload_of(options: argparse.Namespace, model: str) -> Workload:
    """What is trained; a model that cannot take the data that were named trains on its own."""
    data = data_of(options)
    return workload(model, data if data in MODELS[model].data else None, options.folder)


def about(options: argparse.Namespace, model: str, seed: int | None) -> Row:
    """What every row of a trial begins with."""
    own = getattr(options, "own", None)
    if not own:
        data = workload_of(options, model).data
    else:
        data = ", ".join(map(str, own)) if len(own) <= 3 else f"{own[0]} and {len(own) - 1} more"
    return {"model": model, "data": data, "seed": seed}


def provenance(rows: Sequence[Row], on: Mapping[str, Any]) -> str:
    """A sentence to go below a table: what was trained, from which seeds, where and with what."""
    trained = {r["model"]: DATASETS[r["data"]].title for r in rows if r["model"] != OWN}
    own = list(dict.fromkeys(r["data"] for r in rows if r["model"] == OWN))
    what = [f"{TITLES[model]} on {data}" for model, data in trained.items()] + own
    seeds = sorted({r["seed"] for r in rows if r["seed"] is not None})
    if seeds:
        what.append(f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}")
    versions = ", ".join(f"{name} {version}" for name, version in on["versions"].items())
    return (
        f"{'; '.join(what)}. {on['cpu']}, {on['cores']} cores, "
        f"one thread of torch; {versions}; {on['date']}."
    )


def titled(model: str, seed: int | None) -> str:
    """What a table of one trial is headed with."""
    return TITLES[model] if seed is None else f"{TITLES[model]}, seed {seed}"


def series_of(options: argparse.Namespace, model: str, seed: int) -> Series:
    """The states that an experiment looks at."""
    if options.own:
        return found_of(options)
    interval = getattr(options, "interval", 1)
    return TrainedSeries(workload_of(options, model), seed, options.iterations, interval)


def with_interval(found: Mean, digits: int = 2, sign: str = "") -> str:
    """A mean ± half of its interval; the mean alone where there is none, as of a single seed."""
    text = f"{found.value:{sign}.{digits}f}"
    return f"{text} ± {found.half:.{digits}f}" if math.isfinite(found.half) else text


def percent(share: float) -> str:
    """A share that was asked for, in as many digits as it has: up to three."""
    return f"{100 * share:.3g}%"


def grouped(rows: Sequence[Row], *keys: str) -> Iterable[tuple[list[Any], list[Row]]]:
    """Rows with the same values under these keys, in the order of their first ones."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return ((list(key), own) for key, own in groups.items())


def listed(read: Callable[[str], Value]) -> Callable[[str], list[Value]]:
    """A reader of values separated by commas. A repeated value counts once: it would make intervals
    narrower than they are."""
    return lambda text: list(dict.fromkeys(map(read, text.split(","))))


def some_of(names: Sequence[str]) -> Callable[[str], list[str]]:
    """A reader of some of these names, separated by commas."""

    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"choose of {', '.join(names)}; got {text!r}")
        return text

    return listed(read)


def whole(least: int, most: int = sys.maxsize) -> Callable[[str], int]:
    """A reader of whole numbers in this range."""

    def read(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if not least <= found <= most:
            upto = "or more" if most == sys.maxsize else f"to {most:,}"
            raise argparse.ArgumentTypeError(f"whole numbers here are {least} {upto}; got {text!r}")
        return found

    return read


def share(text: str) -> float:
    """A share of the float32 size."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 < found <= 1:
        raise argparse.ArgumentTypeError(
            f"shares lie above 0 and are at most 1: 0.05 is 5 %; got {text!r}"
        )
    return found


def bits(text: str) -> int | None:
    """x of priority promotion, None for all buckets."""
    if text == "all":
        return None
    if text not in tuple("12345678"):
        raise argparse.ArgumentTypeError(f"bits are 1 to 8, or all; got {text!r}")
    return int(text)
