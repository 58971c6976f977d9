"""Files of one's own on the board: the codec's bytes, and what is said of wrong files."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import codec
from codec.cli.main import main
from lcviz.play.board import WORKER
from lcviz.play.given import given
from tests.node import in_node
from tests.worded import SAID

Tensors = dict[str, torch.Tensor]

# Opens files by their paths, and saves them in a setting.
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
EXACT = """async ([coders, paths]) => {
    const { series } = await opened(coders, paths);
    const pairs = series.states.slice(1).map((state, i) => [series.states[i], state]);
    return Promise.all(pairs.map(async ([before, after]) => [
        residualsNbytes(before, after),
        await deflatedNbytes(before, after),
        changesByGap(before, after),
    ]));
}"""
UNEXPRESSED = """async ([coders, paths]) => {
    const player = await opened(coders, paths);
    player.use({ distance: 1e-9 });
    while (!player.series.isSaved) player.advance(player.series);
    return [player.problem, player.setting];
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
    const words = Object.fromEntries(
        Object.entries(facts).map(([name, own]) => [name, plain(said(own).text)]));
    return { facts, words, setting: player.setting };
}"""


def asked(function: str, *values: Any) -> Any:
    """What the worker answers; its last file, for messages, stays out."""
    return in_node([*SAID, *WORKER[1:-1], OPEN], function, [given()["coders"], *values])


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Compile the kernels: without them, larger alphabets get other bytes."""
    codec.warm_up()


def series(folder: Path, seed: int, dtypes: Sequence[torch.dtype], n: int = 4) -> list[str]:
    """Files of a made-up training, with a batch norm's statistics and a counter."""
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


def exactly(paths: Sequence[str], run: Path) -> list[int]:
    """The bytes that each delta takes to store the tensors exactly that may be lossy.

    The bias is stored as it is. Where it is small, it shares an array with other tensors.
    """
    bias = load_file(paths[0])["b.bias"].nbytes
    assert main(["compress", *paths, "-o", str(run), "--policy=*=exact"]) == 0
    sizes = []
    for path in sorted(run.glob("*.delta.safetensors")):
        with safe_open(path, "numpy") as record:
            names = {f"{kind}/{name}.weight" for kind in "dt" for name in "ab"} & {*record.keys()}
            sizes.append(bias + sum(record.get_tensor(name).nbytes for name in names))
    return sizes


