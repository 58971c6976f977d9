"""The optimizers: plain SGD, SGD with momentum, and Adam.

    SGD    w <- w - lr * g
    with momentum m:  v <- m * v + g,  w <- w - lr * v
    Adam   steps of about lr each, the gradient divided by its own recent size
           (Kingma and Ba, "Adam: a method for stochastic optimization", 2015)

Plain SGD has no state. Momentum has one more number per weight, Adam two; a checkpoint from which
training continues exactly must hold them too.
"""

import math
from collections.abc import Iterable

import torch
from torch import nn

from demo_models.errors import NumberError, UnknownNameError

OPTIMIZERS = ("sgd", "adam")


def make_optimizer(
    name: str, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.0
) -> torch.optim.Optimizer:
    """Make an optimizer.

    Args:
        name: "sgd", or "adam" (betas 0.9 and 0.999).
        parameters: what it changes.
        lr: learning rate, above 0.
        momentum: of SGD, from 0 to below 1; 0 for Adam.

    Raises:
        UnknownNameError: there is no such optimizer.
        NumberError: `lr` or `momentum` is out of range.
    """
    if name not in OPTIMIZERS:
        raise UnknownNameError("optimizer", name, OPTIMIZERS)
    if not (math.isfinite(lr) and lr > 0):
        raise NumberError(f"The learning rate is {lr}; choose a number above 0.")
    if not 0 <= momentum < 1:
        raise NumberError(f"The momentum is {momentum}; choose a number from 0 to below 1.")
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum)
    if momentum:
        raise NumberError("Adam has a momentum of its own; set the momentum to 0.")
    return torch.optim.Adam(parameters, lr=lr)
