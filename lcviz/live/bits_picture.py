"""A checkpoint's bytes by part, its first code words, and its size with other codes."""

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

from .followed import WeightHistory, weight_at
from .step_record import StepRecord
from .weight_picture import bits_text
from .weights_picture import Image

ENTROPY = "entropy of values"
PARTS = {  # part of a record -> explanation
    "header": "Digests that find every damaged byte, the step, settings, and where each part "
    "begins. It hardly grows with the model.",
    "table": "Which code word stands for what, and the level of each bucket.",
    "code words": "The changes themselves.",
    "m": "Adam's mean of the gradients: its changes at 3 bits, a code of its own for each tensor.",
    "v": "Adam's mean of the squared gradients: as m.",
    "exact": "Tensors and values that are stored exactly.",
}
QUANTITIES = {  # part of a record -> name of its number of bytes, for `quantity`
    "header": "header-bytes",
    "table": "table-bytes",
    "code words": "payload-bytes",
    "m": "m-bytes",
    "v": "v-bytes",
    "exact": "exact-bytes",
}
OF_WEIGHTS = ("table", "code words")  # parts labelled "weights: …" if the record holds moments


def bits_picture(
    record: StepRecord, history: WeightHistory | None = None, image: Image | None = None
) -> Picture:
    """The parts of a record, to scale.

    Args:
        record: Of the step on the page.
        history: The followed weight: its code word is marked.
        image: The image of δ, where a code word that is pointed at marks its pixel.
    """
    parts = _parts(record)
    code = "its own code table" if record.is_trial or not _reused(record) else "the last code table"
    titles = dict(CODER_NAMES)
    summaries = {name: coder.summary for name, coder in CODERS.items()}
    buttons = {name: coder.short for name, coder in CODERS.items()}
    if _arithmetic(record):
        code = "an arithmetic code"
        titles[record.coder], summaries[record.coder] = ARITHMETIC
        buttons[record.coder] = "arithmetic"
    plain = {
        "name": _plain(record),
        "nbytes": record.plain_nbytes,
        "text": nbytes_text(record.plain_nbytes),
        "here": False,
        "title": "Without a code: each value is the number of its slot, or 0.",
    }
    compare = [
        {
            "name": title.lower().replace("huffman", "Huffman"),
            "nbytes": float(record.sizes.of(name) or 0),
            "text": _of_coder(record, name),
            "here": name == record.coder,
            "title": summaries[name],
        }
        for name, title in titles.items()
    ]
    compare.insert(0, plain)
    compare.append(
        {
            "name": ENTROPY,
            "nbytes": record.sizes.entropy,
            "text": nbytes_text(record.sizes.entropy),
            "here": False,
            "title": "Shannon's bound for codes of single values. Run-length coding gets below it "
            "where zeros cluster.",
        }
    )
    bits = record.sizes.bits(record.nbytes)
    text = f"{_whole_text(record)}, {bits:.3g} bits per parameter, with {code}."
    if record.moments:
        text = f"{_shares_text(record, parts)} Code words and bars are the weights'."
    return Picture(
        "bits",
        "Bits",
        "of this checkpoint on disk" if not record.is_trial else "with what you try",
        text,
        {
            "parts": [
                {
                    "name": name,
                    "nbytes": nbytes,
                    "text": quantity(QUANTITIES[name], nbytes, nbytes_text(nbytes)),
                    "title": PARTS[name],
                }
                | ({"label": label} if (label := _label(record, name)) != name else {})
                for name, nbytes in parts.items()
            ],
            "words": _words(record, history, image),
            "compare": compare,
            "words_are": _words_are(record),
            "coders": list(map(list, buttons.items())),
            "coder": record.coder,
        },
        partial(_table, record, parts),
        3,
    )


def _parts(record: StepRecord) -> dict[str, int]:
    return {
        "header": record.header_nbytes,
        "table": record.table_nbytes,
        "code words": record.word_nbytes,
        **nbytes_by_kind(record.moments),
        "exact": record.exact_nbytes,
    }


def _whole_text(record: StepRecord) -> str:
    return quantity("checkpoint-bytes", record.nbytes, nbytes_text(record.nbytes))


