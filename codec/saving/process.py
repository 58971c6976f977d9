"""The process that saves: how it starts, what it does, and the messages of the two processes.

For each kind of message (settings, errors, what was saved) writing and reading are side by side.

Not done here: the side of the training loop (background); memory and sockets (channel).
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

from codec import child, errors
from codec.errors import LccError, RecordError, SettingsError, SkippedRecordWarning, WriteError
from codec.record.layouts import specs_of
from codec.record.settings import Overrides
from codec.scheme.warmup import load_beside
from codec.scheme.workers import set_threads, threads
from codec.state import edits
from codec.state.tensors import Layout
from codec.storage.location import Location

from .channel import Line, Memory, Message
from .recorder import Recorder, Settings
from .saved import Saved

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")  # sent to whole groups of processes
# Kernels that share an operation among all processors wait for the slowest thread, so a save that
# takes a processor from one thread delays all. With the lowest priority it uses only idle
# processors; while the training waits for the save, these are all. Saves of small states take
# milliseconds and keep the training's priority: the next iteration may be waiting, and other jobs
# share the machine.
LARGE = 2**26  # bytes of a state
LOWEST = 19  # niceness
_SERVE = "from codec.saving.process import serve; serve()"


def start(location: Location) -> tuple[subprocess.Popen[bytes], Line]:
    """Start the process that saves.

    Args:
        location: The chain that it will write, for errors.

    Returns:
        The process, and the line to it.

    Raises:
        SettingsError: The system has no POSIX sockets.
        WriteError: The process cannot be started.
    """
    if os.name != "posix":
        raise SettingsError("asynchronous saving needs a system with POSIX's sockets")
    try:
        ours, theirs = socket.socketpair()
        with theirs:
            command = child.command(_SERVE, str(theirs.fileno()), str(os.getpid()))
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
            except BaseException:
                ours.close()
                raise
    except OSError as exc:
        raise WriteError(f"{location}: no process for saving can be started: {exc}") from exc
    return process, Line(ours)


def describe_exit(code: int) -> str:
    """How a process ended. code: its exit code, or the negative number of a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"it was killed by signal {-code}"


def settings_message(settings: Settings) -> Message:
    """Settings as a message.

    Raises:
        SettingsError: The other process could not open the same location.
    """
    location = settings.path
    if location.remote is not None and location.remote.protocol == "memory":
        raise SettingsError(f"{location}: is this process's own; asynchronous saving needs another")
    arguments = location.arguments()
    try:
        survives_json = json.loads(json.dumps(arguments)) == arguments
        reason = "" if survives_json else "another value comes back"
    except (TypeError, ValueError) as exc:
        reason = f"{type(exc).__name__}: {exc}"
    if reason:
        raise SettingsError(
            f"{location}: asynchronous saving hands storage_options to another process as JSON, "
            f"which cannot hold these: {reason}"
        )
    return vars(settings) | {"path": arguments, "overrides": settings.overrides.passed}


def settings_of(message: Message) -> Settings:
    """The settings in a message."""
    overrides = Overrides(**message["overrides"])
    return Settings(**message | {"path": Location(*message["path"]), "overrides": overrides})


def saved_message(saved: Saved) -> Message:
    """What a save wrote, without the delta: that stays in its process."""
    return vars(saved) | {"delta": None}


def saved_of(message: Message) -> Saved:
    """What a save wrote, from a message."""
    return Saved(**message | {key: tuple(message[key]) for key in ("tables", "non_finite")})


def error_message(exc: Exception, newest: int | None) -> Message:
    """An error, and the newest step that is on disk."""
    record = [exc.where, exc.expected, exc.found] if isinstance(exc, RecordError) else []
    return {"error": type(exc).__name__, "text": str(exc), "record": record, "step": newest}


def error_of(message: Message) -> LccError:
    """The error in a message; WriteError for an error of another library."""
    kind = getattr(errors, message["error"], None)
    if kind is None:
        return WriteError(f"the process that saves failed: {message['error']}: {message['text']}")
    error = kind(*message["record"]) if issubclass(kind, RecordError) else kind(message["text"])
    error.newest = message["step"]
    assert isinstance(error, LccError)
    return error


def serve() -> None:
    """Save each state that the training loop hands over, until it ends."""
    for name in SIGNALS:  # the training loop handles them and may want to save once more
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError), socket.socket(fileno=int(sys.argv[1])) as ours:
        _serve(Line(ours), int(sys.argv[2]))


def _serve(line: Line, parent_pid: int) -> None:
    first = _next_message(line, parent_pid)
    set_threads(first["threads"])
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorder = Recorder(settings_of(first["settings"]))
        texts = [str(w.message) for w in caught if issubclass(w.category, SkippedRecordWarning)]
        found = {"settings": recorder.settings.field, "differences": recorder.differences}
        line.send({"step": recorder.step, "warnings": texts} | found)
    except Exception as exc:
        line.send(error_message(exc, None))
        return
    try:
        load_beside()  # while the training computes its first iteration
        _save_all(line, parent_pid, recorder)
    finally:
        recorder.close()


def _save_all(line: Line, parent_pid: int, recorder: Recorder) -> None:
    layout, memory, last, yields = Layout(()), None, 0, False
    values: tuple[str, ...] = ()
    while True:
        message = _next_message(line, parent_pid)
        number = message.get("number", 0)
        if number <= last:  # half a message, or one that was sent again
            continue
        last = number
        if "layout" in message:
            tensors, structure = message["layout"]
            layout = Layout(specs_of(tensors), structure)
            *unused, descriptor = line.received
            for old_descriptor in unused:
                os.close(old_descriptor)
            line.received.clear()
            if layout.nbytes >= LARGE and not yields:
                yields = True
                _yield_processors()
            if memory is not None:
                memory.close()
            memory = Memory(layout, descriptor)
        assert memory is not None, "the first message has a layout"
        values = _values_after(message, values)
        try:
            saved = recorder.save(message["step"], layout, memory.arrays, values)
            line.send({"number": number, "saved": saved_message(saved)})
            memory.done = number
        except Exception as exc:
            line.send({"number": number} | error_message(exc, recorder.step))
            memory.done = -number


def _values_after(message: Message, values: tuple[str, ...]) -> tuple[str, ...]:
    """The values of a state: those in the message, or the last values after its changes."""
    if "values" in message:
        return tuple(message["values"])
    changed = {i: edits.applied(values[i], c, sys.maxsize) for i, c in message.get("changes", ())}
    return tuple([changed.get(i, text) for i, text in enumerate(values)])


def _yield_processors() -> None:
    """Save with the lowest priority from now on; it cannot be raised again."""
    os.nice(LOWEST)
    set_threads(threads())  # new threads, which inherit the priority


def _next_message(line: Line, parent_pid: int) -> Message:
    """Wait for a message.

    Raises EOFError when the training loop has ended, even if another process keeps its side open:
    data loaders may outlive a killed training loop for a while.
    """
    while (message := line.receive(1.0)) is None:
        if os.getppid() != parent_pid:
            raise EOFError
    return message
