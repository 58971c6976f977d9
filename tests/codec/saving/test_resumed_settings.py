"""A chain goes on with its own settings, except for those that are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import codec
from codec.cli.main import main
from codec.errors import ChainNotFoundError, MalformedRecordError, RecordError, SettingsError
from codec.record.record import Place
from codec.scheme.coding import Coding
from tests.codec.chains import save_all, shorten
from tests.codec.forging import forge, parts_of

Opened = Callable[..., codec.Checkpointer]
Logged = pytest.LogCaptureFixture
EXACT = {"*": "exact"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run.lcc"


@pytest.fixture(
    params=[False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["here", "asynchronous"]
)
def opened(run: Path, request: pytest.FixtureRequest) -> Opened:
    def open_it(**settings: Any) -> codec.Checkpointer:
        return codec.Checkpointer(run, asynchronous=request.param, resume=True, **settings)

    return open_it


def state(step: int) -> dict[str, Any]:
    """Weights that all move; the optimizer has moments from its first step on."""
    rng = np.random.default_rng(step)
    model = {"w": rng.normal(size=(30, 20)), "head": rng.normal(size=40)}
    moments = {"exp_avg": rng.normal(size=600), "exp_avg_sq": rng.random(600), "step": step}
    adam = {0: {key: np.float32(value) for key, value in moments.items()} if step else {}}
    return {
        "model": {name: w.astype(np.float32) for name, w in model.items()},
        "ema": {"w": rng.normal(size=600).astype(np.float32)},
        "optimizer": {"state": adam},
    } | ({} if step else {"note": "begun"})


def flat(nested: Any) -> list[bytes]:
    """The bytes of all arrays."""
    if isinstance(nested, dict):
        return [data for value in nested.values() for data in flat(value)]
    return [nested.tobytes()] if isinstance(nested, np.ndarray | np.generic) else []


def lossy_in(run: Path) -> set[str]:
    return {t.name for t in codec.Chain(run).at().track.layout.tensors if t.lossy}


def said(caplog: Logged) -> list[str]:
    return [r.getMessage() for r in caplog.records if "goes on with" in r.getMessage()]


@pytest.mark.parametrize("policy", [EXACT, {"model/*": "exact", "optimizer/*": "exact"}], ids=str)
def test_an_exact_chain_stays_exact(opened: Opened, run: Path, policy: Any, caplog: Logged) -> None:
    """To the last bit, also what comes later, and when the chain was compacted."""
    for step in range(6):
        with opened(**({} if step else {"policy": policy})) as checkpoints:
            assert checkpoints.restore() is None or step
            checkpoints.save(step, state(step))
        assert flat(codec.restore(run)) == flat(state(step))
        assert not lossy_in(run)
        if step == 3:
            codec.compact(run)
    assert not said(caplog)


@pytest.mark.parametrize(
    "settings",
    [
        {"bits": 3},
        {"bits": None, "scope": "tensor", "coder": "huffman"},
        {"budget": 0.4, "quantizer": "exponent"},
        {"budget": 0.4},
        {"tolerance": 1e-05},
        {"distance": 0.1, "policy": {"model/head": "bits=2", "*/none": "exact?", "note": "skip"}},
        {"policy": {"ema/*": "lossy", "note": "skip"}},
    ],
    ids=str,
)
def test_every_setting_goes_on(
    opened: Opened, run: Path, settings: dict[str, Any], caplog: Logged
) -> None:
    """From a base alone, from deltas, and from what compact has made."""
    policy = settings.get("policy")
    coding = {name: value for name, value in settings.items() if name != "policy"}
    for step in range(6):
        with opened(**({} if step else settings)) as checkpoints:
            assert checkpoints.coding == Coding.safe(**coding)
            assert checkpoints.policy.given == (policy or {})
            checkpoints.save(step, state(step))
        assert ("ema/w" in lossy_in(run)) == ("ema/*" in (policy or {}))
        assert ("note" in codec.restore(run)) == (policy is None and step == 0)
        if step == 2:
            codec.compact(run)
    deltas = [p.delta.coding for p in codec.Chain(run).replay() if p.delta and p.step > 4]
    assert deltas == [Coding.safe(**coding)]
    assert not said(caplog)


def test_what_is_given_is_used_and_said(opened: Opened, run: Path, caplog: Logged) -> None:
    """And goes on in its turn: a delta says it."""
    last = {"later/*": "skip?", **EXACT}
    ways: list[tuple[dict[str, Any], str]] = [
        ({"bits": 3}, ""),
        ({"distance": 0.2}, "distance=0.2 instead of bits=3"),
        ({"coder": "huffman"}, "coder='huffman' instead of coder='runlength'"),
        ({"policy": {"later/*": "exact?"}}, "policy={'later/*': 'exact?'} instead of policy={}"),
        ({"policy": {}}, "policy={} instead of policy={'later/*': 'exact?'}"),
        ({"policy": EXACT}, "policy={'*': 'exact'} instead of policy={}"),
        ({"policy": last}, f"policy={last} instead of policy={EXACT}"),
    ]
    for step, (settings, text) in enumerate(ways):
        caplog.clear()
        for again in (0, 1):
            with opened(**({} if again else settings)) as checkpoints:
                checkpoints.save(2 * step + again, state(1 + 2 * step + again))
        assert said(caplog) == ([f"{run}: goes on with {text}"] if text else [])
    assert (checkpoints.coding.distance, checkpoints.coding.coder) == (0.2, "huffman")
    assert not lossy_in(run)
    with opened(distance=0.2) as checkpoints:
        checkpoints.save(99, state(99))
        assert checkpoints.policy.given == last
    assert flat(codec.restore(run)) == flat(state(99))
    assert codec.verify(run).ok


def test_exact_becomes_lossy_only_if_a_pattern_says_so(opened: Opened, run: Path) -> None:
    """The error has the chain's policy, the one to be used, and both ways on; nothing changes."""
    with opened(policy=EXACT) as checkpoints:
        checkpoints.save(0, state(1))
    files = sorted(run.iterdir())
    for policy in ({}, {"model/head": "bits=2"}, {"optimizer/*": "exact"}):
        with pytest.raises(SettingsError) as raised:
            opened(policy=policy)
        message = str(raised.value)
        assert "exact in this chain (policy={'*': 'exact'})" in message
        assert f"with policy={policy} lossy by default" in message
        assert "add to the policy {'model/*': 'lossy'" in message
        assert ("'optimizer/*': 'lossy'" in message) is ("optimizer/*" not in policy)
        assert "'model/*': 'exact'" in message
        assert sorted(run.iterdir()) == files
    with opened(policy={"model/*": "lossy", "optimizer/*": "lossy"}) as checkpoints:
        checkpoints.save(1, state(2))
    moments = {f"optimizer/state/0/{moment}" for moment in ("exp_avg", "exp_avg_sq")}
    assert lossy_in(run) == {"model/w", "model/head"} | moments


