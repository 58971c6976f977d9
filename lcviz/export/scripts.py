"""The script of a receipt, and one zip of everything: reproduce.py makes the chain again, reader.py
restores a step.

The script needs `codec`, and `demo_models` to train, but not the dashboard. The receipt's values
are constants in it, so that a reader sees what it does. Scripts that people already have must go on
working: do not rename what they use of `codec`. reader.py is codec/reader.py; it needs numpy.
"""

from __future__ import annotations

import io
import shlex
import zipfile
from collections.abc import Sequence
from dataclasses import fields
from importlib import resources

import codec
from codec import Coding

from .archive import Package
from .receipt import PACKAGES, Receipt, dumped

REPRODUCE, RECEIPT = "reproduce.py", "receipt.json"
READER, README = "reader.py", "README.txt"
_TRAINED = "model data optimizer lr momentum batch_size seed interval last_step"
_FOLDER = 'parser.add_argument("folder", type=Path, help="where the files of the data are")'
_FILES = (
    'parser.add_argument("files", type=Path, nargs="+", '
    'help="the files that were compressed, or their folder")'
)
_UNIX = 3  # the system that a zip's member was made on

_HEAD = '''"""@WHAT@

    @FOLDER@
    @INSTALL@
    @USAGE@

The first line installs the lcviz project, from the folder with its pyproject.toml. The script
compares what it makes with @RECEIPT@, which is beside it unless --receipt says otherwise. Exit
code 0: the same bytes. 1: other bytes, or something is missing; a sentence says what. 2: wrong use.
"""

import argparse
import hashlib
import io
import json
import platform
import sys
import tempfile
from pathlib import Path

try:
    import numpy
    import torch

    import codec
    @IMPORTS@
@MISSING@
@CONSTANTS@


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def source_digest(package):
    folder, digest = Path(package.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(data)}\\n".encode() + data)
    return digest.hexdigest()


def checkpointer(path, **more):
    return codec.Checkpointer(
        path, @CODING@, restore_work=RESTORE_WORK, **more
    )


'''

_TRAINING = '''def make_chain(path, options):
    """Train, and save every INTERVAL iterations."""
    try:
        task = demo_models.make_task(MODEL, DATA, seed=SEED, folder=options.folder)
    except demo_models.DataError as exc:
        raise DifferentError(str(exc)) from exc
    if task.dataset.digest() != DATA_SHA256:
        raise DifferentError("The training data have another SHA-256 than those of the receipt.")

    def begin():
        training = demo_models.Training(task, OPTIMIZER, LR, MOMENTUM, BATCH_SIZE)
        if OPTIMIZER_STATE:  # is saved, too: zeros at first
            training.begin_optimizer()
        return training

    training, chain = begin(), checkpointer(path)
    for iteration in range(LAST_STEP + 1):
        if iteration:
            training.iterate(iteration)
        if iteration % INTERVAL == 0:
            chain.save(iteration, training.state() if OPTIMIZER_STATE else task.model.state_dict())
            if iteration in RESTARTED_AT:  # it was killed later, and went on from here
                chain.close()
                training, chain = begin(), checkpointer(path, resume=True)
                state = chain.restore()
                training.load(state if OPTIMIZER_STATE else {"model": state})
    chain.close()


'''

