"""reader.py against the package: every step of every chain, bit by bit."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file as load_numpy
from safetensors.torch import load_file

import codec
from codec import reader
from codec.reader import ReadError
from codec.scheme import twins
from codec.state.tensor_files import write_state
from tests.codec.chains import GOLDEN, save_all
from tests.codec.forging import resign
from tests.codec.states import changing_states, random_states, sparse_states
from tests.compaction import add_base

Arrays = dict[str, np.ndarray]
HAVE = {  # what the chain of this name is for
    "contexts": "class 254, octets",
    "edits": "edits",
    "exact": "residuals",
    "gradients": "residuals",
    "layouts": "layouts",
    "moments": "octaves, roots, sizes, small, sent last",
    "run": "class 1",
    "steps": "uniform, class 1, sent last, wide",
    "tokens": "class 0, class 1, escapes, sent last",
}


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what a reader meets: a test can see that it tests something."""
    met: Counter[str] = Counter()

    def watch(owner: Any, name: str, seen: Callable[..., Any]) -> None:
        original = getattr(owner, name)

        def watched(*args: Any, **kw: Any) -> Any:
            answer = original(*args, **kw)
            met.update(seen(answer, *args))
            return answer

        monkeypatch.setattr(owner, name, watched)

    def of_head(head: reader.Head, left: reader.Cursor, *_: Any) -> Iterator[str]:
        yield f"class {min(head.classes, 2) if head.words else head.classes}"
        yield from ["uniform"] * head.uniform
        yield from ["octets"] * (head.classes == 254 and head.units == 8)
        yield from ["streams"] * len(head.streams)
        yield from ["wide"] * (head.k > 511)
        if head.words and head.words.bits and not made.pop(id(head.words), False):
            yield "sent last"
        yield from ["other k"] * (head.words is not None and head.words.k != head.k)

    made: dict[int, bool] = {}
    watch(
        reader.Words, "__init__", lambda _, self, *args, **kw: made.update({id(self): True}) or ()
    )
    watch(reader, "head_of", of_head)
    watch(reader, "moved", lambda _, old, level, measure, unit: [measure] * (old.size > 0))
    watch(reader, "after_residual", lambda *_: ["residuals"])
    watch(reader, "edited", lambda _, text, change: ["edits"] * change.startswith("="))
    watch(reader.Track, "_set_small", lambda _, track, left, others: ["small"] * (left.at > 0))
    watch(reader.Track, "_move_layout", lambda *_: ["layouts"])
    watch(
        reader.Bits,
        "numbers",
        lambda _, bits, at, n: ["escapes"] * (n == 7 if isinstance(n, int) else 0) * at.size,
    )
    return met


def met_all(met: Counter[str], names: str) -> None:
    """What a test is for has been there."""
    assert all(met[name] > 0 for name in names.split(", ")), met


def agree(path: Path, steps: tuple[int, ...] | None = None) -> None:
    """Every step that the package restores, read by the reader: track and state."""
    chain, chain_read = codec.Chain(path), reader.Chain(path)
    assert tuple(chain_read.steps) == chain.steps
    for step in steps or chain.steps:
        position, track = chain.at(step), chain_read.track(step)
        expected = {name: array.tobytes() for name, array in position.track.arrays.items()}
        assert {name: array.tobytes() for name, array in track.arrays.items()} == expected
        assert (tuple(track.values), track.structure) == (
            position.track.values,
            position.track.layout.structure,
        )
        if not position.needs_rerun:
            same(codec.restore(path, step), reader.read(path, step))


def same(saved: Any, read: Any) -> None:
    """Equal types, dtypes, shapes and bits; a tensor of torch is an array of numpy."""
    if isinstance(saved, torch.Tensor):
        bits = saved.contiguous().reshape(-1).view(torch.uint8).numpy()
        assert (bits.tobytes(), tuple(saved.shape)) == (read.tobytes(), read.shape)
        name = str(saved.dtype).removeprefix("torch.")
        stated = (read.dtype.metadata or {}).get("dtype", "")
        names = {"BF16": "bfloat16", "C32": "complex32", "F8_E4M3": "float8_e4m3fn"}
        assert names.get(stated, stated.lower().replace("8_", "loat8_") or read.dtype.name) == name
        return
    assert type(saved) is type(read)
    if isinstance(saved, dict):
        assert list(saved) == list(read)
        for key in saved:
            same(saved[key], read[key])
    elif isinstance(saved, list | tuple):
        assert len(saved) == len(read)
        for pair in zip(saved, read):
            same(*pair)
    elif isinstance(saved, np.ndarray | np.generic):
        assert (saved.dtype, saved.shape) == (read.dtype, read.shape)
        assert saved.tobytes() == read.tobytes()
    else:
        assert saved == read or saved != saved


