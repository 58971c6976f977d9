"""Asynchronous saving: the same chain, whatever happens to either process."""

from __future__ import annotations

import contextlib
import errno
import mmap
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import codec
from codec.errors import DigestError, LockedError, StepOrderError
from codec.saving import background
from codec.saving.background import Background, _Outcome
from codec.saving.memory import Memory
from codec.saving.process import LOWEST
from codec.saving.saved import PendingSave
from codec.scheme.workers import threads
from codec.storage.directory import Directory
from tests.codec.chains import records_in, save_all

Patch = pytest.MonkeyPatch

Pause = Callable[[codec.Checkpointer], Callable[[], None]]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX's sockets")


def background_of(checkpoints: codec.Checkpointer) -> Background:
    """What hands states over."""
    assert isinstance(checkpoints._recorder, Background)
    return checkpoints._recorder


def child(checkpoints: codec.Checkpointer) -> int:
    """Process id of the one that saves."""
    return background_of(checkpoints)._process.pid


def answered(checkpoints: codec.Checkpointer) -> None:
    """Wait for the newest save's answer, and do not look at it."""
    newest = background_of(checkpoints)._newest
    assert newest is not None
    newest.answer.wait()


@pytest.fixture
def paused() -> Iterator[Pause]:
    """Stop the process that saves; what is returned lets it go on."""
    pids: list[int] = []

    def pause(checkpoints: codec.Checkpointer) -> Callable[[], None]:
        pids.append(child(checkpoints))
        os.kill(pids[-1], signal.SIGSTOP)
        return lambda: os.kill(pids[-1], signal.SIGCONT)

    yield pause
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def states(n: int) -> list[dict[str, Any]]:
    """Every dtype and kind of memory, and values; the shapes change once."""
    torch.manual_seed(0)
    seen = []
    for i in range(n):
        wide = torch.randn(40, 30 if i < n - 2 else 31)
        seen.append(
            {
                "model": {
                    "w": wide.T,
                    "half": torch.randn(9, 9).to(torch.bfloat16),
                    "n": wide[0, 0],
                },
                "exact": {"d": np.arange(5.0) * i, "i": np.arange(3), "e": np.zeros(0)},
                "c": torch.tensor([1j * i]),
                "bool": torch.tensor(i > 1),
                "epoch": i,
                "text": "é" * i,
            }
        )
    return seen


@pytest.mark.parametrize(
    "settings", [{"bits": 3, "scope": "tensor"}, {"tolerance": 0.01, "coder": "huffman"}]
)
def test_the_same_bytes(tmp_path: Path, settings: dict[str, Any]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with (
        codec.Checkpointer(one, **settings) as here,
        codec.Checkpointer(two, **settings, asynchronous=True) as there,
    ):
        assert there.tracker is None
        for step, state in enumerate(states(6)):
            expected, seen = here.save(step, state), there.save(step, state)
            assert (seen.step, there.step) == (step, step)
            if step % 2:  # asked for, or not
                for field in ("kind", "nbytes", "full_nbytes", "ratio"):
                    assert getattr(seen, field) == getattr(expected, field), field
                assert (seen.non_finite, seen.delta) == ((), None)
    assert records_in(one) == records_in(two)
    assert len(records_in(two)) == 6
    assert codec.verify(two).ok


def test_a_copy_is_saved(tmp_path: Path, paused: Pause) -> None:
    """What changes after `save` has returned does not reach the record; no number in a list."""
    w, x = torch.arange(9.0), torch.tensor(1.5)
    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
        go_on = paused(checkpoints)
        saved = checkpoints.save(0, {"w": w, "x": [x]})
        w += 1
        x += 1
        go_on()
        assert saved.kind == "base"
    assert codec.restore(tmp_path / "run.lcc")["w"].tolist() == list(range(9))
    assert codec.restore(tmp_path / "run.lcc")["x"] == [1.5]


def test_steps_are_skipped_while_one_is_saved(tmp_path: Path, paused: Pause) -> None:
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, asynchronous=True, when_busy="skip") as checkpoints:
        go_on = paused(checkpoints)
        first = checkpoints.save(0, {"w": np.zeros(9, np.float32)})
        second = checkpoints.save(1, {"w": np.ones(9, np.float32)})
        assert (second.kind, second.nbytes, checkpoints.step) == ("skipped", 0, 0)
        assert second.ratio == float("inf")
        go_on()
        assert first.kind == "base"
        assert checkpoints.save(1, {"w": np.ones(9, np.float32)}).kind == "delta"
    assert codec.verify(path).steps == (0, 1)


