"""The callback of transformers' Trainer, with the real one and a small GPT-2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import codec
from codec import errors
from codec.rerun import restore as rerun
from tests.bits import same

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

EXACT = {"policy": {"*": "exact"}}
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def hf(few_objects: Callable[[], None]) -> SimpleNamespace:
    """What the tests need of the library, which is slow to import."""
    import transformers
    from transformers.utils import logging

    from codec.trainers.huggingface import ChainCallback

    logging.set_verbosity_error()
    logging.disable_progress_bar()

    class Fails(transformers.TrainerCallback):  # type: ignore[misc]
        """At the end of a step."""

        def __init__(self, step: int) -> None:
            self.step = step

        def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == self.step:
                raise ZeroDivisionError

    few_objects()
    return SimpleNamespace(Chain=ChainCallback, Fails=Fails, library=transformers)


def trainer_of(
    t: Any, *callbacks: Any, dtype: torch.dtype = torch.float32, rows: int = 40, **settings: Any
) -> Any:
    """A Trainer of 5 steps that saves every 2, in its own folder, "out"."""
    torch.manual_seed(0)
    shape = {"n_layer": 1, "n_head": 2, "n_embd": settings.pop("width", 16), "n_positions": 8}
    config = t.GPT2Config(vocab_size=20, bos_token_id=0, eos_token_id=0, **shape)
    numbers = torch.arange(8 * rows).reshape(rows, 8) % 19
    data = [{"input_ids": row, "labels": row} for row in numbers]
    arguments = t.TrainingArguments(
        **{"output_dir": "out", "max_steps": 5, "save_steps": 2} | settings,
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


@pytest.fixture
def make(hf: SimpleNamespace, tmp_path: Path, monkeypatch: Patch) -> Make:
    """See `trainer_of`."""
    monkeypatch.chdir(tmp_path)
    return lambda *callbacks, **settings: trainer_of(hf.library, *callbacks, **settings)


@pytest.fixture(scope="module")
def alone(hf: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The weights after a training without a chain, and all that it has written."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        trainer = trainer_of(hf.library)
        trainer.train()
    return trainer.model.state_dict(), contents(folder / "out")


def contents(folder: Path) -> dict[str, bytes]:
    """Of all files below."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_beside_the_checkpoints_which_stay_the_same(make: Make, hf: Any, alone: Any) -> None:
    """Same files, same bytes with and without it; a record at each, equal to it."""
    both = make(hf.Chain("run.lcc", **EXACT), hf.Chain("lossy.lcc", bits=3, every=3))
    both.train()
    assert len(alone[1]) > 20
    assert same(contents(Path("out")), alone[1])

    assert codec.Chain("run.lcc").steps == (2, 4, 5)
    for step in (2, 4, 5):
        state = codec.restore("run.lcc", step)
        assert state["epoch"] == step / 10
        saved = load_file(f"out/checkpoint-{step}/model.safetensors")
        assert state["model"].keys() - saved.keys() == {"lm_head.weight"}  # tied: there once
        for name, tensor in saved.items():
            assert torch.equal(state["model"][name], tensor), name
        tied = state["model"]["lm_head.weight"], state["model"]["transformer.wte.weight"]
        assert tied[0].data_ptr() == tied[1].data_ptr()

    assert codec.Chain("lossy.lcc").steps == (3, 5)
    model = make().model
    model.load_state_dict(codec.restore("lossy.lcc")["model"])
    a, b = model.transformer.h[0].mlp.c_fc.weight, both.model.transformer.h[0].mlp.c_fc.weight
    assert 0 < (a - b).norm() / b.norm() < 0.05
    with codec.Checkpointer("run.lcc", resume=True):  # both are closed
        pass


