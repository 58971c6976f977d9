"""What all tests share."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m quick`, files without such tests are not even imported: half of the time."""
    if config.option.markexpr != "quick" or collection_path.suffix != ".py":
        return None
    return "pytest.mark.quick" not in collection_path.read_text(encoding="utf-8") or None


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
    """The browser's tests in one process, since they share a server and a browser, and those of a
    trainer, whose library is slow to import; others freely.

    What `--dist loadgroup` is for, but with pytest 9.2 its marks have no effect.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/trainers/"):
            return nodeid.partition("::")[0]
        return "browser" if nodeid.startswith("tests/browser/") else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """Instead of what `--dist` says.

    While the workers collect, the kernels are compiled, so that in a fresh clone they do not all
    compile the same ones side by side. What is wrong with it, the tests tell.
    """
    warm = "import codec; codec.warm_up()"
    subprocess.run([sys.executable, "-c", warm], cwd=config.rootpath, check=False)
    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums come out the same every time, and models as small as these are faster on one."""
    import torch  # seconds, which the process that only hands tests out need not wait

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C arrives here and in what tests start, also where a shell's background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def no_fsync() -> Iterator[None]:
    """No test needs what fsync does on a disk; a few look at its calls, or let one fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def in_fork() -> Callable[[Callable[[], Any]], tuple[int, str]]:
    """in_fork(act): the exit code of a fork that does it, 1 after an exception, or minus the signal
    that ended it; and all that it printed."""
    return result_of_fork


def result_of_fork(act: Callable[[], Any]) -> tuple[int, str]:
    """See `in_fork`."""
    with tempfile.TemporaryFile("w+") as printed:
        process = multiprocessing.get_context("fork").Process(target=print_to, args=(printed, act))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: none has a lock of ours
            process.start()
        process.join()
        assert process.exitcode is not None, "it has ended"
        printed.seek(0)
        return process.exitcode, printed.read()


def print_to(file: IO[str], act: Callable[[], Any]) -> None:
    """All that a fork does; it is ended after five minutes."""
    for descriptor in (1, 2):
        os.dup2(file.fileno(), descriptor)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
    signal.alarm(300)
    act()


class Forked:
    """What `subprocess.Popen` is to asynchronous saving, but a fork: the codec is there already.

    Everything else is as it would be: open descriptors are those that it is to have, its parent
    is this process, and it serves until it is told to end, or killed.
    """

    def __init__(self, command: Sequence[str], *, stdin: int, pass_fds: Sequence[int]) -> None:
        from codec.saving.process import serve

        assert (command[0], stdin) == (sys.executable, subprocess.DEVNULL)
        self.returncode: int | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: none has a lock of ours
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
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.argv = ["-c", *command[3:]]
            warnings.resetwarnings()
            serve()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        """As there."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """As there."""
        return self._wait(0)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that save are forks: a second less for each than to start one that imports numba
    and loads the kernels. How they start otherwise is for a few tests that say so."""
    if not os.path.isdir("/proc/self/fd"):
        return
    import codec
    from codec.saving import process

    codec.warm_up()
    other = types.SimpleNamespace(Popen=Forked, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(process, "subprocess", other)
