"""Runs at the places that a server was told to watch: found, named, and looked at as they grow."""

import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.errors import SourceError
from lcviz.inspect import watch as watching
from lcviz.inspect import watch_paths
from lcviz.inspect.watch import Watch
from lcviz.server.allowed_paths import check_within
from tests.lcviz.common import Patch, until


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: Patch) -> None:
    monkeypatch.setattr(watching, "FRESH_SECONDS", 0.0)


def write(path: Path, steps: int = 2, seed: int = 0) -> Path:
    """A chain; one of fewer steps is continued."""
    state = {"w": np.random.default_rng(seed).normal(size=50).astype(np.float32)}
    with codec.Checkpointer(path, 2, resume=True) as chain:
        for step in range(steps):
            if chain.step is None or step > chain.step:
                chain.save(step, {"w": state["w"] + step})
    return path


def names(watch: Watch) -> list[str]:
    return [run.name for run in watch.runs()]


def steps(watch: Watch) -> list[int | None]:
    return [run.summary and len(run.summary.steps) for run in watch.runs()]


def test_what_lies_below_a_folder(tmp_path: Path) -> None:
    for name in ("run10.lcc", "run9.lcc", "a/b/deep.lcc", "a/own", ".hidden/x.lcc", "a/b/c/d.lcc"):
        write(tmp_path / name)
    (tmp_path / "run9.lcc" / "inner.lcc").mkdir()  # nobody looks into chains
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x.txt").touch()
    watch = Watch([str(tmp_path)])
    found = ["run9.lcc", "run10.lcc", "a/own", "a/b/deep.lcc"]
    assert (names(watch), steps(watch), watch.only_run) == (found, [2, 2, 2, 2], None)
    write(tmp_path / "run1.lcc", 3)
    write(tmp_path / "run9.lcc", 5)
    (tmp_path / "soon.lcc").mkdir()
    assert names(watch) == [*found, "run1.lcc", "soon.lcc"]  # the others keep their place
    assert steps(watch) == [5, 2, 2, 2, 3, None]
    shutil.rmtree(tmp_path / "run10.lcc")
    assert names(watch) == ["run9.lcc", "a/own", "a/b/deep.lcc", "run1.lcc", "soon.lcc"]
    write(tmp_path / "run10.lcc", 1, seed=1)
    assert [run.number for run in watch.runs()] == [0, 1, 2, 3, 4, 5]  # it is drawn as before
    assert steps(watch)[1] == 1


def test_several_places(tmp_path: Path, monkeypatch: Patch) -> None:
    for name in "abc":
        write(tmp_path / name / "run.lcc")
    monkeypatch.chdir(tmp_path / "a")
    places = ["run.lcc", f"{tmp_path}/b/run.lcc", f"{tmp_path}/c", "memory://x/run.lcc/"]
    watch = Watch([*places, f"{tmp_path}/a/../a/run.lcc"])
    assert names(watch) == ["run.lcc", "b/run.lcc", "c/run.lcc", "memory://x/run.lcc"]
    assert (steps(watch), watch.only_run) == ([2, 2, 2, None], None)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert steps(Watch(["~/a/run.lcc"])) == [2]


@pytest.mark.parametrize("name", ["x\0y", "~nobody-here/run.lcc", "a\udcff.lcc"])
def test_names_that_are_none(name: str, tmp_path: Path) -> None:
    (run,) = Watch([f"{tmp_path}/{name}" if name[0] != "~" else name]).runs()
    assert run.summary is None
    assert not run.problem or "a path is text" in run.problem
    assert run.name.encode()  # it can be shown


def test_a_settled_folder_is_not_listed_again(tmp_path: Path, monkeypatch: Patch) -> None:
    path = write(tmp_path / "run.lcc", 2)
    ago = time.time() - 60
    os.utime(path, (ago, ago))
    listed: list[Any] = []
    whole = codec.Chain.__init__

    def counted(self: codec.Chain, source: Any) -> None:
        listed.append(source)
        whole(self, source)

    monkeypatch.setattr(codec.Chain, "__init__", counted)
    watch = Watch([str(path)])
    for _ in range(3):
        assert steps(watch) == [2]
    assert listed == [path]
    monkeypatch.setattr(watching, "DOUBT_SECONDS", 0.0)  # now and then, for what keeps no time
    assert (steps(watch), listed) == ([2], [path, path])
    monkeypatch.undo()
    monkeypatch.setattr(watching, "FRESH_SECONDS", 0.0)
    write(path, 4)
    assert steps(watch) == [4]
    monkeypatch.setattr(watching, "FRESH_SECONDS", 60.0)  # other sessions get what is known
    assert steps(watch) == [4]
    write(path, 5)
    assert steps(watch) == [4]


def test_a_look_that_takes_long_is_rested_from(tmp_path: Path, monkeypatch: Patch) -> None:
    path = write(tmp_path / "run.lcc", 2)
    monkeypatch.setattr(watching, "FRESH_SECONDS", 1e-9)
    watch, whole = Watch([str(path)]), codec.Chain.__init__
    with monkeypatch.context() as patch:
        patch.setattr(codec.Chain, "__init__", lambda *of: (time.sleep(0.04), whole(*of))[1])
        begun = time.monotonic()
        assert steps(watch) == [2]
    write(path, 3)
    until(lambda: steps(watch) == [3])
    assert time.monotonic() - begun > 0.04 * (1 + watching.RESTING)


