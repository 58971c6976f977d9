"""A visitor at Tune: an answer at once, files of one's own, A and B, and a clicked point."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

MakeTab = Callable[..., Any]


def test_it_opens_with_its_answer(tab: MakeTab) -> None:
    """Nobody has pressed anything, and the answer and its picture are on the first screen."""
    visitor = tab().open("/tune")
    page, expecting = visitor.page, visitor.expecting
    expecting(page.get_by_text("Recorded with")).to_have_count(0)  # this server's own is there
    told = r"^Tune: x = \d bits?.* meets the limit: .+ % of float32, a crash costs at most \d"
    title = visitor.title(re.compile(told))
    frontier = visitor.figure("frontier")
    visitor.check_on_first_screen(title)
    visitor.check_on_first_screen(frontier)
    visitor.check_on_first_screen(page.get_by_role("link", name="Use it on Live"))
    expecting(page.get_by_text(re.compile("^Changes: |has this setting already"))).to_be_visible()
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
    """A wrong path is said; then files are uploaded, tried out, and stay for Export."""
    w = np.zeros(400, np.float32)
    for step in range(5, 201, 5):
        w = w + np.random.default_rng(step).normal(size=400).astype(np.float32) / step
        save_file({"w": w}, tmp_path / f"{step}.safetensors")
    visitor = tab().open("/tune?tune_source=own+files")
    page, expecting = visitor.page, visitor.expecting
    start = page.locator(".st-key-tune-asked-start").get_by_role("button")
    expecting(start).to_be_disabled()
    field = page.get_by_role("textbox", name="Or a path on this machine")
    field.fill(str(tmp_path / "nowhere"))
    field.press("Enter")
    expecting(page.get_by_role("alert").get_by_text("not found")).to_be_visible()
    expecting(start).to_be_disabled()
    page.locator("input[type=file]").set_input_files(sorted(tmp_path.iterdir()))
    expecting(page.get_by_text("40 files, steps 5–200 every 5, ")).to_be_visible()
    expecting(start).to_be_enabled()
    start.click()
    expecting(visitor.figure("frontier")).to_be_visible()
    page.get_by_text("This setting in your own training").click()
    expecting(page.get_by_text(re.compile(r"if step % (5|10|25) == 0"))).to_be_visible()
    visitor.go("Export")
    page.get_by_text("Files of mine").click()
    expecting(page.get_by_text("40 checkpoints", exact=True)).to_be_visible()
    visitor.check()


def test_a_and_b_change_at_once_and_a_click_is_b(tab: MakeTab) -> None:
    """The answer follows every control and a clicked point; the URL says it all."""
    visitor = tab().open("/tune")
    page, expecting = visitor.page, visitor.expecting
    page.get_by_role("radio", name="Compare", exact=True).press("Space")
    title = visitor.title(re.compile(r"^Tune: B against A: .+ more, .+ nearer$"))
    figure = visitor.figure("compare")
    visitor.check_on_first_screen(title)
    visitor.check_on_first_screen(figure)
    three_bits = title.inner_text()
    page.locator(".st-key-tune_b_bits").get_by_role("slider").press("ArrowRight")
    expecting(title).not_to_have_text(three_bits)
    expecting(page).to_have_url(re.compile("tune_b_bits=4"))
    visitor.settled()  # a key pressed while the page still changes may get lost
    page.locator(".st-key-tune_b_coder").get_by_role("radio", name="Huffman (paper)").press("Space")
    expecting(page).to_have_url(re.compile("tune_b_coder=Huffman"))  # the size may be equal
    visitor.settled()
    in_huffman = title.inner_text()
    page.reload()
    expecting(title).to_have_text(in_huffman)
    each_tensor = figure.locator(".scatterlayer .trace").nth(1)
    one_bit = each_tensor.locator("path.point").first
    visitor.hover_until(one_bit, figure.locator(".hoverlayer").get_by_text("of float32"))
    one_bit.click(force=True)
    expecting(page).to_have_url(re.compile("tune_b_bits=1"))
    expecting(page.locator(".st-key-tune_b_scope").get_by_role("radio").nth(1)).to_be_checked()
    expecting(title).to_have_text(re.compile(" less, .+ further$"))
    expecting(figure.locator(".annotation").get_by_text("B", exact=True)).to_have_count(1)
    visitor.check_fits()
    visitor.check()
