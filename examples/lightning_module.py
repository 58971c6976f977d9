"""A small network on scikit-learn's digits, trained by Lightning, its checkpoints kept in a chain.

    PYTHONPATH=. python examples/lightning_module.py

ModelCheckpoint keeps the two best files as ever, but each is a pointer to a step of the chain.
Started again, the training is resumed from the last one.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import codec
from codec.trainers.lightning import ChainCheckpointIO

TRAIN = 1408  # the last 389 digits are held out


class Digits(lightning.LightningModule):
    """A perceptron with 19,210 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        images, digits = batch
        return cross_entropy(self.net(images), digits)

    def validation_step(self, batch: list[torch.Tensor], _index: int) -> None:
        images, digits = batch
        self.log("loss", cross_entropy(self.net(images), digits))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main(arguments: list[str] | None = None) -> None:
    """Train for --epochs, then restore the newest step and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", default="lightning", help="of checkpoints and chain")
    parser.add_argument("--epochs", type=int, default=6, help="the last one")
    parser.add_argument("--bits", type=int, help="of the weights, 1 to 8 (default: distance 0.3)")
    options = parser.parse_args(arguments)
    folder = Path(options.folder)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    torch.set_num_threads(1)  # enough for a model of this size
    torch.manual_seed(0)
    images, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(digits)
    train = DataLoader(TensorDataset(x[:TRAIN], y[:TRAIN]), batch_size=32, shuffle=True)
    held_out = DataLoader(TensorDataset(x[TRAIN:], y[TRAIN:]), batch_size=389)
    best = ModelCheckpoint(folder, monitor="loss", save_top_k=2, save_last="link")
    target = {} if options.bits is None else {"bits": options.bits}
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        accelerator="cpu",
        callbacks=[best],
        plugins=[ChainCheckpointIO(folder / "run.lcc", **target)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Digits()
    last = folder / "last.ckpt"
    trainer.fit(model, train, held_out, ckpt_path=last if last.exists() else None)

    restored = Digits()
    restored.load_state_dict(codec.restore(folder / "run.lcc")["state_dict"])
    with torch.no_grad():
        live, again = (cross_entropy(m.net(x[TRAIN:]), y[TRAIN:]).item() for m in (model, restored))
    chain = codec.Chain(folder / "run.lcc")
    files = sorted(folder.glob("*.ckpt"))
    print(f"{len(chain.entries)} records of {chain.nbytes:,} bytes in all")
    print(f"files: {', '.join(f'{f.name} ({f.stat().st_size} bytes)' for f in files)}")
    print(f"loss of the live model {live:.4f}, of the restored one {again:.4f}")


if __name__ == "__main__":
    main()
