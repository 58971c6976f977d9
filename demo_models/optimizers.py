"""The optimizers: plain SGD, SGD with momentum, Adam, and AdamW.

    SGD    w <- w - lr * g
    with momentum m:  v <- m * v + g,  w <- w - lr * v
    Adam   steps of about lr each, the gradient divided by its own recent size
           (Kingma and Ba, "Adam: a method for stochastic optimization", 2015)
    AdamW  the same, and w <- w - lr * 0.1 * w before each step
           (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019)

Plain SGD has no state. Momentum has one more number per weight, Adam and AdamW two; a checkpoint
from which training continues exactly must hold them too.
"""

import math
from collections.abc import Iterable

import torch
from torch import nn

from demo_models.errors import NumberError, UnknownNameError

OPTIMIZERS = ("sgd", "adam", "adamw")
WITH_MOMENTS = ("adam", "adamw")  # those that keep two moments of every weight
BETA1 = 0.9
WEIGHT_DECAY = 0.1  # of AdamW


def make_optimizer(
    name: str,
    parameters: Iterable[nn.Parameter],
    lr: float,
    momentum: float = 0.0,
    beta2: float = 0.999,
) -> torch.optim.Optimizer:
    """Make an optimizer.

    Args:
        name: "sgd", "adam" or "adamw".
        parameters: what it changes.
        lr: learning rate, above 0.
        momentum: of SGD, from 0 to below 1; 0 for Adam and AdamW.
        beta2: of Adam and AdamW, from 0 to below 1: how much of the mean squared gradient is kept
            in a step. The mean gradient keeps 0.9.

    Raises:
        UnknownNameError: there is no such optimizer.
        NumberError: `lr`, `momentum` or `beta2` is out of range.
    """
    if name not in OPTIMIZERS:
        raise UnknownNameError("optimizer", name, OPTIMIZERS)
    if not (math.isfinite(lr) and lr > 0):
        raise NumberError(f"The learning rate is {lr}; choose a number above 0.")
    if not 0 <= momentum < 1:
        raise NumberError(f"The momentum is {momentum}; choose a number from 0 to below 1.")
    if not 0 <= beta2 < 1:
        raise NumberError(f"Beta2 is {beta2}; choose a number from 0 to below 1.")
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum)
    if momentum:
        raise NumberError("Adam has a momentum of its own; set the momentum to 0.")
    betas = BETA1, beta2
    if name == "adam":
        return torch.optim.Adam(parameters, lr=lr, betas=betas)
    return torch.optim.AdamW(parameters, lr=lr, betas=betas, weight_decay=WEIGHT_DECAY)


def begin_state(optimizer: torch.optim.Optimizer) -> None:
    """Give a new Adam or AdamW the state with which its first step would begin.

    The moments are zeros, so training comes out the same to the last bit. Other optimizers, and
    those that have a state, stay as they are.
    """
    if not isinstance(optimizer, torch.optim.Adam):  # AdamW is one
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter not in optimizer.state:
                optimizer.state[parameter] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                    "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                }
