"""Saving in another process, next to the training.

A thread would not do: the training loop would wait for all Python code in it. The state is copied
into memory that both processes share, and a message asks the other process to save it. Only one
save is under way at a time. The other process ends with this one, but finishes its save first: what
was handed over when the training is killed is still written. It gives way to the training while it
saves a large state (`process.LARGE`).

A number in the shared memory says which save is done, so the training loop reads an answer only if
somebody asks for it. The memory is filled again only after the previous save has ended. Ctrl-C may
interrupt the training loop anywhere: a message that may have been sent is sent again, and the other
process ignores numbers that it has seen.

Not done here: the other process (process), memory and messages (channel).
"""

from __future__ import annotations

import contextlib
import json
import warnings
from typing import Any

from codec.chain.chain import Chain
from codec.errors import ChainError, ChainNotFoundError, LccError, SkippedRecordWarning, WriteError
from codec.record.layouts import entries_of
from codec.record.settings import ChainSettings
from codec.scheme.workers import threads
from codec.state import edits
from codec.state.tensors import Layout
from codec.state.tree import Parts

from .call_lock import CallLock
from .channel import Memory, Message
from .process import describe_exit, error_of, saved_of, settings_message, start
from .recorder import Settings
from .saved import PendingSave, Saved

MOST_UNREAD = 64  # answers, which must fit into the sockets' buffers
NUMBER = b'{"number": '  # what an answer begins with