def test_links_lead_out_only_where_a_visitor_may_go(tmp_path: Path) -> None:
    inside, outside = tmp_path / "runs", write(tmp_path / "secret" / "other.lcc")
    write(inside / "run.lcc")
    (inside / "link.lcc").symlink_to(outside)
    (inside / "same.lcc").symlink_to(inside / "run.lcc")

    def check(folders: str, address: str = "0.0.0.0") -> list[str]:
        watch = Watch([str(inside)], lambda path: check_within([path], address, folders))
        return names(watch)

    assert check("") == check("/nowhere") == ["run.lcc", "same.lcc"]
    assert check(str(outside)) == ["link.lcc", "run.lcc", "same.lcc"]
    assert check("", "127.0.0.1") == ["link.lcc", "run.lcc", "same.lcc"]
    # A folder may be fine, and a record in it lead out.
    (record, *_) = outside.iterdir()
    (inside / "run.lcc" / record.name).unlink()
    (inside / "run.lcc" / record.name).symlink_to(record)
    watch = Watch([str(inside)], lambda path: check_within([path], "0.0.0.0", str(outside)))
    for run in watch.runs():
        assert (run.problem, len(watch.places.open(run.target).entries)) == ("", 2)
    watch = Watch([str(inside)], lambda path: check_within([path], "0.0.0.0", "/nowhere"))
    for run in watch.runs():
        assert run.summary is None
        assert run.problem.startswith(f"{record.name}: is a link to what this server does not")
        with pytest.raises(SourceError, match="is a link to what"):
            watch.places.open(run.target)
    assert len(Watch([str(outside)], lambda path: check_within([path], "", "")).runs()) == 1


def sees(watch: Watch, *states: tuple[bool, int | None, str]) -> None:
    """Look until this is so: whether a run is reached, its steps, its problem."""
    of = lambda run: (run.reached, run.summary and len(run.summary.steps), run.problem)  # noqa: E731
    until(lambda: [of(run) for run in watch.runs()] == list(states))


def test_a_silent_server_keeps_nobody_waiting(tmp_path: Path, monkeypatch: Patch) -> None:
    path = write(tmp_path / "run.lcc")
    hung, fine = (f"memory://{tmp_path.name}/{name}.lcc" for name in ("hung", "fine"))
    answers, whole, read, asked = threading.Event(), codec.Chain.__init__, list[int](), list[Any]()
    monkeypatch.setattr(watching, "DOUBT_SECONDS", 0.0)

    def slow(self: codec.Chain, source: Any) -> None:
        asked.append(source)
        if source == hung:
            assert threading.current_thread() is not threading.main_thread()
            answers.wait(300)
        whole(self, source)

    def fails(self: codec.Chain, source: Any) -> None:
        raise codec.ChainError(failed)

    failed = "cannot be listed: timed out"
    watch, state = Watch([hung, fine, str(path)]), {"w": np.zeros(5, np.float32)}
    with monkeypatch.context() as patch:
        patch.setattr(codec.Chain, "__init__", slow)
        with codec.Checkpointer(fine) as chain:
            for n in (1, 2):
                chain.save(n, state)
                sees(watch, (False, None, ""), (True, n, ""), (True, 2, ""))
        assert asked.count(hung) == 1  # nobody asks again while one still waits
        answers.set()
        sees(watch, (True, None, ""), (True, 2, ""), (True, 2, ""))  # there is nothing yet
        with codec.Checkpointer(hung) as chain:
            chain.save(0, state)
        sees(watch, (True, 1, ""), (True, 2, ""), (True, 2, ""))
        answers.clear()
        write(path, 3)
        sees(watch, (True, 1, ""), (True, 2, ""), (True, 3, ""))  # what was known of it stays
        answers.set()
    get = codec.Chain.read
    monkeypatch.setattr(codec.Chain, "read", lambda *of: (read.append(1), get(*of))[1])
    with monkeypatch.context() as patch:
        patch.setattr(codec.Chain, "__init__", fails)
        sees(watch, *((True, n, failed) for n in (1, 2, 3)))  # what was known of them stays
    sees(watch, *((True, n, "") for n in (1, 2, 3)))
    assert read == []  # what was read before is known still


def test_a_disk_that_hangs_stops_the_one_who_looks(tmp_path: Path, monkeypatch: Patch) -> None:
    path = tmp_path / "run.lcc"
    watch, goes_on, looks = Watch([str(path)]), threading.Event(), threading.Event()
    monkeypatch.setattr(watching, "FIRST_SECONDS", 0.05)
    whole = watching.read_heads

    def hangs(*of: Any) -> Any:
        looks.set()
        goes_on.wait(300)
        return whole(*of)

    monkeypatch.setattr(watching, "read_heads", hangs)
    for before, now in (([], 2), ([2], 4)):  # there is nothing until the first look has ended
        write(path, now)
        other = threading.Thread(target=watch.runs)
        other.start()
        assert looks.wait(300)
        assert steps(watch) == before
        goes_on.set()
        other.join()
        assert steps(watch) == [now]
        goes_on.clear()
        looks.clear()


