"""Inspect in a browser: a chain that this process writes while the page looks at it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import codec

MakeTab = Callable[..., Any]


def save(path: Path, first: int, last: int) -> Path:
    """Steps ``first`` to ``last`` of a chain."""
    rng = np.random.default_rng(first)
    state = codec.restore(path) if first else {"w": np.ones((30, 40), np.float32)}
    with codec.Checkpointer(path, resume=first > 0) as chain:
        for step in range(first, last + 1):
            state["w"] = state["w"] + 0.1 * rng.normal(size=(30, 40)).astype(np.float32) ** 3
            chain.save(step, state)
    return path


def inspecting(tab: MakeTab, path: Path | None = None, **options: Any) -> Any:
    visitor = tab(**options).open("/inspect")
    visitor.expecting(visitor.page.get_by_text("Exponents over time")).to_be_visible()
    visitor.page.get_by_text("Open a path or archive").click()
    visitor.settled()
    if path is not None:
        box = visitor.page.get_by_role("textbox", name="Path on this machine")
        box.fill(str(path))
        box.press("Enter")
        visitor.expecting(visitor.page.get_by_text(f"This is {path.name}")).to_be_visible()
    return visitor


def test_one_step_is_on_the_first_screen(tab: MakeTab) -> None:
    visitor = tab(width=1280).open("/inspect")
    visitor.expecting(visitor.page.get_by_text("What step 600 changes")).to_be_visible()
    visitor.check_on_first_screen(visitor.figure("tensors"))
    visitor.check()


def test_it_follows_what_another_process_writes(tab: MakeTab, tmp_path: Path) -> None:
    path = save(tmp_path / "run.lcc", 0, 5)
    visitor = inspecting(tab, path)
    page = visitor.page
    steps = page.get_by_test_id("stMetric").filter(has_text="Steps").first
    visitor.expecting(steps).to_contain_text("0 to 5")
    slider = page.get_by_role("slider", name="Step")
    slider.press("ArrowLeft")
    visitor.expecting(page.get_by_text("What step 4 changes").first).to_be_visible()
    visitor.expecting(page).to_have_url(re.compile(r"inspect_path=.*inspect_step=4"))

    save(path, 6, 8)  # the page finds out by itself
    visitor.expecting(steps).to_contain_text("0 to 8")
    visitor.expecting(page.get_by_text("What step 4 changes").first).to_be_visible()
    page.get_by_role("button", name="Show the newest").click()
    visitor.expecting(slider).to_have_attribute("max", "8")
    visitor.expecting(page.get_by_text("What step 4 changes").first).to_be_visible()

    page.get_by_text("Follow the newest step").click()
    visitor.expecting(page.get_by_text("What step 8 changes").first).to_be_visible()
    save(path, 9, 9)
    visitor.expecting(page.get_by_text("What step 9 changes").first).to_be_visible()

    page.get_by_role("button", name="Verify", exact=True).click()
    visitor.expecting(page.get_by_text("Verified: 10 records")).to_be_visible()
    visitor.check_fits()
    visitor.check()


def test_an_upload(tab: MakeTab, tmp_path: Path) -> None:
    codec.Chain(save(tmp_path / "run.lcc", 0, 3)).pack(tmp_path / "mine.lcc.zip")
    (tmp_path / "evil.zip").write_bytes(b"no archive at all")
    visitor = inspecting(tab, color_scheme="dark")
    page = visitor.page
    chooser = page.locator(".st-key-inspect-where input[type=file]")
    page.get_by_text("Open a path or archive").click()
    chooser.set_input_files(tmp_path / "mine.lcc.zip")
    visitor.expecting(page.get_by_text("the uploaded archive mine.lcc.zip")).to_be_visible()
    visitor.expecting(page.get_by_text("What step 3 changes").first).to_be_visible()
    # To another page and back: it is still there, and can be closed.
    page.get_by_role("link", name="Export").click()
    visitor.expecting(page.get_by_text("Use it elsewhere")).to_be_visible()
    page.get_by_role("link", name="Inspect").click()
    visitor.expecting(page.get_by_text("What step 3 changes").first).to_be_visible()
    page.get_by_role("button", name="Close the upload").click()
    visitor.expecting(page.get_by_text("the chain of the example run")).to_be_visible()
    chooser.set_input_files(tmp_path / "evil.zip")
    visitor.expecting(page.get_by_text("is not a readable .lcc.zip")).to_be_visible()
    visitor.check()