def _of_coder(record: StepRecord, coder: str) -> str:
    nbytes = record.sizes.of(coder) or 0
    return quantity(f"{coder}-bytes", nbytes, nbytes_text(nbytes))


def _label(record: StepRecord, part: str) -> str:
    """What a part is called."""
    label = "arithmetic code" if part == "code words" and _arithmetic(record) else part
    return f"weights: {label}" if record.moments and part in OF_WEIGHTS else label


def _shares_text(record: StepRecord, parts: dict[str, int]) -> str:
    """The shares of weights and of moments in the record."""
    weights, moments = (
        f"{nbytes_text(n)} ({percent_text(n / record.nbytes)})"
        for n in (record.weights_nbytes, parts["m"] + parts["v"])
    )
    return f"{_whole_text(record)}: {weights} weights, {moments} m and v."


def _arithmetic(record: StepRecord) -> bool:
    return any(a.encoded.arithmetic for a in record.alphabets)


def _words_are(record: StepRecord) -> str:
    """The text above the code words; "" if they need none."""
    if not record.words:
        return "No bits are needed: all values are alike."
    return "" if record.words[0].share is None else "Bits of each change and the zeros before it:"


def _reused(record: StepRecord) -> bool:
    return any(a.cached for a in record.alphabets)


def _plain(record: StepRecord) -> str:
    """How many bits each value takes without a code."""
    bits = {k.bit_length() for k in record.n_kept}
    return f"{plural(bits.pop(), 'bit')} each" if len(bits) == 1 else "fixed bits"


def _words(
    record: StepRecord, history: WeightHistory | None, image: Image | None
) -> list[dict[str, Any]]:
    """The first code words, or shares of an arithmetic code, as values for the picture.

    If the followed weight's word is not among them, it comes last, after a gap.

    sign: 0 up, 1 down, 2 no change. weight: the weight that the word encodes; None without states.
    pixel: its place in the image; None if the image does not show it. here: whether it is the
    followed weight. after: whether a gap comes before the word.
    """
    words = [_word(record, word) for word in record.words]
    for word, values in zip(record.words, words):
        if record.states is None:
            break
        weight = weight_at(record, record.words_alphabet, word.at)
        values["weight"] = [weight.tensor, weight.index]
        values["pixel"] = image.pixel(weight) if image else None
        values["here"] = history is not None and weight == history.followed.weight
    if history and not any(word["here"] for word in words) and (f := history.followed).code:
        words.append(
            {
                "bits": f.code.word or "0",
                "sign": 2 if f.code.zero or history.bucket is None else history.bucket[1],
                "title": bits_text(f),
                "weight": [f.weight.tensor, f.weight.index],
                "pixel": image.pixel(f.weight) if image else None,
                "here": True,
                "after": True,
            }
        )
    return words


def _word(record: StepRecord, word: CodeWord) -> dict[str, Any]:
    """A code word or a share, with its meaning."""
    bits = word.word + word.rest if word.share is None else f"{word.share:.1f}"
    values = {"bits": bits, "sign": 2, "title": "no change", "weight": None, "here": False}
    if word.code == 0:
        return values
    alphabet = record.alphabets[record.words_alphabet]
    # Code 1 is the first kept bucket in promotion order, or the first of the steps 1, −1, 2, −2 …
    exponent, sign = (
        int(a[word.code - 1]) for a in (alphabet.buckets.exponent, alphabet.buckets.sign)
    )
    change = exponent_text(exponent, sign)
    if alphabet.uniform:
        change = f"{'−' if sign else '+'}{plural((word.code + 1) // 2, 'step')}"
    zeros = f"{plural(word.run, 'zero')}, then " if word.run else ""
    return values | {"sign": sign, "title": f"{zeros}{change}"}


def _table(record: StepRecord, parts: dict[str, int]) -> pd.DataFrame:
    rows = {f"this record: {_label(record, name)}": nbytes for name, nbytes in parts.items()}
    rows[f"the same values, {_plain(record)}"] = record.plain_nbytes
    rows |= {f"the same values, {CODER_NAMES[n]}": record.sizes.of(n) or 0 for n in CODER_NAMES}
    rows[ENTROPY] = math.ceil(record.sizes.entropy)
    return pd.DataFrame({"what": list(rows), "bytes": list(rows.values())})
