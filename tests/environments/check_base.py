"""Checks an installed wheel, with or without extras; see run.py. Prints its findings as JSON.

    python check_base.py FOLDER GOLDEN

FOLDER: where to write. GOLDEN: a folder of chains that every version must read.
"""

import importlib
import json
import platform
import subprocess
import sys
import time
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from pkgutil import walk_packages

EXTRAS = {  # package that the base does without -> the extra that brings it
    "numba": "fast",
    "llvmlite": "fast",
    "torch": "torch",
    "streamlit": "dashboard",
    "plotly": "dashboard",
    "pandas": "dashboard",
    "scipy": "dashboard",
    "sklearn": "dashboard",
    "transformers": "trainers",
    "lightning": "trainers",
    "pytorch_lightning": "trainers",
    "accelerate": "trainers",
}


def imports() -> dict[str, int]:
    """Import every module; returns how many need each package of an extra."""
    missing: dict[str, int] = {}
    for name in ("codec", "demo_models", "lcviz"):
        try:
            package = importlib.import_module(name)
        except ImportError as exc:
            missing[_allowed(exc, name)] = 1
            continue
        for module in walk_packages(package.__path__, f"{name}.", onerror=lambda _: None):
            if module.name.endswith("__main__") or module.name.startswith("lcviz.start"):
                continue
            try:
                importlib.import_module(module.name)
            except ImportError as exc:
                package_name = _allowed(exc, module.name)
                missing[package_name] = missing.get(package_name, 0) + 1
    return missing


def _allowed(exc: ImportError, module: str) -> str:
    """The missing package, if an extra brings it."""
    cause = exc if isinstance(exc, ModuleNotFoundError) else exc.__cause__
    name = (getattr(cause, "name", None) or "").partition(".")[0]
    if name not in EXTRAS:
        raise SystemExit(f"{module} needs what no extra brings: {exc}") from exc
    return name


def main(folder: Path, golden: Path) -> None:
    """Save, verify, restore, read the golden chains, import everything, ask the command."""
    start = time.perf_counter()
    import codec

    import_seconds = time.perf_counter() - start
    import numpy as np

    path = folder / "run.lcc"
    rng = np.random.default_rng(0)
    # At most 2**14 values, so that all environments write the same records: numpy alone writes run
    # lengths where there are more, and kernels a context code.
    weights = rng.standard_normal((50, 300)).astype(np.float32)
    saves = []
    with codec.Checkpointer(path) as checkpoints:
        for step in range(5):
            state = {"model": {"w": weights, "n": np.arange(9) + step}, "epoch": step}
            start = time.perf_counter()
            checkpoints.save(step, state)
            saves.append(time.perf_counter() - start)
            weights = weights + rng.standard_normal(weights.shape).astype(np.float32) / 1000
    assert codec.verify(path).ok
    state = codec.restore(path)
    assert state["epoch"] == 4
    assert (state["model"]["n"] == np.arange(9) + 4).all()
    chains = sorted(golden.glob("*.lcc"))
    assert len(chains) > 5
    for chain in chains:
        report = codec.verify(chain)
        assert report.ok, f"{chain.name}: {report.problems}"
    records = b"".join(p.read_bytes() for p in sorted(path.iterdir()))

    lcviz = Path(sys.executable).with_name("lcviz")
    seconds = {}
    for name, words in {"help": ["--help"], "info": ["codec", "info", str(path)]}.items():
        times = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run([lcviz, *words], check=True, capture_output=True, cwd=folder)
            times.append(time.perf_counter() - start)
        seconds[name] = round(min(times), 3)
    missing = imports()
    if "streamlit" in missing:
        answer = subprocess.run([lcviz], capture_output=True, text=True, cwd=folder, check=False)
        assert answer.returncode == 2
        assert "pip install 'lcviz-checkpoint[dashboard]'" in answer.stderr, answer.stderr
    findings = {
        "python": platform.python_version(),
        "versions": {d: metadata.version(d) for d in ("numpy", "safetensors", "filelock")},
        "import codec, s": round(import_seconds, 3),
        "first save, s": round(saves[0] + saves[1], 2),
        "lcviz --help, s": seconds["help"],
        "lcviz codec info, s": seconds["info"],
        "records": sha256(records).hexdigest()[:16],
        "modules without their extra": missing,
    }
    print(json.dumps(findings))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
