"""Instructions that numba lacks, and how kernels are compiled, kept and loaded.

numba keeps compiled code by the file of each function, and does not notice an edited callee in
another file. So `Locator` stamps all kernels with the digest of the whole folder.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from codec.scheme.limits import WORD

FOLDER = Path(__file__).parent
FILES = ("machine", "collect", "track", "codes", "decode", "residuals", "contexts")
# Numbers in hot loops are uint64: numba computes int64 with uint64 in float64, and an unsigned
# index needs no test for a negative one.
ONE = np.uint64(1)
LOW32 = np.uint64(0xFFFFFFFF)
STREAMED = 256  # bytes that are copied at once past the caches


class Pending:
    """Stands for a function until numba is imported.

    The first call of any of them runs `load`, which replaces all.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, bool] | None) -> None:
        self.function = function
        self.options = options  # of njit; None for an intrinsic
        self._made: Any = None

    def __call__(self, *arguments: Any) -> Any:
        load()
        return self.made()(*arguments)

    def made(self) -> Any:
        """The function as numba makes it."""
        if self._made is None:
            from numba import njit
            from numba.extending import intrinsic as numba_intrinsic

            if self.options is None:
                self._made = numba_intrinsic(self.function)
            else:
                options = self.options | {"cache": self.options["cache"] and bool(cache_folder())}
                self._made = njit(**options)(self.function)
        return self._made


def compiled(function: Callable[..., Any]) -> Any:
    """A loop for other modules. It releases the GIL, and is cached where that is possible."""
    return Pending(function, {"cache": True, "nogil": True})


def inlined(function: Callable[..., Any]) -> Any:
    """For small helpers. Those in a hot loop take no arrays: numba counts references to arrays
    by atomic additions, which slow down threads that share an array."""
    return Pending(function, {"cache": False, "nogil": True, "forceinline": True})


def intrinsic(function: Callable[..., Any]) -> Any:
    """An instruction of the machine, written in LLVM's language."""
    return Pending(function, None)


def load() -> None:
    """Import numba, and replace each pending function of the kernels by what numba makes of it.

    Importing numba takes longer than importing the rest of the codec, much of which works without
    it. Nothing is compiled here: numba compiles each function at its first call.

    Raises ImportError where numba is not installed.
    """
    from llvmlite import ir
    from numba import carray, types
    from numba.core import caching, cgutils

    if Locator not in caching.CacheImpl._locator_classes:
        caching.CacheImpl._locator_classes.insert(0, Locator)
    imported = {"carray": carray, "cgutils": cgutils, "ir": ir, "types": types}
    for file in FILES:
        names = vars(importlib.import_module(f"{__package__}.{file}"))
        names.update(imported)
        made = {name: f.made() for name, f in list(names.items()) if isinstance(f, Pending)}
        names.update(made)


class Locator:
    """Where numba keeps the kernels, and the stamp that says whether they are still right."""

    def get_cache_path(self) -> str:
        """The folder."""
        return cache_folder()

    def ensure_cache_path(self) -> None:
        """The folder is there, see `cache_folder`."""

    def get_source_stamp(self) -> str:
        """The digest of all files that compiled code depends on."""
        return stamp()

    def get_disambiguator(self) -> str:
        """Part of the names of files: a folder of numba's may have several packages' files."""
        return hashlib.blake2b(str(FOLDER).encode(), digest_size=4).hexdigest()

    @classmethod
    def from_function(cls, _function: Any, file: str) -> Locator | None:
        """None for functions that are no kernels: numba goes on with its own locators."""
        return cls() if Path(file).parent == FOLDER and cache_folder() else None


@cache
def stamp() -> str:
    """The digest of the kernels' source."""
    digest = hashlib.blake2b(digest_size=16)
    for source in (*sorted(FOLDER.glob("*.py")), FOLDER.parent / "limits.py"):
        digest.update(source.read_bytes())
    return digest.hexdigest()


