"""What a training and the process that saves for it share: memory, and a line for messages.

Messages are lines of JSON over a pair of sockets; nothing is pickled. The memory has no name, so
nothing is left behind whichever process is killed. Its descriptor is sent with a message.

Not done here: what is sent, and when (background, process).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import select
import socket
import tempfile
from collections import deque
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from codec.errors import WriteError
from codec.state.tensors import Arrays, Layout, Stage, has_bytes_of
from codec.state.tree import Parts

ALIGNMENT = 64  # bytes, of each array in the shared memory
PIECE = 2**16  # bytes read at a time; almost all messages are shorter

Message = dict[str, Any]


class Line:
    """Messages to and from the other process."""

    def __init__(self, side: socket.socket) -> None:
        self._socket = side
        self._parts: list[bytes] = []  # of a message without its end yet, or of one peeked at
        self._lines: deque[bytes] = deque()
        self.received: list[int] = []  # descriptors that came with messages, the newest last
        self._poll = select.poll()
        self._poll.register(side, select.POLLIN)

    @property
    def closed(self) -> bool:
        """Whether this side is closed."""
        return self._socket.fileno() < 0

    def send(self, message: Message, descriptors: Sequence[int] = (), again: bool = False) -> None:
        """Send a message.

        Args:
            message: What JSON can hold.
            descriptors: Files that the other process gets.
            again: A part of the message may have been sent before.

        Raises:
            OSError: The other side is closed.
        """
        if list(message) == ["step", "number"]:  # most messages hold nothing else
            text = b'{"step": %d, "number": %d}' % tuple(message.values())
        else:
            text = json.dumps(message).encode()
        data = b"\n" + text + b"\n" if again else text + b"\n"
        if descriptors:
            data = data[socket.send_fds(self._socket, [data], descriptors) :]
        self._socket.sendall(data)

    def is_readable(self, seconds: float = 0.0) -> bool:
        """Whether there is a message, a part of one, or the end, within these seconds."""
        return bool(self._lines) or bool(self._poll.poll(int(1000 * seconds)))

    def receive(self, seconds: float) -> Message | None:
        """The next message, {} for half a message; None if nothing comes within these seconds.

        Raises:
            EOFError: The other side is closed.
            OSError: The line is broken.
        """
        while not self._lines:
            if not self.is_readable(seconds):
                return None
            piece, descriptors, _, _ = socket.recv_fds(self._socket, PIECE, 4)
            self.received += descriptors
            if not piece:
                raise EOFError
            *complete, begun = piece.split(b"\n")
            if complete:
                self._lines.append(b"".join((*self._parts, complete[0])))
                self._lines += complete[1:]
                self._parts = []
            self._parts.append(begun)
        return _parsed(self._lines.popleft())

    def peek(self) -> Message:
        """The next message, which stays until `discard`: an interrupt in between loses nothing.

        One side either peeks or receives.
        """
        while not (self._parts and self._parts[-1].endswith(b"\n")):
            waiting = self._socket.recv(PIECE, socket.MSG_PEEK)
            if not waiting:
                raise EOFError
            line, end, _ = waiting.partition(b"\n")
            if end and not self._parts:
                return _parsed(line)
            # A long message. One call receives and stores it: no interrupt comes in between.
            self._parts.extend(map(self._socket.recv, [len(line + end)]))
        return _parsed(b"".join(self._parts))

    def discard(self) -> None:
        """Remove the message returned by `peek`."""
        if self._parts:
            self._parts.clear()
        else:
            waiting = self._socket.recv(PIECE, socket.MSG_PEEK)
            self._socket.recv(len(waiting.partition(b"\n")[0]) + 1)

    def peek_all(self) -> list[bytes]:
        """All whole messages that are waiting, as bytes; `discard_all` removes them."""
        if self._parts or not self.is_readable():
            return []
        return self._socket.recv(PIECE, socket.MSG_PEEK).split(b"\n")[:-1]

    def discard_all(self, lines: Sequence[bytes]) -> None:
        """Remove the messages returned by `peek_all`."""
        self._socket.recv(sum(len(line) + 1 for line in lines))

    def end(self) -> None:
        """Let the other process read to the end, even if a fork has this side open too."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this side."""
        self._socket.close()


