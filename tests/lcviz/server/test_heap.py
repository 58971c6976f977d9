"""What is freed leaves the process, and threads share few heaps."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lcviz.server import heap
from tests.lcviz.common import Patch

# Every other of 4,000 pieces of 100 kB is freed: glibc's heap keeps those 200 MB.
SCRIPT = """
import numpy as np
from lcviz.server.heap import give_back

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

pieces = [np.ones(12_500) for _ in range(4_000)]
full = rss()
del pieces[::2]
freed = rss()
give_back()
print(full, freed, rss())
"""

# glibc gives threads that allocate at the same time heaps of their own.
HEAPS = """
import ctypes, sys, threading
from lcviz.server import heap

if sys.argv[2] == "few":
    heap.use_few()
libc = ctypes.CDLL(None)
libc.fopen.restype = libc.malloc.restype = ctypes.c_void_p
barrier = threading.Barrier(12)

def work():
    barrier.wait()
    for _ in range(2_000):
        libc.malloc(ctypes.c_size_t(1_000))
    barrier.wait()

threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_free_pages_between_held_ones_are_given_back() -> None:
    done = subprocess.check_output([sys.executable, "-c", SCRIPT], text=True, timeout=300)
    full, freed, after = map(int, done.split())
    assert freed > full - 50e6
    assert after < full - 150e6


def test_elsewhere_nothing_is_done(monkeypatch: Patch) -> None:
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _name: object())  # a C library without it
    heap.give_back()
    heap.use_few()
    monkeypatch.setattr(heap.sys, "platform", "win32")
    monkeypatch.setattr(heap.ctypes, "CDLL", None)  # is not even asked for
    heap.give_back()
    heap.use_few()


def test_it_is_given_back_again_and_again(monkeypatch: Patch) -> None:
    given = threading.Semaphore(0)
    monkeypatch.setattr(heap, "EVERY_SECONDS", 0.001)
    monkeypatch.setattr(heap, "give_back", given.release)
    heap.give_back_regularly.cache_clear()
    before = [thread.name for thread in threading.enumerate()].count("give-back")
    heap.give_back_regularly()
    heap.give_back_regularly()
    after = [thread.name for thread in threading.enumerate()].count("give-back")
    assert after == before + 1
    for _ in range(3):
        assert given.acquire(timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_threads_share_few_heaps(tmp_path: Path) -> None:
    def heaps(which: str) -> int:
        report = tmp_path / which
        subprocess.run([sys.executable, "-c", HEAPS, str(report), which], check=True, timeout=300)
        return report.read_text().count("<heap nr=")

    assert heaps("many") > heap.HEAPS == heaps("few")
