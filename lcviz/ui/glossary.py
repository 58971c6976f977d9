"""The words of the scheme, each explained in one sentence, and links to them.

A text for the screen marks a word with double brackets: "sorted into [[buckets|bucket]]" shows
"buckets" as a link to the glossary whose tooltip explains "bucket".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

PATH = "glossary"  # of its page
_MARK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")
# Groups of: word (other forms, without plurals in -s): pages that show it at work, its meaning.
_TEXT = """
# Saving a training
checkpoint: live, recover
  A copy of the parameters, saved to continue training after a crash.
parameter (weight): inspect
  A number that training changes, here a float32 of 32 bits; a tensor is an array of them.
u: learn
  The live model: all parameters now.
track: learn, live
  ũ, what a restart would load: the base plus all deltas after it.
delta (δ): learn, live
  δ = u − ũ: what has to be saved; what is left out stays in the next δ.
step: live, inspect
  The number of a checkpoint, here the iteration after which it was saved.
iteration: live
  One update of the parameters from one batch of examples.
interval: live, recover
  Iterations between two checkpoints; a crash repeats those since the last one.
# From δ to bits
exponent: learn
  e in (−1)ˢ · m · 2ᵉ, as a float32 is stored: its magnitude lies between 2ᵉ and 2ᵉ⁺¹.
mantissa: learn
  m in (−1)ˢ · m · 2ᵉ, from 1 to 2: 23 bits of a float32.
bucket: learn, live
  All values of δ with one sign and one exponent; +2⁻⁷ holds those from 2⁻⁷ to 2⁻⁶.
level: learn, live
  What all values of a bucket become: ½ (smallest + largest), or 0 if it is dropped.
priority promotion (promotion): learn, live, tune
  P: x bits keep the 2ˣ − 1 buckets of largest magnitude; all other values become 0.
bits x (x bits): learn, tune
  Bits of a value before the Huffman stage, enough for 2ˣ − 1 buckets and zero.
uniform quantizer (uniform steps, equal steps, uniform): learn, live, tune
  Beyond the paper: a change becomes a whole number of steps of one size.
dead zone: learn, live
  In equal steps, the changes below about half a step, which become 0 and stay in the next δ.
budget: live, tune
  The share of float32 that a checkpoint may take, instead of x.
tolerance: learn, live, tune
  The furthest that a restored value may be from the live one, instead of x.
distance target: learn, live, tune
  The share of a change that a checkpoint may leave for the next one, instead of x.
scope: live, tune
  Whether the whole model shares its buckets, or each tensor has its own.
symbol: learn
  What a code word stands for: the index of a level, 0 for zero.
arithmetic code: live, inspect
  One number that stands for all values of a small model in equal steps; it has no code words.
code word: learn, inspect
  The bits of a symbol; frequent ones are short, and none starts with another.
Huffman code (Huffman): learn, live
  H: the shortest code of single symbols, at least 1 bit each (Huffman 1952).
run-length coder (run-length Huffman, run-length): live, inspect
  Beyond the paper: one code word for a run of zeros and the value after it.
token: live, inspect
  A run of zeros and the level that ends it; the run-length coder gives it one code word.
extra bits: live, inspect
  Bits after a code word that say which of several run lengths it is.
escape: live
  The code word for tokens too rare to have their own; run and level follow it.
code table: live, inspect
  The lengths of all code words; the last table is reused where that costs less.
entropy: learn, live
  −Σ p · log₂ p, Shannon's bound: no code of single symbols takes fewer bits.
bits per parameter: live, tune, inspect
  Bits of a checkpoint ÷ number of parameters; float32 has 32.
# What it costs, and what it keeps
relative distance (distance): live, tune
  ‖ũ − u‖ / ‖u − u₀‖: the error of a restore, as a share of the distance trained from u₀.
share of energy (energy): live
  The part of ‖δ‖², the sum of squares, in the kept buckets.
loss: live
  How wrong the model is on held-out examples; lower is better.
price of a crash (rework): live, recover, tune
  Iterations to repeat: those since the checkpoint, then those until the loss is back where it was.
seed: live, recover
  The number behind all randomness: the same seed and settings give the same bytes on one machine.
full checkpoint: recover
  Every parameter as it is, 4 bytes each.
SCAR: recover
  Saves the blocks of parameters that changed most, exactly (Qiao et al., ICML 2019).
TOPN: recover
  Saves the single parameters that changed most, exactly, as many as fit.
# On disk
chain: inspect, export
  A base and the deltas after it, one record each, in a directory run.lcc.
record: inspect
  One file of a chain, with checksums: a base, a delta, or several merged deltas.
base: inspect
  A record of all values, exact, that needs no other.
archive: export, inspect
  A whole chain in one file, .lcc.zip.
digest: inspect, export
  A short fingerprint of bytes: a damaged or foreign file is noticed.
payload: inspect
  The part of a record that holds the code words.
merged record (merged): recover, inspect
  Many deltas in one file: fewer files, and fewer old steps.
asynchronous saving (asynchronous): recover
  Training only waits until the state is copied; another process encodes and writes it.
"""
_ENTRY = re.compile(r"^([^ #].*?)(?: \((.+)\))?: (.+)\n((?:  .+\n?)+)", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    """A word, its meaning, the pages (by name) that show it at work, and its other forms."""

    name: str
    text: str
    pages: tuple[str, ...]
    other_forms: tuple[str, ...]


def _terms(entries: str) -> tuple[Term, ...]:
    return tuple(
        Term(
            name,
            " ".join(text.split()),
            tuple(pages.split(", ")),
            tuple(filter(None, other_forms.split(", "))),
        )
        for name, other_forms, pages, text in _ENTRY.findall(entries)
    )


GROUPS = {
    title: _terms(entries)
    for title, _, entries in (group.partition("\n") for group in _TEXT.split("\n# ")[1:])
}
TERMS = {term.name: term for group in GROUPS.values() for term in group}
_FORMS = {
    form + end: term.name
    for term in TERMS.values()
    for form in (term.name, *term.other_forms)
    for end in ("", "s")
    if len(form) > 1 or form == "δ"  # not u, a letter of many formulas
}
_FORM = re.compile(  # longer forms first: "code word" before "code"
    rf"\b({'|'.join(re.escape(form) for form in sorted(_FORMS, key=len, reverse=True))})\b", re.I
)
_BY_CASE = {form.casefold(): name for form, name in _FORMS.items()}


def explained(text: str) -> str:
    """A text for st.markdown in which marked words are links that explain themselves.

    Raises KeyError for a word that the glossary does not have.
    """
    return _MARK.sub(lambda match: _link(match[1], TERMS[match[2] or match[1]]), text)


def linked(title: str) -> str:
    """A title for st.markdown in which the first occurrence of each glossary word is a link."""
    names = set()

    def link(match: re.Match[str]) -> str:
        name = _BY_CASE[match[1].casefold()]
        if name in names:
            return match[1]
        names.add(name)
        return _link(match[1], TERMS[name])

    return _FORM.sub(link, title)


def title_help(title: str) -> dict[str, str]:
    """Fields that explain a picture's title if it is a glossary word, else {}.

    help: the word's meaning. link: its place in the glossary.
    """
    name = _BY_CASE.get(title.casefold())
    return {} if name is None else {"help": TERMS[name].text, "link": address(name)}


def _link(word: str, term: Term) -> str:
    return f'[{word}]({address(term.name)} "{term.text}")'


def address(name: str) -> str:
    """The address of a word in the glossary, relative to any page of the dashboard."""
    return f"{PATH}?term={quote(name)}"
