"""What a visitor's checkpoints are, found out before anything is tried out on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from safetensors import safe_open

from codec.inspect import Front, Policy, read_state
from lcviz.lab.series import OwnSeries
from lcviz.text import nbytes_text, plural

MOST_OPENED = 40  # files whose tensors are compared
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class OwnFiles:
    """What was found.

    chain: whether it is one. steps: of the checkpoints, rising. nbytes: of all files. odd: names of
    tensors that some file has in another shape than the first one, or not at all.
    """

    chain: bool
    steps: tuple[int, ...]
    nbytes: int
    odd: tuple[str, ...]

    @property
    def every(self) -> int | None:
        """From one step to the next; None where that changes."""
        apart = {later - step for step, later in pairwise(self.steps)}
        return apart.pop() if len(apart) == 1 else None

    def describe(self) -> str:
        """As "60 files, steps 5–300 every 5, 14.8 MB, 3 tensors of odd shape"."""
        what = f"A chain of {plural(len(self.steps), 'step')}" if self.chain else None
        parts = [
            what or plural(len(self.steps), "file"),
            f"steps {self.steps[0]:,}–{self.steps[-1]:,} "
            + ("unevenly spaced" if self.every is None else f"every {self.every:,}"),
            nbytes_text(self.nbytes),
        ]
        if self.odd:
            parts.append(f"{plural(len(self.odd), 'tensor')} of odd shape")
        return ", ".join(parts)


def look_into(path: Path) -> OwnFiles:
    """What is there. Raises codec.SettingsError, SourceError, ChainError, OSError."""
    series = OwnSeries([path])
    files = series.files
    nbytes = sum(file.stat().st_size for file in files)
    odd = () if series.is_chain else _odd(files)
    return OwnFiles(series.is_chain, series.steps, nbytes, odd)


def _odd(files: Sequence[Path]) -> tuple[str, ...]:
    stride = -(-len(files) // MOST_OPENED)
    first, *others = (_shapes(file) for file in dict.fromkeys([*files[::stride], files[-1]]))
    return tuple(dict.fromkeys(name for other in others for name in _differing(first, other)))


def _differing(first: Shapes, other: Shapes) -> Iterator[str]:
    return (name for name in first | other if first.get(name) != other.get(name))


def _shapes(path: Path) -> Shapes:
    """Of the tensors of a file. Raises SourceError."""
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, "np") as file:
                names = file.keys()
                return {name: tuple(file.get_slice(name).get_shape()) for name in names}
        except Exception:  # a damaged file: reading it says so in words
            read_state(path)
            raise
    _, layout = Front(Policy()).look_at(read_state(path))
    return {tensor.name: tensor.shape for tensor in layout.tensors}
