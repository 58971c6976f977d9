"""Which tensors are lossy, and that lossy moments stay what an optimizer can use."""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from codec.state.family import MODEL
from codec.state.policy import Policy
from codec.state.tensors import TensorSpec
from tests.codec.chains import save_all

F32 = np.float32
Logged = pytest.LogCaptureFixture


def adam(steps: int) -> list[dict[str, Any]]:
    """States of a training with Adam, from its first step on: eight moments of 788 numbers."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.Tanh(), torch.nn.Linear(20, 8))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    made = []
    for step in range(steps):
        x = torch.randn(16, 30) * (torch.rand(30) < 0.2)  # inputs that come and go
        loss = (model(x) - x[:, :8] * 2).square().mean() * 10.0 ** -(step % 5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        made.append(copy.deepcopy(state))
    return made


def everything_logged(caplog: Logged) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name.startswith("codec")]


def about_moments(caplog: Logged) -> list[str]:
    return [m for m in everything_logged(caplog) if "moments are lossy" in m]


def about_models(caplog: Logged) -> list[str]:
    """About what may be a model."""
    return [m for m in everything_logged(caplog) if "stored exactly" in m]


def policy_in(message: str) -> dict[str, str]:
    (policy,) = re.findall(r"policy=(\{.*?\})", message)
    return ast.literal_eval(policy)


def lossy_tensors(path: Path, state: Any, policy: dict[str, str] | None) -> list[TensorSpec]:
    """The tensors that a Checkpointer codes with loss."""
    save_all(path, [state], policy=policy)
    return [t for t in codec.Chain(path).layout().tensors if t.lossy]


def lossy(path: Path, state: Any, policy: dict[str, str] | None = None) -> set[str]:
    """Their names."""
    return {t.name for t in lossy_tensors(path, state, policy)}


def full(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


def test_default(tmp_path: Path) -> None:
    model = {"w": full(9), "n": np.arange(9), "bn.running_var": full(9), "tiny": full(7)}
    model["bn.running_mean"] = full(9)
    assert lossy(tmp_path / "flat", model) == {"w"}
    deep = {name: array.copy() for name, array in model.items()}
    nested = {
        "model": model,
        "state_dict": {"deep": [deep]},
        "optimizer": {"exp_avg": full(9)},
        "ema": full(9),
        "other": {"w": full(9)},
        "models": {"w": full(9)},
    }
    got = lossy(tmp_path / "nested", nested)
    assert got == {"model/w", "state_dict/deep/0/w", "ema", "optimizer/exp_avg"}


def entries(*keys: str, **more: Any) -> dict[str, Any]:
    """What an optimizer keeps of a parameter."""
    return {"step": torch.tensor(3.0)} | {key: full(9) for key in keys} | more


KNOWN = [
    {"exp_avg": "sizes"},
    {"exp_avg": "roots", "exp_avg_sq": "octaves", "max_exp_avg_sq": "octaves"},
    {"momentum_buffer": "sizes"},
    {"exp_avg": "sizes", "exp_inf": "octaves"},
    {"square_avg": "octaves", "momentum_buffer": "sizes", "grad_avg": "sizes"},
    {"square_avg": "octaves", "acc_delta": "octaves"},
    {"sum": "octaves"},
    {"exp_avg": "sizes", "exp_avg_sq_row": "octaves", "exp_avg_sq_col": "octaves"},
    {"row_var": "octaves", "col_var": "octaves"},
]
OTHERS = [  # SOAP, another's master weights, another's moment
    entries("exp_avg", "exp_avg_sq", GG=[full(3, 3)]),
    entries("exp_avg", "exp_avg_sq", Q={"left": full(3, 3)}),
    entries("exp_avg", "exp_avg_sq", "master_param"),
]


def targets(path: Path, state: Any, policy: dict[str, str] | None = None) -> dict[str, str]:
    """By moment, its family's target."""
    moments = [t for t in lossy_tensors(path, state, policy) if t.name[0] == "o"]
    return {t.name.rpartition("/")[2]: str(t.family.target or "") for t in moments}


@pytest.mark.parametrize("measures", KNOWN)
def test_each_moment_has_its_measure(measures: dict[str, str], tmp_path: Path) -> None:
    optimizer = {"state": {0: entries(*measures)}}
    got = targets(tmp_path / "run.lcc", {"model": {"w": full(9)}, "optimizer": optimizer})
    assert {key: text.partition("=")[0] for key, text in got.items()} == measures


