"""What tells one training from another."""

from __future__ import annotations

import pytest
import torch

from codec import Coding
from lcviz.lab.workload import Workload, to_load, to_save, workload
from lcviz.recover.timelines import Drill


def test_the_same_name_in_another_folder_is_another_training() -> None:
    """A server keeps experiments by what was asked: files of one name may hold anything."""
    one, other = (Workload("matrix-factorization", "movielens", folder) for folder in ("a", "b"))
    assert one != other
    drills = {Drill(own, 0, 1, Coding()) for own in (one, other, one)}
    assert (len(drills), workload("lenet5")) == (2, workload("lenet5", "digits"))


@pytest.mark.parametrize("whole", [False, True])
def test_a_training_takes_what_was_saved_of_another(whole: bool) -> None:
    own = Workload("logistic-regression", "digits", optimizer="adam")
    saved, other = own.training(0), own.training(1)
    saved.iterate(1)
    state = saved.state()
    kept = to_save(state, whole)
    assert ("optimizer" in kept) == whole
    other.iterate(1)
    other.load(to_load(dict(kept), whole))
    now = other.state()
    assert all(torch.equal(now["model"][name], own) for name, own in state["model"].items())
    assert bool(now.get("optimizer")) == whole