class Background:
    """A `Recorder` in another process.

    Args:
        settings: Of the recorder.
        lock: The caller of each method except `finish` has acquired it; `finish` acquires it.
        skips: Whether to skip a step while the previous save is under way.
    """

    tracker = None  # the other process has it

    def __init__(self, settings: Settings, lock: CallLock, *, skips: bool) -> None:
        self.path, self.step = settings.path, None
        message = settings_message(settings)
        self._skips, self._lock = skips, lock
        self._memory: Memory | None = None
        self._layout: Layout | None = None  # of the memory, if the other process has it too
        self._values: tuple[str, ...] | None = None
        self._number = 0  # of the save handed over last
        self._unread: dict[int, PendingSave] = {}  # by number, saves with unread answers
        self._pending: tuple[Message, PendingSave, Layout, tuple[str, ...]] | None = None
        self._failure: LccError | None = None
        self._death = ""  # how the other process died, and what that cost
        self._process, self._line = start(self.path)
        try:
            self._line.send({"settings": message, "threads": threads()})
            answer = self._next_answer()
            self._line.discard()
            if "error" in answer:
                raise error_of(answer)
            for text in answer["warnings"]:
                warnings.warn(text, SkippedRecordWarning, stacklevel=3)
            self.step, self.differences = answer["step"], answer["differences"]
            self.settings = ChainSettings.of_field(answer["settings"], str(self.path))
        except BaseException:
            self._end()
            raise

    def save(self, step: int, layout: Layout, parts: Parts) -> Saved:
        """Hand a state over. Raises the error of the previous save."""
        self._send_pending(again=True)
        if self._skips and self._is_busy():
            return Saved(step, "skipped", 0, layout.nbytes, 0.0, lossy_nbytes=layout.lossy_nbytes)
        self._wait()
        if self._line.closed:
            raise WriteError(self._death)
        message: Message = {"step": step, "number": self._number + 1}
        if self._memory is None or (layout is not self._layout and layout != self._layout):
            self._layout = None
            if self._memory is not None:
                self._memory.close()
                self._memory = None
            self._memory = Memory(layout)
            message["layout"] = [entries_of(layout), layout.structure]
        if self._values is None or len(self._values) != len(parts.values):
            message["values"] = parts.values
        elif changes := edits.changes(self._values, parts.values):
            message["changes"] = list(changes.items())
        self._memory.fill(parts)
        saving = PendingSave(step, self._number + 1, self.finish)
        self._pending = message, saving, layout, parts.values
        self._send_pending()
        self._raise_failure()
        return saving

    def _send_pending(self, again: bool = False) -> None:
        """Send the pending message. Ctrl-C may interrupt this; sending twice does no harm."""
        if self._pending is None:
            return
        message, saving, self._layout, self._values = self._pending
        self._number, self.step = message["number"], message["step"]
        self._unread[self._number] = saving
        if not self._line.closed:
            self._send(message, again)
        self._pending = None

    def restore(self, step: int) -> dict[Any, Any]:
        """The state of the newest step, see `Checkpointer.restore`; it is read from disk."""
        self._wait()
        while self._unread:
            self._read_answer()
        assert self.step is not None, "a step was saved"
        return Chain(self.path).restore(self.step)

    def close(self) -> None:
        """Wait for the save under way, and end. Raises its error."""
        try:
            if not self._line.closed:
                self._wait()
                while self._unread:
                    self._read_answer()
                self._raise_failure()
        finally:
            self._end()

    def _is_busy(self) -> bool:
        n = self._number
        while n in self._unread and self._memory is not None and abs(self._memory.done) != n:
            if not self._line.is_readable():
                return True
            self._read_answer()  # makes space in the socket, or notices that the process ended
        return False

    def _wait(self) -> None:
        """Wait for the save under way. Raises its error, once."""
        self._send_pending(again=True)
        memory, n = self._memory, self._number
        while n in self._unread and (memory is None or memory.done != n):
            self._read_answer()
        if len(self._unread) >= MOST_UNREAD:
            self._collect_answers()
        self._raise_failure()

    def _collect_answers(self) -> None:
        """Read the pending answers; they are parsed on demand."""
        lines = self._line.peek_all()
        for line in lines:
            number, _, answer = line.removeprefix(NUMBER).partition(b",")
            if saving := self._unread.get(int(number)):
                saving.answer = answer
                del self._unread[int(number)]
        if lines:
            self._line.discard_all(lines)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def finish(self, saving: PendingSave) -> Saved:
        """Wait for a save, and return what was written. Raises its error."""
        return self._lock.run(self._finish, saving)

    def _finish(self, saving: PendingSave) -> Saved:
        self._send_pending(again=True)
        while saving.number in self._unread:
            self._read_answer()
        if saving.failure is not None:
            if self._failure is saving.failure:
                self._failure = None
            raise saving.failure
        return saving.saved or saved_of(json.loads(b"{" + saving.answer)["saved"])

    def _read_answer(self) -> None:
        """Wait for the next answer and note it. Noting it twice does no harm."""
        try:
            answer = self._next_answer()
        except WriteError as exc:
            for saving in self._unread.values():
                saving.failure = exc
            self._unread.clear()
            self._failure = exc
            return
        number = int(answer.get("number", 0))
        if (answered := self._unread.get(number)) is not None:
            if "error" in answer:
                answered.failure = self._failure = error_of(answer)
                self.step = answer["step"]
            else:
                answered.saved = saved_of(answer["saved"])
            del self._unread[number]
        self._line.discard()

    def _next_answer(self) -> Message:
        """The next answer, which stays on the line. Raises WriteError if the process has ended."""
        try:
            return self._line.peek()
        except (EOFError, OSError) as exc:
            self._end()
            raise self._process_died() from exc

    def _send(self, message: Message, again: bool = False) -> None:
        assert self._memory is not None
        descriptors = [self._memory.descriptor] if "layout" in message else []
        try:
            self._line.send(message, descriptors, again)
        except OSError:
            while self._unread:  # answers on the line can still be read, then comes the end
                self._read_answer()

    def _process_died(self) -> WriteError:
        """The error that says how the other process ended and what is lost.

        `step` becomes the newest step on disk.
        """
        ending = describe_exit(self._process.wait())
        reasons = [f"{self.path}: the process that saves has ended: {ending}"]
        steps = sorted(saving.step for saving in self._unread.values())
        try:
            written = Chain(self.path).steps
        except ChainNotFoundError:
            written = ()
        except ChainError as exc:
            if steps:
                reasons.append(f"{_named(steps)} may not have been written: {exc}")
        else:
            self.step = written[-1] if written else None
            if lost_steps := [step for step in steps if step not in written]:
                were = "was" if len(lost_steps) == 1 else "were"
                reasons.append(f"{_named(lost_steps)} {were} not written")
        reasons.append(
            "nothing is saved any more; close this Checkpointer and make a new one with resume=True"
        )
        self._death = "; ".join(reasons)
        return WriteError(self._death)

    def _end(self) -> None:
        self._close_line()
        self._process.wait()

    def _close_line(self) -> None:
        """Let the other process end after its work. In a fork, only close this side of the line."""
        if not self._lock.is_fork:
            self._line.end()
        self._line.close()
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._close_line()


def _named(steps: list[int]) -> str:
    return f"step{'' if len(steps) == 1 else 's'} {', '.join(map(str, steps))}"