_COMPRESSING = '''def files_by_digest(paths, scratch):
    """SHA-256 -> file, of all files at these paths; the folder of a chain is packed first."""
    files = {}
    for i, path in enumerate(paths):
        if path.is_dir() and any(path.glob("*.base.safetensors")):
            codec.Chain(path).pack(scratch / f"packed{i}.lcc.zip")
            path = scratch / f"packed{i}.lcc.zip"
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_file():
                files[sha256(file.read_bytes())] = file
    return files


def states(files):
    """Step and state of every file, in the order of the receipt."""
    for step, name, digest, left_out in FILES:
        if digest not in files:
            raise DifferentError(f"The file {name} of SHA-256 {digest} is not among those given.")
        path = files[digest]
        if name.lower().endswith(".zip"):
            for position in codec.Chain(path).every_step():
                yield position.step, position.whole()
        elif name.lower().endswith(".safetensors"):
            yield step, in_order(safetensors.torch.load(path.read_bytes()))
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
            for key in [key for key in state if str(key) in left_out]:
                del state[key]
            yield step, in_order(state)


def in_order(state):
    """A state that holds only tensors, sorted by name; any other state as it is."""
    if all(isinstance(value, torch.Tensor) for value in state.values()):
        return {key: state[key] for key in sorted(state, key=str)}
    return state


def make_chain(path, options):
    """Compress the files, one step each."""
    with checkpointer(path) as chain:
        for step, state in states(files_by_digest(options.files, path.parent)):
            chain.save(step, state)


'''

