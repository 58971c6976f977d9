"""Seeded deltas to measure with, from almost all zeros to almost none.

    mlp     one iteration of a real multilayer perceptron: with 3 bits about 99.9 % of the
            quantized delta is zero, with 4 bits about 80 %
    lap     Laplace's distribution with a log-normal scale: about 94 % with 3 bits
    gauss   the normal distribution: about 62 % with 3 bits, 5 % with 4

The share of zeros depends on where the largest value lies between two powers of two. In lap and
gauss two planted values fix that place for every size. The perceptron is really trained, so its
shares differ a little from size to size.
"""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec.scheme.quantize import MAX_BITS

NAMES = ("mlp", "lap", "gauss")
UNITS = {"k": 2**10, "M": 2**20}
MIN_SIZE = 1024  # parameters: a smaller perceptron has no hidden unit

Floats = NDArray[np.float32]

CHUNK = 2**22  # elements drawn at a time
WEIGHT = 0.02  # standard deviation of the weights of lap and gauss
SMALLEST = 2.0**-12  # the smallest magnitude of the three largest exponents: 3 bits keep these
BELOW = {"lap": 4.8, "gauss": 1.22}  # SMALLEST, in scales of the distribution
PLANTED, LARGEST = 6.0, 7.75  # in units of SMALLEST; the largest exponent goes from 4 to 8

INPUTS, CLASSES, HIDDEN = 784, 10, 3700  # above HIDDEN units a perceptron grows in depth
BATCH, RATE, ITERATIONS = 32, np.float32(0.05), 6


@dataclass(frozen=True)
class Sample:
    """A track and the next state to save, float32 (n,). shapes: of their tensors, in order."""

    name: str
    track: Floats
    state: Floats
    shapes: tuple[tuple[int, ...], ...]

    @property
    def n(self) -> int:
        """Number of parameters."""
        return self.track.size

    def tensors(self, flat: Floats) -> dict[str, Floats]:
        """Views of an array of n elements, one per tensor."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes]).tolist()
        begins = [0, *ends[:-1]]
        return {
            f"layer{i}": flat[begin:end].reshape(shape)
            for i, (begin, end, shape) in enumerate(zip(begins, ends, self.shapes))
        }


def parse_sizes(text: str) -> list[int]:
    """'100k,1M' -> [102400, 1048576]. Raises ArgumentTypeError."""
    sizes = []
    for word in text.split(","):
        unit = UNITS.get(word[-1:], 1)
        digits = word[:-1] if unit > 1 else word
        if not digits.isdecimal() or int(digits) * unit < MIN_SIZE:
            raise ArgumentTypeError(
                f"a size is a number like 100k or 16M, at least {MIN_SIZE}, not {word!r}"
            )
        sizes.append(int(digits) * unit)
    return sizes


def parse_data(text: str) -> list[tuple[str, int]]:
    """'mlp:3,lap:4' -> [('mlp', 3), ('lap', 4)]: names and bits. Raises ArgumentTypeError."""
    data = []
    for word in text.split(","):
        name, _, bits = word.partition(":")
        if name not in NAMES or not bits.isdecimal() or not 1 <= int(bits) <= MAX_BITS:
            expected = f"{'|'.join(NAMES)}:BITS with 1 to {MAX_BITS} bits"
            raise ArgumentTypeError(f"data are {expected}, not {word!r}")
        data.append((name, int(bits)))
    return data


def size_name(n: int) -> str:
    """1048576, or a number near it -> '1M'."""
    unit = "M" if n >= 0.9 * UNITS["M"] else "k"
    number = n / UNITS[unit]
    return f"{number:.0f}{unit}" if number >= 10 else f"{number:.2g}{unit}"


def make(name: str, n: int, seed: int = 0) -> Sample:
    """A sample of n parameters (mlp: about n)."""
    rng = np.random.default_rng(seed)
    if name == "mlp":
        return _mlp(n, rng)
    track, state = np.empty(n, np.float32), np.empty(n, np.float32)
    for begin in range(0, n, CHUNK):
        part = slice(begin, min(begin + CHUNK, n))
        rng.standard_normal(dtype=np.float32, out=track[part])
        track[part] *= np.float32(WEIGHT)
        state[part] = _draw(name, track[part].size, rng)
    state *= np.float32(SMALLEST / BELOW[name])
    np.clip(state, -LARGEST * SMALLEST, LARGEST * SMALLEST, out=state)
    state[n // 3], state[2 * n // 3] = PLANTED * SMALLEST, -PLANTED * SMALLEST
    state += track
    return Sample(name, track, state, ((n,),))


def _draw(name: str, n: int, rng: np.random.Generator) -> Floats:
    if name == "gauss":
        return rng.standard_normal(n, np.float32)
    values = rng.standard_normal(n, np.float32)
    values *= np.float32(0.3)
    np.exp(values, out=values)
    values *= rng.standard_exponential(n, np.float32)
    values *= rng.integers(0, 2, n, np.int8) * np.int8(2) - np.int8(1)
    return values


def _mlp(n: int, rng: np.random.Generator) -> Sample:
    """Weights before and after an iteration of plain gradient descent on synthetic classes."""
    shapes = _layers(n)
    flat = np.empty(sum(math.prod(shape) for shape in shapes), np.float32)
    sample = Sample("mlp", np.empty_like(flat), flat, shapes)
    layers = list(sample.tensors(flat).values())
    for layer in layers:
        rng.standard_normal(dtype=np.float32, out=layer)
        layer *= np.float32(math.sqrt(2 / layer.shape[0]))
    centres = rng.standard_normal((CLASSES, INPUTS), np.float32)
    for _ in range(ITERATIONS):
        sample.track[...] = flat
        answers = rng.integers(0, CLASSES, BATCH)
        noise = rng.standard_normal((BATCH, INPUTS), np.float32)
        _descend(layers, np.maximum(centres[answers] + noise - 1, 0), answers)
    return sample


def _layers(n: int) -> tuple[tuple[int, ...], ...]:
    """Shapes of the weights of a perceptron with about n weights."""
    ends = INPUTS + CLASSES
    depth = max(1, round((n - HIDDEN * ends) / HIDDEN**2))
    # depth * width**2 + ends * width == n
    width = max(1, int((math.sqrt(ends**2 + 4 * depth * n) - ends) / (2 * depth)))
    return (INPUTS, width), *[(width, width)] * depth, (width, CLASSES)


def _descend(layers: list[Floats], inputs: Floats, answers: NDArray[np.int64]) -> None:
    """One step of gradient descent on the cross entropy, in place."""
    activations = [inputs]
    for layer in layers[:-1]:
        activations.append(np.maximum(activations[-1] @ layer, 0))
    scores = activations[-1] @ layers[-1]
    slope = np.exp(scores - scores.max(axis=1, keepdims=True))
    slope /= slope.sum(axis=1, keepdims=True)
    slope[np.arange(answers.size), answers] -= 1
    slope /= np.float32(answers.size)
    for layer, values in zip(reversed(layers), reversed(activations)):
        gradient = values.T @ slope
        slope = (slope @ layer.T) * (values > 0)
        gradient *= RATE
        layer -= gradient
