"""Some tensors of a chain without the rest: the same bits, few bytes, and every one is checked."""

from __future__ import annotations

import functools
import http.server
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

import codec
import codec.rerun
from codec.cli.main import main
from codec.errors import (
    DigestError,
    MalformedRecordError,
    RerunNeededError,
    StateMismatchError,
    TrackDigestError,
    TruncatedRecordError,
)
from codec.record import chunks, container
from codec.record import record as records
from codec.state.policy import escaped
from codec.state.selection import Selection
from tests.bits import same
from tests.codec.chains import GOLDEN, flip, kinds_in, save_all
from tests.codec.forging import refield, resign
from tests.codec.states import changing_states
from tests.compaction import add_base

Patch = pytest.MonkeyPatch

SETTINGS: dict[str, dict[str, Any]] = {
    "buckets": {"bits": 3},
    "huffman": {"bits": 2, "coder": "huffman"},
    "tensors": {"bits": 2, "scope": "tensor"},
    "steps": {"distance": 0.3},
    "tolerance": {"tolerance": 0.02},
    "budget": {"budget": 0.05},
    "contexts": {"distance": 0.3, "coder": "context"},
    "groups": {"bits": 4},
    "exact": {"policy": {"*": "exact"}},
}
ONLY = ["model/enc", "model/dec/w1", ["model/enc/w2", "model/n", "list"], "epoch", "*/w?", "opt"]


def is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray | torch.Tensor)


def holds_tensors(value: Any, listed: bool = False) -> bool:
    """Whether a tensor of the layout is in it."""
    if is_tensor(value):
        return not (listed and value.ndim == 0)
    if isinstance(value, dict):
        return any(map(holds_tensors, value.values()))
    if isinstance(value, list | tuple):
        return any(holds_tensors(child, listed=True) for child in value)
    return False


def pruned(value: Any, selects: Callable[[str], bool], name: str = "", listed: bool = False) -> Any:
    """What is selected of a state; None for nothing."""
    if is_tensor(value) or (name and not holds_tensors(value, listed)):
        return value if selects(name) else None
    if isinstance(value, dict):
        parts = {
            key: pruned(child, selects, f"{name}/{key}" if name else str(key))
            for key, child in value.items()
        }
        parts = {
            key: part
            for key, part in parts.items()
            if part is not None or selects(f"{name}/{key}" if name else str(key))
        }
        return parts or (None if name else {})
    children = [pruned(v, selects, f"{name}/{i}", listed=True) for i, v in enumerate(value)]
    return None if all(child is None for child in children) else type(value)(children)


def by_hand(state: dict[str, Any], only: Any) -> Any:
    """What a part must be, from the whole state."""
    patterns = [only] if isinstance(only, str) else only

    def selects(name: str) -> bool:
        parts = name.split("/")
        names = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        return any(fnmatchcase(n, pattern) for n in names for pattern in patterns)

    return pruned(state, selects)


@pytest.fixture
def tiny_blocks(monkeypatch: Patch) -> None:
    """Small records have blocks, and many of them."""
    for name, nbytes in (("SMALLEST", 64), ("LEAST", 128), ("FEW", 16)):
        monkeypatch.setattr(chunks, name, nbytes)
    monkeypatch.setattr(container, "_FIRST", 64)


