"""A callback and a checkpoint plugin of Lightning's Trainer.

    Trainer(callbacks=[ChainCallback("run.lcc", every=50)])      a chain beside its checkpoints
    Trainer(plugins=[ChainCheckpointIO("run.lcc")])              its checkpoints are in a chain

With the plugin, every file that ModelCheckpoint asks for is a small pointer to a step of the chain,
and is loaded as before: `trainer.fit(model, ckpt_path=...)`. Removing a checkpoint removes its
pointer. The records stay, since others are deltas to them.

Both packages that Lightning comes in are known, `lightning` and `pytorch_lightning`. Not done here:
FSDP, DeepSpeed and ModelParallelStrategy (codec.dcp); `load_from_checkpoint`, which reads files
without asking a plugin (load the state_dict that `load_checkpoint` gives instead).
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

from codec.errors import SettingsError, StepNotFoundError
from codec.storage.location import path_text

from . import pointer
from .models import refuse_parts, refuse_shards, sharded, state_of
from .pointer import TOKEN, Pointer
from .run import Run, check_every
from .small import as_tensors, as_values

try:
    # Of two that are installed, the one that the training has imported: its Trainer does not take
    # callbacks and plugins of the other's classes.
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        raise ModuleNotFoundError
    from lightning.pytorch import Callback
    from lightning.pytorch.plugins import CheckpointIO, TorchCheckpointIO
except ModuleNotFoundError:
    try:
        from pytorch_lightning import Callback
        from pytorch_lightning.plugins import CheckpointIO, TorchCheckpointIO
    except ModuleNotFoundError as exc:
        raise ImportError(
            "codec.trainers.lightning needs Lightning, which is not installed: "
            "pip install lightning"
        ) from exc

SHARDED = {"FSDPStrategy", "DeepSpeedStrategy", "ModelParallelStrategy"}
FIXED = ("state_dict", "optimizer_states")  # parts of a checkpoint whose names stay the same
REFUSED = {
    "keep_bases": "older checkpoints that are still there would lose what they are deltas to",
    "asynchronous": "a checkpoint would be there before its record is; ChainCallback can",
}


class ChainCallback(Callback):
    """Saves into a chain while a Trainer fits, but in a fast_dev_run.

    path: the chain's directory. every: steps (`trainer.global_step`) between two records; None:
    one beside each checkpoint that the Trainer saves. The last step is saved in any case.
    optimizer: save the optimizers and schedulers too, as lists, exactly unless a policy says
    otherwise. resume: a training that begins at step 0 may take over a chain that is there, else
    it is refused; one that begins later, with ckpt_path, goes on with it, and the chain goes back
    to that step if it was further. settings: bits, policy and so on of a `Checkpointer`.

    A record is {"model": …, "epoch": …}, and with optimizer "optimizer" and "scheduler".

    Raises SettingsError and TypeError for settings. In the training: StepOrderError, LockedError,
    ShardedError and what `Checkpointer` does; a save that fails ends the training.
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
        super().__init__()
        check_every(every)
        self._run = Run(path, resume, settings)
        self._every, self._optimizer = every, optimizer

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the chain."""
        for kind in type(trainer.strategy).__mro__:
            if kind.__name__ in SHARDED:
                raise sharded(f"the Trainer's strategy is a {kind.__name__}")
        refuse_parts(pl_module)
        if self._every is None and all(
            getattr(c, "save_weights_only", False) for c in trainer.checkpoint_callbacks
        ):
            raise SettingsError(
                "nothing would be saved: the Trainer makes no whole checkpoints, and every is "
                "None; say every=100, for example"
            )
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self._run.begin(trainer.global_step)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if it is time."""
        step = trainer.global_step
        if self._run.is_open and self._every is not None and self._run.is_due(step, self._every):
            self._save(trainer, pl_module)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Save beside a checkpoint."""
        if self._run.is_open and self._every is None:
            self._save(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the last step, and close the chain."""
        if self._run.is_open:
            self._save(trainer, pl_module, last=True)
            self._run.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Close the chain of a training that has failed."""
        self._run.abandon()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Close the chain in any case."""
        self._run.close()

    def _save(self, trainer: Any, pl_module: Any, *, last: bool = False) -> None:
        record: dict[str, Any] = {"model": state_of(pl_module), "epoch": trainer.current_epoch}
        if self._optimizer:
            schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
            record["optimizer"] = [optimizer.state_dict() for optimizer in trainer.optimizers]
            record["scheduler"] = [scheduler.state_dict() for scheduler in schedulers]
        self._run.save(trainer.global_step, record, last=last)


