"""A recommended setting as parameters of Live's URL, and as lines for any training loop."""

from __future__ import annotations

import streamlit as st

from demo_models import DATASETS, MODELS
from lcviz.lab.tuner.candidates import Setting
from lcviz.lab.workload import Workload

from . import widgets
from .coding_form import in_url
from .settings import OPTIMIZERS, WHAT
from .snippet import in_a_loop


def checkpoint_parameters(setting: Setting) -> dict[str, str]:
    """The parameters of Live's URL for this setting of a checkpoint."""
    return in_url(setting.coding) | {"interval": str(setting.interval)}


def training_parameters(
    workload: Workload, iterations: int, seed: int = 0, *, moments: bool = False
) -> dict[str, str]:
    """The parameters of Live's URL for this training. moments: whether Adam's m and v are saved."""
    saved = {"saved": WHAT[moments]} if moments else {}
    return saved | {
        "model": MODELS[workload.model].title,
        f"data_{workload.model}": DATASETS[workload.data].title,
        "optimizer": OPTIMIZERS[workload.optimizer],
        f"lr_{workload.model}_{workload.optimizer}": f"{workload.lr:g}",
        "momentum": f"{workload.momentum:g}",
        f"batch_{workload.model}": str(workload.batch_size),
        "iterations": str(iterations),
        "seed": str(seed),
    }


def own_training(setting: Setting, *, optimizer: bool = False) -> None:
    """A folded box with the code that saves with this setting in another training.

    optimizer: whether the code saves the optimizer's state, too.
    """
    box = widgets.opened("This setting in your own training", "code", "own-training")
    if box is None:
        return
    with box:
        st.code(in_a_loop(setting, optimizer=optimizer), language="python")
        st.caption(
            "`of` also takes the optimizer, whose moments are rounded to steps, schedulers, and "
            "whatever has a `state_dict`. Random states are saved and set, too."
        )
