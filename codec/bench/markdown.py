"""Measurements as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .samples import size_name
from .scaling import line
from .tasks import ACTIONS

DASH = "–"


def report(result: Mapping[str, Any]) -> str:
    """Everything that `bench.collect` found, as Markdown."""
    return heading(result) + "\n" + body(result)


def body(result: Mapping[str, Any]) -> str:
    """The tables, each under a heading."""
    parts = [case(found) for found in result["cases"]]
    if result["lc_checkpoint"]:
        parts.append(lc_checkpoint(result["lc_checkpoint"]))
    if result["growth"]:
        parts.append(growth(result["growth"]))
    if result["memory"]:
        parts.append(memory(result["memory"]))
    if result["cold_start"]:
        parts.append(cold_start(result["cold_start"]))
    notes = list(dict.fromkeys(note for c in result["cases"] for note in c["notes"]))
    if notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in notes) + "\n")
    return "\n".join(parts)


def heading(result: Mapping[str, Any]) -> str:
    """Date, machine, versions and the command."""
    m = result["machine"]
    memory_text = f"{m['memory'] / 2**30:.0f} GiB of memory" if m["memory"] else "memory unknown"
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    return (
        f"On {result['date']}: {m['cpu']}, {m['cores']} processors, {memory_text}, {m['system']}; "
        f"{versions}. {result['threads']} threads.\n\n    {result['command']}\n"
    )


def case(found: Mapping[str, Any]) -> str:
    """One kind of data at one size."""
    lines = [
        f"## {size_name(found['n'])} parameters of {found['data']}",
        "",
        f"{found['n']:,} parameters, {100 * found['zeros']:.2f} % of the quantized delta zero, "
        f"{found['levels']} levels, entropy of single values {bits(found['entropy'])} bits per "
        f"parameter{_shuffled(found)}. Medians of {found['rounds']} rounds.",
        "\n",
    ]
    columns = ["", "bits per parameter", *(f"{a}, GB/s" for a in ACTIONS)]
    columns += [f"{a} ÷ copy" for a in ACTIONS]
    rows = []
    for name, tool in found["tools"].items():
        # a copy is one action, shown under the first
        done = [tool.get(a, tool.get("copy") if a == ACTIONS[0] else None) for a in ACTIONS]
        rows.append(
            [name, bits(tool["bits"]) if "bits" in tool else DASH]
            + [speed(d["gbs"]) if d else DASH for d in done]
            + [speed(d["to_copy"]) if d else DASH for d in done]
        )
    return "\n".join(lines) + table(columns, rows)


def lc_checkpoint(found: Mapping[str, Any]) -> str:
    """The package lc_checkpoint compared with ours, on few elements."""
    text = f"## The package lc_checkpoint, {found['n']:,} elements of lap:3\n\n"
    rows = [
        [
            name,
            bits(f["bits"]),
            f"{1e3 * f['encode']:.1f}",
            f"{1e3 * f['decode']:.1f}",
            f"{100 * f['error']:.2f} %",
        ]
        for name, f in (("ours", found["ours"]), ("lc_checkpoint", found["theirs"]))
        if f
    ]
    head = ["", "bits per parameter", "encode, ms", "decode, ms", "lost, of the delta's norm"]
    problem = f"\nlc_checkpoint gave no result: {found['problem']}\n" if found["problem"] else ""
    return text + table(head, rows) + problem


def growth(rows: Sequence[Mapping[str, Any]]) -> str:
    """Time and memory by the number of parameters."""
    actions = list(rows[0]["ns"])
    head = ["parameters", *(f"{a}, ns a parameter" for a in actions)]
    head += [*(f"{a} ÷ copy" for a in actions if a != "copy"), "extra bytes a parameter"]
    body = [
        [
            size_name(row["n"]),
            *(f"{row['ns'][a]:.3f}" for a in actions),
            *(speed(row["to_copy"][a]) for a in actions if a != "copy"),
            extra(row["extra"]),
        ]
        for row in rows
    ]
    text = "## Growth\n\n" + table(head, body)
    if len(rows) < 3:
        return text
    fits = {a: line([r["n"] for r in rows], [r["ns"][a] for r in rows]) for a in actions}
    lines = [
        f"{a} {fixed:.2f} ms and {ns:.3f} ns a parameter (off by {off:.0%} at most)"
        for a, (fixed, ns, off) in fits.items()
    ]
    return f"{text}\nAs straight lines: {'; '.join(lines)}.\n"


def memory(rows: Sequence[Mapping[str, Any]]) -> str:
    """Peak memory of the first encoding."""
    body = [[f"{size_name(r['n'])} {r['data']}", r["coder"], extra(r["extra"])] for r in rows]
    head = ["", "coder", "extra bytes a parameter"]
    return "## Memory while encoding, beyond the state and its track\n\n" + table(head, body)


def cold_start(rows: Sequence[Mapping[str, Any]]) -> str:
    """Seconds of new processes."""
    head = ["numba's cache", "what", "import codec, s", "then, s", "together, s"]
    body = []
    for r in rows:
        times = (r["import"], r["seconds"], r["import"] + r["seconds"])
        body.append([r["cache"], r["what"], *(f"{seconds:.2f}" for seconds in times)])
    return "## Cold start\n\n" + table(head, body)


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


def speed(value: float) -> str:
    """Two decimals, or two digits below 0.1."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def bits(value: float) -> str:
    """Bits per parameter: three decimals, or three digits below 0.1."""
    return f"{value:.3f}" if value >= 0.1 else f"{value:.3g}"


def extra(value: float | None) -> str:
    """Bytes per parameter, if they could be measured."""
    return "not measured" if value is None else f"{value:.2f}"


def _shuffled(found: Mapping[str, Any]) -> str:
    if not found["shuffled"]:
        return ""
    sizes = (f"{coder} {bits(size)}" for coder, size in found["shuffled"].items())
    return f"; in random order {', '.join(sizes)}"
