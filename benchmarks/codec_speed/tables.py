"""Measurements as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import table

from .samples import size_name
from .scaling import fit_line
from .tasks import ACTIONS

DASH = "–"


def heading(measured: Mapping[str, Any]) -> str:
    """Date, machine, versions and the command."""
    m = measured["machine"]
    memory_text = f"{m['memory'] / 2**30:.0f} GiB of memory"
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    return (
        f"On {measured['date']}: {m['cpu']}, {m['cores']} processors, {memory_text}, "
        f"{m['system']}; {versions}. {measured['threads']} threads.\n\n    {measured['command']}\n"
    )


def body(measured: Mapping[str, Any]) -> str:
    """The tables, each under a heading."""
    parts = [case_table(case) for case in measured["cases"]]
    if measured["lc_checkpoint"]:
        parts.append(lc_checkpoint(measured["lc_checkpoint"]))
    if measured["growth"]:
        parts.append(growth(measured["growth"]))
    if measured["memory"]:
        parts.append(memory(measured["memory"]))
    if measured["cold_start"]:
        parts.append(cold_start(measured["cold_start"]))
    notes = list(dict.fromkeys(note for case in measured["cases"] for note in case["notes"]))
    if notes:
        parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in notes) + "\n")
    return "\n".join(parts)


def case_table(case: Mapping[str, Any]) -> str:
    """One kind of data at one size."""
    lines = [
        f"## {size_name(case['n'])} parameters of {case['data']}",
        "",
        f"{case['n']:,} parameters, {100 * case['zeros']:.2f} % of the quantized delta zero, "
        f"{case['levels']} levels, entropy of single values {bits(case['entropy'])} bits per "
        f"parameter{_shuffled(case)}. Medians of {case['rounds']} rounds.",
        "\n",
    ]
    columns = ["", "bits per parameter", *(f"{a}, GB/s" for a in ACTIONS)]
    columns += [f"{a} ÷ copy" for a in ACTIONS]
    rows = []
    for name, tool in case["tools"].items():
        # a copy is one action, shown under the first
        timings = [tool.get(a, tool.get("copy") if a == ACTIONS[0] else None) for a in ACTIONS]
        rows.append(
            [name, bits(tool["bits"]) if "bits" in tool else DASH]
            + [speed(timing["gbs"]) if timing else DASH for timing in timings]
            + [speed(timing["to_copy"]) if timing else DASH for timing in timings]
        )
    return "\n".join(lines) + table(columns, rows)


def lc_checkpoint(comparison: Mapping[str, Any]) -> str:
    """The package lc_checkpoint compared with our codec, on few elements."""
    text = f"## The package lc_checkpoint, {comparison['n']:,} elements of lap:3\n\n"
    rows = [
        [
            name,
            bits(figures["bits"]),
            f"{1e3 * figures['encode']:.1f}",
            f"{1e3 * figures['decode']:.1f}",
            f"{100 * figures['error']:.2f} %",
        ]
        for name, figures in (("ours", comparison["ours"]), ("lc_checkpoint", comparison["theirs"]))
        if figures
    ]
    head = ["", "bits per parameter", "encode, ms", "decode, ms", "lost, of the delta's norm"]
    reason = comparison["problem"]
    problem = f"\nlc_checkpoint gave no result: {reason}\n" if reason else ""
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
    fits = {a: fit_line([r["n"] for r in rows], [r["ns"][a] for r in rows]) for a in actions}
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


def speed(value: float) -> str:
    """Two decimals, or two digits below 0.1."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def bits(value: float) -> str:
    """Bits per parameter: three decimals, or three digits below 0.1."""
    return f"{value:.3f}" if value >= 0.1 else f"{value:.3g}"


def extra(value: float | None) -> str:
    """Bytes per parameter, if they could be measured."""
    return "not measured" if value is None else f"{value:.2f}"


def _shuffled(case: Mapping[str, Any]) -> str:
    if not case["shuffled"]:
        return ""
    sizes = (f"{coder} {bits(size)}" for coder, size in case["shuffled"].items())
    return f"; in random order {', '.join(sizes)}"
