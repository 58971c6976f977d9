"""The callback of transformers' Trainer, with the real one and a small GPT-2."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import codec
from codec.errors import (
    LockedError,
    OptimizerMismatchError,
    RewoundWarning,
    ShardedError,
    StepOrderError,
)
from codec.rerun import restore as rerun
from codec.rerun.steps import same_bits

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

EXACT = {"policy": {"*": "exact"}}
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def hf() -> SimpleNamespace:
    """What the tests need of the library, which is slow to import."""
    import transformers
    from transformers.utils import logging

    from codec.trainers.huggingface import ChainCallback

    logging.set_verbosity_error()
    logging.disable_progress_bar()

    class Stops(transformers.TrainerCallback):  # type: ignore[misc]
        """Does something at the end of a step."""

        def __init__(self, step: int, what: Callable[[], Any]) -> None:
            self.step, self.what = step, what

        def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == self.step:
                self.what()

    return SimpleNamespace(Chain=ChainCallback, Stops=Stops, library=transformers)


@pytest.fixture
def make(hf: SimpleNamespace, tmp_path: Path, monkeypatch: Patch) -> Make:
    """A Trainer of 10 steps that saves every 4, in its own folder, "out"."""
    monkeypatch.chdir(tmp_path)
    t = hf.library

    def trainer(
        *callbacks: Any,
        dtype: torch.dtype = torch.float32,
        width: int = 16,
        rows: int = 100,
        **settings: Any,
    ) -> Any:
        torch.manual_seed(0)
        config = t.GPT2Config(
            n_layer=1,
            n_head=2,
            n_embd=width,
            vocab_size=20,
            n_positions=8,
            bos_token_id=0,
            eos_token_id=0,
        )
        numbers = torch.arange(8 * rows).reshape(rows, 8) % 19
        data = [{"input_ids": row, "labels": row} for row in numbers]
        defaults: dict[str, Any] = {"output_dir": "out", "max_steps": 10, "save_steps": 4}
        arguments = t.TrainingArguments(
            **defaults | settings,
            per_device_train_batch_size=4,
            learning_rate=1e-2,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        )
        model = t.GPT2LMHeadModel(config).to(dtype)
        made = t.Trainer(model, arguments, train_dataset=data, eval_dataset=data[:4])
        made.remove_callback(t.PrinterCallback)
        for callback in callbacks:
            made.add_callback(callback)
        return made

    return trainer


@pytest.fixture(scope="module")
def trained() -> dict[str, torch.Tensor]:
    """See `alone`."""
    return {}


@pytest.fixture
def alone(make: Make, trained: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights after a training of 10 steps without a chain."""
    if not trained:
        trainer = make(output_dir="alone")
        trainer.train()
        trained.update(trainer.model.state_dict())
    return trained


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files below."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def differences(a: Any, b: Any, name: str = "") -> list[str]:
    """Names of what is not equal to the last bit."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [d for key in a for d in differences(a[key], b[key], f"{name}/{key}")]
    if isinstance(a, list | tuple) and isinstance(b, type(a)) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, f"{name}/{i}")]
    both = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    return [] if (same_bits(a, b) if both else a == b) else [name]


def raises() -> None:
    raise ZeroDivisionError


def test_beside_the_checkpoints_which_stay_the_same(make: Make, hf: Any, tmp_path: Path) -> None:
    """Same files, same bytes with and without it; a record at each, equal to it."""
    alone = make()
    alone.train()
    before = contents(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "alone")
    both = make(hf.Chain("run.lcc", **EXACT), hf.Chain("lossy.lcc", bits=3, every=2))
    both.train()
    after = contents(tmp_path / "out")
    assert len(before) > 20
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == []

    assert codec.Chain("run.lcc").steps == (4, 8, 10)
    for step in (4, 8, 10):
        state = codec.restore("run.lcc", step)
        assert state["epoch"] == step / 25
        saved = load_file(tmp_path / "out" / f"checkpoint-{step}" / "model.safetensors")
        assert state["model"].keys() - saved.keys() == {"lm_head.weight"}  # tied: there once
        for name, tensor in saved.items():
            assert torch.equal(state["model"][name], tensor), name
        tied = state["model"]["lm_head.weight"], state["model"]["transformer.wte.weight"]
        assert tied[0].data_ptr() == tied[1].data_ptr()

    assert codec.Chain("lossy.lcc").steps == (2, 4, 6, 8, 10)
    assert codec.verify("lossy.lcc").ok
    model = make().model
    model.load_state_dict(codec.restore("lossy.lcc")["model"])
    distances = [
        (a - b).norm() / b.norm() for a, b in zip(model.parameters(), both.model.parameters())
    ]
    assert 0 < max(distances) < 0.05
    with codec.Checkpointer("run.lcc", resume=True):  # both are closed
        pass


def test_resumed_after_it_failed(make: Make, hf: Any, alone: Any) -> None:
    """The chain goes back to the Trainer's checkpoint, and ends as if nothing had been."""
    chain = hf.Chain("run.lcc", every=1, optimizer=True, **EXACT)
    failing = make(chain, hf.Stops(7, raises))
    with pytest.raises(ZeroDivisionError):
        failing.train()
    assert codec.Chain("run.lcc").steps == tuple(range(1, 8))
    assert codec.verify("run.lcc").ok
    state = codec.restore("run.lcc", 7)
    failing.optimizer.load_state_dict(state["optimizer"])
    failing.lr_scheduler.load_state_dict(state["scheduler"])
    assert state["optimizer"]["state"][0]["step"] == state["scheduler"]["last_epoch"] == 7

    # The Trainer does not tell that it has failed; another one in this thread does not mind.
    again = make(hf.Chain("run.lcc", every=1, **EXACT))
    with pytest.warns(RewoundWarning, match="goes on from step 4 and was at 7"):
        again.train(resume_from_checkpoint=True)
    assert codec.Chain("run.lcc").steps == tuple(range(1, 11))
    assert codec.Chain("run.lcc/until-7.lcc").steps == tuple(range(1, 8))
    assert differences(codec.restore("run.lcc")["model"], alone) == []

    with pytest.raises(StepOrderError, match="up to step 10; choose another directory"):
        make(hf.Chain("run.lcc", every=1)).train()
    with pytest.warns(RewoundWarning):
        make(hf.Chain("run.lcc", every=5, resume=True)).train()
    assert codec.Chain("run.lcc").steps == (5, 10)