def test_resumed_after_it_failed(make: Make, hf: Any, alone: Any) -> None:
    """The chain goes back to the Trainer's checkpoint, and ends as if nothing had been."""
    failing = make(hf.Chain("run.lcc", every=1, **EXACT), hf.Fails(3))
    with pytest.raises(ZeroDivisionError):
        failing.train()
    assert codec.Chain("run.lcc").steps == (1, 2, 3)
    # The Trainer does not tell that it has failed; another one in this thread does not mind.
    again = make(hf.Chain("run.lcc", every=1, **EXACT))
    with pytest.warns(errors.RewoundWarning, match="goes on from step 2 and was at 3"):
        again.train(resume_from_checkpoint=True)
    assert codec.Chain("run.lcc").steps == (1, 2, 3, 4, 5)
    assert codec.Chain("run.lcc/until-3.lcc").steps == (1, 2, 3)
    assert same(dict(codec.restore("run.lcc")["model"]), dict(alone[0]))


def test_begun_again_and_closed_after_a_failure(make: Make, hf: Any) -> None:
    """As where a Trainer tries again with smaller batches, or its place is taken."""
    chain = hf.Chain("run.lcc", every=1)
    with pytest.raises(ZeroDivisionError):
        make(chain, hf.Fails(2)).train()
    with pytest.raises(errors.LockedError):
        codec.Checkpointer("run.lcc", resume=True)
    with (
        pytest.warns(errors.RewoundWarning, match="begins again and was at 2"),
        pytest.raises(ZeroDivisionError),
    ):
        make(chain, hf.Fails(1)).train()
    assert codec.Chain("run.lcc").steps == (1,)
    chain.close()
    codec.Checkpointer("run.lcc", resume=True).close()
    with pytest.raises(errors.StepOrderError, match="up to step 1; choose another directory"):
        make(hf.Chain("run.lcc", every=1)).train()
    with pytest.warns(errors.RewoundWarning):
        make(hf.Chain("run.lcc", every=2, resume=True), max_steps=2).train()
    assert codec.Chain("run.lcc").steps == (2,)


@pytest.mark.parametrize(
    ("strategy", "first", "best"),
    [("steps", "chain", True), ("epoch", "chain", True), ("epoch", "stopping", False)],
)
def test_the_last_step_is_saved_not_the_best(
    make: Make, hf: Any, strategy: str, first: str, best: bool
) -> None:
    """Stopped early by an evaluation, within an epoch or at its end, after this callback or before
    it, maybe with the best model loaded at the end; in bfloat16."""
    worse = iter([1.0, 2.0, 3.0])
    callbacks = [hf.Chain("run.lcc", every=3, **EXACT), hf.library.EarlyStoppingCallback(1)]
    trainer = make(
        *(callbacks if first == "chain" else callbacks[::-1]),
        **{"rows": 8, "max_steps": -1, "num_train_epochs": 3} if strategy == "epoch" else {},
        dtype=torch.bfloat16,
        eval_strategy=strategy,
        eval_steps=2,
        save_strategy=strategy,
        load_best_model_at_end=best,
        metric_for_best_model="worse",
        greater_is_better=False,
    )
    trainer.compute_metrics = lambda _: {"worse": next(worse)}
    trainer.train()
    assert trainer.state.global_step == 4
    assert codec.Chain("run.lcc").steps == (3, 4)
    state, end = codec.restore("run.lcc")["model"], trainer.model.state_dict()
    last = load_file("out/checkpoint-4/model.safetensors")
    assert all(torch.equal(state[name], last[name]) for name in last)
    assert all(state[name].dtype == torch.bfloat16 for name in last)
    assert all(torch.equal(end[name], last[name]) for name in last) != best


FINE = {"fsdp": None, "deepspeed_plugin": None, "save_strategy": "steps", "world_size": 1}
FINE |= {"fp16": False, "restore_callback_states_from_checkpoint": False}


