"""A callback that keeps the checkpoints of transformers' Trainer in a chain.

    chain = ChainCallback("run.lcc", every=50, whole=True)
    trainer = Trainer(model, TrainingArguments(save_strategy="no"), train_dataset=data)
    trainer.add_callback(chain)
    trainer.train(resume_from_checkpoint=chain.checkpoint(trainer))      # also the first time
    codec.restore("run.lcc")["model"]

The Trainer then needs no checkpoints of its own. With gradients, it goes on to the last bit.

Without both, the chain lies beside the Trainer's checkpoints, which stay the same, and has the
model alone. If the Trainer resumes from one of its checkpoints, and the chain is further, the chain
goes back to that step (rewinding). Only the main process saves. FSDP and DeepSpeed need codec.dcp.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

from codec.errors import SettingsError
from codec.rerun.checkpointer import MAX_STEPS
from codec.state.objects import random_states, refuse_parts, sharded, state_of

from .run import ChainRun, check_every

try:
    from transformers import TrainerCallback
    from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME, TRAINER_STATE_NAME
except ImportError as exc:
    raise ImportError(
        "codec.trainers.huggingface needs transformers, which is not installed: "
        "pip install transformers accelerate"
    ) from exc


RANDOM_NAME = "rng_state.pth"  # in a Trainer's checkpoint; transformers has no name for it
FOLDER = "from-chain"  # in the Trainer's output_dir


class ChainCallback(TrainerCallback):
    """Saves to a chain while a Trainer trains; a save that fails ends the training.

    A record is {"model": …, "epoch": …}. The last step is always saved.

    With whole or gradients a record also has "optimizer" and "scheduler", "trainer", the text of
    the Trainer's state, and "random", the states of the random generators. It is written when the
    next step begins, after the Trainer has logged, evaluated and saved.

    Args:
        path: The chain's directory.
        every: Optimizer steps between two records; None saves one with each of the Trainer's
            checkpoints, or with gradients at every step.
        whole: Save all that the Trainer needs to go on, see `checkpoint`. Weights and the
            optimizer's moments restore as the track, everything else exactly;
            policy={"optimizer/*": "exact"} stores the moments exactly too.
        gradients: Save all that, and the gradients of every step in place of weights and moments,
            from which these restore to the last bit, see `codec.rerun`; `codec.rerun.restore` reads
            it. A resumed training begins with a base.
        resume: Whether a training that begins at step 0 may take over an existing chain. A training
            that begins later always continues it.
        settings: bits, policy and so on of a `Checkpointer`; with gradients base_every, keep_steps
            and storage_options.

    Raises:
        SettingsError, TypeError: Wrong settings.
        StepOrderError, LockedError, ShardedError: In the training, and what `Checkpointer` raises.
        SettingsError: In the training, if its arguments do not allow gradients.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every: int | None = None,
        whole: bool = False,
        gradients: bool = False,
        resume: bool = False,
        **settings: Any,
    ) -> None:
        check_every(every)
        if gradients and every is not None and every > MAX_STEPS:
            raise SettingsError(
                f"with gradients every is at most {MAX_STEPS}: a record holds the gradients of "
                f"all steps since the last one, and a whole state would be as small; got {every}"
            )
        self._run = ChainRun(path, resume, settings, gradients=gradients)
        self._interval = 1 if gradients and every is None else every
        self._whole, self._gradients = whole or gradients, gradients
        self._is_due = False  # if whole: the record of the last step is not written yet

    def checkpoint(self, trainer: Any, step: int | None = None) -> str | None:
        """Make a Trainer's checkpoint from a step of a chain with whole or gradients.

        It is the folder "from-chain" in the Trainer's output_dir, replaced by each call. Give it to
        trainer.train(resume_from_checkpoint=...). This also loads the weights into the Trainer's
        model.

        Args:
            trainer: Made as in the saved training: model, device, optimizer and arguments.
            step: The step; None for the newest that restores.

        Returns:
            The path of the folder; None if there is no chain.

        Raises:
            SettingsError: The callback was made without whole and gradients, or with others.
            LccError: What `codec.restore` or `codec.rerun.restore` raises.
        """
        import torch

        if not self._whole:
            raise SettingsError("checkpoint(trainer) is for ChainCallback(path, whole=True)")
        if step is None and not self._run.steps():
            return None
        if self._gradients:
            trainer.create_optimizer()  # unless it has one
        state = self._run.restore(step, trainer.optimizer if self._gradients else None)
        if "trainer" not in state:
            raise SettingsError(
                f"{self._run.where}: was saved without whole=True, and has the model alone"
            )
        folder = Path(trainer.args.output_dir) / FOLDER
        if folder.exists():
            shutil.rmtree(folder)
        trainer.model.load_state_dict(state["model"])
        trainer.save_model(str(folder))
        torch.save(state["optimizer"], folder / OPTIMIZER_NAME)
        torch.save(state["scheduler"], folder / SCHEDULER_NAME)
        torch.save(state["random"], folder / RANDOM_NAME)
        (folder / TRAINER_STATE_NAME).write_text(state["trainer"], encoding="utf-8")
        return str(folder)

    def close(self) -> None:
        """Release the chain after a failed training, which the Trainer does not report. The next
        training in this thread and the end of the process release it too."""
        self._run.close()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the chain."""
        if args.fsdp:
            raise sharded("args.fsdp is set")
        if args.deepspeed_plugin is not None:
            raise sharded("DeepSpeed has it")
        refuse_parts(kwargs["model"])
        if self._interval is None and args.save_strategy == "no":
            raise SettingsError(
                "nothing would be saved: the Trainer makes no checkpoints (save_strategy='no') "
                "and every is None; say every=100, for example"
            )
        if self._whole:
            _check_whole(args, "gradients" if self._gradients else "whole")
        if state.is_world_process_zero:
            self._is_due = False
            optimizer = kwargs["optimizer"] if self._gradients else None
            self._run.begin(state.global_step, optimizer=optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save if a record is due; a whole one is written later."""
        if self._run.is_open and self._run.is_due(state.global_step, self._interval):
            if self._whole:
                self._is_due = True
            else:
                self._save(state, kwargs)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """If whole: save the step before. Here a resumed Trainer loads its random states."""
        if self._run.is_open and self._is_due:
            self._save(state, kwargs)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """If whole: save the last step of the epoch before."""
        self.on_step_begin(args, state, control, **kwargs)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save with a checkpoint; a whole record is written later."""
        if self._run.is_open and self._interval is None:
            if self._whole:
                self._is_due = True
            else:
                self._save(state, kwargs)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the last step: later the Trainer may load the best model."""
        if self._run.is_open and control.should_training_stop and not self._whole:
            self._save(state, kwargs, last=True)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the last step: an evaluation at the end of an epoch may stop the training."""
        self.on_epoch_end(args, state, control, **kwargs)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the last step: if another callback stopped the training, the Trainer logs once more
        before it loads the best model."""
        self.on_epoch_end(args, state, control, **kwargs)
        if self._run.is_open and self._whole and "train_runtime" in kwargs["logs"]:
            self._save(state, kwargs, last=True)  # the Trainer has evaluated and saved

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the chain."""
        self._run.close()

    def _save(self, state: Any, kwargs: dict[str, Any], *, last: bool = False) -> None:
        record = {"model": state_of(kwargs["model"]), "epoch": state.epoch}
        if self._whole:
            record["optimizer"] = kwargs["optimizer"].state_dict()
            record["scheduler"] = kwargs["lr_scheduler"].state_dict()
            record["trainer"] = json.dumps(dataclasses.asdict(state), indent=2, sort_keys=True)
            record["random"] = _random_states()
        self._run.save(state.global_step, record, last=last)
        self._is_due = False


def _check_whole(args: Any, setting: str) -> None:
    """Raise SettingsError if a chain would lack a part of this training's state.

    setting: the one that is True.
    """
    if args.world_size > 1:
        raise SettingsError(
            f"{setting}=True is for a training of one process: the random states of the others "
            "would be missing; keep the Trainer's own checkpoints"
        )
    if args.fp16:
        raise SettingsError(
            f"{setting}=True does not save the state of the GradScaler that fp16=True uses; use "
            "bf16=True"
        )
    if args.restore_callback_states_from_checkpoint:
        raise SettingsError(
            f"{setting}=True does not save the states of other callbacks; leave out "
            "restore_callback_states_from_checkpoint"
        )


def _random_states() -> dict[str, Any]:
    """The states of the random generators, as in a checkpoint of the Trainer: of one GPU."""
    import torch

    states = random_states() | {"python": random.getstate()}
    return states | {"cuda": torch.cuda.get_rng_state()} if "cuda" in states else states
