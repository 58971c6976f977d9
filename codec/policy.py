"""Which parts of a state are delta-coded, which are stored as they are, which are left out.

Names are those of tree: "model/conv1.weight", "optimizer/state/0/exp_avg".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from .errors import SettingsError

LOSSY, EXACT, SKIP = KINDS = ("lossy", "exact", "skip")
# Outermost keys under which training loops keep the weights.
MODELS = ("model", "model_state_dict", "state_dict", "module", "net", "network", "weights")
# What must not become negative, and is small: a batch norm's statistics.
STATISTICS = ("running_mean", "running_var")


class Policy:
    """Patterns (as in a shell; * matches / too) -> "lossy", "exact" or "skip"; the first match
    counts.

    Without one, floats of the model are lossy but for a batch norm's statistics: those below
    one of MODELS, or all where no name has a slash. Everything else is exact. Raises
    SettingsError for another kind.
    """

    def __init__(self, patterns: Mapping[str, str] | None = None) -> None:
        self._patterns = dict(patterns or {})
        for pattern, kind in self._patterns.items():
            if not isinstance(pattern, str) or kind not in KINDS:
                raise SettingsError(
                    f"a policy maps patterns of names to {', '.join(KINDS)}; got "
                    f"{pattern!r}: {kind!r}"
                )

    def is_skipped(self, name: str) -> bool:
        """Whether it is left out, with all below it: not if a pattern before says what of that
        is kept, as "model/*" does of "model"."""
        for pattern, kind in self._patterns.items():
            if fnmatchcase(name, pattern):
                return kind == SKIP
            if kind != SKIP and pattern.startswith(f"{name}/"):
                return False
        return False

    def is_lossy(self, name: str) -> bool:
        """Whether a tensor of this name is delta-coded if its dtype and size allow it."""
        if asked := self.asked(name):
            return asked == LOSSY
        return not family(name) and not name.endswith(STATISTICS)

    def asked(self, name: str) -> str | None:
        """What a pattern says of it; None if none does."""
        found = (kind for pattern, kind in self._patterns.items() if fnmatchcase(name, pattern))
        return next(found, None)


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
