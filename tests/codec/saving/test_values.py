"""Numbers in a state come back as what they were, and logs that grow cost what is new."""

from __future__ import annotations

import enum
import sys
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

import codec
from codec.errors import DTypeError, MalformedRecordError, StateMismatchError
from codec.record.header import digest_word
from codec.record.values import after_changes
from codec.saving.checkpointer import Front
from codec.state import tree
from codec.state.policy import Policy
from codec.state.tensors import CARRIER, layout_of
from codec.state.tree import describe_difference
from tests.bits import same
from tests.codec.chains import kinds_in, save_all
from tests.codec.forging import forge, parts_of

NUMPY = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMPY += ["float16", "float32", "float64", "complex64", "complex128"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
TORCH = [*NUMPY, "bfloat16", *FLOAT8, "complex32"]


class Color(enum.IntEnum):
    RED = 1


class Plain(enum.Enum):
    RED = 1


class Level(float): ...


class Word(str): ...


class Own(np.ndarray): ...


def again(path: Path, value: Any, **settings: Any) -> Any:
    """What a value comes back as, saved twice beside a tensor."""
    first = codec.Chain(path).steps[-1] + 1 if path.exists() else 0
    save_all(path, 2 * [{"w": np.ones(20, np.float32), "x": value}], first, resume=True, **settings)
    return codec.restore(path)


class OwnTensor(torch.Tensor): ...


class OwnOrdered(OrderedDict[str, int]): ...


@pytest.mark.parametrize(
    ("saved", "restored"),
    [
        (bytearray(b"xyz"), bytearray(b"xyz")),
        (torch.nn.Parameter(torch.ones(9)), torch.ones(9)),
        (torch.ones(9).as_subclass(OwnTensor), torch.ones(9)),
        (torch.ones(3, 4).requires_grad_().t(), torch.ones(4, 3)),
        (defaultdict(list, a=1), {"a": 1}),
        (MappingProxyType({"a": torch.ones(9)}), {"a": torch.ones(9)}),
        (OwnOrdered(a=1), OrderedDict(a=1)),
        (torch.Size([2, 3]), (2, 3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_types_come_back_as_the_reference_says(tmp_path: Path, saved: Any, restored: Any) -> None:
    seen = again(tmp_path / "run.lcc", saved)["x"]
    assert same(seen, restored)
    if isinstance(seen, torch.Tensor):
        assert seen.is_contiguous()
        assert not seen.requires_grad
    page = (Path(codec.__file__).parents[1] / "docs/reference/api.md").read_text()
    name = type(saved).__name__.replace("Own", "").replace("Ordered", "OrderedDict")
    assert type(seen) is type(saved) or name in page or isinstance(saved, MappingProxyType)


def test_numpy_scalars_keep_their_type(tmp_path: Path) -> None:
    state: dict[str, list[Any]] = {}
    for dtype in NUMPY:
        kind = np.dtype(dtype).type
        state[dtype] = [kind(0), kind(1), np.array(100 / 3).astype(kind)[()]]
        if dtype[0] in "fc":
            state[dtype] += [kind("nan"), kind("-inf"), -kind(0)]
    forms: list[Callable[[list[Any]], Any]] = [
        lambda values: {"a": values, "b": values[-1]},
        tuple,
        lambda values: values[1],
    ]
    for form in forms:
        value = {name: form(values) for name, values in state.items()}
        assert same(again(tmp_path / "run.lcc", value)["x"], value)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_tensors_without_dimensions_in_lists(tmp_path: Path) -> None:
    state = {}
    for dtype in TORCH:
        values = [torch.tensor(v).to(getattr(torch, dtype)) for v in (0.0, 1.0, 3.3)]
        state[dtype] = {"list": values, "mapping": values[1], "tuple": (values[2],)}
    assert same(again(tmp_path / "run.lcc", state)["x"], state)


def test_kinds_of_memory_of_numbers(tmp_path: Path) -> None:
    number, best = torch.tensor(2 + 3j), torch.tensor(0.5)
    values = [
        torch.nn.Parameter(best),
        torch.tensor(0.5, requires_grad=True) * 2,
        number.conj(),
        number.conj().imag,
        torch.arange(5.0)[3],
        np.arange(5.0)[3:4].reshape(()),
        np.array(7, np.uint16),
    ]
    back = again(tmp_path / "run.lcc", values)["x"]
    assert [v.tolist() for v in back] == [0.5, 1.0, 2 - 3j, -3.0, 3.0, 3.0, 7]
    assert not any(v.requires_grad for v in back[:5])
    # A log does not change with what it was appended from.
    back = again(tmp_path / "run.lcc", {"best": best, "also": best, "log": [best, best]})["x"]
    assert back["best"] is back["also"]
    assert back["log"] == [best, best]
    assert back["log"][0] is not back["log"][1]
    assert back["log"][0] is not back["best"]


@dataclass
class Best:
    path: Path
    weights: torch.Tensor


Point = namedtuple("Point", "x y")
VALUES = {  # of one's own, and how `stored` stores them
    "path": (Path("a/b"), "a/b"),
    "enum": ({"color": [Plain.RED]}, {"color": [1]}),
    "set": (OrderedDict(a={3, 1}), OrderedDict(a=[1, 3])),
    "dataclass": (Best(Path("c"), torch.ones(9)), {"path": "c", "weights": torch.ones(9)}),
    "tuple": ((Point(1, 2), 3), ({"x": 1, "y": 2}, 3)),
    "counter": (Counter(b=2), Counter(b=2)),
    "bytes": (bytearray(b"a"), bytearray(b"a")),
}


def stored(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set):
        return sorted(value)
    return vars(value) if isinstance(value, Best) else value._asdict()


@pytest.mark.parametrize("name", VALUES)
def test_values_of_ones_own(name: str, tmp_path: Path) -> None:
    """`default` says what to store in their place, deep inside too; without it they are refused."""
    value, restored = VALUES[name]
    assert same(again(tmp_path / "run.lcc", value, default=stored)["x"], restored)
    if name not in ("counter", "bytes"):
        with pytest.raises(DTypeError, match=r"'x.*store something in its place: default="):
            again(tmp_path / "run.lcc", value)


def test_what_default_does_not_get(tmp_path: Path) -> None:
    """What is skipped; patterns see what is stored. It need not end."""
    path, policy = tmp_path / "run.lcc", {"x/skipped": "skip", "x/best/path": "exact"}
    value = {"skipped": object(), "best": VALUES["dataclass"][0]}
    assert list(again(path, value, default=stored, policy=policy)["x"]) == ["best"]
    for endless in (lambda value: value, lambda value: [value]):
        with pytest.raises(StateMismatchError, match="more than 64 containers deep"):
            again(path, {1}, default=endless)


REFUSED: dict[str, Any] = {
    "MaskedArray": np.ma.masked_array([1.0, 2.0], [True, False]),
    "matrix": np.ones((1, 1)).view(np.matrix),
    "recarray": np.zeros(2).view(np.recarray),
    "Own": np.zeros(3).view(Own),
    "str_": np.str_("a"),
    "bytes_": np.bytes_(b"a"),
    "datetime64": np.datetime64("2020-01-01"),
    "timedelta64": np.timedelta64(3, "s"),
    "longdouble": np.longdouble(1),
    "clongdouble": np.clongdouble(1),
    "void": np.zeros(1, "i4,f4")[0],
    "complex": 1j,
    "Color": Color.RED,
    "Level": Level(0.5),
    "Word": Word("a"),
    "MaskedConstant": np.ma.masked,
    "object": np.array([None]),
    ">f4": np.zeros(3, ">f4"),
    "<U1": np.array(["a"]),
    "|S1": np.array([b"a"]),
    "datetime64[s]": np.zeros(2, "M8[s]"),
    "longdouble array": np.zeros(9, np.longdouble),
    ">i8": np.array(3, ">i8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_is_refused_by_name(name: str) -> None:
    value = REFUSED[name]
    expected = f"{value.dtype}" if name.endswith(" array") or name[0] in "<>|" else name
    expected = expected.replace("longdouble", type(np.longdouble(1)).__name__)
    expected = expected.split("[")[0].removeprefix("c")
    for place, holder, rest in (("x/a", {"a": value}, {}), ("x/0", [value], [None])):
        with pytest.raises(DTypeError) as caught:
            Front(Policy({})).look_at({"x": holder})
        for words in (f"'{place}'", expected, f"{{'{place}': 'skip'}}"):
            assert words in str(caught.value)
        parts, _ = Front(Policy({place: "skip"})).look_at({"x": holder})
        assert tree.unflatten(parts) == {"x": rest}


def test_a_memory_map_comes_back_as_an_array(tmp_path: Path) -> None:
    array = np.memmap(tmp_path / "data", np.float32, "w+", shape=(9,))
    array[:] = np.arange(9)
    assert same(again(tmp_path / "run.lcc", array)["x"], np.arange(9, dtype=np.float32))


def test_policies_of_numbers_in_lists(tmp_path: Path) -> None:
    value = [torch.tensor(0.5), np.float32(2), np.arange(9.0)]
    policy = {"x/0": "skip", "x/1": "exact", "x/*": "lossy"}
    assert same(again(tmp_path / "run.lcc", value, policy=policy)["x"], [None, *value[1:]])


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.lcc"
    again(path, [torch.tensor(0.5)])
    monkeypatch.setitem(sys.modules, "torch", None)
    report = codec.verify(path)
    assert (report.ok, len(report.steps)) == (True, 2)
    with pytest.raises(DTypeError, match="install torch"):
        codec.restore(path)


def log_of(n: int) -> dict[str, Any]:
    """What a loop collects in n steps, three numbers a step; and the newest eight of one."""
    x = [float(v) for v in np.random.default_rng(0).random(n)]
    losses = [torch.tensor(v, requires_grad=True).detach() for v in x]
    return {
        "loss": x,
        "single": [np.float32(v) for v in x],
        "tensors": losses,
        "best": min(x),
        "newest": losses[-8:],
    }


def state_of(n: int) -> dict[str, Any]:
    w = np.linspace(0, 1, 50, dtype=np.float32) * np.float32(1 + n / 1000)
    return {"model": {"w": w}, "log": log_of(n), "adam": {0: {"step": torch.tensor(float(n))}}}


def values_in(path: Path) -> list[int]:
    """Bytes of the values in each record."""
    chain = codec.Chain(path)
    arrays = [chain.read(entry).arrays for entry in chain.entries]
    return [sum(a.size for k, a in mine.items() if k.startswith("values")) for mine in arrays]


def test_logs_that_grow(tmp_path: Path) -> None:
    path, n = tmp_path / "run.lcc", 60
    save_all(path, map(state_of, range(1, n)), 1, restore_work=None, asynchronous=True)
    assert kinds_in(path) == "b" + "d" * (n - 2)
    sizes = values_in(path)[1:]
    assert max(sizes) < 400  # whole, the last ones would be of 4,000
    assert sum(sizes[-20:]) < 1.2 * sum(sizes[20:40])
    for step in (1, 2, 40, n - 1):
        assert same(codec.restore(path, step)["log"], log_of(step))
    assert codec.verify(path).ok


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "base" in r.getMessage()]


def test_what_forces_a_base_is_said_once_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    w = np.ones(9, np.float32)
    first: dict[str, Any] = {"model": {"w": w}, "optimizer": {"state": {}}, "epoch": 1}
    moments = {0: {"exp_avg": np.ones(9, np.float32), "exp_avg_sq": np.ones(9, np.float32)}}
    policy = {"optimizer/*": "exact"}
    with codec.Checkpointer(tmp_path / "run.lcc", base_every=2, policy=policy) as checkpoints:
        for step in range(4):  # the third delta is a base, which nothing but its time asks for
            checkpoints.save(step, first)
        assert logged(caplog) == []
        second = first | {"optimizer": {"state": moments}}
        assert checkpoints.save(4, second).kind == "base"
        (said,) = logged(caplog)
        assert "tensor 'optimizer/state/0/exp_avg' appeared" in said
        assert "step 4" in said
        for step in range(5, 9):  # what goes forces none, and what comes again was said
            checkpoints.save(step, (first, second)[step % 2])
        assert len(logged(caplog)) == 1
        for step in range(9, 13):  # each step is a base: said once
            checkpoints.save(step, {"model": {"w": w}, f"log {step}": np.ones(20)})
        assert len(logged(caplog)) == 2


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"x": np.ones(9)}, {"x": np.ones(8)}, ["'x'", "[8]", "[9]"]),
        ({"x": np.ones(9)}, {"x": torch.ones(9).double()}, ["'x'", "torch", "numpy"]),
        ({"x": np.ones(9)}, {"x": np.ones(9, np.float32)}, ["'x'", "F64", "F32"]),
        ({"x": np.ones(9), "a/b": 1}, {"x": np.ones(9), "c": [1]}, ["value 'c' appeared"]),
        ({"x": np.ones(9), "a": 1}, {"x": np.ones(9)}, ["value 'a' disappeared"]),
        ({"x": [np.ones(9)]}, {"x": (np.ones(9),)}, ["another order or type"]),
        ({"x": np.ones(9), "y": 1}, {"y": 1, "x": np.ones(9)}, ["order"]),
    ],
)
def test_what_a_base_is_forced_by(before: Any, now: Any, words: list[str]) -> None:
    """The first difference is named."""
    layouts = [Front(Policy({})).look_at(state)[1] for state in (before, now)]
    said = describe_difference(*layouts)
    assert all(word in said for word in words), said


def test_what_is_new_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Beside weights another layout is a delta; where most is new, it is a base, also of one who
    resumes."""
    weights = {"model": {"w": np.ones(100, np.float32)}}
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        checkpoints.save(0, weights | {"x": np.ones(90)})
        assert checkpoints.save(1, {"x": np.ones(91, np.float32)}).kind == "base"
        assert checkpoints.save(2, weights | {"x": np.ones(9)}).kind == "base"
    assert [text.count(": 364 of 364 bytes are new") for text in logged(caplog)] == [1, 0]
    with codec.Checkpointer(tmp_path / "run.lcc", resume=True) as checkpoints:
        assert checkpoints.save(3, weights | {"x": np.ones(8), "y": 1}).kind == "delta"
    assert len(logged(caplog)) == 2
    assert same(codec.restore(tmp_path / "run.lcc"), weights | {"x": np.ones(8), "y": 1})


def forged_edit(path: Path, edit: str) -> None:
    """A chain whose newest delta has this edit, with every digest to match."""
    save_all(path, ({"w": np.ones(9, np.float32), "x": [0.5] * n} for n in (20, 21)))
    *_, position = codec.Chain(path).replay(0)
    file = path / "00000001.delta.safetensors"
    metadata, arrays = parts_of(file.read_bytes())
    text = after_changes(position.track.values, {0: edit})
    track = replace(position.track, values=text).digest
    arrays["values"] = np.frombuffer(f"0 {edit}\n".encode(), np.uint8)
    file.write_bytes(forge(metadata | {"track": digest_word(track)}, arrays))


@pytest.mark.parametrize("edit", ["=0 1 0 ", '=0 0 7 {"l":3}', "=7 1 0 ", "=0 5 1 {", '=4 0 1 "'])
def test_an_edit_that_leads_to_no_value_is_refused(edit: str, tmp_path: Path) -> None:
    """Though every digest is right."""
    path = tmp_path / "run.lcc"
    forged_edit(path, edit)
    for read in (
        lambda: codec.restore(path, 1),
        lambda: [p.whole() for p in codec.Chain(path).replay()],
        lambda: codec.Checkpointer(path, resume=True),
        lambda: codec.compact(path),
    ):
        with pytest.raises(MalformedRecordError, match=r"00000001.*after their edits"):
            read()
    report = codec.verify(path)
    assert (report.ok, report.steps) == (False, (0,))


def test_an_edit_that_does_not_fit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.lcc"
    forged_edit(path, "=0 1 1 {")
    assert codec.restore(path, 1)["x"] == [0.5] * 20
    file = path / "00000001.delta.safetensors"
    metadata, arrays = parts_of(file.read_bytes())
    arrays["values"] = np.frombuffer(b"0 =900 1 1 {\n", np.uint8)
    file.write_bytes(forge(metadata, arrays))
    with pytest.raises(MalformedRecordError, match="up to character 901"):
        codec.restore(path, 1)
    monkeypatch.setattr("codec.record.values.MAX_TEXT", 100)
    arrays["values"] = np.frombuffer(b"0 =0 0 20 " + b"9" * 20 + b"\n", np.uint8)
    file.write_bytes(forge(metadata, arrays))
    with pytest.raises(MalformedRecordError, match="the limit is 100"):
        codec.restore(path, 1)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_every_dtype_of_a_tensor_has_its_test() -> None:
    state: dict[str, Any] = {name: np.zeros(1, name) for name in NUMPY}
    state |= {f"t{name}": torch.zeros(1).to(getattr(torch, name)) for name in TORCH}
    assert {t.dtype for t in layout_of(state).tensors} == set(CARRIER)


def test_values_that_no_base_can_hold_are_refused_in_a_delta(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the chain would grow past what its next base, or a compaction, can write."""
    monkeypatch.setattr("codec.saving.recorder.MAX_TEXT", 1000)
    log: list[int] = []
    state = {"w": np.ones(9, np.float32), "log": log, "note": "x" * 100}
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        for step in range(20):
            log += range(10)
            checkpoints.save(step, state)
        log += range(400)
        with pytest.raises(DTypeError, match="'log' alone"):
            checkpoints.save(20, state)
    assert codec.Chain(tmp_path / "run.lcc").steps == tuple(range(20))
    codec.compact(tmp_path / "run.lcc")
    assert codec.verify(tmp_path / "run.lcc").ok
