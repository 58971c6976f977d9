"""Threads: the same bytes from any number of them, their errors, forks, and the first use."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import codec
from codec.errors import TrackDigestError
from codec.scheme import workers
from codec.scheme.kernels import collect
from codec.scheme.twins import taking
from codec.scheme.workers import Scratch, pieces, spread

ROOT = Path(codec.__file__).resolve().parents[1]
F32 = np.float32
Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = codec.threads()
    yield
    codec.set_threads(before)


def run(arguments: list[str], *, root: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """A fresh process of Python; its numba cache is the usual one, unless env says another."""
    environment = os.environ | {"PYTHONPATH": str(root), **env}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=3000
    )


# The same bytes.


def walk(n_steps: int) -> list[Arrays]:
    """A tensor of many units, others of a few elements, and one between."""
    rng = np.random.default_rng(0)
    sizes = {"a": 9, "w": 20 * 2**16 + 77, "b": 300, "v": 2**17 - 5}
    states = [{k: rng.normal(size=n).astype(F32) for k, n in sizes.items()}]
    for i in range(n_steps):
        new = {}
        for k, a in states[-1].items():
            survives = rng.random(a.size, F32) < [0.003, 0.4][i % 2]
            delta = rng.standard_normal(a.size, F32) * survives
            delta[: a.size // 2] /= 4096  # thresholds differ from piece to piece
            new[k] = a + delta
        states.append(new)
    return states


def everything(tracker: codec.Tracker, states: list[Arrays]) -> list[bytes]:
    """All bytes of all steps, and of the track in between."""
    out = []
    for state in states:
        step = tracker.step(state)
        for group in step.groups:
            e = group.encoded
            out += [part.tobytes() for part in (e.payload.data, e.levels, e.code_lengths)]
            out += [e.payload.head, f"{e.payload.row} {e.saved_bits}".encode()]
        out += [a.tobytes() for a in tracker.state.values()]
        out.append(repr((step.sums, step.rest)).encode())
        assert step.sums == codec.scheme.track.digest_sums(tracker.track.layout, tracker.state)
    return out


SETTINGS: list[dict[str, Any]] = [
    {"bits": 3, "scope": "tensor", "coder": "huffman"},
    {"bits": None},
    {"budget": 0.01},
    {"budget": 0.01, "quantizer": "exponent"},
    {"tolerance": 0.003},
    {"distance": 0.3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_same_bytes_from_any_number_of_threads(settings: dict[str, Any]) -> None:
    first, *others = walk(2)
    made = []
    for n in (1, 3, 8):
        codec.set_threads(n)
        tracker = codec.Tracker(first, **settings)
        step = tracker.prepare(others[0])
        rebuilt = {k: a.copy() for k, a in first.items()}
        codec.apply(step, rebuilt)
        made.append(everything(tracker, others))
        assert b"".join(a.tobytes() for a in rebuilt.values()) in b"".join(made[-1])
    assert made[1:] == made[:1] * 2


# Pieces and their errors.


@pytest.mark.parametrize(
    "kind", [{}, {"least": 4}, {"step": 3}, {"most": 2}, {"least": 4, "most": 2}]
)
def test_pieces(kind: dict[str, int]) -> None:
    for n, n_threads in itertools.product((0, 1, 2, 7, 63, 64, 1000), (1, 3)):
        codec.set_threads(n_threads)
        cut = pieces(n, **kind)
        assert [i for begin, end in cut for i in range(begin, end)] == list(range(n))
        sizes = [end - begin for begin, end in cut]
        assert len(set(sizes[:-1])) <= 1
        assert all(size >= kind.get("least", 1) for size in sizes[:-1])
        if "step" in kind:
            assert set(sizes[:-1]) <= {3}
        elif "most" in kind:
            assert max(sizes, default=0) <= max(kind["most"], kind.get("least", 1))
        else:
            assert len(cut) <= workers.PIECES * n_threads


def numbers_seen(n: int) -> list[int]:
    seen: list[int] = []
    spread(lambda i, _: seen.append(i), n)
    return seen


def test_a_piece_that_was_taken_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may lose the interpreter between taking a number and comparing it. The caller finds
    none left meanwhile; it must not make it look as if there were nothing to do."""
    codec.set_threads(2)
    here = threading.get_ident()
    begun, taken, none_left = (threading.Event() for _ in range(3))
    done = []

    class Count:
        def __init__(self) -> None:
            self._numbers = itertools.count()

        def __next__(self) -> int:
            if threading.get_ident() == here:
                number = next(self._numbers)
                if number == 2:
                    none_left.set()
                return number
            begun.wait(300)
            number = next(self._numbers)
            taken.set()
            none_left.wait(300)
            time.sleep(0.05)  # and whatever the caller does then
            return number

    def work(i: int, _scratch: Scratch) -> None:
        if threading.get_ident() == here:
            begun.set()
            taken.wait(300)  # so that the last one is for the other thread
        done.append(i)

    with monkeypatch.context() as patch:
        patch.setattr(workers, "itertools", SimpleNamespace(count=Count))
        spread(work, 2)
    assert done == [0, 1]