def states(n: int = 5) -> Iterator[dict[str, Any]]:
    """Alphabets of several streams, moments, ties, small tensors, values, and a NaN."""
    rng = np.random.default_rng(0)
    enc = {f"w{i}": rng.normal(size=(300, 300 + i)).astype(np.float32) for i in range(4)}
    dec = {f"w{i}": rng.normal(size=(170, 400)).astype(np.float32) for i in range(3)}
    dec["tied"] = enc["w0"]
    moments = {
        i: {
            "exp_avg": torch.zeros(40, 40),
            "exp_avg_sq": torch.zeros(40, 40),
            "step": torch.tensor(0.0),
        }
        for i in range(6)
    }
    counts = np.arange(9_000)
    for step in range(n):
        for array in itertools.chain(enc.values(), list(dec.values())[:3]):
            moves = rng.normal(size=array.shape) * (rng.random(array.shape) < 0.6)
            array += 0.01 * moves.astype(np.float32)
        if step == 2:
            dec["w1"][0, 0] = np.nan
        elif step == 3:
            dec["w1"][0, 0] = 0
        for moment in moments.values():
            gradient = torch.from_numpy(rng.normal(size=(40, 40)).astype(np.float32))
            moment["exp_avg"] = 0.9 * moment["exp_avg"] + 0.1 * gradient
            moment["exp_avg_sq"] = 0.999 * moment["exp_avg_sq"] + 0.001 * gradient**2
            moment["step"] = moment["step"] + 1
        counts[rng.integers(0, counts.size, 500)] += 1
        groups = [{"lr": 0.1, "betas": (0.9, 0.999), "params": list(range(6))}]
        yield {
            "model": {"enc": enc, "dec": dec, "n": counts.copy()},
            "opt": {"state": moments, "param_groups": groups},
            "epoch": step,
            "log": [0.5] * (step + 1),
            "list": [step, rng.normal(size=12).astype(np.float32), ("x", np.arange(3) + step)],
        }


def saved(path: Path, **settings: Any) -> Path:
    save_all(path, states(), **settings)
    return path


SHORT = ("buckets", "exact")
LONG = [pytest.param(name, marks=pytest.mark.exhaustive) for name in SETTINGS if name not in SHORT]


@pytest.mark.parametrize("settings", [*SHORT, *LONG])
def test_the_same_bits(settings: str, tmp_path: Path) -> None:
    """As the whole state has them, at every step."""
    path = saved(tmp_path / "run.lcc", **SETTINGS[settings])
    for only in ONLY:
        part = codec.Chain(path).part(only)
        for step in (0, 2, 4):
            expected = by_hand(codec.restore(path, step), only)
            assert expected
            assert same(part.restore(step), expected), (only, step)
        steps = [(p.step, p.whole()) for p in part.replay()]
        assert [step for step, _ in steps] == list(range(5))
        assert same(steps[3][1], by_hand(codec.restore(path, 3), only))


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": 2},
        pytest.param({"bits": 2, "scope": "tensor"}, marks=pytest.mark.exhaustive),
        pytest.param({"distance": 0.2}, marks=pytest.mark.exhaustive),
    ],
)
def test_layouts_that_change(settings: dict[str, Any], tiny_blocks: None, tmp_path: Path) -> None:
    """A part is there from the step on in which its tensors come."""
    path, n_empty = tmp_path / "run.lcc", 0
    save_all(path, changing_states(), **settings)
    assert kinds_in(path) == "b" + 15 * "d"
    for only in ("w", "rows", "half", "l*", "last", "new*", ["moving", "keys", "kind"], "shape"):
        for step in range(16):
            expected = by_hand(codec.restore(path, step), only)
            if expected:
                assert same(codec.restore(path, step, only=only), expected), (only, step)
                continue
            n_empty += 1
            with pytest.raises(codec.SettingsError, match="nothing in the state has a name like"):
                codec.restore(path, step, only=only)
    assert n_empty > 10


def test_a_tie_that_changes(tiny_blocks: None, tmp_path: Path) -> None:
    """A name that another tensor gets in the middle: refused, not another tensor's values."""
    a, b = (np.full(100, value, np.float32) for value in (1, 2))
    path = tmp_path / "run.lcc"
    save_all(path, ({"a": a, "b": b, "tied": {"a": tied}} for tied in (a, b)))
    assert codec.restore(path, 0, only="tied")["tied"]["a"][0] == 1
    with pytest.raises(StateMismatchError, match="'b' is now a part of 'tied', but was not read"):
        codec.restore(path, 1, only="tied")
    assert codec.restore(path, 1, only=["tied", "b"])["tied"]["a"][0] == 2


