"""The machine that an experiment runs on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "torch", "numba", "scikit-learn")  # whose versions decide numbers


def machine(packages: Iterable[str]) -> dict[str, Any]:
    """This machine: cpu, cores, system, and the versions of Python and of these packages.

    Packages that are not installed are left out.
    """
    cpu = platform.processor() or platform.machine()
    with suppress(OSError):
        line = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        cpu = line[1] if line else cpu
    versions = {"Python": platform.python_version()}
    for name in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": cpu,
        "cores": cores,
        "system": platform.platform(terse=True),
        "versions": versions,
    }


def source_digest(package: Any) -> str:
    """SHA-256 of the names and contents of a package's Python files."""
    folder, digest = Path(package.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()
