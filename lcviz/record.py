"""Record what a new server shows at once: python -m lcviz.record."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from lcviz.learn.pictures import Start, learn_picture
from lcviz.live.page_pictures import pictures
from lcviz.live.shown_step import as_saved
from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING
from lcviz.server.runs import EXAMPLE
from lcviz.tune import recorded as tune
from lcviz.ui import recording


def recorded() -> dict[str, Any]:
    """Train the example and take its pictures: what `recording` reads."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run("recorded", EXAMPLE, Path(folder) / "run.lcc")
        run.play()
        while (snapshot := run.wait(5)).status == PLAYING:
            run.watch()
        found = dict(pictures(run, snapshot, as_saved(run, snapshot.newest)))
        run.close()
    track, live = read_numbers(TRACK), read_numbers(TRAINED)
    return {
        "title": run.task.title,
        "pictures": {name: one.data for name, one in found.items() if not isinstance(one, str)},
        "learn": learn_picture(track, live, live, Start()).data,
    }


if __name__ == "__main__":
    recording.FILE.write_text(json.dumps(recorded(), ensure_ascii=False), encoding="utf-8")
    tune.FILE.write_text(tune.record(), encoding="utf-8")
