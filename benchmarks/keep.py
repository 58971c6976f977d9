"""What ChainWriter(keep_steps=3) leaves on disk and writes over 100 saves, beside plain DCP.

    PYTHONPATH=. python benchmarks/keep.py

The state is that of benchmarks/distributed.py --trained, a perceptron that AdamW trains, ten
iterations a save, with its moments, which are lossy. One rank. "directories" and "on disk" are the
most after any save; "written" are the bytes of all files of all steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as dcp

from benchmarks.distributed import trained
from benchmarks.markdown import table
from codec.dcp import ChainWriter

KEPT = 3
WAYS: dict[str, dict[str, Any]] = {
    "`keep_steps=3`": {"keep_steps": KEPT},
    "`keep_steps=3, base_every=10`": {"keep_steps": KEPT, "base_every": 10},
    "`keep_steps=3, base_every=50`": {"keep_steps": KEPT, "base_every": 50},
}


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parameters", type=int, default=1_000_000)
    parser.add_argument("--saves", type=int, default=100)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's own
    rows = [measured(name, ChainWriter(**way), options) for name, way in WAYS.items()]
    size = whole(options)
    rows.append(("plain DCP, 3 kept", f"{KEPT}", mb(KEPT * size), mb(options.saves * size)))
    print(table(("", "directories", "on disk", "written"), rows))
    return 0


def measured(name: str, writer: ChainWriter, options: argparse.Namespace) -> tuple[str, ...]:
    """The row of a writer."""
    most = on_disk = written = 0
    with tempfile.TemporaryDirectory() as folder:
        for step, (model, moments) in zip(range(options.saves), trained(options.parameters)):
            state = {"model": model, "optim": {"state": moments}}
            place = Path(folder, f"{step}")
            dcp.save(state, storage_writer=writer, checkpoint_id=place)
            written += nbytes(place)
            most, on_disk = (
                max(most, len(list(Path(folder).iterdir()))),
                max(on_disk, nbytes(Path(folder))),
            )
    return name, f"{most}", mb(on_disk), mb(written)


def whole(options: argparse.Namespace) -> int:
    """Bytes of a step of plain DCP."""
    model, moments = next(trained(options.parameters))
    with tempfile.TemporaryDirectory() as folder:
        dcp.save({"model": model, "optim": {"state": moments}}, checkpoint_id=Path(folder, "0"))
        return nbytes(Path(folder))


def nbytes(place: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def mb(size: int) -> str:
    """In megabytes."""
    return f"{size / 1e6:,.1f} MB"


if __name__ == "__main__":
    sys.exit(main())