SETTINGS: list[dict[str, Any]] = [
    {"distance": 0.3},
    {"distance": 0.05, "coder": "huffman"},
    {"distance": 0.6, "coder": "context"},
    *({"x": x, "coder": coder} for x in (1, 3, None) for coder in ("runlength", "context")),
    {"x": 2, "coder": "huffman"},
    {"budget": 0.07},
    {"budget": 0.2, "coder": "context"},
    {"budget": 0.2, "coder": "huffman"},
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
        exact = asked(EXACT, paths)
        assert [nbytes for nbytes, *_ in exact] == exactly(paths, folder / "exact.lcc")


def test_a_budget_pays_for_the_digests_of_a_large_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    paths, weights = [], rng.normal(size=(300, 200))
    for step in range(3):
        paths.append(str(tmp_path / f"step-{step}.safetensors"))
        save_file({"w": torch.tensor(weights, dtype=torch.float32)}, paths[-1])
        weights = weights + 0.01 * rng.normal(size=weights.shape) ** 3
    for i, setting in enumerate([{"budget": 0.1}, {"budget": 0.2}, {"budget": 0.25}]):
        (answer,) = asked(SIZES, paths, [{"distance": None, **setting}])
        assert [nbytes for nbytes, _ in answer] == compressed(paths, tmp_path / f"{i}.lcc", setting)


def test_tensors_in_another_order_are_the_same(tmp_path: Path) -> None:
    paths = series(tmp_path, 0, (torch.float32,), 3)
    setting = [{"distance": 0.3}]
    expected = asked(SIZES, paths, setting)
    state = load_file(paths[1])
    header, data = dict[str, Any](), b""
    for name in reversed(state):
        content = state[name].numpy().tobytes()
        dtype = "I64" if state[name].dtype == torch.int64 else "F32"
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": dtype, "shape": [*state[name].shape], "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    Path(paths[1]).write_bytes(len(text).to_bytes(8, "little") + text + data)
    assert asked(SIZES, paths, setting) == expected


WRONG = {
    "one": "Choose two files or more",
    "cut": "cut.safetensors is incomplete: copy it again.",
    "text.safetensors": "text.safetensors is no .safetensors file, or a damaged one.",
    "weights.pt": "weights.pt is no .safetensors file. Save the weights with",
    "nan": "nan.safetensors has NaN or infinity in a.weight",
    "shape": "a.weight has the shape 40 × 30 in the first, 30 × 40 in the second.",
    "dtype": "a.weight is F32 in the first, BF16 in the second.",
    "fewer": "only the first has b.bias.",
    "more": "the second has more tensors.",
    "integers": "integers.safetensors has no tensor of float32, bfloat16 or float16",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_files_get_a_sentence_and_the_last_series_stays(tmp_path: Path, wrong: str) -> None:
    good = series(tmp_path, 0, (torch.float32,), 2)
    path = tmp_path / (wrong if "." in wrong else f"{wrong}.safetensors")
    state = {name: tensor.clone() for name, tensor in load_file(good[0]).items()}
    if wrong == "cut":
        path.write_bytes(Path(good[0]).read_bytes()[:-100])
    elif "." in wrong:
        path.write_text("These are no weights.")
    else:
        change: dict[str, Callable[[], Any]] = {
            "one": lambda: None,
            "nan": lambda: state["a.weight"].view(-1).__setitem__(7, float("nan")),
            "shape": lambda: state.update({"a.weight": torch.zeros(30, 40)}),
            "dtype": lambda: state.update({"a.weight": torch.zeros(40, 30, dtype=torch.bfloat16)}),
            "fewer": lambda: state.pop("b.bias"),
            "more": lambda: state.update({"c": torch.zeros(9)}),
            "integers": lambda: state.clear() or state.update({"n": torch.zeros(9, dtype=int)}),  # type: ignore[func-returns-value]
        }
        change[wrong]()
        save_file(state, path)
    chosen = [str(path)] if wrong == "one" else [good[0], str(path)]
    if wrong in ("shape", "dtype", "fewer", "more"):  # the first by name is what is compared with
        path = path.rename(tmp_path / f"z-{path.name}")
        chosen[1] = str(path)
    problem, names = asked(PROBLEM, good, chosen)
    assert WRONG[wrong] in problem
    assert "\n" not in problem
    assert names == [Path(one).name for one in sorted(good, key=len)]


def test_the_pictures_tell_what_a_setting_keeps_and_leaves(tmp_path: Path) -> None:
    paths = series(tmp_path, 1, (torch.float32,))
    drawn = asked(DRAWN, paths, {"distance": None, "x": 2, "coder": "huffman"}, [])
    facts, words = drawn["facts"], drawn["words"]
    tracker = codec.Tracker(lossy(paths[0]), bits=2, coder="huffman")
    delta = [tracker.step(lossy(path)) for path in paths[1:]][-1]
    sizes = {t["name"]: t for t in facts["examples"]["tensors"]}
    assert sum(t["moved"] for t in sizes.values()) == facts["buckets"]["changed"]
    bits = sum(8 * t["nbytes"] for t in sizes.values())
    assert bits == delta.groups[0].encoded.payload_bits
    rest = facts["headline"]["rest"]
    assert rest["distance"] == pytest.approx(delta.rest.distance)
    assert facts["loss"]["rests"][-1] == pytest.approx([rest["distance"], rest["behind"]])
    behind = codec_behind(paths, tracker)
    assert rest["behind"] == pytest.approx(behind)
    assert f"{100 * rest['distance']:.2f} % of this change is left out" in words["headline"].lower()
    u, track = lossy(paths[-1]), tracker.state
    at = facts["weight"]["where"]
    name, index = at.split(" (")
    place = tuple(map(int, index.rstrip(")").split(", ")))
    assert facts["weight"]["trained"][-1] == [4, pytest.approx(float(u[name][place]), abs=1e-9)]
    assert facts["weight"]["restored"][-1] == [
        4,
        pytest.approx(float(track[name][place]), abs=1e-9),
    ]


@pytest.mark.parametrize(
    ("dtype", "mantissa"), [(torch.float32, 23), (torch.bfloat16, 7), (torch.float16, 10)]
)
def test_how_many_weights_change_by_the_gap_to_the_next_value(
    tmp_path: Path, dtype: torch.dtype, mantissa: int
) -> None:
    paths = series(tmp_path, 3, (dtype,), 2)
    drawn = asked(DRAWN, paths, {}, [])
    names = "a.weight", "b.bias", "b.weight"
    old, new = (
        torch.cat([state[name].flatten() for name in names]) for state in map(load_file, paths)
    )
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    differ = old.view(bits) ^ new.view(bits)
    changes = (differ != 0).numpy()
    least = -14 if dtype == torch.float16 else -126
    exponents = np.maximum(np.floor(np.log2(np.abs(old.double().numpy()))), least) - mantissa
    gaps, counts = np.unique(exponents.astype(int), return_counts=True)
    changed = [changes[exponents == gap].sum() for gap in gaps]
    assert drawn["facts"]["gaps"]["gaps"] == list(map(list, zip(gaps, counts, changed)))
    text = f"{100 * changes.mean():.2f} % of the weights".replace("100.00", "100")
    assert text in drawn["words"]["gaps"]
    moved = 100 * (np.minimum(1e-5 / 2.0**gaps, 1) * counts).sum() / old.numel()
    expected = f"At 1e−5 it would change {moved:.2f} % of them:".replace("100.00", "100")
    assert expected in drawn["words"]["gaps"]
    ((_, deflated, _),) = asked(EXACT, paths)
    assert deflated == pytest.approx(len(zlib.compress(differ.numpy().tobytes())), rel=0.05)


def test_a_distance_that_no_equal_steps_leave(tmp_path: Path) -> None:
    paths = series(tmp_path, 0, (torch.float32,), 2)
    problem, setting = asked(UNEXPRESSED, paths)
    assert problem.startswith("This distance or budget does not work for step-10.safetensors:")
    assert (setting["x"], setting["distance"]) == (2, None)


def lossy(path: str) -> dict[str, Any]:
    """The tensors of a file that are saved with loss."""
    return {
        name: tensor
        for name, tensor in load_file(path).items()
        if tensor.dtype == torch.float32 and tensor.numel() >= 8 and "running" not in name
    }


def codec_behind(paths: Sequence[str], tracker: codec.Tracker[Any]) -> float:
    """||u - track|| / ||u - u of the first file||."""
    first, last = lossy(paths[0]), lossy(paths[-1])
    left = sum(
        float(((last[n] - torch.tensor(t)).double() ** 2).sum()) for n, t in tracker.state.items()
    )
    trained = sum(float(((last[n] - first[n]).double() ** 2).sum()) for n in last)
    return float(np.sqrt(left / trained))


def test_pictures_choose_tensors_weights_steps_and_settings(tmp_path: Path) -> None:
    paths = series(tmp_path, 2, (torch.bfloat16,))
    drawn = asked(DRAWN, paths, {}, [["tensor", "b.weight"], ["step", 3], ["bits", "3"]])
    assert drawn["facts"]["weights"]["tensor"] == "b.weight"
    assert drawn["facts"]["headline"]["step"] == 2
    assert (drawn["setting"]["x"], drawn["setting"]["distance"]) == (3, None)
    assert drawn["facts"]["buckets"]["slots"] == [7]
    chosen = asked(DRAWN, paths, {}, [["bits", "2"], ["cut", 1], ["pixel", [5, 7]]])
    assert chosen["facts"]["buckets"]["slots"] == [1]
    assert chosen["facts"]["weights"]["followed"] == [5, 7]
    assert asked(DRAWN, paths, {}, [["bits", "2"], ["bits", "steps"]])["setting"]["distance"] == 0.3