def test_tensors_wherever_they_lie(tmp_path: Path) -> None:
    """In the same place or in another one, views, other dtypes: saved is what they hold now."""
    z, w = torch.randn(20, dtype=torch.complex64), torch.arange(20.0)
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, policy={"*": "exact"}, asynchronous=True) as checkpoints:
        for i in range(4):
            w += 1
            z *= 2
            state = {
                "same": w,
                "moved": torch.arange(20.0) * i,
                "turned": w.reshape(4, 5).T,
                "half": w.half(),
                "brain": w.bfloat16(),
                "double": w.double(),
                "numbers": np.arange(20) + i,
                "imag": z.imag,
                "negative": z.conj().imag,
                "empty": torch.zeros(0),
                "parameter": torch.nn.Parameter(w[:3] * 1),
            }
            assert checkpoints.save(i, state).nbytes > 0  # it is there
            restored = codec.restore(path, i)
            for name, value in state.items():
                assert restored[name].tolist() == value.tolist(), (i, name)


def test_save_waits_for_the_one_before(tmp_path: Path, paused: Pause, monkeypatch: Patch) -> None:
    """The process that saves goes on once its answer is waited for, and not before."""
    waited, answer = [], Background._answer
    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
        go_on = paused(checkpoints)

        def noted(own: Background, request: Any) -> Any:
            waited.append(checkpoints.step)
            go_on()
            return answer(own, request)

        monkeypatch.setattr(Background, "_answer", noted)
        checkpoints.save(0, {"w": np.zeros(9, np.float32)})
        assert waited == []
        checkpoints.save(1, {"w": np.ones(9, np.float32)})
        assert waited[0] == 0
    assert codec.verify(tmp_path / "run.lcc").steps == (0, 1)


def test_every_field_waits(tmp_path: Path) -> None:
    """And every stage is timed; whichever process it was, by the clock of this one."""
    before = time.perf_counter()
    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
        for step in (0, 1):
            pending = checkpoints.save(step, {"w": np.arange(5000, dtype=np.float32) * step})
            assert isinstance(pending, PendingSave)
            saved = pending.result()
            assert type(saved) is codec.Saved
            assert saved.result() is saved
            for name in vars(saved):
                assert name in vars(PendingSave)
                assert getattr(pending, name) == getattr(saved, name)
            assert tuple(saved.stages) == ("encode", "check", "write", "advance")
            assert sum(saved.stages.values()) == pytest.approx(saved.seconds)
            assert min(saved.stages.values()) > 0
            assert 0 < saved.commit < saved.stages["write"]
            assert before < saved.began < saved.began + saved.seconds < time.perf_counter()


def test_errors_are_told_by_the_next_call(tmp_path: Path) -> None:
    """Once, and the chain goes on; whoever asked for the failed save is told as well."""
    path = tmp_path / "run.lcc"
    state = {"w": np.arange(9, dtype=np.float32)}
    with codec.Checkpointer(path, asynchronous=True) as checkpoints:
        checkpoints.save(0, state)
        (path / "00000001.delta.safetensors").write_bytes(b"")
        failed = checkpoints.save(1, state)
        with pytest.raises(StepOrderError, match=r"00000001.* exists already"):
            checkpoints.save(2, state)
        assert checkpoints.step == 0
        with pytest.raises(StepOrderError, match="exists already"):
            _ = failed.nbytes
        (path / "00000001.delta.safetensors").unlink()
        assert checkpoints.save(2, state).kind == "delta"
        (path / "00000003.delta.safetensors").write_bytes(b"")
        failed = checkpoints.save(3, state)
        with pytest.raises(StepOrderError):
            _ = failed.ratio  # told: the next call goes on
        (path / "00000003.delta.safetensors").unlink()
        checkpoints.save(4, state)
        (path / "00000005.delta.safetensors").write_bytes(b"")
        checkpoints.save(5, state)
        with pytest.raises(StepOrderError):
            checkpoints.close()
    (path / "00000005.delta.safetensors").unlink()
    assert codec.verify(path).steps == (0, 2, 4)


