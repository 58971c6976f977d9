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
FSSPEC = ("remote.py",)  # alone knows it, and only where there is a URL
TORCH = (ROOT / "state.py", ROOT / "files.py")  # alone know it...
DCP = ROOT / "dcp"  # ...and this package, where it is imported; nothing else of the codec does that
TRAINERS = {  # what is optional, each in its own module; and torch in those that they share
    "huggingface.py": {"transformers"},
    "lightning.py": {"lightning", "pytorch_lightning"},
    "accelerate.py": {"accelerate"},
    "models.py": {"torch"},
    "small.py": {"torch"},
}
COMPILER = {"numba", "llvmlite"}

PUBLIC = """
ArchiveError Bucket Buckets BudgetError Chain ChainError ChainNotFoundError Change Checkpointer
CodeTableError DTypeError DigestError Encoded ForeignRecordError Group InputError LccError
LockedError MalformedRecordError NonFiniteError ParentError PayloadError Quantized RecordError
Report RewoundWarning Saved SettingsError ShardedError SkippedRecordWarning SourceError
StateMismatchError Step StepNotFoundError StepOrderError StreamError TrackDigestError Tracker
TruncatedRecordError VanishedError VersionError WriteError apply compact decode dequantize encode
merge quantize restore set_threads threads verify warm_up
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
    for path in sorted(set(ROOT.rglob("*.py")) - set((ROOT / "trainers").iterdir())):
        module = ast.parse(path.read_text())
        inside = {
            n for f in ast.walk(module) if isinstance(f, ast.FunctionDef) for n in imported(f)
        }
        outside = imported(module) - inside
        for name in imported(module):
            top = name.partition(".")[0]
            known = top in ALLOWED | sys.stdlib_module_names or path in TORCH
            known = known or (path.name in FSSPEC and name == "fsspec.core")
            assert known or (DCP in path.parents and top == "torch"), (path, name)
        if path.name != "kernels.py":  # numba's cache would not notice an edit elsewhere
            assert not COMPILER & {n.partition(".")[0] for n in imported(module)}, path
        assert ("fsspec.core" in inside) == (path.name in FSSPEC)
        assert "fsspec.core" not in outside
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


def test_trainers_import_one_library_each() -> None:
    """And nothing outside of functions but that one; the codec knows none of them."""
    for path in sorted((ROOT / "trainers").glob("*.py")):
        module = ast.parse(path.read_text())
        others = {n.partition(".")[0] for n in imported(module)} - sys.stdlib_module_names
        assert others == TRAINERS.get(path.name, set()), path
        inside = {
            n for f in ast.walk(module) if isinstance(f, ast.FunctionDef) for n in imported(f)
        }
        outside = {n.partition(".")[0] for n in imported(module) - inside}
        assert "torch" not in outside, path
    for path in set(ROOT.rglob("*.py")) - set((ROOT / "trainers").iterdir()):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert "trainers" not in (node.module or "").split("."), path


def test_import_loads_nothing_that_is_optional() -> None:
    code = (
        "import sys, codec, codec.__main__, codec.trainers; "
        "optional = {'torch', 'fsspec', 'transformers', 'lightning', 'accelerate'}; "
        "sys.exit(bool(optional & {*sys.modules}))"
    )
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
