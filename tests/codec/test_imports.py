"""The direction of imports, and the public surface."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import codec

ROOT = Path(codec.__file__).parent
ALLOWED = {"numpy", "numba", "llvmlite", "safetensors", "xxhash", "blake3", "filelock", "tqdm"}
TORCH = (ROOT / "state.py", ROOT / "files.py")  # alone know it...
DCP = ROOT / "dcp"  # ...and this package, where it is imported; nothing else of the codec does that
COMPILER = {"numba", "llvmlite"}

PUBLIC = """
ArchiveError Bucket Buckets Chain ChainError ChainNotFoundError Change Checkpointer CodeTableError
DTypeError DigestError Encoded ForeignRecordError Full Group InputError LccError LockedError
MalformedRecordError NonFiniteError ParentError PayloadError Quantized RecordError Replacement
Report Saved Scar SettingsError SkippedRecordWarning SourceError StateMismatchError Step
StepNotFoundError StepOrderError StreamError TopN TrackDigestError Tracker TruncatedRecordError
VanishedError VersionError WriteError apply compact decode dequantize encode merge quantize restore
set_threads threads verify warm_up
"""


def imported(node: ast.AST) -> set[str]:
    """Full names of modules imported anywhere below this node; relative imports left out."""
    names = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            names |= {alias.name for alias in child.names}
        elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
            names.add(child.module)
    return names


def relative(module: ast.AST) -> set[str]:
    """Modules of this package that are imported: "chain" where it says `from .chain import`."""
    froms = (n for n in ast.walk(module) if isinstance(n, ast.ImportFrom) and n.level)
    return {f"{n.module or ''}.{a.name}".lstrip(".") for n in froms for a in n.names}


def test_only_the_listed_packages() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        module = ast.parse(path.read_text())
        inside = {
            n for f in ast.walk(module) if isinstance(f, ast.FunctionDef) for n in imported(f)
        }
        outside = imported(module) - inside
        for name in imported(module):
            top = name.partition(".")[0]
            known = top in ALLOWED | sys.stdlib_module_names or path in TORCH
            assert known or (DCP in path.parents and top == "torch"), (path, name)
        if path.name != "kernels.py":  # numba's cache would not notice an edit elsewhere
            assert not COMPILER & {n.partition(".")[0] for n in imported(module)}, path
        torch = {n for n in imported(module) if "torch" in n}
        if DCP in path.parents:
            assert not inside
            continue
        assert not any(name.startswith("dcp") for name in relative(module)), path
        if path in TORCH:
            assert "torch" in torch
            assert torch <= {"torch", "safetensors.torch"}
            assert not torch & outside
            assert {n.partition(".")[0] for n in inside} <= {"torch", "safetensors"}
        else:
            assert not torch


def test_import_does_not_load_torch() -> None:
    code = "import sys, codec, codec.__main__; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_public_names() -> None:
    assert codec.__all__ == sorted(codec.__all__)
    assert sorted(codec.__all__) == sorted(PUBLIC.split())
    for name in codec.__all__:
        value = getattr(codec, name)
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            for member, function in inspect.getmembers(value, inspect.isfunction):
                if not member.startswith("_"):
                    assert inspect.getdoc(function), f"{name}.{member}"


def test_public_names_of_dcp() -> None:
    from codec import dcp

    assert dcp.__all__ == ["ChainReader", "ChainWriter", "needed"]
    for name in dcp.__all__:
        value = getattr(dcp, name)
        members = {} if inspect.isfunction(value) else vars(value)
        own = [v for k, v in members.items() if inspect.isfunction(v) and k[0] != "_"]
        assert all(each.__doc__ for each in (value, *own)), name


def test_every_module_says_what_it_is() -> None:
    for path in ROOT.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path