@pytest.mark.parametrize(
    ("arguments", "gradients", "error", "message"),
    [
        ({"save_strategy": "no"}, False, codec.SettingsError, "nothing would be saved"),
        ({"fsdp": True}, False, errors.ShardedError, r"codec\.dcp"),
        ({"deepspeed_plugin": object()}, False, errors.ShardedError, r"codec\.dcp"),
        ({"world_size": 2}, True, codec.SettingsError, "gradients=True is for a"),
        ({"fp16": True}, True, codec.SettingsError, "gradients=True does not"),
        (
            {"restore_callback_states_from_checkpoint": True},
            True,
            codec.SettingsError,
            "states of other callbacks",
        ),
        ({}, False, None, ""),
    ],
)
def test_refused(
    hf: Any, tmp_path: Path, arguments: Any, gradients: bool, error: Any, message: str
) -> None:
    """And nothing is written; nor by the processes beside the main one."""
    more = {"gradients": True} if gradients else {"every": None if error else 1}
    chain = hf.Chain(tmp_path / "run.lcc", **more)
    args = SimpleNamespace(**FINE | arguments)
    state = SimpleNamespace(is_world_process_zero=error is not None, global_step=1)
    model = torch.nn.Linear(2, 2)
    if error:
        with pytest.raises(error, match=message):
            chain.on_train_begin(args, state, None, model=model)
    else:
        chain.on_train_begin(args, state, None, model=model)
        chain.on_step_end(args, state, None, model=model)
        chain.on_train_end(args, state, None)
    assert not list(tmp_path.iterdir())


def test_wrong_settings(hf: Any) -> None:
    for wrong, error, message in (
        ({"every": 0}, codec.SettingsError, "every is a number"),
        ({"bit": 2}, TypeError, "'bit'"),
        ({"gradients": True, "every": 9}, codec.SettingsError, "every is at most 8"),
        ({"gradients": True, "bits": 2}, TypeError, "'bits'"),
    ):
        with pytest.raises(error, match=message):
            hf.Chain("run.lcc", **wrong)
    with pytest.raises(codec.SettingsError, match="whole=True"):
        hf.Chain("run.lcc").checkpoint(None)


def end_of(trainer: Any) -> dict[str, Any]:
    """What a training ends with; losses as they were logged, with an evaluation's."""
    losses = [
        (entry["step"], entry.get("loss"), entry.get("eval_loss"))
        for entry in trainer.state.log_history
        if "train_runtime" not in entry
    ]
    return {
        "model": dict(trainer.model.state_dict()),
        "optimizer": trainer.optimizer.state_dict(),
        "scheduler": trainer.lr_scheduler.state_dict(),
        "losses": losses,
        "random": torch.get_rng_state(),
    }


GRADIENTS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "at the end of an epoch, accumulated": (
        (4, 5),
        {
            "max_steps": -1,
            "num_train_epochs": 2,
            "eval_strategy": "epoch",
            "rows": 24,
            "gradient_accumulation_steps": 2,
            "max_grad_norm": 0.05,
        },
    ),
    "bfloat16, evaluated": (
        (4,),
        {"bf16": True, "optim": "adafactor", "eval_strategy": "steps", "eval_steps": 3},
    ),
    "SGD on a plateau": (
        (4,),
        {
            "optim": "sgd",
            "optim_args": "momentum=0.9",
            "lr_scheduler_type": "reduce_lr_on_plateau",
            "eval_strategy": "steps",
            "eval_steps": 2,
            "metric_for_best_model": "loss",
        },
    ),
}


@pytest.mark.parametrize(("stops", "settings"), GRADIENTS.values(), ids=GRADIENTS)
def test_gradients_resume_to_the_last_bit(
    make: Make, hf: Any, stops: tuple[int, ...], settings: dict[str, Any]
) -> None:
    """With dropout; weights, moments, schedule, logs and random states, without a checkpoint of
    the Trainer's own. The training fails, and may fail again."""
    settings = {"save_strategy": "no", "logging_steps": 1, "width": 64} | settings
    alone = make(**settings)
    alone.train()
    last = alone.state.global_step
    chain = hf.Chain("run.lcc", gradients=True)
    for stop in (*stops, 0):
        trainer = make(chain, hf.Fails(stop), **settings)
        folder = chain.checkpoint(trainer)
        assert (folder is None) == (stop == stops[0])
        if stop == 0:
            trainer.train(resume_from_checkpoint=folder)
        else:
            with pytest.raises(ZeroDivisionError):
                trainer.train(resume_from_checkpoint=folder)
            assert codec.Chain("run.lcc").steps == tuple(range(1, stop))
    assert same(end_of(trainer), end_of(alone))
    entries = codec.Chain("run.lcc").entries
    assert [e.step for e in entries] == list(range(1, last + 1))
    assert [e.step for e in entries if e.kind == "base"] == [1, *stops]
    assert all(e.nbytes < 0.6 * entries[0].nbytes for e in entries if e.kind == "delta")
    weights = rerun("run.lcc", make(**settings).create_optimizer())["model"]
    assert same(dict(weights), dict(alone.model.state_dict()))


