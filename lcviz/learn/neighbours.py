"""The δ of a real model, whose rows and columns change together, and its bits as a context code."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codec
from codec.inspect import element_bits
from demo_models.images import digits_rows

CLASSES, PIXELS = 10, 64
ITERATIONS, BATCH_SIZE, RATE = 20, 16, 0.5
BITS = 3


@cache
def neighbours_values() -> dict[str, Any]:
    """The δ of the last iteration, in its own order and shuffled.

    rows, columns: of the weights. signs: 1 for each code that is negative, else 0. orders: for each
    order, values: the codes; runs, context: bits with either coder, a new table included; shares:
    the bits that each value takes in the context code, None if the coder wrote runs, because they
    take fewer.
    """
    delta = _delta()
    mixed = np.random.default_rng(0).permutation(delta.size)
    orders = []
    for values in (delta, delta.reshape(-1)[mixed].reshape(delta.shape)):
        quantized = codec.quantize(values, BITS)
        runs, context = (codec.encode(quantized, coder) for coder in ("runlength", "context"))
        shares = element_bits(context).round(2).tolist() if context.payload.SHARED else None
        orders.append(
            {
                "values": quantized.codes.tolist(),
                "runs": runs.payload_bits + 8 * runs.table_nbytes,
                "context": context.payload_bits + 8 * context.table_nbytes,
                "shares": shares,
            }
        )
    signs = np.signbit(quantized.levels).astype(int).tolist()  # the same in any order
    return {"rows": CLASSES, "columns": PIXELS, "signs": signs, "orders": orders}


def _delta() -> NDArray[np.float32]:
    """What one iteration changes in a logistic regression of the digits: (CLASSES, PIXELS)."""
    data = digits_rows()[: ITERATIONS * BATCH_SIZE]
    pixels, digits = data[:, :PIXELS] / np.float32(16), data[:, PIXELS]
    before = weights = np.zeros((CLASSES, PIXELS), np.float32)
    for begin in range(0, len(data), BATCH_SIZE):
        x, digit = pixels[begin : begin + BATCH_SIZE], digits[begin : begin + BATCH_SIZE]
        scores = np.exp(x @ weights.T)
        error = scores / scores.sum(axis=1, keepdims=True) - np.eye(CLASSES)[digit]
        before, weights = weights, weights - np.float32(RATE / BATCH_SIZE * (error.T @ x))
    return weights - before
