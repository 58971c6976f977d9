"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import torch


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """The whole suite runs on all cores; what was named runs at once, in this process."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return None if whole else 0


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Sums come out the same every time, and models as small as these are faster on one."""
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