def written(path: Path, states: list[Any], **settings: Any) -> Path:
    """A chain of these states."""
    save_all(path, states, **settings)
    return path


@pytest.mark.parametrize("name", HAVE)
def test_golden_chains(name: str, met: Counter[str], recwarn: pytest.WarningsRecorder) -> None:
    agree(GOLDEN / f"{name}.lcc")
    met_all(met, HAVE[name])
    assert not recwarn


def test_every_golden_chain_is_read() -> None:
    assert {path.stem for path in GOLDEN.glob("*.lcc")} == set(HAVE)


TARGETS: list[dict[str, Any]] = [{"bits": bits} for bits in (None, *range(1, 9))]
TARGETS += [{"budget": 0.3}, {"budget": 0.3, "quantizer": "exponent"}, {"distance": 0.1}]
TARGETS += [{"tolerance": tolerance} for tolerance in (1e-3, 3e-5)]
CODERS, SCOPES = ("runlength", "huffman", "context"), ("model", "tensor")


@settings(max_examples=40)
@given(
    st.sampled_from(TARGETS),
    st.sampled_from(CODERS),
    st.sampled_from(SCOPES),
    st.sampled_from([None, 0.002, 0.02, 0.3]),
    st.integers(0, 10**6),
)
def test_any_chain(
    tmp_path_factory: pytest.TempPathFactory,
    target: dict[str, Any],
    coder: str,
    scope: str,
    jumps: float | None,
    seed: int,
) -> None:
    """Tensors of every numpy dtype, or of runs; NaN in one step."""
    if jumps is None:
        states = random_states(4, seed, rows=100)
        name = "wb"[seed % 2]
        states[2][name] = np.full_like(states[2][name], np.nan)
    else:
        states = sparse_states(3, seed, 1500, jumps)
    path = tmp_path_factory.mktemp("any") / "run.lcc"
    agree(written(path, states, coder=coder, scope=scope, **target))


def generated(rng: np.random.Generator, n: int) -> list[Arrays]:
    """Steps of six tensors of any shape and dtype: many or few changes, of one magnitude or of
    many; some are not finite, subnormal, or only change their sign."""
    state: Arrays = {}
    for name in "uvwxyz":
        shape = tuple(rng.integers(1, rng.choice((4, 12)), rng.integers(1, 4)))
        dtype = rng.choice(("f4", "f4", "f4", "f2", "f8", "i4", "u1"))
        if name == "u":  # so much that a budget has room for a header
            shape, dtype = (40, 50), "f4"
        state[name] = (20 * rng.standard_normal(shape)).astype("i4").astype(dtype)
    states = [state]
    for _ in range(n):
        state = {}
        for name, old in states[-1].items():
            change = rng.choice((1e-42, 1e-3, 1.0, 1e4)) * rng.standard_normal(old.shape)
            change **= rng.choice((1, 1, 3))
            change *= rng.random(old.shape) < rng.choice((0, 0.02, 0.5, 1))
            if old.dtype.kind == "f":
                state[name] = new = (old + change.astype(old.dtype)).astype(old.dtype)
                new[rng.random(old.shape) < 0.01] *= -1
                if rng.random() < 0.05:
                    new.flat[rng.integers(new.size)] = rng.choice((np.nan, np.inf, -np.inf))
            else:
                state[name] = old + change.clip(-9, 9).astype("i4").astype(old.dtype)
        states.append(state)
    return states


