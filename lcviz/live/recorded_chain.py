"""A chain on disk as Live's pictures, step by step: what its records hold, without a training."""

from __future__ import annotations

import base64
import json
import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import codec
from codec import Saved
from codec.errors import StepNotFoundError
from codec.inspect import Arrays, Group, Layout, Position, state_nbytes
from lcviz.lab.anatomy import dissect
from lcviz.lab.batches import by_levels
from lcviz.lab.follow_weight import Weight, follow
from lcviz.lab.progress import Progress, unreported
from lcviz.play.one_file import Recorded
from lcviz.run.snapshot import Checkpoint
from lcviz.run.whole_state import KINDS, States, is_weight, moments_of, own_name
from lcviz.text import nbytes_text, plural
from lcviz.ui.charts import plotted
from lcviz.ui.picture import Picture

from .bits_picture import bits_picture
from .buckets_picture import Worth, buckets_picture
from .followed import WeightHistory, first_weight
from .headline import headline
from .step_record import StepRecord
from .steps_picture import steps_picture
from .weight_picture import DIGITS, HEIGHT, bits_text, number_text
from .weights_picture import Image, drawable, weights_picture

MOST_NBYTES = 2_500_000  # of all pictures in the page: with its code it stays below 3 MB
MOST_STEPS = 300  # more than a slider tells apart
NOT_RECORDED = "what a step left out is not recorded"


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
    n = len(chain.steps)
    checkpoints: list[Checkpoint] = []
    drawn: list[tuple[int, dict[str, Any]]] = []
    weight, values = None, dict[int, float]()
    before: Arrays = {}
    for done, position in enumerate(chain.every_step(), 1):
        record = _record(position, before)
        after = _weights(position.track.arrays, position.track.layout)
        checkpoints.append(record.checkpoint if record else _checkpoint(position))
        if record and record.alphabets:
            weight = weight or first_weight(record)
            if done % math.ceil(n / MOST_STEPS) == 0 or done == n:
                drawn.append((position.step, _pictures(record, weight, checkpoints)))
        if weight and weight.is_in(after):
            values[position.step] = plotted(weight.of(after), DIGITS) or 0.0
        before = {name: array.copy() for name, array in after.items()}
        progress(done, n)
    if not drawn:
        raise StepNotFoundError(f"{chain.where}: no record holds a delta of weights")
    for step, pictures in drawn:
        pictures["loss"] = _sizes_picture(checkpoints, step).data
        pictures["weight"] |= {"lines": [_line("ũ restored", "up", values) | {"stairs": True}]}
        pictures["weight"] |= _axis(step, checkpoints)
    stride = 1
    while len(text := _packed(drawn[::-stride][::-1])) > MOST_NBYTES and stride < len(drawn):
        stride *= 2
    shown = len(drawn[::-stride])
    steps = plural(n, "step") if shown == n else f"{shown:,} of {plural(n, 'step')}"
    return Recorded(f"{Path(os.fspath(source)).name}, {steps}", text)


