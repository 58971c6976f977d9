"""The pictures of a run on Live, by pointer; each is copied as a PNG."""

import base64
import io
import re
from typing import Any

from PIL import Image

from tests.browser.states import MakeTab

READ = """async () => {
    const [item] = await navigator.clipboard.read();
    const blob = await item.getType("image/png");
    const bytes = new Uint8Array(await blob.arrayBuffer());
    return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""));
}"""
NO_CLIPBOARD = "() => { navigator.clipboard.write = () => Promise.reject(new Error()) }"
BARS, RIM = "g.bars > g", "g.bars > g:has(rect[stroke-width='3'])"


def opened(tab: MakeTab) -> tuple[Any, Any, Any]:
    """A tab where a weight is followed; its page; the place of the followed weight's name."""
    visitor = tab(width=1280).open("/?iterations=600&speed=full&weight=linear.weight:1234")
    visitor.page.get_by_role("button", name="Start live training").click()
    status = visitor.page.locator("[data-picture=headline]")
    visitor.expecting(status).to_contain_text("iteration 600 of 600, finished")
    followed = visitor.page.locator("[data-title='One weight'] .about")
    visitor.expecting(followed).to_have_text("linear.weight (1, 450)")
    visitor.settled()
    return visitor, visitor.page, followed


def picture(page: Any, name: str) -> Any:
    return page.locator(f"[data-picture={name}]")


def test_by_pointer(tab: MakeTab) -> None:
    """All pictures are on the first screen; a click in one follows a weight in the others."""
    visitor, page, followed = opened(tab)
    expecting = visitor.expecting
    for name in ("headline", "weights", "bits", "examples"):
        visitor.check_on_first_screen(picture(page, name))
    visitor.check_on_first_screen(page.locator("[data-picture=curves][data-title=Loss]"))
    weights, buckets, bits = (picture(page, name) for name in ("weights", "buckets", "bits"))
    headline = picture(page, "headline")
    visitor.check_on_first_screen(buckets)

    # A try moves nothing.
    def places() -> list[float]:
        visitor.settled()
        box = headline.locator(".bar").bounding_box()
        return [box["x"], box["width"], buckets.bounding_box()["y"]]

    before = places()
    buckets.get_by_role("button", name="1", exact=True).click()
    back = page.get_by_role("button", name="Back", exact=True)
    expecting(back).to_be_visible()
    assert places() == before
    expecting(headline).to_contain_text("only a try: the run has 2 bits")
    saved = page.get_by_text("Saved as you try")
    expecting(saved.first).to_be_visible()
    back.click()
    expecting(back).to_be_hidden()
    expecting(saved).to_have_count(0)

    # The losses without a bucket are measured when somebody asks for them.
    buckets.get_by_role("button", name="error without it").click()
    expecting(buckets.locator("p.text")).to_contain_text("the loss is")
    first = buckets.locator(BARS).first
    assert first.get_attribute("data-quantity") == "error-without-bucket"
    assert 0 < float(first.get_attribute("data-value")) <= 1
    first.hover()
    expecting(buckets.locator(".told")).to_contain_text("loss without it")

    # Pixel, bar and code word follow a weight.
    image = weights.locator(".map")
    size = image.bounding_box()
    across, down = size["width"] / 144, size["height"] / 57  # ten tiles of 28 x 28, five in a row
    at = {"x": 10.5 * across, "y": 12.5 * down}
    image.hover(position=at)
    told = re.compile(r"δ = u − ũ = .*(bucket|no change)")
    expecting(weights.locator(".told")).to_contain_text(told)
    image.click(position=at)
    expecting(followed).to_have_text(f"linear.weight (0, {12 * 28 + 10})")
    expecting(page).to_have_url(re.compile(rf"weight=linear.weight%3A{12 * 28 + 10}"))
    visitor.settled()
    first.click()
    expecting(buckets.locator(RIM)).to_have_attribute("data-of", first.get_attribute("data-of"))
    visitor.settled()
    before = followed.inner_text()
    word = bits.locator(".row > span:not(.here):not(.none)").last
    word.hover()
    expecting(weights.locator(".ring.at")).to_be_visible()  # its pixel
    word.click()
    expecting(followed).not_to_have_text(before)
    expecting(bits.locator(".row > .here")).to_have_count(1)
    weights.get_by_role("button", name="difference").click()
    meaning = weights.get_by_text("the base plus all deltas")
    expecting(meaning).to_be_hidden()
    weights.get_by_role("button", name="track").click()
    expecting(meaning).to_be_visible()

    # Copied as a PNG; where there is no clipboard it is a file.
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for figure, colour in ((weights, (0, 114, 178)), (bits, (22, 22, 21))):
        figure.hover()
        button = figure.get_by_role("button", name="as picture")
        button.click()
        expecting(button).to_have_attribute("title", "Copied")
        copied = Image.open(io.BytesIO(base64.b64decode(page.evaluate(READ)))).convert("RGB")
        assert copied.width == 3 * (figure.evaluate("figure => figure.clientWidth") + 24)
        shades = {shade for _, shade in copied.getcolors(2**24)}
        assert colour in shades  # of weights that go down, and of code words
    page.evaluate(NO_CLIPBOARD)
    buckets.hover()
    with page.expect_download() as download:
        buckets.get_by_role("button", name="as picture").click()
    assert download.value.suggested_filename == "Buckets.png"
    with Image.open(download.value.path()) as file:
        assert file.format == "PNG"
    visitor.check()
