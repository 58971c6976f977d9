"""Installs the wheel into empty environments outside the repository, and tries it there.

    python tests/environments/run.py [JOB …]

Jobs, all of them by default:

    base       the codec alone, with this Python: its own tests run there too
    lowest     the same with the lowest versions that pyproject.toml allows
    3.12 3.13  the same with these Pythons; left out with a message where there is none
    dashboard  with the extra: every module, and `lcviz` in a headless browser
    container  deploy/install.sh, then the server; if root runs it, as nobody on a read-only disk

All environments must write the same records, byte for byte. Needs requirements-dev.txt, Chromium
and a package index.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
TORCH = next(
    line for line in (ROOT / "requirements.txt").read_text().split() if line.startswith("torch==")
)
REQUIRED = "".join(path.read_text() for path in ROOT.glob("requirements*.txt"))
PYTEST = re.findall(r"^(?:pytest|hypothesis).*", REQUIRED, re.MULTILINE)
# What takes long in numpy.
SOON = "not any_chain and not any_context_codes and not alphabet_for_each_moment and not any_number"
START_SECONDS = 240  # until the server answers, on a slow machine
PAGE_MS = 180_000  # until the page has its button, and then its picture
_READ_ONLY = [  # run a command, of which the first argument is a folder that it cannot write to
    *("unshare", "--mount", "sh", "-c"),
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"',
]


def main(jobs: Sequence[str]) -> int:
    """Run the jobs; returns an exit code."""
    unknown = [job for job in jobs if job not in JOBS]
    if unknown:
        print(f"no job {', '.join(unknown)}; there are {', '.join(JOBS)}", file=sys.stderr)
        return 2
    records = {}
    with tempfile.TemporaryDirectory(prefix="lcviz-environments-") as folder:
        wheel = _wheel(Path(folder))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        for job in jobs or JOBS:
            place = Path(folder) / job
            place.mkdir()
            findings = JOBS[job](place, wheel)
            print(
                f"{job}: {json.dumps(findings) if findings else 'no such Python here'}", flush=True
            )
            if "records" in findings:
                records[job] = findings["records"]
            shutil.rmtree(place)
    if len(set(records.values())) > 1:
        print(f"the environments wrote different records: {records}", file=sys.stderr)
        return 1
    return 0


def _wheel(folder: Path) -> Path:
    """The wheel of this checkout, built from a copy: the checkout stays as it is."""
    copy = folder / "source"
    kept = {"codec", "lcviz", "demo_models", "deploy", "pyproject.toml", "requirements.txt"}
    kept |= {"README.md", "LICENSE"}
    copy.mkdir()
    for path in ROOT.iterdir():
        if path.is_dir() and path.name in kept:
            shutil.copytree(path, copy / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.name in kept:
            shutil.copy(path, copy)
    _run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(copy)])
    return next(folder.glob("*.whl"))


def _base(folder: Path, wheel: Path) -> dict[str, object]:
    """The codec's tests run in a folder of their own, with what the wheel brings and pytest."""
    findings = _check_wheel(folder, sys.executable, [str(wheel)])
    tests = folder / "alone" / "tests"
    for name in ("codec", "golden"):
        shutil.copytree(ROOT / "tests" / name, tests / name)
    for path in (ROOT / "pyproject.toml", *ROOT.glob("tests/*.py")):
        shutil.copy(path, tests.parent / path.relative_to(ROOT))
    new_python = str(folder / "env" / "bin" / "python")
    _run([new_python, "-m", "pip", "install", "-q", *PYTEST])
    command = [new_python, "-m", "pytest", "-n", str(os.cpu_count()), "-k", SOON, "tests/codec"]
    output = _run(command, cwd=tests.parent)
    return findings | {"tests": output.splitlines()[-1]}


def _lowest(folder: Path, wheel: Path) -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = [d.replace(">=", "==") for d in project["dependencies"] if ">=" in d]
    return _check_wheel(folder, sys.executable, [*lowest, str(wheel)])


def _python(version: str) -> Callable[[Path, Path], dict[str, object]]:
    def job(folder: Path, wheel: Path) -> dict[str, object]:
        python = _find_python(version)
        return _check_wheel(folder, python, [str(wheel)]) if python else {}

    return job


def _find_python(version: str) -> str | None:
    """The path of a Python of this version; None if there is none."""
    places = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in (shutil.which(f"python{version}"), *map(str, places)):
        # pyenv has scripts of that name that only say where a Python is.
        test = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        with suppress(OSError):
            answer = subprocess.run(
                [python or "", "-c", test], capture_output=True, text=True, check=False
            )
            if answer.stdout.strip() == version:
                return python
    return None


def _check_wheel(folder: Path, python: str, packages: Sequence[str]) -> dict[str, object]:
    """Install packages into an empty environment, and run check_base.py there."""
    new_python = _environment(folder, python)
    _run([new_python, "-m", "pip", "install", "-q", *packages])
    script = str(shutil.copy(Path(__file__).with_name("check_base.py"), folder))
    # A warning is an error, as in the tests: a new version may be about to drop what we use.
    output = _run([new_python, "-W", "error", script, str(folder), str(GOLDEN)], cwd=folder)
    findings: dict[str, object] = json.loads(output.splitlines()[-1])
    return findings | {"installed, MB": _megabytes(folder / "env")}


