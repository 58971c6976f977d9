"""A checkpoint's bytes by part, its first code words, and its size with other codes."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import partial
from typing import Any

import pandas as pd

from codec.inspect import CODERS, Payload
from lcviz.lab.anatomy import Alphabet
from lcviz.lab.codewords import CodeWord
from lcviz.lab.follow_weight import Weight
from lcviz.run.whole_state import STEPS, nbytes_by_kind
from lcviz.text import CODER_NAMES, coder_facts
from lcviz.ui.picture import Picture

from .followed import WeightHistory
from .step_record import StepRecord
from .weights_picture import Image


def bits_picture(
    record: StepRecord, history: WeightHistory | None = None, image: Image | None = None
) -> Picture:
    """The parts of a record, to scale.

    Args:
        record: Of the step on the page.
        history: The followed weight: its code word is marked.
        image: The image of δ, where a code word that is pointed at marks its pixel.
    """
    parts, shared, sizes = _parts(record), _shared(record), _sizes(record)
    words = _words(record, history, image)
    reused = not record.is_trial and any(a.encoded.cached for a in record.alphabets)
    has_table = shared is not None or any(a.encoded.table is not None for a in record.alphabets)
    plain_bits = {k.bit_length() for k in record.n_kept}
    return Picture(
        "bits",
        {
            "nbytes": record.nbytes,
            "n": record.n,
            "is_trial": record.is_trial,
            "table": "last" if reused else "own" if has_table else "none",
            "shared": shared and {"title": shared.TITLE, "a_title": shared.a_title()},
            "parts": [
                {"name": name, "nbytes": nbytes} | ({"step": STEPS[name]} if name in STEPS else {})
                for name, nbytes in parts.items()
            ],
            "weights_nbytes": record.weights_nbytes,
            "moments": bool(record.moments),
            "plain": {
                "bits": plain_bits.pop() if len(plain_bits) == 1 else None,
                "nbytes": record.plain_nbytes,
            },
            "sizes": sizes,
            "entropy": record.sizes.entropy,
            "coder": record.coder,
            "all_coders": coder_facts(),
            "words": words,
            "shares": bool(words) and record.words[1][0].share is not None,
            "followed": _followed(words, history, image),
        },
        partial(_table, record, parts),
    )


def _parts(record: StepRecord) -> dict[str, int]:
    return {
        "header": record.header_nbytes,
        "table": record.table_nbytes,
        "code words": record.word_nbytes,
        **nbytes_by_kind(record.moments),
        "exact": record.exact_nbytes,
    }


def _sizes(record: StepRecord) -> dict[str, int]:
    """Coder -> bytes of the same symbols."""
    return {name: record.sizes.of(name) for name in CODERS}


def _shared(record: StepRecord) -> Payload | None:
    """A payload whose bits values share; None if there is none."""
    payloads = (a.encoded.payload for a in record.alphabets)
    return next((p for p in payloads if p.SHARED), None)


def _words(
    record: StepRecord, history: WeightHistory | None, image: Image | None
) -> list[dict[str, Any]]:
    """The first code words, or shares of bits; see `WordFacts` in said.js."""
    alphabet, first_words = record.words
    words = []
    for word in first_words:
        assert alphabet is not None, "words have an alphabet"
        weight = Weight(*alphabet.place(word.at)) if record.states is not None else None
        words.append(
            {
                **_word(alphabet, word),
                "weight": weight and [weight.tensor, weight.index],
                "pixel": image.pixel(weight) if image and weight else None,
                "here": history is not None and weight == history.followed.weight,
            }
        )
    return words


def _word(alphabet: Alphabet, word: CodeWord) -> dict[str, Any]:
    """A code word or a share, with its meaning."""
    bits = word.word + word.rest if word.share is None else f"{word.share:.1f}"
    meaning: dict[str, int | None] = {"sign": 2, "exponent": None, "steps": None}
    if word.code:
        # Code 1 is the first kept bucket in promotion order, or the first of the steps 1, −1, 2 …
        sign = int(alphabet.buckets.sign[word.code - 1])
        if alphabet.uniform:
            meaning |= {"sign": sign, "steps": (word.code + 1) // 2}
        else:
            exponent = int(alphabet.buckets.exponent[word.code - 1])
            meaning |= {"sign": sign, "exponent": exponent}
    return {"bits": bits, "run": word.run or 0, **meaning}


def _followed(
    words: list[dict[str, Any]], history: WeightHistory | None, image: Image | None
) -> dict[str, Any] | None:
    """The followed weight's code word; None if it has none, or is among these."""
    if history is None or any(word["here"] for word in words) or not history.followed.code:
        return None
    f = history.followed
    assert f.code is not None
    return {
        "code": asdict(f.code),
        "sign": 2 if f.code.zero or history.bucket is None else history.bucket[1],
        "weight": [f.weight.tensor, f.weight.index],
        "pixel": image.pixel(f.weight) if image else None,
    }


def _table(record: StepRecord, parts: dict[str, int]) -> pd.DataFrame:
    of_weights = ("table", "code words") if record.moments else ()
    rows = {
        f"this record: {'weights: ' if name in of_weights else ''}{name}": nbytes
        for name, nbytes in parts.items()
    }
    rows["the same values, without a code"] = record.plain_nbytes
    rows |= {f"the same values, {CODER_NAMES[n]}": size for n, size in _sizes(record).items()}
    rows["entropy of values"] = math.ceil(record.sizes.entropy)
    return pd.DataFrame({"what": list(rows), "bytes": list(rows.values())})
