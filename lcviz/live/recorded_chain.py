"""A chain on disk as Live's pictures, step by step: what its records hold, without a training."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

import codec
from codec import Coding, Saved
from codec.errors import StepNotFoundError
from codec.inspect import Arrays, Group, Layout, Position, state_nbytes
from lcviz.lab.anatomy import dissect
from lcviz.lab.follow_weight import Weight, follow
from lcviz.lab.progress import Progress, unreported
from lcviz.lab.step_tensors import by_tensor
from lcviz.play.given import deflated
from lcviz.play.one_file import Recorded
from lcviz.run.snapshot import Checkpoint
from lcviz.run.whole_run import Trial
from lcviz.run.whole_state import Moment, States, own_name
from lcviz.text import plural
from lcviz.ui.charts import plotted

from .bits_picture import bits_picture
from .buckets_picture import Worth, buckets_picture
from .followed import WeightHistory, first_weight
from .headline import headline, tried_settings
from .step_record import StepRecord
from .steps_picture import steps_picture
from .weight_picture import DIGITS, weight_facts
from .weights_picture import Image, drawable, weights_picture

MOST_NBYTES = 2_500_000  # of all pictures in the page: with its code it stays below 3 MB
MOST_STEPS = 300  # more than a slider tells apart


def recorded_chain(source: str | os.PathLike[str], progress: Progress = unreported) -> Recorded:
    """Draw the deltas of a chain: all, or as many as fit, evenly chosen.

    Args:
        source: Path or URL of a run.lcc directory or a .lcc.zip.
        progress: Called with the steps read, and how many there are.

    Raises:
        StepNotFoundError: No record holds a delta of weights.
        LccError: The chain cannot be read, or is damaged.
    """
    chain = codec.Chain(source)
    kinds = {e.step: e.kind for e in chain.entries}  # of one step the base comes last
    n, deltas = len(kinds), [step for step, kind in kinds.items() if kind == "delta"]
    to_draw = set(deltas[:: -math.ceil(len(deltas) / MOST_STEPS) or -1])
    checkpoints: list[Checkpoint] = []
    drawn: list[tuple[int, dict[str, Any]]] = []
    weight: Weight | None = None
    values: dict[int, float | None] = {}
    before: Arrays = {}
    for done, position in enumerate(chain.every_step(), 1):
        after = _weights(position)
        checkpoint = _checkpoint(position, after)
        if position.step in to_draw and (record := _record(position, checkpoint, before, after)):
            if weight is None:
                weight = first_weight(record)
                values[checkpoints[-1].step] = plotted(weight.of(before), DIGITS)
            drawn.append((position.step, _pictures(record, weight, [*checkpoints, checkpoint])))
        if weight and weight.is_in(after):
            values[position.step] = plotted(weight.of(after), DIGITS)
        checkpoints.append(checkpoint)
        before = after
        progress(done, n)
    if not drawn:
        raise StepNotFoundError(f"{chain.where}: no record holds a delta of weights")
    every = [c.step for c in checkpoints]
    first, last = every[0], every[-1]
    for _, facts in drawn:
        facts["headline"]["so_far"]["newest"] = last  # of the chain, not of what was read by then
        for name in ("loss", "weight"):
            facts[name] |= {"first": first, "last": last}
    lines: dict[str, list[list[Any]]] = {
        "loss": [[c.step, c.nbytes] for c in checkpoints if c.kind != "base"],
        "weight": list(map(list, values.items())),
    }
    stride = 1
    while len(text := _packed(drawn[::-stride][::-1], lines)) > MOST_NBYTES and stride < len(drawn):
        stride *= 2
    shown, name = len(drawn[::-stride]), _name(source)
    steps = f"{shown:,} of {len(deltas):,} steps" if shown < len(deltas) else plural(shown, "step")
    return Recorded(f"{name}, {steps}", text)


def _name(source: str | os.PathLike[str]) -> str:
    """The last part of a path or a URL, without what a URL has behind it."""
    text = os.fspath(source)
    return PurePosixPath(urlsplit(text).path).name if "://" in text else Path(text).resolve().name


def _packed(
    drawn: Sequence[tuple[int, dict[str, Any]]], lines: Mapping[str, list[list[Any]]]
) -> str:
    """The pictures as in `Recorded`. lines: place -> points that all steps share."""
    steps = [{"step": step, "pictures": pictures} for step, pictures in drawn]
    whole = {"lines": lines, "steps": steps}
    text = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return deflated(text.encode())


def _record(
    position: Position, checkpoint: Checkpoint, before: Arrays, after: Arrays
) -> StepRecord | None:
    """A delta taken apart; None if it holds no codes of weights."""
    delta, names = position.delta, _names(position.track.layout)
    assert delta is not None, "the entry is a delta's"
    # A tensor that is new or has another shape has no change since the step before.
    same = {name for name, a in before.items() if name in after and a.shape == after[name].shape}
    before = {name: before[name] if name in same else a for name, a in after.items()}
    groups = [
        replace(g, tensors=tuple(replace(t, name=names[t.name]) for t in g.tensors))
        for g in delta.groups
        if all(names.get(t.name) in same for t in g.tensors)
    ]
    if not groups:
        return None
    alphabets, codes = dissect(_levels(groups), replace(delta, groups=tuple(groups)))
    moments = tuple(
        Moment("v" if measure == "octaves" else "m", g.tensors[0].name, g.n, g.encoded.nbytes)
        for g in delta.groups
        if (measure := g.encoded.measure)
    )
    checkpoint = replace(checkpoint, alphabets=alphabets, moments=moments)
    states = States(position.step, position.track.layout, before, after)
    coder = delta.coding.coder
    return StepRecord(checkpoint, states, alphabets, codes, moments, checkpoint.nbytes, coder)


def _levels(groups: Sequence[Group]) -> Arrays:
    """What the codes stand for, tensor -> float32 (n,)."""
    changes: dict[str, NDArray[np.float32]] = {}
    for group in groups:
        codes = codec.decode(group.encoded).codes
        moves = by_tensor(group, group.encoded.levels[codes])
        changes |= {t.name: own for t, own in zip(group.tensors, moves)}
    return changes


def _checkpoint(position: Position, weights: Arrays) -> Checkpoint:
    """A step in numbers, without what only a training knows."""
    record = position.record
    saved = Saved(
        position.step,
        record.kind,
        position.entry.nbytes,
        state_nbytes(position.track.layout),
        0.0,
        exact_nbytes=record.exact_nbytes,
    )
    nbytes = sum(array.nbytes for array in weights.values())
    return Checkpoint(saved, (), (), nbytes, math.nan, math.nan, "")


def _weights(position: Position) -> Arrays:
    """Copies of the lossy tensors that are no optimizer's, by short names."""
    arrays = position.track.arrays
    return {short: arrays[name].copy() for name, short in _names(position.track.layout).items()}


