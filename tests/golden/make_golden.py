"""Makes the files of this folder. Run by hand, never by a test:

    python tests/golden/make_golden.py

Every later version of the codec must read these chains. The tests compare against the stored
bytes, so a run of this script that changes a file is a change of the format:
`git diff --stat tests/golden` must be empty unless codec/FORMAT.md got a new version number.

run.lcc/                       a tiny chain: the worked example of the paper as one delta
tokens.lcc/                    runs of zeros: a table, twice the one sent last, a budget
edits.lcc/                     values that grow: edits and single numbers
steps.lcc/                     uniform steps: targets of a policy, wide codes, a tensor that is not
                               finite, budgets; each kind of payload; a base with a wide table
exact.lcc/                     exact tensors of many dtypes that change: residuals
moments.lcc/                   optimizers' moments in each measure; small tensors, equal ones
layouts.lcc/                   tensors and values that come, grow and go: edits of the layout
contexts.lcc/                  context codes of buckets, in either scope, and of steps
gradients.lcc/                 gradients of an optimizer's steps: clipped, absent, two in one record
bad/*.safetensors              one broken record for each fault, named after it
bad/*.lcc.zip, bad/*.lcc/      broken archives and chains
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import runpy
import shutil
import struct
import sys
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
os.environ["ATEN_CPU_CAPABILITY"] = "default"  # the same on every processor, but for square roots

import numpy as np  # noqa: E402
from safetensors.numpy import save  # noqa: E402

import codec  # noqa: E402
from codec.scheme import coders, huffman  # noqa: E402
from tests.compaction import add_base  # noqa: E402

HELPERS = runpy.run_path(str(HERE.parent / "codec" / "conftest.py"))
PAPER = [0.76, -0.48, 0.2, 0.07, 0.18, 0.49, 0.14, 0.39, 0.82, 0.09]


# Name, field and its word.
FAULTS = "version-2 format 2, version-4 format 4, version-0 format 0, letters-kind kind x, "
FAULTS += "letters-base kind b, "
FAULTS += "letters-scope scope x, letters-coder coder x, letters-more coder h1, keep keep v0.01, "
FAULTS += f"parent-letters parent {'/' * 22}, parent-bits parent {'B' * 22}, bits keep 9, "
FAULTS += "tolerance keep t1e-40, budget-steps keep u1.5, budget keep 1.5, step step -1, "
FAULTS += f"words scope model of mine, track track {'A' * 22}"


def main() -> None:
    """Write everything anew."""
    bad = HERE / "bad"
    shutil.rmtree(bad, ignore_errors=True)
    bad.mkdir()
    for name, write in WRITERS.items():
        shutil.rmtree(HERE / f"{name}.lcc", ignore_errors=True)
        write(HERE / f"{name}.lcc")
        (HERE / f"{name}.lcc" / ".lock").unlink()
    base_path, delta_path = sorted((HERE / "run.lcc").iterdir())
    base, delta = base_path.read_bytes(), delta_path.read_bytes()

    def put(name: str, data: bytes) -> None:
        (bad / f"{name}.safetensors").write_bytes(data)

    put("foreign", save({"w": np.zeros(4, np.float32)}))
    put("foreign-random", bytes(range(1, 65)))
    put("truncated", delta[:-1])
    put("truncated-header", delta[:100])
    put("longer", delta + b"\0")
    for fault in FAULTS.split(", "):
        name, field, value = fault.split(" ", 2)
        put(name, forge(delta, {field: value}))
    steps = {"keep": "t0.01"}
    put("steps-levels", forge(delta, steps, steps_coded(0)))
    put("steps-none", forge(delta, steps, steps_coded(10, size=0.0)))
    put("steps-negative", forge(delta, steps, steps_coded(10, size=-0.25)))
    put("steps-nan", forge(delta, steps, steps_coded(10, size=np.nan)))
    put("steps-beyond", forge(delta, steps, steps_coded(10, size=1e38)))
    put("steps-table", forge(delta, steps, steps_coded(4097)))
    put("steps-symbol", forge(delta, steps, steps_escaped(3, 4)))
    put("steps-sent", forge(base, {"sent": [["", 2048, 2, 2]]}, {"sent": packed(1, 1)}))
    put("context-levels", forge(delta, steps, context(k=1)))
    put("context-symbol", forge(delta, steps, context(k=3)))
    put("context-same", forge(delta, arrays=context(levels=(0.75, 0.5))))
    put("context-size", forge(delta, steps, context(levels=(0.0,))))
    put("context-zero", forge(delta, steps, context(code=(*CODE, 0))))
    put("context-late", forge(delta, steps, context(code=(*CODE, *[1] * 9))))
    put("context-beyond", forge(delta, steps, context(sizes=(100,))))
    put("context-list", forge(delta, steps, context(sizes=(4, 0))))
    put("context-units", forge(delta, steps, context(units=3)))
    put("context-other", forge(delta, steps, context(code=(*CODE[:3], 158))))
    put("edit-number", forge(delta, arrays={"values": text("0 =0 00 1 1\n")}))
    put("edit-early", forge(delta, arrays={"values": text("0 =0 0 2 1\n")}))
    put("edit-base", forge(base, arrays={"values": text("0 =0 0 1 1\n")}))
    without = forge(delta, without=("t/n",))
    put("residual-lossy", forge(delta, arrays=residual(name="d/w")))
    put("residual-whole", forge(delta, arrays=residual()))
    for name, changes in RESIDUALS.items():
        put(f"residual-{name}", forge(without, arrays=residual(**changes)))
    put("digest", delta[:-1] + bytes([delta[-1] ^ 1]))
    put("layout", forge(base, {"layout": [["w", "F32", [11], True, "numpy", ""]]}))
    put("arrays", forge(delta, arrays={"t/x": np.zeros(1, np.float32)}))
    put("more-twice", forge(delta, arrays={"more": text('{"a":1,"a":2}')}))
    put("more-empty", forge(delta, arrays={"more": text("{}")}))
    put("coded-empty", forge(delta, arrays={"c": np.zeros(0, np.uint8)}))
    put("coded-words", forge(delta, arrays={"c": np.zeros(4, np.uint32)}))
    put("coded-left", forge(delta, arrays=coded(payload=[0xF70D, 0])))
    put("table", forge(delta, arrays=coded(4, 1, 3, table=packed(1, 2, 3, 4))))
    put("table-classes", forge(delta, arrays=coded(4, 85, 2)))
    put("table-none-sent", forge(delta, arrays=coded(4, 1, 0, table=packed())))
    put("stream-early", forge(delta, arrays=coded(bits=17)))
    put("stream-late", forge(delta, arrays=coded(bits=19)))
    put("stream-sizes", forge(delta, arrays=coded(bits=33)))
    put("stream-units", forge(delta, arrays=coded(4, 1, 2, 0)))
    put("stream-unused-bits", forge(delta, arrays=coded(payload=[0xF70D | 1 << 31])))
    # Runs before the 11th of 10 elements, of class 84 of 83, before symbol 4 of 3:
    put("token-late", forge(delta, arrays=escaped(10, 3)))
    put("token-class", forge(delta, arrays=escaped(84, 3)))
    put("token-symbol", forge(delta, arrays=escaped(9, 4)))
    put("track-base", forge(base, {"track": "A" * 22}))

    orphan = bad / "parent.lcc"
    orphan.mkdir()
    (orphan / base_path.name).write_bytes(base)
    (orphan / delta_path.name).write_bytes(forge(delta, {"parent": "A" * 22}))
    (bad / "empty.lcc").mkdir()
    (bad / "empty.lcc" / "README").write_text("A directory without a record.\n")

    names = (base_path.name, base), (delta_path.name, delta)
    good = archive(*names)
    (bad / "truncated.lcc.zip").write_bytes(good[:-30])
    (bad / "foreign-member.lcc.zip").write_bytes(archive(*names, ("../evil.txt", b"x")))
    (bad / "compressed.lcc.zip").write_bytes(archive(*names, method=zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile warns about the duplicate
        (bad / "duplicate.lcc.zip").write_bytes(archive(*names, names[1]))
    damaged = good.replace(delta[-7:], b"damaged", 1)
    (bad / "damaged-member.lcc.zip").write_bytes(damaged)


def save_all(path: Path, states: Any, n: int | None = None, **settings: Any) -> None:
    """The next n of these steps and states, or all."""
    with codec.Checkpointer(path, **settings, resume=True) as checkpoints:
        for step, state in itertools.islice(states, n):
            checkpoints.save(step, state)


def write_run(path: Path) -> None:
    """The worked example of the paper, in the paper's code."""
    states = [{"w": np.zeros(10, np.float32), "n": np.array(7)}]
    states += [{"w": np.array(PAPER, np.float32), "n": np.array(8)}]
    save_all(path, enumerate(states), bits=2, coder="huffman")