def test_tried_again_with_smaller_batches(make: Make, hf: Any) -> None:
    """Where the Trainer does so itself, it begins at step 0 once more, and so does the chain."""
    problems = iter([RuntimeError("CUDA out of memory.")])

    def fails() -> None:
        for problem in problems:
            raise problem

    chain = hf.Chain("run.lcc", every=1)
    trainer = make(chain, hf.Stops(3, fails), auto_find_batch_size=True, max_steps=4)
    with pytest.warns(RewoundWarning, match="begins again and was at 3"):
        trainer.train()
    assert codec.Chain("run.lcc").steps == (1, 2, 3, 4)
    assert trainer.state.train_batch_size < 4


def test_killed(make: Make, hf: Any, killed: Callable[[Callable[[], Any]], None]) -> None:
    """What was saved is there, and a training in the same place goes on at once."""
    stop = hf.Stops(6, lambda: os.kill(os.getpid(), signal.SIGKILL))
    killed(make(hf.Chain("run.lcc", every=1), stop).train)
    assert codec.Chain("run.lcc").steps == (1, 2, 3, 4, 5, 6)
    assert codec.verify("run.lcc").ok
    with pytest.warns(RewoundWarning):
        make(hf.Chain("run.lcc", every=3)).train(resume_from_checkpoint=True)
    assert codec.Chain("run.lcc").steps == (1, 2, 3, 4, 6, 9, 10)


def test_closed_after_a_failure(make: Make, hf: Any) -> None:
    chain = hf.Chain("mine.lcc", every=1)
    with pytest.raises(ZeroDivisionError):
        make(chain, hf.Stops(2, raises)).train()
    with pytest.raises(LockedError):
        codec.Checkpointer("mine.lcc", resume=True)
    chain.close()
    codec.Checkpointer("mine.lcc", resume=True).close()


def test_the_last_step_is_saved_not_the_best(make: Make, hf: Any) -> None:
    """Stopped early by an evaluation, with the best model loaded at the end; in bfloat16."""
    t = hf.library
    worse = iter([1.0, 2.0, 3.0])
    trainer = make(
        hf.Chain("run.lcc", every=100, asynchronous=False, **EXACT),
        t.EarlyStoppingCallback(1),
        dtype=torch.bfloat16,
        eval_strategy="steps",
        eval_steps=4,
        load_best_model_at_end=True,
        metric_for_best_model="worse",
        greater_is_better=False,
    )
    trainer.compute_metrics = lambda _: {"worse": next(worse)}
    trainer.train()
    assert trainer.state.global_step == 8
    assert codec.Chain("run.lcc").steps == (8,)
    state, best = codec.restore("run.lcc")["model"], trainer.model.state_dict()
    last = load_file("out/checkpoint-8/model.safetensors")
    assert all(torch.equal(state[name], last[name]) for name in last)
    assert all(state[name].dtype == torch.bfloat16 for name in last)
    assert not all(torch.equal(state[name], best[name]) for name in last)


