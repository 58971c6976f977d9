"""What tells one training from another."""

from __future__ import annotations

from codec import Coding
from lcviz.lab.workload import Workload, workload
from lcviz.recover.timelines import Drill


def test_the_same_name_in_another_folder_is_another_training() -> None:
    """A server keeps experiments by what was asked: files of one name may hold anything."""
    one, other = (Workload("matrix-factorization", "movielens", folder) for folder in ("a", "b"))
    assert one != other
    drills = {Drill(own, 0, 1, Coding()) for own in (one, other, one)}
    assert (len(drills), workload("lenet5")) == (2, workload("lenet5", "digits"))
