"""Checks of visitors' files before their content is read: .safetensors, and torch's zips.

A SourceError says in one sentence what is wrong, without the file's name. Tensors are read
elsewhere; `unpickle` reads pickles.
"""

from __future__ import annotations

import math
import shutil
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from codec.errors import ForeignRecordError, RecordError, SourceError
from codec.inspect import (
    CARRIER,
    HEAD,
    MAX_JSON,
    MAX_TENSORS,
    check_torch_file,
    is_unicode,
    parsed,
    short,
    typed,
)

from .unpickle import MOST_NAME

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]  # name -> dtype, shape

MAX_ELEMENTS = 2**60  # of a shape, zeros in it ignored: more overflows in libraries
MAX_DIMENSIONS = 64  # of a numpy array
MAX_MEMBERS = 2 * MAX_TENSORS  # of a zip: one for each tensor or step, and a few more
MAX_PICKLE = 16 * 2**20  # bytes: enough for 100,000 tensors
CHAIN = ".lcc.zip"  # the end of the name of a chain's archive
# What zipfile raises for a damaged file.
_DAMAGED = (zipfile.BadZipFile, EOFError, OverflowError, RuntimeError, ValueError)
_CHUNK, _MEMBER = 2**20, b"PK\1\2"
_UNREAD = ("C128", "C32", "F8_E8M0")  # dtypes that safetensors does not read into torch
_SIZES = {name: np.dtype(kind).itemsize for name, kind in CARRIER.items() if name not in _UNREAD}


def tensors_of(file: IO[bytes], nbytes: int) -> Tensors:
    """The tensors that a .safetensors file's header lists, checked against the file's size.

    Args:
        file: At its start; only the header is read.
        nbytes: The file's size.

    Raises:
        SourceError: Unless the tensors fill the rest of the file without gap or overlap.
        OSError: The file cannot be read.
    """
    header, left_nbytes = _header(file, nbytes)
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    places = []
    for name, entry in header.items():
        dtype, shape, place = _tensor(name, entry)
        tensors[name] = dtype, shape
        places.append(place)
    at = 0
    for begin, end in sorted(places):
        if begin != at:
            raise SourceError("has tensors that overlap, or a gap between them")
        at = end
    if at != left_nbytes:
        raise SourceError(
            f"is cut off, or too long: its tensors take {at:,} bytes, and {left_nbytes:,} "
            "follow the header"
        )
    if not at:
        raise SourceError("holds no tensors" if not tensors else "holds empty tensors only")
    return tensors


def _header(file: IO[bytes], nbytes: int) -> tuple[dict[str, Any], int]:
    """The entry of each tensor, and the bytes after the header. Raises SourceError, OSError."""
    if nbytes < 8:
        raise SourceError(f"is not a .safetensors file: it has only {nbytes} bytes")
    n = int.from_bytes(file.read(8), "little")
    if n > MAX_JSON:
        raise SourceError(
            "is not a .safetensors file: it does not begin with the length of a header, or the "
            f"header is longer than {MAX_JSON // 2**20} MiB"
        )
    if 8 + n > nbytes:
        raise SourceError(
            f"is cut off, or not a .safetensors file: its header would have {n:,} bytes, the file "
            f"has {nbytes:,}"
        )
    try:
        header = parsed(file.read(n), "", "a header", ForeignRecordError)
    except RecordError as exc:
        raise SourceError(f"has an invalid header: {exc.found}") from exc
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise SourceError(f"has {len(header):,} tensors; the limit is {MAX_TENSORS:,}")
    return header, nbytes - 8 - n


def _tensor(name: str, entry: Any) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    """A tensor's dtype, its shape, and where it begins and ends. Raises SourceError."""
    try:
        dtype, shape = typed(entry["dtype"], str), tuple(typed(d, int) for d in entry["shape"])
        begin, end = (typed(place, int) for place in entry["data_offsets"])
        if len(entry) > 3 or len(name) > MOST_NAME or len(shape) > MAX_DIMENSIONS:
            raise ValueError("unknown keys, or too long")
    except (KeyError, TypeError, ValueError) as exc:
        raise SourceError(f"describes its tensor {short(name)} wrongly") from exc
    if not is_unicode(name):
        raise SourceError(f"has a tensor whose name is not valid Unicode: {short(name)}")
    if dtype not in _SIZES:
        raise SourceError(f"has a tensor of the dtype {short(dtype)}, which is not supported")
    if math.prod(max(d, 1) for d in shape) >= MAX_ELEMENTS:
        raise SourceError(f"has a tensor whose shape is impossibly large: {short(name)}")
    if min(shape, default=0) < 0 or end - begin != math.prod(shape) * _SIZES[dtype]:
        raise SourceError(
            f"says that its tensor {short(name)} has the shape {short(shape)} of {dtype}, "
            f"but gives it {short(end - begin)} bytes"
        )
    return dtype, shape, (begin, end)


