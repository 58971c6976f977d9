"""Numbers and units as text, and text from visitors' files."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from codec import Coding
from codec.inspect import CODERS, MOST_BEHIND

CODER_NAMES = {name: coder.title for name, coder in CODERS.items()}
# What one step of an optimizer's moments is a share of, by measure; "s" where it is more than 1.
_UNITS = {"octaves": "octave{s}", "roots": "root{s} of v", "sizes": "{of} its size"}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LINK_MARK = re.compile("www(?=[.])|:(?=//|material/)|@", re.IGNORECASE)
_LIST_MARK = re.compile("^([0-9]*)([-+.)])(?= |$)")


UNITS = {"GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}


def nbytes_text(n: float) -> str:
    """1234567 -> '1.23 MB'. Decimal units: 1 kB is 1,000 bytes."""
    for unit, size in UNITS.items():
        if size > 1 and n >= 0.9995 * size:
            digits = max(0, 2 - math.floor(math.log10(max(1, n / size * 1.0005))))
            return f"{n / size:,.{digits}f} {unit}"
    return f"{n:.0f} B"


def coder_facts() -> list[dict[str, str]]:
    """The names of each coder, and what it does."""
    return [
        {"name": name, "short": coder.short, "title": coder.title, "summary": coder.summary}
        for name, coder in CODERS.items()
    ]


def kept_name(setting: int | Coding | None) -> str:
    """How much of a change is kept, for an axis: "2" bits, "all", "5 %", "±0.0001" or "0.3 δ".

    setting: bits x, None for all buckets, or a coding.
    """
    if isinstance(setting, Coding):
        if setting.distance is not None:
            return f"{setting.distance:g} δ"
        if setting.tolerance is not None:
            return f"±{setting.tolerance:g}"
        if setting.budget is not None:
            return f"{100 * setting.budget:g} %"
        setting = setting.bits
    return "all" if setting is None else str(setting)


def kept_number(coding: Coding) -> str:
    """The number of `kept_name`, without sign and unit."""
    return kept_name(coding).strip("±%δ ")


def kept_text(coding: Coding) -> str:
    """How much of a change is kept: "2 bits", "all buckets", "budget 5 %", "budget 5 % in buckets",
    "tolerance 0.0001" or "distance 30 %"."""
    if coding.tolerance is not None:
        return f"tolerance {kept_number(coding)}"
    if (share := coding.budget or coding.distance) is not None:
        buckets = " in buckets" if coding.budget and not coding.uniform else ""
        return f"{coding.target} {100 * share:g} %{buckets}"
    return "all buckets" if coding.bits is None else plural(coding.bits, "bit")


def step_text(target: str) -> str:
    """How an optimizer's moment is stored: "octaves=0.25" -> 'steps of 1/4 octave'."""
    measure, _, number = target.partition("=")
    step = Fraction(number)
    size = str(step) if step.numerator == 1 else f"{float(step):g}"
    unit = _UNITS[measure].format(s="s" * (step > 1), of="of" if step < 1 else "times")
    return f"steps of {size} {unit}"


def level_text(level: float, measure: str | None) -> str:
    """What a code stands for: '0', '+0.79', or of an optimizer's moment '−1.25 octaves'."""
    if not level:
        return "0"
    return minus(f"{level:+.5g}") + (f" {measure}" if measure else "")


def loss_text(loss: float, digits: int = 6) -> str:
    """A loss with this number of decimals, or "not finite"."""
    if not math.isfinite(loss):
        return "not finite"
    return f"{loss:.{digits}f}" if abs(loss) < 1e4 else f"{loss:.3g}"


def percent_text(share: float) -> str:
    """0.0343 -> '3.43 %'; tiny shares are '< 0.01 %', and others may be 'not finite'."""
    if not math.isfinite(share):
        return "not finite"
    value = 100 * share
    if 0 < value < 0.01:
        return "< 0.01 %"
    return f"{value:.2f} %" if value < 99.95 else f"{value:.0f} %"


def behind_text(behind: float) -> str:
    """How far a restart is behind, as `percent_text`; a record does not tell 10 times from more."""
    return "1,000 % or more" if behind >= MOST_BEHIND else percent_text(behind)


def exponent_text(exponent: int, sign: int | None = None) -> str:
    """-7 -> '2⁻⁷'. sign: 0 puts a plus in front, 1 a minus."""
    power = "2" + str(exponent).translate(_RAISED) if exponent != -127 else "subnormal"
    return power if sign is None else f"{'−' if sign else '+'}{power}"


def plural(n: int, noun: str) -> str:
    """1, "level" -> '1 level'; 3, "level" -> '3 levels'."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def interval_text(n: int) -> str:
    """1 -> 'every iteration'; 5 -> 'every 5 iterations'."""
    return "every iteration" if n == 1 else f"every {n} iterations"


def enumerated(names: Sequence[str]) -> str:
    """["a", "b", "c"] -> 'a, b and c'."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def minus(number: object) -> str:
    """A number's text with a true minus sign."""
    return str(number).replace("-", "−")


def plain(text: str) -> str:
    """Text from a visitor's file as one line of Markdown, without links, pictures, icons or lists.

    Characters that cannot be printed, such as those that turn the text direction, are replaced.
    """
    text = " ".join(text.split())
    printable = "".join(c if c.isprintable() else "\ufffd" for c in text)
    # Streamlit finds links and icons after it has removed escapes: an invisible joiner breaks them.
    broken = _LINK_MARK.sub(lambda match: f"{match[0]}\u2060", printable)
    escaped = "".join(f"\\{c}" if c in "\\`[]!*_$:~<>#|&" else c for c in broken)
    return _LIST_MARK.sub(r"\1\\\2", escaped)
