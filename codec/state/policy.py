"""Which parts of a state are lossy (approximated), exact (the same bits come back) or skipped.

Names are those of tree: "model/conv1.weight", "optimizer/state/0/exp_avg". A lossy tensor may have
a target of its own, "distance=0.1" or "bits=4". Weights of one target are a family: they share an
alphabet. So do averages of weights, which change less than the weights.

An optimizer's moments are lossy too, each in steps of its measure, see `scheme.measures`. They are
recognised by name, see `moments_among`. Those of one kind are a family, "roots=0.5 exp_avg".
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, TypeAlias

from codec.errors import SettingsError

from .family import FIRST, MEASURES, OWN, SECOND, Family, Target
from .family import MODEL as MODEL_FAMILY
from .tensors import LOSSY_DTYPES, TINY_ELEMENTS, TensorSpec, spec_of

_log = logging.getLogger(__name__)

LOSSY, EXACT, SKIP = MODES = ("lossy", "exact", "skip")
# Modes of a module's tensors without a pattern: lossy, except for STATISTICS.
MODEL, AVERAGE = KINDS = ("model", "average")
Mode: TypeAlias = str | Target  # one of MODES or KINDS, or a target, which means lossy
OPTIONAL = "?"  # after a mode or target: its pattern may match nothing
TARGETS = ("bits", "tolerance", "distance", *MEASURES)
# Outermost keys that training loops use for the weights.
MODELS = ("model", "model_state_dict", "state_dict", "module", "net", "network", "weights")
# Statistics of a batch norm: small, and the variance is never negative.
STATISTICS = ("running_mean", "running_var")
# Moments, by the names of torch's optimizers and of Hugging Face's Adafactor: the step of each in
# its measure. See docs/explanation/results.md.
MEASURE_OF = {
    **dict.fromkeys(("exp_avg_sq", "max_exp_avg_sq", "square_avg", "acc_delta", "sum"), SECOND),
    **dict.fromkeys(("exp_avg_sq_row", "exp_avg_sq_col", "row_var", "col_var", "variance"), SECOND),
    **dict.fromkeys(("exp_inf",), SECOND),
    **dict.fromkeys(("momentum_buffer", "grad_avg"), OWN),
    "exp_avg": FIRST,
}
# All that these optimizers keep of a parameter.
PARAMETER_STATE = MEASURE_OF.keys() | {"step", "mu_product", "RMS"}
ADAFACTOR = {"RMS", "exp_avg_sq_row"}
NO_MOMENTS: Mapping[str, Target] = {}
# Names that optimizers give to their state of each parameter.
MOMENTS = (*MEASURE_OF, "prev", "mu", "nu", "master_weight")
POSSIBLE_TARGETS = (
    "distance=D, tolerance=T or bits=X; an optimizer's moments to octaves=S, roots=S or sizes=S"
)
SUBSTANTIAL = 0.05  # share of all floats outside optimizers; smaller models are not reported
MOST_NEAREST = 3  # names in the message about a pattern without a match
MOST_COMPARED = 10_000  # names compared with such a pattern, in about a second
_WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")  # in optimizer_g, optG, OPT


class Policy:
    """Maps shell patterns (* matches / too) to "lossy", "exact", "skip" or a target, which means
    lossy; the first match counts.

    A tensor with several names is exact if any of its names is, and skipped only if all are.
    Without a matching pattern, the floats of modules are lossy, float64 and tiny tensors apart:
    those below one of ``modules`` or MODELS, and those whose own name has no slash. A batch norm's
    statistics are exact. An optimizer's moments are in steps of their measure. Everything else is
    exact.

    Every pattern has to match a name of the first state, see `check_matches`, unless its mode ends
    with the mark OPTIONAL: {"*/debug": "skip?"}.

    Args:
        patterns: Pattern -> mode.
        modules: Outermost keys that are known to hold modules -> "model" if it is trained, or
            "average" if its weights change by other means; the record's target then holds for
            these weights by themselves.

    Raises:
        SettingsError: Another mapping.
    """

    def __init__(
        self,
        patterns: Mapping[str, str] | None = None,
        modules: Mapping[str, str] | None = None,
    ) -> None:
        names = ", ".join(MODES)
        rule = f"a policy maps patterns of names to {names}, {POSSIBLE_TARGETS}"
        if not isinstance(patterns, Mapping | None):
            raise SettingsError(f'{rule}, as {{"*": "exact"}} does; got {patterns!r}'[:300])
        if not isinstance(modules, Mapping | None) or not {*(modules or {}).values()} <= {*KINDS}:
            raise SettingsError(f"modules map names to {' or '.join(KINDS)}; got {modules!r}"[:300])
        self.modules = dict(modules or {})
        self._patterns: dict[str, Mode] = {}
        self._optional: set[str] = set()  # the patterns that may match nothing
        for pattern, text in (patterns or {}).items():
            are_texts = isinstance(pattern, str) and isinstance(text, str)
            bare = text.removesuffix(OPTIONAL) if are_texts else ""
            mode = bare if bare in MODES else Target.of(bare)
            if mode is None:
                raise SettingsError(f"{rule}; got {pattern!r}: {text!r}"[:300])
            self._patterns[pattern] = mode
            if bare != text:
                self._optional.add(pattern)

    @property
    def given(self) -> dict[str, str]:
        """The patterns with their modes, as they were given."""
        return {
            pattern: f"{mode}{OPTIONAL if pattern in self._optional else ''}"
            for pattern, mode in self._patterns.items()
        }

    @property
    def field(self) -> dict[str, dict[str, str]]:
        """As records hold it: what is not empty of "policy" and "modules"."""
        return {k: v for k, v in (("policy", self.given), ("modules", self.modules)) if v}

    @property
    def text(self) -> str:
        """The same as text: "policy={…}"."""
        return f"policy={self.given!r}"

    @property
    def modes(self) -> list[Mode]:
        """The mode or target of every pattern."""
        return list(self._patterns.values())

    @property
    def targets(self) -> list[Target]:
        """The targets of all patterns."""
        return [mode for mode in self._patterns.values() if isinstance(mode, Target)]

    def check_matches(self, names: Iterable[str]) -> None:
        """Check that every pattern without a mark matches a name.

        If earlier patterns of another mode match all names of a pattern, it has no effect, because
        the first match counts. That is no error, but a warning in the log.

        Args:
            names: Of all tensors, other values and containers of a state, skipped ones too.

        Raises:
            SettingsError: A pattern matches nothing. The message has the nearest names.
        """
        idle, overruled, compared = dict(self._patterns), set[str](), list[str]()
        for name in names:
            if not idle:
                return
            if len(compared) < MOST_COMPARED:
                compared.append(name)
            matching = [pattern for pattern in self._patterns if fnmatchcase(name, pattern)]
            for pattern in matching:
                if self._patterns[pattern] == self._patterns[matching[0]]:
                    idle.pop(pattern, None)
                else:
                    overruled.add(pattern)
        for pattern, mode in idle.items():
            if pattern in overruled:
                _log.warning(
                    "the policy's pattern %r does nothing: earlier patterns match all its names, "
                    "and the first match counts; put it before them",
                    pattern,
                )
            elif pattern not in self._optional:
                raise SettingsError(_without_match(pattern, mode, compared))

    def is_skipped(self, name: str) -> bool:
        """Whether this and everything below it is skipped.

        It is not skipped if an earlier pattern keeps something below it, as "model/*" does "model".
        """
        for pattern, mode in self._patterns.items():
            if fnmatchcase(name, pattern):
                return mode == SKIP
            if mode != SKIP and pattern.startswith(f"{name}/"):
                return False
        return False

    def mode(
        self,
        name: str,
        ties: Iterable[str] = (),
        moments: Mapping[str, Target] = NO_MOMENTS,
        *,
        tree_name: str | None = None,
    ) -> Mode:
        """How a tensor is stored if its dtype and size allow it: a mode or a target.

        Args:
            name: Of the tensor, for patterns.
            ties: Its other names, see `tree.Parts`.
            moments: Of the state, see `moments_among`.
            tree_name: That of `tree`, for the defaults, if ``name`` is another.
        """
        if any(self.mode_by_pattern(tie) == EXACT for tie in ties):
            return EXACT
        if mode := self.mode_by_pattern(name):
            return mode
        name = tree_name or name
        if kind := self._kind(name):
            return EXACT if name.endswith(STATISTICS) else kind
        return moments.get(name, EXACT)

    def _kind(self, name: str) -> str | None:
        """The kind of the module that holds a tensor of the tree; None if no module does."""
        is_model = "/" not in name or is_of_model(name)
        return self.modules.get(name.partition("/")[0], MODEL if is_model else None)

    def spec(
        self,
        value: Any,
        name: str,
        ties: Iterable[str] = (),
        moments: Mapping[str, Target] = NO_MOMENTS,
        *,
        tree_name: str | None = None,
        stored_name: str | None = None,
    ) -> TensorSpec:
        """A tensor as a record is to hold it, lossy or exact.

        Args:
            value: The tensor.
            stored_name: Its name in the record, if that is not ``name``.
            name, ties, moments, tree_name: See `mode`.

        Raises:
            SettingsError: Another target of an optimizer's tensor than a measure: only a measure
                keeps the next update close. Or a measure of another tensor. Also what `spec_of`
                raises.
        """
        mode = self.mode(name, ties, moments, tree_name=tree_name)
        stored, tree_name = stored_name or name, tree_name or name
        spec = spec_of(stored, value, mode not in (EXACT, SKIP))
        kind = self._kind(tree_name)
        of_optimizer = kind is None and is_of_optimizer(tree_name)
        if mode == LOSSY and of_optimizer:
            mode = moments.get(tree_name) or MEASURE_OF.get(_moment_of(_key(stored)), OWN)
        if not isinstance(mode, Target):
            own = Family(AVERAGE) if kind == AVERAGE else MODEL_FAMILY
            return replace(spec, family=own) if spec.lossy else spec
        if of_optimizer is not (mode.name in MEASURES):
            possible = f"{', '.join(MODES)}, {POSSIBLE_TARGETS}"
            whose = "an optimizer's" if of_optimizer else "no optimizer's"
            raise SettingsError(f"{stored!r} is {whose}: no {mode}, only {possible}")
        name = _moment_of(_key(stored)) if of_optimizer else ""
        return replace(spec, family=Family(name, mode)) if spec.lossy else spec

    def mode_by_pattern(self, name: str) -> Mode | None:
        """The mode or target of the first pattern that matches; None if no pattern matches."""
        modes = (mode for pattern, mode in self._patterns.items() if fnmatchcase(name, pattern))
        return next(modes, None)

    def suggested_patterns(self, tensors: Sequence[TensorSpec]) -> list[str]:
        """Patterns to propose for tensors that look like a model's but are exact.

        No pattern of the policy matches them, and no key in MODELS leads to them. For a GAN:
        ["generator/*", "discriminator/*"].

        tensors: of a whole state. Small tensors and those of an optimizer do not count.
        """
        floats = [t for t in tensors if t.dtype in LOSSY_DTYPES and t.size >= TINY_ELEMENTS]
        outside = [t for t in floats if not is_of_optimizer(t.name)]
        optimizer_keys = {p for t in floats if is_of_optimizer(t.name) for p in _prefixes(t.name)}
        sizes: Counter[str] = Counter()
        for t in outside:
            if self._kind(t.name) is None and self.mode_by_pattern(t.name) is None:
                # The outermost key that has nothing of an optimizer below it.
                keys = (f"{escaped(p)}/*" for p in _prefixes(t.name) if p not in optimizer_keys)
                sizes[next(keys, escaped(t.name))] += t.size
        if sizes.total() < SUBSTANTIAL * sum(t.size for t in outside):
            return []
        least = SUBSTANTIAL * max(sizes.values(), default=0)
        return [pattern for pattern, size in sizes.items() if size >= least]


def _prefixes(name: str) -> list[str]:
    """ "a/b/c" -> ["a", "a/b"]."""
    return [name[: slash.start()] for slash in re.finditer("/", name)]


def moments_among(names: Iterable[str]) -> dict[str, Target]:
    """The moments of optimizers that keep nothing but PARAMETER_STATE of a parameter, with their
    targets.

    Other optimizers may use these names for something else, so their tensors stay exact.
    """
    below: dict[str, set[str]] = {}
    for name in names:
        above, path = "", name
        while path:
            key, _, path = path.partition("/")
            below.setdefault(above, set()).add(key)
            above = f"{above}/{key}" if above else key
    moments: dict[str, Target] = {}
    for above, keys in below.items():
        known = keys <= PARAMETER_STATE and _names_optimizer(above.split("/"))
        if known and not is_of_model(above):
            # Adafactor's is a mean of updates, which its second moments do not measure.
            own = {"exp_avg": OWN} if keys & ADAFACTOR else {}
            moments |= {f"{above}/{k}": (MEASURE_OF | own)[k] for k in keys & MEASURE_OF.keys()}
    return moments


def is_of_optimizer(name: str) -> bool:
    """Whether a tensor is an optimizer's, by a key above it or by its own name; below a model's key
    nothing is."""
    *keys, last = name.split("/")
    return not is_of_model(name) and (last in MOMENTS or _names_optimizer(keys))


def _names_optimizer(keys: Sequence[str]) -> bool:
    """Whether one of these keys is the key of an optimizer or of its state."""
    words = (word.lower() for key in keys for word in _WORD.findall(key))
    return any(key == "state" and after.isdigit() for key, after in pairwise(keys)) or any(
        word == "opt" or word.startswith("optim") for word in words
    )


def escaped(name: str) -> str:
    """A pattern that only this name matches."""
    return re.sub(r"([*?[])", r"[\1]", name)


def is_of_model(name: str) -> bool:
    """Whether a tensor's outermost key is one of MODELS."""
    return name.partition("/")[0] in MODELS