@pytest.mark.parametrize("settings", [{"bits": 2}, {"scope": "tensor"}, {"policy": {"*": "exact"}}])
def test_a_tie_that_comes_back(settings: dict[str, Any], tmp_path: Path) -> None:
    """A tensor that was no part for a while is not taken up again with its old values."""
    a, b, c = (np.arange(300, dtype=np.float32) + i for i in range(3))
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, **settings) as checkpoints:
        for step in range(4):
            a, b, c = a + 1, b + 1, c + 1
            tied = b if step in (1, 2) else a
            checkpoints.save(step, {"a": a, "b": b, "c": c, "tied": {"x": tied}})
    only = ["tied", "b"]
    for step in range(3):
        expected = by_hand(codec.restore(path, step), only)
        assert same(codec.restore(path, step, only=only), expected)
    with pytest.raises(StateMismatchError, match="'a' is now a part of 'tied', 'b'"):
        codec.restore(path, 3, only=only)


def test_a_tie_to_a_tensor_that_grows(tmp_path: Path) -> None:
    """The record has its new rows only."""
    a, rows = np.ones(100, np.float32), np.ones((12, 10), np.float32)
    path = tmp_path / "run.lcc"
    before = {"a": a, "rows": rows[:10], "tied": {"x": a}}
    save_all(path, [before, {"a": a, "rows": rows, "tied": {"x": rows}}])
    with pytest.raises(StateMismatchError, match="'rows' is now a part of 'tied'"):
        codec.restore(path, 1, only="tied")


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_moments_by_other_names(scope: str, tmp_path: Path) -> None:
    """A first one is read with the second one beside it, of which its steps are shares."""
    rng, path = np.random.default_rng(0), tmp_path / "run.lcc"
    first, second = (np.zeros((60, 60), np.float32) for _ in range(2))
    firsts, seconds = "opt/state/0/exp_avg", "opt/state/0/exp_avg_sq"
    follower = codec.Follower(path, only="m")
    with codec.Checkpointer(path, scope=scope) as checkpoints:
        for step in range(4):
            moments = {"exp_avg": first, "exp_avg_sq": second}
            state = {"opt": {"state": {0: moments}}, "m": {"x": first}, "v": {"x": second}}
            checkpoints.save(step, state)
            scales = 10 ** rng.uniform(-3, 1, size=first.shape)
            gradient = (rng.normal(size=first.shape) * scales).astype(np.float32)
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            whole = codec.restore(path, step)
            assert step == 0 or not same(whole["m"]["x"], moments["exp_avg"])
            update = follower.update()
            assert update is not None
            assert same(update.state, by_hand(whole, "m"))
            both = {firsts, seconds}
            for part, read in (("m", both), ("v", {seconds}), (firsts, both)):
                assert same(codec.restore(path, step, only=part), by_hand(whole, part))
                assert codec.Chain(path).part(part).at(step).track.arrays.keys() == read


def test_a_first_moment_that_becomes_lossy(tmp_path: Path) -> None:
    """It needs the second one, as it was before."""
    rng, path, moment = np.random.default_rng(0), tmp_path / "run.lcc", "opt/state/0/exp_avg"
    with codec.Checkpointer(path) as checkpoints:
        for step in range(4):
            first = rng.normal(size=99).astype(np.float32 if step > 1 else np.float64)
            moments = {"exp_avg": first, "exp_avg_sq": 1 + rng.random(99, np.float32)}
            checkpoints.save(step, {"w": np.ones(5000), "opt": {"state": {0: moments}}})
            assert same(codec.restore(path, only=moment), by_hand(codec.restore(path), moment))
    assert len(list(path.glob("*.base.*"))) == 1