@pytest.mark.usefixtures("kernels")
def test_a_piece_that_is_not_done_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Should it ever happen again: in what is read to check a delta, the delta is not written, and
    the error says what went wrong; in what moves the track, the next record is a base."""
    codec.set_threads(2)
    states = walk(4)
    of_read = 0
    lost = 1  # of the calls that decode a delta: one to check it, one to move the track

    def losing(work: Callable[[int, Scratch], None], n: int) -> None:
        nonlocal of_read
        if sys._getframe(1).f_code.co_name == "_read":
            assert n > 1
            of_read += 1
            n -= of_read == lost
        spread(work, n)

    monkeypatch.setattr(workers, "spread", losing)
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        checkpoints.save(0, states[0])
        with pytest.raises(TrackDigestError) as caught:
            checkpoints.save(1, states[1])
        assert re.search("another 'w'( and [12] more)?$", str(caught.value))
        assert checkpoints.save(1, states[1]).kind == "base"
        lost = of_read + 2
        assert checkpoints.save(2, states[2]).kind == "delta"
        assert "the track in memory: expected 'w' with digest" in caplog.text
        assert checkpoints.save(3, states[3]).kind == "base"
        assert checkpoints.save(4, states[4]).kind == "delta"
    assert codec.verify(tmp_path / "run.lcc").ok


def test_threads_do_not_share_scratch() -> None:
    codec.set_threads(4)
    used: dict[int, set[int]] = {}
    meet = threading.Barrier(4, timeout=300)

    def work(i: int, scratch: Scratch) -> None:
        if i < 4:
            meet.wait()
        used.setdefault(id(scratch), set()).add(threading.get_ident())

    spread(work, 40)
    assert len(used) == 4
    assert all(len(idents) == 1 for idents in used.values())


class MishapError(Exception):
    """What a piece of work may raise."""


@pytest.mark.parametrize("n_threads", [1, 5])
@pytest.mark.parametrize("failing", [(0,), (19,), tuple(range(20))], ids=len)
def test_errors_of_workers_surface(n_threads: int, failing: tuple[int, ...]) -> None:
    """In whichever thread; nothing runs on afterwards, and the next piece of work is done."""
    codec.set_threads(n_threads)
    running = 0
    lock = threading.Lock()

    def work(i: int, _scratch: Scratch) -> None:
        nonlocal running
        with lock:
            running += 1
        time.sleep(0.001)
        with lock:
            running -= 1
        if i in failing:
            raise MishapError(i)

    for _ in range(2):
        with pytest.raises(MishapError) as caught:
            spread(work, 20)
        assert caught.value.args[0] in failing
        assert running == 0
    assert sorted(numbers_seen(50)) == list(range(50))
    idle = workers._crew.idle
    assert len({id(scratch) for scratch in idle}) == len(idle)  # each given back once


def test_error_in_the_calling_thread_ends_the_others() -> None:
    codec.set_threads(3)
    here = threading.get_ident()
    begun: list[int] = []
    failed = threading.Event()

    def work(i: int, _scratch: Scratch) -> None:
        begun.append(i)
        if threading.get_ident() == here:
            failed.set()
            raise MishapError
        failed.wait(300)
        time.sleep(0.001)  # or all of them could be begun before the caller gets on

    with pytest.raises(MishapError):
        spread(work, 10_000)
    assert len(begun) < 10_000


def test_an_interrupt_waits_for_those_who_have_begun() -> None:
    """Ctrl-C while the caller waits: it leaves when nobody works on its arrays any more."""
    codec.set_threads(2)
    here = threading.get_ident()
    helping, ended = threading.Event(), threading.Event()

    def work(_i: int, _scratch: Scratch) -> None:
        if threading.get_ident() == here:
            helping.wait(300)  # so that the other thread has a piece too
            return
        helping.set()
        for _ in range(3):
            time.sleep(0.02)
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.02)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        spread(work, 2)
    assert ended.is_set()
    assert sorted(numbers_seen(9)) == list(range(9))


def test_an_interrupt_while_others_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have begun by then: nobody may leave whose arrays they work on."""
    codec.set_threads(2)
    helping, ended = threading.Event(), threading.Event()
    begun: list[int] = []

    def ask(n: int, help_out: Callable[[], None]) -> None:
        real(n, help_out)
        helping.wait(300)
        raise KeyboardInterrupt

    def work(i: int, _scratch: Scratch) -> None:
        begun.append(i)
        helping.set()
        time.sleep(0.02)
        ended.set()

    real = workers._crew.ask
    with monkeypatch.context() as patch:
        patch.setattr(workers._crew, "ask", ask)
        with pytest.raises(KeyboardInterrupt):
            spread(work, 9)
    assert ended.is_set()
    assert begun == [0]


