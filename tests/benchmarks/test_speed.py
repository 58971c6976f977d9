"""The benchmark `speed`: its data, its round trips, its figures; never how fast anything is."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from benchmarks import speed
from benchmarks.codec_speed import cases, goals, peers, samples, scaling, tables, tasks
from benchmarks.codec_speed.tasks import ACTIONS, COPY, COPY_1, Copier, RoundTripError

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

TINY = "100k"
CODERS = ("runlength", "huffman")


@pytest.fixture(autouse=True)
def _small_and_short(monkeypatch: Patch) -> None:
    """One round is one round, and no caches are emptied."""
    monkeypatch.setattr(cases, "SMALL_FACTOR", 1)
    monkeypatch.setattr(cases, "FLUSH", 1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    with speed.using(2):
        yield


def test_structure_and_sizes(capsys: Capture) -> None:
    """Every case has every tool, and its sizes are those of real encodings."""
    usual = codec.threads()
    arguments = f"--sizes {TINY} --rounds 1 --json --data mlp:4,lap:3 --threads 3"
    assert speed.main(arguments.split()) == 0
    captured = capsys.readouterr()
    assert "100k parameters of lap:3 in " in captured.err
    measured = json.loads(captured.out)
    assert codec.threads() == usual
    assert (measured["threads"], measured["rounds"]) == (3, 1)
    assert set(measured["machine"]) == {"cpu", "cores", "memory", "system", "versions"}
    assert (measured["lc_checkpoint"], measured["growth"], measured["cold_start"]) == (None, [], [])
    for case, (name, bits) in zip(measured["cases"], (("mlp", 4), ("lap", 3)), strict=True):
        assert case["data"] == f"{name}:{bits}"
        assert list(case["tools"]) == [COPY, COPY_1, *CODERS]
        (copying,) = case["tools"][COPY]["copy"]["seconds"]
        for tool_name, tool in case["tools"].items():
            actions = ["copy"] if tool_name in (COPY, COPY_1) else [*ACTIONS]
            assert [key for key in tool if key != "bits"] == actions
            for action in actions:
                (seconds,) = tool[action]["seconds"]
                assert tool[action]["gbs"] == pytest.approx(4e-9 * case["n"] / seconds)
                assert tool[action]["to_copy"] == pytest.approx(copying / seconds)
        sample = samples.make(name, 100 * 1024)
        q = codec.quantize(sample.state - sample.track, bits)
        assert (case["n"], case["levels"]) == (sample.n, q.levels.size)
        assert case["zeros"] == q.counts[0] / sample.n
        shuffled = replace(q, codes=np.random.default_rng(0).permutation(q.codes))
        for coder in CODERS:
            assert case["tools"][coder]["bits"] == 8 * codec.encode(q, coder).nbytes / sample.n
            assert case["shuffled"][coder] == 8 * codec.encode(shuffled, coder).nbytes / sample.n


def test_what_is_timed_is_what_the_tracker_does(two_threads: None) -> None:
    sample = samples.make("mlp", 2**17)
    before = sample.track.tobytes()
    tracker = codec.Tracker(sample.tensors(sample.track), 3)
    step = tracker.step(sample.tensors(sample.state))
    expected = cases.expected_track(sample, codec.quantize(sample.state - sample.track, 3))
    for name, array in sample.tensors(expected).items():
        assert array.tobytes() == tracker.state[name].tobytes()
    out = np.zeros(sample.n, np.float32)
    with Copier() as copy:
        tools = tasks.ours(sample, 3, "runlength", out, copy, expected)
        encode, decode, in_place = tools.tasks
        for _ in range(2):
            encode.reset()
            made, digest = encode.run()
            encode.check((made, digest))
            assert digest == tasks.fingerprint(step)
            out.fill(1)
            decode.check(decode.run())
            assert out.tobytes() == expected.tobytes()
            in_place.reset()
            in_place.check(in_place.run())
        assert tools.bits["runlength"]() == 8 * step.nbytes / sample.n
        assert sample.track.tobytes() == before


def test_a_wrong_result_is_no_result(two_threads: None) -> None:
    sample = samples.make("lap", 2**16)
    q = codec.quantize(sample.state - sample.track, 3)
    expected, out = cases.expected_track(sample, q), np.zeros(sample.n, np.float32)
    with Copier() as copy:
        encode, decode, in_place = tasks.ours(sample, 3, "huffman", out, copy, expected).tasks
        decode.run()
        out[5] += 1
        with pytest.raises(RoundTripError, match="contradict"):
            decode.check(None)
        in_place.reset()
        in_place.run()
        with pytest.raises(RoundTripError, match="another digest"):
            in_place.run()  # not put back: moved twice
        encode.reset()
        result = encode.run()
        with pytest.raises(RoundTripError, match="two ways"):
            encode.check((result[0], b""))
        expected[7] += 1
        with pytest.raises(RoundTripError, match="huffman did not give back"):
            encode.check(result)
        for task in tasks.copies(sample, out, copy).tasks:
            task.run()
            task.check(None)
            out[-1] += 1
            with pytest.raises(RoundTripError, match="copy"):
                task.check(None)


def test_line() -> None:
    sizes = [2**20, 2**22, 2**24]
    fixed, ns, off = scaling.fit_line(sizes, [2e6 / n + 0.5 for n in sizes])  # 2 ms and 0.5 ns each
    assert (fixed, ns, off) == (pytest.approx(2), pytest.approx(0.5), pytest.approx(0, abs=1e-9))
    fixed, ns, off = scaling.fit_line([1, 2, 3], [1e6, 2e6, 1e6])  # times of 1, 4, 3 ms
    assert off > 0.3
    rows = [
        {"n": n, "ns": {"encode": 2e6 / n + 0.5}, "to_copy": {"encode": 1}, "extra": None}
        for n in sizes
    ]
    assert "encode 2.00 ms and 0.500 ns a parameter (off by 0% at most)" in tables.growth(rows)


def test_goals(tmp_path: Path, monkeypatch: Patch) -> None:
    """Each goal is judged for its own sizes and data.

    The work of other processes is done in this one.
    """

    def here(what: str, *arguments: Any) -> Any:
        return json.loads(json.dumps(getattr(scaling, what)(*arguments)))

    monkeypatch.setattr(scaling, "_child", here)
    start = {"cache": "warm", "what": "warm_up", "import": 0.5, "seconds": 0.25}
    monkeypatch.setattr(scaling, "cold_start", lambda _: [start])
    ours = {"bits": 1, "encode": 1, "decode": 1, "error": 0.5}
    comparison = {"n": 10, "theirs": None, "problem": "x is not installed", "ours": ours}
    monkeypatch.setattr(peers, "lc_checkpoint", lambda: comparison)
    monkeypatch.setattr(goals, "LARGE", 2**16)
    arguments = "--sizes 64k --data lap:3 --rounds 1 --growth 64k,65k,66k --peers -o"
    assert speed.main([*arguments.split(), str(tmp_path / "RESULTS.md")]) == 0
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "python benchmarks/speed.py --sizes 64k" in text
    parts = "## Goals: |~94 % zeros|extra bytes|off a fixed time|As straight lines: copy "
    growth = scaling.growth([2**16], rounds=1)[0]
    assert set(growth["ns"]) == set(growth["to_copy"]) == {"copy", "encode", "decode in place"}
    assert growth["to_copy"]["copy"] == 1
    assert "| 64k " in text.partition("extra bytes")[2]
    assert all(part in text for part in [*parts.split("|"), "no result: x is not installed"])
    assert re.search(r"\| warm +\| warm_up +\| 0.50 +\| 0.25 +\| 0.75 +\|", text)
    rows = text.partition("## 64k parameters of lap:3")[2].partition("\n## ")[0].splitlines()
    rows = [row for row in rows if row.startswith("|")]
    assert [row.split(" | ")[0].strip("| ") for row in rows[2:6]] == [COPY, COPY_1, *CODERS]
    assert len({row.count("|") for row in rows}) == 1


def tool(seconds: float, bits: float, to_copy: float) -> dict[str, Any]:
    action = {"seconds": [seconds], "to_copy": to_copy}
    return {"bits": bits, **dict.fromkeys(ACTIONS, action)}


def test_verdicts() -> None:
    case = {
        "n": 2**24,
        "data": "lap:3",
        "zeros": 0.94,
        "entropy": 1.0,
        "shuffled": {"runlength": 1.02, "huffman": 1.5},
        "tools": {
            "runlength": tool(1.0, 1.6, 0.5),
            "huffman": tool(1.0, 1.5, 0.5),
            "zipnn of the state": tool(5.0, 26, 0.1),
            "zipnn of the delta": tool(3.0, 21, 0.2),
        },
    }
    result = {"cases": [case], "memory": [], "growth": []}
    by_goal = {v.goal: (v.measured, v.met) for v in goals.verdicts(result)}
    assert by_goal == {
        "encode ÷ copy": (0.5, True),
        "encode ÷ zipnn": (3.0, False),  # beside the faster of the two
        "decode ÷ copy": (0.5, False),
        "decode in place ÷ copy": (0.5, False),
        "bits ÷ entropy, symbols shuffled": (1.02, False),
        "bits ÷ the paper's Huffman code": (pytest.approx(1.6 / 1.5), False),
    }
    small = case | {"n": 2**20, "zeros": 0.99, "shuffled": None}
    small["tools"] = {name: small["tools"][name] for name in CODERS}
    met = {v.goal: v.met for v in goals.verdicts(result | {"cases": [small]})}
    assert met == {"encode ÷ zipnn": None, "bits ÷ the paper's Huffman code": False}
    rows = [
        {"n": n * 2**20, "extra": extra, "ns": {"encode": ns, "decode in place": 1.0}}
        for n, extra, ns in ((1, 9.0, 2.0), (16, 1.2, 1.0), (64, 1.3, 2.0))
    ]
    verdicts = list(goals.verdicts({"cases": [], "memory": [], "growth": rows}))
    assert [(v.where, v.met) for v in verdicts] == [
        ("16M lap:3", True),
        ("64M lap:3", False),
        ("1M to 64M", False),
        ("1M to 64M", True),
    ]
    assert [v.cells()[-1] for v in verdicts[:2]] == ["yes", "**no**"]
