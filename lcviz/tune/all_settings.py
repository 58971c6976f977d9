"""One delta of a run with every number of bits, scope and coder.

All begin at the track that the run itself had before, without older code tables.
"""

from __future__ import annotations

from itertools import product

from codec import Coding
from codec.inspect import CODERS, SCOPES, Arrays, Layout
from lcviz.lab.anatomy import EVERY_BITS

from .ab import RunState, TrialChain, TrialSave


def all_choices() -> tuple[Coding, ...]:
    """All bits, scopes and coders."""
    return tuple(
        Coding(bits, scope, coder) for scope, coder, bits in product(SCOPES, CODERS, EVERY_BITS)
    )


def try_all(layout: Layout, before: Arrays, state: RunState) -> dict[Coding, TrialSave]:
    """The delta from a track to a state, with every choice. Raises codec.LccError."""
    return {v: TrialChain(v, layout, before).save(state) for v in all_choices()}
