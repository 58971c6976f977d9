"""Saving in a process of its own, beside the training.

A thread would not do: what Python does in it, it takes from the training loop. The state is
copied into memory that both processes share, and a message tells the other one to save it. One
save is under way at most. That process ends with this one, and not before the save it is at: what
was handed over when the training is killed is still written.

Messages are lines of JSON over a pair of sockets: nothing is pickled. A number in the shared
memory says which save is done, so that the training loop need not read an answer nobody asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import warnings
from collections import deque
from dataclasses import asdict
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import errors, kernels
from .chain import Chain
from .errors import LccError, RecordError, SettingsError, SkippedRecordWarning, WriteError
from .recorder import Recorder, Saved, Settings
from .state import Arrays, Layout, Stage, TensorSpec, is_plain
from .tree import Parts
from .warmup import warm_up
from .workers import set_threads as use_threads
from .workers import threads

START_SECONDS = 120.0  # kernels may have to be compiled
ALIGNMENT = 64  # bytes: of every array in the shared memory
MOST_UNREAD = 64  # answers: they have to fit into the sockets
_START = "import sys; sys.path[:0] = {path!r}; from codec.background import serve; serve()"


class _Saving(Saved):
    """A save under way: its fields are there once it is done, and whoever asks waits."""

    def __init__(self, step: int, background: Background) -> None:
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "_background", background)

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        if name in Saved.__dataclass_fields__ and name not in own:
            own["_background"]._finish(self)
        return object.__getattribute__(self, name)


class Background:
    """The same as `Recorder`, but elsewhere. skips: steps for which there is no time."""

    tracker = None  # it is in the other process

    def __init__(self, settings: Settings, *, skips: bool) -> None:
        self.path, self.step = settings.path, None
        self._skips, self._memory = skips, _Memory()
        self._layout: Layout | None = None
        self._values: tuple[str, ...] | None = None
        self._number = 0  # of the save handed over last
        self._under_way = False
        self._unread: deque[_Saving] = deque()  # saves whose answers nobody has looked at
        self._failure: LccError | None = None
        self._owner = os.getpid()
        self._process, self._line = _start()
        try:
            told = asdict(settings) | {"path": str(settings.path)}
            self._line.tell({"settings": told, "threads": threads()})
            answer = self._answer(START_SECONDS)
            for text in answer["warnings"]:
                warnings.warn(text, SkippedRecordWarning, stacklevel=3)
            self.step = answer["step"]
        except BaseException:
            self._end()
            raise

    def save(self, step: int, layout: Layout, parts: Parts) -> Saved:
        """Hand a state over. Raises what the save before did."""
        if self._under_way and self._skips and not self._memory.is_over(self._number):
            return Saved(step, "skipped", 0, layout.nbytes, 0.0)
        self._settle()
        if self._line.closed:
            raise WriteError(f"{self.path}: nothing is saved any more, it was closed")
        number = self._number + 1
        message: dict[str, Any] = {}
        if layout is not self._layout and layout != self._layout:
            self._memory.fit(layout)
            message["layout"] = [
                [list(asdict(t).values()) for t in layout.tensors], layout.structure,
                self._memory.name,
            ]  # fmt: skip
        if parts.values != self._values:
            message["values"] = parts.values
        self._memory.fill(parts)
        self._say({"step": step, "number": number} | message)
        self._layout, self._values = layout, parts.values
        self.step, self._number, self._under_way = step, number, True
        saving = _Saving(step, self)
        self._unread.append(saving)
        return saving

    def restore(self, step: int) -> dict[Any, Any]:
        """The state of the newest step, see `Checkpointer.restore`; it is read from disk."""
        self._settle()
        return Chain(self.path).restore(step)

    def close(self) -> None:
        """Wait for what is under way, and end. Raises what that save did."""
        try:
            if not self._line.closed:
                self._settle()
                self._read_up_to(None)
        finally:
            self._end()

    def _settle(self) -> None:
        """Wait for the save under way, and raise what went wrong in it, once."""
        if self._under_way:
            if not self._memory.is_done(self._number) or len(self._unread) >= MOST_UNREAD:
                with contextlib.suppress(LccError):
                    self._read_up_to(None)
            self._under_way = False
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _finish(self, saving: _Saving) -> None:
        """Wait for a save; its fields are there then, or its error is raised."""
        if any(other is saving for other in self._unread):  # == would ask for their fields
            self._read_up_to(saving)
        if "_failure" in saving.__dict__:
            raise saving.__dict__["_failure"]

    def _read_up_to(self, last: _Saving | None) -> None:
        """Read the answers up to that of one save, None for all. Raises what they tell of."""
        while self._unread:
            saving = self._unread.popleft()
            fields = saving.__dict__
            try:
                told = self._answer(None)["saved"]
            except LccError as exc:
                fields["_failure"] = self._failure = exc
                self.step = getattr(exc, "newest", self.step)
                raise
            fields |= told | {key: tuple(told[key]) for key in ("tables", "non_finite")}
            self._under_way = bool(self._unread)  # it is the last one
            if saving is last:
                return

    def _answer(self, seconds: float | None) -> dict[str, Any]:
        """The next message. Raises the error it tells of, WriteError if there will be none."""
        try:
            if seconds is not None and not self._line.waits(seconds):
                raise WriteError(f"{self.path}: no process for saving within {seconds:.0f} s")
            answer = self._line.hear()
        except (EOFError, OSError) as exc:
            self._end()
            raise self._gone() from exc
        if "error" in answer:
            raise _rebuilt(answer)
        return answer

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._line.tell(message)
        except OSError as exc:
            self._end()
            raise self._gone() from exc

    def _gone(self) -> WriteError:
        code = self._process.poll()
        return WriteError(
            f"{self.path}: the process that saves has ended (exit code {code}); what was reported "
            "as saved is on disk, nothing more will be"
        )

    def _end(self) -> None:
        self._line.close()  # which ends the process once its work is done
        self._process.wait()
        self._memory.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            if os.getpid() == self._owner:  # and not a forked data loader
                self._line.close()
                self._memory.close()


class _Line:
    """Messages to and from the other process."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket, self._rest = ours, b""
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)

    @property
    def closed(self) -> bool:
        """Whether this side is."""
        return self._socket.fileno() < 0

    def tell(self, message: dict[str, Any]) -> None:
        """Raises OSError if nobody listens."""
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def waits(self, seconds: float = 0.0) -> bool:
        """Whether there is a message, or the end, within these seconds."""
        return b"\n" in self._rest or bool(self._poll.poll(int(1000 * seconds)))

    def hear(self) -> dict[str, Any]:
        """The next message. Raises EOFError at the end, OSError."""
        while b"\n" not in self._rest:
            more = self._socket.recv(2**16)
            if not more:
                raise EOFError
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    def close(self) -> None:
        """The other process reads to the end, and then ends."""
        self._socket.close()


