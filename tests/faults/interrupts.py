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

import argparse
import contextlib
import logging
import os
import random
import signal
import sys
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import fsspec
import torch
import torch.distributed.checkpoint as dcp
from common import MEMORY, state_of
from torch.distributed.checkpoint.api import CheckpointException

import codec
from codec import rerun
from codec.dcp import ChainReader, ChainWriter
from codec.errors import LockedError
from codec.rerun import GradientCheckpointer
from codec.storage.remote import Remote

LATER = 5  # saves after an interrupted one, in the rounds with one interrupt
PER_CHAIN = 20  # interrupts of a chain in the rounds with many
CODEC = str(Path(codec.__file__).parent)
SOON, LATER_ON = 1e-6, 2e-5  # seconds: the shortest time of a timer, and longer than a handler's


class InterruptedSaveError(Exception):
    """What a handler raises."""


class Writer(ABC):
    """Saves states into a chain, and notes which steps were reported as saved."""

    def __init__(self, path: Path) -> None:
        self.path: Path | str = path
        self.told: list[int] = []

    def save(self, step: int) -> None:
        """Save a step and wait for it."""
        self._save(step)
        self.told.append(step)

    @abstractmethod
    def _save(self, step: int) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Let others write."""

    @abstractmethod
    def check(self) -> None:
        """Raise unless every step that was told restores, and another writer goes on."""


class InProcess(Writer):
    """Whole states, saved here."""

    asynchronous = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.checkpoints = codec.Checkpointer(path, bits=2, asynchronous=self.asynchronous)

    def _save(self, step: int) -> None:
        self.checkpoints.save(step, state_of(step)).result()

    def close(self) -> None:
        self.checkpoints.close()

    def check(self) -> None:
        report = codec.verify(self.path)
        assert report.ok, report.problems
        assert set(report.steps) >= set(self.told), f"{self.told} told, {report.steps} there"
        for step in self.told:
            restored = codec.restore(self.path, step)
            assert restored["step"] == step
            assert restored["exact"].tobytes() == state_of(step)["exact"].tobytes()
        with codec.Checkpointer(self.path, resume=True) as checkpoints:
            checkpoints.save(10_000, state_of(0))


class InBackground(InProcess):
    """Whole states, saved by another process."""

    asynchronous = True


class InStore(InProcess):
    """Whole states, saved into an object store, which here is this process's memory."""

    def __init__(self, path: Path) -> None:
        self.checkpoints = codec.Checkpointer(f"memory:/{path}", bits=2)
        self.path, self.told = self.checkpoints.path, []

    def check(self) -> None:
        super().check()
        fsspec.filesystem("memory").store.clear()


class Gradients(Writer):
    """Gradients, from which an optimizer's steps are run again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        torch.manual_seed(0)
        self.model = torch.nn.Linear(20, 10)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 0.01)
        self.weights: dict[int, bytes] = {}
        self.checkpoints = GradientCheckpointer(path, self.optimizer)

    def _save(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.model(torch.randn(5, 20)).square().mean().backward()
        self.optimizer.step()
        weights = self.model.weight.detach().numpy().tobytes()
        self.checkpoints.save(step, {"weights": self.model.state_dict()})
        self.weights[step] = weights

    def close(self) -> None:
        self.checkpoints.close()

    def check(self) -> None:
        report = codec.verify(self.path)
        assert report.ok, report.problems
        for step in self.told:
            state = rerun.restore(self.path, self.optimizer, step)
            assert state["weights"]["weight"].numpy().tobytes() == self.weights[step]
        GradientCheckpointer(self.path, self.optimizer, resume=True).close()


class Distributed(Writer):
    """Steps of PyTorch's distributed checkpoints."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writer = ChainWriter(bits=2)

    def _save(self, step: int) -> None:
        state = {"w": torch.from_numpy(state_of(step)["exact"]), "step": step}
        dcp.save(state, storage_writer=self.writer, checkpoint_id=f"{self.path}/step-{step}")

    def close(self) -> None:
        """Nothing is held."""

    def check(self) -> None:
        for step in self.told:
            state: dict[str, Any] = {"w": torch.zeros(50, dtype=torch.float64), "step": -1}
            dcp.load(state, storage_reader=ChainReader(f"{self.path}/step-{step}"))
            assert state["step"] == step
            assert state["w"].numpy().tobytes() == state_of(step)["exact"].tobytes()


