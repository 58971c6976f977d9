"""How small checkpoints get: LeNet-5, one checkpoint an iteration, by bits and scope.

    python benchmarks/sizes.py [--iterations 100] [--mnist FOLDER]

Every size is of whole records on disk, header included, as a share of the float32 bytes of
the tensors saved; the exact base is left out. "E" is what the exponent stage with a Huffman
code alone, without priority promotion, would take for the same deltas; the rows "all" save a
run that way, so that its deltas are those of a track that follows more closely.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from lcviz.lab.anatomy import choice
from lcviz.session import Run
from lcviz.snapshot import Settings


def measure(settings: Settings) -> tuple[int, float, float, float, float, float]:
    """Records; mean and largest share; mean shares of entropy and of E; final distance."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run("sizes", settings, Path(folder) / "run.lcc")
        run.play()
        while (snapshot := run.wait(5)).status == "playing":
            run.watch()
        run.close()
    deltas = snapshot.checkpoints[1:]
    shares = [c.nbytes / c.full_nbytes for c in deltas]
    entropy = sum(choice(c.alphabets, settings.bits).entropy_share for c in deltas) / len(deltas)
    headers = sum(c.nbytes - c.stream_nbytes for c in deltas)
    e_alone = sum(choice(c.alphabets, None).nbytes for c in deltas) + headers
    full = sum(c.full_nbytes for c in deltas)
    mean = sum(shares) / len(shares)
    return len(deltas), mean, max(shares), entropy, e_alone / full, deltas[-1].distance


def main() -> None:
    """Print one line a setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--mnist", help="folder with the MNIST IDX files")
    options = parser.parse_args()
    data = [("digits", None)] + ([("mnist", options.mnist)] if options.mnist else [])
    print("model   data    bits  scope   records  mean     largest  entropy  E        distance")
    for name, folder in data:
        for bits in (2, 3, None):
            for scope in ("model", "tensor"):
                settings = Settings(
                    data=name, folder=folder, bits=bits, scope=scope, stop_after=options.iterations
                )
                n, mean, largest, entropy, e_alone, distance = measure(settings)
                print(
                    f"lenet5  {name:<7} {bits or 'all':<5} {scope:<7} {n:<8} {mean:<8.2%} "
                    f"{largest:<8.2%} {entropy:<8.2%} {e_alone:<8.2%} {distance:.4f}"
                )


if __name__ == "__main__":
    main()
