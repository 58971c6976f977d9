"""How small checkpoints get: LeNet-5, one checkpoint an iteration, by setting and coder.

    python benchmarks/sizes.py [--iterations 100] [--mnist FOLDER]

Sizes are those of whole records on disk, header included, as a share of the float32 bytes of the
saved tensors; the exact base is left out. Entropy is the entropy of the records' symbols as single
values. "E" is the size of the same deltas with the exponent stage and the paper's Huffman code, but
without priority promotion. The rows "all" save a run that way, so their track follows more closely
and their deltas differ. Uniform steps have no exponent stage.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from codec import Coding
from codec.inspect import CODERS
from lcviz.lab.anatomy import record_sizes
from lcviz.lab.sizes import Sizes, huffman_nbytes
from lcviz.run.run import Run
from lcviz.run.snapshot import RunSettings, Snapshot

CODINGS = {
    "2 bits": Coding(2),
    "3 bits": Coding(3),
    "all": Coding(None),
    "5 % in buckets": Coding(budget=0.05, quantizer="exponent"),
    "5 % in steps": Coding(budget=0.05),
}
LR = 0.05


@dataclass(frozen=True)
class Row:
    """The sizes of one run's deltas, as shares of float32, and its last distance.

    mean: coder -> the mean size. entropy, e_alone: means.
    """

    records: int
    mean: dict[str, float]
    largest: float
    entropy: float
    e_alone: float
    distance: float


def trained(settings: RunSettings) -> Snapshot:
    """Run the training to its end."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run("sizes", settings, Path(folder) / "run.lcc")
        run.play()
        while (snapshot := run.wait(5)).status == "playing":
            run.watch()
        run.close()
    return snapshot


def measure(settings: RunSettings) -> Row:
    """Measure one setting with each coder. With bits, all lead to the same deltas."""
    mean = {}
    for coder in sorted(CODERS, key=Coding.coder.__eq__):  # the default last: used below
        coding = replace(settings.coding, coder=coder)
        deltas = trained(replace(settings, coding=coding)).checkpoints[1:]
        full = sum(c.full_nbytes for c in deltas)
        mean[coder] = sum(c.nbytes for c in deltas) / full
    headers = sum(c.nbytes - c.saved.exact_nbytes for c in deltas)
    headers -= sum(a.nbytes for c in deltas for a in c.alphabets)
    sizes: list[Sizes] = [record_sizes(c.alphabets, Coding.coder) for c in deltas]
    alphabets = [a for c in deltas for a in c.alphabets]
    e_alone = math.nan
    if not any(a.uniform for a in alphabets):
        every = (huffman_nbytes(a.counts(len(a.buckets))) for a in alphabets)
        e_alone = (sum(every) + headers) / full
    return Row(
        len(deltas),
        mean,
        max(c.nbytes / c.full_nbytes for c in deltas),
        sum(s.entropy for s in sizes) / full,
        e_alone,
        deltas[-1].distance,
    )


def main() -> None:
    """Print one line a setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--mnist", help="folder with the MNIST IDX files")
    options = parser.parse_args()
    data = [("digits", None)] + ([("mnist", options.mnist)] if options.mnist else [])
    print(
        "model   data    kept            scope   records  run-length  largest  Huffman  "
        "context     entropy  E        distance"
    )
    for name, folder in data:
        for setting, coding in CODINGS.items():
            for scope in ("model", "tensor"):
                row = measure(
                    RunSettings(
                        model="lenet5",
                        data=name,
                        folder=folder,
                        lr=LR,
                        batch_size=32,
                        interval=1,
                        coding=replace(coding, scope=scope),
                        stop_after=options.iterations,
                    )
                )
                print(
                    f"lenet5  {name:<7} {setting:<15} {scope:<7} {row.records:<8} "
                    f"{row.mean['runlength']:<11.2%} {row.largest:<8.2%} "
                    f"{row.mean['huffman']:<8.2%} {row.mean['context']:<11.2%} "
                    f"{row.entropy:<8.2%} {row.e_alone:<8.2%} {row.distance:.4f}"
                )


if __name__ == "__main__":
    main()
