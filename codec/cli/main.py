"""Command line: python -m codec COMMAND …; python -m codec COMMAND --help says more.

RUN is a run.lcc directory, a .lcc.zip or the URL of one; the URL's filesystem takes its credentials
from the environment. Exit codes: 0 all is well; 1 data is damaged or could not be written; 2 wrong
use; 3 the newest checkpoint is damaged, and an older one is named; 130 interrupted. With --json,
standard output gets one JSON object: the answer, or {"error": …}.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from codec import console
from codec.console import BAD_DATA, WRONG_USE, Parser
from codec.errors import LccError, SettingsError, StepNotFoundError, StepOrderError
from codec.scheme.coders import CODERS
from codec.scheme.coding import DEFAULT_DISTANCE, QUANTIZERS, SCOPES, UNSET
from codec.storage.location import local_path

from . import commands
from .commands import Command

PROGRAM = "python -m codec"
OR_STEP = "; or a step of a distributed checkpoint, or the directory of its steps"
EXIT_CODES: dict[type[Exception], int] = {
    SettingsError: WRONG_USE,
    StepNotFoundError: WRONG_USE,
    StepOrderError: WRONG_USE,
    LccError: BAD_DATA,
}


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run one command; returns the exit code and never shows a traceback for a user's mistake.

    program: how the user has called it.
    """

    def command() -> int:
        options = _parser(program).parse_args(arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # shown below, also under python -W error
            warnings.showwarning = lambda message, *_args, **_kw: console.say(str(message))
            return int(options.command(options))

    return console.run(command, arguments, EXIT_CODES)


def _parser(program: str = PROGRAM) -> Parser:
    parser = Parser(
        prog=program,
        description="Inspect, check, make and maintain LC-Checkpoint chains.",
        epilog=f"{program} COMMAND --help explains a command.",
    )
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    info = _with_run(sub, commands.info, OR_STEP)
    info.add_argument(
        "--tensors", action="store_true", help="list the tensors of a step, by name, instead"
    )
    _step(info, "the step of a chain whose tensors are listed (default: the newest)")
    _with_run(sub, commands.verify, OR_STEP)
    restore = _with_run(sub, commands.restore, OR_STEP)
    _step_and_output(restore, "the .safetensors or .pt file to write; with --all a folder")
    restore.add_argument(
        "--all", choices=("safetensors", "pt"), help="write all steps, as files of this kind"
    )
    compact = _with_run(sub, commands.compact, OR_STEP)
    compact.add_argument(
        "--keep-steps", type=int, default=1, help="newest steps that still restore (default: 1)"
    )
    pack = _with_run(sub, commands.pack)
    _output(pack, "the .lcc.zip to write")
    unpack = _with_run(sub, commands.unpack)
    unpack.add_argument("-o", "--output", required=True, help="a directory without records")
    guard = _command(sub, commands.guard)
    guard.add_argument(
        "path", type=_local_path, help="a .safetensors or .pt file, or a distributed checkpoint"
    )
    guard.add_argument(
        "--newest",
        action="store_true",
        help="print the newest intact checkpoint in a folder",
    )
    guard.add_argument("--json", action="store_true", help="answer as one JSON object")
    _add_compress_options(_command(sub, commands.compress))
    return parser


def _add_compress_options(parser: Parser) -> None:
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="a .safetensors or .pt file (read with weights_only); its step is the last whole "
        "number that all names have in the same place",
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        metavar="N,N,…",
        help="the steps, in the order of the files; 'order' for 0, 1, 2…",
    )
    parser.add_argument("-o", "--output", required=True, metavar="RUN", help="the run.lcc to write")
    parser.add_argument("--json", action="store_true", help="answer as one JSON object")
    parser.add_argument(
        "--distance",
        type=float,
        help="the share of a change that a delta may leave for the next one (default: "
        f"{DEFAULT_DISTANCE:g})",
    )
    parser.add_argument(
        "--bits",
        type=_bits,
        default=UNSET,
        help="instead of --distance: the bits of priority promotion, 1 to 8, or all",
    )
    parser.add_argument(
        "--budget",
        type=float,
        help="instead of --distance: the largest delta, as a share of the lossy tensors' float32 "
        "size",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        help="instead of --distance: the largest error of a saved value",
    )
    parser.add_argument(
        "--quantizer",
        choices=QUANTIZERS,
        help="exponent buckets (the paper) or uniform steps (default: exponent with --bits, "
        "uniform otherwise)",
    )
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        help="one alphabet for the whole model or for each tensor (default: model)",
    )
    parser.add_argument("--coder", choices=CODERS, help="lossless code (default: runlength)")
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="PATTERN=KIND",
        help="lossy, exact, skip, distance=D, tolerance=T or bits=X for the names that match; a "
        "pattern that ends in ? may match nothing; may be repeated",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue an existing chain, with its settings where none are given, by the files "
        "whose steps come after its newest; others are skipped",
    )


def _command(sub: argparse._SubParsersAction[Parser], command: Command) -> Parser:
    about = command.__doc__ or ""
    parser = sub.add_parser(command.__name__, help=about.partition("\n")[0], description=about)
    parser.set_defaults(command=command)
    return parser


def _with_run(sub: argparse._SubParsersAction[Parser], command: Command, more: str = "") -> Parser:
    parser = _command(sub, command)
    parser.add_argument(
        "run", metavar="RUN", help=f"a run.lcc directory, a .lcc.zip, or its URL{more}"
    )
    parser.add_argument("--json", action="store_true", help="answer as one JSON object")
    return parser


def _step_and_output(parser: Parser, file: str) -> None:
    _step(parser, "the step of a chain (default: the newest)")
    parser.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="of a chain, read and write only the tensors and values with matching names, as "
        "'model/*'; may be repeated; info --tensors lists the names",
    )
    _output(parser, file)


def _step(parser: Parser, about: str) -> None:
    parser.add_argument("--step", type=int, help=about)


def _output(parser: Parser, file: str) -> None:
    parser.add_argument("-o", "--output", type=_local_path, required=True, help=file)


def _local_path(text: str) -> Path:
    try:
        return local_path(text)
    except SettingsError as exc:  # argparse shows the texts only of its parser errors
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _steps(text: str) -> list[int] | str:
    try:
        return text if text == "order" else [int(step) for step in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"steps are whole numbers with commas between them, or 'order'; got {text!r}"
        ) from None


def _bits(text: str) -> int | None:
    return None if text == "all" else int(text)


if __name__ == "__main__":
    sys.exit(main())
