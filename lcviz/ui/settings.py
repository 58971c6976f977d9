"""The settings at the side of the Live page.

Every setting is bound to the URL, so a link reopens the page with the same choices.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from demo_models import DATASETS, FOLDER_VARIABLE, MODELS, ModelCard
from lcviz.run.snapshot import RunSettings
from lcviz.text import CODER_NAMES, plural

from . import widgets

BITS = (1, 2, 3, 4, 5, 6, 7, 8, None)
OPTIMIZERS = {"sgd": "SGD", "adam": "Adam"}
LOSS_SHARE = 0.04
LOSSES = {LOSS_SHARE: "now and then", None: "always"}
CODERS = {"runlength": "Run-length", "huffman": "Huffman (paper)"}  # short: both in one line
KEEP = {"bits": "Bits x", "budget": "Budget"}
SCOPES = {"model": "whole model", "tensor": "each tensor"}


def settings_form() -> RunSettings:
    """The choices for the next run, in the sidebar."""
    with st.sidebar:
        st.subheader("Training")
        card = _model()
        data, folder = _data(card)
        optimizer, lr, momentum = _optimizer(card)
        batch_size = widgets.whole_number(
            "Batch size",
            1,
            1_000_000,
            card.batch_size,
            key=f"batch_{card.name}",
            text="Examples per iteration.",
        )
        stop_after = widgets.whole_number(
            "Iterations", 1, 20_000, 1000, key="iterations", text="The run ends after so many."
        )
        seed = widgets.whole_number(
            "Seed",
            0,
            2**31,
            0,
            key="seed",
            text="The same seed and settings give the same run, byte for byte.",
        )
        st.subheader("Checkpoints")
        interval = widgets.whole_number(
            "Save every … iterations",
            1,
            1000,
            1,
            key="interval",
            text="1 saves after every iteration.",
        )
        bits, budget = _kept()
        coder = widgets.choice(
            "Coder",
            list(CODERS),
            default=RunSettings.coder,
            key="coder",
            format_func=CODERS.__getitem__,
            bind="query-params",
            help="How what is kept becomes bits. Both are without loss: the restored weights are "
            "the same. Huffman, as in the paper, gives every single value a code word, and so at "
            "least 1 bit; run-length Huffman gives one word to a run of zeros and the value after "
            "it. Both sizes are shown for every checkpoint.",
        )
        scope = widgets.choice(
            "Buckets over",
            list(SCOPES),
            default="model",
            key="scope",
            format_func=SCOPES.__getitem__,
            bind="query-params",
            help="One set of buckets for all parameters, as in the paper, or one for each tensor: "
            "follows small tensors more closely for a little more size.",
        )
        losses = widgets.choice(
            "Measure losses",
            list(LOSSES),
            default=LOSS_SHARE,
            key="losses",
            format_func=LOSSES.__getitem__,
            bind="query-params",
            help="A loss is measured on up to 256 held-out examples, which takes as long as some "
            "iterations of training. A pause always measures the newest checkpoint.",
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
        scope=str(scope),
        coder=str(coder),
        budget=budget,
        stop_after=stop_after,
        loss_share=losses,
    )


def over(scope: str) -> str:
    """What the buckets are over, within a sentence."""
    return "the whole model" if scope == "model" else SCOPES[scope]


def describe(settings: RunSettings) -> str:
    """The settings of a run in one line, as the pages show them."""
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


def _model() -> ModelCard:
    names = list(MODELS)
    name = st.selectbox(
        "Model",
        names,
        names.index(RunSettings.model),
        key="model",
        format_func=lambda m: MODELS[m].title,
        bind="query-params",
    )
    card = MODELS[name]
    st.caption(f"{card.sentence} Parameters: {card.parameters}.")
    return card


def _data(card: ModelCard) -> tuple[str, str | None]:
    data = st.selectbox(
        "Data",
        list(card.data),
        key=f"data_{card.name}",
        bind="query-params",
        format_func=lambda d: DATASETS[d].title,
    )
    st.caption(DATASETS[data].sentence)
    if not DATASETS[data].needs_folder:
        return data, None
    folder = st.text_input(
        "Folder with the files",
        key="folder",
        bind="query-params",
        persist_state="session",
        placeholder=f"or set {FOLDER_VARIABLE}",
        help=f"On the machine that runs this page. Looked for: {', '.join(DATASETS[data].files)}.",
    )
    return data, folder or None


def _optimizer(card: ModelCard) -> tuple[str, float, float]:
    optimizer = st.selectbox(
        "Optimizer",
        list(card.optimizers),
        key="optimizer",
        format_func=OPTIMIZERS.__getitem__,
        bind="query-params",
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
        bind="query-params",
    )
    if optimizer == "sgd":
        momentum = st.slider("Momentum", 0.0, 0.99, momentum, key="momentum", bind="query-params")
    return optimizer, float(lr), momentum


def _kept() -> tuple[int | None, float | None]:
    """How many buckets are kept: x bits, or a budget as a share of float32."""
    keep = widgets.choice(
        "Keep",
        list(KEEP),
        default="bits",
        key="keep",
        format_func=KEEP.__getitem__,
        bind="query-params",
        help="Priority promotion keeps the buckets of largest magnitude. Bits x: always 2ˣ − 1 of "
        "them, whatever they take. Budget: in each checkpoint as many as fit into so many bytes, "
        "so that all checkpoints have about the same size.",
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
            bind="query-params",
            persist_state="session",
            help="Of a whole record, its header included, against the same state in float32. A "
            "small model needs more: a header takes 250 bytes or so.",
        )
        return None, percent / 100
    bits: int | None = st.select_slider(
        "Bits x for priority promotion",
        BITS,
        2,
        format_func=bits_name,
        key="bits",
        bind="query-params",
        persist_state="session",
        help="Keep the 2ˣ − 1 buckets of largest magnitude, set all other changes to 0. “all” "
        "keeps every bucket: the exponent stage alone.",
    )
    return bits, None


def bits_name(bits: Any) -> str:
    return "all" if bits is None else str(bits)
