"""How kernels are compiled, kept and loaded.

numba keeps compiled code by the file of each function, and does not notice an edited callee in
another file. So `Locator` stamps all kernels with the digest of the whole folder.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
FILES = (
    *("machine", "instructions", "collect", "track", "measures", "codes", "decode", "dense"),
    *("residuals", "contexts"),
)
# "numpy": a division by 0 is not tested for, so a loop that divides can become one of vectors.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


class Pending:
    """Stands for a function until numba is imported.

    The first call of any of them runs `load`, which replaces all.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None) -> None:
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
    return Pending(function, {"cache": True} | OPTIONS)


def inlined(function: Callable[..., Any]) -> Any:
    """For small helpers. Those in a hot loop take no arrays: numba counts references to arrays
    by atomic additions, which slow down threads that share an array."""
    return Pending(function, {"cache": False, "forceinline": True} | OPTIONS)


def instruction(result: str, *arguments: str) -> Callable[[Callable[..., Any]], Any]:
    """An instruction that a function writes in LLVM's language: it takes a builder and values.

    result, arguments: the names of numba's types. A function of "void" returns nothing.
    """

    def pending(write: Callable[..., Any]) -> Pending:
        @wraps(write)  # numba reads the names of the arguments
        def typed(_context: Any, *_arguments: Any) -> Any:
            from numba import types

            def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
                written = write(builder, *values)
                return context.get_dummy_value() if result == "void" else written

            return getattr(types, result)(*(getattr(types, name) for name in arguments)), generate

        return Pending(typed, None)

    return pending


def load() -> None:
    """Import numba, and replace each pending function of the kernels by what numba makes of it.

    Importing numba takes longer than importing the rest of the codec, much of which works without
    it. Nothing is compiled here: numba compiles each function at its first call.

    Raises ImportError where numba is not installed.
    """
    from llvmlite import ir
    from numba import carray
    from numba.core import caching, cgutils
    from numba.core.registry import cpu_target

    if Locator not in caching.CacheImpl._locator_classes:
        caching.CacheImpl._locator_classes.insert(0, Locator)
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    imported = {"carray": carray, "cgutils": cgutils, "ir": ir, "has_deposit": "+bmi2" in features}
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
        """Part of the names of files: a folder of numba's may have several packages' files.

        Nor are files of other versions read: they may name a class that is no more.
        """
        return hashlib.blake2b(f"{FOLDER} {stamp()}".encode(), digest_size=4).hexdigest()

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


carray = cgutils = ir = has_deposit = None  # numba's and LLVM's, see `load`
