"""All that is downloaded in one zip: the chain, its receipt, and reader.py, which needs numpy."""

from __future__ import annotations

import io
import shlex
import zipfile
from collections.abc import Sequence
from importlib import resources

import codec

from .archive import Package
from .receipt import PACKAGES, Receipt, dumped

RECEIPT, READER, README = "receipt.json", "reader.py", "README.txt"
_UNIX = 3  # the system that a zip's member was made on


def everything(package: Package, receipt: Receipt) -> bytes:
    """Archive, receipt, readme and reader in a zip; the same arguments give equal bytes."""
    members: dict[str, bytes | str] = {
        package.file: package.data,
        RECEIPT: dumped(receipt),
        README: readme(package, receipt),
        READER: resources.files(codec).joinpath(READER).read_bytes(),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)  # dated 1980: no clock
            info.create_system, info.external_attr = _UNIX, 0o644 << 16
            archive.writestr(info, data)
    return file.getvalue()


def readme(package: Package, receipt: Receipt) -> str:
    """What lies in the zip, and the commands that use it."""
    last = package.steps[-1]
    return f"""{receipt["what"]}: steps {package.steps[0]} to {last} in {package.file}

    python {READER} {shlex.quote(package.file)}                          lists the steps
    {reader_command(package, last)}

{READER} needs Python and numpy, and nothing of lcviz. It checks every digest if the packages
blake3 and xxhash are installed. {RECEIPT} says what the chain is and what was verified.
"""


def reader_command(package: Package, step: int) -> str:
    """A command that restores a step with the zip's files and numpy alone."""
    return f"python {READER} {shlex.quote(package.file)} --step {step} -o step{step}.safetensors"


def install_command(receipt: Receipt, packages: Sequence[str] = PACKAGES) -> str:
    """A command that installs packages in the receipt's versions; by default all that it names."""
    versions = receipt["versions"]
    pins = (
        f"{name}=={versions[name].partition('+')[0]}"  # torch's +cpu is not part of the release
        for name in packages
        if name in versions
    )
    return f"pip install {' '.join(pins)}"
