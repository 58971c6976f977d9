"""Saving in a process of its own, beside the training.

A thread would not do: what Python does in it, it takes from the training loop. The state is
copied into memory that both processes share, and a message tells the other one to save it. One
save is under way at most. That process ends with this one, and not before the save it is at: what
was handed over when the training is killed is still written.

A number in the shared memory says which save is done, so that the training loop need not read an
answer nobody asked for. The memory is written to only once the save before is over, and wherever
Ctrl-C interrupts the training loop, what was handed over is known to be: a message that may have
been said or not is said again, and the other process knows the numbers that it has had.

Not done here: the memory and the line between the two (shared).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from codec import errors
from codec.chain.chain import Chain
from codec.errors import (
    ChainError,
    ChainNotFoundError,
    LccError,
    RecordError,
    SettingsError,
    SkippedRecordWarning,
    WriteError,
)
from codec.scheme.coding import Coding
from codec.scheme.warmup import warm_up
from codec.scheme.workers import set_threads as use_threads
from codec.scheme.workers import threads
from codec.state.tensors import Layout, TensorSpec
from codec.state.tree import Parts
from codec.storage.location import Location

from .channel import Line, Memory, Message
from .recorder import Recorder, Saved, Settings
from .turn import Turn

MOST_UNREAD = 64  # answers: they have to fit into the sockets
NUMBER = b'{"number": '  # what an answer begins with
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")  # sent to whole groups of processes
_START = "import sys; sys.path[:] = {path!r}; from codec.saving.background import serve; serve()"


def _awaited(field: str) -> Any:
    return property(lambda pending: getattr(pending.result(), field))


class PendingSave(Saved):
    """A save that the other process may still be at: all fields but `step` wait for it, as `result`
    does. Raises what that save did."""

    def __init__(self, step: int, number: int, background: Background) -> None:
        self._step, self._number, self._background = step, number, background
        self._answer = b""  # not parsed yet
        self._saved: Saved | None = None
        self._failure: LccError | None = None

    kind = _awaited("kind")
    nbytes = _awaited("nbytes")
    full_nbytes = _awaited("full_nbytes")
    seconds = _awaited("seconds")
    levels = _awaited("levels")
    tables = _awaited("tables")
    non_finite = _awaited("non_finite")
    delta = _awaited("delta")
    stages = _awaited("stages")
    commit = _awaited("commit")
    began = _awaited("began")
    exact_nbytes = _awaited("exact_nbytes")
    lossy_nbytes = _awaited("lossy_nbytes")

    @property
    def step(self) -> int:
        """Known at once."""
        return self._step

    def result(self) -> Saved:
        """What was written, once it is. Raises what that save did, LockedError in a fork."""
        if self._saved is None:
            self._saved = self._background.finish(self)
        return self._saved


class Background:
    """The same as `Recorder`, but elsewhere. skips: steps for which there is no time. turn: taken
    by whoever calls, and here for those who ask a save."""

    tracker = None  # it is in the other process

    def __init__(self, settings: Settings, turn: Turn, *, skips: bool) -> None:
        self.path, self.step = settings.path, None
        told = vars(settings) | {"path": _told(settings.path), "coding": settings.coding.header()}
        self._skips, self._turn = skips, turn
        self._memory: Memory | None = None
        self._layout: Layout | None = None  # of the memory, if the other process knows it
        self._values: tuple[str, ...] | None = None
        self._number = 0  # of the save handed over last
        self._unread: dict[int, PendingSave] = {}  # by number: saves whose answers were not read
        self._pending: tuple[Message, PendingSave, Layout, tuple[str, ...]] | None = None
        self._failure: LccError | None = None
        self._death = ""  # how the other process died, and what that cost
        self._process, self._line = _start(self.path)
        try:
            self._line.tell({"settings": told, "threads": threads()})
            answer = self._heard()
            self._line.drop()
            if "error" in answer:
                raise _rebuilt(answer)
            for text in answer["warnings"]:
                warnings.warn(text, SkippedRecordWarning, stacklevel=3)
            self.step = answer["step"]
        except BaseException:
            self._end()
            raise

    def save(self, step: int, layout: Layout, parts: Parts) -> Saved:
        """Hand a state over. Raises what the save before did."""
        self._hand_over(again=True)
        if self._skips and self._is_busy():
            return Saved(step, "skipped", 0, layout.nbytes, 0.0, lossy_nbytes=layout.lossy_nbytes)
        self._settle()
        if self._line.closed:
            raise WriteError(self._death)
        message: Message = {"step": step, "number": self._number + 1}
        if self._memory is None or (layout is not self._layout and layout != self._layout):
            self._layout = None
            if self._memory is not None:
                self._memory.close()
                self._memory = None
            self._memory = Memory(layout)
            tensors = [list(asdict(t).values()) for t in layout.tensors]
            message["layout"] = [tensors, layout.structure]
        if parts.values != self._values:
            message["values"] = parts.values
        self._memory.fill(parts)
        saving = PendingSave(step, self._number + 1, self)
        self._pending = message, saving, layout, parts.values
        self._hand_over()
        self._raise_failure()
        return saving

    def _hand_over(self, again: bool = False) -> None:
        """Say what is pending. Twice is as good as once, should Ctrl-C interrupt it."""
        if self._pending is None:
            return
        message, saving, self._layout, self._values = self._pending
        self._number, self.step = message["number"], message["step"]
        self._unread[self._number] = saving
        if not self._line.closed:
            self._say(message, again)
        self._pending = None

    def restore(self, step: int) -> dict[Any, Any]:
        """The state of the newest step, see `Checkpointer.restore`; it is read from disk."""
        self._settle()
        while self._unread:
            self._take()
        assert self.step is not None, "a step was saved"
        return Chain(self.path).restore(self.step)

    def close(self) -> None:
        """Wait for what is under way, and end. Raises what that save did."""
        try:
            if not self._line.closed:
                self._settle()
                while self._unread:
                    self._take()
                self._raise_failure()
        finally:
            self._end()

    def _is_busy(self) -> bool:
        n = self._number
        while n in self._unread and self._memory is not None and abs(self._memory.done) != n:
            if not self._line.waits():
                return True
            self._take()  # the next answer may need the room, or there is none: the end
        return False

    def _settle(self) -> None:
        """Wait for the save under way, and raise what went wrong in it, once."""
        self._hand_over(again=True)
        memory, n = self._memory, self._number
        while n in self._unread and (memory is None or memory.done != n):
            self._take()
        if len(self._unread) >= MOST_UNREAD:
            self._put_aside()
        self._raise_failure()

    def _put_aside(self) -> None:
        """Take the answers off the line, to be read when somebody asks."""
        lines = self._line.look_far()
        for line in lines:
            number, _, rest = line.removeprefix(NUMBER).partition(b",")
            if saving := self._unread.get(int(number)):
                saving._answer = rest
                del self._unread[int(number)]
        if lines:
            self._line.drop_all(lines)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def finish(self, saving: PendingSave) -> Saved:
        """Wait for a save, and return what was written. Raises what that save did."""
        return self._turn.run(self._finish, saving)

    def _finish(self, saving: PendingSave) -> Saved:
        self._hand_over(again=True)
        while saving._number in self._unread:
            self._take()
        if saving._failure is not None:
            if self._failure is saving._failure:
                self._failure = None
            raise saving._failure
        return saving._saved or _saved(json.loads(b"{" + saving._answer))

    def _take(self) -> None:
        """Wait for the next answer, and note it; twice is as good as once."""
        try:
            answer = self._heard()
        except WriteError as exc:
            for lost in self._unread.values():
                lost._failure = exc
            self._unread.clear()
            self._failure = exc
            return
        number = int(answer.get("number", 0))
        saving = self._unread.get(number)
        if saving is not None:
            if "error" in answer:
                saving._failure = self._failure = _rebuilt(answer)
                self.step = answer["step"]
            else:
                saving._saved = _saved(answer)
            del self._unread[number]
        self._line.drop()

    def _heard(self) -> Message:
        """The next answer, which stays. Raises WriteError if there will be none."""
        try:
            return self._line.look()
        except (EOFError, OSError) as exc:
            self._end()
            raise self._gone() from exc

    def _say(self, message: Message, again: bool = False) -> None:
        assert self._memory is not None
        descriptors = [self._memory.descriptor] if "layout" in message else []
        try:
            self._line.tell(message, descriptors, again)
        except OSError:
            while self._unread:  # what was answered can still be read, and then the end
                self._take()

    def _gone(self) -> WriteError:
        """The other process has died: how, and which steps were not written. From here `step` is
        the newest on disk."""
        said = [f"{self.path}: the process that saves has ended: {_ending(self._process.wait())}"]
        steps = sorted(saving.step for saving in self._unread.values())
        try:
            written = Chain(self.path).steps
        except ChainNotFoundError:
            written = ()
        except ChainError as exc:
            if steps:
                said.append(f"{_named(steps)} may not have been written: {exc}")
        else:
            self.step = written[-1] if written else None
            if lost := [step for step in steps if step not in written]:
                said.append(f"{_named(lost)} {'was' if len(lost) == 1 else 'were'} not written")
        said.append(
            "nothing is saved any more; close this Checkpointer and make a new one with resume=True"
        )
        self._death = "; ".join(said)
        return WriteError(self._death)

    def _end(self) -> None:
        self._let_go()
        self._process.wait()

    def _let_go(self) -> None:
        """The other process ends once its work is done; in a fork, only this side is closed."""
        if not self._turn.elsewhere:
            self._line.end()
        self._line.close()
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._let_go()


def _told(path: Location) -> list[Any]:
    """For the other process. Raises SettingsError if it would not find the same place."""
    if path.remote is not None and path.remote.protocol == "memory":
        raise SettingsError(f"{path}: is this process's own; asynchronous saving needs another")
    told = path.arguments()
    try:
        if json.loads(json.dumps(told)) == told:
            return told
        reason = "another value comes back"
    except (TypeError, ValueError) as exc:
        reason = f"one is {type(exc).__name__}"
    raise SettingsError(
        f"{path}: asynchronous saving hands storage_options to another process as JSON, which "
        f"cannot hold these: {reason}"
    )


def _start(path: Location) -> tuple[subprocess.Popen[bytes], Line]:
    """The other process and the way to it."""
    if os.name != "posix":
        raise SettingsError("asynchronous saving needs a system with POSIX's sockets")
    # It imports what this one does: nothing from the directory where the training was started
    # ("" is wherever one is), and the standard library's modules before others of their names.
    known = [place for place in sys.path if place and isinstance(place, str)]
    code = _START.format(path=[*known, str(Path(__file__).parents[2])])
    try:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", code, str(theirs.fileno()), str(os.getpid())]
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
            except BaseException:
                ours.close()
                raise
    except OSError as exc:
        raise WriteError(f"{path}: no process for saving can be started: {exc}") from exc
    return process, Line(ours)


def _ending(code: int) -> str:
    """How a process ended, by its exit code; below 0 it is a signal's number."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"it was killed by signal {-code}"


