"""Failing again and again."""

from __future__ import annotations

import torch

import codec
from benchmarks.experiments.repeated import fail_repeatedly
from codec import Coding
from lcviz.lab.progress import as_report
from lcviz.lab.recovery.methods import Method, lc
from lcviz.lab.workload import workload
from tests.lcviz.common import Calls


def test_failing_again_and_again() -> None:
    """Against the same told step by step; with whole checkpoints nothing is lost."""
    of = workload("matrix-factorization")
    calls, methods = Calls(), [Method("full"), lc(Coding(1))]
    full, ours = fail_repeatedly(of, 1, methods, 2, 9, as_report(calls))
    assert calls == [(n, 27) for n in range(1, 28)]
    assert full.metric == full.undisturbed == ours.undisturbed
    training = of.training(1)
    start = {k: v.clone() for k, v in training.task.model.state_dict().items()}
    tracker = codec.Tracker(start, bits=1)
    for step in range(1, 10):
        training.iterate(step)
        tracker.step(training.task.model.state_dict())
        if step in (3, 6):
            training.load({"model": {k: torch.from_numpy(v) for k, v in tracker.state.items()}})
    assert ours.metric == training.task.held_out_metric() != ours.undisturbed
    assert (ours.metric_name, ours.seed) == ("RMSE", 1)
    assert 0 < ours.share < 0.2 < full.share
