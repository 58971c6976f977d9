"""Another model needs its own file, which this one stands for, and an entry in the catalog."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from demo_models import DATASETS, MODELS, Model, ModelCard
from lcviz.lab.workload import workload
from lcviz.run.run import Run
from tests.lcviz.common import Patch


class Tiny(Model):
    """8x8 pixels -> 10 class scores."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.linear(x.flatten(1))
        return scores

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """See `Model`."""
        nn.init.normal_(self.linear.weight, std=0.1, generator=generator)
        nn.init.zeros_(self.linear.bias)


CARD = ModelCard(
    name="tiny",
    title="Tiny",
    sentence="One matrix.",
    parameters="650",
    data=("digits",),
    side=8,
    build=lambda _: Tiny(),
    optimizers={"sgd": (0.1, 0.0), "adam": (0.003, 0.0)},
    batch_size=32,
    lab_lr=0.02,
    lab_batch_size=64,
)


def test_another_model_is_a_file_and_an_entry(
    monkeypatch: Patch, make_run: Callable[..., Run]
) -> None:
    monkeypatch.setitem(MODELS, CARD.name, CARD)
    run = make_run(CARD.name, stop_after=20, bits=None)
    run.play()
    snapshot = run.wait(60)
    assert snapshot.status == "finished"
    assert run.task.title == f"Tiny on {DATASETS['digits'].title}"
    first, last = snapshot.checkpoints[0], snapshot.newest
    assert last.losses is not None
    assert first.losses is not None
    assert last.losses.restored < 0.9 * first.losses.live
    assert last.full_nbytes == 4 * 650

    lab = workload(CARD.name)
    assert (lab.data, lab.lr, lab.batch_size) == ("digits", 0.02, 64)
    assert lab.training(0).iterate(1) > 0
