"""A callback and a checkpoint plugin for Lightning's Trainer.

    Trainer(callbacks=[ChainCallback("run.lcc", every=50)])      a chain next to its checkpoints
    Trainer(plugins=[ChainCheckpointIO("run.lcc")])              its checkpoints in a chain
    Trainer(plugins=[ChainCheckpointIO("run.lcc", gradients_of=model)])          to the last bit

With the plugin, each file of ModelCheckpoint is a small pointer to a step of the chain, and loads
as before: `trainer.fit(model, ckpt_path=...)`. Removing a checkpoint removes its pointer; records
stay, since later records build on them.

Both packages of Lightning work, `lightning` and `pytorch_lightning`. FSDP, DeepSpeed and
ModelParallelStrategy need codec.dcp. `load_from_checkpoint` reads files without asking a plugin:
load the state_dict that `load_checkpoint` returns instead.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codec.errors import SettingsError, StepNotFoundError
from codec.state.objects import refuse_parts, refuse_shards, sharded, state_of
from codec.storage.location import path_text

from . import pointer
from .pointer import TOKEN, Pointer
from .run import ChainRun, check_every

try:
    # If both are installed, take the one that the training has imported: its Trainer refuses
    # callbacks and plugins of the other package.
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
REFUSED = {
    "keep_steps": "older checkpoints would lose the records that they build on",
    "asynchronous": "a checkpoint would exist before its record; use ChainCallback",
}


class ChainCallback(Callback):
    """Saves to a chain while a Trainer fits, except in a fast_dev_run. A save that fails ends the
    training.

    A record is {"model": …, "epoch": …}, with optimizer also "optimizer" and "scheduler". The last
    step is always saved.

    Args:
        path: The chain's directory.
        every: Steps (`trainer.global_step`) between two records; None saves one with each
            checkpoint of the Trainer.
        optimizer: Save the optimizers and schedulers too, as lists: exactly, except the optimizers'
            moments; policy={"optimizer/*": "exact"} stores these exactly too.
        resume: Whether a training that begins at step 0 may take over an existing chain. A training
            that begins later, with ckpt_path, always continues it; the chain goes back to that step
            if it is further.
        settings: bits, policy and so on of a `Checkpointer`.

    Raises:
        SettingsError, TypeError: Wrong settings.
        StepOrderError, LockedError, ShardedError: In the training, and what `Checkpointer` raises.
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
        self._run = ChainRun(path, resume, settings)
        self._interval, self._optimizer = every, optimizer

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Open the chain."""
        for kind in type(trainer.strategy).__mro__:
            if kind.__name__ in SHARDED:
                raise sharded(f"the Trainer's strategy is a {kind.__name__}")
        refuse_parts(pl_module)
        if self._interval is None and all(
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
        """Save if a record is due."""
        if self._run.is_open and self._run.is_due(trainer.global_step, self._interval):
            self._save(trainer, pl_module)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Save with a checkpoint."""
        if self._run.is_open and self._interval is None:
            self._save(trainer, pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Save the last step, and close the chain."""
        if self._run.is_open:
            self._save(trainer, pl_module, last=True)
            self._run.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Close the chain of a failed training."""
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

    The weights and the optimizers' moments restore as the track, everything else exactly;
    policy={"optimizer_states/*": "exact"} stores the moments exactly too. An object that a chain
    cannot hold, for example in the hyper-parameters, raises DTypeError, which names the policy that
    skips it. A checkpoint's step is `global_step`. If two files in a row have the same state, both
    name one record. Another state of the same global_step takes the next free step.

    With gradients_of, records hold the gradients of every step, from which the whole state restores
    to the last bit, see `codec.rerun`. This needs a checkpoint every few steps:
    ModelCheckpoint(every_n_train_steps=1). Each training begins with a base.

    Args:
        path: The chain's directory or URL; an existing chain is continued, and its checkpoints
            stay. The pointers are always local files.
        gradients_of: The module that is trained, with one optimizer. To load a checkpoint, its
            configure_optimizers is called once more, and the module moves to the trainer's device.
        settings: bits, policy and so on of a `Checkpointer`, except keep_steps and asynchronous;
            with gradients_of base_every and storage_options.

    Raises:
        SettingsError, TypeError: Wrong settings.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, gradients_of: Any = None, **settings: Any
    ) -> None:
        for name, reason in REFUSED.items():
            if settings.get(name):
                raise SettingsError(f"{name} is not for ChainCheckpointIO: {reason}")
        self._model = gradients_of
        # The digest of the newest state, and the pointer to its record.
        self._newest: tuple[str, Pointer] | None = None
        self._run = ChainRun(path, True, settings, gradients=gradients_of is not None)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Save a record, then the file that names it.

        Raises SettingsError for storage_options, a path that is a URL, or several optimizers with
        gradients_of; ShardedError, LockedError, and what `Checkpointer` raises.
        """
        if storage_options is not None:
            raise SettingsError("a chain has no storage_options; leave them out")
        pointer.check_place(path)
        refuse_shards(checkpoint["state_dict"].items())
        if not self._run.is_open:
            optimizer = None
            if self._model is not None:
                optimizer = _only(self._model.optimizers(use_pl_optimizer=False))
            self._run.begin(None, optimizer=optimizer)
            self._newest = None
        digest = self._run.digest_of(checkpoint)
        if self._newest is None or self._newest[0] != digest:
            newest = -1 if self._run.step is None else self._run.step
            token = secrets.token_hex(16)
            step = max(int(checkpoint["global_step"]), newest + 1)
            self._run.save(step, checkpoint | {TOKEN: token})
            self._newest = digest, Pointer(self._run.name, step, token)
        pointer.write(path, self._newest[1])

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Load the checkpoint that a file names, on the CPU, or a file written by Lightning itself.

        weights_only: for Lightning's files; a chain never unpickles. Raises SettingsError for
        another map_location, StepNotFoundError if the chain lacks that checkpoint, VersionError
        for a file of a newer format, TruncatedRecordError for an empty file, and what
        `codec.restore` raises, or with gradients_of `codec.rerun.restore`.
        """
        step_pointer = pointer.read(path)
        if step_pointer is None:
            more = {} if map_location is None else {"map_location": map_location}
            checkpoint: dict[str, Any] = TorchCheckpointIO().load_checkpoint(
                path, weights_only=weights_only, **more
            )
            return checkpoint
        if map_location is not None and str(map_location) != "cpu":
            raise SettingsError(f"a chain restores to the CPU; got map_location={map_location!r}")
        checkpoint = self._run.restore(step_pointer.step, self._new_optimizer())
        if checkpoint.pop(TOKEN, None) != step_pointer.token:
            raise StepNotFoundError(
                f"{path}: names step {step_pointer.step} of {step_pointer.chain}, but the chain in "
                f"{self._run.where} has another state there; give ChainCheckpointIO the directory "
                "it was saved in"
            )
        return checkpoint

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove the file; the chain keeps the record, since later records may build on it."""
        place = Path(path_text(path))
        if place.is_file():
            place.unlink()
        else:
            TorchCheckpointIO().remove_checkpoint(path)

    def teardown(self) -> None:
        """Release the chain; the next checkpoint opens it again."""
        self._run.close()

    def _new_optimizer(self) -> Any:
        """An optimizer like the training's, to run steps again: Lightning makes its own later."""
        if self._model is None:
            return None
        try:
            trainer = self._model.trainer
        except RuntimeError:
            pass  # there is no trainer: the module is on its device already
        else:
            self._model.to(trainer.strategy.root_device)  # Lightning does so after loading
        return _only(self._model.configure_optimizers())


def _only(optimizers: Any) -> Any:
    """The optimizer in what configure_optimizers returns. Raises SettingsError if it is not one."""
    flat = list(_flattened(optimizers))
    if len(flat) != 1:
        raise SettingsError(
            f"gradients_of needs a module with one optimizer; this one has {len(flat)}. For "
            "several, use policy={'*': 'exact'} instead, or a codec.rerun.GradientCheckpointer each"
        )
    return flat[0]


def _flattened(optimizers: Any) -> Iterator[Any]:
    """The optimizers in what configure_optimizers returns, without schedulers."""
    from torch.optim import Optimizer

    if isinstance(optimizers, Optimizer):
        yield optimizers
    elif isinstance(optimizers, Mapping):
        yield from _flattened(optimizers.get("optimizer"))
    elif isinstance(optimizers, list | tuple):
        for part in optimizers:
            yield from _flattened(part)
