"""A loop with Accelerate on scikit-learn's digits, with a chain beside what save_state writes.

    PYTHONPATH=. python examples/accelerated.py

Started again, it loads the newest folder that save_state has written, and goes on from there.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import codec
from codec.trainers.accelerate import ChainHook

TRAIN = 1408  # the last 389 digits are held out


def main(arguments: list[str] | None = None) -> None:
    """Train for --epochs, then restore the newest step and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", default="accelerated", help="of checkpoints and chain")
    parser.add_argument("--epochs", type=int, default=6, help="the last one")
    parser.add_argument("--bits", type=int, help="of the weights, 1 to 8 (default: distance 0.3)")
    options = parser.parse_args(arguments)
    folder = Path(options.folder)
    logging.getLogger("accelerate").setLevel(logging.ERROR)

    torch.set_num_threads(1)  # enough for a model of this size
    torch.manual_seed(0)
    images, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(digits)
    data = DataLoader(TensorDataset(x[:TRAIN], y[:TRAIN]), batch_size=32, shuffle=True)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    named = ProjectConfiguration(str(folder), automatic_checkpoint_naming=True, total_limit=2)
    accelerator = Accelerator(cpu=True, project_config=named)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    model, optimizer, data = accelerator.prepare(net, optimizer, data)

    target = {} if options.bits is None else {"bits": options.bits}
    with ChainHook(accelerator, folder / "run.lcc", **target):
        written = sorted((folder / "checkpoints").glob("*"), key=lambda f: int(f.name[11:]))
        done = 0
        if written:
            accelerator.load_state(str(written[-1]))
            done = int(written[-1].name.removeprefix("checkpoint_")) + 1
            accelerator.project_configuration.iteration = done
        for _ in range(done, options.epochs):
            for batch, labels in data:
                loss = cross_entropy(model(batch), labels)
                optimizer.zero_grad()
                accelerator.backward(loss)
                optimizer.step()
            accelerator.save_state()  # and, with it, a record

    restored = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    restored.load_state_dict(codec.restore(folder / "run.lcc")["model"])
    with torch.no_grad():
        live, again = (cross_entropy(m(x[TRAIN:]), y[TRAIN:]).item() for m in (net, restored))
    chain = codec.Chain(folder / "run.lcc")
    left = sorted(f.name for f in (folder / "checkpoints").iterdir())
    print(f"{len(chain.entries)} records of {chain.nbytes:,} bytes in all: every epoch restores")
    print(f"folders of Accelerate that are left: {', '.join(left)}")
    print(f"loss of the live model {live:.4f}, of the restored one {again:.4f}")


if __name__ == "__main__":
    main()
