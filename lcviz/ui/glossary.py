"""The words of the scheme, each explained in a sentence or two, and how a text refers to them.

A text for the screen marks a word with double brackets: "sorted into [[buckets|bucket]]" shows
"buckets" as a link to the glossary whose tooltip explains "bucket".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

PATH = "glossary"  # of its page
_MARKED = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]|]+))?\]\]")


@dataclass(frozen=True)
class Term:
    """A word: what it means, the pages (by name) where it can be seen at work, and other forms.

    Its plural in -s need not be told.
    """

    name: str
    text: str
    seen: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


GROUPS: dict[str, tuple[Term, ...]] = {
    "Saving a training": (
        Term(
            "checkpoint",
            "A copy of the model's parameters, saved so that training can go on after a crash.",
            ("live", "recover"),
        ),
        Term(
            "parameter",
            "One of the numbers that training changes, also called a weight; here a float32 of "
            "32 bits. A tensor is an array of them.",
            ("inspect",),
            ("weight",),
        ),
        Term(
            "u",
            "The live model: the values of all parameters now.",
            ("learn",),
        ),
        Term(
            "track",
            "ũ, what a restart would have: the base and all deltas after it, added up. Encoder and "
            "decoder keep the same one, to the last bit.",
            ("learn", "live"),
        ),
        Term(
            "delta",
            "δ = u − ũ, what has to be saved: the difference between the live model and the track, "
            "not between two live models. What one checkpoint drops is in the next delta again.",
            ("learn", "live"),
            ("δ",),
        ),
        Term(
            "step",
            "The number that a checkpoint is saved under; here the training iteration it was "
            "saved after.",
            ("live", "inspect"),
        ),
        Term(
            "iteration",
            "One update of the parameters from one batch of examples.",
            ("live",),
        ),
        Term(
            "interval",
            "Iterations between two checkpoints. What was trained since the last one is lost in a "
            "crash.",
            ("live", "recover"),
        ),
    ),
    "From δ to bits": (
        Term(
            "exponent",
            "A float32 is (−1)ˢ · m · 2ᵉ with the sign s, the mantissa m from 1 to 2, and the "
            "exponent e: it says between which powers of two the number lies.",
            ("learn",),
        ),
        Term(
            "mantissa",
            "The part m of (−1)ˢ · m · 2ᵉ, from 1 to 2: 23 bits of a float32, most of its cost.",
            ("learn",),
        ),
        Term(
            "bucket",
            "All values of δ with the same sign and the same exponent, as +2⁻⁷: those from 2⁻⁷ to "
            "2⁻⁶. The exponent stage, E, replaces each by the middle of its bucket.",
            ("learn", "live"),
        ),
        Term(
            "level",
            "The one value that all members of a bucket become: half of the sum of the smallest "
            "and the largest member. A dropped bucket's level is 0.",
            ("learn", "live"),
        ),
        Term(
            "priority promotion",
            "P: with x bits for each value only 2ˣ − 1 buckets are kept, those of largest "
            "magnitude; all other values become 0 now and are seen again in the next δ.",
            ("learn", "live", "tune"),
            ("promotion",),
        ),
        Term(
            "bits x",
            "How many bits priority promotion leaves to each value before the Huffman stage: "
            "2ˣ − 1 buckets and zero.",
            ("learn", "tune"),
            ("x bits",),
        ),
        Term(
            "budget",
            "Instead of x: the bytes that a checkpoint may take, as a share of float32. As many "
            "buckets are kept as fit.",
            ("live", "tune"),
        ),
        Term(
            "scope",
            "Whether buckets are chosen and coded over the whole model, or for each tensor by "
            "itself.",
            ("live", "tune"),
        ),
        Term(
            "symbol",
            "What a code gives words to: the index of a level, 0 for zero.",
            ("learn",),
        ),
        Term(
            "code word",
            "The bits that stand for a symbol. Frequent symbols have short ones, and none is the "
            "beginning of another.",
            ("learn", "inspect"),
        ),
        Term(
            "Huffman code",
            "H: the code with the shortest words on average, made from how often each symbol "
            "occurs (Huffman 1952). A symbol takes 1 bit at least.",
            ("learn", "live"),
            ("Huffman",),
        ),
        Term(
            "run-length coder",
            "Our addition to the paper: one code word for a run of zeros together with the value "
            "after it, so that zeros may cost far less than 1 bit.",
            ("live", "inspect"),
            ("run-length Huffman", "run-length"),
        ),
        Term(
            "token",
            "What the run-length coder gives one code word: a run of zeros and the level that "
            "ends it.",
            ("live", "inspect"),
        ),
        Term(
            "open bits",
            "Bits after a code word that stands for several lengths of a run, which say the one "
            "that is meant: so rare long runs need no words of their own.",
            ("live", "inspect"),
        ),
        Term(
            "escape",
            "The code word of tokens too rare for words of their own; the run and the level are "
            "written after it.",
            ("live",),
        ),
        Term(
            "code table",
            "The lengths of all code words, which a decoder needs. It is sent only if that pays: "
            "else the one sent last is used again.",
            ("live", "inspect"),
        ),
        Term(
            "entropy",
            "Shannon's bound: the fewest bits that any code of single symbols can take, from how "
            "often each occurs. A code of runs may get below it.",
            ("learn", "live"),
        ),
        Term(
            "bits per parameter",
            "Bits of what is meant, divided by the number of parameters; float32 has 32.",
            ("live", "tune", "inspect"),
            ("bits a parameter",),
        ),
    ),
    "What it costs, and what it keeps": (
        Term(
            "relative distance",
            "‖ũ − u‖ / ‖u − u₀‖: how far the restored parameters are from the live ones, as a "
            "share of the way that training has come from its start u₀.",
            ("live", "tune"),
            ("distance",),
        ),
        Term(
            "share of energy",
            "The part of ‖δ‖², the sum of squares, that the kept buckets hold.",
            ("live",),
            ("energy",),
        ),
        Term(
            "loss",
            "How wrong the model is on held-out examples: cross-entropy in nats for classifiers, "
            "mean squared error for ratings. Lower is better.",
            ("live",),
        ),
        Term(
            "rework",
            "Iterations that a restored training needs until its loss is back where it was just "
            "before the crash.",
            ("recover", "tune"),
        ),
        Term(
            "seed",
            "The number that all randomness of a training comes from. The same seed and settings "
            "give the same states, and the same bytes of chain on one machine.",
            ("live", "recover"),
        ),
        Term(
            "full checkpoint",
            "Every parameter as it is, 4 bytes each: what all sizes here are compared with.",
            ("recover",),
        ),
        Term(
            "SCAR",
            "Another way to save less (Qiao et al., ICML 2019): the blocks of parameters that have "
            "changed most since they were last saved, exactly; all others stay as they were.",
            ("recover",),
        ),
        Term(
            "TOPN",
            "The single parameters that have changed most, as many as fit, exactly; all others "
            "stay as they were saved before.",
            ("recover",),
        ),
    ),
    "On disk": (
        Term(
            "chain",
            "A base and the deltas after it, one record each, in a directory run.lcc. Any step is "
            "restored from the base before it and the deltas in between.",
            ("inspect", "export"),
        ),
        Term(
            "record",
            "One file of a chain: a base, a delta, or several deltas merged; with its checksums.",
            ("inspect",),
        ),
        Term(
            "base",
            "A record that holds every value exactly, so that nothing before it is needed.",
            ("inspect",),
        ),
        Term(
            "archive",
            "A whole chain in one file, .lcc.zip.",
            ("export", "inspect"),
        ),
        Term(
            "digest",
            "A short fingerprint of bytes. A record has one of itself and one of its parent, so "
            "that a damaged or foreign file is noticed.",
            ("inspect", "export"),
        ),
        Term(
            "payload",
            "The part of a record that holds the code words.",
            ("inspect",),
        ),
        Term(
            "merged record",
            "Many deltas in one file: fewer files to read, and old steps thinned out.",
            ("recover", "inspect"),
            ("merged",),
        ),
        Term(
            "asynchronous saving",
            "Training only waits until the state is copied; another process encodes and writes it.",
            ("recover",),
            ("asynchronous",),
        ),
    ),
}

TERMS = {term.name: term for group in GROUPS.values() for term in group}
_FORMS = {
    form + end: term.name
    for term in TERMS.values()
    for form in (term.name, *term.also)
    for end in ("", "s")
    if len(form) > 1 or form == "δ"  # not u, which is a letter of many words' formulas
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
    """A title for st.markdown in which every known word is a link, where it first stands."""
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