def write_tokens(path: Path) -> None:
    """One alphabet a tensor, three times with one table; then one, in a budget, without runs."""
    following = enumerate(states())
    save_all(path, following, 4, bits=2, scope="tensor")
    settings: dict[str, Any] = {"scope": "model", "coder": "huffman"}
    save_all(path, following, budget=0.95, quantizer="exponent", **settings)


def write_edits(path: Path) -> None:
    """Lists that grow, or of which the oldest goes, and numpy's numbers."""
    save_all(path, enumerate(growing_states()), bits=2)


def write_steps(path: Path) -> None:
    """Each kind of target, with either coder, and a base in between."""
    policy = {"model/far": "tolerance=0.002", "model/head": "bits=all"}
    following = enumerate(moving_states())

    def save(n: int, scope: str = "tensor", coder: str = "runlength", **settings: Any) -> None:
        save_all(path, following, n, scope=scope, coder=coder, policy=policy, **settings)

    save(3, bits=2)
    with mock.patch.object(coders, "FEW", 0):  # run lengths, as in larger alphabets
        save(3, "model", tolerance=1e-5)  # more symbols than a table of runs has
    add_base(path)
    save(3, coder="huffman", tolerance=1e-3)  # wide codes, each with its word
    save(2, budget=0.4)
    save(2, "model", budget=0.9, coder="huffman")
    save(2, "model", budget=0.4)
    save(4, tolerance=0.01)