@pytest.mark.parametrize("keys", KNOWN[:3])
def test_moments_of_known_optimizers(keys: dict[str, str], tmp_path: Path) -> None:
    """Below a name of an optimizer, or below a numbered state."""
    moments = {"state": {0: entries(*keys), 1: entries(*keys), "other": full(9)}}
    names = {name: copy.deepcopy(moments) for name in ("optimizer", "optG", "adam")}
    names |= {"optimizers": {"1": copy.deepcopy(moments)}, "d_optim": {"x": copy.deepcopy(moments)}}
    above = ("optimizer", "optG", "adam", "optimizers/1", "d_optim/x")
    expected = {f"{name}/state/{i}/{key}" for name in above for i in (0, 1) for key in keys}
    state = {"model": {"w": full(9)}} | names
    assert lossy(tmp_path / "run.lcc", state) == {"model/w"} | expected


@pytest.mark.parametrize("entry", OTHERS)
def test_what_another_optimizer_keeps_is_exact(entry: dict[str, Any], tmp_path: Path) -> None:
    state = {"model": {"w": full(9)}, "optimizer": {"state": {0: entry, 1: entries("exp_avg")}}}
    got = lossy(tmp_path / "run.lcc", state)
    assert got == {"model/w", "optimizer/state/1/exp_avg"}


def test_names_alone_are_no_moments(tmp_path: Path) -> None:
    """Without an optimizer above them; the model's own are the model's."""
    state = {
        "model": {"w": full(9), "optimizer": {"exp_avg": full(9)}},
        "ema": {"exp_avg": full(9)},
        "optimizer": {"exp_avg": full(7), "exp_avg_sq": np.full(9, 1.0), "momentum_buffer": 3},
    }
    assert lossy(tmp_path / "run.lcc", state) == {"model/w", "model/optimizer/exp_avg"}
    save_all(tmp_path / "run.lcc", [state], 1, resume=True)
    tensors = codec.Chain(tmp_path / "run.lcc").layout().tensors
    assert {t.family for t in tensors} == {MODEL}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"*": "exact"}, {}),
        ({"*/exp_avg_sq": "exact"}, {"exp_avg": "sizes=0.125"}),
        ({"*/exp_avg": "roots=1"}, {"exp_avg": "roots=1.0", "exp_avg_sq": "octaves=0.25"}),
        ({"optimizer/*": "sizes=2"}, {"exp_avg": "sizes=2.0", "exp_avg_sq": "sizes=2.0"}),
        ({"optimizer/*": "lossy"}, {"exp_avg": "roots=0.5", "exp_avg_sq": "octaves=0.25"}),
        ({"model/*": "bits=4"}, {"exp_avg": "roots=0.5", "exp_avg_sq": "octaves=0.25"}),
    ],
)
def test_a_policy_overrules(
    policy: dict[str, str], expected: dict[str, str], tmp_path: Path, caplog: Logged
) -> None:
    """What it names is not told."""
    optimizer = {"state": {0: entries("exp_avg", "exp_avg_sq")}}
    state = {"model": {"w": full(9)}, "optimizer": optimizer}
    assert targets(tmp_path / "run.lcc", state, policy) == expected
    mode = Policy(policy).mode_by_pattern
    default = [key for key in expected if mode(f"optimizer/state/0/{key}") is None]
    messages = about_moments(caplog)
    assert len(messages) == bool(default)
    assert all(f"({', '.join(default)}), {36 * len(default)} bytes" in m for m in messages)


def test_lossy_moments_are_told_once(tmp_path: Path, caplog: Logged, forks: None) -> None:
    """With the policy that stores them exactly; an optimizer without moments says nothing."""
    states = [{"model": {"w": full(9)}, "opt": {}}, *adam(3)]
    path = tmp_path / "1.lcc"
    with codec.Checkpointer(path, asynchronous=True) as checkpoints:
        for step, state in enumerate(states):
            assert len(about_moments(caplog)) == (step > 1)
            checkpoints.save(step, state)
    (message,) = about_moments(caplog)
    assert f"{path}: the optimizer's moments are lossy: 8 tensors" in message
    assert f"(exp_avg, exp_avg_sq), {4 * 2 * 788:,} bytes in float32" in message
    caplog.clear()
    names = lossy(tmp_path / "2.lcc", states[-1], policy_in(message))
    assert names == {f"model/{name}" for name in states[-1]["model"]}
    assert everything_logged(caplog) == []