def test_an_error_of_another_library(tmp_path: Path, monkeypatch: Patch) -> None:
    """It says whose it was; one of the codec keeps its parts."""
    errors: list[Exception] = [MemoryError("no"), DigestError("r", "x", "y")]
    path, publish = tmp_path / "run.lcc", Directory.publish

    def failing(directory: Directory, name: str, *others: Any) -> float:
        if (step := int(name[:8])) > 0:
            raise errors[step - 1]
        return publish(directory, name, *others)

    monkeypatch.setattr(Directory, "publish", failing)
    with codec.Checkpointer(path, asynchronous=True) as checkpoints:
        checkpoints.save(0, {"w": np.zeros(9)})
        with pytest.raises(codec.WriteError, match="MemoryError: no"):
            checkpoints.save(1, {"w": np.ones(9)}).result()
        with pytest.raises(DigestError) as error:
            checkpoints.save(2, {"w": np.ones(9)}).result()
        assert (error.value.where, error.value.expected, error.value.found) == ("r", "x", "y")


def test_a_message_that_is_sent_in_part(tmp_path: Path, monkeypatch: Patch) -> None:
    """The other process ends instead of waiting for the rest; nothing waits for it."""
    no_descriptor = mock.Mock(side_effect=OSError(errno.EMFILE, "too many open files"))
    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
        _ = checkpoints.save(0, {"w": np.zeros(9)}).nbytes
        monkeypatch.setattr("codec.saving.background.send_handle", no_descriptor)
        for step in (1, 2):
            with pytest.raises(codec.WriteError, match="the process that saves has ended") as error:
                checkpoints.save(step, {"v": np.zeros(9)})
            assert step == 2 or isinstance(error.value.__cause__, OSError)
        assert checkpoints.step == 0


def test_errors_at_the_start(run: Path) -> None:
    before = records_in(run)
    for asynchronous in (False, True):
        with pytest.raises(StepOrderError, match=r"holds a chain up to step 30; .* resume=True"):
            codec.Checkpointer(run, asynchronous=asynchronous)
    with codec.Checkpointer(run, asynchronous=True, resume=True) as checkpoints:
        assert checkpoints.step == 30
        for asynchronous in (False, True):
            with pytest.raises(LockedError):
                codec.Checkpointer(run, asynchronous=asynchronous, resume=True)
    assert records_in(run) == before
    with pytest.raises(codec.SettingsError, match="when_busy must be one of wait, skip; got 'x'"):
        codec.Checkpointer(run, asynchronous=True, when_busy="x")
    for when_busy in ("wait", "skip"):
        with pytest.raises(codec.SettingsError, match=f"when_busy='{when_busy}' is for saves in"):
            codec.Checkpointer(run, when_busy=when_busy)


def end(checkpoints: codec.Checkpointer) -> None:
    """Kill the process that saves, and wait until it is gone."""
    os.kill(child(checkpoints), signal.SIGKILL)
    os.waitid(os.P_PID, child(checkpoints), os.WEXITED | os.WNOWAIT)


def test_what_was_saved_before_the_end_is_told(tmp_path: Path) -> None:
    """And the end only once, by the save that could not be handed over."""
    checkpoints = codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True)
    first, second = (checkpoints.save(i, {"n": np.array(i)}) for i in (0, 1))
    answered(checkpoints)
    end(checkpoints)
    with pytest.raises(codec.WriteError, match="has ended"):
        checkpoints.save(2, {"n": np.array(2)})
    with pytest.raises(codec.WriteError, match="nothing is saved any more"):
        checkpoints.save(3, {"n": np.array(3)})
    checkpoints.close()
    assert (first.kind, second.kind) == ("base", "delta")


