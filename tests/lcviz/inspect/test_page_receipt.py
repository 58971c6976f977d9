"""A receipt checked on the Inspect page."""

from pathlib import Path
from typing import Any

import pytest

from lcviz.export import archive as export
from lcviz.export import receipt
from lcviz.inspect.page_parts import MOST_PROBLEMS
from lcviz.run.run import Run
from tests.lcviz.common import Make, MakeRun, finished


@pytest.fixture
def run(create: MakeRun) -> Run:
    """A finished run of four iterations."""
    return finished(create(stop_after=4))


def give(page: Any, about: dict[str, Any] | bytes) -> Any:
    data = about if isinstance(about, bytes) else receipt.dumped(about)
    page.at.file_uploader(key="inspect_receipt").set_value(("r.json", data, "application/json"))
    return page.run()


@pytest.mark.parametrize("way", ["run", "upload"])
def test_a_receipt_is_checked(way: str, inspecting: Make, run: Run, upload: Make) -> None:
    package = export.pack(run)
    page = inspecting(run=run) if way == "run" else inspecting()
    if way == "upload":
        upload(page, package.file, package.data)
    about = receipt.of_run(run, package)
    give(page, about)
    assert not page.texts("success")
    (success,) = page.click("check-receipt").texts("success")
    assert "5 records, 5 steps" in success
    assert "A receipt cannot prove what the chain was made from." in success
    other = about | {"settings": about["settings"] | {"bits": 7}}
    assert not give(page, other).texts("success")  # another receipt is not checked yet
    *_, error = page.click("check-receipt").texts("error")
    assert "not the chain that the receipt was made for" in error
    assert page.shows("- The receipt says 7 bits, ")


def test_what_is_no_receipt(inspecting: Make) -> None:
    page = give(inspecting(), b"[" * 10**5)
    assert len(page.said("error")) == 1
    assert "check-receipt" not in page.buttons


def test_a_receipt_of_another_chain(inspecting: Make, run: Run, tmp_path: Path, save: Make) -> None:
    """What it says is shown as text, and not all of it."""
    about = receipt.of_run(run, export.pack(run))
    about["records"] += [about["records"][0] | {"file": f"[x{i}](http://y)"} for i in range(99)]
    page = inspecting(inspect_path=save(tmp_path / "run.lcc", 0, 4))
    (error,) = give(page, about).click("check-receipt").texts("error")
    assert "not the chain" in error
    (told,) = (t for t in page.texts("markdown") if "x0" in t)
    assert "[x0](" not in told
    assert len(told.splitlines()) == MOST_PROBLEMS + 1
    assert told.endswith("more problems.")
