"""The recording that a new server shows: pictures in which nothing can be used."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lcviz.ui import picture, recording

MakeTab = Callable[..., Any]
STYLE = Path(picture.__file__).parent / "pictures" / "pictures.css"
DRAW = """([name, data]) => {
    const id = `host-${name}`;
    const host = document.getElementById(id) ?? document.createElement("div");
    host.id = id;
    document.body.append(host);
    const nothing = () => {};
    const parts = { parentElement: host, setTriggerValue: nothing, setStateValue: nothing };
    window[`draw-${data.picture}`]({ data, ...parts });
}"""


def focused(page: Any) -> str:
    """What the Tab key comes to next."""
    page.keyboard.press("Tab")
    return str(page.evaluate("document.activeElement.tagName"))


def test_nothing_in_a_recording_can_be_used(tab: MakeTab) -> None:
    visitor = tab()
    page = visitor.page
    page.goto("about:blank")
    page.add_style_tag(path=STYLE)
    pictures = json.loads(recording.FILE.read_text())["pictures"]
    for name, data in pictures.items():
        draw = f"window['draw-{data['picture']}'] = function"
        script = picture.script(data["picture"]).replace("export default function", draw)
        page.add_script_tag(content=script, type="module")
        page.wait_for_function(f"() => window['draw-{data['picture']}']")
        page.evaluate(DRAW, [name, data | {"recorded": True}])
    images = page.get_by_role("img", name=re.compile("^A recording[.] "))
    visitor.expecting(images).to_have_count(len(pictures))
    assert {focused(page) for _ in range(20)} == {"BODY"}
    handle, choices = page.locator("circle.handle"), page.locator(".choices").first
    visitor.expecting(handle).to_be_hidden()
    visitor.expecting(choices).to_have_css("opacity", "0.45")
    # Once the pictures of a run come in their places, they can be used.
    for name, data in pictures.items():
        page.evaluate(DRAW, [name, data])
    visitor.expecting(images).to_have_count(0)
    visitor.expecting(handle).to_be_visible()
    visitor.expecting(choices).to_have_css("opacity", "1")
    assert {focused(page) for _ in range(20)} > {"circle", "BUTTON"}