@pytest.mark.parametrize("published", [False, True])
def test_a_killed_process_s_error_names_what_was_not_written(
    tmp_path: Path, paused: Pause, published: bool
) -> None:
    """Its record on disk decides, even where the answer was lost; and nothing is saved as long as
    nobody makes another one."""
    path, name = tmp_path / "run.lcc", "00000007.delta.safetensors"
    states = {step: {"n": np.array(step)} for step in (0, 7, 9)}
    save_all(tmp_path / "twin.lcc", [states[0], states[7]], stride=7)
    checkpoints = codec.Checkpointer(path, asynchronous=True)
    assert checkpoints.save(0, states[0]).kind == "base"
    paused(checkpoints)
    saved = checkpoints.save(7, states[7])
    if published:  # as if it had come so far
        (path / name).write_bytes((tmp_path / "twin.lcc" / name).read_bytes())
    end(checkpoints)
    with pytest.raises(codec.WriteError, match="SIGKILL") as error:
        _ = saved.kind
    assert ("step 7 was not written" in str(error.value)) is not published
    for _ in range(2):
        with pytest.raises(codec.WriteError, match=r"SIGKILL.*resume=True") as error:
            checkpoints.save(9, states[9])
        assert "closed" not in str(error.value)
    newest = 7 if published else 0
    assert checkpoints.step == newest, "the newest that is on disk"
    restored = checkpoints.restore()
    assert restored is not None
    assert restored["n"] == newest
    checkpoints.close()
    with codec.Checkpointer(path, asynchronous=True, resume=True) as again:
        again.save(9, states[9])
    assert codec.verify(path).steps == ((0, 7, 9) if published else (0, 9))


def test_the_end_in_the_midst_of_a_save_is_no_reason_to_skip(tmp_path: Path, paused: Pause) -> None:
    path, state = tmp_path / "run.lcc", {"n": np.array(0)}
    with codec.Checkpointer(path, asynchronous=True, when_busy="skip") as checkpoints:
        paused(checkpoints)
        lost = checkpoints.save(0, state)
        assert checkpoints.save(1, state).kind == "skipped"
        end(checkpoints)
        answered(checkpoints)
        with pytest.raises(codec.WriteError, match="has ended"):
            checkpoints.save(1, state)
        with pytest.raises(codec.WriteError, match="has ended"):
            _ = lost.kind


def test_long_answers_that_nobody_reads_are_no_reason_to_skip(tmp_path: Path) -> None:
    """Three of them do not fit into the sockets: the process that saves waits for room. Messages
    are longer than what is read at a time, there and back."""
    tensors = {f"{i:04}" + "x" * 200: torch.ones(9) for i in range(900)}
    path, saves = tmp_path / "run.lcc", {}
    with codec.Checkpointer(path, asynchronous=True, when_busy="skip") as checkpoints:
        for step in range(6):
            for tensor in tensors.values():
                tensor.fill_(torch.nan if step % 2 else step)
            state = {"model": tensors, "text": f"{step}" * 300_000}
            deadline = time.monotonic() + 3000
            while (saved := checkpoints.save(step, state)).step != checkpoints.step:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            saves[step] = saved
    assert [len(saved.non_finite) for saved in saves.values()] == [0] + [900] * 5
    assert codec.verify(path).steps == tuple(range(6))
    assert codec.restore(path, 3)["text"] == "3" * 300_000


def test_signals_are_for_the_training_to_handle(tmp_path: Path) -> None:
    """A cluster sends them to all processes of a job."""
    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
            os.kill(child(checkpoints), getattr(signal, name))
        assert checkpoints.save(0, {"n": np.array(0)}).kind == "base"
        assert checkpoints.save(1, {"n": np.array(1)}).kind == "delta"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's threads")