def test_history_of_gradients_is_refused(tmp_path: Path) -> None:
    """Their track has the weights of the base."""
    model = torch.nn.Linear(30, 20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with codec.rerun.GradientCheckpointer(tmp_path / "run.lcc", optimizer) as checkpoints:
        for step in range(2):
            model(torch.ones(5, 30)).sum().backward()
            optimizer.step()
            state = {"model": model.state_dict(), "opt": optimizer.state_dict()}
            checkpoints.save(step, state)
    history = codec.Chain(tmp_path / "run.lcc").history("model/weight")
    assert next(history)[0] == 0
    with pytest.raises(RerunNeededError):
        next(history)


def watched(chain: codec.Chain) -> list[str]:
    """The files of which it reads parts from now on, one for each request."""
    names: list[str] = []
    real = chain._source.read_spans

    def noting(name: str, spans: Any) -> list[bytes]:
        names.append(name)
        return real(name, spans)

    chain._source = replace(chain._source, read_spans=noting)
    return names


def test_few_bytes(tmp_path: Path) -> None:
    """At most twice the coded bytes of what is asked for, and a few blocks for each record."""
    rng, path = np.random.default_rng(0), tmp_path / "run.lcc"
    state = {f"{name}{i}": np.zeros(2**18, np.float32) for name in "ab" for i in range(2)}
    with codec.Checkpointer(path, bits=4) as checkpoints:
        for step in range(6):
            for array in state.values():
                array += rng.normal(size=array.size).astype(np.float32)
            checkpoints.save(step, state)
    chain = codec.Chain(path)
    n_records = len(chain.entries)
    for only, share in (("a*", 1 / 2), ("b0", 1 / 4), (["a1", "b1"], 1 / 2)):
        part = chain.part(only)
        requests = watched(part)
        chain.restore()
        part.restore()
        assert len(requests) <= 2 * n_records
        assert part.n_read == n_records
        assert chain.part(only).nbytes_read == 0
        assert part.nbytes_read < share * chain.nbytes + n_records * 6 * chunks.SMALLEST
        assert part.nbytes_read < 1.6 * share * chain.nbytes


def in_blocks(tmp_path: Path) -> Path:
    path, rng = tmp_path / "run.lcc", np.random.default_rng(0)
    shapes = {"a": (9, 20), "b": (270,)}
    state = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    state["n"] = np.arange(20)
    with codec.Checkpointer(path, bits=2, scope="tensor") as checkpoints:
        for step in range(2):
            checkpoints.save(step, state)
            for name, shape in shapes.items():
                state[name] = state[name] + rng.normal(size=shape).astype(np.float32)
            state["n"] = state["n"] + 1
    return path


@pytest.mark.parametrize("share", [29, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("step", [0, 1])
def test_a_flipped_byte_is_found(step: int, share: int, tiny_blocks: None, tmp_path: Path) -> None:
    """Where it is read; elsewhere it does no harm."""
    path = in_blocks(tmp_path)
    expected = codec.restore(path, 1, only="a")
    (file,) = path.glob(f"0000000{step}.*")
    data, n_harmless = bytearray(file.read_bytes()), 0
    n_all = 0
    for i in range(0, len(data), share):
        data[i] ^= 1 << i % 8
        file.write_bytes(data)
        data[i] ^= 1 << i % 8
        try:
            assert same(codec.restore(path, 1, only="a"), expected)
            n_harmless += 1
        except (codec.RecordError, codec.ChainError):
            n_all += 1
    assert n_all > len(data) / share / 4
    assert n_harmless > len(data) / share / 8  # those of b


def test_every_length(tiny_blocks: None, tmp_path: Path) -> None:
    path = in_blocks(tmp_path)
    (file,) = path.glob("00000001.*")
    data = file.read_bytes()
    for n in range(len(data)):
        file.write_bytes(data[:n])
        with pytest.raises(TruncatedRecordError):
            codec.restore(path, 1, only="a")


def test_a_file_that_ends_while_it_is_read(tiny_blocks: None, tmp_path: Path) -> None:
    path = in_blocks(tmp_path)
    chain = codec.Chain(path).part("b")
    real = chain._source.read_spans

    def short(name: str, spans: Any) -> list[bytes]:
        return [part[:-1] if begin else part for (begin, _), part in zip(spans, real(name, spans))]

    chain._source = replace(chain._source, read_spans=short)
    with pytest.raises(TruncatedRecordError):
        chain.restore()


def test_a_block_that_ends_early() -> None:
    parts = [memoryview(bytes(range(250)) * 400)]
    fields = chunks.fields_of(100_000, parts)
    cut = chunks.Blocks(fields, 0, 100_000, lambda spans: [bytes(e - b - 1) for b, e in spans], "x")
    with pytest.raises(TruncatedRecordError, match="expected 16384 bytes, found 16383"):
        cut.read(5, 9)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.lcc")), ids=lambda path: path.stem)
def test_the_layout_alone(path: Path, tmp_path: Path) -> None:
    """The same as after a restore, at every step, also from archives."""
    codec.pack(path, tmp_path / "copy.lcc.zip")
    for place in (path, tmp_path / "copy.lcc.zip"):
        chain = codec.Chain(place)
        for step in (*chain.steps, None):
            assert chain.layout(step) == chain.at(step).track.layout
        with pytest.raises(codec.errors.StepNotFoundError):
            chain.layout(10**6)


def test_a_layout_around_damage(tmp_path: Path) -> None:
    """A damaged base whose deltas are still there: as a restore does."""
    path = saved(tmp_path / "run.lcc", bits=4)
    layout = codec.Chain(path).layout(4)
    add_base(path)
    base = path / "00000004.base.safetensors"
    flip(base, 200)
    with pytest.warns(codec.errors.SkippedRecordWarning, match="00000004.base"):
        assert codec.Chain(path).layout(4) == layout


def test_a_layout_reads_beginnings(tmp_path: Path) -> None:
    """Every one is checked, and that each record follows the one before it."""
    path = saved(tmp_path / "run.lcc", bits=4)
    chain = codec.Chain(path)
    names = {t.name for t in chain.layout().tensors}
    assert {"model/enc/w0", "opt/state/0/exp_avg"} <= names
    assert chain.n_read == len(chain.entries) == 5
    assert chain.nbytes_read < 5 * 25_000 < chain.nbytes / 10
    (file,) = path.glob("00000003.*")
    flip(file, 200)
    with pytest.raises(codec.RecordError, match="00000003"):
        codec.Chain(path).layout()
    assert codec.Chain(path).layout(2) == chain.layout(0)
    file.unlink()
    with pytest.raises(codec.errors.ParentError, match=r"00000004\.delta.*parent"):
        codec.Chain(path).layout()


def test_a_store_that_sends_too_little(tmp_path: Path, monkeypatch: Patch) -> None:
    """No damage, but a download that was cut short."""
    path = saved(tmp_path / "run.lcc", bits=3)
    fs = fsspec.filesystem("memory")
    fs.put(str(path), "/parts/run.lcc", recursive=True)
    expected = by_hand(codec.restore(path), "model")
    assert same(codec.restore("memory://parts/run.lcc", only="model"), expected)
    real = MemoryFileSystem.cat_file

    def short(self: Any, name: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        return real(self, name, start, end, **kwargs)[: -1 if start else None]

    monkeypatch.setattr(MemoryFileSystem, "cat_file", short)
    with pytest.raises(codec.ChainError, match=r"only \d+ of \d+ bytes arrived"):
        codec.restore("memory://parts/run.lcc", 4, only="model")
    fs.rm("/parts", recursive=True)


def test_digests_of_other_blocks(tmp_path: Path) -> None:
    """`verify` finds what only readers of parts would notice."""
    path = saved(tmp_path / "run.lcc", bits=4)
    (file,) = path.glob("00000004.*")
    data = file.read_bytes()
    for pattern in (rb'"head":"(.)', rb'"chunks":"(.)'):
        at = re.search(pattern, data)
        assert at is not None
        other = b"B" if at[1] == b"A" else b"A"
        file.write_bytes(resign(data[: at.start(1)] + other + data[at.end(1) :]))
        assert codec.restore(path, 4)["epoch"] == 4
        (problem,) = codec.verify(path).problems
        assert problem.startswith("00000004.delta.safetensors: expected ")
        with pytest.raises(DigestError):
            codec.restore(path, 4, only="model")
    for field in (b"!", b"AAAA"):
        begin = data.index(b'"chunks":"') + 10
        file.write_bytes(resign(data[:begin] + field + data[begin + len(field) :]))
        with pytest.raises(codec.RecordError):
            codec.restore(path, 4, only="model")


def test_records_without_blocks(tmp_path: Path, monkeypatch: Patch) -> None:
    """The same part, from all of their bytes."""
    monkeypatch.setattr(chunks, "LEAST", 2**40)
    path = saved(tmp_path / "run.lcc", bits=3)
    monkeypatch.undo()
    part = codec.Chain(path).part("model/enc")
    assert same(part.restore(), by_hand(codec.restore(path), "model/enc"))
    assert part.nbytes_read == codec.Chain(path).nbytes
    assert codec.verify(path).ok


def test_archives(tmp_path: Path) -> None:
    path = saved(tmp_path / "run.lcc", bits=3)
    codec.pack(path, tmp_path / "run.lcc.zip")
    archive = tmp_path / "run.lcc.zip"
    part = codec.Chain(archive).part("model/dec")
    assert same(part.restore(), by_hand(codec.restore(path), "model/dec"))
    assert part.nbytes_read < codec.Chain(path).nbytes * 0.7
    flip(archive, archive.read_bytes().index(b'{"head":"') + 3000)
    with pytest.raises((codec.RecordError, codec.ChainError)):
        codec.restore(archive, 4, only="model")


@pytest.fixture(params=[True, False], ids=["with ranges", "without"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, list[int]]]:
    """A web server of tmp_path, and the bytes of each of its answers; it may ignore ranges."""
    sent: list[int] = []

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            place = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            path = Path(self.translate_path(self.path))
            if path.is_dir():
                super().do_GET()
                return
            data = path.read_bytes()
            if request.param and place:
                data = data[int(place[1]) : int(place[2]) + 1]
            sent.append(len(data))
            self.send_response(206 if request.param and place else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    handler = functools.partial(Quiet, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as mine:
        thread = threading.Thread(target=mine.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{mine.server_port}", sent
        finally:
            mine.shutdown()
            thread.join()


def test_over_http(server: tuple[str, list[int]], tmp_path: Path) -> None:
    """Ranges; or whole files, once each, from a server that does not know them."""
    path = saved(tmp_path / "run.lcc", bits=3)
    url, sent = server
    whole = codec.Chain(path)
    part = codec.Chain(f"{url}/run.lcc").part("model/enc/w1")
    assert same(part.restore(), by_hand(codec.restore(path), "model/enc/w1"))
    if len(sent) > len(whole.entries):
        assert sum(sent) < whole.nbytes / 2
        assert part.nbytes_read == sum(sent)
    else:
        assert sorted(sent) == sorted(e.nbytes for e in whole.entries)


@pytest.mark.parametrize("only", [[], 3, ["a", None], b"a", {"a": 1}.values()])
def test_what_is_no_pattern(only: Any, tmp_path: Path) -> None:
    path = saved(tmp_path / "run.lcc")
    with pytest.raises(codec.SettingsError, match="only is a pattern of names"):
        codec.restore(path, only=only)


def test_names(tmp_path: Path) -> None:
    """The nearest names are told; names with marks in them are found as they are."""
    path = tmp_path / "run.lcc"
    state = {"model": {"a[0]": np.ones(9, np.float32), "a*": np.zeros(9), "b": {"c": np.ones(3)}}}
    state["model"]["same"] = state["model"]["a*"]
    save_all(path, [state, {"model": state["model"]}])
    with pytest.raises(
        codec.SettingsError, match=r"a name like 'modle/\*'; the nearest names are 'model/a"
    ):
        codec.restore(path, only="modle/*")
    with pytest.raises(codec.SettingsError, match="a name like 'x'") as error:
        codec.restore(path, only=["model", "x"])
    assert "if . and / were the same" not in str(error.value)
    for pattern in ("model.b", "model.b.*", "*.c"):
        with pytest.raises(codec.SettingsError, match=r"'model/b/c' if \. and / were the same"):
            codec.restore(path, only=pattern)
    assert list(codec.restore(path, 0, only="model/a[0]")["model"]) == ["a[0]"]
    chain = codec.Chain(path)
    for name in ("a[0]", "a*", "same"):
        ((first, array), (second, _)) = chain.history(f"model/{name}")
        assert (first, second) == (0, 1)
        assert same(array, state["model"][name])
        assert Selection(escaped(name)).selects(name)
    for name in ("model/b", "model"):
        with pytest.raises(codec.SettingsError, match="is no tensor of the state, but has some"):
            next(chain.history(name))
    with pytest.raises(codec.SettingsError, match="a name like 'model/a'"):
        next(chain.history("model/a"))


def test_history(tmp_path: Path) -> None:
    """The values of a tensor at any steps, from each record once."""
    path = saved(tmp_path / "run.lcc", bits=3)
    expected = [codec.restore(path, step) for step in range(5)]
    models = [state["model"] for state in expected]
    seconds = [(step, expected[step]["opt"]["state"][3]["exp_avg_sq"]) for step in (1, 3)]
    for wanted, history in (
        ([*enumerate(m["enc"]["w1"] for m in models)], codec.Chain(path).history("model/enc/w1")),
        ([*enumerate(m["n"] for m in models)], codec.Chain(path).history("model/n")),
        (seconds, codec.Chain(path).history("opt/state/3/exp_avg_sq", [3, 1, 3])),
        ([], codec.Chain(path).history("model/n", [])),
    ):
        assert same(list(history), wanted)
    with pytest.raises(codec.errors.StepNotFoundError):
        list(codec.Chain(path).history("model/n", [3, 7]))
    with pytest.raises(codec.SettingsError, match="a step is an integer"):
        list(codec.Chain(path).history("model/n", [1.0]))  # type: ignore[list-item]


def test_history_begins_at_the_base_before(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    save_all(path, states(8), base_every=3)
    chain = codec.Chain(path)
    read = watched(chain)
    assert [step for step, _ in chain.history("model/n", [5, 6])] == [5, 6]
    assert sorted({int(name[:8]) for name in read}) == [4, 5, 6]


def test_on_the_command_line(tmp_path: Path) -> None:
    path, out = saved(tmp_path / "run.lcc"), tmp_path / "out.pt"
    words = ["--only", "model/enc/w?", "--only", "epoch", "-o", str(out)]
    assert main(["restore", str(path), "--step", "3", *words]) == 0
    state = torch.load(out, weights_only=False)
    assert list(state) == ["model", "epoch"]
    assert list(state["model"]["enc"]) == ["w0", "w1", "w2", "w3"]
    folder = tmp_path / "all"
    assert main(["restore", str(path), "--all", "pt", "--only", "epoch", "-o", str(folder)]) == 0
    epochs = [torch.load(file, weights_only=False) for file in sorted(folder.iterdir())]
    assert epochs == [{"epoch": step} for step in range(5)]


def test_a_follower_reads_the_model_alone(tmp_path: Path) -> None:
    module = torch.nn.Linear(500, 300)
    path = tmp_path / "run.lcc"
    moments = {i: {"exp_avg": torch.zeros(300, 500)} for i in range(3)}
    part = codec.Follower(path, module, only="model")
    nbytes = 0
    with codec.Checkpointer(path, bits=4) as checkpoints:
        for step in range(4):
            with torch.no_grad():
                module.weight.add_(0.01 * torch.randn(300, 500))
                for moment in moments.values():
                    moment["exp_avg"].add_(0.01 * torch.randn(300, 500))
            state = {"model": module.state_dict(), "opt": {"state": moments}, "step": step}
            nbytes += checkpoints.save(step, state).nbytes
            update = part.update()
            assert update is not None
            expected = codec.restore(path, step)
            assert module.weight.equal(expected["model"]["weight"])
            assert same(update.state, {"model": expected["model"]})
    assert part._chain is not None
    assert part._chain.nbytes_read < nbytes / 2
    with pytest.raises(StateMismatchError, match="only a part of the state is read, without"):
        codec.Follower(path, module, only="opt").update()


def test_the_whole_as_a_part_is_checked_as_the_whole(tmp_path: Path) -> None:
    """A part that has all tensors has the track's digest."""
    path = saved(tmp_path / "run.lcc")
    whole = codec.Chain(path).part("*").at()
    assert not whole.track.is_part
    assert whole.track.digest == codec.Chain(path).at().track.digest
    assert codec.Chain(path).part("model").at().track.is_part


def test_another_digest_of_the_track(tmp_path: Path) -> None:
    """Only a reader of all tensors can notice it."""
    path, w = tmp_path / "run.lcc", np.ones(90, np.float32)
    save_all(path, ({"w": w * step, "v": w} for step in range(2)))
    (file,) = path.glob("00000001.*")
    refield(file, track="A" * 22)
    for whole in ("*", ["w", "v"]):
        with pytest.raises(TrackDigestError):
            codec.restore(path, 1, only=whole)
    assert same(codec.restore(path, 1, only="v"), {"v": w})


@pytest.mark.parametrize("shape", [[2**28], [2**40], [2**33, 2**33], [-50]])
def test_a_layout_that_its_arrays_do_not_have(shape: list[int], tmp_path: Path) -> None:
    """Also of tensors that are not read: no memory is taken for what the file does not have."""
    path, w = tmp_path / "run.lcc", np.zeros(9_000, np.float32)
    save_all(path, [{"w": w, "v": w + 1}])
    (file,) = path.glob("*.safetensors")
    record = records.load(file.read_bytes(), file.name)
    more = {name: field for name, field in record.more.items() if name not in ("head", "chunks")}
    more["layout"][1][2] = shape
    file.write_bytes(container.seal(record.header, more, dict(record.arrays)))
    for only in (None, "w"):
        with pytest.raises(MalformedRecordError, match="expected tensor 'v' as float32"):
            codec.restore(path, only=only)


def test_a_structure_that_is_none(tmp_path: Path) -> None:
    path, w = tmp_path / "run.lcc", np.zeros(9_000, np.float32)
    save_all(path, [{"model": {"w": w}, "v": w + 1}])
    (file,) = path.glob("*.safetensors")
    record = records.load(file.read_bytes(), file.name)
    more = {name: field for name, field in record.more.items() if name not in ("head", "chunks")}
    for structure in (b"\n", b'{"d":5}', b"[]", b'{"d":[["m",{"t":99}]]}', b"null", b'{"x":1}'):
        arrays = {**record.arrays, "structure": np.frombuffer(structure, np.uint8)}
        file.write_bytes(container.seal(record.header, more, arrays))
        for step, only in itertools.product((None, 0), (None, "model")):
            with pytest.raises(MalformedRecordError, match="expected a structure"):
                codec.restore(path, step, only=only)


def test_a_tensor_that_begins_as_blocks_do(tmp_path: Path, monkeypatch: Patch) -> None:
    """In a record without blocks `more` may come later, and a tensor before it has any bytes."""
    monkeypatch.setattr(chunks, "LEAST", 2**40)
    text = np.frombuffer(chunks.OPENING + b"x" * 99_991, np.uint8)
    path = tmp_path / "run.lcc"
    save_all(path, [{"a": text}])
    monkeypatch.undo()
    (file,) = path.glob("*.safetensors")
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header, arrays = json.loads(data[8:start]), data[start:]
    begin, end = header["t/a"]["data_offsets"]
    n = end - begin
    arrays = arrays[begin:end] + arrays[:begin] + arrays[end:]
    for name, entry in header.items():
        if name == "t/a":
            entry["data_offsets"] = [0, n]
        elif name != "__metadata__" and entry["data_offsets"][0] < begin:
            entry["data_offsets"] = [offset + n for offset in entry["data_offsets"]]
    assert header["more"]["data_offsets"][0] == n
    line = json.dumps(header, separators=(",", ":")).encode().ljust(start - 8)
    file.write_bytes(resign(len(line).to_bytes(8, "little") + line + arrays))
    assert same(codec.restore(path), {"a": text})
    assert same(codec.restore(path, only="a"), {"a": text})
