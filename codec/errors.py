"""Every fault the codec can name, one class each.

LccError
|- InputError (also ValueError)      what the caller passed in
|  |- SettingsError                  bits, scope or coder outside their range
|  |  `- BudgetError                 a budget that holds nothing of what has changed
|  |- DTypeError                     a dtype this function does not take
|  |- NonFiniteError                 NaN or infinity where a number is needed
|  |- StateMismatchError             names, shapes or dtypes differ from the track's
|  |- ShardedError                   a model of which this process holds only a part
|  `- SourceError                    somebody else's file that cannot be read
|- PayloadError                      an encoded stream that cannot be decoded
|  |- CodeTableError                 the code lengths are no prefix code
|  `- StreamError                    the bits and the counts do not agree
|- RecordError                       one file of a chain; says which, expected, found
|  |- ForeignRecordError             not a record of ours at all
|  |- TruncatedRecordError           shorter or longer than its own header says
|  |- VersionError                   written by a newer format
|  |- DigestError                    the bytes are not the ones that were written
|  |- MalformedRecordError           intact, but against the format
|  `- TrackDigestError               decodes, but not to the state that was saved
`- ChainError                        the directory or archive as a whole
   |- ChainNotFoundError             nothing there, or no record in it
   |- ParentError                    a delta whose predecessor is missing
   |- StepNotFoundError              no record of that step
   |- VanishedError                  a record was merged or removed while it was to be read
   |- StepOrderError                 a step at or before the newest one
   |- ArchiveError                   a .lcc.zip that is no archive of records
   |- LockedError                    another process writes to it
   `- WriteError                     the disk refused; nothing was changed
"""

from __future__ import annotations

import os
import sys
import warnings


class LccError(Exception):
    """Base of every error the codec raises on purpose."""


class InputError(LccError, ValueError):
    """The caller passed something the codec cannot take."""


class SettingsError(InputError):
    """A setting (bits, scope, coder, step) is outside its range."""


class BudgetError(SettingsError):
    """A budget is too small to hold anything of lossy tensors that have changed."""


class DTypeError(InputError):
    """An array has a dtype that this function does not take."""


class NonFiniteError(InputError):
    """A value is NaN or infinite where a finite number is needed."""


class StateMismatchError(InputError):
    """Names, shapes or dtypes differ from those of the track."""


class ShardedError(InputError):
    """A model or its training is spread over processes, and this one holds only a part."""


class SourceError(InputError):
    """A file that is to be compressed cannot be read."""


class PayloadError(LccError):
    """An encoded stream cannot be decoded."""


class CodeTableError(PayloadError):
    """The code lengths do not describe a complete prefix code."""


class StreamError(PayloadError):
    """Bits, element count and code table do not agree."""


class RecordError(LccError):
    """One record of a chain is unusable.

    Attributes: ``where`` (file or member name), ``expected`` and ``found`` (sentences).
    """

    def __init__(self, where: str, expected: str, found: str) -> None:
        expected, found = (t if len(t) <= 500 else t[:500] + "…" for t in (expected, found))
        super().__init__(f"{where}: expected {expected}, found {found}")
        self.where, self.expected, self.found = where, expected, found

    def __reduce__(self) -> tuple[type[RecordError], tuple[str, str, str]]:
        """For another process, which makes it of its three parts again."""
        return type(self), (self.where, self.expected, self.found)


class ForeignRecordError(RecordError):
    """The file is not an LC-Checkpoint record."""


class TruncatedRecordError(RecordError):
    """The file's length is not the one its header announces."""


class VersionError(RecordError):
    """The record was written in a format this version does not read."""


class DigestError(RecordError):
    """The record's bytes are not those that were written."""


class MalformedRecordError(RecordError):
    """The record is intact but breaks a rule of the format."""


class TrackDigestError(RecordError):
    """The record decodes, but not to the state that was saved."""


class ChainError(LccError):
    """The chain as a whole cannot be used."""


class ChainNotFoundError(ChainError):
    """There is no chain at that path."""


class ParentError(ChainError):
    """A delta record's predecessor is missing from the chain."""


class StepNotFoundError(ChainError):
    """The chain holds no record of the step asked for."""


class VanishedError(ChainError):
    """A record went away between listing and reading: somebody merges or compacts."""


class StepOrderError(ChainError):
    """A step must be larger than the newest step of the chain."""


class ArchiveError(ChainError):
    """The archive is damaged or holds something other than records."""


class LockedError(ChainError):
    """Another process, or another object in this one, writes to the chain."""


class WriteError(ChainError):
    """Writing failed (disk full, no permission); nothing already saved was changed."""


class SkippedRecordWarning(UserWarning):
    """A newer record was damaged, so an older step was restored in its place."""


class RewoundWarning(UserWarning):
    """A training went back to an earlier step: the records after it were put aside."""


_PACKAGE = os.path.dirname(__file__) + os.sep


def warn(text: str, kind: type[Warning] = SkippedRecordWarning) -> None:
    """A warning that points to the nearest line outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)
