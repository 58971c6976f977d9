"""The settings in the sidebar of the Live page.

Each is bound to the URL: a link opens the page with the same choices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from codec import Coding
from demo_models import DATASETS, FOLDER_VARIABLE, MODELS, ModelCard
from lcviz.run.snapshot import RunSettings

from .coding_form import coding_form
from .widgets import choice, whole_number

OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
LOSS_SHARE = 0.04
LOSSES = {LOSS_SHARE: "sometimes", None: "always"}
_IN_URL: dict[str, Any] = {"bind": "query-params"}
_IN_SESSION: dict[str, Any] = _IN_URL | {"persist_state": "session"}


def settings_form() -> RunSettings:
    """The choices for the next run, in the sidebar."""
    with st.sidebar:
        st.subheader("Training")
        card = _model()
        data, folder = _data(card)
        optimizer, lr, momentum = _optimizer(card)
        batch_size = whole_number(
            "Batch size",
            1,
            1_000_000,
            card.batch_size,
            key=f"batch_{card.name}",
            text="Examples per iteration.",
        )
        stop_after = whole_number(
            "Iterations",
            1,
            20_000,
            RunSettings.stop_after,
            key="iterations",
            text="The run ends after so many.",
        )
        same = "The same seed and settings give the same run, byte for byte."
        seed = whole_number("Seed", 0, 2**31, 0, key="seed", text=same)
        st.subheader("Checkpoints")
        interval = whole_number(
            "Save every … iterations",
            1,
            1000,
            RunSettings.interval,
            key="interval",
            text="1 saves after each one.",
        )
        coding = coding_form()
        losses = choice(
            "Measure losses",
            LOSSES,
            default=LOSS_SHARE,
            key="losses",
            help="A loss is measured on up to 256 held-out examples, which takes as long as some "
            "iterations of training. A pause always measures the newest checkpoint.",
            **_IN_URL,
        )
    return RunSettings(
        model=card.name,
        data=data,
        folder=folder,
        optimizer=optimizer,
        lr=lr,
        momentum=momentum,
        batch_size=batch_size,
        seed=seed,
        interval=interval,
        coding=coding,
        stop_after=stop_after,
        loss_share=losses,
    )


SPEEDS = {  # on the slider -> most iterations per second
    "slow": 2.0,
    "5/s": 5.0,
    "10/s": 10.0,
    "25/s": 25.0,
    "50/s": 50.0,
    "full": None,
}
SPEED = "10/s"


def speed_slider() -> str:
    """How fast the run trains: a key of SPEEDS."""
    speed: str = st.select_slider(
        "Speed",
        list(SPEEDS),
        SPEED,
        key="speed",
        label_visibility="collapsed",
        width=200,
        help="Iterations per second. Full: as fast as this server trains.",
        **_IN_SESSION,
    )
    return speed


def training_of(settings: RunSettings) -> RunSettings:
    """The same with the default coding: what cannot be tried on a step that is there."""
    return replace(settings, coding=Coding())


def describe(settings: RunSettings) -> str:
    """The settings of a run in one line."""
    momentum = f", momentum {settings.momentum:g}" if settings.momentum else ""
    every = "iteration" if settings.interval == 1 else f"{settings.interval} iterations"
    return (
        f"{OPTIMIZERS[settings.optimizer]}, learning rate {settings.lr:g}{momentum}, batch size "
        f"{settings.batch_size}, seed {settings.seed} · {settings.coding.describe()}, "
        f"a checkpoint every {every}"
    )


def _model() -> ModelCard:
    name = st.selectbox(
        "Model",
        list(MODELS),
        list(MODELS).index(RunSettings.model),
        key="model",
        format_func=lambda m: MODELS[m].title,
        **_IN_URL,
    )
    card = MODELS[name]
    st.caption(f"{card.sentence} Parameters: {card.parameters}.")
    return card


def _data(card: ModelCard) -> tuple[str, str | None]:
    data = st.selectbox(
        "Data",
        list(card.data),
        key=f"data_{card.name}",
        format_func=lambda d: DATASETS[d].title,
        **_IN_URL,
    )
    st.caption(DATASETS[data].sentence)
    if not DATASETS[data].needs_folder:
        return data, None
    folder = st.text_input(
        "Folder with the files",
        key="folder",
        placeholder=f"or set {FOLDER_VARIABLE}",
        help=f"On the server. It needs: {', '.join(DATASETS[data].files)}.",
        **_IN_SESSION,
    )
    return data, folder or None


def _optimizer(card: ModelCard) -> tuple[str, float, float]:
    optimizer = st.selectbox(
        "Optimizer",
        list(card.optimizers),
        key="optimizer",
        format_func=OPTIMIZERS.__getitem__,
        **_IN_URL,
    )
    default_lr, momentum = card.optimizers[optimizer]
    lr = st.number_input(
        "Learning rate",
        1e-6,
        1e9,
        default_lr,
        default_lr / 5,
        format="%g",
        key=f"lr_{card.name}_{optimizer}",
        **_IN_URL,
    )
    if optimizer == "sgd":
        momentum = st.slider("Momentum", 0.0, 0.99, momentum, key="momentum", **_IN_URL)
    return optimizer, float(lr), momentum
