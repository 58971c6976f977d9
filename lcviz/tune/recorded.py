"""The settings tried out on the example, recorded: Tune's answer until this server has its own.

`python -m lcviz.record_example` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from codec import Coding
from lcviz.lab.intervals import Mean
from lcviz.lab.progress import unreported
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.sweep import Sweep
from lcviz.server.runs import EXAMPLE

FILE = Path(__file__).parent / "recorded.json"
SWEEP = Sweep("", run=EXAMPLE.workload, seed=EXAMPLE.seed)


def record() -> str:
    """Try the settings out on the example, and return what `recorded` reads."""
    return json.dumps([asdict(candidate) for candidate in SWEEP.try_out(unreported)]) + "\n"


@cache
def recorded() -> tuple[Candidate, ...]:
    """How each setting did on the example."""
    return tuple(_candidate(values) for values in json.loads(FILE.read_text(encoding="utf-8")))


def _candidate(values: Mapping[str, Any]) -> Candidate:
    names = [name for name in ("distance", "rework") if values[name] is not None]
    means = {name: Mean(**values[name]) for name in names}
    setting = Setting(Coding(**values["setting"]["coding"]), values["setting"]["interval"])
    return Candidate(**{**values, **means, "setting": setting})
