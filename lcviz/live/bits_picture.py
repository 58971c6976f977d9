"""Where the bytes of a checkpoint are, its first code words, and what other codes would take."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pandas as pd

from codec.inspect import CODERS
from lcviz.lab.codewords import CodeWord
from lcviz.run.snapshot import nbytes_by_kind
from lcviz.text import (
    ARITHMETIC,
    CODER_NAMES,
    exponent_text,
    nbytes_text,
    percent_text,
    plural,
)
from lcviz.ui.picture import Picture, quantity

from .followed import Thread, weight_at
from .shown_step import ShownStep
from .weight_picture import said_text
from .weights_picture import Image

ENTROPY = "entropy of values"
PARTS = {  # of a record -> what it is
    "header": "Digests that find every damaged byte, the step, settings, and where each part "
    "begins. It hardly grows with the model.",
    "table": "Which code word stands for what, and the level of each bucket.",
    "code words": "The changes themselves.",
    "m": "Adam's mean of the gradients: its changes at 3 bits, a code of its own for each tensor.",
    "v": "Adam's mean of the squared gradients: as m.",
    "exact": "Tensors and values that are stored exactly.",
}
QUANTITIES = {  # of a record -> what the number of its bytes is called
    "header": "header-bytes",
    "table": "table-bytes",
    "code words": "payload-bytes",
    "m": "m-bytes",
    "v": "v-bytes",
    "exact": "exact-bytes",
}
OF_WEIGHTS = ("table", "code words")  # called so where a record holds moments as well


def bits_picture(
    shown: ShownStep, thread: Thread | None = None, image: Image | None = None
) -> Picture:
    """The record of a step, to scale.

    Args:
        shown: The step.
        thread: The followed weight: its code word is marked.
        image: Where the pixels of other pictures are.
    """
    parts = _parts(shown)
    used = "its own code table" if shown.trial or not _reused(shown) else "the last code table"
    titles = dict(CODER_NAMES)
    summaries = {name: coder.summary for name, coder in CODERS.items()}
    buttons = {name: coder.short for name, coder in CODERS.items()}
    arithmetic = _arithmetic(shown)
    if arithmetic:
        used = "an arithmetic code"
        titles[shown.coder], summaries[shown.coder] = ARITHMETIC
        buttons[shown.coder] = "arithmetic"
    compared = [(title, name) for name, title in titles.items()]
    plain = {
        "name": _plain(shown),
        "nbytes": shown.plain_nbytes,
        "text": nbytes_text(shown.plain_nbytes),
        "here": False,
        "title": "Without a code: each value is the number of its slot, or 0.",
    }
    compare = [
        {
            "name": title.lower().replace("huffman", "Huffman"),
            "nbytes": float(shown.sizes.of(name) or 0),
            "text": _of_coder(shown, name),
            "here": name == shown.coder,
            "title": summaries[name],
        }
        for title, name in compared
    ]
    compare.insert(0, plain)
    compare.append(
        {
            "name": ENTROPY,
            "nbytes": shown.sizes.entropy,
            "text": nbytes_text(shown.sizes.entropy),
            "here": False,
            "title": "Shannon's bound for codes of single values. Run-length coding gets below it "
            "where zeros cluster.",
        }
    )
    per = shown.sizes.bits(shown.nbytes)
    text = f"{_whole(shown)}, {per:.3g} bits per parameter, with {used}."
    if shown.moments:
        text = f"{_apart(shown, parts)} Code words and bars are the weights'."
    return Picture(
        "bits",
        "Bits",
        "of this checkpoint on disk" if not shown.trial else "with what you try",
        text,
        {
            "parts": [
                {
                    "name": name,
                    "nbytes": nbytes,
                    "text": quantity(QUANTITIES[name], nbytes, nbytes_text(nbytes)),
                    "title": PARTS[name],
                }
                | ({"label": label} if (label := _label(shown, name)) != name else {})
                for name, nbytes in parts.items()
            ],
            "words": _words(shown, thread, image),
            "compare": compare,
            "words_are": _words_are(shown),
            "coders": list(map(list, buttons.items())),
            "coder": shown.coder,
        },
        partial(_table, shown, parts),
        3,
    )


def _parts(shown: ShownStep) -> dict[str, int]:
    return {
        "header": shown.header_nbytes,
        "table": shown.table_nbytes,
        "code words": shown.word_nbytes,
        **nbytes_by_kind(shown.moments),
        "exact": shown.exact_nbytes,
    }


def _whole(shown: ShownStep) -> str:
    return quantity("checkpoint-bytes", shown.nbytes, nbytes_text(shown.nbytes))


def _of_coder(shown: ShownStep, coder: str) -> str:
    nbytes = shown.sizes.of(coder) or 0
    return quantity(f"{coder}-bytes", nbytes, nbytes_text(nbytes))


def _label(shown: ShownStep, part: str) -> str:
    """What a part is called."""
    named = "arithmetic code" if part == "code words" and _arithmetic(shown) else part
    return f"weights: {named}" if shown.moments and part in OF_WEIGHTS else named


def _apart(shown: ShownStep, parts: dict[str, int]) -> str:
    """Which share of the record is the weights', and which the moments'."""
    weights, moments = (
        f"{nbytes_text(n)} ({percent_text(n / shown.nbytes)})"
        for n in (shown.weights_nbytes, parts["m"] + parts["v"])
    )
    return f"{_whole(shown)}: {weights} weights, {moments} m and v."


def _arithmetic(shown: ShownStep) -> bool:
    return any(a.encoded.arithmetic for a in shown.alphabets)


def _words_are(shown: ShownStep) -> str:
    """The text above the code words, if they are no code words or there are none."""
    if not shown.words:
        return "No bits are needed: all values are alike."
    return "" if shown.words[0].share is None else "Bits of each change and the zeros before it:"


def _reused(shown: ShownStep) -> bool:
    return any(a.cached for a in shown.alphabets)


def _plain(shown: ShownStep) -> str:
    """What a value takes without a code."""
    bits = {k.bit_length() for k in shown.kept}
    return f"{plural(bits.pop(), 'bit')} each" if len(bits) == 1 else "fixed bits"


def _words(shown: ShownStep, thread: Thread | None, image: Image | None) -> list[dict[str, Any]]:
    """The first code words or shares; that of the followed weight comes after a gap, if not there.

    sign: 0 up, 1 down, 2 no change. weight: which one it writes, and pixel: where that is; None if
    nobody can tell. here: whether it is the followed weight's.
    """
    words = [_word(shown, word) for word in shown.words]
    for word, drawn in zip(shown.words, words):
        if shown.states is None:
            break
        weight = weight_at(shown, shown.worded, word.at)
        drawn["weight"] = [weight.tensor, weight.index]
        drawn["pixel"] = image.pixel(weight) if image else None
        drawn["here"] = thread is not None and weight == thread.followed.weight
    if thread and not any(word["here"] for word in words) and (f := thread.followed).code:
        words.append(
            {
                "bits": f.code.word or "0",
                "sign": 2 if f.code.zero or thread.bucket is None else thread.bucket[1],
                "title": said_text(f),
                "weight": [f.weight.tensor, f.weight.index],
                "pixel": image.pixel(f.weight) if image else None,
                "here": True,
                "after": True,
            }
        )
    return words


def _word(shown: ShownStep, word: CodeWord) -> dict[str, Any]:
    """A code word or a share, with its meaning."""
    bits = word.word + word.rest if word.share is None else f"{word.share:.1f}"
    found = {"bits": bits, "sign": 2, "title": "no change", "weight": None, "here": False}
    if word.code == 0:
        return found
    alphabet = shown.alphabets[shown.worded]
    # Codes count the kept buckets in promotion order, or the steps 1, −1, 2, −2 …, from 1.
    exponent, sign = (
        int(a[word.code - 1]) for a in (alphabet.buckets.exponent, alphabet.buckets.sign)
    )
    value = exponent_text(exponent, sign)
    if alphabet.uniform:
        value = f"{'−' if sign else '+'}{plural((word.code + 1) // 2, 'step')}"
    zeros = f"{plural(word.run, 'zero')}, then " if word.run else ""
    return found | {"sign": sign, "title": f"{zeros}{value}"}


def _table(shown: ShownStep, parts: dict[str, int]) -> pd.DataFrame:
    rows = {f"this record: {_label(shown, name)}": nbytes for name, nbytes in parts.items()}
    rows[f"the same values, {_plain(shown)}"] = shown.plain_nbytes
    rows |= {f"the same values, {CODER_NAMES[n]}": shown.sizes.of(n) or 0 for n in CODER_NAMES}
    rows[ENTROPY] = math.ceil(shown.sizes.entropy)
    return pd.DataFrame({"what": list(rows), "bytes": list(rows.values())})
