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
from lcviz.text import CODER_NAMES, plural

from .widgets import choice, whole_number

BITS = (1, 2, 3, 4, 5, 6, 7, 8, None)
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
LOSS_SHARE = 0.04
LOSSES = {LOSS_SHARE: "sometimes", None: "always"}
CODERS = {"runlength": "Run-length", "huffman": "Huffman (paper)"}  # short: both on one line
KEEP = {"bits": "Bits x", "budget": "Budget"}
SCOPES = {"model": "whole model", "tensor": "each tensor"}
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
        bits, budget = _kept()
        coder = choice(
            "Coder",
            CODERS,
            default=RunSettings.coder,
            key="coder",
            help="How the kept values become bits. Both are lossless: the restored weights are the "
            "same. Huffman, as in the paper, gives each value a code word, and so at least 1 bit. "
            "Run-length Huffman gives one code word to a run of zeros and the value after it. Both "
            "sizes are shown for every checkpoint.",
            **_IN_URL,
        )
        scope = choice(
            "Buckets over",
            SCOPES,
            default="model",
            key="scope",
            help="One set of buckets for all parameters, as in the paper, or one for each tensor, "
            "which follows small tensors more closely and takes a little more space.",
            **_IN_URL,
        )
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
        bits=bits,
        scope=scope,
        coder=coder,
        budget=budget,
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
    plain = RunSettings()
    return replace(
        settings, bits=plain.bits, scope=plain.scope, coder=plain.coder, budget=plain.budget
    )


def choose_coding(**changes: Any) -> None:
    """Set some of bits, budget, coder and scope in the form, from a callback."""
    state = st.session_state
    if changes.get("budget") is not None:
        state["keep"], state["budget"] = "budget", 100 * changes["budget"]
    elif "bits" in changes:
        state["keep"], state["bits"] = "bits", changes["bits"]
    for name in ("coder", "scope"):
        if name in changes:
            state[name] = changes[name]


def coding_words(coding: Coding) -> str:
    """How a run codes, in a few words."""
    if coding.budget is not None:
        return f"a budget of {100 * coding.budget:g} %"
    return "all buckets" if coding.bits is None else plural(coding.bits, "bit")


def over(scope: str) -> str:
    """What the buckets are over, within a sentence."""
    return "the whole model" if scope == "model" else SCOPES[scope]


def describe(settings: RunSettings) -> str:
    """The settings of a run in one line."""
    momentum = f", momentum {settings.momentum:g}" if settings.momentum else ""
    every = "iteration" if settings.interval == 1 else f"{settings.interval} iterations"
    if settings.budget is not None:
        kept = f"a budget of {100 * settings.budget:g} % of float32"
    else:
        kept = "all buckets" if settings.bits is None else plural(settings.bits, "bit")
    return (
        f"{OPTIMIZERS[settings.optimizer]}, learning rate {settings.lr:g}{momentum}, batch size "
        f"{settings.batch_size}, seed {settings.seed} · {kept}, buckets over "
        f"{over(settings.scope)}, {CODER_NAMES[settings.coder]}, a checkpoint every {every}"
    )


def bits_name(bits: Any) -> str:
    """Bits x as a choice: None keeps all buckets."""
    return "all" if bits is None else str(bits)


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


def _kept() -> tuple[int | None, float | None]:
    """How many buckets are kept: x bits, or a budget as a share of float32."""
    keep = choice(
        "Keep",
        KEEP,
        default="bits",
        key="keep",
        help="Priority promotion keeps the buckets of largest magnitude. Bits x: always 2ˣ − 1 "
        "buckets, of any size. Budget: as many as fit into so many bytes, so all checkpoints have "
        "about the same size.",
        **_IN_URL,
    )
    if keep == "budget":
        percent = st.number_input(
            "Budget, % of float32",
            0.5,
            50.0,
            5.0,
            0.5,
            format="%g",
            key="budget",
            help="Of a whole record with its header, against the same state in float32. A small "
            "model needs more: a header takes about 250 bytes.",
            **_IN_SESSION,
        )
        return None, percent / 100
    bits: int | None = st.select_slider(
        "Bits x for priority promotion",
        BITS,
        2,
        format_func=bits_name,
        key="bits",
        help="Keeps the 2ˣ − 1 buckets of largest magnitude and sets all other changes to 0. "
        "“all” keeps every bucket: the exponent stage alone.",
        **_IN_SESSION,
    )
    return bits, None