def check_members(file: IO[bytes]) -> None:
    """Check that a zip does not have too many members to list.

    Python makes an object of each member before their number is known, so this counts the four
    bytes that start each entry of the list; weights hardly ever contain them. file: at its start,
    before and after. Raises SourceError, OSError.
    """
    n_members, end = 0, b""
    while chunk := file.read(_CHUNK):
        n_members += (end + chunk).count(_MEMBER)  # `end` is too short to hold a whole one
        end = chunk[1 - len(_MEMBER) :]
    file.seek(0)
    if n_members > MAX_MEMBERS:
        raise SourceError(f"is a zip of {n_members:,} members; the limit is {MAX_MEMBERS:,}")


def _members(file: IO[bytes]) -> list[zipfile.ZipInfo] | None:
    """The members of a zip; None if it is damaged, or none. file: at its start, before and after.

    Raises SourceError if there are too many; OSError.
    """
    check_members(file)
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.infolist()
    except _DAMAGED:
        return None
    finally:
        file.seek(0)


def chain_inside(file: IO[bytes], nbytes: int) -> zipfile.ZipInfo | None:
    """The chain in a zip with other files, as Export's *Download everything* packs it.

    Args:
        file: At its start, before and after.
        nbytes: The file's size.

    Returns:
        The member; None if the zip has no chain, or the file is not a zip.

    Raises:
        SourceError: There are too many members or several chains, or the chain is compressed.
        OSError: The file cannot be read.
    """
    members = _members(file) or ()
    chains = [info for info in members if info.orig_filename.lower().endswith(CHAIN)]
    if not chains:
        return None
    if len(chains) > 1:
        raise SourceError(f"holds {len(chains)} chains; unpack it, and open one of them")
    if chains[0].compress_type != zipfile.ZIP_STORED or chains[0].file_size > nbytes:
        raise SourceError(f"holds a compressed chain; unpack it, and open the {CHAIN} in it")
    return chains[0]


def extract(file: IO[bytes], member: zipfile.ZipInfo, target: IO[bytes]) -> None:
    """Write a member of a zip to a target. Raises SourceError if it is damaged, OSError."""
    try:
        with zipfile.ZipFile(file) as archive, archive.open(member) as inside:
            shutil.copyfileobj(inside, target, _CHUNK)
    except _DAMAGED as exc:
        raise SourceError("holds a chain that is cut off or damaged") from exc


def check_torch_zip(file: IO[bytes], nbytes: int) -> None:
    """Check that torch.save can have written a file, and that it unpacks to no more bytes.

    file: at its start. Raises SourceError, OSError.
    """
    members = _members(file)
    head = file.read(HEAD)
    check_torch_file(head)
    if not head.startswith(b"PK\3\4"):
        raise SourceError(
            "is not in the format that torch.save writes since version 1.6, a zip; if you trust "
            "it, load it and save it again"
        )
    if members is None:
        raise SourceError("is cut off or damaged: its zip is not complete; copy it again")
    names = [info.orig_filename for info in members]
    if sum(map(len, names)) > MAX_JSON:
        raise SourceError(f"has members whose names take more than {MAX_JSON // 2**20} MiB")
    if len(set(names)) != len(names):
        raise SourceError("has two members of the same name")
    if any(".." in name.split("/") or name.startswith("/") or "\\" in name for name in names):
        raise SourceError("has a member whose name leads out of it")
    if any(info.compress_type != zipfile.ZIP_STORED for info in members):
        raise SourceError("has compressed members, which torch.save never writes")
    if sum(info.file_size for info in members) > nbytes:
        raise SourceError("says that it unpacks to more bytes than it has")
    pickles = [info for info in members if info.orig_filename.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise SourceError("is a zip file, but not one written by torch.save: it has no data.pkl")
    if pickles[0].file_size > MAX_PICKLE:
        raise SourceError(f"has a pickle of more than {MAX_PICKLE // 2**20} MiB beside its tensors")
