"""Everything that is taken along, in one zip: archive, receipt, and the two scripts."""

from __future__ import annotations

import io
import zipfile

from .archive import Package
from .receipt import Receipt, dumped
from .scripts import NAME, RECEIPT, RESTORING, reproducing, restoring

_UNIX = 3


def everything(package: Package, receipt: Receipt) -> bytes:
    """The zip; the same package and receipt give the same bytes."""
    members = {
        package.file: package.data,
        RECEIPT: dumped(receipt),
        RESTORING: restoring(receipt).encode(),
    }
    if receipt["of"] != "archive":
        members[NAME] = reproducing(receipt).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)  # of 1980: no clock
            info.create_system, info.external_attr = _UNIX, 0o644 << 16
            archive.writestr(info, data)
    return file.getvalue()
