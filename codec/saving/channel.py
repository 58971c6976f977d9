"""What a training and the process that saves for it share: memory, and a line for messages.

Messages are lines of JSON over a pair of sockets; nothing is pickled. The memory has no name, so
nothing is left behind whichever process is killed. Its descriptor is sent with a message.

Not done here: what is sent, and when (background, process).
"""

from __future__ import annotations

import contextlib
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
from numpy.typing import NDArray

from codec.errors import WriteError
from codec.scheme import kernels
from codec.state.tensors import Arrays, Layout, Stage, has_bytes_of
from codec.state.tree import Parts

ALIGNMENT = 64  # bytes: of every array in the shared memory
PIECE = 2**16  # bytes read at a time; more than almost every message

Message = dict[str, Any]


class Line:
    """Messages to and from the other process."""

    def __init__(self, ours: socket.socket) -> None:
        self._socket = ours
        self._parts: list[bytes] = []  # of a message that has not ended yet, or was peeked at
        self._lines: deque[bytes] = deque()
        self.received: list[int] = []  # descriptors that came with messages, the newest last
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)

    @property
    def closed(self) -> bool:
        """Whether this side is closed."""
        return self._socket.fileno() < 0

    def send(self, message: Message, descriptors: Sequence[int] = (), again: bool = False) -> None:
        """Send a message.

        Args:
            message: What JSON can hold.
            descriptors: Files that the other process gets.
            again: Part of the message may have been sent already.

        Raises:
            OSError: Nobody listens.
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
        """The next message, {} for half of one; None if nothing comes for so long.

        Raises:
            EOFError: The other side is closed.
            OSError: The line is broken.
        """
        while not self._lines:
            if not self.is_readable(seconds):
                return None
            more, descriptors, _, _ = socket.recv_fds(self._socket, PIECE, 4)
            self.received += descriptors
            if not more:
                raise EOFError
            *ended, rest = more.split(b"\n")
            if ended:
                self._lines.append(b"".join((*self._parts, ended[0])))
                self._lines += ended[1:]
                self._parts = []
            self._parts.append(rest)
        return _parsed(self._lines.popleft())

    def peek(self) -> Message:
        """The next message, which stays until `discard`: an interrupt in between loses nothing.

        One side either peeks or receives.
        """
        while not (self._parts and self._parts[-1].endswith(b"\n")):
            seen = self._socket.recv(PIECE, socket.MSG_PEEK)
            if not seen:
                raise EOFError
            line, end, _ = seen.partition(b"\n")
            if end and not self._parts:
                return _parsed(line)
            # A long one. One call receives and keeps it: no interrupt comes in between.
            self._parts.extend(map(self._socket.recv, [len(line + end)]))
        return _parsed(b"".join(self._parts))

    def discard(self) -> None:
        """Take away what `peek` returned."""
        if self._parts:
            self._parts.clear()
        else:
            seen = self._socket.recv(PIECE, socket.MSG_PEEK)
            self._socket.recv(len(seen.partition(b"\n")[0]) + 1)

    def peek_all(self) -> list[bytes]:
        """All whole messages that are waiting, as bytes; `discard_all` takes them away."""
        if self._parts or not self.is_readable():
            return []
        return self._socket.recv(PIECE, socket.MSG_PEEK).split(b"\n")[:-1]

    def discard_all(self, lines: Sequence[bytes]) -> None:
        """Take away what `peek_all` returned."""
        self._socket.recv(sum(len(line) + 1 for line in lines))

    def end(self) -> None:
        """Let the other process read to the end, even if a fork holds this side too."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this side."""
        self._socket.close()


class Memory:
    """Arrays of a layout, and the number of the save that is done, in shared memory.

    Args:
        layout: Names, dtypes and shapes.
        descriptor: Of memory that the other process made, and fills; None makes new memory.

    Raises:
        WriteError: There is no memory.
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
        # Only who fills it has stages: in the process that saves they would import torch.
        fills = layout.tensors if descriptor is None else ()
        self._stages = [Stage(t, self.arrays[t.name]) for t in fills]
        self._looks: tuple[tuple[Any, ...], ...] | None = None
        self._direct: tuple[NDArray[np.int64], ...] = ()
        self._others: list[tuple[Stage, str]] = []

    @property
    def descriptor(self) -> int:
        """The file descriptor to send to the other process."""
        return self._file.fileno()

    @property
    def done(self) -> int:
        """The number of the newest save that is over; negative if it failed."""
        return int(self._done[0])

    @done.setter
    def done(self, number: int) -> None:
        self._done[0] = number

    def fill(self, parts: Parts) -> None:
        """Copy the layout's tensors; in one call those that have not moved in memory."""
        if parts.fingerprints != self._looks:
            self._plan(parts)
        kernels.copy_all(*self._direct)
        for stage, name in self._others:
            stage.fill(parts.tensors[name])

    def _plan(self, parts: Parts) -> None:
        self._looks = None
        every = self._stages, parts.tensors.items(), parts.fingerprints, self.arrays.values()
        direct: list[tuple[int, int, int]] = []
        self._others = []
        for stage, (name, tensor), seen, array in zip(*every, strict=True):
            if has_bytes_of(tensor, array):
                direct.append((array.__array_interface__["data"][0], seen[0], array.nbytes))
            else:
                self._others.append((stage, name))
        self._direct = tuple(np.array(direct, np.int64).reshape(-1, 3).T.copy())
        self._looks = parts.fingerprints

    def close(self) -> None:
        """Close it; the memory is freed once no process and no array uses it."""
        self._file.close()
        self.arrays, self._stages, self._looks = {}, [], None
        self._done = np.zeros(1, np.int64)


def _mapped(nbytes: int, descriptor: int | None) -> tuple[IO[bytes], mmap.mmap]:
    """Shared memory, all of it allocated: else a signal would end the process that writes to it."""
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