class ChainCheckpointIO(CheckpointIO):
    """Keeps a Trainer's checkpoints in a chain.

    path: the chain's directory, or its URL; what is there is gone on with, whoever began it, and
    all its checkpoints stay. The files that name them lie in local directories only. A checkpoint's
    step is `global_step`, or the next free one where the chain is there already. settings: bits,
    policy and so on of a `Checkpointer`, but for keep_bases and asynchronous.

    The weights come back as the track of the bits that are kept; all else, the optimizer too,
    exactly. What a chain cannot hold (objects in hyper-parameters, say) is refused with DTypeError,
    and the policy that leaves it out.

    Raises SettingsError and TypeError for settings.
    """

    def __init__(self, path: str | os.PathLike[str], **settings: Any) -> None:
        for name, reason in REFUSED.items():
            if settings.get(name):
                raise SettingsError(f"{name} is not for ChainCheckpointIO: {reason}")
        self._run = Run(path, True, settings)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """One record, and then the file that names it. Raises SettingsError for storage_options
        and for a path that is a URL, ShardedError, LockedError, and what `Checkpointer` does."""
        if storage_options is not None:
            raise SettingsError("a chain has no storage_options; leave them out")
        pointer.check_place(path)
        refuse_shards(checkpoint["state_dict"].items())
        if not self._run.is_open:
            self._run.begin(None)
        newest = -1 if self._run.step is None else self._run.step
        token = secrets.token_hex(16)
        step = max(int(checkpoint["global_step"]), newest + 1)
        self._run.save(step, _converted(checkpoint, as_values) | {TOKEN: token})
        pointer.write(path, Pointer(self._run.name, step, token))

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """The checkpoint that a file names, on the CPU; a file of Lightning's own as Lightning
        loads it. weights_only: of those; a chain holds nothing that is unpickled.

        Raises SettingsError for another map_location, StepNotFoundError if the chain has not
        what was saved, VersionError for a file of a newer format, TruncatedRecordError for an
        empty one, and what `codec.restore` does.
        """
        named = pointer.read(path)
        if named is None:
            more = {} if map_location is None else {"map_location": map_location}
            found: dict[str, Any] = TorchCheckpointIO().load_checkpoint(
                path, weights_only=weights_only, **more
            )
            return found
        if map_location is not None and str(map_location) != "cpu":
            raise SettingsError(f"a chain restores to the CPU; got map_location={map_location!r}")
        found = self._run.restore(named.step)
        if found.pop(TOKEN, None) != named.token:
            raise StepNotFoundError(
                f"{path}: names step {named.step} of a {named.chain} that is not the chain in "
                f"{self._run.where}; give ChainCheckpointIO the directory it was saved in"
            )
        return _converted(found, as_tensors)

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove the file; the chain keeps the record, which others may need."""
        place = Path(path_text(path))
        if place.is_file():  # whatever is in it
            place.unlink()
        else:
            TorchCheckpointIO().remove_checkpoint(path)

    def teardown(self) -> None:
        """Let others write; the next checkpoint opens the chain again."""
        self._run.close()


def _converted(checkpoint: dict[str, Any], convert: Any) -> dict[str, Any]:
    """All but the weights and the optimizers' states."""
    return {key: v if key in FIXED else convert(v) for key, v in checkpoint.items()}