def test_a_chain_that_does_not_say_its_settings(opened: Opened, run: Path) -> None:
    """As earlier versions wrote it: deltas have their coding, and what is exact is known."""
    more = Place.more

    def earlier(place: Place) -> dict[str, Any]:
        return {key: value for key, value in more(place).items() if key != "settings"}

    with mock.patch.object(Place, "more", earlier), opened(bits=3, policy=EXACT) as checkpoints:
        for step in (0, 1):
            checkpoints.save(step, state(1 + step))
    with pytest.raises(SettingsError, match=r"no policy is recorded\), and with policy=\{\} lossy"):
        opened()
    with opened(policy=EXACT) as checkpoints:
        assert checkpoints.coding == Coding(3)
        checkpoints.save(2, state(3))
    with opened() as checkpoints:
        assert checkpoints.policy.given == EXACT


def test_settings_that_no_version_knows(run: Path) -> None:
    """They are refused by who resumes; readers do not look at them."""
    save_all(run, [state(1)], bits=3)
    base = next(run.glob("*.base.*"))
    fields, arrays = parts_of(base.read_bytes())
    for wrong in ({"coding": "xr 3"}, {"coding": 3}, {"policy": ["*"]}, {"policy": {"*": "odd"}}):
        base.write_bytes(forge(fields | {"settings": {"coding": "mr 3"} | wrong}, arrays))
        assert flat(codec.restore(run)) == flat(state(1))
        with pytest.raises(MalformedRecordError):
            codec.Checkpointer(run, resume=True)


def test_a_chain_that_is_required(opened: Opened, run: Path) -> None:
    """Where none is, nothing is made; where nothing restores, it fails as resume=True does."""
    for asynchronous in (False, True):
        with pytest.raises(ChainNotFoundError, match=r"resume='required' needs a chain: .*=True"):
            codec.Checkpointer(run, resume="required", asynchronous=asynchronous)
        assert not run.exists()
    with pytest.raises(SettingsError, match="resume must be True, False or 'required'; got 'yes'"):
        codec.Checkpointer(run, resume="yes")
    with opened() as checkpoints:
        checkpoints.save(0, state(1))
    with codec.Checkpointer(run, resume="required") as checkpoints:
        assert checkpoints.step == 0
        checkpoints.save(1, state(2))
    shorten(next(run.glob("*.base.*")))
    for resume in (True, "required"):
        with pytest.raises(RecordError, match="no step restores: put back a copy"):
            codec.Checkpointer(run, resume=resume)


def test_files_that_are_appended(run: Path, tmp_path: Path) -> None:
    """The command line goes on with what the chain skips, has exactly, and how it is coded."""
    torch = pytest.importorskip("torch")
    files = [tmp_path / f"{step}.pt" for step in range(3)]
    for step, file in enumerate(files):
        w = torch.from_numpy(state(step)["model"]["w"])
        torch.save({"model": {"w": w, "debug": w}, "note": "x"}, file)
    policy = ["--policy", "model/debug=skip", "--policy", "model/w=exact"]
    assert main(["compress", str(files[0]), "-o", str(run), "--bits", "3", *policy]) == 0
    assert main(["compress", *map(str, files), "-o", str(run), "--resume"]) == 0
    assert codec.Chain(run).steps == (0, 1, 2)
    assert codec.restore(run)["model"].keys() == {"w"}
    assert not lossy_in(run)
    assert {d.coding for d in (p.delta for p in codec.Chain(run).replay()) if d} == {Coding(3)}
