"""States in .safetensors and .pt files. A .pt is read with weights_only=True: no code can run."""

from __future__ import annotations

import pickletools
import re
import zipfile
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
HEAD = 65536  # bytes that `check_torch_file` needs
DAMAGED = (
    "the file is truncated or damaged: copy it again from where it was saved, or use another one"
)
# Words with which torch and safetensors report a file that ends too early.
_CUT_OFF = re.compile("unexpected EOF|failed reading zip|header too small|header length|incomplete")
_ZIP, _TAR = b"PK\3\4", b"ustar"
_MAGIC = (0x1950A86A20F9469CFC6C).to_bytes(10, "little")  # how files of torch before 1.6 begin


def read_state(path: Path) -> Mapping[Any, Any]:
    """Read the state in a file with one of SUFFIXES; its tensors are on the CPU.

    Raises SettingsError for other suffixes, SourceError for a file that cannot be read or does not
    hold a mapping.
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
        if head.startswith(_ZIP):
            zipfile.ZipFile(path).close()
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as exc:
        raise SourceError(f"{path}: not found") from exc
    except IsADirectoryError as exc:
        raise SourceError(f"{path}: is a directory; name its files") from exc
    except SourceError as exc:
        raise SourceError(f"{path}: {exc}") from exc
    except Exception as exc:  # torch and pickle raise anything for a damaged file
        raise SourceError(f"{path}: {_problem(exc)}") from exc
    if not isinstance(state, Mapping):
        raise SourceError(f"{path}: holds a {type(state).__name__}; a state is a mapping")
    return state


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name a file in the errors of its state: at the start of an InputError, else in a note."""
    try:
        yield
    except InputError as exc:
        exc.args = (f"{path}: {exc}",)
        raise
    except LccError as exc:
        exc.add_note(f"the file is {path}")
        raise


def check_torch_file(head: bytes) -> None:
    """Raise SourceError unless torch.save can have written a file with these first HEAD bytes.

    The error does not name the file.
    """
    if head.startswith(_ZIP) or _MAGIC in head[:64] or head[257:].startswith(_TAR):
        return
    if _is_pickle(head):
        raise SourceError(
            "not a torch.save file: it is a plain pickle, which could run code; load it where you "
            "trust it, and save it again with torch.save"
        )
    raise SourceError("not a torch.save file, or a damaged one: take another file")


def _is_pickle(head: bytes) -> bool:
    """Whether a pickle begins like this; nothing is unpickled."""
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return True
    try:  # protocols 0 and 1 have no mark
        return sum(1 for _ in pickletools.genops(head)) > 1
    except ValueError:
        return False


def write_state(path: Path, state: Mapping[Any, Any], kind: str) -> tuple[int, int]:
    """Write a state to a file.

    Args:
        path: The file; replaced if it exists.
        state: The state.
        kind: "safetensors" holds only tensors, by their names in the tree ("model/0.weight"). "pt"
            holds the whole state, with numpy arrays as tensors.

    Returns:
        The numbers of tensors written and of values left out.

    Raises:
        DTypeError: The format cannot hold the state.
        WriteError: The disk refused.
    """
    flat = all(is_tensor(value) for value in state.values())
    values = dict(state) if flat else dict(leaves(state))
    tensors = {name: value for name, value in values.items() if is_tensor(value)}
    if kind == "safetensors":
        content = to_safetensors(tensors)
        publish(path, lambda file: file.write(content), overwrite=True)
        return len(tensors), len(values) - len(tensors)
    import torch

    torch_state = _as_torch(state)
    publish(path, lambda file: torch.save(torch_state, file), overwrite=True)
    return len(tensors), 0


def to_safetensors(state: Mapping[str, Any]) -> bytes:
    """A flat state as the bytes of a plain .safetensors file.

    state: name -> numpy array or torch tensor. Raises DTypeError for names or dtypes that the file
    format cannot hold.
    """
    if "__metadata__" in state:  # safetensors would write it but not read it
        raise DTypeError("a .safetensors file cannot hold a tensor named '__metadata__'")
    libraries = {t.library for t in layout_of(state).tensors}
    try:
        if "torch" in libraries:
            import torch
            from safetensors.torch import save as save_torch

            tensors = {
                k: v.clone() if is_torch(v) else torch.from_numpy(np.array(v))
                for k, v in state.items()
            }  # copies: the format holds no two tensors of the same memory
            return bytes(save_torch(tensors))
        from safetensors.numpy import save

        return bytes(save({k: np.asarray(v) for k, v in state.items()}))
    except (ValueError, KeyError) as exc:
        raise DTypeError(f"a .safetensors file cannot hold this state: {exc}") from exc


def kind_of(path: Path) -> str:
    """The kind of a file by its suffix, "safetensors" or "pt". Raises SettingsError for others."""
    if path.suffix not in SUFFIXES:
        raise SettingsError(f"{path}: must end with one of {', '.join(SUFFIXES)}")
    return "safetensors" if path.suffix == ".safetensors" else "pt"


def _problem(exc: Exception) -> str:
    """Why a file cannot be read; for a truncated file also what to do."""
    reason = _reason(exc)
    if isinstance(exc, zipfile.BadZipFile | EOFError) or _CUT_OFF.search(reason):
        return f"{DAMAGED} ({reason})"
    if isinstance(exc, OSError):
        return f"cannot be read: {reason}"
    return f"cannot be read as weights only: {reason}"


def _reason(exc: Exception) -> str:
    """The problem in one line, without torch's advice to load it anyway or to file an issue."""
    match = re.search(r"WeightsUnpickler error:\s*(.+)", str(exc)) or re.search(r"\S.*", str(exc))
    return match[match.re.groups].strip() if match else type(exc).__name__


def _as_torch(value: Any) -> Any:
    """The same state with numpy arrays as tensors: weights_only reads no arrays."""
    import torch

    if isinstance(value, np.float64):
        return float(value)
    if isinstance(value, np.ndarray | np.generic):
        try:
            return torch.from_numpy(np.array(value))
        except TypeError as exc:
            raise DTypeError(f"torch has no dtype {value.dtype}") from exc
    if isinstance(value, Mapping):
        return type(value)({key: _as_torch(child) for key, child in value.items()})  # type: ignore[call-arg]
    if isinstance(value, list | tuple):
        return type(value)(_as_torch(child) for child in value)
    return value
