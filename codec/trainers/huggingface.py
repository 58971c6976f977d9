"""A callback of transformers' Trainer, which adds a chain to its checkpoints.

    trainer = Trainer(model, args, train_dataset=data)
    trainer.add_callback(ChainCallback("run.lcc", every=50, bits=2))
    trainer.train()
    codec.restore("run.lcc")["model"]

The Trainer's own checkpoints are as they are without it, and it resumes from those: then the chain
goes back to the step of the checkpoint, if it was further (rewinding). Only the main process saves.

Not done here: FSDP and DeepSpeed (codec.dcp).
"""

from __future__ import annotations

import os
from typing import Any

from codec.errors import SettingsError

from .models import refuse_parts, sharded, state_of
from .run import Run, check_every

try:
    from transformers import TrainerCallback
except ImportError as exc:
    raise ImportError(
        "codec.trainers.huggingface needs transformers, which is not installed: "
        "pip install transformers accelerate"
    ) from exc


class ChainCallback(TrainerCallback):
    """Saves into a chain while a Trainer trains.

    path: the chain's directory. every: steps of the optimizer between two records; None: one
    beside each of the Trainer's checkpoints. The last step is saved in any case. optimizer:
    save the optimizer and the scheduler too, exactly unless a policy says otherwise. resume: a
    training that begins at step 0 may take over a chain that is there, else it is refused; one
    that begins later always goes on with it. settings: bits, policy and so on of a
    `Checkpointer`.

    A record is {"model": …, "epoch": …}, and with optimizer "optimizer" and "scheduler".

    Raises SettingsError and TypeError for settings. In the training: StepOrderError,
    LockedError, ShardedError and what `Checkpointer` does; a save that fails ends the training.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every: int | None = None,
        optimizer: bool = False,
        resume: bool = False,
        **settings: Any,
    ) -> None:
        check_every(every)
        self._run = Run(path, resume, settings)
        self._every, self._optimizer = every, optimizer

    def close(self) -> None:
        """Let others write, after a training that failed: the Trainer does not tell of it. The
        next training in this thread does it as well, and so does the end of the process."""
        self._run.close()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Open the chain."""
        if args.fsdp:
            raise sharded("args.fsdp is set")
        if args.deepspeed_plugin is not None:
            raise sharded("DeepSpeed has it")
        refuse_parts(kwargs["model"])
        if self._every is None and args.save_strategy == "no":
            raise SettingsError(
                "nothing would be saved: the Trainer makes no checkpoints (save_strategy='no') "
                "and every is None; say every=100, for example"
            )
        if state.is_world_process_zero:
            self._run.begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save if it is time."""
        step = state.global_step
        if self._run.is_open and self._every is not None and self._run.is_due(step, self._every):
            self._save(state, kwargs)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save beside a checkpoint."""
        if self._run.is_open and self._every is None:
            self._save(state, kwargs)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the last step: at the training's end the model may be another, the best one."""
        if self._run.is_open and control.should_training_stop:
            self._save(state, kwargs, last=True)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The same: the evaluation of an epoch, which may stop the training, comes after its
        end."""
        self.on_epoch_end(args, state, control, **kwargs)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The same: a callback after this one may have stopped it; then the Trainer logs once
        more, before it loads the best model."""
        self.on_epoch_end(args, state, control, **kwargs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the chain."""
        self._run.close()

    def _save(self, state: Any, kwargs: dict[str, Any], *, last: bool = False) -> None:
        record = {"model": state_of(kwargs["model"]), "epoch": state.epoch}
        if self._optimizer:
            record["optimizer"] = kwargs["optimizer"].state_dict()
            record["scheduler"] = kwargs["lr_scheduler"].state_dict()
        self._run.save(state.global_step, record, last=last)