def _names(layout: Layout) -> dict[str, str]:
    """Lossy tensors that are no optimizer's -> a name without slashes, as a run's weights have."""
    names = [t.name for t in layout.tensors if t.lossy and not t.measure]
    short = [own_name(name).replace("/", ".") for name in names]
    if len(set(short)) < len(short):
        short = [name.replace("/", " › ") for name in names]
    return dict(zip(names, short))


def _pictures(
    record: StepRecord, weight: Weight, checkpoints: Sequence[Checkpoint]
) -> dict[str, dict[str, Any]]:
    """Place on the page -> facts of its picture."""
    assert record.states is not None
    assert record.codes is not None
    before, after = record.states.before, record.states.live
    if not weight.is_in(after):
        weight = first_weight(record)
    followed = follow(weight, record.step, before, after, record.alphabets, record.codes)
    image = Image.of(record, drawable(after)[0], None)
    history = WeightHistory(followed)
    settings = tried_settings(Trial(Coding()), None)
    uniform = any(a.uniform for a in record.alphabets)
    drawn = {
        "headline": headline(record, checkpoints, None, None, None, settings),
        "weights": weights_picture(record, image, followed, with_values=False),
        "buckets": steps_picture(record, followed)
        if uniform
        else buckets_picture(record, "", Worth(), history.bucket),
        "bits": bits_picture(record, history, image),
    }
    facts = {name: picture.data for name, picture in drawn.items()}
    facts["weights"]["tensors"] = [image.tensor]
    facts["weight"] = {"picture": "curves", **weight_facts(followed)}
    facts["loss"] = {
        "picture": "curves",
        "kind": "sizes",
        "step": record.step,
        "nbytes": record.nbytes,
        "full": record.checkpoint.full_nbytes,
    }
    return {name: {**values, "from_record": True} for name, values in facts.items()}
