"""Multinomial logistic regression: the simplest classifier there is, one matrix and one bias.

Each class has a template of 28x28 weights; the score of a class is the sum of the pixels times
the template, plus a bias, and softmax turns the ten scores into probabilities. The formula is
the textbook one (e.g. Bishop, Pattern Recognition and Machine Learning, section 4.3.4).
"""

import torch
from torch import Tensor, nn

from demo_models.model import IMAGE_DATA, Model, ModelCard


class LogisticRegression(Model):
    """28x28 pixels -> 10 class scores. Parameters: 784 * 10 + 10 = 7,850.

    Input float32 (n, 1, 28, 28) in [0, 1]; output float32 (n, 10), scores before the softmax.
    """

    side = 28
    n_classes = 10

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(self.side * self.side, self.n_classes)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.linear(x.flatten(1))
        return scores

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the starting weights.

        The problem is convex, so zeros would do; but with random numbers as small as a trained
        model's, even the first checkpoint is a fair sample for a codec.
        """
        nn.init.normal_(self.linear.weight, std=1 / self.side, generator=generator)
        nn.init.zeros_(self.linear.bias)


CARD = ModelCard(
    name="logistic-regression",
    title="Logistic regression",
    sentence="One template of weights per class; the simplest classifier of images.",
    parameters="7,850",
    data=IMAGE_DATA,
    side=LogisticRegression.side,
    build=lambda _: LogisticRegression(),
    optimizers={"sgd": (0.1, 0.0), "adam": (0.003, 0.0)},
    batch_size=256,
    lab_lr=0.03,
    lab_batch_size=128,
)
