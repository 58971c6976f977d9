"""The outputs of commands that pages quote, made anew.

    PYTHONPATH=. python tests/docs/outputs.py

A block ```console of a page holds commands, each after "$ ". They run one after another on the
chain that the README's loop saves. The script writes below each what it prints now.
"""

import random
import re
import shlex
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from io import StringIO

import numpy as np

from codec.cli.main import main
from tests.docs.pages import PATHS, ROOT, TEXTS

BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)


def with_outputs(text: str) -> str:
    """A page's text with what its quoted commands print now."""
    loop = "\n".join(re.findall(r"```python\n(.*?)```", TEXTS["README.md"], re.DOTALL))
    random.seed(0)  # the loop saves their states, whose text may be longer
    np.random.seed(0)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        exec(compile(loop, "README.md", "exec"), {})
        return BLOCK.sub(lambda block: "".join(map(_session, _commands(block[0]))), text)


def _commands(block: str) -> list[str]:
    return re.findall(r"^\$ python -m codec (.*)$", block, re.MULTILINE)


def _session(command: str) -> str:
    """A command and what it prints on standard output."""
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(StringIO()), suppress(SystemExit):
        main(shlex.split(command))
    return f"$ python -m codec {command}\n{printed.getvalue()}"


if __name__ == "__main__":
    for path in PATHS:
        before = path.read_text("utf-8")
        if BLOCK.search(before) and (after := with_outputs(before)) != before:
            path.write_text(after, "utf-8")
            print(f"{path.relative_to(ROOT)}: renewed")
