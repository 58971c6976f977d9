"""A way to a server, which can be cut."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import Counter

REQUEST = re.compile(rb"^(GET|PUT|HEAD|DELETE|POST) (\S+) HTTP/1\.1\r\n")


class Way:
    """TCP from a port of its own to another one, which can be cut, and count requests.

    at_request, at_answer: called with a request's method and path before it, or its answer, is
    passed on; if they return True it is not, and the connection ends.
    """

    def __init__(self, there: int) -> None:
        self._there = there
        self.port = 0
        self.requests: Counter[str] = Counter()
        self.at_request = self.at_answer = lambda _method, _path: False
        self._open: set[socket.socket] = set()
        self.mend()

    def mend(self, there: int | None = None) -> None:
        """Go on, on the same port."""
        self._there = there or self._there
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def cut(self) -> None:
        """Whoever is connected is not any more, and nobody else will be."""
        for mine in (self._listener, *list(self._open)):
            with contextlib.suppress(OSError):
                mine.shutdown(socket.SHUT_RDWR)
            mine.close()
        self._open.clear()

    def counted(self) -> dict[str, int]:
        """Requests since it was asked last."""
        seen, self.requests = dict(self.requests), Counter()
        return seen

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = listener.accept()[0]
                try:
                    far = socket.create_connection(("127.0.0.1", self._there))
                except OSError:
                    near.close()
                    continue
                self._open |= {near, far}
                if listener.fileno() < 0:  # it was cut meanwhile
                    near.close()
                    far.close()
                at: list[tuple[str, str]] = [("", "")]
                for ways in ((near, far, at, True), (far, near, at, False)):
                    threading.Thread(target=self._pass_on, args=ways, daemon=True).start()

    def _pass_on(
        self, source: socket.socket, target: socket.socket, at: list[tuple[str, str]], asks: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                seen = REQUEST.match(data) if asks else None
                if seen:
                    at[0] = seen[1].decode(), seen[2].decode()
                    self.requests["LIST" if b"list-type" in seen[2] else at[0][0]] += 1
                answers = not asks and not data.endswith(b"100 Continue\r\n\r\n")
                if (seen and self.at_request(*at[0])) or (answers and self.at_answer(*at[0])):
                    break
                target.sendall(data)
        for mine in (source, target):
            with contextlib.suppress(OSError):
                mine.shutdown(socket.SHUT_RDWR)
