"""What tells one training from another."""

from lcviz.lab.workload import Workload, workload


def test_the_same_name_in_another_folder_is_another_training() -> None:
    """A server keeps experiments by what was asked: files of one name may hold anything."""
    one, other = (Workload("matrix-factorization", "movielens", folder) for folder in ("a", "b"))
    assert one != other
    assert (len({one, other, one}), workload("lenet5")) == (2, workload("lenet5", "digits"))
