"""A callback that adds a chain to the checkpoints of transformers' Trainer.

    trainer = Trainer(model, args, train_dataset=data)
    trainer.add_callback(ChainCallback("run.lcc", every=50, bits=2))
    trainer.train()
    codec.restore("run.lcc")["model"]

The Trainer's own checkpoints stay the same, and it resumes from them: then the chain goes back to
the step of the checkpoint if it is further (rewinding). Only the main process saves. FSDP and
DeepSpeed need codec.dcp.
"""

from __future__ import annotations

import os
from typing import Any

from codec.errors import SettingsError

from .run import ChainRun, check_every
from .states import refuse_parts, sharded, state_of

try:
    from transformers import TrainerCallback
except ImportError as exc:
    raise ImportError(
        "codec.trainers.huggingface needs transformers, which is not installed: "
        "pip install transformers accelerate"
    ) from exc


class ChainCallback(TrainerCallback):
    """Saves to a chain while a Trainer trains; a save that fails ends the training.

    A record is {"model": …, "epoch": …}, with optimizer also "optimizer" and "scheduler". The last
    step is always saved.

    Args:
        path: The chain's directory.
        every: Optimizer steps between two records; None saves one with each of the Trainer's
            checkpoints.
        optimizer: Save the optimizer and the scheduler too, exactly but for the optimizer's
            moments: policy={"optimizer/*": "exact"} keeps these exact.
        resume: A training that begins at step 0 may take over an existing chain, which is refused
            otherwise. A training that begins later always continues it.
        settings: bits, policy and so on of a `Checkpointer`.

    Raises:
        SettingsError, TypeError: Wrong settings.
        StepOrderError, LockedError, ShardedError: In the training, with what `Checkpointer` raises.
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
        self._run = ChainRun(path, resume, settings)
        self._every, self._optimizer = every, optimizer

    def close(self) -> None:
        """Let others write after a failed training, which the Trainer does not report. The next
        training in this thread and the end of the process do so too."""
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
        """Save if a record is due."""
        step = state.global_step
        if self._run.is_open and self._every is not None and self._run.is_due(step, self._every):
            self._save(state, kwargs)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save with a checkpoint."""
        if self._run.is_open and self._every is None:
            self._save(state, kwargs)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the last step: later the Trainer may load the best model."""
        if self._run.is_open and control.should_training_stop:
            self._save(state, kwargs, last=True)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the last step: an evaluation at the end of an epoch may stop the training."""
        self.on_epoch_end(args, state, control, **kwargs)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Save the last step: if a later callback stopped the training, the Trainer logs once more
        before it loads the best model."""
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
