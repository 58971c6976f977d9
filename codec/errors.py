"""Every error of the codec, one class each.

A message says where it happened, what was expected, what was found, and what to do.

LccError
|- InputError (also ValueError)      the caller passed something wrong
|  |- SettingsError                  a setting (bits, scope, coder, step) is out of range
|  |  `- BudgetError                 the budget is too small for any change
|  |- DTypeError                     an array has a dtype that this function does not take
|  |- NonFiniteError                 a value is NaN or infinite where a number is needed
|  |- StateMismatchError             names, shapes or dtypes differ from the track's
|  |- OptimizerMismatchError         the chain's gradients belong to another optimizer
|  |- ShardedError                   this process holds only a part of the model
|  `- SourceError                    a file to compress cannot be read
|- PayloadError                      an encoded stream cannot be decoded
|  |- CodeTableError                 the code lengths form no complete prefix code
|  `- StreamError                    bits, element count and code table do not agree
|- RecordError                       one record is unusable: where, expected, found
|  |- ForeignRecordError             the file is no record of this format
|  |- TruncatedRecordError           the length differs from what the header says
|  |- VersionError                   a newer format
|  |- DigestError                    the bytes have changed since they were written
|  |- MalformedRecordError           intact, but against the format
|  `- TrackDigestError               decodes to another state than the saved one
`- ChainError                        the chain as a whole is unusable
   |- ChainNotFoundError             there is no chain at this place
   |- ParentError                    the record before a delta is missing
   |- StepNotFoundError              there is no record of this step
   |- VanishedError                  a record was removed before it could be read
   |- StepOrderError                 the step is not after the newest one
   |- ArchiveError                   the .lcc.zip is damaged or holds other files
   |- RerunNeededError               a record holds gradients, not the state
   |- RerunError                     the optimizer's steps, run again, lead to another state
   |- LockedError                    another writer has the chain
   `- WriteError                     the disk or store refused; saved records are unchanged
"""

from __future__ import annotations

import os
import sys
import warnings


class LccError(Exception):
    """Base of every error that the codec raises on purpose."""


class InputError(LccError, ValueError):
    """The caller passed something that the codec cannot take."""


class SettingsError(InputError):
    """A setting (bits, scope, coder, step) is out of range."""


class BudgetError(SettingsError):
    """The budget is too small for any change of the lossy tensors.

    Attribute: ``budget``, the budget that the message advises; None if it advises none.
    """

    def __init__(self, message: str, budget: float | None = None) -> None:
        super().__init__(message)
        self.budget = budget


class DTypeError(InputError):
    """An array has a dtype that this function does not take."""


class NonFiniteError(InputError):
    """A value is NaN or infinite where a finite number is needed."""


class StateMismatchError(InputError):
    """Names, shapes or dtypes differ from those of the track."""


class OptimizerMismatchError(InputError):
    """The chain's gradients belong to another optimizer or to other parameters."""


class ShardedError(InputError):
    """A model or its training is spread over processes, and this process holds only a part."""


class SourceError(InputError):
    """A file to compress cannot be read."""


class PayloadError(LccError):
    """An encoded stream cannot be decoded."""


class CodeTableError(PayloadError):
    """The code lengths form no complete prefix code."""


class StreamError(PayloadError):
    """Bits, element count and code table do not agree."""


class RecordError(LccError):
    """One record of a chain is unusable.

    Attributes: ``where`` (name of the file or member), ``expected`` and ``found``.
    """

    def __init__(self, where: str, expected: str, found: str) -> None:
        expected, found = (t if len(t) <= 500 else t[:500] + "…" for t in (expected, found))
        super().__init__(f"{where}: expected {expected}, found {found}")
        self.where, self.expected, self.found = where, expected, found

    def __reduce__(self) -> tuple[type[RecordError], tuple[str, str, str], dict[str, object]]:
        """For pickle: another process gets the three parts, and the notes."""
        return type(self), (self.where, self.expected, self.found), vars(self)


class ForeignRecordError(RecordError):
    """The file is no LC-Checkpoint record."""


class TruncatedRecordError(RecordError):
    """The file's length differs from what its header says."""


class VersionError(RecordError):
    """The record has another version of the format than the one that is read."""


class DigestError(RecordError):
    """The record's bytes have changed since they were written."""


class MalformedRecordError(RecordError):
    """The record is intact but breaks a rule of the format."""


class TrackDigestError(RecordError):
    """The record decodes, but to another state than the saved one."""


class ChainError(LccError):
    """The chain as a whole is unusable."""


class ChainNotFoundError(ChainError):
    """There is no chain at this place."""


class ParentError(ChainError):
    """The record before a delta is missing from the chain."""


class StepNotFoundError(ChainError):
    """The chain has no record of this step."""


class VanishedError(ChainError):
    """A record was removed by another process before it could be read."""


class StepOrderError(ChainError):
    """A step must come after the newest step of the chain."""


class ArchiveError(ChainError):
    """The archive is damaged or holds something other than records."""


class RerunNeededError(ChainError):
    """The record holds gradients: only the optimizer's steps lead to its state."""


class RerunError(ChainError):
    """An optimizer's steps, run again, lead to other bits than the saved ones."""


class LockedError(ChainError):
    """Another process, or another object in this one, writes to the chain."""


class WriteError(ChainError):
    """Writing failed (disk full, no permission). The records that were there are unchanged."""


class SkippedRecordWarning(UserWarning):
    """A newer record was damaged, so an older step was restored instead."""


class RewoundWarning(UserWarning):
    """A training went back to an earlier step; the records after it were set aside."""


class RerunWarning(UserWarning):
    """A state was restored whose bits differ from the saved ones: see `RerunError`."""


_PACKAGE = os.path.dirname(__file__) + os.sep


def warn(text: str, kind: type[Warning] = SkippedRecordWarning) -> None:
    """Warn, pointing to the nearest line outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)
