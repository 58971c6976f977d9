"""Record what a new server shows at once: python -m lcviz.record_example."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import codec
from codec.inspect import Arrays, sealed_nbytes
from demo_models.images import DIGITS_TRAIN, digits_rows
from lcviz.lab.recovery.methods import header_nbytes
from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from lcviz.learn.pictures import Start, learn_picture
from lcviz.play import given
from lcviz.recover import recorded as recover
from lcviz.run.run import Run
from lcviz.server.runs import EXAMPLE, EXAMPLE_OPENS
from lcviz.text import coder_facts
from lcviz.tune import recorded as tune

PATIENCE = 60.0  # seconds, for ten iterations on a slow machine


def recorded() -> dict[str, Any]:
    """What `lcviz.play.given.recorded` reads."""
    track, live = read_numbers(TRACK), read_numbers(TRAINED)
    return {
        "digits": given.deflated(digits_rows().tobytes()),
        "train": DIGITS_TRAIN,
        "sizes": _record_sizes(),
        "coders": coder_facts(),
        "learn": learn_picture(track, live, live, Start()).data,
        "seed": EXAMPLE.seed,
        "opens": EXAMPLE_OPENS,
    }


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
            coded = sum(alphabet.encoded.nbytes for alphabet in delta.alphabets)
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


if __name__ == "__main__":
    codec.warm_up()  # numpy alone codes larger models in another way
    tune.FILE.write_text(tune.record(), encoding="utf-8")
    crashes = recover.record(recover.EXPERIMENT, recover.SEEDS)
    recover.FILE.write_text(crashes.dump(), encoding="utf-8")
    given.FILE.write_text(json.dumps(recorded(), ensure_ascii=False), encoding="utf-8")
