"""Helpers of the Export tests, as fixtures: test files import nothing of each other."""

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import save_file

import codec
from lcviz.export.archive import Package
from lcviz.export.bundle import everything
from lcviz.export.receipt import Receipt
from lcviz.server import own_files
from lcviz.server.pt_reader import Reader
from lcviz.server.quota import Shelf, VisitorFolder
from tests.lcviz.common import MakePath, saved


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(100 * 2**20)


@pytest.fixture
def place(shelf: Shelf) -> Iterator[VisitorFolder]:
    made = shelf.place()
    yield made
    made.close()


@pytest.fixture(scope="session")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four checkpoints, steps 0, 5, 10, 15."""
    folder, generator = tmp_path_factory.mktemp("mine"), torch.Generator().manual_seed(0)
    w = torch.randn(40, 30, generator=generator)
    for i in range(4):
        w = w + 0.01 * torch.randn(40, 30, generator=generator) ** 3
        save_file({"fc.weight": w, "fc.bias": w[0].clone()}, folder / f"step-{5 * i}.safetensors")
    return folder


@pytest.fixture
def make_chain(tmp_path: Path) -> MakePath:
    """A chain's folder, packed beside itself: make_chain(state of each step, name=…, bits=…)."""

    def make(*states: Mapping[str, Any], name: str = "run.lcc", **settings: Any) -> Path:
        path = saved(tmp_path / name, states, **{"bits": 2} | settings)
        codec.Chain(path).pack(tmp_path / f"{name}.zip")
        return path

    return make


@pytest.fixture
def lay_down(tmp_path: Path) -> MakePath:
    """All that is downloaded together, in one folder."""

    def extract(package: Package, receipt: Receipt) -> Path:
        with zipfile.ZipFile(io.BytesIO(everything(package, receipt))) as archive:
            archive.extractall(tmp_path)
        return tmp_path

    return extract


class SpareReader(Reader):
    """Its process imports torch for seconds, and reads on for others unless a file ends it."""

    spare: ClassVar[list[Any]] = []
    well = True

    def __init__(self) -> None:
        super().__init__()
        self._process = self.spare.pop() if self.spare else None

    def convert(self, *question: Any) -> dict[str, Any]:
        self.well = False
        answer = super().convert(*question)
        self.well = True
        return answer

    def close(self) -> None:
        if self.well and self._process is not None:
            self.spare.append(self._process)
            self._process = None
        super().close()


@pytest.fixture(scope="session", autouse=True)
def _one_reader() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_files, "Reader", SpareReader)
        yield
    for process in SpareReader.spare:
        process.kill()
        process.communicate()
