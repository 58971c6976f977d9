"""Which lossy tensors belong together, and how much of them a delta keeps."""

from __future__ import annotations

from dataclasses import dataclass

# Measures of an optimizer's moments, see `scheme.measures`: the unit in which a step is given.
OCTAVES, ROOTS, SIZES = MEASURES = ("octaves", "roots", "sizes")


@dataclass(frozen=True)
class Target:
    """How much of a change a delta keeps.

    Attributes:
        name: "bits", "tolerance" or "distance", see `Coding`; or one of MEASURES.
        number: Bits, None for all buckets; else the tolerance, the distance or the step.
    """

    name: str
    number: float | None

    @classmethod
    def of(cls, text: str) -> Target | None:
        """The target in a text such as "bits=3" or "tolerance=1e-4"; None for other texts."""
        name, _, number = text.partition("=")
        try:
            if name in ("tolerance", "distance", *MEASURES):
                return cls(name, float(number))
            if name == "bits":
                return cls(name, None if number == "all" else int(number))
        except ValueError:
            pass
        return None

    def __str__(self) -> str:
        return f"{self.name}={'all' if self.number is None else repr(self.number)}"


@dataclass(frozen=True)
class Family:
    """Lossy tensors that are coded alike.

    Attributes:
        name: What they are, as "exp_avg"; "" for the model's, and where only a target is shared.
        target: Of their own; None for that of the record, or all buckets outside the model.
    """

    name: str = ""
    target: Target | None = None

    @classmethod
    def of(cls, text: str) -> Family:
        """The family with this text: "", "exp_avg", "distance=0.1" or "roots=0.5 exp_avg"."""
        head, _, name = text.partition(" ")
        family = cls(name, Target.of(head))
        return family if family.target and str(family) == text else cls(text)

    def __str__(self) -> str:
        """The text in a record's layout."""
        return " ".join(filter(None, (str(self.target or ""), self.name)))

    @property
    def is_model(self) -> bool:
        """Whether these are the model's tensors, which have the record's target."""
        return not self.name and not self.target

    @property
    def measure(self) -> str | None:
        """One of MEASURES for moments of an optimizer; None for all others."""
        target = self.target
        return target.name if self.name and target and target.name in MEASURES else None


MODEL = Family()

# Steps of an optimizer's moments: of a second one, of a first one, of one without a second.
SECOND, FIRST, OWN = Target(OCTAVES, 0.25), Target(ROOTS, 0.5), Target(SIZES, 0.125)