class _Memory:
    """Arrays of a layout in memory that another process can reach by its name."""

    def __init__(self, name: str | None = None) -> None:
        self._block = None if name is None else SharedMemory(name)
        self._created = name is None
        self.arrays: Arrays = {}
        self._stages: list[Stage] = []
        self._done = np.zeros(1, np.int64)  # number of the save that is done
        self._looks: tuple[tuple[Any, ...], ...] = ()
        self._direct: tuple[NDArray[np.int64], ...] = tuple(np.zeros((3, 0), np.int64))
        self._others: list[tuple[Stage, str]] = []

    def is_over(self, number: int) -> bool:
        """Whether a save is done or has failed."""
        return bool(abs(self._done[0]) == number)

    def is_done(self, number: int) -> bool:
        """Whether a save is done."""
        return bool(self._done[0] == number)

    def tell(self, number: int) -> None:
        """That a save is done; negative: that it has failed."""
        self._done[0] = number

    @property
    def name(self) -> str:
        """Of the block."""
        assert self._block is not None
        return self._block.name

    def fit(self, layout: Layout) -> None:
        """Arrays for this layout, in a block that is large enough."""
        sizes = [-(-t.track_nbytes // ALIGNMENT) * ALIGNMENT for t in layout.tensors]
        ends = np.cumsum([ALIGNMENT, *sizes])
        if self._created and (self._block is None or self._block.size < ends[-1]):
            self.close()
            try:
                self._block = SharedMemory(create=True, size=max(int(ends[-1]), 1))
            except OSError as exc:
                raise WriteError(f"no shared memory of {ends[-1]:,} bytes: {exc}") from exc
        assert self._block is not None
        self._done = np.ndarray((1,), np.int64, self._block.buf)
        self.arrays = {
            t.name: np.ndarray(t.track_shape, t.track_dtype, self._block.buf, int(begin))
            for t, begin in zip(layout.tensors, ends)
        }
        self._stages = [Stage(t, self.arrays[t.name]) for t in layout.tensors]
        self._looks = ()

    def fill(self, parts: Parts) -> None:
        """Copy the layout's tensors; those that lie where they lay last time all at once."""
        if parts.looks != self._looks:
            self._plan(parts)
        kernels.copy_all(*self._direct)
        for stage, name in self._others:
            stage.fill(parts.tensors[name])

    def _plan(self, parts: Parts) -> None:
        self._looks = ()
        found = zip(self._stages, parts.tensors.items(), parts.looks, self.arrays.values())
        direct: list[tuple[int, int, int]] = []
        self._others = []
        for stage, (name, tensor), seen, array in found:
            if is_plain(tensor, array):
                direct.append((array.__array_interface__["data"][0], seen[0], array.nbytes))
            else:
                self._others.append((stage, name))
        self._direct = tuple(np.array(direct, np.int64).reshape(-1, 3).T.copy())
        self._looks = parts.looks

    def close(self) -> None:
        """Give it back; who made it removes it."""
        self.arrays, self._stages, self._looks = {}, [], ()
        self._done = np.zeros(1, np.int64)
        if self._block is not None:
            with contextlib.suppress(BufferError):  # somebody still looks at an array
                self._block.close()
            if self._created:
                with contextlib.suppress(FileNotFoundError):
                    self._block.unlink()
            self._block = None


def _start() -> tuple[subprocess.Popen[bytes], _Line]:
    """The other process and the way to it."""
    if os.name != "posix":
        raise SettingsError("asynchronous saving needs a system with POSIX's sockets")
    ours, theirs = socket.socketpair()
    with theirs:
        code = _START.format(path=[str(Path(__file__).parents[1])])
        command = [sys.executable, "-c", code, str(theirs.fileno()), str(os.getpid())]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )  # fmt: skip
    return process, _Line(ours)


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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training loop to handle
    resource_tracker.register = lambda *_: None  # the memory is not ours to remove
    with contextlib.suppress(EOFError, OSError), socket.socket(fileno=int(sys.argv[1])) as ours:
        _serve(_Line(ours), int(sys.argv[2]))


def _serve(line: _Line, parent: int) -> None:
    first = _heard(line, parent)
    use_threads(first["threads"])
    told = first["settings"]
    settings = Settings(**told | {"path": Path(told["path"])})
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
    layout, memory, values = Layout(()), _Memory(), ()
    try:
        while True:
            message = _heard(line, parent)
            if "layout" in message:
                tensors, structure, name = message["layout"]
                specs = (TensorSpec(n, d, tuple(shape), *more) for n, d, shape, *more in tensors)
                layout = Layout(tuple(specs), structure)
                memory.close()
                memory = _Memory(name)
                memory.fit(layout)
            values = tuple(message.get("values", values))
            try:
                saved = recorder.save(message["step"], layout, memory.arrays, values)
                fields = {k: v for k, v in vars(saved).items() if k != "delta"}
                line.tell({"saved": fields | {"delta": None}})
                memory.tell(message["number"])
            except Exception as exc:
                line.tell(_failed(exc, recorder))
                memory.tell(-message["number"])
    finally:
        recorder.close()


def _heard(line: _Line, parent: int) -> dict[str, Any]:
    """The next message. Raises EOFError at the end, even where others still hold the other side:
    a killed training loop leaves its forked data loaders behind for a while."""
    while not line.waits(1.0):
        if os.getppid() != parent:
            raise EOFError
    return line.hear()


def _failed(exc: Exception, recorder: Recorder | None) -> dict[str, Any]:
    record = [exc.where, exc.expected, exc.found] if isinstance(exc, RecordError) else []
    step = recorder.step if recorder else None
    return {"error": type(exc).__name__, "text": str(exc), "record": record, "step": step}
