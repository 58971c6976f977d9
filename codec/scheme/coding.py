"""How deltas are coded: the settings that encoder, record and decoder share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from codec.errors import SettingsError
from codec.state.family import MEASURES, Family, Target

from .budget import check_budget
from .coders import RUNLENGTH, coder_of
from .distance import check_distance
from .measures import check_step
from .quantize import check_bits
from .uniform import check_tolerance

SCOPES = ("model", "tensor")
EXPONENT, UNIFORM = QUANTIZERS = ("exponent", "uniform")
KEYS = ("bits", "budget", "tolerance", "distance", "quantizer", "scope", "coder")  # of a header
TARGETS = ("budget", "tolerance", "distance")  # instead of bits
DEFAULT_DISTANCE = 0.3  # of saves without a target: see docs/explanation/results.md


class Unset:
    """The type of UNSET."""

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        return "UNSET"  # one object in every process


UNSET: Any = Unset()  # the caller passed no bits; None would keep all buckets


@dataclass(frozen=True)
class Coding:
    """The settings of a delta.

    Bits, a budget, a tolerance or a distance decide what is kept: pass one of them.

    Attributes:
        bits: Bits of priority promotion, 1 to 8: the largest 2**bits - 1 buckets are kept. None
            keeps all of them, and with another target it is always None. The default is the
            paper's 2, for saves at every iteration.
        scope: "model": one alphabet over all parameters (the paper). "tensor": one per tensor.
        coder: One of `coders.CODERS`: "runlength", "huffman" (the paper's) or "context".
        budget: The share of the lossy tensors' float32 bytes that a delta may take, above 0 and at
            most 1.
        tolerance: The largest difference between a value of the track and the live one; above 0.
            A delta takes the bytes that it needs.
        quantizer: "exponent" for buckets of powers of two (the paper), "uniform" for steps of one
            size. None: exponent with bits, else uniform.
        distance: The share of a change that a delta may leave for the next one, above 0 and below
            1: ||u - track after|| <= distance * ||u - track before||, over each alphabet. A delta
            takes the bytes that it needs.

    Raises:
        SettingsError: A setting is out of range, or two of them contradict each other.
    """

    bits: int | None = UNSET
    scope: str = "model"
    coder: str = RUNLENGTH.name
    budget: float | None = None
    tolerance: float | None = None
    quantizer: str | None = None
    distance: float | None = None

    def __post_init__(self) -> None:
        coder_of(self.coder)
        if self.scope not in SCOPES:
            raise SettingsError(f"scope must be one of {', '.join(SCOPES)}; got {self.scope!r}")
        values: dict[str, Any] = {
            "budget": None if self.budget is None else check_budget(self.budget),
            "tolerance": None if self.tolerance is None else check_tolerance(self.tolerance),
            "distance": None if self.distance is None else check_distance(self.distance),
            "bits": self._checked_bits(),
        }
        values["quantizer"] = self._checked_quantizer()
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _checked_bits(self) -> int | None:
        targets = [name for name in TARGETS if getattr(self, name) is not None]
        has_bits = self.bits is not UNSET and self.bits is not None
        if len(targets) + has_bits > 1:
            passed = " and ".join(["bits"] * has_bits + targets)
            raise SettingsError(f"pass bits, a budget, a tolerance or a distance; got {passed}")
        if targets:
            return None
        return check_bits(2 if self.bits is UNSET else self.bits)

    def _checked_quantizer(self) -> str:
        quantizer = self.quantizer or (EXPONENT if self.by_bits else UNIFORM)
        if quantizer not in QUANTIZERS:
            names = ", ".join(QUANTIZERS)
            raise SettingsError(f"quantizer must be one of {names}; got {self.quantizer!r}")
        if self.by_bits and quantizer == UNIFORM:
            raise SettingsError("uniform steps need a budget, a tolerance or a distance, not bits")
        if self.budget is None and not self.by_bits and quantizer == EXPONENT:
            raise SettingsError(
                f"a {self.target} needs uniform steps: a bucket's error grows with it"
            )
        return quantizer

    @classmethod
    def safe(cls, **settings: Any) -> Coding:
        """The settings for saving a training: DEFAULT_DISTANCE if no target is passed.

        Restarts are then good however far apart the saves are. Raises SettingsError.
        """
        has_target = not settings.keys().isdisjoint(("bits", *TARGETS))
        if not has_target and settings.get("quantizer") != EXPONENT:
            settings["distance"] = DEFAULT_DISTANCE
        return cls(**settings)

    def header(self) -> dict[str, Any]:
        """The settings as a record's header stores them."""
        return {key: getattr(self, key) for key in KEYS}

    @property
    def uniform(self) -> bool:
        """Whether the model's tensors are quantized in steps of one size."""
        return self.quantizer == UNIFORM

    @property
    def target(self) -> str:
        """What decides how much is kept: "bits", "budget", "tolerance" or "distance"."""
        return next((name for name in TARGETS if getattr(self, name) is not None), "bits")

    @property
    def by_bits(self) -> bool:
        """Whether bits decide what is kept, and no other target does."""
        return self.target == "bits"

    def closer_distance(self, left: float) -> float:
        """The distance to advise if restarts are too far behind.

        It is DEFAULT_DISTANCE if deltas leave more than that. Otherwise the weights oscillate, and
        a smaller distance helps: half of the distance that is set, or half of ``left`` if another
        target is set.

        left: The share of its change that a delta leaves, see `Saved.distance`.
        """
        if left > DEFAULT_DISTANCE:
            return DEFAULT_DISTANCE
        return (self.distance or left) / 2

    def keeping(self, **target: Any) -> Coding:
        """The same scope and coder with another target; without one all buckets are kept.

        Raises SettingsError.
        """
        return Coding(**{"bits": None, "scope": self.scope, "coder": self.coder, **target})

    def of(self, family: Family) -> Coding:
        """The settings of a family of tensors, see `codec.state.policy`.

        Without a target of its own it has the record's; a budget is for the model only, others then
        have the default distance. Of a family of moments only scope and coder count: its steps are
        those of its target.
        """
        if family.target and not family.measure:
            return self.keeping(**{family.target.name: family.target.number})
        if self.budget is not None and not (family.is_model or family.measure):
            return self.keeping(distance=DEFAULT_DISTANCE)
        return self

    def describe(self) -> str:
        """In words: "2 bits, buckets over the whole model, run-length"."""
        levels = "steps" if self.uniform else "buckets"
        if self.tolerance is not None:
            target = f"a tolerance of {self.tolerance:g},"
        elif self.distance is not None:
            target = f"a distance of {self.distance:g},"
        elif self.budget is not None:
            target = f"a budget of {100 * self.budget:.3g} % of float32,"
        elif self.bits is None:
            target = "all"
        else:
            target = f"{self.bits} bit{'s' if self.bits > 1 else ''},"
        alphabets = "the whole model" if self.scope == "model" else "each tensor"
        return f"{target} {levels} over {alphabets}, {coder_of(self.coder).short}"


def check_targets(targets: Iterable[Target]) -> None:
    """Raise SettingsError if a target of a policy is out of range."""
    for target in targets:
        if target.name in MEASURES:
            check_step(target.number or 0.0)
        else:
            Coding().of(Family(target=target))
