"""The race back from a crash: the same training again, the same bytes, the chain that is there."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import codec
from codec import Coding
from codec.errors import StepNotFoundError
from lcviz.lab.progress import as_report, unreported
from lcviz.lab.recovery.kill import BEFORE, CAPS, SECONDS, Crash, OnDisk, Pace, Raced, fingerprint
from lcviz.lab.recovery.methods import Method, lc
from lcviz.lab.recovery.recovery import Outcome, Protocol, fail_and_recover
from lcviz.lab.workload import Workload, workload

OF = workload("matrix-factorization")
INTERVAL, LAST, CAP = 3, 14, 15


def crash_of(chain: Path, of: Workload = OF, went_on: int | None = None) -> Crash:
    """A training that saved with LC alone and died at LAST; once it fell back to went_on."""
    training = of.training(2)
    with codec.Checkpointer(chain, bits=2, restore_work=None) as checkpoints:
        checkpoints.save(0, training.task.model.state_dict())
        for t in range(1, LAST + 1):
            training.iterate(t)
            if t % INTERVAL == 0:
                checkpoints.save(t, training.task.model.state_dict())
            if t == went_on:
                training.load({"model": codec.restore(chain, t)})
    entries = codec.Chain(chain).entries
    share = float(np.mean([e.nbytes for e in entries[1:]])) / (4 * 6300)
    return Crash(
        of,
        2,
        LAST,
        INTERVAL,
        OnDisk("lc", chain=chain, newest=entries[-1].step),
        share,
        fingerprint(training.task.model.state_dict()),
        frozenset() if went_on is None else frozenset({went_on}),
        CAP,
    )


def raced(crash: Crash) -> Raced:
    return crash.race(unreported)


@pytest.fixture(scope="module")
def crash(tmp_path_factory: pytest.TempPathFactory) -> Crash:
    return crash_of(tmp_path_factory.mktemp("killed") / "run.lcc")


@pytest.fixture(scope="module")
def found(crash: Crash) -> Raced:
    return raced(crash)


def test_lc_from_its_chain_is_lc_saved_again(crash: Crash, found: Raced) -> None:
    """Against the experiment that writes a chain of its own."""
    (again,) = fail_and_recover(OF, 2, [lc(Coding(2))], Protocol(LAST, INTERVAL, CAP), unreported)
    ours = found.outcomes[-1]
    assert ours.method == crash.ours
    assert found.alike
    assert codec.Chain(crash.ours.chain).steps == (0, 3, 6, 9, 12)  # it is only read
    for name in ("rework", "rework_raw", "capped", "distance", "loss_restored"):
        assert getattr(ours, name) == getattr(again, name), name
    assert ours.race.restored == again.race.restored
    assert ours.nbytes == pytest.approx(again.nbytes, rel=0.05)  # its names are longer


def test_the_others_have_the_same_bytes(crash: Crash, found: Raced) -> None:
    full, scar, topn, lc = found.outcomes
    assert [o.method.name for o in found.outcomes] == ["full", "SCAR", "TOPN", crash.ours.name]
    sizes = [e.nbytes for e in codec.Chain(crash.ours.chain).entries[1:]]
    assert lc.nbytes == np.mean(sizes)
    assert lc.share == pytest.approx(crash.share)
    for other in (scar, topn):
        assert 0.9 * lc.nbytes < other.nbytes <= lc.nbytes
    assert full.nbytes > 4 * 6300
    assert {o.loss_before for o in found.outcomes} == {full.loss_before}


def test_later_records_are_not_looked_at(found: Raced, tmp_path: Path) -> None:
    """The run may go on while its race is under way."""
    longer = crash_of(tmp_path / "run.lcc")
    with codec.Checkpointer(longer.ours.chain, bits=2, restore_work=None, resume=True) as goes_on:
        state = codec.restore(longer.ours.chain)
        goes_on.save(15, {name: tensor + 1 for name, tensor in state.items()})
    again = raced(longer)
    assert again.outcomes[-1].race == found.outcomes[-1].race
    assert again.outcomes[-1].nbytes == found.outcomes[-1].nbytes


def test_another_training_or_interval_is_told(crash: Crash) -> None:
    assert not raced(replace(crash, seed=3, cap=1)).alike
    with pytest.raises(StepNotFoundError, match="holds no step 1"):
        raced(replace(crash, interval=1))


def test_one_that_went_on_before(tmp_path: Path) -> None:
    """An earlier crash is repeated, too: what was restored then is in the chain."""
    crash = replace(crash_of(tmp_path / "run.lcc", went_on=6), cap=1)
    assert raced(crash).alike
    assert not raced(replace(crash, resumed_at=frozenset())).alike


def test_an_optimizer_that_remembers_begins_anew(tmp_path: Path) -> None:
    """With full too: a checkpoint holds the model alone. Against the same told plainly."""
    adam = replace(OF, optimizer="adam", lr=0.02)
    crash = crash_of(tmp_path / "run.lcc", adam)
    full = raced(crash).outcomes[0]
    assert full.share < 1.1
    plain = adam.training(2)
    for t in range(1, 13):  # the newest checkpoint
        plain.iterate(t)
    anew = adam.training(2)
    anew.load({"model": plain.state()["model"]})
    losses = [anew.task.probe_loss()]
    for t in range(13, 12 + len(full.race.restored)):
        anew.iterate(t)
        losses.append(anew.task.probe_loss())
    assert list(full.race.restored) == losses


def test_losses_before_the_crash(crash: Crash, found: Raced) -> None:
    w, plain = crash.protocol.smooth, OF.training(2)
    losses = [plain.task.probe_loss()]
    for t in range(1, LAST + CAP + w + 1):
        plain.iterate(t)
        losses.append(plain.task.probe_loss())
    for o in found.outcomes:
        assert list(o.race.before) == losses[: LAST + 1]  # BEFORE is more than there are
        trend = [np.mean(losses[max(t - w, 0) : t + w + 1]) for t in range(LAST + 1)]
        assert o.race.trend_before == pytest.approx(trend)
        assert o.race.trend_before[-1] == o.race.trend[0]
    few = Protocol(LAST, INTERVAL, 1, before=4)
    (short,) = fail_and_recover(OF, 2, [Method("full")], few)
    assert list(short.race.before) == losses[LAST - 4 : LAST + 1]
    assert short.race.trend_before == pytest.approx(trend[-5:])
    assert BEFORE > LAST


def test_progress_in_words(crash: Crash) -> None:
    told: list[str] = []
    crash.race(as_report(lambda done, total: told.append(crash.where(done / total))))
    assert told[:2] == ["Repeating the training: 1 of 14", "Repeating the training: 2 of 14"]
    assert told[13] == "Training on without a crash, to compare: 0 of 20"
    kinds = list(dict.fromkeys(t.partition(",")[0] for t in told[14:]))
    methods = [f"Racing back: {name}" for name in ("full", "SCAR", "TOPN", "LC")]
    assert kinds == ["Training on without a crash", *methods, "Counting"]
    assert "Racing back: SCAR, 1 of 17 at most" in told


def test_a_race_reports_how_far_each_method_is(crash: Crash, found: Raced) -> None:
    told: list[tuple[Outcome, ...]] = []
    crash.race(lambda _done, _total, so_far=(), /: told.append(so_far))
    names = [o.method.name for o in found.outcomes]
    assert {len(outcomes) for outcomes in told} == {0, 1, 2, 3, 4}
    lengths = []
    for outcomes in told[LAST + CAP + crash.protocol.smooth :]:
        assert [o.method.name for o in outcomes] == names[: len(outcomes)]
        lengths.append(sum(len(o.race.restored) for o in outcomes))
        for o, end in zip(outcomes, found.outcomes):
            assert o.race.restored == end.race.restored[: len(o.race.restored)]
            assert o.race.undisturbed == end.race.undisturbed
            tried = len(o.race.restored) - 1
            assert (o.rework, o.capped) == ((tried, True) if o.capped else (end.rework, False))
    assert {b - a for a, b in pairwise(lengths)} <= {0, 1, 2}
    seconds = {"save_seconds": 0.0, "seconds": 0.0}
    last, end = ([replace(o, **seconds) for o in of] for of in (told[-1], found.outcomes))
    assert last == end


def test_how_long_it_takes(crash: Crash) -> None:
    pace = Pace(iteration=0.1, probe=0.2, save=0.5)
    assert crash.seconds(pace) == pytest.approx(14 * 0.1 + 3 * 4 * 0.5 + (20 + 4 * 17) * 0.3)
    assert crash.capped(pace) == replace(crash, cap=CAPS[0])
    slow = Pace(1.2, 1.2, 0.0)
    chosen = crash.capped(slow)
    assert chosen is not None
    assert chosen.cap == 10 < CAPS[0]
    assert chosen == crash.shortest
    assert chosen.hurried
    assert not replace(crash, cap=CAPS[0]).hurried
    assert chosen.seconds(slow) <= SECONDS < replace(crash, cap=25).seconds(slow)
    assert crash.capped(Pace(100.0, 0.0, 0.0)) is None


def test_fingerprints() -> None:
    model = {"a": np.arange(3, dtype=np.float32), "b": np.zeros((2, 2), np.float32)}
    same = {name: torch.from_numpy(array.copy()) for name, array in model.items()}
    assert fingerprint(model) == fingerprint(same)
    same["b"][1, 1] = -0.0
    assert fingerprint(model) != fingerprint(same)  # bits, not values
