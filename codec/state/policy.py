"""Which parts of a state are delta-coded, which are stored as they are, which are left out.

Names are those of tree: "model/conv1.weight", "optimizer/state/0/exp_avg".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from codec.errors import SettingsError

from .tensors import LOSSY_DTYPES, TINY_ELEMENTS, TensorSpec

LOSSY, EXACT, SKIP = KINDS = ("lossy", "exact", "skip")
# Outermost keys under which training loops keep the weights.
MODELS = ("model", "model_state_dict", "state_dict", "module", "net", "network", "weights")
# What must not become negative, and is small: a batch norm's statistics.
STATISTICS = ("running_mean", "running_var")
# Names that optimizers give to what they keep of each parameter.
MOMENTS = (
    "exp_avg",
    "exp_avg_sq",
    "max_exp_avg_sq",
    "exp_inf",
    "momentum_buffer",
    "square_avg",
    "grad_avg",
    "acc_delta",
    "sum",
    "prev",
    "mu",
    "nu",
    "master_weight",
)
SUBSTANTIAL = 0.05  # of all floats that are not an optimizer's
_WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")  # of optimizer_g, optG, OPT


class Policy:
    """Patterns (as in a shell; * matches / too) -> "lossy", "exact" or "skip"; the first match
    counts. A tensor that stands in several places is exact if a pattern says so of any of its
    names, and left out only where all of them are.

    Without one, floats of the model are lossy but for a batch norm's statistics: those below
    one of MODELS, or all where no name has a slash. Everything else is exact. Raises
    SettingsError for what is no such mapping.
    """

    def __init__(self, patterns: Mapping[str, str] | None = None) -> None:
        wanted = f"a policy maps patterns of names to {', '.join(KINDS)}"
        if not isinstance(patterns, Mapping | None):
            raise SettingsError(f'{wanted}, as {{"*": "exact"}} does; got {patterns!r}'[:300])
        self._patterns = dict(patterns or {})
        for pattern, kind in self._patterns.items():
            texts = isinstance(pattern, str) and isinstance(kind, str)
            if not texts or kind not in KINDS:
                raise SettingsError(f"{wanted}; got {pattern!r}: {kind!r}"[:300])

    def is_skipped(self, name: str) -> bool:
        """Whether it is left out, with all below it: not if a pattern before says what of that
        is kept, as "model/*" does of "model"."""
        for pattern, kind in self._patterns.items():
            if fnmatchcase(name, pattern):
                return kind == SKIP
            if kind != SKIP and pattern.startswith(f"{name}/"):
                return False
        return False

    def is_lossy(self, name: str, ties: Iterable[str] = ()) -> bool:
        """Whether a tensor of this name is delta-coded if its dtype and size allow it.

        ties: its other names, see `tree.Parts`.
        """
        if any(self.asked(tie) == EXACT for tie in ties):
            return False
        if asked := self.asked(name):
            return asked == LOSSY
        return not family(name) and not name.endswith(STATISTICS)

    def asked(self, name: str) -> str | None:
        """What a pattern says of it; None if none does."""
        found = (kind for pattern, kind in self._patterns.items() if fnmatchcase(name, pattern))
        return next(found, None)

    def unknown_models(self, tensors: Sequence[TensorSpec]) -> list[str]:
        """Patterns of what may be a model but is exact, for neither a pattern nor MODELS has its
        name: ["generator/*", "discriminator/*"] of a GAN.

        tensors: of a whole state. Small ones and those of an optimizer do not count.
        """
        floats = [t for t in tensors if t.dtype in LOSSY_DTYPES and t.size >= TINY_ELEMENTS]
        ours = [t for t in floats if not _is_of_optimizer(t.name)]
        above = {p for t in floats if _is_of_optimizer(t.name) for p in _prefixes(t.name)}
        sizes: Counter[str] = Counter()
        for t in ours:
            if family(t.name) and self.asked(t.name) is None:
                # As near the outermost key as there is nothing of an optimizer below.
                own = (f"{_escaped(p)}/*" for p in _prefixes(t.name) if p not in above)
                sizes[next(own, _escaped(t.name))] += t.size
        if sizes.total() < SUBSTANTIAL * sum(t.size for t in ours):
            return []
        least = SUBSTANTIAL * max(sizes.values(), default=0)
        return [pattern for pattern, size in sizes.items() if size >= least]


def _prefixes(name: str) -> list[str]:
    """ "a/b/c" -> ["a", "a/b"]."""
    return [name[: slash.start()] for slash in re.finditer("/", name)]


def _is_of_optimizer(name: str) -> bool:
    """Whether a tensor seems to be an optimizer's: by a key above it, or by its own name."""
    *keys, last = name.split("/")
    words = (word.lower() for key in keys for word in _WORD.findall(key))
    return (
        last in MOMENTS
        or any(key == "state" and after.isdigit() for key, after in pairwise(keys))
        or any(word == "opt" or word.startswith("optim") for word in words)
    )


def _escaped(name: str) -> str:
    """A pattern that only this name matches."""
    return re.sub(r"([*?[])", r"[\1]", name)


def family(name: str) -> str:
    """Which tensors share an alphabet with this one: "" for the model's, else the name's end.

    An optimizer's moments are of other magnitudes than the weights: beside them, only the
    weights would ever be promoted.
    """
    outermost, slash, _ = name.partition("/")
    return "" if not slash or outermost in MODELS else name.rpartition("/")[2]


def rules(texts: Iterable[str]) -> dict[str, str]:
    """Patterns and kinds as a command line has them, "PATTERN=KIND". Raises SettingsError."""
    found = {}
    for text in texts:
        pattern, equals, kind = text.rpartition("=")
        if not equals:
            raise SettingsError(f"a policy is PATTERN=lossy, =exact or =skip; got {text!r}")
        found[pattern] = kind
    return found