class Memory:
    """Arrays of a layout, and the number of the newest finished save, in shared memory.

    Args:
        layout: Names, dtypes and shapes.
        descriptor: Of memory that the other process has made and fills; None makes new memory.

    Raises:
        WriteError: The memory cannot be allocated.
    """

    def __init__(self, layout: Layout, descriptor: int | None = None) -> None:
        sizes = [-(-t.track_nbytes // ALIGNMENT) * ALIGNMENT for t in layout.tensors]
        ends = np.cumsum([ALIGNMENT, *sizes])
        self._file, block = _mapped(int(ends[-1]), descriptor)
        self._done = np.ndarray((1,), np.int64, block)
        self.arrays: Arrays = {
            t.name: np.ndarray(t.track_shape, t.track_dtype, block, int(begin))
            for t, begin in zip(layout.tensors, ends)
        }
        # Only the process that fills it has stages: in the other one they would import torch.
        fills = layout.tensors if descriptor is None else ()
        self._stages = [Stage(t, self.arrays[t.name]) for t in fills]
        self._fingerprints: tuple[tuple[Any, ...], ...] | None = None  # that the plan is for
        self._direct: list[tuple[int, int, int]] = []  # address to, address from, bytes
        self._staged: list[tuple[Stage, str]] = []  # tensors that need a conversion, by name

    @property
    def descriptor(self) -> int:
        """The file descriptor to send to the other process."""
        return self._file.fileno()

    @property
    def done(self) -> int:
        """The number of the newest save that has ended; negative if it failed."""
        return int(self._done[0])

    @done.setter
    def done(self, number: int) -> None:
        self._done[0] = number

    def fill(self, parts: Parts) -> None:
        """Copy the layout's tensors, in one call those that need no conversion."""
        if parts.fingerprints != self._fingerprints:
            self._plan(parts)
        for target, source, nbytes in self._direct:
            ctypes.memmove(target, source, nbytes)
        for stage, name in self._staged:
            stage.fill(parts.tensors[name])

    def _plan(self, parts: Parts) -> None:
        """Decide how to copy each tensor; that holds until a tensor moves in memory."""
        self._fingerprints = None
        columns = self._stages, parts.tensors.items(), parts.fingerprints, self.arrays.values()
        direct: list[tuple[int, int, int]] = []
        self._staged = []
        for stage, (name, tensor), mark, array in zip(*columns, strict=True):
            if has_bytes_of(tensor, array):
                direct.append((array.__array_interface__["data"][0], mark[0], array.nbytes))
            else:
                self._staged.append((stage, name))
        self._direct = direct
        self._fingerprints = parts.fingerprints

    def close(self) -> None:
        """Close it; the memory is freed once no process and no array uses it."""
        self._file.close()
        self.arrays, self._stages, self._fingerprints = {}, [], None
        self._done = np.zeros(1, np.int64)


def _mapped(nbytes: int, descriptor: int | None) -> tuple[IO[bytes], mmap.mmap]:
    """Shared memory, allocated at once: else a signal could end a process that writes to it."""
    try:
        if descriptor is not None:
            file: IO[bytes] = os.fdopen(descriptor, "r+b", buffering=0)
        elif hasattr(os, "memfd_create"):
            file = os.fdopen(os.memfd_create("lcc"), "r+b", buffering=0)
        else:
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        try:
            if descriptor is None and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, nbytes)
            elif descriptor is None:
                os.ftruncate(file.fileno(), nbytes)
            return file, mmap.mmap(file.fileno(), nbytes)
        except BaseException:
            file.close()
            raise
    except OSError as exc:
        raise WriteError(f"no shared memory of {nbytes:,} bytes: {exc}") from exc


def _parsed(line: bytes) -> Message:
    try:
        message = json.loads(line) if line else {}
    except ValueError:  # the first part of a message that was sent again
        return {}
    return message if isinstance(message, dict) else {}