def test_a_resumed_chain_says_nothing_again(tmp_path: Path, caplog: Logged) -> None:
    """What comes to it later is said, where the chain's tensors are known."""
    state = adam(1)[0] | {"generator": {"w": torch.ones(600)}}
    only_model = {"model": state["model"]}
    for path, states in (("1.lcc", [state] * 3), ("2.lcc", [only_model, only_model, state])):
        caplog.clear()
        for step, each in enumerate(states):
            save_all(tmp_path / path, [each], step, resume=True)
        assert len(about_moments(caplog)) == 1
        assert len(about_models(caplog)) == (path == "1.lcc")


@pytest.mark.parametrize(
    ("pattern", "mode", "message"),
    [
        ("optimizer/*", "bits=3", "an optimizer's: no bits=3, only lossy, .* octaves=S"),
        ("optimizer/*", "tolerance=0.1", "an optimizer's: no tolerance"),
        ("model/*", "octaves=0.25", "no optimizer's: no octaves=0.25"),
        ("optimizer/*", "roots=0", "a step of octaves, roots or sizes is .*; got 0"),
        ("optimizer/*", "sizes=nan", "got nan"),
    ],
)
def test_a_target_of_the_wrong_tensor_is_refused(
    pattern: str, mode: str, message: str, tmp_path: Path
) -> None:
    state = {"model": {"w": full(9)}, "optimizer": {"state": {0: entries("exp_avg")}}}
    with pytest.raises(codec.SettingsError, match=message):
        targets(tmp_path / "run.lcc", state, {pattern: mode})


def test_patterns(tmp_path: Path) -> None:
    """The first one that matches counts; * matches a slash too; none makes an integer lossy."""
    state = {"model": {"a": full(9), "b": full(9)}, "o": {"x": {"m": full(9), "n": np.arange(9)}}}
    policy = {"model/b": "exact", "o/*": "lossy", "*/m": "exact"}
    assert lossy(tmp_path / "1", state, policy) == {"model/a", "o/x/m"}
    policy = {"*": "exact", "model/*": "lossy"}
    assert lossy(tmp_path / "2", state, policy) == set()
    assert lossy(tmp_path / "3", state, {"model": "skip", "o/?": "skip"}) == set()
    assert codec.restore(tmp_path / "3") == {"o": {}}
    policy = {"o/x/n": "exact", "model/*": "lossy", "*": "skip"}  # what is kept, and nothing else
    assert lossy(tmp_path / "4", state, policy) == {"model/a", "model/b"}
    back = codec.restore(tmp_path / "4")
    assert [*back["model"], *back["o"], *back["o"]["x"]] == ["a", "b", "x", "n"]


STATE = {"model": {"fc.weight": full(9)}, "optimizer": {"state": {}, "groups": [0.1]}, "n": 3}


