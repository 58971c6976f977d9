"""A chain beside what Accelerator.save_state writes.

    with ChainHook(accelerator, "run.lcc", bits=2):
        ...                                        # your loop, with accelerator.save_state(folder)
    codec.restore("run.lcc")["model"]

Each save_state adds a record and a small file, lcc.json, which names it in the folder. load_state
reads that file, and the chain goes back to its step if it was further (rewinding). Record and file
hold the same token, drawn anew at every load: what leads to a step in the chain and what led to a
folder of the same number may be two trainings. All else is Accelerate's own. Only the main process
saves.

Not done here: FSDP, DeepSpeed and Megatron-LM (codec.dcp).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from codec.errors import LccError, ParentError, RecordError, StepNotFoundError
from codec.saving.recorder import check_step

from . import pointer
from .models import refuse_parts, sharded, state_of
from .pointer import TOKEN, Pointer
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
    number, "0" for the first. Beside it stands a token, see `codec.trainers.pointer`.

    A folder whose step is not in this chain, such as that of another training to be tuned, begins
    a new chain where none is, with resume is gone on with after the newest step, and else is
    refused. One without a file is gone on with after the newest step.

    Raises SettingsError and TypeError for settings, ShardedError. In save_state: StepOrderError,
    LockedError and what `Checkpointer` does. In load_state: StepNotFoundError for a folder that is
    refused, before anything of it is loaded; what `codec.restore` and `Checkpointer` do.
    """

    def __init__(
        self,
        accelerator: accelerate.Accelerator,
        path: str | os.PathLike[str],
        *,
        step: Callable[[], int] | None = None,
        more: Callable[[], Mapping[str, Any]] | None = None,
        resume: bool = False,
        **settings: Any,
    ) -> None:
        if accelerator.distributed_type.name in SHARDED:
            raise sharded(f"the accelerator's type is {accelerator.distributed_type.name}")
        self._run, self._resume = Run(path, resume, settings), resume
        self._token, self._after = secrets.token_hex(16), ""
        self._has_loaded = False  # a folder of this chain, and saved nothing since
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
        step = 0 if newest is None else newest + 1
        if self._step is not None:
            step = check_step(int(self._step()), None)
            self._put_aside(step)
            check_step(step, self._run.step)
        self._has_loaded = False
        states = [state_of(model) for model in models]
        state = states[0] if len(states) == 1 else {str(i): s for i, s in enumerate(states)}
        more = self._more() if self._more else {}
        self._run.save(step, {**more, "model": state, TOKEN: self._token})
        named = Pointer(self._run.name, step, self._token + self._after)
        pointer.write(Path(output_dir) / FILE, named)

    def _put_aside(self, step: int) -> None:
        """The newest record, if the folder that was loaded names it and has the files of the save
        before: killed while it wrote over them, Accelerate comes to this step once more."""
        newest = self._run.step
        if not self._has_loaded or newest is None or step > newest:
            return
        before = [s for s in self._run.steps() if s < newest]
        if not before:
            self._run.begin(0)
        elif step > before[-1]:
            self._run.begin(before[-1], resumed=True)

    def _load(self, models: list[Any], input_dir: str) -> None:
        """Before Accelerate reads: where this fails, nothing is loaded."""
        for model in models:
            refuse_parts(model)
        if not self._accelerator.is_main_process:
            return
        place = Path(input_dir) / FILE
        named = pointer.read(place)
        self._run.abandon()  # what is being saved has to be there
        steps = self._run.steps()
        self._token, self._after, self._has_loaded = secrets.token_hex(16), "", False
        if named is None:
            self._run.begin(None)
        elif not steps:
            self._run.begin(0)
        elif found := self._found(named, steps):
            self._run.begin(named.step, resumed=True)
            self._after, self._has_loaded = f" {found}", True
        elif self._resume:
            self._run.begin(None)
        else:
            raise StepNotFoundError(
                f"{place}: names step {named.step} of a {named.chain}, which is not what the chain "
                f"in {self._run.where} has there; give ChainHook the directory it was saved in, "
                "another one for a new chain, or resume=True to go on after the newest step"
            )

    def _found(self, named: Pointer, steps: tuple[int, ...]) -> str | None:
        """The step of the chain and its token, if it is the one that the folder was saved with.

        That step may be missing, skipped or lost with the process that was to write it. Then the
        one before it has the same token, since the steps of one token rise; or it is where that
        training began, which the folder tells after its own token.
        Raises what `codec.restore` does if none of them restores.
        """
        own, _, began = named.token.partition(" ")
        failed: LccError | None = None
        for step in reversed([step for step in steps if step <= named.step]):
            try:
                token = self._run.restore(step).get(TOKEN, "")
            except (RecordError, ParentError) as exc:
                failed = failed or exc  # damaged at the end: set aside where the chain is opened
                continue
            # Without one both are of an earlier version: their names are all that can be known.
            same = token == own and (token or named.chain == self._run.name)
            return f"{step} {token}" if same or began == f"{step} {token}" else None
        if failed is not None:
            raise failed
        return None
