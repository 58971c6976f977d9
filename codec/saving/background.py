"""Saving in another process, next to the training.

A thread would not do: the training loop would wait for all Python code in it. The state is copied
into memory that both processes share, and a message asks the other process to save it. Only one
save is under way at a time. The other process ends with this one, but finishes its save first: what
was handed over when the training is killed is still written. It gives way to the training while it
saves a large state (`process.LARGE`).

A thread of this process talks to the other one, as Ctrl-C may interrupt the training loop anywhere.

Not done here: the other process (process), the memory (memory).
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast

from codec.chain.chain import Chain
from codec.chain.upkeep import Change
from codec.errors import ChainError, ChainNotFoundError, LccError, SkippedRecordWarning, WriteError
from codec.state.tensors import Layout
from codec.state.tree import Parts

from .call_lock import CallLock
from .memory import Memory
from .process import Answer, Message, Opened, describe_exit, start
from .recorder import Settings
from .saved import PendingSave, Saved

T = TypeVar("T")


class _Outcome(Generic[T]):
    """A value that one thread sets and another waits for. Ctrl-C may interrupt the wait anywhere.

    Not an Event or a Future: both use `threading.Condition`, which is mostly Python, so Ctrl-C
    could leave it locked or release it twice.
    """

    def __init__(self) -> None:
        self.value: T | None = None
        self.is_set = False
        self._until_set = threading.Lock()
        self._until_set.acquire()

    def set(self, value: T) -> None:
        """Set it, unless it is set."""
        if not self.is_set:
            self.value, self.is_set = value, True
            self._until_set.release()

    def wait(self) -> T:
        """The value, once it is set. Only one thread may wait at a time."""
        if not self.is_set:
            self._until_set.acquire()  # it stays locked: from now on is_set is true
        return cast("T", self.value)


@dataclass(eq=False)
class _Request:
    """A message, and for a state what is handed over.

    memory, values: of the state. sent: whether the other process has the message. was_told: whether
    somebody has got the error, if there is one.
    """

    message: Message
    memory: Memory | None = None
    values: tuple[str, ...] = ()
    sent: _Outcome[None] = field(default_factory=_Outcome)
    answer: _Outcome[Answer | Exception] = field(default_factory=_Outcome)
    was_told: bool = False


class Background:
    """A `Recorder` in another process.

    Args:
        settings: Of the recorder.
        lock: The caller of each method has acquired it; a `PendingSave` acquires it to wait.
        skips: Whether to skip a step while the previous save is under way.
    """

    tracker = None  # the other process has it
    step: int | None

    def __init__(self, settings: Settings, lock: CallLock, *, skips: bool) -> None:
        self.path, self.step = settings.path, None
        self._skips, self._lock = skips, lock
        self._memory: Memory | None = None
        self._newest: _Request | None = None
        self._death = ""  # how the other process died, and what that cost
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._process, connection = start(settings)
        threading.Thread(target=_talk, args=(connection, self._requests), daemon=True).start()
        try:
            opened = connection.recv()
        except (EOFError, OSError):
            opened = self._died()
        except BaseException:
            self._end()
            raise
        if not isinstance(opened, Opened):
            self._end()
            raise opened
        self.step, self.settings, self.differences, texts = opened
        for text in texts:
            warnings.warn(text, SkippedRecordWarning, stacklevel=3)

    def save(self, step: int, layout: Layout, parts: Parts) -> Saved:
        """Hand a state over. Raises the error of the previous save."""
        last = self._newest
        if self._skips and last and not last.answer.is_set:
            self._send(last)
            return Saved(step, "skipped", 0, layout.nbytes, 0.0, lossy_nbytes=layout.lossy_nbytes)
        self._settle()
        if self._death:
            raise WriteError(self._death)
        memory = self._memory
        if memory is None or (layout is not memory.layout and layout != memory.layout):
            self._release_memory()
            memory = self._memory = Memory(layout)
        memory.fill(parts)
        new_layout = None if last and last.memory is memory else layout
        new_values = None if last and last.values == parts.values else parts.values
        request = _Request(Message(step, new_layout, new_values), memory, parts.values)
        self._newest, self.step = request, step  # from here on, it is saved
        if last is not None:  # its `PendingSave` may be kept
            last.message, last.values = Message(last.message.step, None, None), ()
        self._send(request)
        request.sent.wait()
        # If the other process has ended, say so at once.
        if isinstance(request.answer.value, Exception):
            self._settle()
        return PendingSave(step, partial(self._lock.run, self._result, request))

    def restore(self, step: int) -> dict[Any, Any]:
        """The state of the newest step, see `Checkpointer.restore`; it is read from disk."""
        self._settle()
        assert self.step is not None, "a step was saved"
        return Chain(self.path).restore(self.step, dithers=True)

    def compact(self, keep_steps: int) -> Change:
        """Let the other process compact the chain, and wait. Raises its error."""
        self._settle()
        if self._death:
            raise WriteError(self._death)
        change = self._answer(_Request(Message(0, None, None, keep_steps)))
        assert isinstance(change, Change), "as asked for"
        return change

    def close(self) -> None:
        """Wait for the save under way, and end. Raises its error."""
        try:
            self._settle()
        finally:
            self._end()

    def _send(self, request: _Request) -> None:
        """Let the thread send a request. Ctrl-C may interrupt this; sending twice does no harm."""
        if not request.sent.is_set:
            self._requests.put(request)

    def _settle(self) -> None:
        """Wait for the save under way. Raises its error, unless somebody was told."""
        if self._newest is not None and not self._newest.was_told:
            self._result(self._newest)

    def _result(self, request: _Request) -> Saved:
        """Wait for a save, and return what was written. Raises its error."""
        saved = self._answer(request)
        assert isinstance(saved, Saved), "the answer to a state"
        return saved

    def _answer(self, request: _Request) -> Saved | Change:
        """Wait for an answer, and return what was done. Raises its error."""
        self._send(request)
        answer = request.answer.wait()
        if isinstance(answer, Exception):
            answer = Answer(self._died(answer), self.step)
        result, newest = answer
        if not isinstance(result, LccError):
            return result
        if request is self._newest:
            self.step = newest
        request.was_told = True
        raise result

    def _died(self, cause: Exception | None = None) -> WriteError:
        """The error that says how the other process ended and what is lost.

        Records on disk decide: a save may have ended without an answer. cause: why the connection
        failed, if that is known.
        """
        if not self._death:
            ending = describe_exit(self._process.wait())
            reasons = [f"{self.path}: the process that saves has ended: {ending}"]
            step = self._newest.message.step if self._newest else None
            try:
                written = Chain(self.path).steps
            except ChainNotFoundError:
                written = ()
            except ChainError as exc:
                if step is not None:
                    reasons.append(f"step {step} may not have been written: {exc}")
                written = None
            if written is not None:
                self.step = written[-1] if written else None
                if step is not None and step not in written:
                    reasons.append(f"step {step} was not written")
            reasons.append(
                "nothing is saved any more; close this Checkpointer and make a new one with "
                "resume=True"
            )
            self._death = "; ".join(reasons)
        error = WriteError(self._death)
        error.__cause__ = cause
        return error

    def _end(self) -> None:
        self._requests.put(None)
        self._process.wait()
        self._release_memory()

    def _release_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._requests.put(None)
            self._release_memory()


def _talk(connection: Connection, requests: SimpleQueue[_Request | None]) -> None:
    """Send each request, and note its answer, until there is None."""
    with connection:
        while (request := requests.get()) is not None:
            if request.sent.is_set:  # it is there twice
                continue
            try:
                connection.send(request.message)
                if request.message.layout is not None:
                    assert request.memory is not None, "it has that layout"
                    send_handle(connection, request.memory.descriptor, None)
                request.sent.set(None)
                request.answer.set(connection.recv())
            except Exception as exc:
                request.answer.set(exc)
                request.sent.set(None)
                break  # a part of the message may be sent: the other process has to end
        with contextlib.suppress(OSError):
            connection.send(None)