@pytest.mark.parametrize(
    ("pattern", "kind", "nearest", "asynchronous"),
    [
        ("optimiser/*", "exact", "'optimizer'", True),
        ("model.*", "lossy", "'model', 'model/fc.weight'", False),
        ("*/exp_avg", "bits=4", "'", False),
        ("*[", "skip", "'", False),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_at_the_first_save(
    pattern: str, kind: str, nearest: str, asynchronous: bool, tmp_path: Path, forks: None
) -> None:
    """With the nearest names and a mark that lets it match nothing; nothing is saved."""
    path = tmp_path / "run.lcc"
    policy = {"model/*": "lossy", pattern: kind}
    with codec.Checkpointer(path, policy=policy, asynchronous=asynchronous) as checkpoints:
        for _ in range(2):
            with pytest.raises(codec.SettingsError, match="matches nothing") as error:
                checkpoints.save(0, STATE)
            assert f"{pattern!r} matches nothing in the first state" in str(error.value)
            assert f"the nearest names are {nearest}" in str(error.value)
    assert not list(path.glob("*.safetensors"))
    (marked,) = re.findall(r"with a mark: (.*)$", str(error.value))
    lossy(path, STATE, policy | ast.literal_eval(f"{{{marked}}}"))


def test_a_pattern_may_match_what_is_no_tensor(tmp_path: Path) -> None:
    """Containers, values, other names of a tensor, what is skipped, and what is below that; with
    the same kind also what an earlier pattern matches."""
    odd: dict[Any, Any] = {"deep": {"er": 1}, object(): 1, 1 << 20_000: 2}
    odd["itself"] = odd
    shared = full(9)
    state = STATE | {"one": shared, "other": shared, "odd": odd}
    names = ("optimizer", "optimizer/state", "*/groups/0", "n", "one", "other", "odd/deep/er")
    policy = {"odd": "skip"} | dict.fromkeys(names, "exact")
    assert lossy(tmp_path / "run.lcc", state, policy) == {"model/fc.weight"}


def test_only_the_first_state_that_holds_something_is_asked_for_patterns(tmp_path: Path) -> None:
    with codec.Checkpointer(tmp_path / "1.lcc", policy={"model.*": "exact"}) as checkpoints:
        checkpoints.save(0, {})
        with pytest.raises(codec.SettingsError, match=r"'model\.\*' matches nothing"):
            checkpoints.save(1, STATE)
    save_all(tmp_path / "2.lcc", [STATE, {"model": STATE["model"]}], policy={"n": "exact"})


def test_a_pattern_behind_others_is_told(tmp_path: Path, caplog: Logged) -> None:
    """It matches, so it is no error; but if the kind is another one, it does nothing."""
    lossy(tmp_path / "1.lcc", STATE, {"*": "exact", "model/*": "lossy", "n": "exact"})
    (message,) = everything_logged(caplog)
    assert "'model/*' does nothing: earlier patterns match all its names" in message
    caplog.clear()
    lossy(tmp_path / "2.lcc", STATE, {"model/*": "lossy", "*": "exact"})
    assert everything_logged(caplog) == []


NO_POLICIES: list[Any] = [{"a": "skip??"}, {"a": "x"}, {"a": None}, {"a": ["lossy"]}, "", ["a"]]
NO_POLICIES += [{1: "lossy"}, 0, {"a": np.array(["lossy", "exact"])}]


@pytest.mark.parametrize("policy", NO_POLICIES, ids=repr)
def test_what_is_no_policy(tmp_path: Path, policy: Any) -> None:
    from codec.dcp import ChainWriter

    for made in (codec.Checkpointer, ChainWriter):
        with pytest.raises(codec.SettingsError, match="a policy maps patterns of names to"):
            made(tmp_path / "run.lcc", policy=policy)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("names", "policy", "exact"),
    [
        (["model", "copy"], {"copy/*": "exact"}, True),
        (["model", "copy"], {"model/*": "lossy", "*": "exact"}, True),
        (["model", "copy", "net"], {"net/w": "exact", "*": "lossy"}, True),
        (["net", "model"], {"model/*": "exact", "net/*": "lossy"}, True),
        (["model", "copy"], {"other/*": "exact?"}, False),
        (["model", "copy"], {"copy/v": "exact?", "copy/*": "lossy"}, False),
    ],
)
def test_of_a_tensor_with_several_names_the_strictest_rule_counts(
    names: list[str], policy: dict[str, str], exact: bool, tmp_path: Path, forks: None
) -> None:
    path, w = tmp_path / "run.lcc", torch.arange(40) / 7
    apart = "net" in names
    with codec.Checkpointer(path, 1, policy=policy, asynchronous=apart) as checkpoints:
        for step in range(3):
            w += torch.randn(40, generator=torch.Generator().manual_seed(step))
            checkpoints.save(step, {name: {"w": w} for name in names})
            back = checkpoints.restore() or {}
            assert len({id(back[name]["w"]) for name in names}) == 1, "still one tensor"
            assert torch.equal(back[names[0]]["w"], w) == (exact or step == 0)


def test_a_tensor_left_out_under_one_name_stays_under_the_others(tmp_path: Path) -> None:
    w = torch.arange(40) / 7
    for names in (["model", "copy", "net"], ["copy", "model", "net"]):
        path = tmp_path / f"{names[0]}.lcc"
        with codec.Checkpointer(path, policy={"copy/*": "skip", "net/*": "exact"}) as checkpoints:
            for step in range(3):
                w += 0.1 * step
                checkpoints.save(step, {name: {"w": w} for name in names})
        back = codec.restore(path)
        assert back["copy"] == {}
        assert torch.equal(back["model"]["w"], w)
        assert back["net"]["w"] is back["model"]["w"]


def test_names_that_come_and_go_during_a_training(tmp_path: Path) -> None:
    shared, separate = torch.zeros(40), torch.zeros(40)
    with codec.Checkpointer(tmp_path / "2.lcc", 1, policy={"copy/*": "exact"}) as checkpoints:
        for step, tied in enumerate([False, False, True, True, False, False]):
            for tensor in (shared, separate):
                tensor += torch.randn(40, generator=torch.Generator().manual_seed(step)).exp()
            state = {"model": {"w": shared}, "copy": {"w": shared if tied else separate}}
            checkpoints.save(step, state)
            back = codec.restore(tmp_path / "2.lcc", step)
            assert torch.equal(back["copy"]["w"], state["copy"]["w"])
            if step % 2:  # a delta: those before are bases
                assert torch.equal(back["model"]["w"], shared) == tied


def test_models_of_unknown_names_are_told_once(tmp_path: Path, caplog: Logged) -> None:
    """With a policy that, taken as it is, makes them lossy and the message go."""
    state: dict[str, Any] = {"epoch": 3}
    for name, letter in (("generator", "g"), ("discriminator", "d")):
        model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20))
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(4, 30)).sum().backward()
        optimizer.step()
        state |= {name: model.state_dict(), f"optimizer_{letter}": optimizer.state_dict()}
    save_all(tmp_path / "1.lcc", [state, state])
    (message,) = about_models(caplog)
    policy = policy_in(message)
    assert policy == {"generator/*": "lossy", "discriminator/*": "lossy"}
    default = lossy(tmp_path / "2.lcc", state)
    assert all(name.startswith("optimizer_") for name in default), "nothing has changed"
    caplog.clear()
    names = {name.partition("/")[0] for name in lossy(tmp_path / "3.lcc", state, policy)}
    assert names == {"generator", "discriminator", "optimizer_g", "optimizer_d"}
    assert lossy(tmp_path / "4.lcc", state, dict.fromkeys(policy, "exact")) == default
    assert about_models(caplog) == []


