"""Serve a language model while another process trains it.

    PYTHONPATH=. python examples/serve.py --iterations 300

One process trains a transformer on the documents of this project, byte by byte, and saves its
weights in bfloat16, exactly, every few iterations. This process completes prompts with a model of
its own. Between two requests it takes the newest weights that it can verify.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from pathlib import Path

import torch

import codec

CONTEXT, WIDTH, BATCH = 64, 64, 32
EVERY = 10  # iterations between two saves
PROMPT = b"A checkpoint is "


class Model(torch.nn.Module):
    """A transformer of two layers that predicts the next byte: 104,064 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = torch.nn.Embedding(256, WIDTH)
        self.positions = torch.nn.Embedding(CONTEXT, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.next_byte = torch.nn.Linear(WIDTH, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.bytes(tokens) + self.positions(torch.arange(tokens.shape[1]))
        causal_mask = torch.full((x.shape[1], x.shape[1]), -torch.inf, dtype=x.dtype).triu(1)
        return self.next_byte(self.layers(x, causal_mask, is_causal=True))


def corpus() -> torch.Tensor:
    """The documents of the project."""
    files = sorted(Path(__file__).resolve().parents[1].glob("**/*.md"))
    return torch.tensor(list(b"".join(file.read_bytes() for file in files[:40])))


def loss_of(model: Model, text: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
    """Cross entropy in nats a byte, on pieces of the text."""
    pieces = torch.stack([text[i : i + CONTEXT + 1] for i in begins.tolist()])
    logits = model(pieces[:, :-1]).float()
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten())


def train(run: Path, iterations: int) -> None:
    """Train, and save the weights in bfloat16."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text, model = corpus(), Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    with codec.Checkpointer(run, policy={"*": "exact"}) as checkpoints:
        for i in range(iterations + 1):
            if i % EVERY == 0:
                checkpoints.save(i, {k: v.bfloat16() for k, v in model.state_dict().items()})
            optimizer.zero_grad()
            loss_of(model, text, torch.randint(len(text) - CONTEXT, (BATCH,))).backward()
            optimizer.step()


@torch.no_grad()
def complete(model: Model, prompt: bytes, n: int = 24) -> bytes:
    """The prompt and the n bytes that the model finds most likely behind it."""
    for _ in range(n):
        logits = model(torch.tensor([list(prompt[-CONTEXT:])]))
        prompt += bytes([int(logits[0, -1].argmax())])
    return prompt


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=300)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run.lcc")
        trainer = multiprocessing.get_context("spawn").Process(
            target=train, args=(run, arguments.iterations)
        )
        trainer.start()
        codec.warm_up()
        model, text = Model().bfloat16().eval(), corpus()
        starts = torch.arange(16) * 997
        print("iteration   records   kB read   ms   loss   answer")
        for update in codec.follow(run, model, every=0.02, timeout=120):
            answer = complete(model, PROMPT).decode(errors="replace")
            with torch.no_grad():
                loss = loss_of(model, text, starts).item()
            print(
                f"{update.step:9}   {update.records:7}   {update.nbytes / 1000:7.1f}   "
                f"{1000 * update.seconds:2.0f}   {loss:.2f}   {answer!r}"
            )
            if update.step == arguments.iterations:
                break
        trainer.join()


if __name__ == "__main__":
    main()
