"""The settings in the sidebar of the Live page.

Each is bound to the URL: a link opens the page with the same choices.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from codec import Coding
from codec.errors import SourceError
from demo_models import DATASETS, FOLDER_VARIABLE, MODELS, ModelCard
from demo_models.optimizers import WITH_MOMENTS
from lcviz.run.run import Run
from lcviz.run.snapshot import RunSettings
from lcviz.text import enumerated, plain

from . import session, widgets
from .coding_form import NUMBERS, coding_form
from .steering import Steering

FOLDER, LEARNING_RATE, INTERVAL = (
    "Folder with the files",
    "Learning rate",
    "Save every … iterations",
)
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
WHAT = {False: "weights", True: "with moments"}
_WORDS = {  # of a training: field -> what it is
    "model": "model",
    "data": "data",
    "folder": "folder",
    "optimizer": "optimizer",
    "lr": "learning rate",
    "momentum": "momentum",
    "batch_size": "batch size",
    "seed": "seed",
    "stop_after": "iterations",
    "interval": "interval",
    "optimizer_state": "choice of what is saved",
    "loss_share": "measuring of losses",
}
LOSS_SHARE = 0.04
LOSSES = {LOSS_SHARE: "sometimes", None: "always"}
# Such a setting stays when a visitor opens another page and comes back.
_IN_URL: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}


@dataclass(frozen=True)
class Form:
    """What the sidebar says.

    settings: for the next run; None if a field is wrong. coding: None if one of its own fields is
    wrong. wrong: the labels of wrong fields.
    """

    settings: RunSettings | None
    coding: Coding | None
    wrong: tuple[str, ...]

    @property
    def correct_first(self) -> str:
        """What to correct before a run can begin; "" if all fields are right."""
        return f"Fix in the sidebar: {enumerated(self.wrong)}." if self.wrong else ""


def settings_form() -> Form:
    """The choices for the next run, in the sidebar."""
    with st.sidebar:
        st.header("Training")
        card = _model()
        data, folder = _data(card)
        optimizer, lr, momentum = _optimizer(card)
        batch_size = widgets.checked_number(
            "Batch size", 1, 1_000_000, card.batch_size, 1, key=f"batch_{card.name}", **_IN_URL
        )
        stop_after = widgets.checked_number(
            "Iterations", 1, 20_000, RunSettings.stop_after, 1, key="iterations", **_IN_URL
        )
        same = "The same seed and settings give the same run, byte for byte."
        seed = widgets.checked_number("Seed", 0, 2**31, 0, 1, key="seed", text=same, **_IN_URL)
        st.header("Checkpoints")
        interval = _interval(stop_after)
        coding = coding_form()
        whole = optimizer in WITH_MOMENTS and widgets.choice(
            "What is saved",
            WHAT,
            default=False,
            key="saved",
            help="Weights alone: a restart resets Adam. With moments: Adam's state is saved as "
            "well, m and v at 3 bits, and a restart goes on with it. Buckets and Tune show the "
            "weights.",
            **_IN_URL,
        )
        losses = widgets.choice(
            "Measure losses",
            LOSSES,
            default=LOSS_SHARE,
            key="losses",
            help="On up to 256 held-out examples: as slow as some iterations. A pause always "
            "measures the newest checkpoint.",
            **_IN_URL,
        )
    fields = {
        FOLDER: folder,
        LEARNING_RATE: lr,
        "Batch size": batch_size,
        "Iterations": stop_after,
        "Seed": seed,
        INTERVAL: interval,
        NUMBERS.get(st.session_state.get("keep", ""), NUMBERS["budget"]): coding,
    }
    wrong = tuple(label for label, value in fields.items() if value is None)
    if folder is None or lr is None or batch_size is None or stop_after is None:
        return Form(None, coding, wrong)
    if seed is None or interval is None or coding is None:
        return Form(None, coding, wrong)
    settings = RunSettings(
        model=card.name,
        data=data,
        folder=folder or None,
        optimizer=optimizer,
        lr=lr,
        momentum=momentum,
        batch_size=batch_size,
        seed=seed,
        interval=interval,
        coding=coding,
        stop_after=stop_after,
        loss_share=losses,
        optimizer_state=whole,
    )
    return Form(settings, coding, ())


def _interval(stop_after: int | None) -> int | None:
    interval = widgets.checked_number(
        INTERVAL, 1, 1000, RunSettings.interval, 1, key="interval", **_IN_URL
    )
    if interval and stop_after and interval > stop_after:
        widgets.wrong(f"At most {stop_after}, the iterations of the run: else nothing is saved.")
        return None
    return interval


SPEEDS = {  # on the slider -> most iterations per second
    "slow": 2.0,
    "5/s": 5.0,
    "10/s": 10.0,
    "25/s": 25.0,
    "50/s": 50.0,
    "full": None,
}
SPEED = "10/s"


def chosen_speed() -> float | None:
    """Most iterations per second of a new run, as the slider or the URL says; None for no limit."""
    speed = st.session_state.get("speed", st.query_params.get("speed"))
    return SPEEDS.get(speed, SPEEDS[SPEED])


def speed_slider(run: Run, steering: Steering) -> None:
    """How fast the run trains: the slider shows the run's own speed, and sets it."""
    now = next((name for name, rate in SPEEDS.items() if rate == run.speed), "full")
    on_slider = st.session_state.get("speed")
    if on_slider == steering.speed and on_slider != now:  # another tab set the speed
        # Only set another value: the browser would prefer even the same one to a newer click.
        st.session_state["speed"] = now
    chosen = st.select_slider(
        "Speed",
        list(SPEEDS),
        key="speed",
        label_visibility="collapsed",
        width=200,
        help="Iterations per second. Full: as fast as this server trains.",
        persist_state="session",  # not in the address: the run has it
    )
    if chosen != now:
        steering.of(run).set_speed(SPEEDS[chosen])
    steering.speed = chosen


