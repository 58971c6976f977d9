"""The words of the scheme, each explained in a sentence or two, and links to them.

A text for the screen marks a word with double brackets: "sorted into [[buckets|bucket]]" shows
"buckets" as a link to the glossary whose tooltip explains "bucket".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

PATH = "glossary"  # of its page
_MARKED = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")
# Groups of: word (other forms, without plurals in -s): pages that show it at work, its meaning.
_TEXT = """
# Saving a training
checkpoint: live, recover
  A copy of the model's parameters, saved so that training can go on after a crash.
parameter (weight): inspect
  One of the numbers that training changes, also called a weight; here a float32 of 32 bits. A
  tensor is an array of them.
u: learn
  The live model: the values of all parameters now.
track: learn, live
  ũ, what a restart would load: the base and all deltas after it, added up. Encoder and decoder
  keep the same one, to the last bit.
delta (δ): learn, live
  δ = u − ũ, what has to be saved: the difference between the live model and the track, not
  between two live models. What is left out stays in the next δ.
step: live, inspect
  The number that a checkpoint is saved under; here the training iteration it was saved after.
iteration: live
  One update of the parameters from one batch of examples.
interval: live, recover
  Iterations between two checkpoints. What was trained since the last one is lost in a crash.
# From δ to bits
exponent: learn
  A float32 is (−1)ˢ · m · 2ᵉ with the sign s, the mantissa m from 1 to 2, and the exponent e: it
  says between which powers of two the number lies.
mantissa: learn
  The part m of (−1)ˢ · m · 2ᵉ, from 1 to 2: 23 bits of a float32, most of its cost.
bucket: learn, live
  All values of δ with the same sign and the same exponent, as +2⁻⁷: those from 2⁻⁷ to 2⁻⁶. The
  exponent stage, E, replaces each by the middle of its bucket.
level: learn, live
  The one value that all members of a bucket become: half of the sum of the smallest and the
  largest member. A dropped bucket's level is 0.
priority promotion (promotion): learn, live, tune
  P: with x bits for each value only 2ˣ − 1 buckets are kept, those of largest magnitude; all
  other values become 0 and stay in the next δ.
bits x (x bits): learn, tune
  Bits of each value after priority promotion and before the Huffman stage, enough for 2ˣ − 1
  buckets and zero.
uniform quantizer (uniform steps, equal steps, uniform): learn, live, tune
  Beyond the paper: a change becomes a whole number of steps of one size, so that its error does
  not grow with it.
dead zone: learn, live
  The changes that become 0 in uniform steps: those below about half a step. They stay in the
  next δ.
budget: live, tune
  Instead of x: the bytes that a checkpoint may take, as a share of float32. The smallest uniform
  steps are used that fit.
tolerance: learn, live, tune
  Instead of x: the furthest that any restored value may be from the live one. A checkpoint takes
  the bytes that this needs.
scope: live, tune
  Whether buckets are chosen and coded over the whole model, or for each tensor by itself.
symbol: learn
  What a code word stands for: the index of a level, 0 for zero.
code word: learn, inspect
  The bits that stand for a symbol. Frequent symbols have short ones, and no code word starts with
  another one.
Huffman code (Huffman): learn, live
  H: the code with the shortest words on average, made from how often each symbol occurs (Huffman
  1952). A symbol takes at least 1 bit.
run-length coder (run-length Huffman, run-length): live, inspect
  Our addition to the paper: one code word for a run of zeros together with the value after it, so
  a zero can cost far less than 1 bit.
token: live, inspect
  What the run-length coder gives one code word: a run of zeros and the level that ends it.
extra bits: live, inspect
  Bits after a code word that several lengths of a run share; they say which length it is.
escape: live
  The code word for tokens that are too rare to have their own; the run and the level follow it.
code table: live, inspect
  The lengths of all code words, which a decoder needs. If a new table costs more than it saves,
  the last one is reused.
entropy: learn, live
  Shannon's bound: the fewest bits that any code of single symbols can take, from how often each
  occurs. A code of runs can take fewer.
bits per parameter: live, tune, inspect
  Bits of a checkpoint, or of a part of it, divided by the number of parameters; float32 has 32.
