"""AlexNet, scaled down from photographs of 227x227 to small grey images of 32x32.

The order of layers is that of Krizhevsky, Sutskever and Hinton, "ImageNet classification with
deep convolutional neural networks" (2012): five convolutions with overlapping max pooling after
the first, second and fifth, then three dense layers. Only the sizes shrink:

    input 1x32x32, minus its mean and doubled (the original subtracts the mean of all images)
    conv1  32 kernels 5x5, stride 2, ReLU, pool   -> 32x8x8        832 parameters
    conv2  64 kernels 5x5, ReLU, pool             -> 64x4x4     51,264
    conv3  96 kernels 3x3, ReLU                   -> 96x4x4     55,392
    conv4  96 kernels 3x3, ReLU                   -> 96x4x4     83,040
    conv5  64 kernels 3x3, ReLU, pool             -> 64x2x2     55,360
    dense1 256 -> 512, ReLU                                    131,584
    dense2 512 -> 512, ReLU                                    262,656
    dense3 512 -> 10                                             5,130

As in the original, most parameters are in the dense layers. Local response normalisation and
dropout are left out; dropout would let an evaluation change the run.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from demo_models.model import IMAGE_DATA, Model, ModelCard


def _pool(x: Tensor) -> Tensor:
    """Overlapping pooling: 3x3 windows, two apart, padded so that even sides halve."""
    return max_pool2d(x, kernel_size=3, stride=2, padding=1)


class AlexNet(Model):
    """32x32 pixels -> 10 class scores. Parameters: 645,258.

    Input float32 (n, 1, 32, 32) in [0, 1]; output float32 (n, 10), scores before the softmax.
    """

    side = 32
    n_classes = 10

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, kernel_size=5, stride=2, padding=2)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=5, padding=2)
        self.conv3 = nn.Conv2d(64, 96, kernel_size=3, padding=1)
        self.conv4 = nn.Conv2d(96, 96, kernel_size=3, padding=1)
        self.conv5 = nn.Conv2d(96, 64, kernel_size=3, padding=1)
        self.dense1 = nn.Linear(64 * 2 * 2, 512)
        self.dense2 = nn.Linear(512, 512)
        self.dense3 = nn.Linear(512, self.n_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = 2 * (x - x.mean(dim=(1, 2, 3), keepdim=True))
        x = _pool(relu(self.conv1(x)))
        x = _pool(relu(self.conv2(x)))
        x = relu(self.conv3(x))
        x = relu(self.conv4(x))
        x = _pool(relu(self.conv5(x)))
        x = relu(self.dense1(x.flatten(1)))
        x = relu(self.dense2(x))
        scores: Tensor = self.dense3(x)
        return scores

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the starting weights by He et al. (2015), and the last layer by LeCun et al. (1998).

        With the original's fixed spread of 0.01 and no normalisation, signals shrink at each of the
        eight layers, and plain SGD stays on its first plateau. No ReLU follows the last layer, so
        it goes without He's factor for ReLU.
        """
        convolutions = (self.conv1, self.conv2, self.conv3, self.conv4, self.conv5)
        for layer in (*convolutions, self.dense1, self.dense2, self.dense3):
            last = layer is self.dense3
            nn.init.kaiming_normal_(
                layer.weight, nonlinearity="linear" if last else "relu", generator=generator
            )
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


CARD = ModelCard(
    name="alexnet",
    title="AlexNet, scaled down",
    sentence="Five convolutions and three dense layers, shrunk to images of 32x32.",
    parameters="645,258",
    data=IMAGE_DATA,
    side=AlexNet.side,
    build=lambda _: AlexNet(),
    optimizers={"sgd": (0.01, 0.0), "adam": (0.0005, 0.0)},
    batch_size=32,
    lab_lr=0.0005,
    lab_batch_size=64,
)
