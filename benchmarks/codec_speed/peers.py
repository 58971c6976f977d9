"""Other packages on the same data as the codec: their sizes and times.

They are the extra "bench" of pyproject.toml. A package that is not installed is left out, and a
note says so. Where a package offers threads it gets as many as the codec; zipnn chooses its own
number.

    torch.save, safetensors   the state, in memory
    zstd-1 of the delta       its float32 bytes as they are
    zstd-1 of the symbols     quantized and packed to x bits each before: only zstd is timed
    zipnn                     the state's or the delta's float32 bytes. zipnn overwrites its input,
                              which is restored outside the timed part
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
from codec.scheme.quantize import Quantized, dequantize, quantize

from . import cases, samples
from .samples import Floats, Sample
from .tasks import DECODE, ENCODE, TimedTask, Tools, check_same

PACKAGES = ("torch", "safetensors", "zstandard", "zipnn", "lc_checkpoint")
INSTALL = "pip install -e '.[bench]'"
ELEMENTS = 100_000  # lc_checkpoint loops over single values in Python


def peer_tools(sample: Sample, q: Quantized) -> Tools:
    """Tasks and sizes of all peers that are installed. q: the quantized delta."""
    delta = sample.state - sample.track
    tools = Tools()
    for package, add in (
        ("torch", partial(_torch, sample)),
        ("safetensors", partial(_safetensors, sample)),
        ("zstandard", partial(_zstandard, delta, packed_symbols(q))),
        ("zipnn", partial(_zipnn, sample.state, delta)),
    ):
        if find_spec(package):
            add(tools)
        else:
            tools.notes.append(f"{package} is not installed: {INSTALL}")
    return tools


def packed_symbols(q: Quantized) -> NDArray[np.uint8]:
    """The codes as q.bits bits each, joined to bytes: uint8."""
    assert q.bits is not None
    places = np.arange(q.bits, dtype=np.uint8)
    return np.packbits(
        (q.codes.astype(np.uint8)[:, None] >> places) & np.uint8(1), bitorder="little"
    )


class _Peer:
    """A pair of functions, and the bytes that go from one to the other.

    encode(): returns what decode takes. size: its bytes. values: turns decode's result into an
    array like `expected`.
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
        self._encoded: Any = None

    def add_to(self, tools: Tools) -> None:
        """Add the two tasks, and the size."""
        reset = self._reset or (lambda: None)
        tools.tasks += [
            TimedTask(self.name, ENCODE, self._encode, self._keep, reset),
            TimedTask(self.name, DECODE, lambda: self._decode(self._encoded), self._check),
        ]
        tools.bits[self.name] = lambda: 8 * self.size(self._encoded) / self.n

    def _keep(self, encoded: Any) -> None:
        self._encoded = encoded

    def _check(self, decoded: Any) -> None:
        check_same(self._values(decoded), self._expected, self.name)


def _torch(sample: Sample, tools: Tools) -> None:
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
    ).add_to(tools)


def _safetensors(sample: Sample, tools: Tools) -> None:
    from safetensors.numpy import load, save

    state = sample.tensors(sample.state)
    _Peer(
        "safetensors",
        lambda: save(state),
        load,
        lambda loaded: np.concatenate([loaded[name].reshape(-1) for name in state]),
        sample.state,
        sample.n,
    ).add_to(tools)


def _zstandard(delta: Floats, symbols: NDArray[np.uint8], tools: Tools) -> None:
    zstandard = import_module("zstandard")
    compressor = zstandard.ZstdCompressor(level=1, threads=threads() if threads() > 1 else 0)
    for source, array in (("the delta", delta), ("the symbols", symbols)):
        _Peer(
            f"zstd-1 of {source}",
            partial(compressor.compress, array.view(np.uint8).data),
            zstandard.ZstdDecompressor().decompress,
            partial(np.frombuffer, dtype=np.uint8),
            array,
            delta.size,
        ).add_to(tools)


def _zipnn(state: Floats, delta: Floats, tools: Tools) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what torch will drop some day
        zipnn = import_module("zipnn")
    for source, array in (("the state", state), ("the delta", delta)):
        coder = zipnn.ZipNN(input_format="byte", bytearray_dtype="float32")
        buffer = bytearray(array.nbytes)
        _Peer(
            f"zipnn of {source}",
            partial(coder.compress, buffer),
            coder.decompress,
            partial(np.frombuffer, dtype=np.float32),
            array,
            array.size,
            reset=partial(np.copyto, np.frombuffer(buffer, np.float32), array),
        ).add_to(tools)
    note = f"zipnn uses {coder.threads} threads, its default, and overwrites its input"
    tools.notes.append(note)


def lc_checkpoint() -> dict[str, Any]:
    """The package lc_checkpoint and our codec on the same 100,000 elements of lap:3.

    Returns n; ours and theirs, dicts of bits (per parameter), encode and decode (seconds) and
    error (the norm of the restore error over the norm of the delta); problem: why theirs is None.
    """
    sample = samples.make("lap", ELEMENTS)
    delta = sample.state - sample.track
    q = quantize(delta, 3)
    ours = cases.measure_sample(sample, 3, rounds=3)["tools"]["runlength"]
    answer: dict[str, Any] = {
        "n": sample.n,
        "ours": {
            "bits": ours["bits"],
            ENCODE: statistics.median(ours[ENCODE]["seconds"]),
            DECODE: statistics.median(ours[DECODE]["seconds"]),
            "error": _error(dequantize(q), delta),
        },
        "theirs": None,
        "problem": None,
    }
    try:
        package = import_module("lc_checkpoint.main")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it takes the logarithm of zeros
            begin = time.perf_counter()
            compressed, coder = package.compress_data(delta)
            middle = time.perf_counter()
            decoded = package.decode_data(compressed, coder)
            end = time.perf_counter()
        answer["theirs"] = {
            "bits": 8 * len(compressed) / sample.n,
            ENCODE: middle - begin,
            DECODE: end - middle,
            "error": _error(np.asarray(decoded, np.float64), delta),
        }
    except ModuleNotFoundError as exc:
        answer["problem"] = f"{exc.name} is not installed: {INSTALL}"
    except Exception as exc:  # any error is this package's result
        answer["problem"] = f"{type(exc).__name__}: {exc}"
    return answer


def _error(decoded: NDArray[Any], delta: Floats) -> float:
    return float(np.linalg.norm(decoded - delta) / np.linalg.norm(delta))
