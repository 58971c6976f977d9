"""LeNet-5, the convolutional network that read cheques in the 1990s.

Layers as in LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document
recognition" (1998), with what later practice changed:

    input 1x28x28   padded by 2, which gives the 32x32 of the paper
    C1  6 kernels 5x5, ReLU        -> 6x28x28     156 parameters
    S2  2x2 max pooling            -> 6x14x14
    C3  16 kernels 5x5, ReLU       -> 16x10x10    2,416   (each sees all 6 maps)
    S4  2x2 max pooling            -> 16x5x5
    C5  dense 400 -> 120, ReLU                    48,120  (a 5x5 convolution in the paper)
    F6  dense 120 -> 84, ReLU                     10,164
    output dense 84 -> 10                         850     (radial basis functions in the paper)

The paper uses tanh and a trained average pooling. ReLU and max pooling, used here, learn visibly
within a hundred iterations.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from demo_models.model import IMAGE_DATA, Model, ModelCard


class LeNet5(Model):
    """28x28 pixels -> 10 class scores. Parameters: 61,706.

    Input float32 (n, 1, 28, 28) in [0, 1]; output float32 (n, 10), scores before the softmax.
    """

    side = 28
    n_classes = 10

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, kernel_size=5, padding=2)
        self.c3 = nn.Conv2d(6, 16, kernel_size=5)
        self.c5 = nn.Linear(16 * 5 * 5, 120)
        self.f6 = nn.Linear(120, 84)
        self.output = nn.Linear(84, self.n_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = max_pool2d(relu(self.c1(x)), 2)
        x = max_pool2d(relu(self.c3(x)), 2)
        x = relu(self.c5(x.flatten(1)))
        x = relu(self.f6(x))
        scores: Tensor = self.output(x)
        return scores

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the starting weights by He et al. (2015), which keeps signals even under ReLU."""
        for layer in (self.c1, self.c3, self.c5, self.f6, self.output):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


CARD = ModelCard(
    name="lenet5",
    title="LeNet-5",
    sentence="Two convolutions and three dense layers, the classic reader of digits.",
    parameters="61,706",
    data=IMAGE_DATA,
    side=LeNet5.side,
    build=lambda _: LeNet5(),
    optimizers={"sgd": (0.05, 0.0), "adam": (0.001, 0.0)},
    batch_size=32,
    lab_lr=0.007,
    lab_batch_size=128,
)
