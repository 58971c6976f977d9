"""A small GPT-2 trained by transformers' Trainer, with a chain beside the Trainer's checkpoints.

    PYTHONPATH=. python examples/huggingface.py

Nothing is downloaded: the model is made from a configuration, the text is made here, and its
letters are the tokens. Started again, it is resumed from the Trainer's newest checkpoint.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
from transformers.utils import logging

import codec
from codec.trainers.huggingface import ChainCallback

LENGTH = 32  # letters of a sample


def text() -> str:
    """Sentences that a model of this size can learn."""
    who, does, what = ("a cat", "the dog", "my owl"), ("sees", "hears"), ("me", "rain", "the sea")
    return ". ".join(" ".join(words) for words in itertools.product(who, does, what, who)) + ". "


def samples() -> tuple[list[dict[str, torch.Tensor]], int]:
    """Windows of the text as numbers of letters, and how many letters there are."""
    letters = sorted(set(text()))
    numbers = torch.tensor([letters.index(letter) for letter in text()])
    windows = numbers.unfold(0, LENGTH, 5)
    return [{"input_ids": row.clone(), "labels": row.clone()} for row in windows], len(letters)


def main(arguments: list[str] | None = None) -> None:
    """Train up to step --steps, then restore the newest step and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", default="huggingface", help="of checkpoints and chain")
    parser.add_argument("--steps", type=int, default=100, help="the last step")
    parser.add_argument("--every", type=int, default=5, help="steps between two records")
    parser.add_argument("--bits", type=int, help="of the weights, 1 to 8 (default: distance 0.3)")
    options = parser.parse_args(arguments)
    folder = Path(options.folder)
    logging.set_verbosity_error()
    logging.disable_progress_bar()

    data, letters = samples()
    torch.set_num_threads(1)  # enough for a model of this size
    torch.manual_seed(0)
    # The output layer is the embedding, too (tied): in the chain it takes room once.
    shape = {"n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": LENGTH}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=letters, **shape, **ends))
    settings = TrainingArguments(
        output_dir=str(folder / "checkpoints"),
        max_steps=options.steps,
        per_device_train_batch_size=8,
        learning_rate=3e-3,
        save_steps=50,
        save_total_limit=2,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(model, settings, train_dataset=data)
    trainer.remove_callback(PrinterCallback)
    target = {} if options.bits is None else {"bits": options.bits}
    trainer.add_callback(ChainCallback(folder / "run.lcc", every=options.every, **target))
    begun = folder.exists() and get_last_checkpoint(settings.output_dir)
    trainer.train(resume_from_checkpoint=begun or None)

    restored = GPT2LMHeadModel(model.config)
    restored.load_state_dict(codec.restore(folder / "run.lcc")["model"])
    batch = {name: torch.stack([sample[name] for sample in data]) for name in data[0]}
    with torch.no_grad():
        live, again = (m.eval()(**batch).loss.item() for m in (model, restored))
    chain = codec.Chain(folder / "run.lcc")
    deltas = [entry.nbytes for entry in chain.entries if entry.kind == "delta"]
    whole = sum(p.numel() * p.element_size() for p in model.parameters())  # tied ones once
    mean = sum(deltas) // max(len(deltas), 1)
    print(f"{len(chain.steps)} steps in the chain, the newest {chain.steps[-1]}")
    print(f"{whole:,} bytes of weights, {mean:,} of a record after the first on average")
    print(f"loss of the live model {live:.4f}, of the restored one {again:.4f}")


if __name__ == "__main__":
    main()
