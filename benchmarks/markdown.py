"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up."""
    cells = [list(head), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in cells
    ]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "".join(f"| {line} |\n" for line in lines)
