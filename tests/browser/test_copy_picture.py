"""Any of Live's numbered pictures is copied as a PNG, for a slide."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

from PIL import Image

MakeTab = Callable[..., Any]
READ = """async () => {
    const [item] = await navigator.clipboard.read();
    const blob = await item.getType("image/png");
    const bytes = new Uint8Array(await blob.arrayBuffer());
    return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""));
}"""


def test_pictures_are_copied(tab: MakeTab) -> None:
    visitor = tab().open("/?step=600")
    page, expecting = visitor.page, visitor.expecting
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    expecting(page.get_by_text("An example: ")).to_be_visible()
    visitor.settled()
    for name, colour in (("weights", (0, 114, 178)), ("bits", (0, 158, 115))):
        figure = page.locator(f"[data-picture={name}]")
        figure.hover()
        button = figure.get_by_role("button", name="as picture")
        button.click()
        expecting(button).to_have_attribute("title", "Copied")
        picture = Image.open(io.BytesIO(base64.b64decode(page.evaluate(READ)))).convert("RGB")
        assert picture.width == 3 * (figure.evaluate("figure => figure.clientWidth") + 24)
        colours = {shade for _, shade in picture.getcolors(2**24)}
        assert colour in colours  # of weights that go down, and of code words
    visitor.check()


def test_without_a_clipboard_it_is_a_file(tab: MakeTab) -> None:
    visitor = tab().open("/?step=600")
    page, expecting = visitor.page, visitor.expecting
    expecting(page.get_by_text("An example: ")).to_be_visible()
    visitor.settled()
    page.evaluate("() => { navigator.clipboard.write = () => Promise.reject(new Error()) }")
    figure = page.locator("[data-picture=buckets]")
    figure.hover()
    with page.expect_download() as saved:
        figure.get_by_role("button", name="as picture").click()
    assert saved.value.suggested_filename == "Buckets.png"
    with Image.open(saved.value.path()) as picture:
        assert picture.format == "PNG"
    visitor.check()