WIDE = torch.ones(100, 100)


@pytest.mark.parametrize(
    ("state", "patterns"),
    [
        ({"model": {"w": WIDE}, "ema": {"w": WIDE + 1, "n": 3}}, ["ema/*"]),
        ({"actor": {"w": WIDE}, "critic": {"w": WIDE + 1}}, ["actor/*", "critic/*"]),
        ({"nets": [{"w": WIDE}, {"w": WIDE + 1}]}, ["nets/*"]),
        ({f"net{i}": {"w": WIDE + i} for i in range(30)}, [f"net{i}/*" for i in range(30)]),
        ({"odd[1]*": {"w": WIDE}}, ["odd[[]1][*]/*"]),
        ({"checkpoint": {"state": {"net": {"w": WIDE}}}}, ["checkpoint/*"]),
        (
            {"gan": {"net": {"w": WIDE}, "optG": {"state": {0: {"m": WIDE + 1}}}, "v": WIDE + 2}},
            ["gan/net/*", "gan/v"],
        ),
    ],
)
def test_what_may_be_a_model(
    state: Any, patterns: list[str], tmp_path: Path, caplog: Logged
) -> None:
    lossy(tmp_path / "1.lcc", state)
    policy = policy_in(about_models(caplog)[0])
    assert list(policy) == patterns
    caplog.clear()
    lossy(tmp_path / "2.lcc", state, policy)
    assert about_models(caplog) == []


@pytest.fixture(scope="module")
def ordinary() -> dict[str, Any]:
    """A training state with all that usually goes with a model."""
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20))
    optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=9)
    model(torch.randn(4, 30)).sum().backward()
    optimizer.step()
    scheduler.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "scheduler": scheduler.state_dict(),
        "scaler": {"scale": torch.tensor(65536.0)},
        "rng": {"torch": torch.get_rng_state(), "numpy": np.arange(624, dtype=np.uint32)},
        "criterion": {"class_weights": torch.ones(10)},
        "best": {"loss": 0.1, "step": 3},
        "losses": [torch.tensor(0.1)] * 20,
    }


@pytest.mark.parametrize("name", ["opt", "optG", "optimizer_states", "adam", "d_optim"])
def test_no_false_alarms(
    ordinary: dict[str, Any], name: str, tmp_path: Path, caplog: Logged
) -> None:
    """Whatever the optimizer is called; nor of a second name of the model's own tensors."""
    state = {name if key == "optimizer" else key: value for key, value in ordinary.items()}
    rest = {"optimizer": ordinary["optimizer"], "scheduler": ordinary["scheduler"]}
    wide = {"model": {"w": WIDE}}
    for i, each in enumerate(
        (
            state | {"optimizer_g": {"momentum": {"w": WIDE}}},
            {"state_dict" if key == "model" else key: value for key, value in state.items()},
            *(ordinary["model"], rest, {"epoch": 1}, {}, wide | {"other": {"w": WIDE}}),
            wide | {"opt_state": [{"mu": {"w": WIDE + 1}, "nu": {"w": WIDE + 2}}]},
        )
    ):
        lossy(tmp_path / f"{i}.lcc", each)
    assert about_models(caplog) == []