@pytest.mark.parametrize("settings", [EXACT, {}], ids=["exact", "lossy"])
def test_a_chain_in_place_of_the_trainer_s_checkpoints(
    make: Make, hf: Any, settings: dict[str, Any]
) -> None:
    """Killed, and gone on from the chain alone: exactly, or closely."""
    own = {"save_strategy": "no", "logging_steps": 1, "max_steps": 8, "width": 64}
    alone = make(**own)
    alone.train()
    chain = hf.Chain("run.lcc", every=2, whole=True, keep_steps=2, **settings)
    with pytest.raises(ZeroDivisionError):
        make(chain, hf.Fails(6), **own).train()
    assert codec.Chain("run.lcc").steps[-1] == 4
    trainer = make(chain, **own)
    trainer.train(resume_from_checkpoint=chain.checkpoint(trainer))
    assert codec.Chain("run.lcc").steps[-2:] == (6, 8)
    assert not list(Path("out").glob("checkpoint-*"))
    end, expected = end_of(trainer), end_of(alone)
    if settings:
        assert same(end, expected)
    assert end["scheduler"] == expected["scheduler"]
    assert torch.equal(end["random"], expected["random"])
    losses, others = (torch.tensor([loss for _, loss, _ in x["losses"]]) for x in (end, expected))
    assert torch.allclose(losses, others, atol=0.05)  # half of what a step gains
    plain = hf.Chain("plain.lcc", every=2)
    make(plain, **own).train()
    with pytest.raises(codec.SettingsError, match=r"plain\.lcc: was saved without whole=True"):
        hf.Chain("plain.lcc", whole=True).checkpoint(make(**own))


def test_gradients_every_few_steps(make: Make, hf: Any, alone: Any) -> None:
    """Beside checkpoints of the Trainer, from which a training may resume too."""
    chain = hf.Chain("run.lcc", gradients=True, every=2)
    with pytest.raises(ZeroDivisionError):
        make(chain, hf.Fails(5), save_steps=3).train()
    assert codec.Chain("run.lcc").steps == (2, 4)
    chain = hf.Chain("run.lcc", gradients=True, every=2)
    with pytest.warns(errors.RewoundWarning, match="goes on from step 3 and was at 4"):
        make(chain, save_steps=3).train(resume_from_checkpoint=True)
    assert codec.Chain("run.lcc").steps == (2, 4, 5)
    folder = chain.checkpoint(make(), 4)
    Path(folder, "old").touch()
    trainer = make()
    assert chain.checkpoint(trainer, 2) == folder
    assert not Path(folder, "old").exists()
    trainer.train(resume_from_checkpoint=folder)
    assert same(dict(trainer.model.state_dict()), dict(alone[0]))
    with pytest.raises(errors.OptimizerMismatchError):
        chain.checkpoint(make(optim="sgd"))


@pytest.mark.usefixtures("examples")
def test_example_and_snippets(
    make: Make, snippets: Callable[[str], list[str]], capsys: Capture
) -> None:
    import huggingface

    for steps in (2, 3):
        huggingface.main(["--steps", f"{steps}", "--every", "1"])
        said = capsys.readouterr().out
        assert f"the newest {steps}" in said
        assert "loss of the live model" in said
    pieces = snippets("huggingface")
    assert pieces
    for i, snippet in enumerate(pieces):
        trainer = make(output_dir=f"out{i}", max_steps=2)
        for path in ("run.lcc", "exact.lcc"):
            snippet = snippet.replace(path, f"{i}.lcc")
        exec(snippet, {"trainer": trainer})
        if "gradients" in snippet:
            state = rerun(f"{i}.lcc", trainer.optimizer)
        else:
            state = codec.restore(f"{i}.lcc")
        trainer.model.load_state_dict(state["model"])
        assert codec.Chain(f"{i}.lcc").steps[-1] == 2
