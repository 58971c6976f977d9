"""A checkpoint's bytes by part, its first code words, and its size with other codes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pandas as pd

from codec.inspect import CODERS, Payload
from lcviz.lab.anatomy import Alphabet
from lcviz.lab.codewords import CodeWord
from lcviz.lab.follow_weight import Weight
from lcviz.run.whole_state import STEPS, nbytes_by_kind
from lcviz.text import CODER_NAMES, exponent_text, nbytes_text, percent_text, plural
from lcviz.ui.picture import Picture, quantity

from .followed import WeightHistory
from .step_record import StepRecord
from .weight_picture import bits_text
from .weights_picture import Image

ENTROPY = "entropy of values"
SHANNON = (
    "Shannon's bound for codes of single values. Run-length coding gets below it where zeros "
    "cluster, a context code where changes do."
)
PLAIN = "Without a code: each value is the number of its slot, or 0."
PARTS = {  # part of a record -> name of its number of bytes, for `quantity`; explanation
    "header": (
        "header-bytes",
        "Digests that find every damaged byte, the step, settings, and where each part begins. It "
        "hardly grows with the model.",
    ),
    "table": ("table-bytes", "Which code word stands for what, and the level of each bucket."),
    "code words": ("payload-bytes", "The changes themselves."),
    "m": (
        "m-bytes",
        f"Adam's mean of the gradients: its changes in {STEPS['m']}, one code for all tensors.",
    ),
    "v": (
        "v-bytes",
        f"Adam's mean of the squared gradients: its changes in {STEPS['v']}. An octave doubles it.",
    ),
    "exact": ("exact-bytes", "Tensors and values that are stored exactly."),
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
    if payload := _shared(record):
        code = payload.a_title()
    bits = record.sizes.bits(record.nbytes)
    text = f"{_whole_text(record)}, {bits:.3g} bits per parameter, with {code}.{_beats(record)}"
    if record.moments:
        text = f"{_shares_text(record, parts)} Code words and bars are the weights'."
    return Picture(
        "bits",
        "Bits",
        "of this checkpoint on disk" if not record.is_trial else "with what you try",
        text,
        {
            "parts": [_part(record, name, nbytes) for name, nbytes in parts.items()],
            "words": _words(record, history, image),
            "compare": _compared(record),
            "words_are": _words_are(record),
            "coders": [[name, coder.short] for name, coder in CODERS.items()],
            "coder": record.coder,
        },
        partial(_table, record, parts),
        3,
    )


def _part(record: StepRecord, name: str, nbytes: int) -> dict[str, Any]:
    """A part as values for the picture."""
    quantity_name, explanation = PARTS[name]
    text = quantity(quantity_name, nbytes, nbytes_text(nbytes))
    values = {"name": name, "nbytes": nbytes, "text": text, "title": explanation}
    label = _label(record, name)
    return values if label == name else values | {"label": label}


def _compared(record: StepRecord) -> list[dict[str, Any]]:
    """The same symbols without a code, with each coder, and Shannon's bound."""
    rows = [_size(_plain(record), record.plain_nbytes, PLAIN)]
    for name, coder in CODERS.items():
        title = coder.title.lower().replace("huffman", "Huffman")
        row = _size(title, record.sizes.of(name) or 0, coder.summary)
        text = quantity(f"{name}-bytes", row["nbytes"], row["text"])
        rows.append(row | {"text": text, "here": name == record.coder})
    return [*rows, _size(ENTROPY, record.sizes.entropy, SHANNON)]


def _size(name: str, nbytes: float, explanation: str) -> dict[str, Any]:
    text = nbytes_text(nbytes)
    return {"name": name, "nbytes": nbytes, "text": text, "here": False, "title": explanation}


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


def _label(record: StepRecord, part: str) -> str:
    """What a part is called."""
    payload = _shared(record)
    label = payload.TITLE if part == "code words" and payload else part
    return f"weights: {label}" if record.moments and part in OF_WEIGHTS else label


def _beats(record: StepRecord) -> str:
    """A sentence where the record takes less than the entropy, which looks impossible."""
    if (record.sizes.of(record.coder) or 0) >= record.sizes.entropy or record.coder == "huffman":
        return ""
    less = "What changes together takes" if _shared(record) else "Runs of zeros take"
    return f" {less} less than the entropy of single values."


def _shares_text(record: StepRecord, parts: dict[str, int]) -> str:
    """The shares of weights and of moments in the record."""
    weights, moments = (
        f"{nbytes_text(n)} ({percent_text(n / record.nbytes)})"
        for n in (record.weights_nbytes, parts.get("m", 0) + parts.get("v", 0))
    )
    return f"{_whole_text(record)}: {weights} weights, {moments} m and v."


def _shared(record: StepRecord) -> Payload | None:
    """A payload whose bits values share; None if there is none."""
    payloads = (a.encoded.payload for a in record.alphabets)
    return next((p for p in payloads if p.SHARED), None)


def _words_are(record: StepRecord) -> str:
    """The text above the code words; "" if they need none."""
    _, words = record.words
    if not words:
        return "No bits are needed: all values are alike."
    return "" if words[0].share is None else "Bits of each change and the zeros before it:"


def _reused(record: StepRecord) -> bool:
    return any(a.encoded.cached for a in record.alphabets)


def _plain(record: StepRecord) -> str:
    """How many bits each value takes without a code."""
    bits = {k.bit_length() for k in record.n_kept}
    return f"{plural(bits.pop(), 'bit')} each" if len(bits) == 1 else "fixed bits"


def _words(
    record: StepRecord, history: WeightHistory | None, image: Image | None
) -> list[dict[str, Any]]:
    """The first code words, or shares of bits, as values for the picture.

    If the followed weight's word is not among them, it comes last, after a gap.

    sign: 0 up, 1 down, 2 no change. weight: the weight that the word encodes; None without states.
    pixel: its place in the image; None if the image does not show it. here: whether it is the
    followed weight. after: whether a gap comes before the word.
    """
    alphabet, first_words = record.words
    words = []
    for word in first_words:
        assert alphabet is not None, "words have an alphabet"
        words.append(_word(alphabet, word))
        if record.states is not None:
            weight = Weight(*alphabet.place(word.at))
            words[-1]["weight"] = [weight.tensor, weight.index]
            words[-1]["pixel"] = image.pixel(weight) if image else None
            words[-1]["here"] = history is not None and weight == history.followed.weight
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


def _word(alphabet: Alphabet, word: CodeWord) -> dict[str, Any]:
    """A code word or a share, with its meaning."""
    bits = word.word + word.rest if word.share is None else f"{word.share:.1f}"
    values = {"bits": bits, "sign": 2, "title": "no change", "weight": None, "here": False}
    if word.code == 0:
        return values
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