# What it costs, and what it keeps
relative distance (distance): live, tune
  ‖ũ − u‖ / ‖u − u₀‖: how far the restored parameters are from the live ones, as a share of the
  distance that training has covered from its start u₀.
share of energy (energy): live
  The part of ‖δ‖², the sum of squares, in the kept buckets.
loss: live
  How wrong the model is on held-out examples: cross-entropy in nats for classifiers, mean squared
  error for ratings. Lower is better.
rework: recover, tune
  Iterations that a restored training needs until its loss is back where it was just before the
  crash.
seed: live, recover
  The number that determines all randomness of a training. The same seed and settings give the
  same states, and the same bytes of chain on one machine.
full checkpoint: recover
  Every parameter as it is, 4 bytes each: all sizes here are compared with it.
SCAR: recover
  Another way to save less (Qiao et al., ICML 2019): it saves exactly the blocks of parameters
  that have changed most since they were last saved; all others keep their saved values.
TOPN: recover
  Saves exactly the single parameters that have changed most, as many as fit; all others keep
  their saved values.
# On disk
chain: inspect, export
  A base and the deltas after it, one record each, in a directory run.lcc. Any step is restored
  from the base before it and the deltas in between.
record: inspect
  One file of a chain, with its checksums: a base, a delta, or several merged deltas.
base: inspect
  A record that holds every value exactly and needs no record before it.
archive: export, inspect
  A whole chain in one file, .lcc.zip.
digest: inspect, export
  A short fingerprint of bytes. A record has its own and that of its parent: a damaged or foreign
  file is noticed.
payload: inspect
  The part of a record that holds the code words.
merged record (merged): recover, inspect
  Many deltas in one file: fewer files to read, and fewer old steps.
asynchronous saving (asynchronous): recover
  Training only waits until the state is copied; another process encodes and writes it.
"""
_ENTRY = re.compile(r"^([^ #].*?)(?: \((.+)\))?: (.+)\n((?:  .+\n?)+)", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    """A word, its meaning, the pages (by name) that show it at work, and its other forms."""

    name: str
    text: str
    seen: tuple[str, ...]
    also: tuple[str, ...]


def _terms(entries: str) -> tuple[Term, ...]:
    return tuple(
        Term(
            name,
            " ".join(text.split()),
            tuple(seen.split(", ")),
            tuple(filter(None, also.split(", "))),
        )
        for name, also, seen, text in _ENTRY.findall(entries)
    )


GROUPS = {
    title: _terms(entries)
    for title, _, entries in (group.partition("\n") for group in _TEXT.split("\n# ")[1:])
}
TERMS = {term.name: term for group in GROUPS.values() for term in group}
_FORMS = {
    form + end: term.name
    for term in TERMS.values()
    for form in (term.name, *term.also)
    for end in ("", "s")
    if len(form) > 1 or form == "δ"  # not u, a letter of many formulas
}
_KNOWN = re.compile(  # longer forms first: "code word" before "code"
    rf"\b({'|'.join(re.escape(form) for form in sorted(_FORMS, key=len, reverse=True))})\b", re.I
)
_BY_CASE = {form.casefold(): name for form, name in _FORMS.items()}


def explained(text: str) -> str:
    """A text for st.markdown in which marked words are links that explain themselves.

    Raises KeyError for a word that the glossary does not have.
    """
    return _MARKED.sub(lambda found: _link(found[1], TERMS[found[2] or found[1]]), text)


def linked(title: str) -> str:
    """A title for st.markdown in which every known word is a link, the first time it occurs."""
    seen = set()

    def link(found: re.Match[str]) -> str:
        name = _BY_CASE[found[1].casefold()]
        if name in seen:
            return found[1]
        seen.add(name)
        return _link(found[1], TERMS[name])

    return _KNOWN.sub(link, title)


def _link(shown: str, term: Term) -> str:
    return f'[{shown}]({address(term.name)} "{term.text}")'


def address(name: str) -> str:
    """Where the glossary explains a word, relative to any page of the dashboard."""
    return f"{PATH}?term={quote(name)}"
