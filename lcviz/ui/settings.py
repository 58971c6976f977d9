"""The settings in the sidebar of the Live page.

Each is bound to the URL: a link opens the page with the same choices.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import streamlit as st

from codec import Coding
from codec.errors import LccError, SourceError
from demo_models import DATASETS, FOLDER_VARIABLE, MODELS, DataError, ModelCard
from demo_models.optimizers import WITH_MOMENTS
from lcviz.run.run import Run
from lcviz.run.snapshot import RunError, RunSettings
from lcviz.text import enumerated, interval_text, plain

from . import session, widgets
from .coding_form import TARGETS, coding_form
from .steering import Steering
from .widgets import IN_URL, Limits, N

_LABELS = {  # of fields whose entry may be wrong
    "folder": "Folder with the files",
    "lr": "Learning rate",
    "batch_size": "Batch size",
    "stop_after": "Iterations",
    "seed": "Seed",
    "interval": "Save every … iterations",
}
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
    fields: dict[str, Any] = {}  # of RunSettings; None if the entry is wrong
    with st.sidebar:
        st.header("Training")
        card = _model()
        fields["data"], fields["folder"] = _data(card)
        fields |= _optimizer(card)
        fields["batch_size"] = _number(
            "batch_size", Limits(1, 1_000_000, card.batch_size, 1), f"batch_{card.name}"
        )
        fields["stop_after"] = _number(
            "stop_after", Limits(1, 20_000, RunSettings.stop_after, 1), "iterations"
        )
        same = "The same seed and settings give the same run, byte for byte."
        fields["seed"] = _number("seed", Limits(0, 2**31, 0, 1), "seed", same)
        st.header("Checkpoints")
        fields["interval"] = _interval(fields["stop_after"])
        coding = fields["coding"] = coding_form()
        fields["optimizer_state"] = fields["optimizer"] in WITH_MOMENTS and widgets.choice(
            "What is saved",
            WHAT,
            default=False,
            key="saved",
            help="Weights alone: a restart resets Adam. With moments: Adam's state is saved as "
            "well, m and v rounded to steps, and a restart goes on with it. Buckets and Tune show "
            "the weights.",
            **IN_URL,
        )
        loss_share = widgets.choice(
            "Measure losses",
            LOSSES,
            default=LOSS_SHARE,
            key="losses",
            help="On up to 256 held-out examples: as slow as some iterations. A pause always "
            "measures the newest checkpoint.",
            **IN_URL,
        )
    if wrong := [name for name, value in fields.items() if value is None]:
        target = TARGETS.get(st.session_state.get("keep", ""), TARGETS["budget"])
        labels = _LABELS | {"coding": target.label}
        return Form(None, coding, tuple(labels[name] for name in wrong))
    fields["folder"] = fields["folder"] or None
    return Form(RunSettings(model=card.name, loss_share=loss_share, **fields), coding, ())


def _number(name: str, limits: Limits[N], key: str, text: str | None = None) -> N | None:
    """A number of the settings. name: of the field of RunSettings."""
    return widgets.checked_number(_LABELS[name], limits, key=key, text=text, **IN_URL)


def _interval(stop_after: int | None) -> int | None:
    interval = _number("interval", Limits(1, 1000, RunSettings.interval, 1), "interval")
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


def begin_run(settings: RunSettings, instead_of: Run | None = None, press: str = "") -> str:
    """Begin a run, which every page then shows; "", or why it cannot start: nothing has changed.

    press: the press of the board's Start that asks for it.
    """
    steering, speed = session.steered(), chosen_speed()
    try:
        with steering.turn:
            old = instead_of and steering.of(instead_of)
            run = session.all_runs().create(settings, old)
            steering.begin(run, instead_of, press)
            run.set_speed(speed)
            run.play()
    except (RunError, DataError, LccError) as exc:
        return f"This run cannot start. {str(exc).rstrip('.')}."
    return ""


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
    whole = " with the optimizer's state" if settings.optimizer_state else ""
    return (
        f"{OPTIMIZERS[settings.optimizer]}, learning rate {settings.lr:g}{momentum}, batch size "
        f"{settings.batch_size}, seed {settings.seed} · {settings.coding.describe()}, "
        f"a checkpoint {interval_text(settings.interval)}{whole}"
    )


def select_model(key: str, **how: Any) -> str:
    """The name of a model, by its title. how: as for `widgets.select`."""
    titles = {name: card.title for name, card in MODELS.items()}
    return widgets.select("Model", titles, key=key, **how)


def _model() -> ModelCard:
    sentences = " ".join(f"**{card.title}**: {card.sentence}" for card in MODELS.values())
    card = MODELS[select_model("model", help=sentences, **IN_URL)]
    st.caption(f"Parameters: {card.parameters}")
    return card


def _data(card: ModelCard) -> tuple[str, str | None]:
    """The data, and the folder with their files: "" if none is named, None if it is wrong."""
    data = widgets.select(
        "Data",
        {name: DATASETS[name].title for name in card.data},
        key=f"data_{card.name}",
        help=" ".join(f"**{DATASETS[d].title}**: {DATASETS[d].sentence}" for d in card.data),
        **IN_URL,
    )
    if not DATASETS[data].needs_folder:
        return data, ""
    folder = st.text_input(
        _LABELS["folder"],
        key="folder",
        placeholder=f"or set {FOLDER_VARIABLE}",
        help=f"On the server, with {', '.join(DATASETS[data].files)}.",
        **IN_URL,
    ).strip()
    if why := _why_not(folder):
        widgets.wrong(plain(why))
        return data, None
    return data, folder


def _why_not(folder: str) -> str:
    """Why this folder cannot be read; "" if it can."""
    if not folder:
        return "" if os.environ.get(FOLDER_VARIABLE) else "Enter a folder."
    try:
        place = session.readable_path(folder)
    except SourceError as exc:
        return f"{exc}."
    return "" if os.path.isdir(place) else f"Folder not found: {folder}"


def _optimizer(card: ModelCard) -> dict[str, Any]:
    """The fields of RunSettings about the optimizer."""
    titles = {name: OPTIMIZERS[name] for name in card.optimizers}
    optimizer = widgets.select("Optimizer", titles, key="optimizer", **IN_URL)
    default_lr, momentum = card.optimizers[optimizer]
    limits = Limits(1e-6, 1e9, default_lr, default_lr / 5)
    lr = _number("lr", limits, f"lr_{card.name}_{optimizer}")
    if optimizer == "sgd":
        momentum = st.slider("Momentum", 0.0, 0.99, momentum, key="momentum", **IN_URL)
    return {"optimizer": optimizer, "lr": lr, "momentum": momentum}