@pytest.mark.exhaustive
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("coder", CODERS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_kernels_numpy_and_reader_agree(tmp_path: Path, coder: str, scope: str) -> None:
    """On 2,016 generated arrays, so small that numpy codes them in context too: the same files with
    compiled functions and without them, the same states from both and from the reader."""
    pytest.importorskip("numba")
    codec.warm_up()
    for i, target in enumerate(TARGETS):
        states = generated(np.random.default_rng([len(coder), len(scope), i]), n=4)
        paths, restored = [], []
        for compiled in (True, False):
            with twins.taking(compiled):
                folder = tmp_path / f"{i}-{compiled}.lcc"
                paths.append(written(folder, states, coder=coder, scope=scope, **target))
                restored.append([codec.restore(paths[0], step) for step in range(len(states))])
        files, others = ({f.name: f.read_bytes() for f in p.iterdir()} for p in paths)
        records = [name for name in files if name.endswith(".safetensors")]
        assert len(records) >= len(states)
        assert all(files[name] == others[name] for name in records)
        same(*restored)
        agree(paths[0])


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("coder", CODERS)
def test_levels_and_matrices(tmp_path: Path, met: Counter[str], coder: str, scope: str) -> None:
    """Steps so fine that a table has not every symbol; tensors of every number of dimensions, and
    empty ones."""
    rng = np.random.default_rng(5)
    shapes = {"w": (13, 3, 4), "b": (70,), "one": (1, 40), "none": (0, 3), "col": (40, 1)}
    shapes |= {"long": (90, 60), "deep": (2, 3, 4, 5)}
    states: list[Arrays] = [{name: np.zeros(shape, np.float32) for name, shape in shapes.items()}]
    for step in range(2):
        share = 0.3 if step else 0.02
        moved = {
            k: rng.laplace(size=a.shape) * (rng.random(a.shape) < share)
            for k, a in states[-1].items()
        }
        states.append({k: np.float32(a + 0.01 * moved[k]) for k, a in states[-1].items()})
    agree(written(tmp_path / "run.lcc", states, tolerance=2e-5, coder=coder, scope=scope))
    met_all(met, {"huffman": "uniform", "runlength": "wide, escapes"}.get(coder, "class 254"))


def test_tables_that_serve_again(tmp_path: Path, met: Counter[str]) -> None:
    """One symbol, then three, then one again, all by the table made for one."""
    states = [{"w": np.zeros(60_000, np.float32)}]
    for smaller in ((), (0.25, 0.125), ()):
        w = states[-1]["w"].copy()
        w[::25] += 0.5
        w[7 : 7 + len(smaller)] += smaller
        states.append({"w": w})
    agree(written(tmp_path / "run.lcc", states, bits=2))
    met_all(met, "sent last, other k, escapes")


@pytest.mark.parametrize(("coder", "jumps"), [("runlength", 0.003), ("huffman", 1)])
def test_several_streams(tmp_path: Path, met: Counter[str], coder: str, jumps: float) -> None:
    """Neither tensors nor runs end where a stream does."""
    agree(written(tmp_path / "run.lcc", sparse_states(2, 1, 75_000, jumps, 1), bits=2, coder=coder))
    assert met["streams"] == 2 * 2  # read for the track, and for the state


@pytest.mark.parametrize("scope", SCOPES)
def test_moments_and_small_tensors(tmp_path: Path, met: Counter[str], scope: str) -> None:
    """Moments of several parameters, one of them once not finite, and the numbers of steps."""
    rng = np.random.default_rng(0)
    policy = {"emb*": "tolerance=1e-5", "head": "bits=all"}
    states = []
    for step in range(5):
        moments: dict[int, Arrays] = {}
        for i in range(8):
            m = rng.standard_normal(50).astype(np.float32) * np.float32(10.0**-i)
            moments[i] = {"step": np.array(step + (i in (2, 5)), np.float32), "exp_avg": m.copy()}
            moments[i] |= {"exp_avg_sq": m * m / 1000, "max_exp_avg_sq": m * m}
            if step == 3 and i == 0:  # the first of its alphabet
                moments[i]["exp_avg"][7] = np.inf
        model = {name: rng.standard_normal(40).astype(np.float32) for name in ("w", "v")}
        buffers = {i: {"momentum_buffer": moments[i]["exp_avg"] * 2} for i in (3, 4)}
        more = {name: rng.standard_normal(200).astype(np.float32) for name in ("emb.a", "head")}
        optimizers = {"optimizer": {"state": moments}, "opt": {"state": buffers}}
        states.append({"model": model} | optimizers | more)
    agree(written(tmp_path / "run.lcc", states, scope=scope, policy=policy))
    met_all(met, "octaves, roots, sizes, small, uniform")


@pytest.mark.parametrize("scope", SCOPES)
def test_layouts(tmp_path: Path, met: Counter[str], scope: str) -> None:
    policy = {"rows": "lossy", "half": "lossy", "new*": "lossy?"}
    path = written(tmp_path / "run.lcc", changing_states(), policy=policy, scope=scope)
    assert len(list(path.glob("*.base.*"))) == 1
    agree(path)
    met_all(met, "layouts, edits")
    flat = [{"w": np.arange(9.0)}, {"w": np.arange(9.0), "v": np.ones(3)}, {"a": {"w": np.ones(9)}}]
    agree(written(tmp_path / "flat.lcc", flat))


def of_dtype(dtype: torch.dtype, rng: np.random.Generator, step: int) -> torch.Tensor:
    """A tensor of any dtype of which a tenth changes with each step."""
    old = np.random.default_rng(7).standard_normal(3000)
    moved = old + step * 0.01 * (rng.random(3000) < 0.1) * rng.standard_normal(3000)
    if dtype.is_complex:
        return torch.complex(torch.tensor(moved), torch.tensor(old)).to(dtype)
    return torch.tensor(100 * moved if not dtype.is_floating_point else moved).to(dtype)


def test_residuals_of_every_dtype(tmp_path: Path, met: Counter[str]) -> None:
    dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128]
    dtypes += [torch.complex64, torch.bool, torch.int64, torch.int32, torch.int16, torch.int8]
    dtypes += [torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2]
    rng = np.random.default_rng(0)
    states = [{str(d): of_dtype(d, rng, step) for d in dtypes} for step in range(3)]
    for step, state in enumerate(states):
        state["far"] = torch.tensor([2**62 * (-1) ** (i + step) for i in range(999)])
        state["half"] = torch.view_as_complex(torch.zeros(7, 2, dtype=torch.float16) + step)
    agree(written(tmp_path / "run.lcc", states, policy={"*": "exact"}))
    assert met["residuals"] > 20


