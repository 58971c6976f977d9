"""A server that stops answering holds no visitor's tab."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import codec
from lcviz.inspect import page_remote
from lcviz.inspect.page_remote import answer, open_remote
from tests.lcviz.common import SECONDS, MakePath, Patch

pytest.importorskip("aiohttp")


class Click(BaseException):
    """Ends a script, as Streamlit's own exception does."""


@pytest.fixture
def visitor(monkeypatch: Patch) -> Iterator[SimpleNamespace]:
    """This thread is a visitor's script. `on_look` is called whenever it looks; `said` by it."""
    said: list[str] = []  # "": nothing any more, also on the way to a new place
    told = SimpleNamespace(on_look=lambda: None, said=said)
    box = SimpleNamespace(info=lambda text, **_how: said.append(text))
    box.empty = lambda: (said.append(""), box)[1]
    state = SimpleNamespace(get=lambda _name: told.on_look())
    screen = SimpleNamespace(session_state=state, empty=box.empty)
    monkeypatch.setattr(page_remote, "st", screen)
    monkeypatch.setattr(page_remote, "LOOK_SECONDS", 0.01)
    me = threading.current_thread()
    here = lambda suppress_warning: me if threading.current_thread() is me else None  # noqa: E731
    monkeypatch.setattr(page_remote, "get_script_run_ctx", here)
    yield told
    page_remote._free.clear()


def test_values_and_errors_pass(visitor: SimpleNamespace) -> None:
    looks: list[int] = []
    visitor.on_look = lambda: looks.append(1)
    assert answer("here", lambda: 3) == 3
    assert looks  # also where nothing takes long
    failed = TimeoutError("of the network's own")

    def fails() -> None:
        raise failed

    with pytest.raises(TimeoutError) as caught:
        answer("here", fails)
    assert caught.value is failed
    assert visitor.said == []


def test_it_waits_until_somebody_clicks(visitor: SimpleNamespace, monkeypatch: Patch) -> None:
    """The page says so after a while, and no longer once there is an answer."""
    monkeypatch.setattr(page_remote, "PATIENCE", 0.0)
    answered, looks = threading.Event(), []

    def on_look() -> None:
        looks.append(1)
        if len(looks) == 5:
            answered.set()

    visitor.on_look = on_look
    assert answer("s3://bucket/run_1.lcc", lambda: answered.wait(SECONDS)) is True
    (_, text, last) = visitor.said
    assert text.startswith("No answer yet from **s3")
    assert "1.lcc**" in text
    assert last == ""


def test_a_click_ends_the_wait(visitor: SimpleNamespace) -> None:
    """Many visitors do not pile up requests to a place that is silent; other places go on."""
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def silent() -> None:
        begun.release()
        go_on.wait(SECONDS)

    def click() -> None:
        if len(looks) > 2:
            raise Click
        looks.append(1)

    visitor.on_look = click
    for _ in range(page_remote.MOST_REQUESTS):
        looks: list[int] = []
        with pytest.raises(Click):
            answer("silent", silent)
        assert begun.acquire(timeout=SECONDS)
    looks = []
    with pytest.raises(Click):
        answer("silent", silent)
    assert not begun.acquire(blocking=False)
    looks = []
    assert answer("other", lambda: 1) == 1
    visitor.on_look = lambda: None
    go_on.set()
    assert answer("silent", lambda: 2) == 2  # once the others have ended


def test_threads_that_no_visitor_waits_for(visitor: SimpleNamespace) -> None:
    visitor.on_look = pytest.fail
    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(threading.current_thread).result()
        assert pool.submit(answer, "here", threading.current_thread).result() is thread


def test_a_chain_behind_a_url(
    visitor: SimpleNamespace, web_server: Any, tmp_path: Path, save: MakePath
) -> None:
    """It is the same chain as a whole, in parts and as an archive; each request can be left."""
    path = save(tmp_path / "run.lcc", 0, 4)
    here = codec.Chain(path)
    here.pack(tmp_path / "run.lcc.zip")
    for name in ("run.lcc", "run.lcc.zip"):
        chain = codec.Chain(open_remote(f"{web_server.url}/{name}"))
        assert (chain.where, chain.steps) == (f"{web_server.url}/{name}", here.steps)
        assert chain.verify() == here.verify()
        assert [s for s, _ in chain.history("w")] == list(here.steps)
    with pytest.raises(codec.errors.ChainNotFoundError, match="there is no chain there"):
        codec.Chain(open_remote(f"{web_server.url}/other.lcc"))

    def click() -> None:
        if web_server.asked.is_set():
            raise Click

    chain = codec.Chain(open_remote(f"{web_server.url}/run.lcc"))
    web_server.fall_silent()
    visitor.on_look = click
    for act in (
        chain.refresh,
        lambda: chain.read(chain.entries[1]),
        lambda: codec.Chain(open_remote(f"{web_server.url}/run.lcc.zip")),
    ):
        web_server.asked.clear()
        with pytest.raises(Click):
            act()
