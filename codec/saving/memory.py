"""Memory that a training and the process that saves for it share.

It has no name, so nothing is left behind whichever process is killed. Its descriptor is handed
over.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import IO

import numpy as np

from codec.errors import WriteError
from codec.state.tensors import Arrays, Layout, to_arrays
from codec.state.tree import Parts

ALIGNMENT = 64  # bytes, of each array


class Memory:
    """Arrays of a layout in shared memory.

    Args:
        layout: Names, dtypes and shapes.
        descriptor: Of memory that the other process has made and fills; None makes new memory.

    Raises:
        WriteError: The memory cannot be allocated.
    """

    def __init__(self, layout: Layout, descriptor: int | None = None) -> None:
        sizes = [-(-t.track_nbytes // ALIGNMENT) * ALIGNMENT for t in layout.tensors]
        ends = np.cumsum([0, *sizes])
        self.layout = layout
        self._file, block = _mapped(max(int(ends[-1]), 1), descriptor)
        self.arrays: Arrays = {
            t.name: np.ndarray(t.track_shape, t.track_dtype, block, int(begin))
            for t, begin in zip(layout.tensors, ends)
        }

    @property
    def descriptor(self) -> int:
        """The file descriptor for the other process."""
        return self._file.fileno()

    def fill(self, parts: Parts) -> None:
        """Copy the layout's tensors."""
        for name, array in to_arrays(parts.tensors, self.layout).items():
            np.copyto(self.arrays[name], array)

    def close(self) -> None:
        """Close it; the memory is freed once no process and no array uses it."""
        self._file.close()
        self.arrays = {}


def _mapped(nbytes: int, descriptor: int | None) -> tuple[IO[bytes], mmap.mmap]:
    """Shared memory, allocated at once: else a signal could end a process that writes to it."""
    try:
        if descriptor is not None:
            file: IO[bytes] = os.fdopen(descriptor, "r+b", buffering=0)
        elif hasattr(os, "memfd_create"):
            file = os.fdopen(os.memfd_create("lcc"), "r+b", buffering=0)
        else:
            file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        try:
            if descriptor is None and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, nbytes)
            elif descriptor is None:
                os.ftruncate(file.fileno(), nbytes)
            return file, mmap.mmap(file.fileno(), nbytes)
        except BaseException:
            file.close()
            raise
    except OSError as exc:
        raise WriteError(f"no shared memory of {nbytes:,} bytes: {exc}") from exc
