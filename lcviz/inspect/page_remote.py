"""Chains behind URLs, read so that a click ends the wait for a server that does not answer.

Streamlit ends a script only where the script touches Streamlit. A request that waits for its answer
would hold the script, and with it the visitor's tab. So each request runs in a thread of its own.
The script looks again and again whether it has to end; a request that it leaves goes on until the
network gives it up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from codec.inspect import Location, Source
from lcviz.text import plain

LOOK_SECONDS = 0.2  # between two looks whether the script has to end
PATIENCE = 3.0  # seconds without an answer until the page says so
MOST_REQUESTS = 8  # at a time to one place; those that were left count until they are given up
_free: dict[str, threading.Semaphore] = {}  # by place: how many more requests may begin
T = TypeVar("T")


def open_remote(url: str) -> Source:
    """Open a URL; listing and reading it wait as `answer` does.

    Raises what `codec.inspect.Location` and its `source` raise.
    """
    location = Location(url)
    where = str(location)
    source = answer(where, location.source)
    if not source.is_remote:  # an archive, which is here by now
        return source
    return replace(
        source,
        sizes=lambda: answer(where, source.sizes),
        read=lambda name: answer(where, lambda: source.read(name)),
        read_spans=lambda name, spans: answer(where, lambda: source.read_spans(name, spans)),
    )


def answer(where: str, request: Callable[[], T]) -> T:
    """What a request returns or raises; a click or a change of page ends the wait for it.

    In a thread that no visitor waits for, the request is simply called. A request must not touch
    Streamlit, nor anything that the script goes on to use after an interruption.

    where: the place without secrets.
    """
    if get_script_run_ctx(suppress_warning=True) is None:
        return request()
    with _waiting(where) as look:
        look()  # also where each of many requests is answered at once
        free = _free.setdefault(where, threading.Semaphore(MOST_REQUESTS))
        while not free.acquire(timeout=LOOK_SECONDS):
            look()
        result = _begun(request, free)
        while not wait([result], LOOK_SECONDS).done:
            look()
    return result.result()


def _begun(request: Callable[[], T], free: threading.Semaphore) -> Future[T]:
    """The result of a request, which a thread makes; then another one may begin."""
    result: Future[T] = Future()

    def act() -> None:
        try:
            result.set_result(request())
        except BaseException as exc:  # whatever it is, the script raises it
            result.set_exception(exc)
        finally:
            free.release()

    try:
        threading.Thread(target=act, daemon=True).start()
    except RuntimeError:  # no more threads
        free.release()
        raise
    return result


@contextmanager
def _waiting(where: str) -> Iterator[Callable[[], None]]:
    """Yields a function that ends the script if Streamlit asks for it; says it if it takes long."""
    begun, box = time.monotonic(), None

    def look() -> None:
        nonlocal box
        st.session_state.get("any")  # ends a script that is to stop or to run again
        if box is None and time.monotonic() - begun >= PATIENCE:
            box = st.empty()
            box.info(
                f"No answer yet from **{plain(where)}**. The page goes on by itself once there is "
                "one.",
                icon=":material/hourglass_top:",
            )

    yield look
    if box is not None:
        box.empty()