def _key(name: str) -> str:
    """The name of the tensor that a chunk of DCP belongs to; other names stay as they are."""
    return name.rpartition("@")[0] or name


def _moment_of(key: str) -> str:
    """Which moment a tensor is, "exp_avg": the last part of its name, in a tree or DCP."""
    return re.split("[/.]", key)[-1]


def describe_moments(tensors: Iterable[TensorSpec]) -> str:
    """A sentence that names an optimizer's lossy moments, and how to make them exact; "" without
    any."""
    lossy = [t for t in tensors if t.measure]
    if not lossy:
        return ""
    keys = sorted({_key(t.name) for t in lossy})
    moments = sorted({_moment_of(key) for key in keys})
    above = sorted({re.split("(?<=[/.])", key, maxsplit=1)[0] for key in keys})
    exact = ", ".join(f"{escaped(key) + '*'!r}: 'exact'" for key in above)
    n, nbytes = len(lossy), sum(t.track_nbytes for t in lossy)
    size = f"{nbytes / 1e6:,.1f} MB" if nbytes >= 1e6 else f"{nbytes:,} bytes"
    return (
        f"the optimizer's moments are lossy: {n} tensor{'' if n == 1 else 's'} "
        f"({', '.join(moments)}), {size} in float32. policy={{{exact}}} keeps them exact"
    )


