"""Compiled functions and their twins in numpy, with the same arguments and the same results.

A compiled function is taken as soon as all of them are loaded, see `warmup`. Until then, and where
numba is not installed, its twin in `plain` does the work.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar

from . import workers

P = ParamSpec("P")
R = TypeVar("R")


class Pair(NamedTuple):
    """A compiled function and its twin."""

    compiled: Callable[..., Any]
    plain: Callable[..., Any]


class _Choice:
    """Which functions are taken: by all threads, or by one of them."""

    def __init__(self) -> None:
        self.is_loaded = False
        self.own = threading.local()
        self.n_own = 0  # how many threads have a choice of their own; looking at it is slow


PAIRS: dict[str, Pair] = {}  # by the compiled function's module and name
_choice = _Choice()
_counting = threading.Lock()


def twin_of(plain: Callable[P, R]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a compiled function: its twin is called instead while nothing is loaded."""

    def pair(compiled: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(compiled)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            if takes_compiled():
                return compiled(*arguments, **named)
            workers.check_arithmetic()  # as threads do before they call kernels
            return plain(*arguments, **named)

        module = compiled.__module__.rpartition(".")[2]
        PAIRS[f"{module}.{compiled.__name__}"] = Pair(compiled, plain)
        return call

    return pair


def takes_compiled() -> bool:
    """Whether this thread calls compiled functions."""
    if not _choice.n_own:
        return _choice.is_loaded
    return getattr(_choice.own, "takes_compiled", _choice.is_loaded)


def use_compiled() -> None:
    """Let all threads call compiled functions from now on."""
    _choice.is_loaded = True


@contextmanager
def taking(compiled: bool) -> Iterator[None]:
    """Let this thread alone call compiled functions, or their twins."""
    before = getattr(_choice.own, "takes_compiled", None)
    _choice.own.takes_compiled = compiled
    with _counting:
        _choice.n_own += 1
    try:
        yield
    finally:
        with _counting:
            _choice.n_own -= 1
        if before is None:
            del _choice.own.takes_compiled
        else:
            _choice.own.takes_compiled = before
