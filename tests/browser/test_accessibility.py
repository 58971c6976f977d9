"""axe-core's view of every page: what a screen reader and a keyboard need is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeTab = Callable[..., Any]
# What a page has to show before it is looked at.
PAGES = {
    "Live": ".st-key-panel-removed .stEChartsChart svg",
    "Learn": ".st-key-panel-stages .stEChartsChart svg",
    "Tune": ".st-key-panel-ab-sizes .stEChartsChart svg",
    "Recover": ".st-key-recover-start button",
    "Inspect": ".st-key-verify button",
    "Export": ".js-plotly-plot .main-svg",
    "Glossary": ".st-key-glossary-asked",
}
VIEW = "/?weight=f6.weight:1234&bucket=pos-7"  # followed and highlighted on every page


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_no_serious_violation(tab: MakeTab, name: str, theme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    visitor = tab(color_scheme=theme).open(VIEW if name != "Glossary" else "/glossary?term=bucket")
    page = visitor.page
    if name not in ("Live", "Glossary"):
        page.get_by_role("link", name=name).click()
    if name == "Learn":
        page.get_by_text("Open all steps at once").click()
    visitor.expecting(page.locator(PAGES[name]).first).to_be_visible()
    visitor.expecting(page.get_by_test_id("stApp")).to_have_attribute(
        "data-test-script-state", "notRunning"
    )
    # The pages' own content: not the library's toolbar.
    found = Axe().run(
        page, context={"include": ["[data-testid=stMain]", "[data-testid=stSidebar]"]}
    )
    bad = [v for v in found.response["violations"] if v["impact"] in ("critical", "serious")]
    told = [(v["id"], n["html"][:200], n["failureSummary"]) for v in bad for n in v["nodes"]]
    assert told == []