def rules(texts: Iterable[str]) -> dict[str, str]:
    """A policy from texts of the form "PATTERN=MODE". Raises SettingsError."""
    patterns = {}
    for text in texts:
        pattern, equals, mode = text.rpartition("=")
        if not equals:
            raise SettingsError(
                f"a policy is PATTERN=MODE, with {', '.join(MODES)}, {POSSIBLE_TARGETS}, "
                f"with a ? at the end if the pattern may match nothing; got {text!r}"
            )
        for name in TARGETS:
            if pattern.endswith(f"={name}"):
                pattern, mode = pattern.removesuffix(f"={name}"), f"{name}={mode}"
        patterns[pattern] = mode
    return patterns


def describe_separators(pattern: str, names: Iterable[str]) -> str:
    """What to say of a pattern without a match if . and / are to blame; else "".

    Names of a chain have / between keys, and . within a key of a model's state_dict. Names of a
    distributed checkpoint have . everywhere.
    """
    dotted = pattern.replace("/", ".")
    for name in names:
        flat = name.replace("/", ".")
        if fnmatchcase(flat, dotted) or fnmatchcase(flat, f"{dotted}.*"):
            return f". It would match {name!r} if . and / were the same: write them as there"
    return ""


def _without_match(pattern: str, mode: Mode, names: Sequence[str]) -> str:
    """The message about a pattern that matches none of the names."""
    literal = re.sub(r"[*?]|\[|\]", "", pattern)
    nearest = get_close_matches(literal, names, MOST_NEAREST, cutoff=0.0)
    return (
        f"the policy's pattern {pattern!r} matches nothing in the first state; the nearest names "
        f"are {', '.join(map(repr, nearest))}{describe_separators(pattern, names)}. If the pattern "
        "may match nothing, say so with a mark: "
        f"{pattern!r}: {f'{mode}{OPTIONAL}'!r}"
    )