def _packed(drawn: Sequence[tuple[int, dict[str, Any]]]) -> str:
    """The pictures as in `Recorded`."""
    steps = [{"step": step, "pictures": pictures} for step, pictures in drawn]
    text = json.dumps(steps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    compressor = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return base64.b64encode(compressor.compress(text.encode()) + compressor.flush()).decode()


def _record(position: Position, before: Arrays) -> StepRecord | None:
    """The record of a step; None for a base and within a merged record, which share one code."""
    delta, layout = position.delta, position.track.layout
    if delta is None:
        return None
    groups = [_renamed(group) for group in delta.groups if _is_of_weights(group)]
    groups = [g for g in groups if all(t.name in before for t in g.tensors)]
    moments = [g for g in delta.groups if _kind(g.tensors[0].name) in KINDS]
    names = [f"parameter {i}" for i in range(len(layout.tensors))]
    weights = replace(delta, groups=tuple(groups))
    after = _weights(position.track.arrays, layout)
    alphabets, codes = dissect(_levels(groups), weights)
    states = States(position.step, layout, before, {k: v.copy() for k, v in after.items()})
    checkpoint = replace(
        _checkpoint(position),
        alphabets=alphabets,
        moments=moments_of(replace(delta, groups=tuple(moments)), names),
    )
    nbytes, coder = checkpoint.nbytes, delta.coding.coder
    return StepRecord(checkpoint, states, alphabets, codes, checkpoint.moments, nbytes, coder)


def _levels(groups: Sequence[Group]) -> Arrays:
    """What the codes stand for, tensor -> float32 (n,)."""
    changes = {}
    for group in groups:
        for tensors, codes, levels in by_levels(group):
            begin = 0
            for spec in tensors:
                changes[spec.name] = levels[codes[begin : begin + spec.size]]
                begin += spec.size
    return changes


def _checkpoint(position: Position) -> Checkpoint:
    """A step in numbers, without what only a training knows."""
    record, layout = position.record, position.track.layout
    steps = len(range(position.entry.first, position.entry.step + 1))
    share = steps if record.kind == "merged" else 1
    saved = Saved(
        position.step,
        record.kind,
        position.entry.nbytes // share,
        state_nbytes(layout),
        0.0,
        exact_nbytes=record.exact_nbytes,
    )
    weights = _weights(position.track.arrays, layout)
    nbytes = sum(array.nbytes for array in weights.values())
    return Checkpoint(saved, (), (), nbytes, math.nan, math.nan, "")


def _weights(arrays: Arrays, layout: Layout) -> Arrays:
    """The lossy tensors that are no optimizer's, by a name without slashes, as a run's weights."""
    lossy = [t.name for t in layout.tensors if t.lossy and _kind(t.name) not in KINDS]
    return {_short(name): arrays[name] for name in lossy}


def _kind(name: str) -> str:
    """The last part of a tensor's name."""
    return name.rpartition("/")[2]


def _short(name: str) -> str:
    """A name without the model's folder, and without slashes."""
    return own_name(name).replace("/", ".") if not is_weight(name) else own_name(name)


def _is_of_weights(group: Group) -> bool:
    return _kind(group.tensors[0].name) not in KINDS


def _renamed(group: Group) -> Group:
    return replace(group, tensors=tuple(replace(t, name=_short(t.name)) for t in group.tensors))


def _pictures(
    record: StepRecord, weight: Weight, checkpoints: Sequence[Checkpoint]
) -> dict[str, dict[str, Any]]:
    """Place on the page -> data of its picture."""
    assert record.states is not None
    assert record.codes is not None
    before, after = record.states.before, record.states.live
    if not weight.is_in(after):
        weight = first_weight(record)
    followed = follow(weight, record.step, before, after, record.alphabets, record.codes)
    image = Image.of(record, drawable(after)[0], None)
    history = WeightHistory(followed)
    size = headline(record, checkpoints, f"step {record.step}, recorded", NOT_RECORDED, "")
    uniform = any(a.uniform for a in record.alphabets)
    of_buckets = (
        steps_picture(record, followed)
        if uniform
        else buckets_picture(record, "", Worth(), history.bucket)
    )
    slots = plural(sum(record.n_kept), "bucket")
    told = (
        {} if uniform else {"text": f"{slots}: {record.n_changed:,} values change; {NOT_RECORDED}."}
    )
    move = f"moves by {number_text(followed.level, '+')}" if followed.level else "stays"
    one_weight = Picture(
        "curves",
        "One weight",
        followed.weight.text(followed.shape),
        f"ũ {move}. Code: {bits_text(followed)}.",
        {"log": False, "unit": "step", "height": HEIGHT, "clickable": True},
        lambda: None,
    )
    pictures = {
        "headline": size.data,
        "weights": weights_picture(record, image, followed, with_values=False).data,
        "buckets": of_buckets.data | {"options": [], "cut": None, "bits": ""} | told,
        "bits": bits_picture(record, history, image).data | {"coders": []},
        "weight": one_weight.data,
    }
    delta = pictures["weights"]
    delta |= {"tensors": [image.tensor], "about": "what this record moves"}
    delta["without_values"] = "its record has no more"
    delta["captions"]["missing"] = f"Nothing to show: {NOT_RECORDED}."
    return pictures


def _sizes_picture(checkpoints: Sequence[Checkpoint], step: int) -> Picture:
    """The bytes of each delta."""
    sizes = {c.step: float(c.nbytes) for c in checkpoints if c.kind != "base"}
    own = next(c for c in checkpoints if c.step == step)
    return Picture(
        "curves",
        "Sizes",
        "bytes of each record after a base",
        f"Step {step}: {nbytes_text(own.nbytes)}; float32 takes {nbytes_text(own.full_nbytes)}.",
        {
            "lines": [_line("record", "good", sizes)],
            "log": min(sizes.values()) > 0,
            "unit": "step",
            "height": HEIGHT,
            "clickable": True,
        }
        | _axis(step, checkpoints),
        lambda: None,
        4,
    )


def _axis(step: int, checkpoints: Sequence[Checkpoint]) -> dict[str, Any]:
    """The range of the steps, and the mark of one."""
    marks = [{"step": step, "text": f"step {step}", "strong": False}]
    return {"marks": marks, "range": [checkpoints[0].step, checkpoints[-1].step]}


def _line(name: str, colour: str, values: dict[int, float]) -> dict[str, Any]:
    x, y = list(values), list(values.values())
    return {"name": name, "colour": colour, "dash": "solid", "x": x, "y": y}
