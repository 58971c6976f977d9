"""A part of a chain without the rest: bytes, requests and seconds.

    PYTHONPATH=. python benchmarks/parts.py [--saves 20] [--width 768]

AdamW trains a network of an encoder (six linear layers) and a head; each save is one step. Of the
newest step, a part is restored from the disk. *Coded* are the bytes that hold the part: of each
record its tensors and residuals, and of its code words the share of changed values that are the
part's. *Read* and *requests* are what was asked of the disk or store. Seconds: medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import codec
from benchmarks.markdown import table
from codec.inspect import base_of, delta_of
from codec.record.exact import PREFIX
from codec.record.residuals import RESIDUALS
from codec.state.selection import Selection

SETTINGS: dict[str, dict[str, Any]] = {
    "distance 0.3": {},
    "2 bits": {"bits": 2},
    "exact": {"policy": {"*": "exact"}},
}
PARTS = {
    "the model": "model",
    "one layer": "model/encoder.4.*",
    "one weight": "model/encoder.4.weight",
    "the head": "model/head.*",
}
TIMES = 7


class Network(torch.nn.Module):
    """An encoder and a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = (m for _ in range(6) for m in (torch.nn.Linear(width, width), torch.nn.Tanh()))
        self.encoder = torch.nn.Sequential(*layers)
        self.head = torch.nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The answer."""
        answer: torch.Tensor = self.head(self.encoder(x))
        return answer


def train(path: Path, width: int, saves: int, settings: Mapping[str, Any]) -> None:
    """Train and save every step."""
    torch.manual_seed(0)
    network = Network(width)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    with codec.Checkpointer(path, **settings) as checkpoints:
        for step in range(saves):
            loss = (network(torch.randn(64, width)) - torch.randn(64, 10)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state = {"model": network.state_dict(), "optimizer": optimizer.state_dict()}
            checkpoints.save(step, state)


def coded_nbytes(chain: codec.Chain, only: str) -> float:
    """Bytes that hold a part, in all records; see above."""
    selection, total, track = Selection(only), 0.0, None
    for entry in chain.entries:
        record = chain.read(entry)
        if track is None:
            track = base_of(record)
        names = selection.names(track.layout)
        own = [prefix + name for name in names for prefix in (PREFIX, RESIDUALS)]
        total += sum(record.arrays[name].nbytes for name in own if name in record.arrays)
        if record.kind == "delta":
            delta = delta_of(record, track)
            for group in delta.groups:
                changed = codec.decode(group.encoded).codes != 0
                ends = np.cumsum([0, *(t.size for t in group.tensors)])
                of_part = sum(
                    np.count_nonzero(changed.reshape(-1)[begin:end])
                    for t, begin, end in zip(group.tensors, ends, ends[1:])
                    if t.name in names
                )
                share = of_part / max(np.count_nonzero(changed), 1)
                total += share * group.encoded.payload.data_nbytes
            track.apply(delta)
    return total


def counting(chain: codec.Chain) -> tuple[codec.Chain, list[int]]:
    """A chain that notes how many spans each request has."""
    spans_of: list[int] = []
    read = chain._source.read_spans

    def noting(name: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        spans_of.append(len(spans))
        return read(name, spans)

    chain._source = replace(chain._source, read_spans=noting)
    return chain, spans_of


def seconds_of(call: Callable[[], object]) -> float:
    """The median time of a call."""
    times = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def rows_of(path: Path, name: str) -> list[list[str]]:
    """A row for each part of a chain."""
    chain, rows = codec.Chain(path), []
    whole_seconds = seconds_of(codec.Chain(path).restore)
    rows.append(
        [name, "all", f"{chain.nbytes / 1e6:.2f}", "", "", "", f"{1e3 * whole_seconds:.0f}"]
    )
    for what, only in PARTS.items():
        coded = coded_nbytes(chain, only)
        part, spans_of = counting(codec.Chain(path).part(only))
        part.restore()
        seconds = seconds_of(codec.Chain(path).part(only).restore)
        numbers = [f"{part.nbytes_read / 1e6:.2f}", f"{coded / 1e6:.2f}"]
        numbers += [f"{part.nbytes_read / coded:.2f}", f"{len(spans_of) / len(chain.entries):.1f}"]
        rows.append([name, what, *numbers, f"{1e3 * seconds:.0f}"])
    return rows


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--saves", type=int, default=20)
    parser.add_argument("--width", type=int, default=768)
    options = parser.parse_args()
    codec.warm_up()
    head = ["chain", "part", "read, MB", "coded, MB", "read / coded", "requests a record", "ms"]
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, settings) in enumerate(SETTINGS.items()):
            path = Path(folder) / f"{i}.lcc"
            train(path, options.width, options.saves, settings)
            rows += rows_of(path, name)
    print(table(head, rows))


if __name__ == "__main__":
    main()