def write_contexts(path: Path) -> None:
    """Buckets in either scope, then steps."""
    following = enumerate(blocks_that_move(160, 128))
    settings: dict[str, Any] = {"coder": "context", "policy": {"*": "lossy"}}
    save_all(path, following, 3, bits=2, scope="tensor", **settings)
    save_all(path, following, 1, bits=3, scope="model", **settings)
    save_all(path, following, tolerance=0.0002, **settings)


def blocks_that_move(rows: int, columns: int) -> list[dict[str, np.ndarray]]:
    """Some rows and columns of a matrix change, and some values of a vector."""
    i, j = np.mgrid[:rows, :columns]
    states = [{"w": np.zeros((rows, columns), np.float32), "b": np.zeros(50, np.float32)}]
    for step in range(1, 5):
        moves = ((i + step) % 6 < 2) & ((j * 5 + step) % 16 < 9)
        delta = moves * ((i * 7 + j * 3 + step) % 11 - 5) / 64
        before = states[-1]
        moved = np.float32(np.arange(50) * step % 7 // 5 / 8)
        states.append({"w": before["w"] + np.float32(delta), "b": before["b"] + moved})
    return states


def write_exact(path: Path) -> None:
    """Deltas, and a base between them."""
    following, policy = enumerate(exact_states()), {"model/*": "exact"}
    save_all(path, following, 5, bits=2, policy=policy)
    add_base(path)
    save_all(path, following, bits=2, policy=policy)


def write_moments(path: Path) -> None:
    """Either scope, the moments in octaves, roots and sizes."""
    following = enumerate(adam_states())
    save_all(path, following, 3, bits=2)
    save_all(path, following, bits=2, scope="tensor")


def adam_states() -> list[dict[str, Any]]:
    """Three layers with the state that Adam keeps of each; the numbers of its steps are equal."""
    shapes = [(12, 10), (10,), (3, 10)]
    states = []
    for step in range(5):
        model, adam = {}, {}
        for i, shape in enumerate(shapes):
            at = np.arange(np.prod(shape)).reshape(shape)
            gradient = (at * (31 + i) % 17 - 8 + step * (at % 3 - 1)) / 64 / 4**i
            model[f"{i}.weight"] = (-step * gradient / 8).astype(np.float32)
            adam[i] = {
                "step": np.array(step, np.float32),
                "exp_avg": (gradient * (1 - 0.5**step)).astype(np.float32),
                "exp_avg_sq": (gradient**2 * (1 - 0.75**step)).astype(np.float32),
            }
        buffers = {i: {"momentum_buffer": moments["exp_avg"] * 3} for i, moments in adam.items()}
        state = {"model": model, "optimizer": {"state": adam, "lr": 0.1 / (step + 1)}}
        states.append(state | {"opt_sgd": {"state": buffers}})
    return states


def write_layouts(path: Path) -> None:
    """A delta for each change."""
    policy = {"model/*": "lossy", "half": "lossy", "new": "lossy?"}
    save_all(path, enumerate(changing_states()), bits=3, policy=policy)


def changing_states() -> list[dict[str, Any]]:
    """More rows; a new tensor; one less, and a new value; another dtype."""

    def table(rows: int, moved: int) -> np.ndarray:
        i = np.arange(8 * rows)
        return (
            ((i * 13 % 29 - 14) / 32 + moved * (i % 7 < 2) / 16).astype(np.float32).reshape(rows, 8)
        )

    half = np.arange(16, dtype=np.float16) / 4
    start = {"model": {"table": table(40, 0)}, "half": half, "ids": np.arange(9), "seen": 1}
    rows = start | {"model": {"table": table(43, 1)}}
    new = rows | {"model": {"table": table(43, 2)}, "new": table(2, 0)}
    fewer = {name: new[name] for name in ("model", "half", "new", "seen")} | {"note": "no ids"}
    dtype = fewer | {"half": half.astype(np.float32) + 1, "seen": 2}
    return [start, rows, new, fewer, dtype, dtype | {"model": {"table": table(43, 3)}}]


def exact_states() -> list[dict[str, Any]]:
    """Every element moves seldom, or all do; small steps, large ones, other signs, both zeros."""
    i = np.arange(1200)
    got = []
    for step in range(6):
        seldom = (i * 7919 + 13 * step) % 101 < 7
        up = np.cumsum(np.array([(i * 31 + s) % 11 - 4 for s in range(step + 1)]), axis=0)[-1]
        half = (i % 97 + 3) / 64 * (1 + (up * seldom) / 256)
        moment = ((i * 17 % 113 - 56) / 32 + step * (i % 5 - 2) / 64).astype(np.float32)
        moment[::150] = (
            np.array([0.0, -0.0, np.nan, np.inf, -1e-40, 1, 2, 3], np.float32) * (-1) ** step
        )
        got.append(
            {
                "model": {"half": half.astype(np.float16), "moment": moment},
                "mask": i[:1100] % 3 < (i[:1100] * 5 % 89 > 2 * step),
                "seen": (i[:300] ** 3 + step * (i[:300] % 7)).astype(np.int64),
                "double": (i[:160] / 7 + step * (i[:160] % 3) / 1024).astype(np.float64),
                "phase": ((i[:200] % 9) + 1j * (step + i[:200] % 4)).astype(np.complex64),
                "n": np.array(step),
            }
        )
    return got


def moving_states() -> list[dict[str, Any]]:
    """w, far: values that move by magnitudes of many octaves; head: in eighths; one NaN."""
    i = np.arange(400)
    w, far, head = np.zeros(400, np.float32), np.zeros(40, np.float32), np.zeros(24, np.float32)
    got = []
    for step in range(19):
        got.append({"model": {"w": w, "far": far, "head": head}, "n": step})
        moved = (i * (37 + step) % 101 - 50) * (i * (11 + step) % 7 < 4) / 512
        moved = moved * (1 + (i * 13 % 31) / 32) if step < 15 else (i % 4 == 0) / 4
        w = w + moved.astype(np.float32)
        far = far + (moved[::10] * 3).astype(np.float32)
        head = head + (moved[:24] > 0).astype(np.float32) / 8
        far[0] = np.nan if step == 3 else far[1]
    return got


def growing_states() -> list[dict[str, Any]]:
    """The last one is as the one before, but for a number."""
    losses = [8 / n for n in range(1, 20)]
    got = []
    for step in range(4):
        log = {
            "loss": losses[: 8 + 2 * step],
            "newest": losses[step : 6 + step],
            "single": [np.float32(x) for x in losses[: 3 + step]],
        }
        got.append(
            {
                "w": np.arange(10, dtype=np.float32) + np.float32(step / 4),
                "log": log,
                "best": losses[step],
                "scores": [np.array(True), np.array(step)],
                "step": step,
                "n": np.int64(step),
            }
        )
    return [*got, got[-1] | {"step": 4}]


def states() -> list[dict[str, Any]]:
    """w: 240 elements, most of which nearly rest; v: 16 that move alike, with one NaN."""
    i = np.arange(240)
    w, v = np.zeros(240, np.float32), np.zeros(16, np.float32)
    got = []
    for step in range(5):
        got.append({"w": w, "v": v, "n": np.array(step, np.int16)})
        jumps = i * (7 + step) % 19 < 2
        w = w + np.where(jumps, (i % 5 - 2) / 8, i % 3 / 4096).astype(np.float32)
        v = v + np.float32(0.5)
        v[0] = np.nan if step == 1 else v[1]
    return got


def coded(
    levels: int = 4,
    classes: int = 1,
    table_nbytes: int = 2,
    units: int = 1,
    *,
    table: np.ndarray | None = None,
    bits: int = 18,
    stored: Sequence[float] = (0.79, -0.48, 0.44),
    payload: Sequence[int] = (0xF70D,),
) -> dict[str, np.ndarray]:
    """The only alphabet of the paper's delta, or something like it. stored: its levels."""
    data = struct.pack("<HBBH", levels, classes, units, table_nbytes)
    data += (packed(1, 2, 3, 3) if table is None else table).tobytes()
    data += struct.pack("<I", bits)
    data += np.array(stored, np.float32).tobytes() + np.array(payload, np.uint32).tobytes()
    return {"c": np.frombuffer(data, np.uint8)}


def residual(
    name: str = "d/n",
    contexts: int = 1,
    bounds: Sequence[int] = (),
    k: int = 2,
    classes: int = 1,
    units: int = 1,
    table: Sequence[int] = (1, 1),
    bits: int = 1,
    payload: Sequence[int] = (1,),
    dtype: type[np.generic] = np.uint8,
) -> dict[str, np.ndarray]:
    """From n = 7 to 8: one symbol, 1, of the two words 0 and 1; or something like it."""
    its = packed(*table).tobytes() if table else b""
    data = struct.pack(f"<B{len(bounds)}H", contexts, *bounds)
    head = struct.pack("<HBBH", k, classes, units, len(its)) + its
    head += struct.pack("<I", bits) if classes else b""
    words = np.array(payload, np.uint32).tobytes() if classes else b""
    data += head * max(contexts, 1) + words * max(contexts, 1)
    return {name: np.frombuffer(data, np.uint8).astype(dtype)}


RESIDUALS: dict[str, dict[str, Any]] = {
    "contexts": {"contexts": 5, "bounds": (1, 2, 3, 4)},
    "no-contexts": {"contexts": 0},
    "bounds": {"contexts": 3, "bounds": (7, 7)},
    "bound-0": {"contexts": 2, "bounds": (0,)},
    "dtype": {"dtype": np.int64},
    "levels": {"k": 1 + 2 * 252 + 1},
    "no-table": {"table": ()},
    "table": {"table": (1, 2)},
    "no-classes": {"classes": 0},
    "classes": {"k": 2, "classes": 85},
    "units": {"units": 33},
    "no-units": {"units": 0},
    "unused-bits": {"payload": (3,)},
    "left": {"payload": (1, 0)},
    "early": {"bits": 0, "payload": ()},
    "late": {"bits": 2},
    # By the escape: symbol 4 of 3, class 84 of 83, and the 2nd of 1 element.
    "symbol": {"k": 4, "classes": 2, "bits": 10, "payload": (3 << 8,)},
    "class": {"k": 4, "classes": 2, "bits": 10, "payload": (84 << 1,)},
    "run": {"k": 4, "classes": 2, "bits": 10, "payload": (1 << 1,)},
    "track": {"k": 3, "table": (2, 2, 1), "payload": (0,)},
}


def steps_coded(levels: int, size: float = 0.25) -> dict[str, np.ndarray]:
    """The codes of the paper's delta, as steps of this size."""
    return coded(levels % 2**15 + 2**15, stored=(size,))


def steps_escaped(kind: int, symbol: int) -> dict[str, np.ndarray]:
    """`escaped`, in steps."""
    return escaped(kind, symbol, 4 + 2**15, (0.25,))


CODE = (252, 51, 245, 157)


def context(
    k: int = 4,
    code: Sequence[int] = CODE,
    *,
    levels: Sequence[float] = (0.25,),
    sizes: Sequence[int] = (),
    units: int = 1,
) -> dict[str, np.ndarray]:
    """The codes of the paper's delta, as steps of this size, in a context code; with more levels,
    buckets."""
    sizes = sizes or (len(code),)
    k = len(levels) + 1 if len(levels) > 1 else k + 2**15
    data = struct.pack("<HBBH", k, 254, units, len(sizes)) + bytes(sizes)
    data += np.array(levels, np.float32).tobytes() + bytes(code)
    return {"c": np.frombuffer(data, np.uint8)}


def write_gradients(path: Path) -> None:
    """Five records of SGD: AdamW's square roots, by MKL, have last bits of a processor's own."""
    import torch

    from codec.rerun import GradientCheckpointer

    rng = np.random.default_rng(11)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))

    parameters = {"w": torch.nn.Parameter(drawn(24, 24)), "b": torch.nn.Parameter(drawn(7))}
    optimizer = torch.optim.SGD(parameters.values(), 0.01, momentum=0.9, foreach=False)
    with GradientCheckpointer(path, optimizer) as checkpoints:
        for step, n in enumerate((1, 1, 1, 2, 2)):
            for _ in range(n):
                parameters["w"].grad = drawn(24, 24).bfloat16().float() * np.float32(0.3)
                parameters["b"].grad = None if step == 2 else drawn(7)
                optimizer.step()
            values = {name: p.detach() for name, p in parameters.items()}
            expected = {"w": float(values["w"].double().sum()), "b": values["b"].tolist()}
            state = values | {"optimizer": optimizer.state_dict(), "done": step}
            checkpoints.save(step, state | {"expected": expected})


