"""A chain beside what Accelerator.save_state writes.

    with ChainHook(accelerator, "run.lcc", bits=2):
        ...                                        # your loop, with accelerator.save_state(folder)
    codec.restore("run.lcc")["model"]

Each save_state adds a record and a small file, lcc.json, which names it in the folder. load_state
reads that file, and the chain goes back to its step if it was further (rewinding). All else is
Accelerate's own. Only the main process saves.

Not done here: FSDP, DeepSpeed and Megatron-LM (codec.dcp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from . import pointer
from .models import refuse_parts, sharded, state_of
from .pointer import Pointer
from .run import Run

try:
    import accelerate
except ImportError as exc:
    raise ImportError(
        "codec.trainers.accelerate needs accelerate, which is not installed: pip install accelerate"
    ) from exc

FILE = "lcc.json"
SHARDED = {"FSDP", "DEEPSPEED", "MEGATRON_LM"}


class ChainHook:
    """Saves into a chain with each save_state of an Accelerator.

    accelerator: an `accelerate.Accelerator`. path: the chain's directory. step: says the number
    of the step, which has to rise; None: they are counted, from 0. more: gives what a record is
    to hold besides the model, such as the optimizer's state; exact unless a policy says
    otherwise. resume: a loop that has not loaded a state goes on after the newest step of a chain
    that is there, which else is refused. settings: bits, policy and so on of a `Checkpointer`.

    A record is {"model": …} of the model that was prepared; of several, "model" has them by
    number, "0" for the first.

    Raises SettingsError and TypeError for settings, ShardedError. In save_state: StepOrderError,
    LockedError and what `Checkpointer` does.
    """

    def __init__(
        self,
        accelerator: accelerate.Accelerator,
        path: str | Path,
        *,
        step: Callable[[], int] | None = None,
        more: Callable[[], Mapping[str, Any]] | None = None,
        resume: bool = False,
        **settings: Any,
    ) -> None:
        if accelerator.distributed_type.name in SHARDED:
            raise sharded(f"the accelerator's type is {accelerator.distributed_type.name}")
        self._run, self._resume = Run(path, resume, settings), resume
        self._accelerator, self._step, self._more = accelerator, step, more
        self._hooks = (
            accelerator.register_save_state_pre_hook(self._save),
            accelerator.register_load_state_pre_hook(self._load),
        )

    def close(self) -> None:
        """Wait for what is being saved, let others write, and add no more records."""
        for hook in self._hooks:
            hook.remove()
        self._run.close()

    def __enter__(self) -> ChainHook:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._run.abandon()
        self.close()

    def _save(self, models: list[Any], weights: list[Any], output_dir: str) -> None:
        """Before Accelerate writes: where this fails, there is no checkpoint either."""
        if not self._accelerator.is_main_process:
            return
        if not self._run.is_open:
            self._run.begin(None if self._resume else 0)
        newest = self._run.step
        counted = 0 if newest is None else newest + 1
        step = counted if self._step is None else int(self._step())
        states = [state_of(model) for model in models]
        state = states[0] if len(states) == 1 else {str(i): s for i, s in enumerate(states)}
        self._run.save(step, {**(self._more() if self._more else {}), "model": state})
        pointer.write(Path(output_dir) / FILE, Pointer(self._run.name, step))

    def _load(self, models: list[Any], input_dir: str) -> None:
        for model in models:
            refuse_parts(model)
        if not self._accelerator.is_main_process:
            return
        named = pointer.read(Path(input_dir) / FILE)
        self._run.begin(None if named is None else named.step)
