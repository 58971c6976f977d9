"""JavaScript that computes, called in Node.js: only what is drawn needs a browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# That of requirements-dev.txt lies beside Python; any other one will do.
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
CALL = """
const finite = (_, value) => {
    if (typeof value === "number" && !Number.isFinite(value)) throw new Error(`${value}`);
    return value;
};
Promise.resolve((%s)(%s)).then(answer =>
    process.stdout.write(JSON.stringify(answer, finite), () => process.exit()));
"""


def in_node(scripts: Iterable[Path | str], function: str, argument: Any) -> Any:
    """What a function answers, which may be asynchronous.

    Args:
        scripts: Files, or their text, that run before it in one scope.
        function: Of one argument, as an expression.
        argument: JSON, as the answer is: without NaN and infinity.

    Raises:
        AssertionError: JavaScript raised an error; its text has the stack.
    """
    texts = [s if isinstance(s, str) else s.read_text("utf-8") for s in scripts]
    node = shutil.which("node", path=PATH)
    assert node is not None, "Node.js is missing: pip install -r requirements-dev.txt"
    done = subprocess.run(
        [node, "-"],
        input="".join(texts) + CALL % (function, json.dumps(argument, allow_nan=False)),
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
