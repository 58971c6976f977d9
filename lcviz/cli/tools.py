"""The commands of `lcviz` that need torch: receipts, reports, pages as one file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from tqdm import tqdm

import codec
from codec import console
from codec.console import BAD_DATA, OK, WRONG_USE, Parser
from lcviz.export import receipt
from lcviz.lab.progress import Progress

EXIT_CODES: dict[type[Exception], int] = {
    codec.SettingsError: WRONG_USE,
    codec.LccError: BAD_DATA,
    receipt.ReceiptError: BAD_DATA,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one tool; returns the exit code. A user's mistake gives no traceback."""

    def command() -> int:
        options = _parser().parse_args(arguments)
        torch.set_num_threads(1)  # the same sums every time
        codec.warm_up()
        return int(options.run_tool(options))

    return console.run(command, arguments, EXIT_CODES)


def _check_receipt(options: argparse.Namespace) -> int:
    """Hash every record, rebuild every step, and compare them with the receipt."""
    try:
        stated = receipt.load(options.receipt.read_bytes())
        archive = options.archive or options.receipt.with_name(stated["archive"]["file"])
        data = archive.read_bytes()
    except OSError as exc:
        raise receipt.ReceiptError(f"{exc.filename} cannot be read: {exc.strerror}.") from exc
    with bar("checking", "step") as progress:
        problems = receipt.problems(stated, data, progress)
    if options.json:
        print(json.dumps({"ok": not problems, "archive": str(archive), "problems": problems}))
    else:
        for problem in problems:
            print(f"problem: {problem}")
        steps, records = len(stated["tracks"]), len(stated["records"])
        verdict = "DIFFERENT" if problems else "ok"
        print(f"{verdict}: {archive}, {len(data):,} bytes, {records} records, {steps} steps")
    return BAD_DATA if problems else OK


def _write_play(options: argparse.Namespace) -> int:
    """Write the play page as one file."""
    # Here, because it imports Streamlit, which other commands do not need.
    from lcviz.live.recorded_chain import recorded_chain
    from lcviz.play.one_file import play_html, recorded_html

    if options.run is None:
        return _write(options.output, play_html(options.seed))
    with bar("reading", "step") as progress:
        recorded = recorded_chain(options.run, progress)
    return _write(options.output, recorded_html(recorded))


def _write_report(options: argparse.Namespace) -> int:
    """Write the figures of a chain as one file."""
    # Here, because it imports Plotly, which other commands do not need.
    from lcviz.report.chain_figures import figures_of

    with bar("reading") as progress:
        figures = figures_of(options.chain, options.step, progress)
    exit_code = _write(options.output, figures.to_html())
    if exit_code == OK:
        console.say(f"{figures.verdict} {figures.warning}".rstrip())
    return exit_code


def _write(path: Path, page: str) -> int:
    """Write a page, and say where it is; returns the exit code."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as exc:
        console.say(f"{path} cannot be written: {exc.strerror}.")
        return BAD_DATA
    console.say(f"{path}: {len(page.encode()):,} bytes. Open it in a browser.")
    return OK


@contextmanager
def bar(title: str, unit: str = "it") -> Iterator[Progress]:
    """Show a progress bar on standard error; yields the function that moves it."""
    with tqdm(desc=title, unit=unit, leave=False, disable=None) as bar:

        def move(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield move


def _parser() -> Parser:
    parser = Parser(prog="lcviz", description="Tools of the dashboard.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, runs: object, summary: str | None, description: str | None) -> Parser:
        added: Parser = commands.add_parser(name, help=summary, description=description)
        added.set_defaults(run_tool=runs)
        return added

    check = command(
        "receipt",
        _check_receipt,
        "check a receipt of the dashboard against its archive",
        "Hashes the archive and its records, rebuilds every step, and compares them with the "
        "receipt.",
    )
    check.add_argument("receipt", type=Path, metavar="FILE", help="the receipt, a .json")
    archive_help = "the .lcc.zip (default: the one that the receipt names, in its folder)"
    check.add_argument("archive", type=Path, nargs="?", metavar="ARCHIVE", help=archive_help)
    check.add_argument("--json", action="store_true", help="answer as one JSON object")
    report = command(
        "report",
        _write_report,
        "write the figures of a chain as one file",
        "Sizes, exponents over time, buckets, code words, removed bucket, integrity and settings "
        "of a chain in one HTML file, without a server or a network. A damaged chain gets one too: "
        "it says which steps restore.",
    )
    report.add_argument("chain", metavar="CHAIN", help="a run.lcc, a .lcc.zip, or a URL")
    report.add_argument("-o", "--output", type=Path, default=Path("report.html"), metavar="FILE")
    step_help = "the step to show (default: the newest delta)"
    report.add_argument("--step", type=int, metavar="N", help=step_help)
    play = command(
        "play",
        _write_play,
        "write Live and Learn as one file that computes everything itself",
        "Live and Learn as one HTML file. It trains a model in the browser, saves it through the "
        "scheme and crashes it. Needs neither a server nor a network.",
    )
    play.add_argument("-o", "--output", type=Path, default=Path("play.html"), metavar="FILE")
    run_help = "a run.lcc, a .lcc.zip, or a URL: show this chain in place of a training"
    play.add_argument("--run", metavar="RUN", help=run_help)
    play.add_argument("--seed", type=_seed, default=0, metavar="N", help="of the training")
    return parser


def _seed(text: str) -> int:
    """A seed that the page's generator takes."""
    seed = int(text)
    if not 0 <= seed < 2**31:
        raise argparse.ArgumentTypeError(f"a seed is from 0 to {2**31 - 1:,}; got {text}")
    return seed