@cache
def cache_folder() -> str:
    """A folder for compiled code; "" if there is none.

    The one that the user has set for numba, the package's own, the user's, or a temporary one.
    """
    from numba.core import config
    from numba.misc.appdirs import AppDirs

    home = AppDirs(appname="lcviz", appauthor=False).user_cache_dir
    places = [config.CACHE_DIR] if config.CACHE_DIR else [FOLDER / "__pycache__", home]
    return next(filter(None, map(_usable, places)), "") or _temporary_folder()


def _usable(place: str | Path) -> str:
    """The place as a folder that this process can write to, else ""."""
    try:
        os.makedirs(place, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError:
        return ""
    return str(place)


def _temporary_folder() -> str:
    """A folder for compiled code where neither the package's folder nor the user's can have it.

    Code is loaded from it, so it must be this user's alone. "" if there is no such folder.
    """
    user = getattr(os, "getuid", lambda: 0)()
    try:
        place = tempfile.gettempdir()
        if place == os.getcwd():  # Python found no other; a copied folder may bring code along
            return ""
        folder = Path(place, f"lcviz-kernels-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if status.st_uid != user or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
            return ""
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return ""
    return str(folder)


@intrinsic
def pointer(_context, _address):
    """The address of float32 data as a pointer."""

    def generate(_context, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], ir.FloatType().as_pointer())

    return types.CPointer(types.float32)(types.uint64), generate


@intrinsic
def lowest_bit(_context, _word):
    """The number of the lowest bit that is set in a uint64 other than 0."""

    def generate(_context, builder, _signature, arguments):
        # 1: the result for 0 is undefined, so no test for 0 is compiled.
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def highest_bit(_context, _word):
    """The number of the highest bit that is set in a uint64 other than 0."""

    def generate(_context, builder, _signature, arguments):
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.uint64), generate


@intrinsic
def count_bits(_context, _word):
    """How many bits of a uint64 are set."""

    def generate(_context, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def prefetch(_context, _address):
    """Prefetch the cache line at any address.

    It goes into the second cache: a batch is larger than the first one, which look-up tables need.
    This was a quarter faster than a prefetch for writing.
    """

    def generate(context, builder, _signature, arguments):
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        )
        where = builder.inttoptr(arguments[0], byte)
        # For reading (0), into the second cache (2), as data (1).
        builder.call(prefetch, [where, flag(0), flag(2), flag(1)])
        return context.get_dummy_value()

    return types.void(types.uint64), generate


@intrinsic
def copy_bytes(_context, _target, _source, _nbytes):
    """memcpy."""

    def generate(context, builder, _signature, arguments):
        byte = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.int64), generate


@intrinsic
def stream_line(_context, _target, _source):
    """Copy STREAMED bytes past the caches, to an address that 64 divides; see `fence`."""

    def generate(context, builder, _signature, arguments):
        line, step = ir.VectorType(ir.IntType(64), 8).as_pointer(), ir.IntType(64)
        lines = []
        for address in arguments:
            skipped = (builder.add(address, step(i)) for i in range(0, STREAMED, 64))
            lines.append([builder.inttoptr(skip, line) for skip in skipped])
        for target, source in zip(*lines):
            value = builder.load(source)
            value.align = 4
            # A store past the caches needs an aligned address.
            store = builder.store(value, target)
            store.align = 64
            store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@intrinsic
def fence(_context):
    """Make all streamed bytes visible to every thread before going on."""

    def generate(context, builder, _signature, _arguments):
        # Streamed bytes may become visible after later stores of the same thread.
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