# Each with the calls of which one gives a record its name, or makes it durable after that.
WRITERS: dict[type[Writer], list[tuple[Any, str]]] = {
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


def interrupted(writer: Writer, step: int, how: Any, met: Counter[str]) -> None:
    """Save a step while it is interrupted."""
    try:
        with how:
            writer.save(step)
        met["saved all the same"] += 1
    except (*ERRORS, codec.LccError, CheckpointException):
        met["interrupted"] += 1


@cache
def length_of(kind: type[Writer]) -> list[int]:
    """The codec's instructions in each of the first saves of a writer."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        writer, lengths = kind(Path(folder) / "run.lcc"), []
        for step in range(LATER):
            with Interrupt(sys.maxsize, InterruptedSaveError) as whole:
                writer.save(step)
            lengths.append(whole.n)
        writer.close()
        print(f"{kind.__name__}: {lengths} instructions")
        return lengths


def one_chain(
    kind: type[Writer], hows: list[Callable[[], Any]], later: int, met: Counter[str]
) -> None:
    """Interrupt saves of one chain, each followed by later saves; then look."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        writer, step = kind(Path(folder) / "run.lcc"), 0
        try:
            for how in hows:
                writer.save(step)
                interrupted(writer, step + 1, how(), met)
                failed, step = 0, step + step % 2  # the same step again, or the next one
                for _ in range(later):
                    step += 1
                    try:
                        writer.save(step)
                    except (codec.LccError, CheckpointException) as exc:
                        failed += 1
                        met[f"later {type(exc).__name__}"] += 1
                assert failed <= 1, f"{failed} of {later} later saves failed"
                step += 1
            writer.close()
            writer.check()
        except Exception as exc:
            met["LOST"] += 1
            print(f"LOST: {kind.__name__}, {writer.told}: {type(exc).__name__}: {exc}")
            with contextlib.suppress(Exception):
                writer.close()


def main(arguments: list[str] | None = None) -> int:
    """Run all rounds; returns how many of them lost something."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--random", type=int, default=50, help="interrupts at random instructions")
    parser.add_argument("--every", type=int, default=1, help="of so many calls one is interrupted")
    parser.add_argument("--chains", type=int, default=20, help="chains of 20 interrupts each")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    logging.disable()
    warnings.simplefilter("ignore")
    codec.warm_up()
    rng = random.Random(options.seed)
    met: Counter[str] = Counter()
    planned = [(kind, *c, e) for kind, calls in WRITERS.items() for c in calls for e in ERRORS]
    for kind, *call in planned[:: options.every]:
        one_chain(kind, [partial(after, *call)], LATER, met)

    def somewhere(kind: type[Writer]) -> Callable[[], Any]:
        number = rng.randrange(rng.choice(length_of(kind)[1:]))
        error = rng.choice(ERRORS)
        return partial(Interrupt, number, error)

    kinds = [*WRITERS]
    for i in range(options.random):
        kind = kinds[i % len(kinds)]
        one_chain(kind, [somewhere(kind)], LATER, met)
    for i in range(options.chains):
        kind = kinds[i % len(kinds)]
        one_chain(kind, [somewhere(kind) for _ in range(PER_CHAIN)], LATER, met)
    print(", ".join(f"{n} {what}" for what, n in sorted(met.items())), f"{met['LOST']} lost")
    return met["LOST"]


if __name__ == "__main__":
    sys.exit(min(main(), 1))
