"""Which step each file of a series is, by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

import codec
from codec.state.file_steps import by_numbers, numbered, parts_of_one, steps_of_files

SERIES = """
c-10.pt c-2.pt c-1.pt: 10 2 1
m_e2_l0.7.pt m_e10_l0.65.pt m_e11_l1.pt: 2 10 11; m_e2_l0.7.pt: 2
checkpoint-10.pt checkpoint-9.safetensors: 10 9; best_20.pt last_10.pt: 20 10
model_000123.safetensors model_000007.safetensors: 123 7
step=5-v1.pt step=10-v1.pt step=20.pt: 5 10 20; step=5-v1.pt: 5; step5.pt step6.pt: 5 6
epoch=1-step=200.ckpt epoch=2-step=400.ckpt: 200 400
epoch=1-step=200.ckpt step=300-epoch=1.ckpt: 200 300
lr1e-05_step5.pt lr0.1_step3.pt: 5 3; net-1.2.3-e4.pt net-1.2.10-e5.pt: 4 5
v2-e1.pt v2-e0.pt: 1 0; v1.pt v2.pt: 1 2; e3.mp3.pt e4.mp3.pt: 3 4; ep3.pt: 3
checkpoint-100/model.pt checkpoint-20/model.pt: 100 20
run7/100/a/model2.pt run7/90/a/model2.pt: 100 90
final.pt: 0; final_fp16.pt: 0; final_int8.pt: 0; final_16bit.pt: 0; final-v2.pt: 0; w_1e3.pt: 0
ckpt-5_fp16.pt: 5; ckpt-5_bf16.pt ckpt-10_bf16.pt: 5 10; ckpt-5_FP8_e4m3.pt: 5
model-00001-of-00002.pt: 0; s10-00001-of-00002.pt s20-00001-of-00002.pt: 10 20
c-1/m-1-of-2.pt c-2/m-1-of-2.pt: 1 2; epoch_3_of_10.pt epoch_4_of_10.pt: 3 4
"""


@pytest.mark.parametrize("series", SERIES.strip().replace("\n", "; ").split("; "))
def test_steps_of_names(series: str) -> None:
    names, steps = map(str.split, series.split(":"))
    paths = [Path("/9") / name for name in names]
    assert steps_of_files(paths) == sorted(zip(map(int, steps), paths))


@pytest.mark.parametrize(
    ("names", "got"),
    [
        ("c-1.pt c-2.pt best.pt", "best.pt"),
        ("b.pt a.pt", "b.pt"),
        ("e1_l0.5.pt l0.5.pt", "l0.5.pt"),
        ("e1.pt 0.5-x2.pt", "e1.pt"),
        ("a-1.pt b-1.pt", "a-1.pt and b-1.pt"),
        ("step=5.pt step=5-v1.pt", "step 5"),
        ("x/c-1.pt y/c-1.pt", "step 1"),
        ("1/a.pt 2/b.pt", "a.pt"),  # the names differ: they count
        ("w_1e3.pt w_2e3.pt", "w_1e3.pt"),
        ("ckpt_900.pt ckpt_1k.pt", "ckpt_1k.pt"),
        ("a_fp16.pt a_fp32.pt", "a_fp16.pt"),
        ("m_00001-of-00002.pt m_00002-of-00002.pt", "parts"),
        ("c-1/m-1-of-2.pt c-1/m-2-of-2.pt c-2/m-1-of-2.pt", "parts"),
    ],
)
def test_names_that_do_not_tell(names: str, got: str) -> None:
    with pytest.raises(codec.SettingsError) as caught:
        steps_of_files([Path(name) for name in names.split()])
    assert got in str(caught.value)


def test_steps_that_are_given() -> None:
    a, b, c = paths = [Path("a-7.pt"), Path("b-1.pt"), Path("c.pt")]
    assert numbered(paths, [20, 0, 10]) == [(0, b), (10, c), (20, a)]
    assert numbered(paths, None) == [(0, a), (1, b), (2, c)]
    with pytest.raises(codec.SettingsError, match=r"2 .* 3 files"):
        numbered(paths, [1, 2])
    with pytest.raises(codec.SettingsError, match=r"a-7\.pt and c\.pt: .*step 5"):
        numbered(paths, [5, 1, 5])


def test_as_people_count() -> None:
    assert sorted(["c10", "c9", "c", "b11"], key=by_numbers) == ["b11", "c", "c9", "c10"]


def test_parts_of_one_checkpoint() -> None:
    a, b, c = map(Path, ("x-1-of-2.pt", "x-2-of-2.pt", "y-2-of-2.pt"))
    assert parts_of_one([c, a, Path("x-1.pt"), b]) == [a, b]
    assert parts_of_one([a, c]) == []
