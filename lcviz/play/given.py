"""What the board's worker is given: the digits, sizes that no weight changes, and words.

`python -m lcviz.record_example` writes it, so that a board opens before torch is imported.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "example.json"
Setting = Mapping[str, Any]


@cache
def recorded() -> dict[str, Any]:
    """The example as it was recorded.

    Returns:
        digits: base64 of the deflated rows of `digits_rows`. train: how many of them are the
        training part. sizes: of the example's records, in bytes. coders: see `coder_facts`. learn:
        the data of Learn's pictures. seed: of the example. opens: the step to show first.
    """
    values: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return values


def given(
    seed: int | None = None,
    setting: Setting | None = None,
    step: int | None = None,
    own: Setting | None = None,
) -> dict[str, Any]:
    """The values that the board's code begins with, for JSON.

    Args:
        seed: Of the training that it opens with; None for the example's.
        setting: How it tries to save, where it differs from the example; see the type `Setting` of
            tracker.js.
        step: To show first; None for the example's.
        own: How the training itself saves, likewise.

    Returns:
        What `recorded` returns, and setting and own as given.
    """
    example = recorded()
    return {
        **example,
        "seed": example["seed"] if seed is None else seed,
        "opens": example["opens"] if step is None else step,
        "setting": setting or {},
        "own": own or {},
    }


def deflated(data: bytes) -> str:
    """Base64 of compressed data, without zlib's header: a browser's "deflate-raw"."""
    compressor = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return base64.b64encode(compressor.compress(data) + compressor.flush()).decode()
