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
TUNE = {  # its other sections
    "Recommend one": ".st-key-tune-parameters",
    "All settings": ".st-key-panel-every .stEChartsChart svg",
    "Tensor by tensor": ".st-key-tune-tensors .stEChartsChart svg",
    "Bucket by bucket": ".st-key-tune-kept .stEChartsChart svg",
    "Leave out any": ".st-key-tune-kept-numbers",
}
# The pages' own content: not the library's toolbar.
OWN = {"include": ["[data-testid=stMain]", "[data-testid=stSidebar]"]}
VIEW = "/?weight=f6.weight:1234&bucket=pos-7"  # followed and highlighted on every page


@pytest.fixture(scope="module", params=["light", "dark"])
def walker(lasting_tab: MakeTab, request: pytest.FixtureRequest) -> Any:
    """Somebody who goes from page to page, a weight and a bucket along."""
    return lasting_tab(color_scheme=request.param).open(VIEW)


@pytest.mark.parametrize("name", PAGES)
def test_no_serious_violation(walker: Any, name: str) -> None:
    visitor, page = walker, walker.page
    visitor.go(name)
    if name == "Glossary":
        visitor.open("/glossary?term=bucket")
    if name == "Learn":
        page.get_by_text("Open all steps at once").click()
    look(visitor, PAGES[name])
    for section, shown in TUNE.items() if name == "Tune" else ():
        page.get_by_role("radio", name=section, exact=True).press("Space")
        look(visitor, shown)
    if name == "Tune":
        page.locator(".st-key-tune_out").get_by_role("toolbar").get_by_role("button").first.press(
            "Space"
        )
        visitor.expecting(page.get_by_text("Without 1 bucket of")).to_be_visible()
        look(visitor, ".st-key-tune_out")


def look(visitor: Any, shown: str) -> None:
    """Axe finds nothing once that is shown and the script is done."""
    from axe_playwright_python.sync_playwright import Axe

    visitor.expecting(visitor.page.locator(shown).first).to_be_visible()
    visitor.expecting(visitor.page.get_by_test_id("stApp")).to_have_attribute(
        "data-test-script-state", "notRunning"
    )
    # Colours fade in; half-way there is no contrast yet. As long as a run is still being measured,
    # they do so with every look at it, which on a busy machine takes minutes.
    visitor.page.wait_for_function(
        "document.getAnimations().length === 0", timeout=180_000, polling=100
    )
    found = Axe().run(visitor.page, context=OWN, options={"resultTypes": ["violations"]})
    bad = [v for v in found.response["violations"] if v["impact"] in ("critical", "serious")]
    told = [(v["id"], n["html"][:200], n["failureSummary"]) for v in bad for n in v["nodes"]]
    assert told == []