def test_large_states_give_way_to_the_training(tmp_path: Path, monkeypatch: Patch) -> None:
    """Small ones do not."""

    def priorities(n: int) -> list[int]:
        """Of the thread that saves, and of those that help, once n float32 were saved twice."""
        with codec.Checkpointer(tmp_path / f"{n}.lcc", asynchronous=True) as checkpoints:
            for seed in (0, 1):
                state = {"w": np.random.default_rng(seed).standard_normal(n, np.float32)}
                assert checkpoints.save(seed, state).nbytes
            tasks = Path(f"/proc/{child(checkpoints)}/task").iterdir()
            return [os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in tasks]

    monkeypatch.setattr("codec.saving.process.LARGE", large := 2**22)
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert set(priorities(large // 4 - 1)) == {mine}
    assert priorities(large // 4).count(LOWEST) >= min(threads(), 2)


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("asynchronous", [False, True])
def test_where_the_training_runs(
    tmp_path: Path, monkeypatch: Patch, asynchronous: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Modules there are none of those that are meant, whatever they are called; and it may change
    its directory. The process that saves says on its own why it writes a base."""
    for name in ("codec", "filelock", "signal"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    with codec.Checkpointer("run.lcc", asynchronous=asynchronous) as checkpoints:
        assert checkpoints.save(0, {"w": np.ones(9)}).kind == "base"
        monkeypatch.chdir("elsewhere")
        checkpoints.save(1, {"w": np.full(9, 2.0)})
        restored = checkpoints.restore()
        assert restored is not None
        assert restored["w"].tolist() == [2] * 9
        for step in (2, 3):
            assert checkpoints.save(step, {"w": np.ones(10**step)}).kind == "base"
        if asynchronous and (maps := Path(f"/proc/{child(checkpoints)}/maps")).exists():
            assert "torch" not in maps.read_text()  # seconds, and much memory
    assert codec.verify(tmp_path / "run.lcc").steps == (0, 1, 2, 3)
    assert capfd.readouterr().err.count("tensor 'w' is F64 [100]") == asynchronous


def test_without_a_process_or_memory(tmp_path: Path, monkeypatch: Patch) -> None:
    refuse = mock.Mock(side_effect=OSError(24, "Too many open files"))
    with (
        mock.patch("codec.saving.process.subprocess.Popen", refuse),
        pytest.raises(codec.WriteError, match=r"no process for saving .* Too many open"),
    ):
        codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True)
    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
        with (
            mock.patch.object(mmap, "mmap", refuse),
            pytest.raises(codec.WriteError, match=r"no shared memory of .* Too many open"),
        ):
            checkpoints.save(0, {"n": np.array(0)})
        with monkeypatch.context() as patched:  # as on other systems
            patched.delattr(os, "memfd_create", raising=False)
            patched.delattr(os, "posix_fallocate", raising=False)
            assert checkpoints.save(1, {"n": np.arange(99)}).kind == "base"
    assert codec.restore(tmp_path / "run.lcc")["n"].tolist() == list(range(99))


def train(path: Path) -> None:
    """Hand three states over, and end as the path says."""
    os.setsid()
    checkpoints = codec.Checkpointer(path, bits=2, asynchronous=True)
    w = np.zeros(2**18, np.float32)
    for step in range(3):
        checkpoints.save(step, {"w": w + step})
    if path.name == "dropped":
        del checkpoints
        return
    if os.fork() == 0:  # as a data loader that outlives the training
        signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_training_is_killed(tmp_path: Path) -> None:
    """What was handed over is written, and then the directory is free for the next one; though a
    fork still holds the line, whose end never comes."""
    pids = {}
    for name in ("fork", "dropped"):
        if not (pid := os.fork()):
            with contextlib.suppress(BaseException):
                train(tmp_path / name)
            os._exit(1)
        pids[name] = pid
    deadline = time.monotonic() + 3000
    try:
        for name, pid in pids.items():
            os.waitpid(pid, 0)
            while True:
                try:
                    checkpoints = codec.Checkpointer(tmp_path / name, resume=True)
                    break
                except LockedError:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
            assert checkpoints.step == 2
            checkpoints.close()
            assert codec.verify(tmp_path / name).steps == (0, 1, 2)
            assert (codec.restore(tmp_path / name)["w"] == 2).all()
    finally:
        for pid in pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def test_no_memory_is_left_behind(tmp_path: Path) -> None:
    def mapped() -> int:
        return sum("memfd:lcc" in os.readlink(f"/proc/self/fd/{n}") for n in descriptors())

    def descriptors() -> list[str]:
        return [n for n in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{n}")]

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system shows its descriptors elsewhere")
    before = mapped()
    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
        for step, n in enumerate((10, 10_000, 20)):
            checkpoints.save(step, {"w": np.zeros(n, np.float32)})
            assert mapped() == before + 2  # ours, and that of the mapping
    assert mapped() == before


# What interrupts the training loop.


@pytest.mark.parametrize("where", ["before", "after"])
def test_interrupted_while_a_state_is_handed_over(tmp_path: Path, where: str) -> None:
    """It is saved all the same, once, and nothing is written over what is still being read."""
    path, w, send = tmp_path / "run.lcc", torch.zeros(500_000), Background._send

    def interrupted(background: Background, request: Any) -> None:
        if request.message.step == 0 or where == "after":
            send(background, request)
        if request.message.step == 1:
            raise KeyboardInterrupt

    with codec.Checkpointer(path, bits=None, asynchronous=True) as checkpoints:
        checkpoints.save(0, {"w": w})
        with mock.patch.object(Background, "_send", interrupted), pytest.raises(KeyboardInterrupt):
            checkpoints.save(1, {"w": w + 1})
        assert checkpoints.step == 1
        saves = [checkpoints.save(i, {"w": w + i}) for i in (2, 3, 4)]
        assert [(saved.step, saved.nbytes > 0) for saved in saves] == [(i, True) for i in (2, 3, 4)]
    assert codec.verify(path).steps == (0, 1, 2, 3, 4)
    for i in range(5):
        assert torch.equal(codec.restore(path, i)["w"], w + i)


def test_a_signal_handler_raises_while_waiting(tmp_path: Path, paused: Pause) -> None:
    """Its exception arrives, whatever it is; the process that saves goes on."""
    path, w = tmp_path / "run.lcc", torch.zeros(9)
    raised = OSError(errno.ETIMEDOUT, "the training's own")
    with codec.Checkpointer(path, bits=None, asynchronous=True) as checkpoints:
        go_on = paused(checkpoints)
        saved = checkpoints.save(0, {"w": w})
        with (
            mock.patch.object(_Outcome, "wait", side_effect=raised),
            pytest.raises(OSError, match="the training's own"),
        ):
            _ = saved.nbytes
        go_on()
        assert saved.kind == "base"
        checkpoints.save(1, {"w": w + 1})
    assert codec.verify(path).steps == (0, 1)


@pytest.mark.parametrize("number", range(40))
def test_a_wait_is_interrupted_at_any_instruction(number: int) -> None:
    """Nothing stays locked, and the value still arrives. 40: more than there are."""
    outcome, left = _Outcome[str](), iter(range(number))

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in (background.__file__, threading.__file__):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and next(left, None) is None:
            sys.settrace(None)
            raise InterruptedError
        return trace

    setter = threading.Timer(0.01, outcome.set, ["saved"])
    setter.daemon = True
    setter.start()
    with contextlib.suppress(InterruptedError):
        sys.settrace(trace)
        outcome.wait()
    sys.settrace(None)
    setter.join(60)
    assert not setter.is_alive()  # else a lock is held
    outcome.set("again")  # changes nothing
    assert outcome.wait() == outcome.wait() == "saved"


def test_a_change_of_layout_that_fails(tmp_path: Path) -> None:
    """Without memory for the new one, and while it is filled: what is saved next is what it is."""
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, bits=2, asynchronous=True) as checkpoints:
        checkpoints.save(0, {"w": np.zeros(100, np.float32)})
        with (
            mock.patch.object(os, "posix_fallocate", side_effect=OSError("no")),
            pytest.raises(codec.WriteError, match="no shared memory of"),
        ):
            checkpoints.save(1, {"w": np.ones(10_000, np.float32)})
        checkpoints.save(2, {"w": np.full(100, 2, np.float32)})
        with (
            mock.patch.object(Memory, "fill", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            checkpoints.save(3, {"w": np.ones(10_000, np.float32)})
        for step in (3, 4):
            checkpoints.save(step, {"w": np.full(100, step, np.float32)})
    assert codec.verify(path).steps == (0, 2, 3, 4)
    for step in (0, 2, 3, 4):
        assert abs(codec.restore(path, step)["w"] - step).max() == 0


def test_a_fork_that_lives_on_keeps_nobody_waiting(tmp_path: Path) -> None:
    with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
        checkpoints.save(0, {"w": np.zeros(100, np.float32)})
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        process.start()
        checkpoints.close()
        assert process.is_alive()
        process.kill()
        process.join()


def test_the_loop_s_own_error_comes_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def train() -> None:
        with codec.Checkpointer(tmp_path / "run.lcc", asynchronous=True) as checkpoints:
            checkpoints.save(0, {"w": np.zeros(9)}).nbytes  # noqa: B018
            (tmp_path / "run.lcc" / "00000001.delta.safetensors").write_bytes(b"")
            checkpoints.save(1, {"w": np.ones(9)})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert "the newest save failed too" in caplog.text