def test_a_training_state(tmp_path: Path) -> None:
    """Model, optimizer, random states and whatever else; half precision that is lossy, too."""
    torch.manual_seed(0)
    model, rng = torch.nn.Linear(20, 9), np.random.default_rng(0)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    policy = {"*/skipped": "skip", "half": "lossy", "short": "lossy"}
    policy |= {"mixed/exp_avg": "exact", "mixed/exp_avg_sq": "octaves=1"}
    states = []
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(4, 20)).square().sum().backward()
        optimizer.step()
        half = 300 * rng.standard_normal(400)
        states.append(
            {
                "model": {k: v.clone() for k, v in model.state_dict().items()},
                "half": torch.tensor(half).half()
                if step < 3
                else torch.full((400,), 65504.0).half(),
                "short": torch.tensor(half).bfloat16(),
                "optimizer": json_free(optimizer.state_dict()),
                "rng": [torch.get_rng_state(), rng.bit_generator.state],
                "counts": Counter("aab"),
                "mixed": {"exp_avg": torch.tensor(half).bfloat16(), "exp_avg_sq": torch.zeros(400)},
                "big": 2**70 + step,
                "odd": (step, -0.0, math.inf, b"\xff\0", bytearray(b"x"), "é\n", {1.5: True}),
                "numbers": [
                    np.float32(step),
                    torch.tensor(step),
                    np.array(1j),
                    torch.tensor(1.0).bfloat16(),
                ],
                "more": {"skipped": object(), None: []},
                "a/b~": {"": np.arange(3) + step},
            }
        )
        states[-1]["tied"] = states[-1]["model"]["weight"]
    path = written(tmp_path / "run.lcc", states, policy=policy)
    agree(path)
    read = reader.read(path)
    assert read["tied"] is read["model"]["weight"]


def json_free(state: dict[str, Any]) -> dict[str, Any]:
    """A copy of an optimizer's state, whose tensors do not change any more."""
    moments = {i: {k: v.clone() for k, v in m.items()} for i, m in state["state"].items()}
    return {"state": moments, "param_groups": state["param_groups"]}


