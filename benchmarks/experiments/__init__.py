"""The experiments of `python -m benchmarks.experiments`.

Reading order:

    __main__      the command
    base          what they share: arguments, trials, tables
    results_file  trials kept in a file, so that an interrupted experiment goes on
    stages        breakdown (measured in breakdown.py), removed-bucket
    failures      recovery, repeated
    costs         overhead (measured in overhead.py)
    tuning        tune
    frontier      frontier (measured in points.py)
"""

from .base import Experiment
from .costs import Overhead
from .failures import Recovery, Repeated
from .frontier import Frontier
from .stages import Breakdown, RemovedBucket
from .tuning import Tune

EXPERIMENTS: tuple[Experiment, ...] = (
    Breakdown(),
    RemovedBucket(),
    Recovery(),
    Repeated(),
    Overhead(),
    Tune(),
    Frontier(),
)

__all__ = ["EXPERIMENTS", "Experiment"]
