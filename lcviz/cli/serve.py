"""Opens the dashboard, as `streamlit run app.py` does."""

from __future__ import annotations

import argparse
import os
from importlib.util import find_spec
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "start" / "app.py"  # its folder has Streamlit's settings


def serve(options: argparse.Namespace) -> int:
    """Serve the dashboard until it is interrupted.

    options: run, data, port, host and no_browser, as the command line has them.

    Raises:
        ModuleNotFoundError: A package of the extra `dashboard` is missing.
    """
    # The server imports them only after it has started: a missing one is reported before.
    for package in ("pandas", "plotly", "scipy", "sklearn", "torch"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    from lcviz.server import heap

    heap.use_few()  # before Streamlit starts threads
    from streamlit.web import cli

    if options.data is not None:
        from demo_models import FOLDER_VARIABLE  # with torch: slow

        os.environ[FOLDER_VARIABLE] = os.fspath(options.data.absolute())
    settings = {
        "server.address": options.host,
        "server.headless": str(options.no_browser).lower(),
        "server.showEmailPrompt": "false",
    }
    if options.port is not None:
        settings["server.port"] = str(options.port)
    flags = [f"--{name}={value}" for name, value in settings.items()]
    paths = ["--", "--run", *options.run] if options.run else []
    cli.main(["run", *flags, os.fspath(SCRIPT), *paths], standalone_mode=False)
    return 0