def test_archives_and_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.lcc.zip"
    codec.pack(GOLDEN / "moments.lcc", path)
    agree(path)
    assert reader.main([str(path)]) == 0
    assert capsys.readouterr().out == "0\n1\n2\n3\n4\n"
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    assert reader.main([str(path), "--step", "3", "-o", str(ours)]) == 0
    write_state(theirs, codec.restore(path, 3), "safetensors")
    with safe_open(ours, "pt") as file:
        tree = json.loads(file.metadata()["state"])
        assert file.metadata()["step"] == "3"
    tensors = load_file(ours)
    expected = load_file(theirs)
    same(expected, {name: tensors[name].numpy() for name in expected})
    names = {leaf["t"] for _, leaf in reader.leaves(tree) if "t" in leaf}
    assert names == set(tensors) == set(expected)
    same(codec.restore(path, 3), reader.built(tree, load_numpy(ours)))
    assert [*tmp_path.glob("*.part")] == []
    with pytest.raises(SystemExit):
        reader.main([str(path), "--step", "3"])


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_rounding(dtype: str) -> None:
    """Ties go to even, subnormals too; what is finite stays finite."""
    bits = np.random.default_rng(0).integers(0, 2**32, 5000, np.uint32)
    bits[::2] &= 0xFFFF8000 if dtype == "BF16" else 0xFFFFF000
    array = bits.view(np.float32)
    array = array[~np.isnan(array)]
    t = reader.Tensor("w", dtype, [array.size], True, "torch", "")
    expected = torch.tensor(array).to({"F16": torch.float16, "BF16": torch.bfloat16}[dtype])
    largest = torch.finfo(expected.dtype).max
    beyond = torch.isinf(expected) & torch.tensor(np.isfinite(array))
    expected = torch.where(beyond, expected.sign() * largest, expected)
    assert reader.restored(array, t).tobytes() == expected.view(torch.uint8).numpy().tobytes()


def test_dtypes_of_a_written_file(tmp_path: Path) -> None:
    state = {"half": torch.ones(3).bfloat16(), "f8": torch.ones(3).to(torch.float8_e4m3fn)}
    state |= {"complex": torch.ones(2, dtype=torch.complex128), "lossy": torch.ones(99).bfloat16()}
    path = written(tmp_path / "run.lcc", [state], policy={"lossy": "lossy"})
    assert reader.main([str(path), "-o", str(tmp_path / "a.safetensors")]) == 0
    with safe_open(tmp_path / "a.safetensors", "pt") as file:
        for name in ("half", "f8", "lossy"):
            assert torch.equal(file.get_tensor(name).float(), state[name].float())
            assert file.get_tensor(name).dtype == state[name].dtype
        assert file.get_tensor("complex").tolist() == [[1, 0], [1, 0]]