@pytest.mark.parametrize(("first", "best"), [("chain", True), ("stopping", False)])
def test_the_last_step_where_an_epochs_evaluation_stops(
    make: Make, hf: Any, first: str, best: bool
) -> None:
    """It comes after the epoch's end, and after this callback or before it."""
    worse = iter([1.0, 2.0, 3.0])
    callbacks = [hf.Chain("run.lcc", every=4, **EXACT), hf.library.EarlyStoppingCallback(1)]
    trainer = make(
        *(callbacks if first == "chain" else callbacks[::-1]),
        max_steps=-1,
        num_train_epochs=3,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=best,
        metric_for_best_model="worse",
        greater_is_better=False,
        rows=20,
    )
    trainer.compute_metrics = lambda _: {"worse": next(worse)}
    trainer.train()
    assert codec.Chain("run.lcc").steps == (4, 8, 10)
    state = codec.restore("run.lcc")["model"]
    last = load_file("out/checkpoint-10/model.safetensors")
    assert all(torch.equal(state[name], last[name]) for name in last)


def test_refused(make: Make, hf: Any, tmp_path: Path) -> None:
    with pytest.raises(codec.SettingsError, match="every is a number"):
        hf.Chain("run.lcc", every=0)
    with pytest.raises(TypeError, match="'bit'"):
        hf.Chain("run.lcc", bit=2)
    with pytest.raises(codec.SettingsError, match="nothing would be saved"):
        make(hf.Chain("run.lcc"), save_strategy="no").train()
    for name, value in (("fsdp", True), ("deepspeed_plugin", object())):
        trainer = make(hf.Chain("run.lcc"))
        event = SimpleNamespace(**{"fsdp": None, "deepspeed_plugin": None, name: value})
        with pytest.raises(ShardedError, match=r"codec\.dcp"):
            hf.Chain("run.lcc").on_train_begin(event, trainer.state, None, model=trainer.model)
    other = hf.Chain("run.lcc", every=1)  # as in the processes beside the main one
    rank, control = SimpleNamespace(is_world_process_zero=False, global_step=1), trainer.control
    other.on_train_begin(trainer.args, rank, control, model=trainer.model)
    other.on_step_end(trainer.args, rank, control, model=trainer.model)
    other.on_train_end(trainer.args, rank, control)
    assert not (tmp_path / "run.lcc").exists()


def end_of(trainer: Any) -> dict[str, Any]:
    """What a training ends with; losses as they were logged, with an evaluation's."""
    losses = [
        (entry["step"], entry.get("loss"), entry.get("eval_loss"))
        for entry in trainer.state.log_history
        if "train_runtime" not in entry
    ]
    return {
        "model": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "scheduler": trainer.lr_scheduler.state_dict(),
        "losses": losses,
        "random": torch.get_rng_state(),
    }


GRADIENTS: dict[str, dict[str, Any]] = {
    "evaluated": {"eval_strategy": "steps", "eval_steps": 3},
    "at the end of an epoch": {
        "max_steps": -1,
        "num_train_epochs": 2,
        "eval_strategy": "epoch",
        "rows": 24,
    },
    "accumulated": {"gradient_accumulation_steps": 2, "max_grad_norm": 0.05},
    "bfloat16": {"bf16": True, "optim": "adafactor"},
    "SGD on a plateau": {
        "optim": "sgd",
        "optim_args": "momentum=0.9",
        "lr_scheduler_type": "reduce_lr_on_plateau",
        "eval_strategy": "steps",
        "eval_steps": 2,
        "metric_for_best_model": "loss",
    },
}


