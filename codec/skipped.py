"""Says that a record was passed over or put aside, at the line that called this package.

Not done here: deciding which (chain, recorder, upkeep, rewinding).
"""

from __future__ import annotations

import os
import sys
import warnings

from .errors import SkippedRecordWarning

_PACKAGE = os.path.dirname(__file__) + os.sep


def warn(text: str, kind: type[Warning] = SkippedRecordWarning) -> None:
    """A warning that points to the nearest line outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)
