"""A visitor at Tune: A and B change at once, a point is chosen by a click, buckets by a slider."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

MakeTab = Callable[..., Any]


def tune(tab: MakeTab, section: str, shown: str) -> Any:
    """A visitor who looks at a section. shown: what is in it."""
    visitor = tab().open("/tune")
    visitor.page.get_by_role("radio", name=section, exact=True).press("Space")
    visitor.expecting(visitor.page.locator(shown).first).to_be_visible()
    return visitor


def test_it_opens_with_its_answer(tab: MakeTab) -> None:
    """Nobody has pressed anything, and the answer and its picture are on the first screen."""
    visitor = tab().open("/tune")
    page, expecting = visitor.page, visitor.expecting
    expecting(page.get_by_text("Recorded with")).to_have_count(0)  # this server's own is there
    title = page.get_by_role("heading", level=1)
    told = r"Tune: use .+ % of float32[:,] at most \d+\.\d iterations lost"
    expecting(title).to_have_text(re.compile(told))
    frontier = visitor.figure("frontier")
    visitor.check_on_first_screen(title)
    visitor.check_on_first_screen(frontier)
    visitor.check_on_first_screen(page.get_by_role("link", name="Use it on Live"))
    expecting(page.get_by_text(re.compile("^Changes: |has this setting already"))).to_be_visible()
    expecting(title).to_have_count(1)
    before = title.inner_text()
    page.get_by_role("radio", name="fit into a size").press("Space")
    expecting(page.get_by_role("spinbutton")).to_have_value("5")
    page.get_by_role("spinbutton").fill("1")
    page.get_by_role("spinbutton").press("Enter")
    expecting(title).not_to_have_text(before)
    expecting(frontier.locator(".legend").get_by_text("Pareto frontier")).to_have_count(1)
    visitor.check_fits()
    visitor.check()


def test_own_files_are_checked_at_once(tab: MakeTab, tmp_path: Path) -> None:
    """A wrong path is said at its field; then what was found, and the answer."""
    w = np.zeros(400, np.float32)
    for step in range(5, 201, 5):
        w = w + np.random.default_rng(step).normal(size=400).astype(np.float32) / step
        save_file({"w": w}, tmp_path / f"{step}.safetensors")
    visitor = tab().open("/tune?tune_source=own+files")
    page, expecting = visitor.page, visitor.expecting
    start = page.locator(".st-key-tune-asked-start").get_by_role("button")
    expecting(start).to_be_disabled()
    field = page.get_by_role("textbox", name="Folder of checkpoints")
    field.fill(str(tmp_path / "nowhere"))
    field.press("Enter")
    expecting(page.locator(".st-key-tune-parameters").get_by_text("not found")).to_be_visible()
    expecting(start).to_be_disabled()
    field.fill(str(tmp_path))
    field.press("Enter")
    told = page.locator(".st-key-tune-parameters").get_by_text("40 files, steps 5–200 every 5, ")
    expecting(told).to_be_visible()
    expecting(start).to_be_enabled()
    start.click()
    expecting(visitor.figure("frontier")).to_be_visible()
    page.get_by_text("This setting in your own training").click()
    expecting(page.get_by_text(re.compile(r"if step % (5|10|25) == 0"))).to_be_visible()
    visitor.check()


def test_a_and_b_change_at_once(tab: MakeTab) -> None:
    visitor = tune(tab, "A against B", ".st-key-panel-ab-sizes .main-svg")
    page, expecting = visitor.page, visitor.expecting
    table = page.locator(".st-key-tune-ab")
    kept = table.get_by_role("row").filter(has_text="buckets kept")
    expecting(kept).to_contain_text("+4 buckets")
    page.locator(".st-key-tune_b_bits").get_by_role("slider").press("ArrowRight")
    expecting(kept).to_contain_text("+12 buckets")
    expecting(page).to_have_url(re.compile("tune_b_bits=4"))
    page.locator(".st-key-tune_b_coder").get_by_role("radio", name="Huffman (paper)").press("Space")
    size = table.get_by_role("row").filter(has_text="bits per parameter")
    expecting(size).to_contain_text(re.compile(r"\+[1-9]\.\d+ bits"))
    expecting(kept).to_contain_text("+12 buckets")  # the coder decides about bytes alone
    for key in ("ab-sizes", "ab-distances"):
        for name in ("A", "B"):
            drawn = visitor.figure(key).locator(".legend").get_by_text(name, exact=True)
            expecting(drawn).to_have_count(1)
    visitor.check_on_first_screen(visitor.figure("ab-sizes"))
    plot = visitor.figure("ab-sizes").locator(".nsewdrag").first
    told = visitor.figure("ab-sizes").locator(".hoverlayer")
    for name in ("A", "B"):
        visitor.hover_until(plot, told.get_by_text(re.compile(f"^{name} : [0-9.]+ %$")))
    page.reload()
    expecting(kept).to_contain_text("+12 buckets")  # the link says it all
    expecting(size).to_contain_text(re.compile(r"\+[1-9]\.\d+ bits"))
    visitor.check()


def test_a_point_is_clicked_and_put_into_b(tab: MakeTab) -> None:
    visitor = tune(tab, "All settings", ".st-key-panel-all-settings .main-svg")
    page, expecting, figure = visitor.page, visitor.expecting, visitor.figure("all-settings")
    lines = figure.locator(".subplot.xy2 .scatterlayer .trace")  # distances, of two scopes
    expecting(lines).to_have_count(2)
    point = lines.nth(1).locator("path.point").nth(1)
    visitor.hover_until(point, figure.locator(".hoverlayer").get_by_text("of float32"))
    point.click(force=True)
    chosen = page.locator(".st-key-tune_pick")
    picked = "2 bits, buckets over each tensor, run-length"
    expecting(chosen.get_by_role("combobox")).to_have_value(picked)
    page.get_by_role("button", name="Put into B").click()
    expecting(page).to_have_url(re.compile("tune_b_bits=2"))
    expecting(page.locator(".st-key-tune_b_scope").get_by_role("radio").nth(1)).to_be_checked()
    expecting(figure.locator(".annotation").get_by_text("B", exact=True)).to_have_count(2)
    page.get_by_role("radio", name="Tensor by tensor", exact=True).press("Space")
    row = visitor.figure("by-tensor-B").locator(".ytick").get_by_text("linear.weight", exact=True)
    expecting(row).to_have_count(1)
    visitor.check_fits()
    visitor.check()


def test_the_slider_of_buckets(tab: MakeTab) -> None:
    visitor = tune(tab, "Bucket by bucket", ".st-key-panel-by-bucket .main-svg")
    page, expecting = visitor.page, visitor.expecting
    slider = page.get_by_role("slider", name="Largest buckets kept")
    expecting(page.get_by_text("The largest 3 buckets of")).to_be_visible()
    loss = page.get_by_test_id("stMetric").filter(has_text="Loss, rebuilt")
    before = loss.inner_text()
    slider.press("Home")
    expecting(page.get_by_text("The largest 0 buckets of")).to_be_visible()
    expecting(loss).not_to_have_text(before)
    expecting(page.get_by_role("progressbar")).to_have_count(0)
    names = visitor.figure("by-bucket").locator(".annotation")
    expecting(names.get_by_text("all", exact=True)).to_have_count(1)
    page.get_by_role("radio", name="Leave out any").press("Space")
    expecting(page.get_by_text("With every bucket: loss")).to_be_visible()
    expecting(page).to_have_url(re.compile("tune_mode=Leave"))
    visitor.check()
