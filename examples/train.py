"""A plain training loop that can be killed at any moment and goes on where it was.

    PYTHONPATH=. python examples/train.py --steps 300

A small network on scikit-learn's digits. Every iteration saves into run.lcc; started again, the
same command goes on from the newest step there. The codec needs two lines: `Checkpointer.of` and
`save`.
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
    named = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "shuffle": shuffle}

    target = {} if options.bits is None else {"bits": options.bits}
    # By default the weights and Adam's moments are lossy, everything else is exact. The first
    # pattern that fits counts.
    policy: dict[str, str] = {}
    if options.exact_optimizer:
        policy["optimizer/*"] = "exact"
    if options.exact:
        policy["*"] = "exact"

    # It locks the directory, sets damaged records at the end aside, and loads the newest step.
    with (
        codec.Checkpointer.of(options.run, policy=policy, **named, **target) as checkpoints,
        open(options.losses, "a", buffering=1) as losses,  # a line is out once it is written
    ):
        order = (checkpoints.restore() or {}).get("order")
        for step in range(max(checkpoints.next_step, 1), options.steps + 1):
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
            # When this returns, the step is on disk; the order of the epoch is written once.
            checkpoints.save(step, {"order": order, "epoch": epoch})

    model.eval()
    with torch.no_grad():
        right = model(x[TRAIN:]).argmax(1) == y[TRAIN:]
    print(f"held-out accuracy {right.float().mean().item():.4f}")
    if options.weights:
        torch.save(model.state_dict(), options.weights)


if __name__ == "__main__":
    main()
