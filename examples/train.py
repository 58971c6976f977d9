"""A plain training loop that can be killed at any moment and goes on where it was.

    PYTHONPATH=. python examples/train.py --steps 300

A small network on scikit-learn's digits. Every iteration saves into run.lcc; started again, the
same command goes on from the newest step there. What the codec needs are three lines: the
Checkpointer, its `restore` and its `save`.
"""

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import codec

TRAIN, BATCH = 1408, 32  # 44 whole batches an epoch; the last 389 digits are held out


def main(arguments: list[str] | None = None) -> None:
    """Train up to step --steps, from wherever the run is."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", default="run.lcc", help="directory of the checkpoints")
    parser.add_argument("--steps", type=int, default=300, help="the last step")
    parser.add_argument("--bits", type=int, help="of the weights, 1 to 8 (default: distance 0.3)")
    parser.add_argument("--exact", action="store_true", help="everything is saved as it is")
    parser.add_argument("--exact-optimizer", action="store_true", help="Adam's moments are")
    parser.add_argument("--losses", default="losses.csv", help="step,loss in hex are added here")
    parser.add_argument("--weights", help="where to put the final weights, with torch.save")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.set_num_threads(1)  # two threads may add up in another order, and round otherwise
    torch.manual_seed(options.seed)
    images, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(digits)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.998)
    shuffle = torch.Generator().manual_seed(options.seed)
    order = torch.arange(TRAIN)

    target = {} if options.bits is None else {"bits": options.bits}
    # By default the weights and Adam's moments are lossy, everything else is exact. The first
    # pattern that fits counts.
    policy: dict[str, str] = {}
    if options.exact_optimizer:
        policy["optimizer/*"] = "exact"
    if options.exact:
        policy["*"] = "exact"

    # It locks the directory and sets damaged records at the end aside; then it is certain which
    # step is the newest. There is none, and nothing to restore, if nothing was saved yet.
    with (
        codec.Checkpointer(options.run, policy=policy, resume=True, **target) as checkpoints,
        open(options.losses, "a", buffering=1) as losses,  # a line is out once it is written
    ):
        done, state = checkpoints.step or 0, checkpoints.restore()
        if state is not None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            scheduler.load_state_dict(state["scheduler"])
            torch.set_rng_state(state["rng"])  # which units dropout takes out next
            shuffle.set_state(state["shuffle"])
            order = state["order"]

        for step in range(done + 1, options.steps + 1):
            epoch, batch = divmod(step - 1, TRAIN // BATCH)
            if batch == 0:
                order = torch.randperm(TRAIN, generator=shuffle)
            rows = order[batch * BATCH : (batch + 1) * BATCH]
            loss = cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()

            # Told before it is saved: killed in between, this step is done and told once more.
            # The other way round its line would be missing.
            losses.write(f"{step},{float.hex(loss.item())}\n")
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "rng": torch.get_rng_state(),
                "shuffle": shuffle.get_state(),
                "order": order,  # of the epoch that has begun; written once an epoch
                "epoch": epoch,
            }
            checkpoints.save(step, state)  # when this returns, the step is on disk

    model.eval()
    with torch.no_grad():
        right = model(x[TRAIN:]).argmax(1) == y[TRAIN:]
    print(f"held-out accuracy {right.float().mean().item():.4f}")
    if options.weights:
        torch.save(model.state_dict(), options.weights)


if __name__ == "__main__":
    main()
