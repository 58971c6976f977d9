"""The outputs in examples/notebook.ipynb are what its code gives. To write them anew:

PYTHONPATH=. python tests/examples/test_notebook.py
"""

from __future__ import annotations

import ast
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import codec

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def outputs(cells: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Run the cells in the current folder; returns the outputs of each, as a notebook has them."""
    names: dict[str, Any] = {}
    results: list[list[dict[str, Any]]] = []
    for cell in cells:
        if cell["cell_type"] != "code":
            results.append([])
            continue
        *body, last = ast.parse("".join(cell["source"])).body
        if not isinstance(last, ast.Expr):
            body, value = [*body, last], None
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        results.append([] if value is None else [_output(value)])
    return results


def _output(value: object) -> dict[str, Any]:
    data = {"text/plain": repr(value)}
    return {"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data}


def test_the_notebook_shows_what_its_code_gives(tmp_path: Path) -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        results = outputs(cells)
    finally:
        os.chdir(before)
    assert [cell.get("outputs", []) for cell in cells] == results


if __name__ == "__main__":
    codec.warm_up()  # numpy alone codes larger models in another way
    content = json.loads(NOTEBOOK.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for cell, result in zip(content["cells"], outputs(content["cells"]), strict=True):
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = result, None
    NOTEBOOK.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")
