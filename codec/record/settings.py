"""The settings of a chain: how its deltas are coded, and which tensors are lossy.

A base holds them, so that a writer that resumes the chain goes on with them. Settings that a caller
gives take their place, but what is exact becomes lossy only if a pattern says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codec.caps import names_of, short
from codec.errors import MalformedRecordError, SettingsError
from codec.scheme.coding import KEYS, TARGETS, UNSET, Coding, check_targets
from codec.state.policy import EXACT, LOSSY, SKIP, Mode, Policy, escaped, moments_among
from codec.state.tensors import Layout
from codec.state.tree import leaf_names

from .header import coding_of_text, coding_text
from .record import Record

TARGET = ("bits", *TARGETS, "quantizer")  # one setting: who gives a part of it gives all
LONGEST = 200  # characters of a setting in a message


@dataclass(frozen=True)
class ChainSettings:
    """The settings of a chain, or of a writer."""

    coding: Coding
    policy: Policy

    @classmethod
    def default(cls, scope: str = "model") -> ChainSettings:
        """Those of a chain for which nothing was given."""
        return cls(Coding.safe(scope=scope), Policy())

    @classmethod
    def of_field(cls, field: Mapping[str, Any], where: str) -> ChainSettings:
        """From a record's field; the default where it says nothing. Raises MalformedRecordError."""
        coding = coding_of_text(field["coding"], where) if "coding" in field else Coding.safe()
        try:
            policy = Policy(field.get("policy"), field.get("modules"))
            check_targets(policy.targets)
        except SettingsError as exc:
            expected = "a policy that this version knows"
            raise MalformedRecordError(where, expected, short(exc)) from exc
        return cls(coding, policy)

    @property
    def field(self) -> dict[str, Any]:
        """As records hold them."""
        return {"coding": coding_text(self.coding), **self.policy.field}

    def differences(self, before: ChainSettings) -> str:
        """How they differ from earlier ones: "bits=3 instead of distance=0.3, …"; "" if equal."""
        pairs = zip(self._texts(), before._texts(), strict=True)
        return ", ".join(
            f"{new[:LONGEST]} instead of {old[:LONGEST]}" for new, old in pairs if new != old
        )

    def _texts(self) -> list[str]:
        """The settings as arguments."""
        coding = self.coding
        target = f"{coding.target}={getattr(coding, coding.target)!r}"
        if coding.budget is not None:
            target += f" and quantizer={coding.quantizer!r}"
        return [target, f"scope={coding.scope!r}", f"coder={coding.coder!r}", self.policy.text]


def settings_at(field: Mapping[str, Any], record: Record) -> dict[str, Any]:
    """The settings field of a base that replaces a record.

    field: That of the newest record that holds settings, up to this one.
    """
    return {**field, "coding": coding_text(record.coding)} if record.coding else dict(field)


@dataclass(frozen=True)
class Overrides:
    """The settings that a caller passes to a writer; they take the place of the chain's.

    The fields up to ``distance`` are those of `Coding`, the others those of `Policy`. A field that
    has its default was not passed. Modules are added to the chain's.

    Raises:
        SettingsError: A setting is out of range, or two of them contradict each other.
    """

    bits: int | None = UNSET
    scope: str | None = None
    coder: str | None = None
    budget: float | None = None
    tolerance: float | None = None
    quantizer: str | None = None
    distance: float | None = None
    policy: Mapping[str, str] | None = None
    modules: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        self.over(ChainSettings.default())
        if self.policy is not None:  # the caller's may change
            object.__setattr__(self, "policy", dict(self.policy))

    @property
    def passed(self) -> dict[str, Any]:
        """Name -> value of the settings that were passed."""
        return {k: v for k, v in vars(self).items() if v is not (UNSET if k == "bits" else None)}

    def over(self, chain: ChainSettings) -> ChainSettings:
        """The settings to go on with: those of the chain, except for those that were passed."""
        coding = {key: value for key, value in self.passed.items() if key in KEYS}
        kept = chain.coding.header()
        if not coding.keys().isdisjoint(TARGET):
            kept = {key: kept[key] for key in ("scope", "coder")}
        patterns = chain.policy.given if self.policy is None else self.policy
        policy = Policy(patterns, {**chain.policy.modules, **(self.modules or {})})
        check_targets(policy.targets)
        return ChainSettings(Coding.safe(**kept | coding), policy)


def check_exact(
    layout: Layout, settings: ChainSettings, chain: ChainSettings, where: object
) -> None:
    """Check that the exact tensors of a chain stay so, unless a pattern makes them lossy.

    Args:
        layout: Of the chain's newest step.
        settings: To go on with.
        chain: Of the chain.
        where: The chain, for messages.

    Raises:
        SettingsError: Some would become lossy.
    """
    policy = settings.policy
    names: list[list[str]] = [[] for _ in layout.tensors]
    for name, tag, number in leaf_names(layout.structure):
        if tag == "t":
            names[number].append(name)
    moments = moments_among(layout.numbers)
    lossy = {}
    for t, ties in zip(layout.tensors, names, strict=True):
        if not t.lossy and t.may_be_lossy and policy.mode_by_pattern(t.name) is None:
            lossy[t.name] = policy.mode(t.name, ties, moments)
    refuse_lossy(lossy, settings, chain, where)


def refuse_lossy(
    modes: Mapping[str, Mode], settings: ChainSettings, chain: ChainSettings | None, where: object
) -> None:
    """Raise SettingsError if exact tensors would become lossy.

    modes: of tensors of the chain that are exact and that no pattern names. The other arguments are
    those of `check_exact`.
    """
    lossy = {name: mode for name, mode in modes.items() if mode not in (EXACT, SKIP)}
    if not lossy:
        return
    above = (re.split("(?<=[/.])", name, maxsplit=1)[0] for name in lossy)
    patterns = [f"{escaped(name)}*" for name in dict.fromkeys(above)]
    had = chain.policy.text[:LONGEST] if chain and chain.policy.given else "no policy is recorded"
    raise SettingsError(
        f"{where}: {names_of(lossy)}: exact in this chain ({had}), and with "
        f"{settings.policy.text[:LONGEST]} lossy by default. To make them lossy, add to the policy "
        f"{short(dict.fromkeys(patterns, LOSSY))}; to keep them exact, add "
        f"{short(dict.fromkeys(patterns, EXACT))}"
    )
