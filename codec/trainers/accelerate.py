"""A record in a chain for each Accelerator.save_state.

    with ChainHook(accelerator, "run.lcc", whole=True):
        ...                                        # your loop, with accelerator.save_state(folder)
    codec.restore("run.lcc")["model"]

If whole, models and optimizers are in the chain alone, and load_state takes them from there.

Each save_state adds a record to the chain and a small file, lcc.json, to the folder; the file names
the record. load_state reads the file, and the chain goes back to that step if it is further
(rewinding). Record and file hold the same token, which is new after each load: a step of the chain
and a folder of the same number may come from two trainings. The rest of the folder is Accelerate's.
Only the main process saves. FSDP, DeepSpeed and Megatron-LM need codec.dcp.
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
from codec.state.objects import bare, refuse_parts, sharded, state_of

from . import pointer
from .pointer import TOKEN, Pointer
from .run import ChainRun

try:
    import accelerate
except ImportError as exc:
    raise ImportError(
        "codec.trainers.accelerate needs accelerate, which is not installed: pip install accelerate"
    ) from exc

FILE = "lcc.json"
SHARDED = {"FSDP", "DEEPSPEED", "MEGATRON_LM"}


class ChainHook:
    """Saves a record with each save_state of an Accelerator.

    A record is {"model": …} of the prepared model, with a token (see `codec.trainers.pointer`), if
    whole also {"optimizer": …}. Several are there by number, "0" for the first.

    load_state of a folder without lcc.json goes on after the newest step. A folder whose step is
    not in this chain, for example one of another training, begins a new chain if there is none.
    Otherwise it is refused, or with resume goes on after the newest step.

    Args:
        accelerator: An `accelerate.Accelerator`.
        path: The chain's directory.
        step: Returns the number of the step, which must rise; None counts from 0.
        more: Returns what a record holds besides; it is stored exactly.
        whole: Save the prepared optimizers too, and let Accelerate write no files of models and
            optimizers. The weights and the optimizers' moments then load as the track;
            policy={"optimizer/*": "exact"} stores the moments exactly.
        resume: Whether a loop that has loaded no state may go on after the newest step of an
            existing chain.
        settings: bits, policy and so on of a `Checkpointer`.

    Raises:
        SettingsError, TypeError: Wrong settings.
        ShardedError: The model is spread over processes.
        StepOrderError, LockedError: From save_state, and what `Checkpointer` raises.
        StepNotFoundError: From load_state, before anything is loaded: the folder is refused. Also
            what `codec.restore` and `Checkpointer` raise.
    """

    def __init__(
        self,
        accelerator: accelerate.Accelerator,
        path: str | os.PathLike[str],
        *,
        step: Callable[[], int] | None = None,
        more: Callable[[], Mapping[str, Any]] | None = None,
        whole: bool = False,
        resume: bool = False,
        **settings: Any,
    ) -> None:
        if accelerator.distributed_type.name in SHARDED:
            raise sharded(f"the accelerator's type is {accelerator.distributed_type.name}")
        self._run, self._resume = ChainRun(path, resume, settings), resume
        self._token, self._after = secrets.token_hex(16), ""
        self._has_loaded = False  # a folder of this chain was loaded, and nothing saved since then
        self._accelerator, self._step, self._more = accelerator, step, more
        self._whole = whole
        self._hooks = (
            accelerator.register_save_state_pre_hook(self._save),
            accelerator.register_load_state_pre_hook(self._load),
        )

    def close(self) -> None:
        """Wait for the save under way, release the chain, and add no more records."""
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
        """Save a record, before Accelerate writes: if this fails, there is no checkpoint either."""
        if self._whole:
            weights.clear()
            self._hide_optimizers()
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
        record = dict(self._more()) if self._more else {}
        record |= {"model": _numbered([state_of(model) for model in models]), TOKEN: self._token}
        if self._whole:
            optimizers = self._accelerator._optimizers
            record["optimizer"] = _numbered([each.state_dict() for each in optimizers])
        self._run.save(step, record)
        new_pointer = Pointer(self._run.name, step, self._token + self._after)
        pointer.write(Path(output_dir) / FILE, new_pointer)

    def _put_aside(self, step: int) -> None:
        """Set aside the newest record if the training reaches its step again: the loaded folder
        names it but holds older files, because Accelerate was killed while overwriting them."""
        newest = self._run.step
        if not self._has_loaded or newest is None or step > newest:
            return
        earlier = [s for s in self._run.steps() if s < newest]
        if not earlier:
            self._run.begin(0)
        elif step > earlier[-1]:
            self._run.begin(earlier[-1], resumed=True)

    def _load(self, models: list[Any], input_dir: str) -> None:
        """Go to the folder's step, before Accelerate reads: if this fails, nothing is loaded."""
        for model in models:
            refuse_parts(model)
        place = Path(input_dir) / FILE
        loaded = pointer.read(place)
        if self._accelerator.is_main_process:
            self._go_to(loaded, place)
        if self._whole and loaded is not None:
            self._load_whole(models, loaded, place)

    def _go_to(self, loaded: Pointer | None, place: Path) -> None:
        """Let the chain go back to the step that a folder names. place: of the file."""
        self._run.abandon()  # wait for the save under way
        steps = self._run.steps()
        self._token, self._after, self._has_loaded = secrets.token_hex(16), "", False
        if loaded is None:
            self._run.begin(None)
        elif not steps:
            self._run.begin(0)
        elif record := self._record_of(loaded, steps):
            self._run.begin(loaded.step, resumed=True)
            self._after, self._has_loaded = f" {record}", True
        elif self._resume:
            self._run.begin(None)
        else:
            raise _not_there(place, loaded, self._run.where, "another state")

    def _load_whole(self, models: list[Any], loaded: Pointer, place: Path) -> None:
        """Load models and optimizers from the record that a folder names; Accelerate then does not.

        Raises StepNotFoundError if the chain has another record there, and what `codec.restore`
        raises.
        """
        state, optimizers = self._run.restore(loaded.step), self._accelerator._optimizers
        if state.get(TOKEN) != loaded.token.partition(" ")[0] or "optimizer" not in state:
            raise _not_there(place, loaded, self._run.where, "no whole state of this folder")
        for model, own in zip(models, _listed(state["model"], len(models)), strict=True):
            bare(model).load_state_dict(own)
        for each, own in zip(optimizers, _listed(state["optimizer"], len(optimizers)), strict=True):
            each.load_state_dict(own)
        models.clear()
        self._hide_optimizers()

    def _hide_optimizers(self) -> None:
        """Let Accelerate save or load no optimizer: it goes through this very list next."""
        hidden = self._accelerator._optimizers
        self._accelerator._optimizers = list(hidden)
        hidden.clear()

    def _record_of(self, loaded: Pointer, steps: tuple[int, ...]) -> str | None:
        """The step and token of the record that a folder was saved with; None if it is missing.

        If the record was skipped, or lost with the saving process, the record before it counts: it
        must have the same token, or be the one that the training went on from, which the folder
        names after its token. Raises what `codec.restore` does if no record restores.
        """
        folder_token, _, start = loaded.token.partition(" ")
        failed: LccError | None = None
        for step in reversed([step for step in steps if step <= loaded.step]):
            try:
                token = self._run.restore(step).get(TOKEN, "")
            except (RecordError, ParentError) as exc:
                failed = failed or exc  # damaged at the end: set aside when the chain is opened
                continue
            record = f"{step} {token}"
            return record if token == folder_token or record == start else None
        if failed is not None:
            raise failed
        return None


def _numbered(states: list[Any]) -> Any:
    """The only state; several by number."""
    return states[0] if len(states) == 1 else {str(i): state for i, state in enumerate(states)}


def _listed(state: Any, n: int) -> list[Any]:
    """The n states that `_numbered` was given."""
    return [state] if n == 1 else [state[str(i)] for i in range(n)]


def _not_there(place: Path, loaded: Pointer, where: str, what: str) -> StepNotFoundError:
    return StepNotFoundError(
        f"{place}: names step {loaded.step} of {loaded.chain}, but the chain in {where} has {what} "
        "there; give ChainHook the directory it was saved in, a new one for a new chain, or "
        "resume=True to go on after the newest step"
    )
