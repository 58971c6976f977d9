"""What the command lines of this repository share.

A command's answer is written to standard output as a whole when the command has ended; an error is
one line on standard error. With --json, standard output always gets one JSON object: the answer, or
{"error": {"class": …, "message": …, "exit_code": …}}.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, NoReturn

OK, BAD_DATA, WRONG_USE, OLDER, INTERRUPTED = 0, 1, 2, 3, 130  # exit codes


class UsageError(Exception):
    """The arguments are wrong. usage: how to use the command, in one or more lines."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message, self.format_usage())


def run(
    command: Callable[[], int],
    arguments: Sequence[str] | None,
    exit_codes: Mapping[type[Exception], int],
) -> int:
    """Run a command and report its answer or its error.

    Args:
        command: Prints its answer to standard output and returns an exit code.
        arguments: The command line's arguments; None takes those of sys.argv.
        exit_codes: Error classes -> exit codes; the first class that matches counts. These errors
            are reported in one line, with their notes; others are raised.

    Returns:
        The exit code.

    Raises:
        SystemExit: The arguments are wrong, or help was asked for.
    """
    wants_json = _wants_json(sys.argv[1:] if arguments is None else arguments)
    ends_process = False
    with _standard_error():
        _reserve_descriptor()
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            try:
                code = command()
            except SystemExit as exc:  # argparse has printed its help
                code, ends_process = int(exc.code or OK), True
            except UsageError as exc:
                code, ends_process = WRONG_USE, True
                say(exc.usage.rstrip())
                _report(exc, f"error: {exc}", code, wants_json)
            except KeyboardInterrupt as exc:
                code = INTERRUPTED
                parts = ("interrupted; what was written so far stands", str(exc), *_notes(exc))
                _report(exc, "; ".join(filter(None, parts)), code, wants_json)
            except tuple(exit_codes) as exc:
                code = next(n for kind, n in exit_codes.items() if isinstance(exc, kind))
                _report(exc, f"error: {'; '.join((str(exc), *_notes(exc)))}", code, wants_json)
        code = _write(answer.getvalue(), code)
    if ends_process:
        raise SystemExit(code)
    return code


def say(text: str) -> None:
    """Write a line to standard error, if that is possible."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether --json is given; argparse takes --js for it too."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(len(a) > 2 and "--json".startswith(a) for a in options)


def _notes(exc: BaseException) -> list[str]:
    return getattr(exc, "__notes__", [])


def _report(exc: BaseException, line: str, code: int, wants_json: bool) -> None:
    """Write an error's line; with --json, the error's object is the whole answer."""
    say(line)
    if wants_json:
        sys.stdout.seek(0)
        sys.stdout.truncate()
        message = line.removeprefix("error: ")
        error = {"class": type(exc).__name__, "message": message, "exit_code": code}
        print(json.dumps({"error": error}))


def _write(text: str, code: int) -> int:
    """Write an answer to standard output; returns the exit code, not 0 if writing fails.

    Characters that the output's encoding lacks are escaped: "→" is \\u2192 in ASCII.
    """
    if not text:
        return code
    stream = sys.stdout
    try:
        if stream is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:  # the reader, `head` for example, has closed the pipe
        _abandon(stream)
    except OSError as exc:
        _abandon(stream)
        say(f"error: standard output: the answer could not be written: {exc.strerror or exc}")
        return code or BAD_DATA
    return code


def _abandon(stream: IO[str] | None) -> None:
    """Discard what Python has buffered of this stream, so that it writes nothing at exit."""
    if stream is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


@contextlib.contextmanager
def _standard_error() -> Iterator[None]:
    """Provide a standard error if Python was started without one."""
    if sys.stderr is not None:
        yield
        return
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def _reserve_descriptor() -> None:
    """Occupy descriptor 1 if standard output is closed.

    Else a file opened later could get this descriptor, and with it what libraries print.
    """
    try:
        os.fstat(1)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)