def _dashboard(folder: Path, wheel: Path) -> dict[str, object]:
    """Every module of the dashboard, then its first picture in a browser."""
    new_python = _environment(folder, sys.executable)
    # A range of torch alone would take a build for GPUs, of gigabytes.
    _run([new_python, "-m", "pip", "install", "-q", TORCH])
    _run([new_python, "-m", "pip", "install", "-q", f"{wheel}[dashboard]"])
    script = str(shutil.copy(Path(__file__).with_name("check_base.py"), folder))
    output = _run([new_python, script, str(folder), str(GOLDEN)], cwd=folder)
    findings = json.loads(output.splitlines()[-1])
    assert set(findings["modules without their extra"]) <= {
        "transformers",
        "lightning",
        "pytorch_lightning",
        "accelerate",
    }
    findings["first picture, s"] = _first_picture(
        [str(Path(new_python).with_name("lcviz"))], folder
    )
    return findings | {"installed, MB": _megabytes(folder / "env")}


def _container(folder: Path, wheel: Path) -> dict[str, object]:
    """The Dockerfile's steps without Docker: deploy/install.sh, then deploy/start.sh.

    If root runs this and may mount, the server runs as nobody, and its programs are read-only.
    """
    python, source = _environment(folder, sys.executable), wheel.parent / "source"
    kernels, temporary = folder / "kernels", folder / "tmp"
    _run(["sh", "deploy/install.sh", python], cwd=source, KERNELS=str(kernels))
    temporary.mkdir()
    command = ["sh", str(source / "deploy" / "start.sh")]
    is_root = os.geteuid() == 0 and shutil.which("unshare") is not None
    if is_root and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0:
        for path in (folder.parent, folder):
            path.chmod(0o755)
        temporary.chmod(0o777)
        # Python may lie in root's home: nobody may read all, and write nothing.
        reads_all = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *reads_all]
        command = [*_READ_ONLY, str(Path(python).parents[1]), *nobody, *command]
    picture = _first_picture(
        command,
        Path("/"),
        HOME=str(temporary),
        TMPDIR=str(temporary),
        KERNELS=str(kernels),
        NUMBA_CACHE_DIR=str(temporary / "kernels"),
        PATH=f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert all(path.stat().st_mode & 0o004 for path in kernels.rglob("*")), "others cannot read it"
    built = {path.name for path in kernels.rglob("*.nbc")}
    compiled = {path.name for path in temporary.rglob("*.nbc")} - built
    assert not compiled, f"compiled at the start: {compiled}"
    return {"first picture, s": picture, "kernels": len(built)}


def _first_picture(lcviz: Sequence[str], cwd: Path, **environment: str) -> float:
    """Seconds from the start of the command to a picture in the browser."""
    from playwright.sync_api import sync_playwright

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [*lcviz, "--no-browser", "--port", str(port)]
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=cwd, env=_clean() | environment) as process:
        try:
            _wait(url, process)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=_chromium(), args=["--no-sandbox"]
                )
                page = browser.new_page()
                page.goto(url)
                page.locator(".board canvas").first.wait_for(timeout=PAGE_MS)
                seconds = time.perf_counter() - start
                page.get_by_role("button", name="Start live training").click()
                page.locator(".board.served canvas").first.wait_for(timeout=PAGE_MS)
                browser.close()
        finally:
            process.terminate()
    return round(seconds, 1)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
            return
        time.sleep(0.1)
    raise SystemExit("lcviz did not start")


def _chromium() -> str:
    for name in ("chromium-headless-shell", "chromium"):
        if path := shutil.which(name):
            return path
    raise SystemExit(
        "the jobs dashboard and container need Chromium: apt-get install chromium-headless-shell"
    )


def _environment(folder: Path, python: str) -> str:
    """Make an empty environment; returns the path of its Python."""
    _run([python, "-m", "venv", str(folder / "env")])
    return str(folder / "env" / "bin" / "python")


def _clean() -> dict[str, str]:
    """The environment variables without those that lead a process to this repository."""
    return {k: v for k, v in os.environ.items() if not re.match(r"PYTHON|LCVIZ|VIRTUAL_ENV", k)}


def _run(command: Sequence[str], cwd: Path | None = None, **environment: str) -> str:
    """Run a command; returns its output. Shows all of it if it fails."""
    answer = subprocess.run(
        command,
        cwd=cwd,
        env=_clean() | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise SystemExit(f"{' '.join(command)}\n{answer.stdout}{answer.stderr}")
    return answer.stdout


def _megabytes(folder: Path) -> int:
    """Size on disk of the installed packages, without pip and setuptools."""
    packages = next(folder.glob("lib/python*/site-packages"))
    paths = (
        path
        for entry in packages.iterdir()
        if not re.match(r"(pip|setuptools|pkg_resources|_distutils_hack)\b", entry.name)
        for path in ([entry] if entry.is_file() else entry.rglob("*"))
        if path.is_file()
    )
    return round(sum(path.stat().st_blocks * 512 for path in paths) / 1e6)


JOBS: dict[str, Callable[[Path, Path], dict[str, object]]] = {
    "base": _base,
    "lowest": _lowest,
    "3.12": _python("3.12"),
    "3.13": _python("3.13"),
    "dashboard": _dashboard,
    "container": _container,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
