"""Other packages on the same data as the codec: what they take, and how long.

They are the extra "bench" of pyproject.toml. One that is not installed is left out, and said to be.
Where a package offers threads it gets as many as the codec; zipnn chooses its own number.

    torch.save, safetensors   the state, in memory
    zstd-1 of the delta       its float32 bytes as they are
    zstd-1 of the symbols     quantized already, x bits each, packed already: only zstd is timed
    zipnn                     the state's or the delta's float32 bytes. It overwrites what it is
                              given to compress, so that is put back outside the timed part
"""

from __future__ import annotations

import io
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec import threads
from codec.bench import cases, samples
from codec.bench.samples import Floats, Sample
from codec.bench.tasks import DECODE, ENCODE, TimedTask, Tools, same
from codec.scheme.quantize import Quantized, dequantize, quantize

PACKAGES = ("torch", "safetensors", "zstandard", "zipnn", "lc_checkpoint")
HOW = "pip install -e '.[bench]'"
ELEMENTS = 100_000  # lc_checkpoint loops over single values in Python


def tools(sample: Sample, q: Quantized) -> Tools:
    """Every peer that is installed. q: the quantized delta."""
    delta = sample.state - sample.track
    found = Tools()
    for package, add in (
        ("torch", partial(_torch, sample)),
        ("safetensors", partial(_safetensors, sample)),
        ("zstandard", partial(_zstandard, delta, packed_symbols(q))),
        ("zipnn", partial(_zipnn, sample.state, delta)),
    ):
        if find_spec(package):
            add(found)
        else:
            found.notes.append(f"{package} is not installed: {HOW}")
    return found


def packed_symbols(q: Quantized) -> NDArray[np.uint8]:
    """The codes as q.bits bits each, joined to bytes: uint8."""
    assert q.bits is not None
    places = np.arange(q.bits, dtype=np.uint8)
    return np.packbits(
        (q.codes.astype(np.uint8)[:, None] >> places) & np.uint8(1), bitorder="little"
    )


class _Peer:
    """A pair of functions, and the bytes that go from one to the other.

    encode(): returns what decode takes. size: of that, in bytes. values: decode's result as the
    array that is expected.
    """

    def __init__(
        self,
        name: str,
        encode: Callable[[], Any],
        decode: Callable[[Any], Any],
        values: Callable[[Any], NDArray[Any]],
        expected: NDArray[Any],
        n: int,
        size: Callable[[Any], int] = len,
        reset: Callable[[], None] | None = None,
    ) -> None:
        self.name, self.n, self.size = name, n, size
        self._encode, self._decode, self._values = encode, decode, values
        self._expected, self._reset = expected, reset
        self._data: Any = None

    def add_to(self, tools: Tools) -> None:
        """Two tasks, and the size."""
        reset = self._reset or (lambda: None)
        tools.tasks += [
            TimedTask(self.name, ENCODE, self._encode, self._keep, reset),
            TimedTask(self.name, DECODE, lambda: self._decode(self._data), self._check),
        ]
        tools.bits[self.name] = lambda: 8 * self.size(self._data) / self.n

    def _keep(self, data: Any) -> None:
        self._data = data

    def _check(self, result: Any) -> None:
        same(self._values(result), self._expected, self.name)


def _torch(sample: Sample, found: Tools) -> None:
    import torch

    state = {name: torch.from_numpy(a) for name, a in sample.tensors(sample.state).items()}

    def encode() -> io.BytesIO:
        file = io.BytesIO()
        torch.save(state, file)
        return file

    def decode(file: io.BytesIO) -> dict[str, torch.Tensor]:
        file.seek(0)
        loaded: dict[str, torch.Tensor] = torch.load(file, weights_only=True)
        return loaded

    _Peer(
        "torch.save",
        encode,
        decode,
        lambda loaded: np.concatenate([t.numpy().reshape(-1) for t in loaded.values()]),
        sample.state,
        sample.n,
        lambda file: file.getbuffer().nbytes,
    ).add_to(found)


def _safetensors(sample: Sample, found: Tools) -> None:
    from safetensors.numpy import load, save

    state = sample.tensors(sample.state)
    _Peer(
        "safetensors",
        lambda: save(state),
        load,
        lambda loaded: np.concatenate([loaded[name].reshape(-1) for name in state]),
        sample.state,
        sample.n,
    ).add_to(found)


def _zstandard(delta: Floats, symbols: NDArray[np.uint8], found: Tools) -> None:
    zstandard = import_module("zstandard")
    compressor = zstandard.ZstdCompressor(level=1, threads=threads() if threads() > 1 else 0)
    for what, array in (("the delta", delta), ("the symbols", symbols)):
        _Peer(
            f"zstd-1 of {what}",
            partial(compressor.compress, array.view(np.uint8).data),
            zstandard.ZstdDecompressor().decompress,
            partial(np.frombuffer, dtype=np.uint8),
            array,
            delta.size,
        ).add_to(found)


def _zipnn(state: Floats, delta: Floats, found: Tools) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what torch will drop some day
        zipnn = import_module("zipnn")
    for what, array in (("the state", state), ("the delta", delta)):
        coder = zipnn.ZipNN(input_format="byte", bytearray_dtype="float32")
        room = bytearray(array.nbytes)
        _Peer(
            f"zipnn of {what}",
            partial(coder.compress, room),
            coder.decompress,
            partial(np.frombuffer, dtype=np.float32),
            array,
            array.size,
            reset=partial(np.copyto, np.frombuffer(room, np.float32), array),
        ).add_to(found)
    note = f"zipnn uses {coder.threads} threads, its default; its input is overwritten by it"
    found.notes.append(note)


def lc_checkpoint() -> dict[str, Any]:
    """The package lc_checkpoint on 100,000 elements of lap:3, and ours on the same.

    Returns n; ours and theirs, dicts of bits (per parameter), encode and decode (seconds) and
    error (the norm of what is lost over that of the delta); problem: why theirs is None.
    """
    sample = samples.make("lap", ELEMENTS)
    delta = sample.state - sample.track
    q = quantize(delta, 3)
    own = cases.case(sample, 3, rounds=3)["tools"]["runlength"]
    answer: dict[str, Any] = {
        "n": sample.n,
        "ours": {
            "bits": own["bits"],
            ENCODE: statistics.median(own[ENCODE]["seconds"]),
            DECODE: statistics.median(own[DECODE]["seconds"]),
            "error": _lost(dequantize(q), delta),
        },
        "theirs": None,
        "problem": None,
    }
    try:
        theirs = import_module("lc_checkpoint.main")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it takes the logarithm of zeros
            begin = time.perf_counter()
            data, coder = theirs.compress_data(delta)
            middle = time.perf_counter()
            decoded = theirs.decode_data(data, coder)
            end = time.perf_counter()
        answer["theirs"] = {
            "bits": 8 * len(data) / sample.n,
            ENCODE: middle - begin,
            DECODE: end - middle,
            "error": _lost(np.asarray(decoded, np.float64), delta),
        }
    except ModuleNotFoundError as exc:
        answer["problem"] = f"{exc.name} is not installed: {HOW}"
    except Exception as exc:  # whatever it may raise is its result
        answer["problem"] = f"{type(exc).__name__}: {exc}"
    return answer


def _lost(found: NDArray[Any], delta: Floats) -> float:
    return float(np.linalg.norm(found - delta) / np.linalg.norm(delta))
