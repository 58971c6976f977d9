"""A recommended setting as parameters of Live's URL, and as lines for any training loop."""

from __future__ import annotations

import streamlit as st

from demo_models import DATASETS, MODELS
from lcviz.lab.tuner.candidates import Setting
from lcviz.run.snapshot import RunSettings

from . import widgets
from .coding_form import in_url
from .settings import LOSSES, OPTIMIZERS, WHAT
from .snippet import in_a_loop


def run_parameters(settings: RunSettings) -> dict[str, str]:
    """The parameters of Live's URL with which its sidebar shows these settings of a run."""
    name, optimizer = settings.model, settings.optimizer
    return in_url(settings.coding) | {
        "model": MODELS[name].title,
        f"data_{name}": DATASETS[settings.data].title,
        "folder": settings.folder or "",
        "optimizer": OPTIMIZERS[optimizer],
        f"lr_{name}_{optimizer}": f"{settings.lr:g}",
        "momentum": f"{settings.momentum:g}",
        f"batch_{name}": str(settings.batch_size),
        "iterations": str(settings.stop_after),
        "seed": str(settings.seed),
        "interval": str(settings.interval),
        "saved": WHAT[settings.optimizer_state],
        "losses": LOSSES[settings.loss_share],
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
            "`of` also takes schedulers, whatever has a `state_dict`, and the optimizer, whose "
            "moments are rounded to steps. Random states are restored, too: 1 to 5 kB a "
            'checkpoint, not counted here. With `policy={"random/*": "skip"}` a restart has others.'
        )
