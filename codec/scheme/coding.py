"""How deltas are coded: the four settings that encoder, record and decoder share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codec.errors import SettingsError

from .budget import check_budget
from .coders import RUNLENGTH, coder_of
from .quantize import check_bits

SCOPES = ("model", "tensor")
KEYS = ("bits", "budget", "scope", "coder")  # in the order of a record's header


@dataclass(frozen=True)
class Coding:
    """The settings of a delta.

    Attributes:
        bits: Bits of priority promotion, 1 to 8: the largest 2**bits - 1 buckets are kept. None
            keeps all of them, and with a budget it is always None.
        scope: "model": one alphabet over all parameters (the paper). "tensor": one per tensor.
        coder: "runlength", or "huffman" for the paper's; see `coders.CODERS`.
        budget: Instead of bits, the share of the lossy tensors' float32 bytes that a delta may
            take, above 0 and at most 1; None for no limit.

    Raises:
        SettingsError: A setting is out of range.
    """

    bits: int | None = 2
    scope: str = "model"
    coder: str = RUNLENGTH.name
    budget: float | None = None

    def __post_init__(self) -> None:
        coder_of(self.coder)
        if self.scope not in SCOPES:
            raise SettingsError(f"scope must be one of {', '.join(SCOPES)}; got {self.scope!r}")
        bits = check_bits(self.bits)
        budget = None if self.budget is None else check_budget(self.budget)
        object.__setattr__(self, "bits", bits if budget is None else None)
        object.__setattr__(self, "budget", budget)

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Coding:
        """What the header of a record says. Raises KeyError, SettingsError."""
        return cls(**{key: header[key] for key in KEYS})

    def header(self) -> dict[str, Any]:
        """As the header of a record says it."""
        return {key: getattr(self, key) for key in KEYS}

    def describe(self) -> str:
        """In words: "2 bits, buckets over the whole model, run-length"."""
        if self.budget is not None:
            keeps = f"a budget of {100 * self.budget:.3g} % of float32,"
        elif self.bits is None:
            keeps = "all"
        else:
            keeps = f"{self.bits} bit{'s' if self.bits > 1 else ''},"
        over = "the whole model" if self.scope == "model" else "each tensor"
        return f"{keeps} buckets over {over}, {coder_of(self.coder).short}"
