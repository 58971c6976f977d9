"""What all tests share."""

from __future__ import annotations

import contextlib
import functools
import gc
import http.server
import importlib.util
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from xdist.scheduler import LoadScopeScheduling


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """The whole suite runs on all cores; what was named runs at once, in this process."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return None if whole else 0


NEEDS = {  # what is not installed with the codec, and imports that fail without it
    "torch": r"torch|demo_models|lcviz|codec\.(dcp|rerun|trainers)",
    "fsspec": "fsspec",
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m exhaustive`, files without such tests are not even imported. Where the codec is
    installed alone, files that need more are left out."""
    if not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    for library, pattern in NEEDS.items():
        imports = rf"^(import|from) ({pattern})\b"
        if re.search(imports, text, re.MULTILINE) and importlib.util.find_spec(library) is None:
            return True
    return (config.option.markexpr == "exhaustive" and "mark.exhaustive" not in text) or None


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
    """Runs all browser tests in one process: they share a server and a browser. Runs each file of
    a trainer in one process: its library is slow to import. Spreads the other tests freely.

    What `--dist loadgroup` is for, but with pytest 9.2 its marks have no effect.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/trainers/"):
            return nodeid.partition("::")[0]
        return "browser" if nodeid.startswith("tests/browser/") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Use `Scheduling`, whatever `--dist` says. Meanwhile a process compiles the kernels."""
    load = "from tests.conftest import load_kernels; load_kernels()"
    compiler = subprocess.Popen([sys.executable, "-c", load], cwd=config.rootpath)
    config.add_cleanup(compiler.wait)
    config.add_cleanup(compiler.terminate)
    return Scheduling(config, log)


# Their tests ask for nothing that only kernels do, or only they do fast enough.
WITHOUT_KERNELS = ("browser", "codec/state", "demo_models", "docs", "trainers")
WITHOUT_KERNELS += tuple(
    f"lcviz/{name}" for name in ("glossary", "learn", "report", "server", "ui")
)


def needs_kernels(item: pytest.Item) -> bool:
    """Whether a test runs with compiled functions; the others mostly run with their twins."""
    fixtures = {"kernels", "forks"} & {*getattr(item, "fixturenames", ())}
    place = item.path.relative_to(Path(__file__).parent).as_posix()
    return bool(fixtures) or not place.startswith(WITHOUT_KERNELS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs kernels comes last: in a fresh clone they are compiled meanwhile."""
    items.sort(key=needs_kernels)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Wait for the kernels where a test needs them."""
    if needs_kernels(item):
        load_kernels()


def load_kernels() -> None:
    """Load the kernels, if numba is installed. One process at a time: the first compiles them."""
    from filelock import FileLock

    import codec
    from codec.scheme import twins, warmup
    from codec.scheme.kernels import machine

    if twins.takes_compiled() or not warmup.can_load():
        return
    with FileLock(Path(machine.cache_folder() or tempfile.gettempdir(), "tests.lock")):
        codec.warm_up()


@pytest.fixture(scope="session")
def kernels() -> None:
    """For tests of compiled functions. `test_twins` compares these with their twins."""
    pytest.importorskip("numba")
    load_kernels()


@pytest.fixture(scope="session", autouse=True)
def nothing_beside() -> Iterator[None]:
    """A `Checkpointer` begins to load no kernels: which tests have them would depend on time."""
    from codec.scheme import warmup

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warmup._beside, "pid", os.getpid())  # as if it had begun
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums come out the same every time, and models as small as these are faster on one."""
    try:
        import torch  # takes seconds, and the process that only hands out tests does not need it
    except ImportError:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C interrupts this process and those that tests start, even if a shell started pytest
    in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def no_fsync() -> Iterator[None]:
    """Replace os.fsync by a function that does nothing. A few tests replace it again, to watch its
    calls or to make one fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


FORK_SECONDS = 600.0  # the longest takes 90 on a busy machine


