"""Saves the gradients of an optimizer's steps as a chain.

Below GRADIENTS, a record holds `optimizer.described` and:

    digest   of parameters and state
    changed  names of parameters and tensors of the state that something other than the steps has
             changed; the record holds these tensors exactly
    steps    each {"gradients": [tensor, ...], "used": {"settings": of each group,
             "factor": of clipping, "short": numbers of gradients to multiply by it,
             "absent": numbers of parameters without a gradient}}

Each record has as many steps as the longest record so far, so that all have one layout. "used" is
None for a step that did not happen. In a base it is also None if the steps before it were not run
on the copy and compared. Missing gradients keep their last value in the chain, which takes no
bytes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from codec.caps import names_of
from codec.chain.chain import Chain
from codec.chain.replay import GRADIENTS, state_nbytes
from codec.errors import DTypeError, SettingsError, StateMismatchError
from codec.record.reason import Reason
from codec.saving.checkpointer import Checkpointer
from codec.saving.history import History
from codec.saving.saved import Saved
from codec.state.tree import Default

from .optimizer import OptimizerCopy, described, digest_of, place_of, tensors_of
from .restore import rerun
from .steps import Step, parameters_of, shortened, unwrapped

BASE_EVERY = 200
MAX_STEPS = 8  # between two saves: with more, a base is about as small
MAX_CHANGED = 0.5  # share of the bytes of parameters and state: above it gradients save little
NOT_LED_TO = "the optimizer's steps, run again, do not lead to"
NEXT_IS_BASE = "the next record is a base"
WHY = "something else changes these, or a later hook changes gradients"

_log = logging.getLogger(__name__)


class GradientCheckpointer(Checkpointer):
    """A `Checkpointer` whose chain restores to the last bit, from the gradients of every step.

    It is attached to the optimizer until it is closed. A save runs the steps since the last save
    again, on a copy of the optimizer. A tensor that then differs from the copy was changed by
    something else (clipped weights, an average that was swapped in). The record stores it exactly,
    and the log says so once. If such tensors take more than half the bytes of parameters and state,
    the record is a base.

    Args:
        path: The directory, made if it is missing, or its URL.
        optimizer: A torch optimizer whose parameters are dense and in this process, or its wrapper
            by Accelerate or Lightning. The copy takes as much memory as parameters and state.
        base_every: Records between two bases, which hold the whole state; None: a base only where
            one is needed. A restore runs the steps since the last base again.
        keep_steps: As for `Checkpointer`.
        resume: As for `Checkpointer`. To continue without a new base, load what `restore` returns
            into model and optimizer. A chain of another version goes on with a base all the same.
        storage_options, default, objects: As for `Checkpointer`.

    Raises:
        SettingsError: A setting is out of range, or the optimizer has no parameters.
        LockedError, StepOrderError, RecordError, ChainError, WriteError: As for `Checkpointer`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        optimizer: torch.optim.Optimizer,
        *,
        base_every: int | None = BASE_EVERY,
        keep_steps: int | None = None,
        resume: bool | str = False,
        storage_options: Mapping[str, Any] | None = None,
        default: Default | None = None,
        objects: Mapping[str, Any] | None = None,
    ) -> None:
        History(base_every, keep_steps)
        optimizer = unwrapped(optimizer)
        if not isinstance(optimizer, torch.optim.Optimizer) or not parameters_of(optimizer):
            raise SettingsError(f"an optimizer of torch is needed; got {optimizer!r}"[:300])
        super().__init__(
            path,
            policy={"*": "exact"},
            restore_work=None,  # this class decides: `_save` passes a reason
            keep_steps=keep_steps,
            resume=resume,
            storage_options=storage_options,
            default=default,
            objects=objects,
        )
        self._optimizer, self._base_every = optimizer, base_every
        self._copy: OptimizerCopy | None = None  # None: the next record is a base
        self._steps: list[Step] = []  # since the newest record
        self._problem = ""
        self._reasons: set[str] = set()  # for bases: each is logged once
        self._n_since_base, self._n_slots, self._long = 0, 0, set[int]()
        try:
            self._hook = optimizer.register_step_pre_hook(self._before_step)
        except BaseException:
            self._recorder.close()
            raise

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> tuple[Any, Any] | None:
        """Note the inputs of a step that begins; with a closure, once it has computed gradients."""
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        arguments = (*args[2:], *(value for key, value in kwargs.items() if key != "closure"))
        if any(argument is not None for argument in arguments):
            self._problem = "step has arguments other than a closure"
        elif closure is not None:
            return args[:1], {"closure": self._noting_closure(optimizer, closure)}
        else:
            self._note(optimizer)
        return None

    def _noting_closure(self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any]) -> Any:
        """The closure, which notes the step after its first call, and a problem after others."""
        n_calls = 0

        def noting() -> Any:
            nonlocal n_calls
            n_calls += 1
            loss = closure()
            if n_calls == 1:
                self._note(optimizer)
            else:
                self._problem = "a step calls its closure several times"
            return loss

        return noting

    def _note(self, optimizer: torch.optim.Optimizer) -> None:
        """Note the inputs of a step."""
        if getattr(optimizer, "grad_scale", None) is not None:
            self._problem = "the GradScaler leaves unscaling to the fused optimizer; call unscale_"
        elif any(p.grad is not None and p.grad.is_sparse for p in parameters_of(optimizer)):
            self._problem = "gradients are sparse"
        elif self._copy is None:  # the next record is a base, and later ones build on its gradients
            self._steps = [Step.next_of(optimizer)]
        elif len(self._steps) == MAX_STEPS:
            self._say(
                NEXT_IS_BASE, f"more than {MAX_STEPS} optimizer steps came after the newest record"
            )
            self._copy = None
        else:
            self._steps.append(Step.next_of(optimizer))

    def _say(self, effect: str, reason: str) -> None:
        """Log what makes records larger, once for each reason."""
        if reason not in self._reasons:
            self._reasons.add(reason)
            _log.warning("%s: %s, because %s", self._location, effect, reason)

    def _save(self, step: int, state: Mapping[Any, Any]) -> Saved:
        self._check_open()
        if self._problem:
            raise DTypeError(f"{self.path}: the steps cannot be run again: {self._problem}")
        if not isinstance(state, Mapping) or GRADIENTS in state:
            raise StateMismatchError(f"a state is a mapping without the key {GRADIENTS!r}")
        # Until the save has ended well, the next record is a base: a save that is interrupted may
        # have run some of the steps, and written the record or not.
        copy, self._copy = self._copy, None
        changed: Mapping[str, Tensor] = {}
        if copy is not None:
            copy, changed = self._run_again(copy)
        elif not self._steps and self._n_slots == 0:  # made after the first step
            self._find_long_gradients()
        is_due = self._base_every is not None and self._n_since_base >= self._base_every
        reason = Reason.MANY_DELTAS if is_due else None if copy else Reason.GRADIENTS
        record = {"digest": digest_of(self._optimizer), **described(self._optimizer)}
        record["changed"] = list(changed)
        record["steps"], unchanged = self._stored_steps(were_run=copy is not None)
        tensors = (name for name in tensors_of(self._optimizer) if name not in changed)
        unchanged += [f"{GRADIENTS}/{place_of(name)}" for name in tensors]
        whole = {**state, GRADIENTS: record}
        saved = self._append(step, whole, reason=reason, unchanged=unchanged)
        saved = replace(saved, full_nbytes=state_nbytes(self._front.layout))
        if copy is not None:
            copy.overwrite(changed)
        self._n_slots = len(record["steps"])
        self._n_since_base = 0 if saved.kind == "base" else self._n_since_base + 1
        self._steps.clear()
        self._copy = copy or OptimizerCopy(self._optimizer)
        return saved

    def _run_again(self, copy: OptimizerCopy) -> tuple[OptimizerCopy | None, dict[str, Tensor]]:
        """Run the steps on the copy.

        Returns:
            The copy, None if the next record must be a base; the optimizer's tensors that differ.
        """
        if not copy.fits(self._optimizer):
            self._say(NEXT_IS_BASE, "the optimizer's groups have other parameters")
            return None, {}
        for step in self._steps:
            copy.step(step.gradients, step.settings)
        changed = copy.differing(self._optimizer)
        if changed is None:
            reason = "its steps, run again, lead to other tensors than the optimizer's"
        elif _nbytes(changed) > MAX_CHANGED * _nbytes(tensors_of(self._optimizer)):
            reason = f"{NOT_LED_TO} most of its parameters and state: {WHY}"
        else:
            if changed:
                self._say(
                    f"the record holds {names_of(changed)} beside the gradients",
                    f"{NOT_LED_TO} them: {WHY}",
                )
            return copy, changed
        self._say(NEXT_IS_BASE, reason)
        return None, {}

    def _find_long_gradients(self) -> None:
        """Note which gradients do not fit bfloat16, from the gradients of the last step."""
        gradients = [p.grad for p in parameters_of(self._optimizer)]
        dense = [None if g is None or g.is_sparse else g.detach() for g in gradients]
        for i, g in enumerate(shortened(dense, self._long)[0]):
            if g is not None and g.dtype is torch.float32:
                self._long.add(i)

    def _stored_steps(self, were_run: bool) -> tuple[list[dict[str, Any]], list[str]]:
        """The steps as a record holds them, and names of gradients that keep their last value.

        were_run: on the copy; else a restore does not run them.
        """
        parameters = parameters_of(self._optimizer)
        stored, unchanged = [], []
        for number in range(max(self._n_slots, len(self._steps), 1)):
            place = f"{GRADIENTS}/steps/{number}/gradients"
            used: dict[str, Any] | None = None
            step_gradients: tuple[Tensor | None, ...] = (None,) * len(parameters)
            if number < len(self._steps):
                step = self._steps[number]
                step_gradients, factor, short = shortened(step.gradients, self._long)
                absent = [i for i, g in enumerate(step_gradients) if g is None]
                if were_run:
                    used = {"settings": list(step.settings), "factor": factor}
                    used |= {"short": short, "absent": absent}
            gradients = []
            for i, (p, g) in enumerate(zip(parameters, step_gradients)):
                if g is None:
                    unchanged.append(f"{place}/{i}")
                    g = torch.zeros_like(p, dtype=self._dtype_of(i, p))
                elif g.dtype is torch.float32:
                    self._long.add(i)
                gradients.append(g)
            stored.append({"gradients": gradients, "used": used})
        return stored, unchanged

    def _dtype_of(self, i: int, parameter: Tensor) -> torch.dtype:
        """The dtype of the zeros stored for a missing gradient."""
        short = parameter.dtype is torch.float32 and i not in self._long
        return torch.bfloat16 if short else parameter.dtype

    def _restore(self) -> dict[Any, Any] | None:
        if self.step is None:
            return None
        newest = rerun(Chain(self._location), self._optimizer, self.step)
        self._copy, self._n_since_base, self._n_slots = newest.copy, newest.n, len(newest.steps)
        self._steps.clear()
        return newest.state

    def _close(self) -> None:
        self._hook.remove()
        self._copy = None
        self._steps.clear()
        super()._close()


def _nbytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())
