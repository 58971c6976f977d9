"""States in other people's files: .safetensors and torch's .pt, read and written.

Nothing here unpickles: a .pt is read with weights_only=True. Not done here: chains (chain).
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from codec.errors import DTypeError, InputError, LccError, SettingsError, SourceError
from codec.storage.directory import publish

from .tensors import is_tensor, is_torch, layout_of
from .tree import leaves

TORCH = (".pt", ".pth", ".bin", ".ckpt")
SUFFIXES = (".safetensors", *TORCH)
HEAD = 65536  # bytes of a file that `check_torch_file` looks at
_ZIP, _TAR = b"PK\3\4", b"ustar"
_MAGIC = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")  # what torch.save began with before 1.6


def read_state(path: Path) -> Mapping[Any, Any]:
    """The state in a file; its suffix says of which kind. Tensors are on the CPU.

    Raises SettingsError for other suffixes, SourceError for files that cannot be read as what they
    are called, or hold no mapping.
    """
    kind_of(path)
    import torch
    from safetensors.torch import load_file

    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
        if not head:
            raise SourceError("the file is empty")
        if path.suffix == ".safetensors":
            return load_file(path)
        check_torch_file(head)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as exc:
        raise SourceError(f"{path}: is not there") from exc
    except IsADirectoryError as exc:
        raise SourceError(f"{path}: is a directory; name its files") from exc
    except SourceError as exc:
        raise SourceError(f"{path}: {exc}") from exc
    except Exception as exc:  # torch and pickle raise whatever a damaged file leads them to
        raise SourceError(f"{path}: cannot be read as weights only: {_reason(exc)}") from exc
    if not isinstance(found, Mapping):
        raise SourceError(f"{path}: holds a {type(found).__name__}; a state is a mapping")
    return found


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a file in errors about its state: first in those of the state itself, else in a note."""
    try:
        yield
    except InputError as exc:
        exc.args = (f"{path}: {exc}",)
        raise
    except LccError as exc:
        exc.add_note(f"the file is {path}")
        raise


def check_torch_file(head: bytes) -> None:
    """Whether a file that begins with these bytes, HEAD of them or all, can be one of torch.save.

    Raises SourceError if not; it does not name the file.
    """
    if head.startswith(_ZIP) or _MAGIC in head[:64] or head[257:].startswith(_TAR):
        return
    if _is_pickle(head):
        raise SourceError(
            "not a torch.save file: it is a plain pickle, which could run code; load it where you "
            "trust it, and save it again with torch.save"
        )
    raise SourceError("not a torch.save file, or a damaged one")


def _is_pickle(head: bytes) -> bool:
    """Nothing of it is unpickled."""
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return True
    try:  # protocols 0 and 1 have no mark
        return sum(1 for _ in pickletools.genops(head)) > 1
    except ValueError:
        return False


def write_state(path: Path, state: Mapping[Any, Any], kind: str) -> tuple[int, int]:
    """Write a state; returns how many tensors were written, and how many values left out.

    kind: "safetensors" holds tensors only, under the names of their places ("model/0.weight");
    "pt" holds all of it, numpy arrays as tensors. Raises DTypeError for what the format cannot
    hold, WriteError.
    """
    flat = all(is_tensor(value) for value in state.values())
    found = dict(state) if flat else dict(leaves(state))
    tensors = {name: value for name, value in found.items() if is_tensor(value)}
    if kind == "safetensors":
        data = to_safetensors(tensors)
        publish(path, lambda file: file.write(data), overwrite=True)
        return len(tensors), len(found) - len(tensors)
    import torch

    whole = _as_torch(state)
    publish(path, lambda file: torch.save(whole, file), overwrite=True)
    return len(tensors), 0


def to_safetensors(state: Mapping[str, Any]) -> bytes:
    """A flat state as the bytes of a plain .safetensors file.

    state: name -> numpy array or torch tensor, of one library. Raises DTypeError for names,
    dtypes or a mixture that the file format cannot hold.
    """
    if "__metadata__" in state:  # safetensors would write it, and not read it again
        raise DTypeError("a .safetensors file cannot hold a tensor named '__metadata__'")
    libraries = {t.library for t in layout_of(state).tensors}
    try:
        if "torch" in libraries:
            import torch
            from safetensors.torch import save as save_torch

            tensors = {
                k: v.clone() if is_torch(v) else torch.from_numpy(np.array(v))
                for k, v in state.items()
            }  # copies: that file format holds no tensor twice
            return bytes(save_torch(tensors))
        from safetensors.numpy import save

        return bytes(save({k: np.asarray(v) for k, v in state.items()}))
    except (ValueError, KeyError) as exc:
        raise DTypeError(f"a .safetensors file cannot hold this state: {exc}") from exc


def kind_of(path: Path) -> str:
    """What a file's suffix says it is, "safetensors" or "pt"; raises SettingsError for others."""
    if path.suffix not in SUFFIXES:
        raise SettingsError(f"{path}: must end with one of {', '.join(SUFFIXES)}")
    return "safetensors" if path.suffix == ".safetensors" else "pt"


def _reason(exc: Exception) -> str:
    """What is wrong, in one line; torch adds how to load it all the same, and where to complain."""
    found = re.search(r"WeightsUnpickler error:\s*(.+)", str(exc)) or re.search(r"\S.*", str(exc))
    return found[found.re.groups].strip() if found else type(exc).__name__


def _as_torch(value: Any) -> Any:
    """The same with numpy arrays as tensors, which alone weights_only reads again."""
    import torch

    if isinstance(value, np.float64):
        return float(value)
    if isinstance(value, np.ndarray | np.generic):
        try:
            return torch.from_numpy(np.array(value))
        except TypeError as exc:
            raise DTypeError(f"torch has no dtype {value.dtype}") from exc
    if isinstance(value, Mapping):
        return type(value)({key: _as_torch(own) for key, own in value.items()})  # type: ignore[call-arg]
    if isinstance(value, list | tuple):
        return type(value)(_as_torch(own) for own in value)
    return value
