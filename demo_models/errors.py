"""The errors of this package, one class for each fault.

    DataError                     all of them
    |-- FolderNotGivenError       the data need a folder and none is named
    |-- FolderMissingError        the folder named does not exist
    |-- FilesMissingError         the folder exists, the data's files are not in it
    |-- FileUnreadableError       the operating system refuses to read a file
    |-- FileTooLargeError         a sound file, but too big to train on
    |-- MalformedFileError        a file does not follow its format
    |-- WrongDatasetError         the files are those of another dataset with the same file names
    `-- ArgumentError             an argument is wrong, whatever the files hold
        |-- UnknownNameError          no model, dataset or optimizer has that name
        |-- IncompatibleDataError     this model cannot take these data
        |-- BatchError                batch size or iteration number out of range
        |-- NumberError               seed, learning rate or momentum out of range
        `-- TensorMismatchError        a state does not have the model's tensors

Every message is a sentence or two that people can read as it is, and says what to do.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path


class DataError(Exception):
    """Root of the tree above: catch it to catch all."""


class FolderNotGivenError(DataError):
    """Neither `folder` nor the environment names the folder of the data's files."""

    def __init__(self, data: str, variable: str) -> None:
        super().__init__(
            f"The data '{data}' are read from files, and no folder was named. "
            f"Give a folder, or set the environment variable {variable} to one."
        )


class FolderMissingError(DataError):
    """The folder named does not exist, or is not a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"There is no folder {folder}. Check the path, or name another folder.")


class FilesMissingError(DataError):
    """The folder exists, but the files of that dataset are not in it."""

    def __init__(self, title: str, folder: Path, names: Sequence[str]) -> None:
        self.folder = folder
        self.names = tuple(names)
        super().__init__(
            f"{title} cannot be loaded: {folder} lacks {', '.join(names)}. "
            "Put the data files there, or name another folder."
        )


class FileUnreadableError(DataError):
    """Opening or reading a file failed in the operating system (rights, a bad disk, ...)."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path} cannot be read ({reason}). Check that you may read this file.")


class FileTooLargeError(DataError):
    """The file holds more ratings than can be trained on interactively."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        super().__init__(
            f"{path} holds more than {limit:,} ratings, too many to train on live. "
            "Use a smaller edition of these data."
        )


class MalformedFileError(DataError):
    """A file breaks its format: `path` says which, `expected` and `found` say how."""

    def __init__(self, path: Path, expected: str, found: str) -> None:
        self.path, self.expected, self.found = path, expected, found
        super().__init__(
            f"{path} is malformed: expected {expected}, found {found}. "
            "Fetch the file again, or name another folder."
        )


class WrongDatasetError(DataError):
    """The files are those of the other dataset: MNIST and Fashion-MNIST share their file names."""

    def __init__(self, folder: Path, expected: str, actual: str) -> None:
        self.folder = folder
        super().__init__(
            f"The files in {folder} are those of {actual}, not of {expected}. "
            f"Choose {actual}, or name the folder that holds {expected}."
        )


class ArgumentError(DataError):
    """An argument is wrong, whatever the files hold."""


class UnknownNameError(ArgumentError):
    """No model, dataset or optimizer has that name."""

    def __init__(self, kind: str, name: str, names: Iterable[str]) -> None:
        super().__init__(f"There is no {kind} named '{name}'. Choose one of: {', '.join(names)}.")


class IncompatibleDataError(ArgumentError):
    """The model cannot take these data: an image model given ratings, or the reverse."""

    def __init__(self, model: str, data: str, possible: Iterable[str]) -> None:
        super().__init__(
            f"The model '{model}' cannot be trained on '{data}'. "
            f"Choose one of: {', '.join(possible)}."
        )


class BatchError(ArgumentError):
    """A batch size or iteration number is out of range."""


class NumberError(ArgumentError):
    """A seed, learning rate or momentum is out of range."""


class TensorMismatchError(ArgumentError):
    """A state to be measured has other names or shapes than the model."""

    def __init__(self, difference: str) -> None:
        super().__init__(
            f"This state does not fit the model: {difference}. "
            "Use a state of the same model on the same data."
        )
