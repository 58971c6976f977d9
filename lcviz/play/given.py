"""What the play page is given: the digits, sizes that no weight changes, and words."""

from __future__ import annotations

import base64
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from codec.inspect import Arrays, sealed_nbytes
from demo_models.images import DIGITS_TRAIN, digits_rows
from lcviz.lab.recovery.methods import header_nbytes
from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from lcviz.learn.pictures import Start, learn_picture
from lcviz.run.run import Run
from lcviz.server.runs import EXAMPLE, EXAMPLE_OPENS
from lcviz.text import coder_facts

CODERS = ("runlength", "huffman")  # of the page
Setting = Mapping[str, Any]
PATIENCE = 60.0  # seconds, for ten iterations on a slow machine


def given(
    seed: int = EXAMPLE.seed,
    setting: Setting | None = None,
    step: int = EXAMPLE_OPENS,
    own: Setting | None = None,
) -> dict[str, Any]:
    """The values that the page's code begins with, for JSON.

    Args:
        seed: Of the training that the page opens with.
        setting: How the page tries to save, where it differs from Live's example; see the type
            `Setting` of tracker.js.
        step: To show first.
        own: How the training itself saves, likewise.

    Returns:
        digits: base64 of the deflated rows of `digits_rows`. train: how many of them are the
        training part. sizes: see `_record_sizes`. coders: see `coder_facts`. learn: the data of
        Learn's pictures. opens, seed, setting, own: as given.
    """
    return {
        "digits": deflated(digits_rows().tobytes()),
        "train": DIGITS_TRAIN,
        "sizes": _record_sizes(),
        "coders": [
            coder | {"summary": coder["summary"].partition(";")[0].rstrip(".") + "."}
            for coder in coder_facts()
            if coder["name"] in CODERS
        ],
        "learn": learn_data(),
        "opens": step,
        "seed": seed,
        "setting": setting or {},
        "own": own or {},
    }


def learn_data() -> dict[str, Any]:
    """The data of Learn's pictures."""
    track, live = read_numbers(TRACK), read_numbers(TRAINED)
    return learn_picture(track, live, live, Start(), alone=True).data


def deflated(data: bytes) -> str:
    """Base64 of compressed data, without zlib's header: a browser's "deflate-raw"."""
    compressor = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return base64.b64encode(compressor.compress(data) + compressor.flush()).decode()


def _record_sizes() -> dict[str, int]:
    """Sizes of the example's records, in bytes.

    Returns:
        base: of the first one. header: of the header of a delta; they differ by some bytes. full:
        of a whole checkpoint, as the race saves it. rival: of the header of SCAR's and TOPN's
        records.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Run("play", EXAMPLE, Path(folder) / "run.lcc")
        try:
            run.step()
            base, delta = run.wait(PATIENCE).checkpoints
            coded = sum(alphabet.nbytes for alphabet in delta.alphabets)
            n = delta.nbytes  # of a rival's record, which takes as many bytes
            blocks, values = np.zeros(n, np.uint8), np.zeros(n // 4, np.float32)
            rival: Arrays = {"blocks": blocks, "values": values}
            weights = run.saved.states()
            assert weights is not None, "a run always has its newest states"
            whole = {f"t/{name}": array for name, array in weights.live.items()}
            return {
                "base": base.nbytes,
                "header": delta.nbytes - coded,
                "full": sealed_nbytes(delta.step, whole),
                "rival": header_nbytes(rival),
            }
        finally:
            run.close()