@pytest.mark.parametrize("compiled", [True, False])
def test_arithmetic_that_readers_will_not_have(compiled: bool) -> None:
    """Flushed to zero, subnormals would lead others to another track."""
    torch = pytest.importorskip("torch")
    if compiled:
        pytest.importorskip("numba")
    codec.set_threads(2)
    state = {"w": np.linspace(1, 2, 400_000, dtype=F32) * F32(2e-38)}
    tracker = codec.Tracker({"w": np.zeros(400_000, F32)})
    try:
        torch.set_flush_denormal(True)
        for use in (tracker.step, tracker.prepare, codec.Tracker):
            refused = pytest.raises(codec.SettingsError, match=r"^this thread rounds subnormal")
            with taking(compiled), refused:
                use(state)
    finally:
        torch.set_flush_denormal(False)
    tracker.step(state)
    assert tracker.state["w"].any()


@pytest.mark.usefixtures("kernels")
def test_an_error_leaves_the_codec_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    codec.set_threads(2)
    first, second = walk(1)
    tracker = codec.Tracker(first)
    expected = everything(codec.Tracker(first), [second])
    original = collect.survivors

    def survivors(*args: Any) -> Any:
        if args[1][0] > 10:
            raise MishapError
        return original(*args)

    monkeypatch.setattr(collect, "survivors", survivors)
    before = {k: a.tobytes() for k, a in tracker.state.items()}
    with pytest.raises(MishapError):
        tracker.step(second)
    assert {k: a.tobytes() for k, a in tracker.state.items()} == before
    monkeypatch.undo()
    assert everything(tracker, [second]) == expected


def test_numbers_of_threads() -> None:
    for n in (1, 7, np.int64(3)):
        codec.set_threads(n)
        assert (codec.threads(), type(codec.threads())) == (n, int)
    for wrong in (0, -1, 1.0, "2", None, True, np.float64(2)):
        with pytest.raises(codec.SettingsError, match="the number of threads"):
            codec.set_threads(wrong)  # type: ignore[arg-type]
        assert codec.threads() == 3


# Processes.

