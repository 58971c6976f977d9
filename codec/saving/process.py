"""The process that saves: how it starts, and what it does.

The training sends the settings first, then a `Message` for each state; each gets one answer.

Not done here: the side of the training loop (background).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import warnings
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any, NamedTuple

from codec import child
from codec.chain.upkeep import Change
from codec.errors import LccError, SettingsError, SkippedRecordWarning, WriteError
from codec.record.settings import ChainSettings, Overrides
from codec.scheme.warmup import load_beside
from codec.scheme.workers import set_threads, threads
from codec.state.tensors import Layout
from codec.storage.location import Location

from .memory import Memory
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


class Message(NamedTuple):
    """A state to save. layout: of the memory whose descriptor follows; None for that of the state
    before. values: None for those of the state before. keep_steps: compact the chain instead."""

    step: int
    layout: Layout | None
    values: tuple[str, ...] | None
    keep_steps: int | None = None


class Answer(NamedTuple):
    """What became of a message. newest: the chain's newest step."""

    result: Saved | Change | LccError
    newest: int | None


class Opened(NamedTuple):
    """The answer to the settings: what the recorder has found. warnings: their texts."""

    step: int | None
    settings: ChainSettings
    differences: str
    warnings: list[str]


def start(settings: Settings) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start the process that saves, and send it the settings.

    Returns:
        The process, and the connection to it.

    Raises:
        SettingsError: The system has no POSIX sockets, or the other process could not open the same
            location.
        WriteError: The process cannot be started.
    """
    location = settings.path
    if os.name != "posix":
        raise SettingsError("asynchronous saving needs a system with POSIX's sockets")
    if location.remote is not None and location.remote.protocol == "memory":
        raise SettingsError(f"{location}: is this process's own; asynchronous saving needs another")
    arguments = {"path": location.arguments(), "overrides": settings.overrides.passed}
    try:
        data = pickle.dumps((vars(settings) | arguments, threads()))
    except Exception as exc:  # whatever an option's own code raises
        raise SettingsError(
            f"{location}: asynchronous saving hands storage_options to another process, which "
            f"cannot get these: {type(exc).__name__}: {exc}"
        ) from exc
    try:
        ours, theirs = socket.socketpair()
        with theirs, ours:
            command = child.command(_SERVE, str(theirs.fileno()), str(os.getpid()))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
            connection = Connection(ours.detach())
        connection.send_bytes(data)
    except OSError as exc:
        raise WriteError(f"{location}: no process for saving can be started: {exc}") from exc
    return process, connection


def describe_exit(code: int) -> str:
    """How a process ended. code: its exit code, or the negative number of a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"it was killed by signal {-code}"


def serve() -> None:
    """Save each state that the training loop hands over, until it ends."""
    for name in SIGNALS:  # the training loop handles them and may want to save once more
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError), Connection(int(sys.argv[1])) as connection:
        serve_training(connection, int(sys.argv[2]))


def serve_training(connection: Connection, parent_pid: int) -> None:
    """See `serve`. Raises EOFError or OSError when the training has ended."""
    arguments, n_threads = connection.recv()
    set_threads(n_threads)
    try:
        overrides = Overrides(**arguments["overrides"])
        path = Location(*arguments["path"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorder = Recorder(Settings(**arguments | {"path": path, "overrides": overrides}))
    except Exception as exc:
        connection.send(_described(exc))
        return
    try:
        texts = [str(w.message) for w in caught if issubclass(w.category, SkippedRecordWarning)]
        opened = Opened(recorder.step, recorder.settings, recorder.differences, texts)
        connection.send(opened)
        load_beside()  # while the training computes its first iteration
        _save_all(connection, parent_pid, recorder)
    finally:
        recorder.close()


def _save_all(connection: Connection, parent_pid: int, recorder: Recorder) -> None:
    memory: Memory | None = None
    values: tuple[str, ...] = ()
    yields = False
    while (message := _next_message(connection, parent_pid)) is not None:
        if message.layout is not None:
            if memory is not None:
                memory.close()
            memory = Memory(message.layout, recv_handle(connection))
            if message.layout.nbytes >= LARGE and not yields:
                yields = True
                os.nice(LOWEST)  # it cannot be raised again
                set_threads(threads())  # new threads, which inherit the priority
        values = values if message.values is None else message.values
        result: Saved | Change | LccError
        try:
            if message.keep_steps is not None:
                result = recorder.compact(message.keep_steps)
            else:
                assert memory is not None, "the first state has a layout"
                saved = recorder.save(message.step, memory.layout, memory.arrays, values)
                result = replace(saved, delta=None)  # that stays in its process
        except Exception as exc:
            result = _described(exc)
        connection.send(Answer(result, recorder.step))


def _described(exc: Exception) -> LccError:
    """An error for the other process, which may not know those of other libraries."""
    if isinstance(exc, LccError):
        return exc
    return WriteError(f"the process that saves failed: {type(exc).__name__}: {exc}")


def _next_message(connection: Connection, parent_pid: int) -> Any:
    """Wait for a `Message`; None when the training needs this process no longer.

    Raises EOFError when the training loop has ended, even if another process keeps its side open:
    data loaders may outlive a killed training loop for a while.
    """
    while not connection.poll(1.0):
        if os.getppid() != parent_pid:
            raise EOFError
    return connection.recv()
