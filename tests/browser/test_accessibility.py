"""axe-core's view of every page: what a screen reader and a keyboard need is there.

Not done here: watched runs, whose server has a test of its own (test_watch).
"""

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
    "All settings": ".st-key-panel-all-settings .stEChartsChart svg",
    "Tensor by tensor": ".st-key-tune-by-tensor .stEChartsChart svg",
    "Bucket by bucket": ".st-key-tune-by-bucket .stEChartsChart svg",
    "Leave out any": ".st-key-tune-by-bucket-numbers",
}
VIEW = "/?weight=f6.weight:1234&bucket=pos-7"  # followed and highlighted on every page


COLOURS = ("color-contrast", "link-in-text-block")  # rules; by the others themes do not differ


@pytest.fixture(scope="module", params=["light", "dark"])
def walker(lasting_tab: MakeTab, request: pytest.FixtureRequest) -> Any:
    """Somebody who goes from page to page, a weight and a bucket along, and the rules to look at:
    all of them in one theme."""
    rules = COLOURS if request.param == "dark" else ()
    return lasting_tab(color_scheme=request.param).open(VIEW), rules


@pytest.mark.parametrize("name", PAGES)
def test_no_serious_violation(walker: Any, name: str) -> None:
    visitor, rules = walker
    page = visitor.page
    visitor.go(name)
    if name == "Glossary":
        visitor.open("/glossary?term=bucket")
    if name == "Learn":
        page.get_by_text("Open all steps at once").click()
    visitor.check_accessible(PAGES[name], rules)
    for section, shown in TUNE.items() if name == "Tune" else ():
        page.get_by_role("radio", name=section, exact=True).press("Space")
        visitor.check_accessible(shown, rules)
    if name == "Tune":
        page.locator(".st-key-tune_out").get_by_role("toolbar").get_by_role("button").first.press(
            "Space"
        )
        visitor.expecting(page.get_by_text("Without 1 bucket of")).to_be_visible()
        visitor.check_accessible(".st-key-tune_out", rules)
