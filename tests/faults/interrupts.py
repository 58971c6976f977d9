"""Interrupt saves with an exception from a signal handler, at random instructions.

    PYTHONPATH=. python tests/faults/interrupts.py --random 1000 --chains 200

A writer saves whole states, in this process or through another one, on disk or into an object
store; or gradients; or the steps of PyTorch's distributed checkpoints. One save is interrupted: at
a random instruction of the codec a timer is set to the shortest time there is, and the handler of
its signal raises. Or the handler raises right after the call that gives the record its name. Five
more saves with the same writer follow, of which at least four must succeed. In the end every step
that was reported as saved must restore to the last bit, and no lock may stay held. Some chains are
interrupted many times.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from itertools import cycle, islice
from pathlib import Path
from types import FrameType
from typing import Any

from common import attempt, in_words, new_path, options_of
from savers import Distributed, Gradients, InBackground, InProcess, InStore, Saver
from torch.distributed.checkpoint.api import CheckpointException

import codec
from codec.errors import LockedError
from codec.storage.remote import Remote

LATER = 5  # saves after an interrupted one, in the rounds with one interrupt
PER_CHAIN = 20  # interrupts of a chain in the rounds with many
CODEC = str(Path(codec.__file__).parent)
SOON, LATER_ON = 1e-6, 2e-5  # seconds: the shortest time of a timer, and longer than a handler's


class InterruptedSaveError(Exception):
    """What a handler raises."""


# Each with the calls of which one gives a record its name, or makes it durable after that.
SAVERS: dict[type[Saver], list[tuple[Any, str]]] = {
    InProcess: [(os, "link"), (os, "fsync")],
    InBackground: [(os, "link"), (os, "fsync")],
    InStore: [(Remote, "create"), (Remote, "nbytes")],
    Gradients: [(os, "link"), (os, "fsync")],
    Distributed: [(os, "rename"), (os, "fsync")],
}


class Interrupt:
    """Interrupts a call at about the instruction ``number`` of the codec, counted from 0.

    Attributes:
        n: How many instructions there were, until the interrupt.
    """

    def __init__(self, number: int, error: type[BaseException]) -> None:
        self._number, self._error = number, error
        self.n = 0

    def __enter__(self) -> Interrupt:
        signal.signal(signal.SIGALRM, self._handle)
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Trace functions of the codec."""
        if not frame.f_code.co_filename.startswith(CODEC):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._executed

    def _executed(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Count an instruction."""
        if event == "opcode":
            self.n += 1
            if self.n > self._number:
                sys.settrace(None)
                signal.setitimer(signal.ITIMER_REAL, SOON)
                return None
        return self._executed

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Raise; but not in the tracing, which no training has."""
        if frame is not None and frame.f_code.co_filename == __file__:
            signal.setitimer(signal.ITIMER_REAL, LATER_ON)
        else:
            raise self._error("interrupted")


@contextlib.contextmanager
def after(owner: Any, call: str, error: type[BaseException]) -> Any:
    """The handler raises right after the first call of this name."""
    real: Callable[..., Any] = getattr(owner, call)

    def interrupted(*args: Any, **kwargs: Any) -> None:
        setattr(owner, call, real)
        real(*args, **kwargs)
        raise error("interrupted")

    setattr(owner, call, interrupted)
    try:
        yield
    finally:
        setattr(owner, call, real)


ERRORS = (InterruptedSaveError, KeyboardInterrupt, LockedError)


def interrupted(saver: Saver, step: int, how: Any, met: Counter[str]) -> None:
    """Save a step while it is interrupted."""
    try:
        with how:
            saver.save(step)
        met["saved all the same"] += 1
    except (*ERRORS, codec.LccError, CheckpointException):
        met["interrupted"] += 1


@cache
def length_of(kind: type[Saver]) -> list[int]:
    """The codec's instructions in each of the first saves."""
    with new_path() as path:
        saver, lengths = kind(path), []
        for step in range(LATER):
            with Interrupt(sys.maxsize, InterruptedSaveError) as whole:
                saver.save(step)
            lengths.append(whole.n)
        saver.close()
        print(f"{kind.__name__}: {lengths} instructions")
        return lengths


def one_chain(
    kind: type[Saver], hows: list[Callable[[], Any]], later: int, met: Counter[str]
) -> None:
    """Interrupt saves of one chain, each followed by later saves; then look."""
    with new_path() as path:
        saver, step = kind(path), 0
        with attempt(met, kind.__name__, saver.told):
            for how in hows:
                saver.save(step)
                interrupted(saver, step + 1, how(), met)
                failed, step = 0, step + step % 2  # the same step again, or the next one
                for _ in range(later):
                    step += 1
                    try:
                        saver.save(step)
                    except (codec.LccError, CheckpointException) as exc:
                        failed += 1
                        met[f"later {type(exc).__name__}"] += 1
                assert failed <= 1, f"{failed} of {later} later saves failed"
                step += 1
            saver.close()
            saver.check()
        with contextlib.suppress(Exception):  # where it has not come so far
            saver.close()


def main(arguments: list[str] | None = None) -> int:
    """Run all rounds; returns how many of them lost something."""
    options = options_of(
        __doc__,
        arguments,
        random=(50, "interrupts at random instructions"),
        every=(1, "interrupt only every Nth call"),
        chains=(20, "chains of 20 interrupts each"),
        seed=(0, "of the instructions"),
    )
    logging.disable()
    warnings.simplefilter("ignore")
    codec.warm_up()
    rng = random.Random(options.seed)
    met: Counter[str] = Counter()
    planned = [(kind, *c, e) for kind, calls in SAVERS.items() for c in calls for e in ERRORS]
    for kind, *call in planned[:: options.every]:
        one_chain(kind, [partial(after, *call)], LATER, met)

    def somewhere(kind: type[Saver]) -> Callable[[], Any]:
        number = rng.randrange(rng.choice(length_of(kind)[1:]))
        error = rng.choice(ERRORS)
        return partial(Interrupt, number, error)

    for rounds, n in ((options.random, 1), (options.chains, PER_CHAIN)):
        for kind in islice(cycle(SAVERS), rounds):
            one_chain(kind, [somewhere(kind) for _ in range(n)], LATER, met)
    print(in_words(met))
    return met["WRONG"]


if __name__ == "__main__":
    sys.exit(min(main(), 1))