_TAIL = '''class DifferentError(Exception):
    """Something differs from the receipt; the message is a sentence."""


def compare(path, receipt):
    """Raise DifferentError unless the archive is that of the receipt, to the last byte."""
    archive = path.read_bytes()
    print(f"archive: {len(archive):,} bytes, SHA-256 {sha256(archive)}")
    stated = {record["file"]: record["sha256"] for record in receipt["records"]}
    chain = codec.Chain(io.BytesIO(archive))
    for entry in chain.entries:
        if stated.get(entry.name) != sha256(chain.read_bytes(entry)):
            first = f"The record {entry.name} is the first that differs."
            raise DifferentError(f"{first} {versions_text(receipt)}")
    if sha256(archive) != receipt["archive"]["sha256"]:
        raise DifferentError(f"The archive differs from the receipt's. {versions_text(receipt)}")


def versions_text(receipt):
    """Which versions differ from those that the receipt was made with, in a sentence."""
    stated, here = receipt["versions"], {
        "Python": platform.python_version(),
        "numpy": numpy.__version__,
        "torch": torch.__version__.partition("+")[0],
    } | {f"{p.__name__} (SHA-256 of its source)": source_digest(p) for p in SOURCES}
    differing = [
        f"{name} {value[:16]} instead of {str(stated.get(name)).partition('+')[0][:16]}"
        for name, value in here.items()
        if value != str(stated.get(name)).partition("+")[0]
    ]
    if differing:
        return f"Here is {', '.join(differing)}."
    return f"The versions are the same; the receipt was made on {receipt['machine']['cpu']}."


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\\n")[0])
    @ARGUMENT@
    parser.add_argument("--receipt", type=Path, default=Path(__file__).with_name("@RECEIPT@"))
    parser.add_argument("-o", "--output", type=Path, help="keep the archive, as this file")
    options = parser.parse_args()
    torch.set_num_threads(1)  # sums come out the same every time
    try:
        receipt = json.loads(options.receipt.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            chain, archive = Path(folder) / "run.lcc", Path(folder) / "run.lcc.zip"
            make_chain(chain, options)
            codec.Chain(chain).pack(archive)
            if options.output:
                options.output.write_bytes(archive.read_bytes())
            compare(archive, receipt)
    except (DifferentError, codec.LccError, OSError, ValueError, KeyError) as exc:
        print(f"NOT THE SAME: {exc}")
        return 1
    print("the same: every byte is that of the receipt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''

# One line installs everything: the project's packages and tested versions of what they need.
_FOLDER_COMMAND = "pip install FOLDER-OF-LCVIZ"
_MISSING = f"""except ModuleNotFoundError as exc:
    sys.exit(
        f"The package {{exc.name}} is missing here. Install the lcviz project, the folder with its "
        "pyproject.toml, once:\\n\\n    {_FOLDER_COMMAND}\\n"
    )
"""


def reproduce_script(receipt: Receipt) -> str:
    """The script that makes the chain of a receipt again."""
    settings = receipt["settings"]
    coding = [field.name for field in fields(Coding) if field.name in settings]
    constants = {name.upper(): settings[name] for name in (*coding, "restore_work")}
    if receipt["of"] == "run":
        constants |= {name.upper(): settings[name] for name in _TRAINED.split()}
        constants |= {
            "OPTIMIZER_STATE": settings.get("optimizer_state", False),
            "RESTARTED_AT": settings["resumed_at"],
            "DATA_SHA256": receipt["data"]["sha256"],
        }
        folder, files, body = receipt["data"]["from_folder"], "", _TRAINING
        what, package, sources = f"Trains {receipt['what']}", "demo_models", "(codec, demo_models)"
        argument = _FOLDER if folder else "parser.set_defaults(folder=None)"
    else:
        lines = [(f["step"], f["name"], f["sha256"], f["left_out"]) for f in receipt["files"]]
        files = "FILES = [  # step, name, SHA-256, outermost keys that are left out\n"
        files += "".join(f"    {line!r},\n" for line in lines) + "]\n"
        what, package, sources = "Compresses the same files", "safetensors.torch", "(codec,)"
        argument, body = _FILES, _COMPRESSING
    stated = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
    return _filled(
        _HEAD + body + _TAIL,
        IMPORTS=f"import {package}",
        CODING=", ".join(f"{name}={name.upper()}" for name in coding),
        INSTALL=install_command(receipt),
        USAGE=reproduce_command(receipt),
        RECEIPT=RECEIPT,
        ARGUMENT=argument,
        WHAT=f"{what} again and compares the chain, byte for byte.",
        CONSTANTS=f"{stated}{files}SOURCES = {sources}",
    )


def reproduce_command(receipt: Receipt) -> str:
    """The command that runs the script."""
    if receipt["of"] == "files":
        return f"python {REPRODUCE} FILES-OR-FOLDER…"
    return f"python {REPRODUCE}" + (" FOLDER" if receipt["data"]["from_folder"] else "")


def readme(package: Package, receipt: Receipt) -> str:
    """What lies in the zip, and the commands that use it."""
    file, last = shlex.quote(package.file), package.steps[-1]
    text = f"""{receipt["what"]}: steps {package.steps[0]} to {last} in {package.file}

    python {READER} {file}                          lists the steps
    python {READER} {file} --step {last} -o step{last}.safetensors

{READER} needs Python and numpy, and nothing of lcviz. It checks every digest if the packages
blake3 and xxhash are installed. {RECEIPT} says what the chain is and what was verified.
"""
    if receipt["of"] != "archive":
        text += f"{REPRODUCE} makes the same bytes again, and says what it needs.\n"
    return text


def install_command(receipt: Receipt, packages: Sequence[str] = PACKAGES) -> str:
    """A command that installs packages in the receipt's versions; by default all that it needs."""
    versions = receipt["versions"]
    pins = (
        f"{name}=={versions[name].partition('+')[0]}"  # torch's +cpu is not part of the release
        for name in packages
        if name in versions
    )
    return f"pip install {' '.join(pins)}"


def _filled(template: str, **values: str) -> str:
    for mark, value in (values | {"MISSING": _MISSING, "FOLDER": _FOLDER_COMMAND}).items():
        template = template.replace(f"@{mark}@", value)
    return template


def everything(package: Package, receipt: Receipt) -> bytes:
    """Archive, receipt, readme, reader and script in a zip; the same arguments give equal bytes."""
    members: dict[str, bytes | str] = {
        package.file: package.data,
        RECEIPT: dumped(receipt),
        README: readme(package, receipt),
        READER: resources.files(codec).joinpath(READER).read_bytes(),
    }
    if receipt["of"] != "archive":
        members[REPRODUCE] = reproduce_script(receipt)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)  # dated 1980: no clock
            info.create_system, info.external_attr = _UNIX, 0o644 << 16
            archive.writestr(info, data)
    return file.getvalue()
