"""Numbers and names that pages quote are those of the code."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from tests.docs.pages import ROOT, TEXTS, value

PYTHON = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
SERVER = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())["server"]
HERE = __name__  # for places in this module
GOLDEN = len(list((ROOT / "tests/golden").glob("*.lcc")))
NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
WORDS: dict[float, str] = dict(enumerate(NUMBERS.split(), 1))
WORDS |= {0.5: "half", 0.01: "hundredth", 1 / 16: "sixteenth"}
SUPERSCRIPTS = dict(zip("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
FORMATS = {
    "": lambda v: f"{v:g}" if isinstance(v, float) else str(v),
    ",": lambda v: f"{v:,}",
    "w": lambda v: WORDS[v],
    "^": lambda v: "".join(SUPERSCRIPTS[digit] for digit in str(v)),
    "or": lambda names: _listed(names, "or"),
    "and": lambda names: _listed(names, "and"),
}

# Page -> sentences, which hold {module:expression}, or {module:expression!format}.
SENTENCES = {
    "README.md": [
        "You need Python {HERE:PYTHON.strip('>=')} or newer",
        "opens at http://{HERE:SERVER['address']}:{streamlit.config:get_option('server.port')}",
        "A save leaves at most {codec.scheme.coding:DEFAULT_DISTANCE} of a change",
        "{demo_models:len(MODELS)!w} models and their data",
        "LeNet-5 ({demo_models:MODELS['lenet5'].parameters} parameters)",
    ],
    "tutorial.md": [
        "a checkpoint every {lcviz.run.snapshot:RunSettings().interval!w} iterations",
    ],
    "reference/api.md": [
        "1 to {codec.scheme.quantize:MAX_BITS}; at most 2ˣ − 1 buckets",
        "If you pass no target, it is {codec.scheme.coding:DEFAULT_DISTANCE} |",
        "[by default {codec.saving.history:RESTORE_WORK}, and more of small ones]",
    ],
    "reference/dashboard.md": [
        "the environment variable `{demo_models:FOLDER_VARIABLE}`",
        "environment variable `{lcviz.server.allowed_paths:FOLDERS}` names folders",
        "| runs | {lcviz.server.runs:MAX_RUNS}, the example not counted | a stopped run "
        "whose visitors have had no page open for {lcviz.server.runs:IDLE_SECONDS / 60!w} minutes",
        "the {lcviz.server.runs:MAX_RUNS} with the newest checkpoints, if these are younger than "
        "{lcviz.server.runs:STORED_SECONDS / 3600} hours",
        "{lcviz.run.saved_steps:CODES_BUDGET >> 20} MiB of codes and "
        "{lcviz.run.saved_steps:STATES_BUDGET >> 20} MiB of states of its newest steps, "
        "on disk, a {lcviz.run.saved_steps:IN_MEMORY!w} of both also in memory",
        "{lcviz.ui.session:1 / POLL_SECONDS!w} a second for the first "
        "{lcviz.ui.session:LIVELY_SECONDS} s of training, then one every "
        "{lcviz.ui.session:LATER_POLL_SECONDS} to {lcviz.ui.session:MOST_POLL_SECONDS} s; "
        "stopped: one every {lcviz.ui.session:RESTING_POLL_SECONDS} s",
        "| a training whose visitors have no page of the dashboard open | "
        "{lcviz.run.controls:WATCH_SECONDS} s |",
        "{lcviz.server.jobs:MAX_WAITING} in the queue; {lcviz.server.replays:KEPT} are kept, each "
        "with {lcviz.run.whole_run:STATES_BUDGET >> 20} MiB of states",
        "one at a time, {lcviz.server.jobs:MAX_WAITING} in the queue | a new one is refused; one "
        "whose visitors have no page open for {lcviz.server.jobs:WATCH_SECONDS} s",
        "the {lcviz.inspect.watch:MOST_RUNS} that changed last, in at most "
        "{lcviz.inspect.watch_paths:MOST_FOLDERS!,} folders; lines of the "
        "{lcviz.inspect.watch_picture:MOST_LINES} with the newest records",
        "chains up to {lcviz.inspect.watch_paths:DEPTH!w} folders deep",
        "{HERE:SERVER['maxUploadSize']} MiB a file; {lcviz.server.own_files:MOST_FILES} files and "
        "{lcviz.ui.own_files:MOST_MIB} MiB a visitor; {lcviz.server.quota:MOST_BYTES >> 30} GiB",
        "| `.pt` files | {lcviz.server.pt_reader:AT_ONCE!w} at a time",
    ],
    "how-to/which-knob.md": [
        "leaves at most {codec.inspect:DEFAULT_DISTANCE} of the change",
        "more than {codec.rerun.checkpointer:MAX_STEPS} steps apart",
    ],
    "start.md": ["Python {HERE:PYTHON.strip('>=')} or newer"],
    "reference/compatibility.md": ["holds {HERE:GOLDEN!w} small chains"],
    "how-to/own-loop.md": [
        "leaves at most {codec.scheme.coding:DEFAULT_DISTANCE} of the change",
        "leaves more than {codec.saving.recorder:FAR_BEHIND!w} of what was trained",
        "If `saved.behind` is above {codec.scheme.remainder:WARNED_BEHIND}, lcviz calls",
        "If more than {codec.saving.recorder:MOST_NEW!w} of the state is new",
        "after {codec.saving.history:RESTORE_WORK} deltas that change all values",
        "with a small state after {codec.saving.history:FREE_WORK // RECORD_WORK}.",
        "tensors of fewer than {codec.state.tensors:TINY_ELEMENTS} elements",
        "those below {codec.state.policy:MODELS!or}.",
        "| a quarter of a doubling, `{codec.state.policy:SECOND}` |",
        "`exp_avg` | half the root of that mean of squares, `{codec.state.policy:FIRST}` |",
        "| an eighth of the root mean square of the tensor, `{codec.state.policy:OWN}` |",
        "States of {codec.saving.process:LARGE >> 20} MiB or more are saved with the lowest "
        "priority (niceness {codec.saving.process:LOWEST})",
    ],
    "how-to/exact-states.md": [
        "After more than {codec.rerun.checkpointer:MAX_STEPS} steps without a save",
        "After {codec.rerun.checkpointer:BASE_EVERY} records without one comes a base",
        "If more than {codec.rerun.checkpointer:MAX_CHANGED!w} of the parameters'",
    ],
    "how-to/huggingface.md": [
        "`every` is at most {codec.rerun.checkpointer:MAX_STEPS}, and 1 by default."
    ],
    "how-to/lightning.md": ["or at least every {codec.rerun.checkpointer:MAX_STEPS}:"],
    "how-to/distributed.md": [
        "`base_every` is {codec.dcp.writer:BASE_EVERY}, but with a smaller `keep_steps` it is",
        "Written for torch {torch:__version__.rsplit('.', 1)[0]}.",
    ],
    "how-to/choose-settings.md": [
        "at every {lcviz.lab.tuner.candidates:'%dnd, %dth and %dth' % INTERVALS[1:]}",
        "{lcviz.lab.tuner.replay:LEAST_STATES!w} are enough for saves at every iteration, and "
        "{lcviz.lab.tuner.candidates:3 * max(INTERVALS)} for all intervals",
    ],
    "explanation/distributed.md": [
        "up to {codec.dcp.chunks:MAX_TRACK_NBYTES >> 20} MiB: one track",
        "up to {codec.storage.read_ahead:THREADS} records ahead",
    ],
    "explanation/scheme.md": [
        "Where more than {codec.scheme.context:MOST_SINGLE!,} weights share a",
        "each octet, {codec.scheme.kernels.contexts:OCTET} neighbours in a row, is asked, too",
        "Streams of at least {codec.scheme.context:STREAM!,} weights are",
        "a change of at least {codec.scheme.uniform:1 - OFFSET} steps moves",
        "an alphabet of at most 2{codec.scheme.coders:FEW.bit_length() - 1!^} elements",
        "those of more than 2{codec.scheme.context:MOST_PLAIN.bit_length() - 1!^} elements",
    ],
    "explanation/guarantees.md": [
        "Tensors under {codec.scheme.residual:LEAST >> 10} KiB are always whole",
        "For {codec.storage.lease:LATE / 60} minutes after a takeover",
        "at most once in {codec.storage.lease:LOOK} s",
    ],
    "explanation/results.md": [
        "LeNet-5 ({demo_models:MODELS['lenet5'].parameters} parameters)",
        "byte transformer of {demo_models:MODELS['byte-transformer'].parameters} parameters",
        "AlexNet has {demo_models:MODELS['alexnet'].parameters} parameters, too many",
        "Up to {codec.scheme.coders:FEW!,} values an alphabet is a context code",
        "a level is at most {codec.scheme.uniform:MAX_STEPS!,} steps",
        "set `NEAREST` in `codec/scheme/uniform.py` to {codec.scheme.uniform:OFFSET}",
    ],
    "explanation/experiments.md": [
        "a failure after iteration {lcviz.lab.recovery.recovery:Protocol().fail_at},",
        "mean over {lcviz.lab.recovery.recovery:2 * Protocol().smooth + 1} iterations",
        "The limit is {lcviz.lab.recovery.recovery:Protocol().cap}.",
        "less than a {lcviz.lab.measures:NEGLIGIBLE!w} of an iteration's gain",
        "after {benchmarks.experiments.overhead:WARM_UP} that do not count",
        "seeds ({benchmarks.experiments.tuning:FRESH} to",
    ],
}


def _listed(names: tuple[str, ...], last: str) -> str:
    *first, end = (f"`{name}`" for name in names)
    return f"{', '.join(first)} {last} {end}"


def _filled(place: re.Match[str]) -> str:
    expression, _, form = place[1].replace("HERE", HERE).partition("!")
    return FORMATS[form](value(expression))


@pytest.mark.parametrize(
    ("page", "sentence"), [(page, s) for page, sentences in SENTENCES.items() for s in sentences]
)
def test_the_page_says_what_the_code_does(page: str, sentence: str) -> None:
    quoted = re.sub(r"\{(.*?)\}", _filled, sentence)
    assert quoted in " ".join(TEXTS[page].split())


@pytest.mark.parametrize(
    ("page", "sentence", "target"),
    [
        ("guarantees", "takes its header, about {} bytes", {"budget": 0.05}),
        ("results", "A delta has a header of about {} bytes", {"bits": 2}),
    ],
)
def test_the_size_of_a_header(
    page: str, sentence: str, target: dict[str, Any], tmp_path: Path
) -> None:
    """Within 15 %: of a record without changes."""
    state = {"model": {"w": np.ones(1000, np.float32)}}
    with codec.Checkpointer(tmp_path / "run.lcc", **target) as checkpoints:
        nbytes = [checkpoints.save(step, state).nbytes for step in range(2)][1]
    pattern = re.escape(sentence).replace(r"\{\}", r"(\d+)")
    (quoted,) = re.findall(pattern, " ".join(TEXTS[f"explanation/{page}.md"].split()))
    assert nbytes == pytest.approx(int(quoted), rel=0.15)
