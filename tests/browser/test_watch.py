"""A server that was started to watch a folder of runs, in a browser, while this process writes."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.states import MakeTab, Save

PICTURE = "[data-picture=curves]"
CHARTS = f"[data-testid=stDataFrame] canvas, {PICTURE}, {PICTURE} svg"
# Marks nodes by a property: one that is replaced loses it, one that is updated keeps it.
TAG = "nodes => nodes.forEach((node, i) => { node.lcvizTag = i })"
TAGS = "nodes => nodes.map(node => node.lcvizTag ?? null)"


@pytest.mark.exhaustive
def test_a_folder_of_runs_while_they_are_written(
    watching: MakeTab, save: Save, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    a, b = save(folder / "a.lcc", 0, 4), save(folder / "b.lcc", 0, 4, bits=4)
    visitor = watching("--run", folder).open()
    page = visitor.page
    table = page.get_by_test_id("stDataFrame").first

    def cell(column: int, row: int) -> Any:
        return table.get_by_test_id(f"glide-cell-{column}-{row}")

    visitor.expecting(page.get_by_text("2 runs at ")).to_be_visible()
    visitor.expecting(page).to_have_url(re.compile(r"/inspect$"))
    visitor.expecting(cell(0, 0)).to_have_text("a.lcc")
    visitor.expecting(page.locator(f"{PICTURE} svg")).to_be_visible()
    visitor.check_accessible(PICTURE)
    page.locator(CHARTS).evaluate_all(TAG)

    save(a, 5, 6)  # the page finds out by itself
    visitor.expecting(cell(3, 0)).to_have_text("6")
    save(folder / "c.lcc", 0, 1)
    visitor.expecting(page.get_by_text("3 runs at ")).to_be_visible()
    visitor.expecting(cell(0, 2)).to_have_text("c.lcc")
    tags = page.locator(CHARTS).evaluate_all(TAGS)
    assert len(tags) >= 4
    assert tags == list(range(len(tags)))  # the very same nodes

    table.click(position={"x": 40, "y": 35 + 35 + 17})  # the name in the second row
    visitor.expecting(page.get_by_text("b.lcc: steps 0 to 4")).to_be_visible()
    visitor.expecting(page).to_have_url(re.compile(r"inspect_watch=b\.lcc"))
    visitor.go("Glossary")
    visitor.title("Glossary")
    visitor.go("Inspect")
    visitor.expecting(page.get_by_text("b.lcc: steps 0 to 4")).to_be_visible()
    visitor.expecting(page.get_by_text("Step 4, the newest.")).to_be_visible()
    save(b, 5, 5)
    visitor.expecting(page.get_by_text("Step 5, the newest.")).to_be_visible()
    page.get_by_role("button", name="All runs").click()
    visitor.expecting(page.get_by_text("3 runs at ")).to_be_visible()
    visitor.check()


@pytest.mark.exhaustive
def test_a_server_that_falls_silent_holds_no_tab(
    watching: MakeTab, save: Save, web_server: Any, tmp_path: Path
) -> None:
    """The page says so, another page opens meanwhile, and all goes on with the next answer."""
    pytest.importorskip("aiohttp")
    save(tmp_path / "run.lcc", 0, 4)
    visitor = watching("--run", f"{web_server.url}/run.lcc").open()
    page = visitor.page
    visitor.expecting(page.get_by_text("Step 4, the newest.")).to_be_visible()
    visitor.settled()
    web_server.fall_silent()
    page.get_by_text("Follow the newest step").click()  # the whole page runs, and asks the server
    silence = page.get_by_text("No answer yet from")
    visitor.expecting(silence).to_be_visible()
    page.get_by_test_id("stToolbar").get_by_role("link", name="Glossary", exact=True).click()
    visitor.title("Glossary")
    visitor.settled()
    visitor.go("Inspect")
    visitor.expecting(silence).to_be_visible()
    web_server.speak()
    visitor.expecting(page.get_by_text("What step 4 changes in each tensor")).to_be_visible()
    visitor.settled()
    visitor.expecting(silence).to_have_count(0)
    visitor.check()
