"""Files of one's own on the board: the same bytes as the codec's, and what is said of wrong files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import codec
from codec.cli.main import main
from codec.errors import BudgetError
from lcviz.play.board import WORKER
from lcviz.play.given import given
from tests.node import in_node
from tests.worded import SAID

Tensors = dict[str, torch.Tensor]

# Opens files by their paths, and answers with what `ask` finds of each setting.
OPEN = """
const { readFileSync } = require("node:fs");
const { basename } = require("node:path");
const fileOf = path => new File([readFileSync(path)], basename(path));
async function opened(coders, paths) {
    const player = new FilesPlayer(coders, () => {});
    await player.open(paths.map(fileOf));
    return player;
}
function saved(player, setting) {
    player.use({ ...FILES_SETTING, ...setting });
    while (!player.series.isSaved) player.series.advance();
    return player;
}
"""
SIZES = """async ([coders, paths, settings]) => {
    const player = await opened(coders, paths);
    if (player.problem) throw new Error(player.problem);
    return settings.map(setting => saved(player, setting).series.steps.map(
        ({ nbytes, changed, left }) => [nbytes, Math.sqrt(left / changed)]));
}"""
PROBLEM = """async ([coders, good, bad]) => {
    const player = await opened(coders, good);
    await player.open(bad.map(fileOf));
    return [player.problem, player.series.states.map(({ name }) => name)];
}"""
DRAWN = """async ([coders, paths, setting, events]) => {
    const player = saved(await opened(coders, paths), setting);
    player.view();
    events.forEach(([event, value]) => {
        player.heard(event, value);
        saved(player, player.setting);
    });
    const facts = player.pictures(player.view());
    const words = Object.fromEntries(Object.entries(facts).map(([name, own]) => [name, plain(said(own).text)]));
    return { facts, words, setting: player.setting };
}"""


def asked(function: str, *values: Any) -> Any:
    """What the worker answers; its last file, for messages, stays out."""
    return in_node([*SAID, *WORKER[1:-1], OPEN], function, [given()["coders"], *values])


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Numpy alone codes larger alphabets in another way."""
    codec.warm_up()


def series(folder: Path, seed: int, dtypes: Sequence[torch.dtype], n: int = 4) -> list[str]:
    """Files of a training that never was, with what a real one has beside weights."""
    rng = np.random.default_rng(seed)
    shapes = {"a.weight": (40, 30), "b.weight": (8, 3, 3, 3), "b.bias": (24,), "tiny": (3,)}
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    paths = []
    for step in range(n):
        state: Tensors = {
            name: torch.tensor(value, dtype=dtypes[i % len(dtypes)])
            for i, (name, value) in enumerate(weights.items())
        }
        state["norm.running_mean"] = torch.full((24,), float(step))
        state["norm.num_batches_tracked"] = torch.tensor(step)
        path = folder / f"step-{step + 9}.safetensors"
        save_file(state, path)
        paths.append(str(path))
        for value in weights.values():
            value += 0.01 * rng.normal(size=value.shape) ** 3 * (rng.random(value.shape) < 0.7)
    return paths


def compressed(paths: Sequence[str], run: Path, setting: dict[str, Any]) -> list[int]:
    """The bytes of each delta's coded alphabets, as the command writes them."""
    names = {"x": "bits"}
    options = [
        f"--{names.get(name, name)}={'all' if value is None else value}"
        for name, value in setting.items()
    ]
    assert main(["compress", *paths, "-o", str(run), *options]) == 0
    sizes = []
    for path in sorted(run.glob("*.delta.safetensors")):
        with safe_open(path, "numpy") as record:
            sizes.append(record.get_tensor("c").size)
    return sizes


SETTINGS: list[dict[str, Any]] = [
    {"distance": 0.3},
    {"distance": 0.05, "coder": "huffman"},
    {"distance": 0.6, "coder": "context"},
    *({"x": x, "coder": coder} for x in (1, 3, None) for coder in ("runlength", "context")),
    {"x": 2, "coder": "huffman"},
]


@pytest.mark.parametrize(
    "dtypes",
    [(torch.float32,), (torch.bfloat16,), (torch.float16,), (torch.bfloat16, torch.float32)],
    ids=["float32", "bfloat16", "float16", "mixed"],
)
def test_the_bytes_are_those_of_codec_compress(
    tmp_path: Path, dtypes: tuple[torch.dtype, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        paths = series(folder, seed, dtypes)
        bare = [{"distance": None, **setting} for setting in SETTINGS]
        for setting, answer in zip(SETTINGS, asked(SIZES, paths[::-1], bare), strict=True):
            run = folder / f"{SETTINGS.index(setting)}.lcc"
            assert [nbytes for nbytes, _ in answer] == compressed(paths, run, setting), setting
            if distance := setting.get("distance"):
                assert all(left <= distance for _, left in answer)
