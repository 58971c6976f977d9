"""Inspect in a browser: a chain that this process writes while the page looks at it."""

import re
from pathlib import Path

import codec
from tests.browser.states import MakeTab, Save


def test_it_follows_what_another_process_writes_and_opens_an_upload(
    tab: MakeTab, save: Save, tmp_path: Path
) -> None:
    path = save(tmp_path / "run.lcc", 0, 5)
    codec.Chain(path).pack(tmp_path / "mine.lcc.zip")
    (tmp_path / "evil.zip").write_bytes(b"no archive at all")
    visitor = tab(width=1280).open("/inspect")
    page, expecting = visitor.page, visitor.expecting
    visitor.title(re.compile(r"^Inspect: 61 steps in .* kB, all whole; a restart misses .* %"))
    visitor.check_on_first_screen(visitor.figure("value"))
    # A word is explained where it stands; the glossary opens in another tab.
    word = page.get_by_role("link", name="deltas", exact=True).first
    expecting(word).to_have_attribute("title", re.compile("what has to be saved"))
    with page.context.expect_page() as other:
        word.click()
    asked = other.value.locator(".st-key-glossary-asked")
    expecting(asked).to_contain_text("what has to be saved")
    other.value.close()

    page.get_by_text("Open a path or archive").click()
    visitor.settled()
    box = page.get_by_role("textbox", name="Path on this machine")
    box.fill(str(path))
    box.press("Enter")
    steps = page.locator(".st-key-inspect-facts")
    expecting(steps).to_contain_text(f"{path.name}: steps 0 to 5")
    visitor.settled()
    slider = page.get_by_role("slider", name="Step")
    slider.press("ArrowLeft")

    def changes(step: int) -> None:
        expecting(page.get_by_text(f"What step {step} changes").first).to_be_visible()

    changes(4)
    expecting(page).to_have_url(re.compile(r"inspect_path=.*inspect_step=4"))
    save(path, 6, 8)  # the page finds out by itself
    expecting(steps).to_contain_text("0 to 8")
    changes(4)
    page.get_by_role("button", name="Show the newest").click()
    expecting(slider).to_have_attribute("max", "8")
    changes(4)
    visitor.settled()
    page.get_by_text("Follow the newest step").click()
    changes(8)
    save(path, 9, 9)
    changes(9)
    page.get_by_role("button", name="Verify", exact=True).click()
    expecting(page.get_by_text("Verified: 10 records")).to_be_visible()
    visitor.check_fits()

    chooser = page.locator(".st-key-inspect-where input[type=file]")
    uploaded = page.get_by_text("The uploaded archive mine.lcc.zip")
    visitor.upload(chooser, tmp_path / "mine.lcc.zip")
    expecting(uploaded).to_be_visible()
    expecting(steps).to_contain_text("0 to 5")
    page.get_by_role("button", name="Close the upload").click()
    expecting(uploaded).to_have_count(0)
    unreadable = page.get_by_text("is not a readable .lcc.zip")
    visitor.upload(chooser, tmp_path / "evil.zip")
    expecting(unreadable).to_be_visible()
    visitor.check()
