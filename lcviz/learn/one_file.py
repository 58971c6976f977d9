"""The Learn page as one HTML file that needs no server and no network."""

from __future__ import annotations

import json

from lcviz.ui import picture

from .numbers import TRACK, TRAINED, read_numbers
from .pictures import HEADING, Start, learn_picture

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{
  color-scheme: light dark;
  --st-font: system-ui, sans-serif;
  --st-code-font: ui-monospace, monospace;
  --st-text-color: #161615;
  --st-background-color: #fff;
}}
@media (prefers-color-scheme: dark) {{
  :root {{ --st-text-color: #fafafa; --st-background-color: #0e1117; }}
}}
body {{ margin: 0; background: var(--st-background-color); }}
main {{ max-width: 1400px; margin: auto; padding: 0 1.2rem 1rem; }}
{style}
</style>
<main id="learn"></main>
<script type="module">
{script}
draw({{
  data: {data},
  parentElement: document.getElementById("learn"),
  setTriggerValue() {{}},
}});
</script>
</html>
"""


def learn_html() -> str:
    """The page with the example's ten numbers."""
    track, live = read_numbers(TRACK), read_numbers(TRAINED)
    lesson = learn_picture(track, live, live, Start(), alone=True)
    return _PAGE.format(
        title=HEADING,
        style=picture.style().replace(":host", ":root"),
        script=picture.drawing(lesson.name),
        data=json.dumps(lesson.data, allow_nan=False, separators=(",", ":")).replace("</", "<\\/"),
    )