def test_gradients(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A base has all. A delta has the gradients in place of weights, and says so."""
    path = GOLDEN / "gradients.lcc"
    same(codec.restore(path, 0), reader.read(path, 0))
    with pytest.warns(UserWarning, match=r"step 3 has gradients in place of newer weights"):
        state = reader.read(path, 3)
    assert state["lcc.rerun"]["steps"][0]["gradients"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert reader.main([str(path), "-o", str(tmp_path / "a.safetensors")]) == 0
    assert "step 4 has gradients" in capsys.readouterr().err


ALONE = """
import sys
sys.path.insert(0, {folder!r})
import runpy
sys.argv = ["reader.py", *{arguments!r}]
try:
    runpy.run_path({file!r}, run_name="__main__")
finally:
    others = "codec numba torch xxhash blake3 safetensors"
    assert not set(others.split()) & set(sys.modules)
"""


def test_with_numpy_alone(tmp_path: Path) -> None:
    """In a process that can import nothing else."""
    folder, output = tmp_path / "numpy-only", tmp_path / "a.safetensors"
    folder.mkdir()
    packages = Path(np.__file__).parents[1]
    for path in packages.glob("numpy*"):
        (folder / path.name).symlink_to(path)
    file = shutil.copy(reader.__file__, tmp_path)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = ALONE.format(folder=str(folder), file=str(file), arguments=arguments)
        command = [sys.executable, "-I", "-S", "-c", code]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    done = run(str(GOLDEN / "contexts.lcc"), "--step", "4", "-o", str(output))
    assert (done.returncode, done.stderr.count("digests are unchecked")) == (0, 1), done
    again = tmp_path / "again.safetensors"
    assert reader.main([str(GOLDEN / "contexts.lcc"), "-o", str(again)]) == 0
    assert output.read_bytes() == again.read_bytes()
    done = run(str(tmp_path / "nowhere.lcc"))
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path}/nowhere.lcc: No such file or directory\n"


# Faults that concern only the encoder, or readers of a part: the state is the right one.
HARMLESS = {"bits", "budget", "budget-steps", "keep", "more-empty", "tolerance"}


@pytest.mark.parametrize("fault", sorted(p.stem for p in (GOLDEN / "bad").glob("*.safetensors")))
def test_bad_records(tmp_path: Path, fault: str) -> None:
    data = (GOLDEN / "bad" / f"{fault}.safetensors").read_bytes()
    shutil.copytree(GOLDEN / "run.lcc", tmp_path / "run.lcc")
    is_base = b'"3 b 0' in data
    name = "00000000.base" if is_base else "00000001.delta"
    (tmp_path / "run.lcc" / f"{name}.safetensors").write_bytes(data)
    if fault in HARMLESS:
        same(codec.restore(GOLDEN / "run.lcc"), reader.read(tmp_path / "run.lcc"))
    else:
        with pytest.raises(
            ReadError, match=rf"^{re.escape(str(tmp_path))}/run.lcc/{name}.safetensors: "
        ):
            reader.read(tmp_path / "run.lcc", 0 if is_base else 1)


@pytest.mark.parametrize("name", sorted(p.name for p in (GOLDEN / "bad").glob("*.lcc*")))
def test_bad_chains(name: str) -> None:
    path = GOLDEN / "bad" / name
    if name in ("compressed.lcc.zip", "foreign-member.lcc.zip"):
        same(codec.restore(GOLDEN / "run.lcc"), reader.read(path))
    else:
        with pytest.raises(ReadError, match=f"^{re.escape(str(path))}"):
            reader.read(path)


def damaged(name: str) -> Iterator[tuple[Path, list[bytes]]]:
    """Of a golden chain, each record, and it with bits flipped, or cut off."""
    for path in sorted((GOLDEN / f"{name}.lcc").glob("*.safetensors")):
        data = path.read_bytes()
        positions = range(0, 8 * len(data), 8 * len(data) // 150 | 1)
        flips = [bytearray(data) for _ in positions]
        for i, flip in zip(positions, flips):
            flip[i // 8] ^= 1 << i % 8
        cuts = [data[:length] for length in range(0, len(data), len(data) // 20)]
        yield path, [*map(bytes, flips), *cuts, data + b"\0"]


@pytest.mark.filterwarnings("ignore:digests are unchecked")
@pytest.mark.parametrize("name", ["tokens", "steps", "exact", "layouts", "moments"])
def test_damage_is_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With digests, no damaged record is used. If its digest fits, the state's does not, unless the
    damage is in words and fields that a reader ignores. Without digests, damage leads to a state or
    to ReadError."""
    for _, others in damaged(name):
        for other in others:
            with pytest.raises(ReadError):
                reader.record_of(other)
    shutil.copytree(GOLDEN / f"{name}.lcc", tmp_path / "run.lcc")
    path, others = next(itertools.islice(damaged(name), 1, None))
    step, file = int(path.name[:8]), tmp_path / "run.lcc" / path.name
    whole = codec.restore(GOLDEN / f"{name}.lcc", step)

    def problem() -> str:
        """What the reader says about the record; "" for the right state, or for any unchecked."""
        try:
            state = reader.read(tmp_path / "run.lcc", step)
        except ReadError as exc:
            return str(exc)
        if reader.xxhash:
            same(whole, state)
        return ""

    problems = []
    for other in others:
        file.write_bytes(resign(other))
        problems.append(problem())
    assert sum(text.startswith(f"{file}: ") for text in problems) > 0.7 * len(others)
    monkeypatch.setattr(reader, "blake3", None)
    monkeypatch.setattr(reader, "xxhash", None)
    for other in others:
        file.write_bytes(other)
        problems.append(problem())
    assert all(text.startswith(str(tmp_path)) for text in problems if text)


def test_a_base_that_takes_a_deltas_place(tmp_path: Path) -> None:
    """Both are there; deltas follow either. A delta that is missing is named by its follower."""
    path, states = tmp_path / "run.lcc", sparse_states(5)
    save_all(path, states[:3], bits=2)
    add_base(path)
    save_all(path, states[3:], 3, resume=True)
    agree(path)
    os.remove(path / "00000003.delta.safetensors")
    with pytest.raises(ReadError, match=r"00000004\.delta.*does not follow the record before it"):
        reader.read(path)
    with pytest.raises(ReadError, match=r"has no step 3$"):
        reader.read(path, 3)