def test_of_a_url_only_what_is_no_secret_is_shown(tmp_path: Path) -> None:
    urls = [
        "https://u:geheim@localhost:1/run.lcc?sig=geheim1",
        "https://u:geheim@localhost:1/run.lcc?sig=geheim2",
        "simplecache::https://u:geheim@localhost:1/run.lcc?sig=geheim",
    ]
    watch, plain = Watch(urls), "https://localhost:1/run.lcc"
    assert watch.places.printed == (plain, plain, f"simplecache::{plain}")
    assert names(watch) == ["run.lcc", plain, f"simplecache::{plain}"]
    until(lambda: all(run.reached for run in watch.runs()))
    for run, url in zip(watch.runs(), urls):
        assert run.problem.startswith(run.where)
        assert run.target == url  # else nothing could be opened
    assert "geheim" not in f"{watch.runs()} {watch.places.printed}"
    local = Watch([write(tmp_path / "run.lcc").as_uri()])
    assert (names(local), steps(local)) == (["run.lcc"], [2])


def test_what_is_above_everything_is_not_walked(tmp_path: Path, monkeypatch: Patch) -> None:
    for i in range(6):
        write(tmp_path / f"{i}" / "run.lcc", 1)
    monkeypatch.setattr(watch_paths, "MOST_FOLDERS", 4)
    assert len(Watch([str(tmp_path)]).runs()) == 3
    # Of too many those that changed last, and what was named itself.
    for i in range(6):
        os.utime(tmp_path / f"{i}" / "run.lcc", (ago := time.time() - 90 + 10 * (i == 1), ago))
    monkeypatch.setattr(watching, "MOST_RUNS", 2)
    watch = Watch([str(tmp_path), str(tmp_path / "5" / "run.lcc")])
    assert names(watch) == ["1/run.lcc", "5/run.lcc"]
    write(tmp_path / "0" / "run.lcc", 2)  # a training that was resumed
    assert names(watch) == ["5/run.lcc", "0/run.lcc"]


def test_a_long_chain_shows_what_is_read_so_far(tmp_path: Path, monkeypatch: Patch) -> None:
    url, read = f"memory://{tmp_path.name}/run.lcc", codec.Chain.read
    monkeypatch.setattr(watching, "DOUBT_SECONDS", 0.0)
    with codec.Checkpointer(url) as chain:
        for step in range(45):
            chain.save(step, {"w": np.full(9, step, np.float32)})
        goes_on, watch = threading.Event(), Watch([url])

        def slow(self: codec.Chain, entry: Any) -> Any:
            if entry.step >= 25:
                goes_on.wait(300)
            return read(self, entry)

        monkeypatch.setattr(codec.Chain, "read", slow)
        sees(watch, (True, 25, ""))
        (run,) = watch.runs()
        assert (run.unread, run.summary and run.summary.stamp) == (20, 0)  # nobody tells when
        before = time.time_ns()
        goes_on.set()
        sees(watch, (True, 45, ""))
        assert watch.runs()[0].unread == 0
        chain.save(45, {"w": np.zeros(9, np.float32)})
        sees(watch, (True, 46, ""))
        (run,) = watch.runs()
        assert run.summary is not None
        assert before < run.summary.stamp < time.time_ns()


def test_of_what_is_gone_nothing_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "a.lcc", 9)
    watch = Watch([str(tmp_path)])
    (run,) = watch.runs()
    (tmp_path / "a.lcc").rename(tmp_path / "b.lcc")
    assert names(watch) == ["b.lcc"]
    assert [len(known.heads) for known in watch._states.values()] == [0, 9]
    (tmp_path / "a.lcc").mkdir()  # another one begins under its name
    found = [(r.name, r.number, r.summary is None) for r in watch.runs()]
    assert found == [("a.lcc", run.number, True), ("b.lcc", 1, False)]


def test_what_may_be_named_instead_of_a_chain(tmp_path: Path, monkeypatch: Patch) -> None:
    path = write(tmp_path / "run.lcc")
    watch = Watch([str(record) for record in path.iterdir() if record.suffix == ".safetensors"])
    assert (names(watch), watch.places.printed, steps(watch)) == (["run.lcc"], (str(path),), [2])
    codec.Chain(path).pack(tmp_path / "x.lcc.zip")
    packed = Watch([str(tmp_path / "x.lcc.zip")])
    assert (names(packed), steps(packed), packed.runs()[0].folder) == (["x.lcc.zip"], [2], None)
    (tmp_path / "mine").mkdir()
    scan = os.scandir

    def refused(where: Any) -> Any:
        if Path(where) == tmp_path / "mine":
            raise PermissionError(13, "Permission denied", str(where))
        return scan(where)

    monkeypatch.setattr(os, "scandir", refused)
    (run,) = Watch([str(tmp_path / "mine")]).runs()
    assert "cannot be listed: [Errno 13] Permission denied" in run.problem
