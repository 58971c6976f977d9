"""What may follow `streamlit run app.py --`: the runs to watch.

    streamlit run app.py -- --run run.lcc
    streamlit run app.py -- --run runs --run other/run.lcc

Read once, when the first page is asked for. Nothing here ends the process: what is wrong is a
sentence for the page. Not done here: looking whether anything lies there (watching).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from codec.console import Parser, UsageError

USAGE = "After the -- of “streamlit run app.py --” stands --run PATH, as often as you like"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*:/.*", re.DOTALL)  # may hold secrets, to its very end


@dataclass(frozen=True)
class Asked:
    """runs: paths or URLs as they were given, each once. problem: a sentence, or ""."""

    runs: tuple[str, ...] = ()
    problem: str = ""


def asked(arguments: Sequence[str]) -> Asked:
    """What these arguments ask for; of what is wrong nothing is taken."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--run", nargs="+", action="extend", default=[])
    parser.add_argument("more", nargs="*")  # what one types without --run can mean only that
    try:
        found = parser.parse_args(list(arguments))
        runs = [run.strip() for run in (*found.run, *found.more)]
        if not all(runs):
            parser.error("argument --run: an empty path")
    except UsageError as exc:
        said = _URL.sub("…", str(exc))
        return Asked(problem=f"These arguments are not understood: {said}. {USAGE}.")
    return Asked(tuple(dict.fromkeys(runs)))