@pytest.mark.parametrize("settings", GRADIENTS.values(), ids=GRADIENTS)
def test_gradients_resume_to_the_last_bit(make: Make, hf: Any, settings: dict[str, Any]) -> None:
    """With dropout; weights, moments, schedule, logs and random states, without a checkpoint of
    the Trainer's own. The training fails, and fails again."""
    settings = {"save_strategy": "no", "logging_steps": 1, "width": 64, "max_steps": 7} | settings
    alone = make(**settings)
    alone.train()
    last = alone.state.global_step
    middle = 6 if last == 12 else 4  # an epoch's end
    chain = hf.Chain("run.lcc", gradients=True)
    for stop in (middle + 1, last - 1, 0):
        trainer = make(chain, hf.Stops(stop, raises), **settings)
        folder = chain.checkpoint(trainer)
        assert (folder is None) == (stop == middle + 1)
        if stop == 0:
            trainer.train(resume_from_checkpoint=folder)
        else:
            with pytest.raises(ZeroDivisionError):
                trainer.train(resume_from_checkpoint=folder)
            assert codec.Chain("run.lcc").steps == tuple(range(1, stop))
    assert differences(end_of(trainer), end_of(alone)) == []
    entries = codec.Chain("run.lcc").entries
    assert [e.step for e in entries] == list(range(1, last + 1))
    bases = [e.step for e in entries if e.kind == "base"]
    assert bases == [1, middle + 1, last - 1]
    sizes = {e.step: Path("run.lcc", e.name).stat().st_size for e in entries}
    assert all(sizes[e.step] < 0.6 * sizes[1] for e in entries if e.kind == "delta")

    found = rerun("run.lcc", make(**settings).create_optimizer())
    assert differences(found["model"], alone.model.state_dict()) == []
    earlier = make(**settings)
    earlier.train(resume_from_checkpoint=chain.checkpoint(earlier, middle - 1))
    assert differences(end_of(earlier), end_of(alone)) == []


def test_gradients_every_few_steps(make: Make, hf: Any, tmp_path: Path, alone: Any) -> None:
    """Beside checkpoints of the Trainer, from which a training may resume too."""
    trainer = make(hf.Chain("run.lcc", gradients=True, every=3), hf.Stops(7, raises))
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    assert codec.Chain("run.lcc").steps == (3, 6)
    chain = hf.Chain("run.lcc", gradients=True, every=3)
    trainer = make(chain)
    with pytest.warns(RewoundWarning, match="goes on from step 4 and was at 6"):
        trainer.train(resume_from_checkpoint=True)
    assert codec.Chain("run.lcc").steps == (3, 6, 9, 10)
    folder = chain.checkpoint(make(), 9)
    (tmp_path / folder / "old").touch()
    trainer = make()
    assert chain.checkpoint(trainer, 6) == folder
    assert not (tmp_path / folder / "old").exists()
    trainer.train(resume_from_checkpoint=folder)
    assert differences(trainer.model.state_dict(), alone) == []


def test_gradients_refused(make: Make, hf: Any) -> None:
    with pytest.raises(codec.SettingsError, match="every is at most 8"):
        hf.Chain("run.lcc", gradients=True, every=9)
    with pytest.raises(TypeError, match="'bits'"):
        hf.Chain("run.lcc", gradients=True, bits=2)
    with pytest.raises(codec.SettingsError, match="gradients=True"):
        hf.Chain("run.lcc").checkpoint(make())
    with pytest.raises(codec.SettingsError, match="states of other callbacks"):
        make(
            hf.Chain("run.lcc", gradients=True), restore_callback_states_from_checkpoint=True
        ).train()
    trainer = make()
    for name, value in (("world_size", 2), ("fp16", True)):
        fine = {"fsdp": None, "deepspeed_plugin": None, "world_size": 1, "fp16": False}
        event = SimpleNamespace(**fine | {name: value})
        with pytest.raises(codec.SettingsError, match="gradients=True"):
            hf.Chain("run.lcc", gradients=True).on_train_begin(
                event, trainer.state, None, model=trainer.model
            )
    assert not Path("run.lcc").exists()
    make(hf.Chain("run.lcc", gradients=True), save_strategy="no", max_steps=2).train()
    with pytest.raises(OptimizerMismatchError):
        hf.Chain("run.lcc", gradients=True).checkpoint(make(optim="sgd"))


@pytest.mark.usefixtures("examples")
def test_example_and_snippets(
    make: Make, snippets: Callable[[str], list[str]], capsys: Capture
) -> None:
    import huggingface

    for steps in (4, 7):
        huggingface.main(["--steps", f"{steps}", "--every", "2"])
        said = capsys.readouterr().out
        assert f"the newest {steps}" in said
        assert "loss of the live model" in said
    found = snippets("huggingface")
    assert found
    for i, snippet in enumerate(found):
        trainer = make(output_dir=f"out{i}", max_steps=4)
        for path in ("run.lcc", "exact.lcc"):
            snippet = snippet.replace(path, f"{i}.lcc")
        exec(snippet, {"trainer": trainer})
        if "gradients" in snippet:
            state = rerun(f"{i}.lcc", trainer.optimizer)
        else:
            state = codec.restore(f"{i}.lcc")
        trainer.model.load_state_dict(state["model"])
        assert codec.Chain(f"{i}.lcc").steps[-1] == 4