def other_training(settings: RunSettings, other: RunSettings) -> list[str]:
    """Names of the settings that differ and need another training.

    With another model nearly everything differs: then the model is the only one.
    """
    names = [
        name for field, name in _WORDS.items() if getattr(settings, field) != getattr(other, field)
    ]
    return names[:1] if settings.model != other.model else names


def describe(settings: RunSettings) -> str:
    """The settings of a run in one line."""
    momentum = f", momentum {settings.momentum:g}" if settings.momentum else ""
    interval = "iteration" if settings.interval == 1 else f"{settings.interval} iterations"
    whole = " with the optimizer's state" if settings.optimizer_state else ""
    return (
        f"{OPTIMIZERS[settings.optimizer]}, learning rate {settings.lr:g}{momentum}, batch size "
        f"{settings.batch_size}, seed {settings.seed} · {settings.coding.describe()}, "
        f"a checkpoint every {interval}{whole}"
    )


def _model() -> ModelCard:
    name = st.selectbox(
        "Model",
        list(MODELS),
        list(MODELS).index(RunSettings.model),
        key="model",
        format_func=lambda m: MODELS[m].title,
        help=" ".join(f"**{m.title}**: {m.sentence}" for m in MODELS.values()),
        **_IN_URL,
    )
    card = MODELS[name]
    st.caption(f"Parameters: {card.parameters}")
    return card


def _data(card: ModelCard) -> tuple[str, str | None]:
    """The data, and the folder with their files: "" if none is named, None if it is wrong."""
    data = st.selectbox(
        "Data",
        list(card.data),
        key=f"data_{card.name}",
        format_func=lambda d: DATASETS[d].title,
        help=" ".join(f"**{DATASETS[d].title}**: {DATASETS[d].sentence}" for d in card.data),
        **_IN_URL,
    )
    if not DATASETS[data].needs_folder:
        return data, ""
    folder = st.text_input(
        FOLDER,
        key="folder",
        placeholder=f"or set {FOLDER_VARIABLE}",
        help=f"On the server, with {', '.join(DATASETS[data].files)}.",
        **_IN_URL,
    ).strip()
    if why := _why_not(folder):
        widgets.wrong(plain(why))
        return data, None
    return data, folder


def _why_not(folder: str) -> str:
    """Why this folder cannot be read; "" if it can."""
    if not folder:
        return "" if os.environ.get(FOLDER_VARIABLE) else "Enter a folder."
    place = os.path.expanduser(folder)
    try:
        session.check_may_read(Path(place))
    except SourceError as exc:
        return f"{exc}."
    return "" if os.path.isdir(place) else f"Folder not found: {folder}"


def _optimizer(card: ModelCard) -> tuple[str, float | None, float]:
    optimizer = st.selectbox(
        "Optimizer",
        list(card.optimizers),
        key="optimizer",
        format_func=OPTIMIZERS.__getitem__,
        **_IN_URL,
    )
    default_lr, momentum = card.optimizers[optimizer]
    lr = widgets.checked_number(
        LEARNING_RATE,
        1e-6,
        1e9,
        default_lr,
        default_lr / 5,
        key=f"lr_{card.name}_{optimizer}",
        **_IN_URL,
    )
    if optimizer == "sgd":
        momentum = st.slider("Momentum", 0.0, 0.99, momentum, key="momentum", **_IN_URL)
    return optimizer, lr, momentum