@pytest.fixture(scope="session")
def in_fork() -> Callable[[Callable[[], Any]], tuple[int, str]]:
    """in_fork(act): run act in a fork; return its exit code and its output.

    The code is 1 after an exception, and -N if signal N ended the fork. A fork that hangs fails
    the test.
    """
    return result_of_fork


def result_of_fork(act: Callable[[], Any]) -> tuple[int, str]:
    """See `in_fork`."""
    with tempfile.TemporaryFile("w+") as printed:
        process = multiprocessing.get_context("fork").Process(
            target=run_and_print, args=(act, printed)
        )
        process.start()
        process.join(FORK_SECONDS)
        is_late = process.exitcode is None
        process.kill()
        process.join()
        printed.seek(0)
        assert not is_late, f"the fork did not end in time: {printed.read()}"
        assert process.exitcode is not None
        return process.exitcode, printed.read()


def run_and_print(act: Callable[[], Any], file: IO[str]) -> None:
    """Run act with its output in a file."""
    for descriptor in (1, 2):
        os.dup2(file.fileno(), descriptor)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
    act()


class Forked:
    """Replaces `subprocess.Popen` in asynchronous saving: a fork has the codec already.

    As with Popen, the child has no open descriptors but 0, 1, 2 and ``pass_fds``, its parent is
    this process, and it serves until a message or a signal ends it.
    """

    def __init__(self, command: Sequence[str], *, stdin: int, pass_fds: Sequence[int]) -> None:
        from codec.saving.process import serve

        assert (command[0], stdin) == (sys.executable, subprocess.DEVNULL)
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            gc.freeze()  # nothing of the tests' objects closes a descriptor of this process
            keep = {0, 1, 2, *pass_fds}
            for descriptor in map(int, os.listdir("/proc/self/fd")):
                if descriptor not in keep:
                    with contextlib.suppress(OSError):  # that of the listing itself
                        os.close(descriptor)
            os.close(0)
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free descriptor, 0
            sys.argv = ["-c", *command[3:]]
            warnings.resetwarnings()
            serve()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        """Like Popen.poll."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """Like Popen.wait."""
        return self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes that save instead of starting them, which takes a second more each: a new
    process imports numba and loads the kernels. Without /proc, nothing is replaced."""
    if not os.path.isdir("/proc/self/fd"):
        return
    from codec.saving import process

    load_kernels()
    fake_subprocess = types.SimpleNamespace(Popen=Forked, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(process, "subprocess", fake_subprocess)


class WebServer:
    """A folder behind a URL. In silence, connections are accepted and nothing is answered.

    Attributes:
        url: Of the folder.
        asked: Set by each request that is left without an answer.
    """

    def __init__(self, folder: Path) -> None:
        self.asked = threading.Event()
        self._speaks = threading.Event()
        self._speaks.set()
        handler = functools.partial(_handler_that_waits(self), directory=folder)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True  # they may hold connections that clients keep
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def fall_silent(self) -> None:
        """Answer nothing from now on."""
        self.asked.clear()
        self._speaks.clear()

    def speak(self) -> None:
        """Answer again, also what was asked meanwhile."""
        self._speaks.set()

    def wait(self) -> None:
        """Hold a request until the silence is over."""
        if not self._speaks.is_set():
            self.asked.set()
            self._speaks.wait()

    def close(self) -> None:
        """End it."""
        self.speak()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler_that_waits(server: WebServer) -> type[http.server.SimpleHTTPRequestHandler]:
    class Handler(http.server.SimpleHTTPRequestHandler):
        def send_head(self) -> Any:
            server.wait()
            return super().send_head()

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    return Handler


@pytest.fixture
def web_server(tmp_path: Path) -> Iterator[WebServer]:
    """tmp_path behind a URL, see `WebServer`."""
    server = WebServer(tmp_path)
    yield server
    server.close()
