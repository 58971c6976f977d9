"""The command `lcviz`. It imports only what the command needs, so that --help answers at once.

Exit codes: 0 done; 1 the data or the disk does not allow it; 2 wrong use, or a part of lcviz is not
installed; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

DISTRIBUTION = "lcviz-checkpoint"
TOOLS = {
    "receipt": "Check a receipt of the dashboard against its archive.",
    "report": "Write the figures of a chain as one file.",
    "play": "Write Live and Learn as one file that computes everything itself.",
    "codec": "Inspect, check, make and maintain LC-Checkpoint chains.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, or open the dashboard; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    first = words[0] if words else ""
    try:
        if first == "codec":
            from codec.cli.main import main as codec_main

            return codec_main(words[1:], "lcviz codec")
        if first in TOOLS:
            from . import tools

            return tools.main(words)
        if first and not first.startswith("-"):
            print(f"error: no command {first!r}; lcviz --help lists them", file=sys.stderr)
            return 2
        options = _parser().parse_args(words)
        from . import serve

        return serve.serve(options)
    except ModuleNotFoundError as exc:
        missing = (exc.name or "").partition(".")[0]
        if missing in ("codec", "demo_models", "lcviz"):
            raise
        print(
            f"error: {missing} is not installed. This command needs the dashboard's packages: "
            f"pip install '{DISTRIBUTION}[dashboard]', in a checkout pip install '.[dashboard]'",
            file=sys.stderr,
        )
        return 2


def _parser() -> argparse.ArgumentParser:
    """The options of the dashboard, and in its help the commands."""
    tools = "\n".join(
        f"  {name:9}{about[:1].lower()}{about[1:].rstrip('.')}" for name, about in TOOLS.items()
    )
    parser = argparse.ArgumentParser(
        prog="lcviz",
        usage="lcviz [options]\n       lcviz COMMAND …",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compressed checkpoints (LC-Checkpoint), live. Without a command, the "
        "dashboard opens in\nyour browser.",
        epilog=f"commands:\n{tools}\n\nlcviz COMMAND --help explains a command.",
    )
    parser.add_argument(
        "--run",
        nargs="+",
        metavar="PATH",
        help="open on these chains, or on all chains in a folder, and follow them as they grow",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="the folder with data sets that are not built in",
    )
    parser.add_argument(
        "--port", type=int, help="the server's port (default: 8501, or the next one that is free)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="the address that the server listens on (default: 127.0.0.1, for this machine alone); "
        "0.0.0.0 opens it to everyone who can reach this machine: they can train models on it, and "
        "see what --run names",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="start the server, and open no browser"
    )
    return parser