def _vectors(nbits: int) -> tuple[Any, Any, Any, Any]:
    """Intrinsics for elements of ``nbits`` bits: compare 64 of them, load one, store one."""

    def element():
        return ir.IntType(nbits)

    def many():
        return ir.VectorType(element(), WORD)

    def loaded(builder, address, kind):
        value = builder.load(builder.inttoptr(address, kind.as_pointer()))
        value.align = 1
        return value

    def narrow(builder, value):
        return value if nbits == 64 else builder.trunc(value, element())

    def repeated(builder, value):
        nothing = ir.Constant(many(), ir.Undefined)
        first = builder.insert_element(nothing, narrow(builder, value), ir.IntType(32)(0))
        every = ir.Constant(ir.VectorType(ir.IntType(32), WORD), [0] * WORD)
        return builder.shuffle_vector(first, nothing, every)

    @intrinsic
    def differ(_context, _old, _new):
        """Bit i: the i-th elements at two addresses differ."""

        def generate(_context, builder, _signature, arguments):
            unequal = builder.icmp_unsigned("!=", *(loaded(builder, a, many()) for a in arguments))
            return builder.bitcast(unequal, ir.IntType(WORD))

        return types.uint64(types.uint64, types.uint64), generate

    @intrinsic
    def reach(_context, _address, _mask, _bound):
        """Bit i: the i-th element & mask is at least the bound."""

        def generate(_context, builder, _signature, arguments):
            mask, bound = (repeated(builder, a) for a in arguments[1:])
            masked = builder.and_(loaded(builder, arguments[0], many()), mask)
            return builder.bitcast(builder.icmp_unsigned(">=", masked, bound), ir.IntType(WORD))

        return types.uint64(types.uint64, types.uint64, types.uint64), generate

    @intrinsic
    def load(_context, _address):
        def generate(_context, builder, _signature, arguments):
            value = loaded(builder, arguments[0], element())
            return value if nbits == 64 else builder.zext(value, ir.IntType(64))

        return types.uint64(types.uint64), generate

    @intrinsic
    def store(_context, _address, _value):
        def generate(context, builder, _signature, arguments):
            pointer = builder.inttoptr(arguments[0], element().as_pointer())
            builder.store(narrow(builder, arguments[1]), pointer).align = 1
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), generate

    return differ, reach, load, store


@inlined
def segment_of(starts, position):
    """The tensor that holds a position: the last one that starts there or before.

    numba's own search takes a second to compile.
    """
    low, high = 0, starts.size
    while low < high:
        middle = (low + high) >> 1
        # <=: of several that start here, all but the last are empty.
        if starts[middle] <= position:
            low = middle + 1
        else:
            high = middle
    return low - 1


@inlined
def class_of(run):
    """The class of a run, and the number of its extra bits: see runlength."""
    power = np.uint64(highest_bit(run | ONE))
    extra_bits = max(power, np.uint64(2)) - np.uint64(2)
    # 4 * power plus the two bits below the highest one; the bits below these are extra.
    kind = np.uint64(4) * power + (run >> extra_bits & np.uint64(3))
    is_short = run < np.uint64(16)
    return run if is_short else kind, np.uint64(0) if is_short else extra_bits


@inlined
def log2_of(x):
    """The base-2 logarithm of a positive number, by atanh's series.

    Every processor gets the same bits. The last bits of np.log2 depend on the instruction set, so
    the choice between codes could too.
    """
    fraction, exponent = math.frexp(x)
    if fraction < math.sqrt(0.5):
        fraction, exponent = 2 * fraction, exponent - 1
    ratio = (fraction - 1) / (fraction + 1)
    total = 0.0
    for k in range(21, 0, -2):  # the next term is below 2**-60
        total = total * ratio * ratio + 1 / k
    return exponent + 2 / math.log(2) * ratio * total


@compiled
def address(array):
    """The address of a vector's data, seven times as fast as from numpy."""
    return array.ctypes.data


@compiled
def log2(values, out):
    """out[i] = the base-2 logarithm of values[i]. Both float64."""
    for i in range(values.size):
        out[i] = log2_of(values[i])


differ8, reach8, load8, store8 = _vectors(8)
differ16, reach16, load16, store16 = _vectors(16)
differ32, reach32, load32, store32 = _vectors(32)
differ64, reach64, load64, store64 = _vectors(64)

carray = cgutils = ir = types = None  # numba's and LLVM's, see `load`
