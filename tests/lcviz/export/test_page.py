"""The Export page as Streamlit runs it, without a browser."""

import io
import re
import sys
import weakref
from importlib.metadata import version
from typing import Any

import pytest

import codec
from lcviz.export import page as export_page
from lcviz.export import page_downloads as downloads
from lcviz.run.run import Run
from lcviz.ui import session
from tests.lcviz.common import Answer, Make, MakePath, MakeRun, Patch, finished, flip, stepped

pytestmark = pytest.mark.usefixtures("server")


@pytest.fixture
def run(create: MakeRun) -> Run:
    """A finished run of five steps."""
    return finished(create())


def read_back(page: Any) -> list[str]:
    """What is said of the step that was chosen."""
    return [t for t in page.texts("markdown") if "read back bit for bit" in t]


def test_the_example_can_be_exported(visit: Make, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:  # before the example is there
        patch.setattr(session.all_runs(), "prepared", lambda: False)
        page = visit("export")
        assert page.texts("info")[0].startswith("The example is being trained")
        assert not page.at.get("download_button")
    page.at.query_params["run"] = "gone"  # a stale link shows the example
    page.run()
    assert page.texts("warning")[0].startswith("The run in this link is no longer")
    assert "the example run, **Logistic regression on Digits**" in page.texts("markdown")[0]
    labels = [b.label.split(" (")[0] for b in page.at.get("download_button")]
    assert labels == ["Download chain", "Download everything", "Download step 6"]
    assert not page.charts  # the records are drawn on Inspect


def test_the_example_is_packed_once_for_all(visit: Make, run: Run, monkeypatch: Patch) -> None:
    packed: list[Run] = []
    pack = export_page.pack
    monkeypatch.setattr(
        export_page, "pack", lambda run, tell: packed.append(run) or pack(run, tell)
    )
    monkeypatch.setattr(export_page, "_EXAMPLE", weakref.WeakKeyDictionary())
    pages = [visit("export") for _ in range(2)]
    assert packed == [session.all_runs().example()]
    first, second = (page.texts("success") for page in pages)
    assert first == second
    for _ in range(2):  # a run goes on: each visitor has it as it is now
        visit("export", run)
    assert packed[1:] == [run, run]


def test_what_is_said_of_a_run_is_true(visit: Make, run: Run, monkeypatch: Patch) -> None:
    restore, restored = downloads.restore, []
    told = lambda *asked: restored.append(asked[1]) or restore(*asked)  # noqa: E731
    monkeypatch.setattr(downloads, "restore", told)
    page = visit("export", run)
    package = page.at.session_state["package"][1][0]
    assert codec.verify(io.BytesIO(package.data)).steps == (0, 1, 2, 3, 4, 5)
    (verified,) = page.texts("success")
    assert f"6 steps, 0 to 5, rebuilt from these {len(package.data):,} bytes" in verified
    live = run.snapshot().newest.live_loss
    assert f", live {live:.6f}." in read_back(page)[0]
    assert not page.at.code
    page.unfold("export-elsewhere")
    for part in ("SGD", "learning rate 0.1", "seed 0", "2 bits", "model, run-length"):
        assert part in page.texts("markdown")[0]
    # That they work, the next test shows.
    _, plain, _, project, *_ = (b.value for b in page.at.code)
    pins = [f"{name}=={version(name)}" for name in ("numpy", "torch", "safetensors")]
    assert plain == f"pip install {' '.join(pins)}".replace("+cpu", "")
    for name in ("numpy", "numba", "blake3", "xxhash", "filelock", "pandas", "scikit-learn"):
        assert f" {name}=={version(name)}" in project
    for step in (5, 0, 3):
        page.set("select_slider", "export_step", step)
        loss = run.task.probe_loss(codec.restore(run.path, step))
        assert f"The tensors of step {step} were read back bit for bit. " in read_back(page)[0]
        assert f"restored {loss:.6f}" in read_back(page)[0]
        assert f"-step{step}.safetensors" in page.at.get("download_button")[2].help
    assert restored == [5, 0, 3]  # each once


# Runs Python files and modules of the command line in one fork that can import nothing but the
# project, Python itself, and packages of some names with what those require.
_ONLY_WITH = """
import importlib.metadata as metadata, re, runpy, shlex, sys
from importlib.machinery import PathFinder

def required(names, found):
    for name in names:
        name = re.sub("[-_.]+", "-", name).lower()
        try:
            lines = () if name in found else metadata.requires(name) or ()
        except metadata.PackageNotFoundError:
            continue  # not on this machine: torch asks for others where it has a GPU
        found.add(name)
        needed = [line for line in lines if "extra ==" not in line]
        required([re.match("[A-Za-z0-9._-]+", line)[0] for line in needed], found)
    return found

class Named(PathFinder):
    allowed = required(sys.argv[1].split(), set())
    of = metadata.packages_distributions()

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        owners = cls.of.get(name.partition(".")[0], ())
        if owners and not {re.sub("[-_.]+", "-", o).lower() for o in owners} & cls.allowed:
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Named
for name in list(sys.modules):
    owners = Named.of.get(name.partition(".")[0], ["project"])
    ours = name.partition(".")[0] in ("codec", "demo_models", "lcviz")
    if ours or not {re.sub("[-_.]+", "-", o).lower() for o in owners} & {"project", *Named.allowed}:
        del sys.modules[name]  # imported anew, if that is possible
for command in sys.argv[2:]:
    print("$", command)
    sys.argv = shlex.split(command)
    try:
        if sys.argv[0] == "-m":
            del sys.argv[0]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as exc:
        print("exit code", exc.code or 0)
"""


def test_the_commands_work_with_what_they_install(
    visit: Make,
    run: Run,
    lay_down: MakePath,
    monkeypatch: Patch,
    in_fork: Answer,
) -> None:
    page = visit("export", run)
    _, (package, receipt, _) = page.at.session_state["package"]
    folder = lay_down(package, receipt)
    step = page.at.session_state[downloads.RESTORED][1]
    (folder / f"{step.name}.safetensors").write_bytes(step.data)
    reader, plain, files, project, python, shell, same, check = (
        block.value for block in page.unfold("export-elsewhere").at.code
    )
    installed = {name.replace("-", "_") for name in re.findall(r"([\w-]+)==", plain)}
    assert set(re.findall(r"^(?:from|import) (\w+)", files, re.MULTILINE)) <= installed
    monkeypatch.chdir(folder)
    exec(files, {})
    (folder / "block.py").write_text(python)
    guard = "import sys, importlib.util as u; sys.exit(u.find_spec('streamlit') is not None)"
    (folder / "guard.py").write_text(guard)
    commands = ["guard.py", *shell.splitlines(), check]
    commands = ["block.py", *(line.removeprefix("python ") for line in commands)]
    names = re.sub("==[^ ]+", "", project.removeprefix("pip install "))

    def run_all(names: str, *commands: str) -> str:
        def run_in_fork() -> None:
            sys.argv = ["", names, *commands]
            exec(_ONLY_WITH, {"__name__": "__main__"})

        code, output = in_fork(run_in_fork)
        assert code == 0, output
        assert not re.findall("exit code [^0]", output), output
        return output

    install, command = reader.splitlines()
    assert re.findall(r"([\w-]+)==", install) == ["numpy", "blake3", "xxhash"]
    run_all("numpy blake3 xxhash", command.removeprefix("python "))
    (folder / f"step{step.step}.safetensors").unlink()  # it was restored; another command will
    output = run_all(names, *commands)
    assert output.count("exit code 0") == len(commands) - 1, output  # the first one just ends
    assert same == project


def test_newer_steps_and_another_run(visit: Make, create: MakeRun) -> None:
    run = create()
    page = visit("export", run)

    def steps() -> tuple[int, ...]:
        found: tuple[int, ...] = page.at.session_state["package"][1][0].steps
        return found

    assert steps() == (0,)
    assert not page.at.select_slider  # one step: nothing to choose
    stepped(run, 2)
    page.run()
    assert steps() == (0,)
    (button,) = page.at.button
    assert button.label == "Include newer checkpoints, up to step 2"
    button.click()
    page.run()
    assert steps() == (0, 1, 2)
    assert not page.at.button
    assert page.at.select_slider(key="export_step").options == list("012")
    page.at.query_params["run"] = create(seed=4).id
    page.run()
    assert page.at.session_state["package"][1][0].name.endswith("seed4")
    assert steps() == (0,)


def test_a_damaged_chain_is_not_offered(visit: Make, run: Run) -> None:
    flip(run.path, 3)
    page = visit("export", run)
    (sentence,) = page.texts("error")
    assert sentence.startswith("The packed chain does not restore")
    assert "00000003.delta.safetensors" in sentence
    assert ". Nothing more is offered for download." in sentence  # two sentences
    assert not page.at.get("download_button")
    assert not page.texts("success")