def packed(*lengths: int) -> np.ndarray:
    """A table."""
    return huffman.pack_lengths(np.array(lengths, np.uint8))


def escaped(
    kind: int, symbol: int, k: int = 4, stored: Sequence[float] = (0.79, -0.48, 0.44)
) -> dict[str, np.ndarray]:
    """One symbol after a run of that class, by the escape; the other tokens have no sense.

    Two classes, three symbols; the code words are 0 for the escape, 1 for token 1. So the
    stream is 0, seven bits of class, two bits of symbol - 1, and the class's extra bits.
    """
    bits = 10 + (kind // 4 - 2 if 16 <= kind < 84 else 0)
    payload = [kind << 1 | (symbol - 1) << 8]
    return coded(k, 2, 2, table=packed(1, 1), bits=bits, stored=stored, payload=payload)


def text(content: str) -> np.ndarray:
    """It as an array."""
    return np.frombuffer(content.encode(), np.uint8)


def forge(
    data: bytes,
    fields: dict[str, Any] | None = None,
    arrays: Any = None,
    without: Sequence[str] = (),
) -> bytes:
    """The record with other fields or arrays, and a digest to match."""
    old_fields, old_arrays = HELPERS["parts"](data)
    others = {name: array for name, array in old_arrays.items() if name not in without}
    forged: bytes = HELPERS["forged"](old_fields | (fields or {}), others | (arrays or {}))
    return forged


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip of these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as out:
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            out.writestr(info, data)
    return file.getvalue()


WRITERS = {
    "run": write_run,
    "tokens": write_tokens,
    "edits": write_edits,
    "steps": write_steps,
    "exact": write_exact,
    "moments": write_moments,
    "layouts": write_layouts,
    "contexts": write_contexts,
    "gradients": write_gradients,
}

if __name__ == "__main__":
    codec.warm_up()  # without kernels, long context codes are not tried
    main()
    for path in sorted(p for p in HERE.rglob("*") if p.is_file() and p.suffix != ".py"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        print(digest, path.relative_to(HERE))
