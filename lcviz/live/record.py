"""Record the example that a new server shows at once: python -m lcviz.live.record."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING
from lcviz.server.runs import EXAMPLE
from lcviz.ui import recording

from .page_pictures import pictures
from .shown_step import as_saved


def recorded() -> dict[str, Any]:
    """Train the example and take its pictures: what `recording` reads."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run("recorded", EXAMPLE, Path(folder) / "run.lcc")
        run.play()
        while (snapshot := run.wait(5)).status == PLAYING:
            run.watch()
        found = pictures(run, snapshot, as_saved(run, snapshot.newest))
        run.close()
    return {
        "title": run.task.title,
        "pictures": {name: one.data for name, one in found.items() if not isinstance(one, str)},
    }


if __name__ == "__main__":
    recording.FILE.write_text(json.dumps(recorded(), ensure_ascii=False), encoding="utf-8")
