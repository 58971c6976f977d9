"""The experiments that `python -m lcviz` runs."""

from .base import Experiment
from .costs import Overhead
from .failures import Recovery, Repeated
from .stages import Breakdown, RemovedBucket
from .tuning import Tune

EXPERIMENTS: tuple[Experiment, ...] = (
    Breakdown(),
    RemovedBucket(),
    Recovery(),
    Repeated(),
    Overhead(),
    Tune(),
)

__all__ = ["EXPERIMENTS", "Experiment"]