RACE = """
import sys, threading
import numpy as np
import codec

n = 70_000
values = np.linspace(-1, 1, n, dtype=np.float32) ** 9
gate = threading.Barrier(8)
seen = {}

def work(i):
    gate.wait()
    codec.warm_up()
    coder = ("runlength", "huffman")[i % 2]
    if i < 4:
        tracker = codec.Tracker({"w": np.zeros(n, np.float32)}, coder=coder)
        tracker.commit(tracker.prepare({"w": values}))
        seen[i] = tracker.state["w"].tobytes()
    else:
        e = codec.encode(codec.quantize(values, 2), coder)
        seen[i] = codec.dequantize(codec.decode(e)).tobytes()

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(sorted(seen), len(set(seen.values())), flush=True)

import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.exhaustive
def test_first_use_raced_by_eight_threads(tmp_path: Path) -> None:
    """Into an empty cache, with every array access checked.

    And in these kernels, which numba compiles anew in every process that checks indices, the tests
    of test_stream on damage once more: it never reaches out of bounds.
    """
    which = "damage_of_every and tokens or damage_of_stream and not wide and not dense"
    tests = ["-p", "no:cacheprovider", "tests/codec/scheme/test_stream.py", "-k", which]
    cache = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_BOUNDSCHECK": "1"}
    done = run(["-W", "ignore", "-c", RACE, *tests], **cache)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stdout.startswith("[0, 1, 2, 3, 4, 5, 6, 7] 1\n" + "." * 5)
    assert any(path.suffix == ".nbi" for path in tmp_path.rglob("*"))


FORK = """
import atexit, os, threading
import numpy as np
import codec

codec.warm_up()
codec.set_threads(3)
values = np.linspace(-1, 1, 900_000, dtype=np.float32) ** 9

def made():
    tracker = codec.Tracker({"w": np.zeros_like(values)})
    step = tracker.step({"w": values})
    e = step.groups[0].encoded
    codec.decode(e)
    return e.payload.data.tobytes() + tracker.state["w"].tobytes()

expected = made()                      # the pool has begun
busy = threading.Event()
stop = threading.Event()

def keep_busy():
    while not stop.is_set():
        made()
        busy.set()

other = threading.Thread(target=keep_busy)
other.start()
busy.wait()
for _ in range(8):                     # forked while another thread is in the midst of it
    child = os.fork()
    if child == 0:
        import faulthandler
        faulthandler.dump_traceback_later(30, exit=True)
        os._exit(0 if made() == expected and codec.threads() == 3 else 1)
    status = os.waitpid(child, 0)[1]
    if status:
        print("child", status)
        break
stop.set()
other.join()

def at_the_end(who):
    print(who, made() == expected)

def go_on():
    threading.main_thread().join()
    at_the_end("thread")

at_the_end("here")
atexit.register(at_the_end, "handler")
threading.Thread(target=go_on).start()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_use_after_a_fork_and_while_the_interpreter_ends() -> None:
    """No thread can be started at the end; the last checkpoint is saved all the same."""
    done = run(["-W", "ignore::DeprecationWarning", "-c", FORK])
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines() == ["here True", "thread True", "handler True"]


def test_a_system_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no more can be started, the calling thread does everything."""

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    codec.set_threads(4)
    monkeypatch.setattr(workers._crew, "pool", None)
    monkeypatch.setattr(threading.Thread, "start", start)
    assert numbers_seen(20) == list(range(20))


READ_ONLY = """
import numpy as np
import codec
from codec.scheme.kernels import instructions
from codec.scheme.twins import PAIRS

print(codec.__file__)
print(codec.dequantize(codec.quantize(np.arange(-5, 5.0), 2)).tolist())
PAIRS["huffman.log2"].compiled(np.ones(1))
print(type(instructions.log2._cache).__name__)
"""


@pytest.mark.exhaustive
def test_read_only_install(tmp_path: Path) -> None:
    """There is no folder for a cache. The codec then has one among temporary files, but never takes
    code that others may have put there.

    A file where a folder should be made stops even root, whom permissions would not.
    """
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "codec", tmp_path / "codec", ignore=without)
    cache = tmp_path / "codec" / "scheme" / "kernels" / "__pycache__"
    cache.write_text("no folder")
    nowhere = str(cache / "below")
    places = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME"), nowhere)
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def kind_of_cache() -> str:
        done = run(["-c", READ_ONLY], root=tmp_path, TMPDIR=str(temporary), **places)
        assert done.returncode == 0, done.stderr
        place, values, kind = done.stdout.splitlines()
        assert Path(place).parent == tmp_path / "codec"
        assert values == "[-4.5, -4.5, 0.0, 0.0, 0.0, 0.0, 0.0, 2.5, 2.5, 4.0]"
        return kind

    assert kind_of_cache() == "FunctionCache"
    folder = temporary / f"lcviz-kernels-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*.nbc"))
    folder.chmod(0o777)
    assert kind_of_cache() == "NullCache"
    folder.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert kind_of_cache() == "NullCache"