def _named(steps: list[int]) -> str:
    return f"step{'' if len(steps) == 1 else 's'} {', '.join(map(str, steps))}"


def _saved(answer: Message) -> Saved:
    told: Message = answer["saved"]
    return Saved(**told | {key: tuple(told[key]) for key in ("tables", "non_finite")})


def _rebuilt(answer: dict[str, Any]) -> LccError:
    kind = getattr(errors, answer["error"], None)
    if kind is None:
        return WriteError(f"the process that saves failed: {answer['error']}: {answer['text']}")
    error = kind(*answer["record"]) if issubclass(kind, RecordError) else kind(answer["text"])
    error.newest = answer["step"]
    assert isinstance(error, LccError)
    return error


# The other process.


def serve() -> None:
    """Save whatever the process that started this one hands over, until it ends."""
    for name in SIGNALS:  # for the training loop to handle, which may want to save once more
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError), socket.socket(fileno=int(sys.argv[1])) as ours:
        _serve(Line(ours), int(sys.argv[2]))


def _serve(line: Line, parent: int) -> None:
    first = _heard(line, parent)
    use_threads(first["threads"])
    told = first["settings"]
    settings = Settings(
        **told | {"path": Location(*told["path"]), "coding": Coding(**told["coding"])}
    )
    recorder = None
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorder = Recorder(settings)
        texts = [str(w.message) for w in caught if issubclass(w.category, SkippedRecordWarning)]
        line.tell({"step": recorder.step, "warnings": texts})
    except Exception as exc:
        line.tell(_failed(exc, recorder))
        return
    warm_up()  # while the first iteration is computed
    layout, memory, values, last = Layout(()), None, (), 0
    try:
        while True:
            message = _heard(line, parent)
            number = message.get("number", 0)
            if number <= last:  # no message, or said again
                continue
            last = number
            if "layout" in message:
                tensors, structure = message["layout"]
                specs = (TensorSpec(n, d, tuple(shape), *more) for n, d, shape, *more in tensors)
                layout = Layout(tuple(specs), structure)
                *others, descriptor = line.received
                for other in others:
                    os.close(other)
                line.received.clear()
                if memory is not None:
                    memory.close()
                memory = Memory(layout, descriptor)
            assert memory is not None, "the first message has a layout"
            values = tuple(message.get("values", values))
            try:
                saved = recorder.save(message["step"], layout, memory.arrays, values)
                fields = {k: v for k, v in vars(saved).items() if k != "delta"}
                line.tell({"number": number, "saved": fields | {"delta": None}})
                memory.done = number
            except Exception as exc:
                line.tell({"number": number} | _failed(exc, recorder))
                memory.done = -number
    finally:
        recorder.close()


def _heard(line: Line, parent: int) -> Message:
    """The next message. Raises EOFError at the end, even where others still hold the other side:
    a killed training loop leaves its forked data loaders behind for a while."""
    while (message := line.hear(1.0)) is None:
        if os.getppid() != parent:
            raise EOFError
    return message


def _failed(exc: Exception, recorder: Recorder | None) -> dict[str, Any]:
    record = [exc.where, exc.expected, exc.found] if isinstance(exc, RecordError) else []
    step = recorder.step if recorder else None
    return {"error": type(exc).__name__, "text": str(exc), "record": record, "step": step}
