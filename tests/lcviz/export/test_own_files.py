"""Checkpoints that a visitor brings: taken in order, or refused in a sentence, nothing left."""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import json
import os
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import codec
from codec.errors import SourceError
from lcviz.export import opened as brought
from lcviz.export import own_files as own
from lcviz.export.opened import Opened
from lcviz.export.own_files import gathered, open_own
from lcviz.server import foreign_files as foreign
from lcviz.server import pt_reader as reader
from lcviz.server.pt_reader import Reader
from lcviz.server.quota import FullError, Shelf, VisitorFolder

pytestmark = pytest.mark.usefixtures("server")

MARK = Path(tempfile.gettempdir()) / f"lcviz-was-run-{os.getpid()}"
W = torch.arange(20.0).reshape(4, 5)


def quiet(*_: Any) -> None:
    """Nobody looks."""


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    made = Shelf(100 * 2**20)
    yield made
    assert not [p for p in made._root.rglob("*") if p.is_file()], "something was left behind"


@pytest.fixture
def place(shelf: Shelf) -> Iterator[VisitorFolder]:
    made = shelf.place()
    yield made
    made.close()


def opened(place: VisitorFolder, *paths: Path) -> Opened:
    return open_own([(p.name, p) for p in paths], place, quiet)


def safetensors(header: bytes, data: bytes = b"", n: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if n is None else n) + header + data


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def header(**entries: Any) -> bytes:
    return json.dumps(entries).encode()


GOOD = header(w=entry([2, 2], 0, 16))
HOSTILE = {
    "empty": (b"", "the file is empty"),
    "too short": (b"1234", "only 4 bytes"),
    "wrong magic": (b"\x93NUMPY" + bytes(100), "does not begin with the length of a header"),
    "absurd header": (struct.pack("<Q", 2**63 - 1) + bytes(9), "more than 16 MiB"),
    "header beyond the end": (safetensors(b"{}", n=500), "its header would have 500 bytes"),
    "no JSON": (safetensors(b"{" * 90), "a header that is none"),
    "deep JSON": (safetensors(b'{"a":' + b"[" * 90_000), "a header that is none"),
    "a name twice": (
        safetensors(GOOD[:-1] + b"," + GOOD[1:], bytes(16)),
        "a key stands twice",
    ),
    "cut off": (safetensors(GOOD, bytes(15)), "is cut off, or too long"),
    "bytes after it": (safetensors(GOOD, bytes(17)), "is cut off, or too long"),
    "a shape that lies": (
        safetensors(header(w=entry([2**40, 2**19], 0, 16)), bytes(16)),
        "has the shape",
    ),
    "a negative shape": (safetensors(header(w=entry([-2, -2], 0, 16)), bytes(16)), "the shape"),
    "overlap": (
        safetensors(header(v=entry([4], 0, 16), w=entry([4], 8, 24)), bytes(24)),
        "overlap",
    ),
    "a gap": (safetensors(header(w=entry([4], 8, 24)), bytes(24)), "overlap, or a gap"),
    "a dtype of its own": (safetensors(header(w=entry([4], 0, 16, "F33")), bytes(16)), "'F33'"),
    "an integer of a million digits": (
        safetensors(b'{"w":{"dtype":"F32","shape":[' + b"9" * 10**6 + b"]}}"),
        "header that is",
    ),
    "many dimensions": (safetensors(header(w=entry([1] * 65, 0, 4)), bytes(4)), "does not say"),
    "a key too many": (safetensors(header(w=entry([1], 0, 4) | {"x": 1}), bytes(4)), "does not"),
    "no tensors": (safetensors(b"{}"), "holds no tensors"),
    "no values": (safetensors(header(w=entry([0, 3], 0, 0))), "holds empty tensors only"),
    "metadata of numbers": (
        safetensors(header(w=entry([2, 2], 0, 16), __metadata__={"a": 1}), bytes(16)),
        "has a header that is none",
    ),
    "a length before zero": (
        safetensors(GOOD.replace(b"[2, 2]", b"[4, -0, 0]").replace(b"16", b"0")),
        "holds empty",
    ),
    "a shape beyond all": (
        safetensors(header(w=entry([0, 2**62, 2**62], 0, 0), v=entry([1], 0, 4)), bytes(4)),
        "a shape that no machine holds",
    ),
    "a name that is no text": (
        safetensors(GOOD.replace(b'"w"', b'"\\ud800"'), bytes(16)),
        "whose name is no text",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_safetensors(name: str, place: VisitorFolder, tmp_path: Path) -> None:
    data, expected = HOSTILE[name]
    path = tmp_path / "evil.safetensors"
    path.write_bytes(data)
    found = opened(place, path)
    assert not found.files
    (sentence,) = found.refused
    assert sentence.startswith("evil.safetensors: ")
    assert expected in sentence
    assert sentence.endswith(".")
    assert len(sentence) < 400
    assert "\n" not in sentence


def torch_file(state: Any, *, zipped: bool = True) -> bytes:
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def rewritten(change: Callable[[zipfile.ZipInfo, bytes], tuple[str, bytes]], **more: Any) -> bytes:
    """A torch zip with its members changed."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(torch_file({"w": W}))) as old,
        zipfile.ZipFile(file, "w", more.get("method", zipfile.ZIP_STORED)) as new,
    ):
        for info in old.infolist():
            new.writestr(*change(info, old.read(info)))
        for name, data in more.get("members", []):
            new.writestr(name, data)
    return file.getvalue()


def pickled(data: bytes) -> bytes:
    """A torch zip with this pickle in it."""
    return rewritten(lambda i, d: (i.filename, data if i.filename.endswith("data.pkl") else d))


class Runs:
    """Unpickling this would make a file."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {MARK}",)


def bytearray_of(n: int) -> bytes:
    """A pickle of bytearray(n), which weights_only allows."""
    return b"\x80\x02cbuiltins\nbytearray\n\x8a\x06" + n.to_bytes(6, "little") + b"\x85R."


def tuples(depth: int) -> bytes:
    """A pickle of {t: 1} with t = (t', t') and so on: hashing it takes 2 ** depth steps."""
    return b"\x80\x02})" + b"q\x00h\x00\x86" * depth + b"K\x01s."


PICKLES: dict[str, tuple[Callable[[], bytes], str]] = {
    "code in the old format": (lambda: pickle.dumps(Runs()), "plain pickle"),
    "empty": (lambda: b"", "the file is empty"),
    "before version 1.6": (lambda: torch_file({"w": W}, zipped=False), "since version 1.6, a zip"),
    "code": (lambda: pickled(pickle.dumps(Runs(), 2)), "it asks to run posix.system, and no code"),
    "somebody's class": (
        lambda: torch_file({"w": W, "args": argparse.Namespace()}),
        "run argparse.Namespace",
    ),
    "not torch's": (lambda: b"no zip at all", "not a torch.save file"),
    "an opcode that torch does not take": (lambda: pickled(b"\x80\x02\x95."), "operand 149"),
    "cut off": (lambda: torch_file({"w": W})[:-40], "cut off or damaged"),
    "a zip bomb": (
        lambda: rewritten(
            lambda i, d: (i.filename, d),
            method=zipfile.ZIP_DEFLATED,
            members=[("archive/data/9", bytes(2**26))],
        ),
        "compressed members",
    ),
    "a way out": (
        lambda: rewritten(lambda i, d: (i.filename, d), members=[("../../evil", b"x")]),
        "whose name leads out",
    ),
    "no pickle": (lambda: rewritten(lambda i, d: (i.filename + "_", d)), "none of torch"),
    "a list": (lambda: torch_file([W]), "holds a list"),
    "no tensors": (lambda: torch_file({"epoch": 3, "lr": 0.1}), "holds no tensors, but epoch, lr"),
    "an expanded tensor": (lambda: torch_file({"w": W[0, 0].expand(10**9)}), "more than twice"),
    "a tensor of no values": (lambda: torch_file({"w": torch.empty(9, device="meta")}), "without"),
    "a sparse tensor": (lambda: torch_file({"w": W.to_sparse()}), "sparse"),
    "a key that is no text": (
        lambda: torch_file({"\ud800": W}),
        r"files cannot hold: '\ud800'",
    ),
    "a key of the format's own": (lambda: torch_file({"__metadata__": W}), "cannot hold: '__meta"),
    "keys that are numbers": (lambda: torch_file({1: W}), "keys that are no texts"),
    "much memory": (lambda: pickled(bytearray_of(2**31)), "more memory than it has"),
}


def test_hostile_pickles(place: VisitorFolder, shelf: Shelf, tmp_path: Path) -> None:
    """All at once: one process reads them one after another."""
    paths = []
    for i, (make, _) in enumerate(PICKLES.values()):
        paths.append(tmp_path / f"evil{i}.pt")
        paths[-1].write_bytes(make())
    good = tmp_path / "good.pt"
    torch.save({"w": W}, good)
    found = opened(place, *paths, good)
    assert [file.name for file in found.files] == ["good.pt"]
    assert len(found.refused) == len(PICKLES)
    for i, (sentence, (name, (_, expected))) in enumerate(zip(found.refused, PICKLES.items())):
        assert sentence.startswith(f"evil{i}.pt: "), name
        assert expected in sentence, (name, sentence)
        assert "issue" not in sentence, (name, sentence)
        assert len(sentence) < 400, name
        assert "\n" not in sentence, name
    assert not MARK.exists()
    (kept,) = place.path.iterdir()
    assert shelf.nbytes == kept.stat().st_size


def test_one_that_never_ends_is_ended(
    place: VisitorFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is read by another process."""
    monkeypatch.setattr(reader, "SECONDS", 1.0)
    (tmp_path / "0.pt").write_bytes(pickled(tuples(60)))
    torch.save({"w": W}, tmp_path / "1.pt")
    found = opened(place, tmp_path / "0.pt", tmp_path / "1.pt")
    assert found.refused == ("0.pt: takes much more time or memory than its size is worth.",)
    assert [file.name for file in found.files] == ["1.pt"]


def test_who_stops_ends_the_process_and_leaves_nothing(
    place: VisitorFolder, shelf: Shelf, tmp_path: Path
) -> None:
    torch.save({"w": W}, tmp_path / "1.pt")

    class EnoughError(Exception):
        """The visitor has gone."""

    seen = []

    def tell(*told: Any) -> None:
        seen.append(told)
        if len(seen) > 1:
            raise EnoughError

    with pytest.raises(EnoughError):
        open_own([("1.pt", tmp_path / "1.pt")], place, tell)
    assert list(place.path.iterdir()) == []
    assert shelf.nbytes == 0


def chain(tmp_path: Path) -> Path:
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path) as c:
        for step in range(3):
            c.save(step, {"w": W + step})
    codec.Chain(path).pack(tmp_path / "run.lcc.zip")
    return tmp_path / "run.lcc.zip"


def with_member(name: str, data: bytes, method: int) -> Callable[[bytes], bytes]:
    def change(archive: bytes) -> bytes:
        file = io.BytesIO(archive)
        with zipfile.ZipFile(file, "a", method) as own:
            own.writestr(name, data)
        return file.getvalue()

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda data: data[:-9], "is not a readable .lcc.zip"),
        (lambda data: b"PK" + bytes(99), "is not a readable .lcc.zip"),
        (with_member("../../evil", b"x", zipfile.ZIP_STORED), "is not a stored record"),
        (with_member("00000009.delta.safetensors", bytes(2**26), zipfile.ZIP_DEFLATED), "stored"),
    ],
    ids=["cut off", "wrong magic", "a way out", "a bomb"],
)
def test_a_hostile_archive(
    change: Callable[[bytes], bytes], expected: str, place: VisitorFolder, tmp_path: Path
) -> None:
    path = tmp_path / "evil.lcc.zip"
    path.write_bytes(change(chain(tmp_path).read_bytes()))
    found = opened(place, path)
    (sentence,) = found.refused
    assert sentence.startswith("evil.lcc.zip: is no chain: ")
    assert expected in sentence
    assert found.archive is None
    assert list(place.path.iterdir()) == []


def test_an_archive_and_a_chain_s_folder_are_the_same(place: VisitorFolder, tmp_path: Path) -> None:
    archive = chain(tmp_path)
    first = opened(place, archive)
    assert first.steps == (0, 1, 2)
    second = open_own(gathered(tmp_path / "run.lcc"), place, quiet)
    assert first.archive is not None
    assert second.archive is not None
    assert first.archive.sha256 == second.archive.sha256
    assert second.archive.name == "run.lcc.zip"
    for step, state in second.states():
        assert torch.equal(state["w"], codec.restore(archive, step)["w"])


def test_a_zip_of_too_many_members(
    place: VisitorFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted before Python makes an object of each; also across the chunks that are
    read, and however many the zip says it has."""
    archive = chain(tmp_path)
    torch.save({"w": W}, tmp_path / "1.pt")
    monkeypatch.setattr(foreign, "_CHUNK", 5)
    monkeypatch.setattr(foreign, "MAX_MEMBERS", 2)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    for path, told in ((archive, 3), (tmp_path / "1.pt", 6)):
        (sentence,) = opened(place, path).refused
        assert sentence.startswith(f"{path.name}: is a zip of ")
        with path.open("rb") as file:
            n = file.read().count(b"PK\1\2")
        assert f"{n} members; 2 are taken." in sentence
        assert n >= told


def test_an_uploaded_archive_takes_its_room_once(
    place: VisitorFolder, shelf: Shelf, tmp_path: Path
) -> None:
    data = chain(tmp_path).read_bytes()
    place.take(len(data))
    (place.path / "upload0.zip").write_bytes(data)
    found = open_own([("Mine.LCC.ZIP", place.path / "upload0.zip")], place, quiet)
    assert found.steps == (0, 1, 2)
    assert found.archive is not None
    assert (found.archive.name, found.archive.nbytes) == ("Mine.LCC.ZIP", len(data))
    assert sum(p.stat().st_size for p in place.path.iterdir()) == shelf.nbytes == len(data)


def test_a_chain_is_opened_alone(place: VisitorFolder, tmp_path: Path) -> None:
    torch.save({"w": W}, tmp_path / "1.pt")
    with pytest.raises(SourceError, match=r"run\.lcc\.zip: is a chain.*open it alone"):
        opened(place, chain(tmp_path), tmp_path / "1.pt")


def test_nested_weights_are_found_and_the_rest_is_said(
    place: VisitorFolder, tmp_path: Path
) -> None:
    weights = {"state_dict": {"model": {"b": W[0], "a": W.T, "n": 3}}}
    more = {"epoch": 1, "optimizer": {"state": {}}, "loss": torch.tensor(0.5)}
    torch.save(weights | more, tmp_path / "n.pt")
    save_file({"b": W.bfloat16()}, tmp_path / "m.safetensors")
    found = opened(place, tmp_path / "m.safetensors", tmp_path / "n.pt")
    half, nested = found.files
    assert nested.under == ("state_dict", "model")
    assert nested.left_out == ("epoch", "optimizer", "loss", "state_dict/model/n")
    assert dict(nested.tensors) == {"a": ("F32", (5, 4)), "b": ("F32", (5,))}
    state = nested.state()
    assert list(state) == ["a", "b"]
    assert torch.equal(state["a"], W.T)
    assert state["a"].is_contiguous()
    assert half.state()["b"].dtype == torch.bfloat16
    data = (tmp_path / "n.pt").read_bytes()
    assert (nested.nbytes, nested.sha256) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize(
    ("names", "steps", "order"),
    [
        (["e10.safetensors", "e9.safetensors"], {"e9": 9, "e10": 10}, "last number"),
        (["v2-7.safetensors", "v2-3.safetensors"], {"v2-3": 3, "v2-7": 7}, "last number"),
        (["b.safetensors", "a.safetensors"], {"a": 0, "b": 1}, "by name, and counted from 0"),
        (["m_e9_l0.7.pt", "m_e10_l0.6.pt"], {"m_e9_l0.7": 9, "m_e10_l0.6": 10}, "last number"),
        (["a1.safetensors", "b1.safetensors"], {"a1": 0, "b1": 1}, "by name, and counted"),
        (
            ["e10.safetensors", "e9.safetensors", "last.safetensors"],
            {"e9": 0, "e10": 1, "last": 2},
            "by name, and counted",
        ),
        (["E9.SafeTensors", "e10.SAFETENSORS"], {"E9": 9, "e10": 10}, "last number"),
    ],
)
def test_the_order_is_that_of_the_numbers(
    names: list[str], steps: dict[str, int], order: str, place: VisitorFolder, tmp_path: Path
) -> None:
    for name in names:
        (torch.save if name.endswith(".pt") else save_file)({"w": W}, tmp_path / name)
    found = opened(place, *(tmp_path / name for name in names))
    assert {Path(f.name).stem: f.step for f in found.files} == steps
    assert [f.step for f in found.files] == sorted(steps.values())
    assert order in found.order


def test_a_file_with_other_tensors_is_named(place: VisitorFolder, tmp_path: Path) -> None:
    for i in range(3):
        save_file({"w": W, "b": W[0].clone()}, tmp_path / f"{i}.safetensors")
    save_file({"w": W.T.contiguous(), "c": W}, tmp_path / "3.safetensors")
    found = opened(place, *(tmp_path / f"{i}.safetensors" for i in range(4)))
    assert found.odd == (
        "3.safetensors has other tensors than 3 others: it lacks b; it also has c; of another "
        "shape or dtype are w. A base is written there.",
    )


def test_parts_of_one_checkpoint_are_told(place: VisitorFolder, tmp_path: Path) -> None:
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for i, name in enumerate(names):
        save_file({f"w{i}": W}, tmp_path / name)
    found = opened(place, *(tmp_path / name for name in names))
    assert found.odd[0].startswith(f"{names[0]} and 1 other look like parts of one checkpoint")


def test_names_that_are_no_text(place: VisitorFolder, tmp_path: Path) -> None:
    """Disks take any bytes for a name; pages and receipts show text alone."""
    for i, suffix in enumerate((b".pt", b".safetensors")):
        path = os.fsencode(tmp_path) + b"/\xe9po" + str(i).encode() + suffix
        save = torch.save if suffix == b".pt" else save_file
        save({"w": W + i}, tmp_path / "x")
        os.rename(tmp_path / "x", path)
    found = open_own(gathered(tmp_path), place, lambda _a, _b, name: name.encode())
    assert [file.name for file in found.files] == [r"\udce9po0.pt", r"\udce9po1.safetensors"]
    assert [file.step for file in found.files] == [0, 1]
    assert torch.equal(found.files[1].state()["w"], W + 1)


def test_names_that_are_long(place: VisitorFolder, tmp_path: Path) -> None:
    """An upload may be called anything; Python refuses to read 5,000 digits as a number."""
    save_file({"w": W}, tmp_path / "x")
    names = [f"{'1' * 5000}.safetensors", f"{'a' * 5000}7.safetensors"]
    found = open_own([(name, tmp_path / "x") for name in names], place, quiet)
    assert "too large for a step" in found.refused[0]
    found = open_own([(names[1], tmp_path / "x")], place, quiet)
    assert len(found.files[0].name) == 255
    assert found.files[0].step == 7


def test_what_else_a_pickle_names_can_be_shown(place: VisitorFolder, tmp_path: Path) -> None:
    torch.save({"model": {"w": W}, "\ud800": 1}, tmp_path / "1.pt")
    (file,) = opened(place, tmp_path / "1.pt").files
    assert file.left_out == (r"\ud800",)


def test_marked_views_are_the_values_they_stand_for(place: VisitorFolder, tmp_path: Path) -> None:
    """A conjugate, or its imaginary part, is saved as a mark beside the memory of another."""
    z = torch.complex(W, W + 1)
    torch.save({"z": z.conj(), "n": z.clone().conj().imag}, tmp_path / "1.pt")
    back = torch.load(tmp_path / "1.pt", weights_only=True)
    assert back["z"].is_conj()
    assert back["n"].is_neg()
    (file,) = opened(place, tmp_path / "1.pt").files
    state = file.state()
    assert torch.equal(state["z"], z.conj().resolve_conj())
    assert torch.equal(state["n"], -(W + 1))


@pytest.mark.parametrize("dtype", sorted(foreign._SIZES))
def test_every_dtype_that_is_taken_can_be_read(
    dtype: str, place: VisitorFolder, tmp_path: Path
) -> None:
    size = foreign._SIZES[dtype]
    told = {"w": entry([3, 4], 0, 12 * size, dtype), "s": entry([], 12 * size, 13 * size, dtype)}
    path = tmp_path / "1.safetensors"
    path.write_bytes(safetensors(header(**told), bytes(13 * size)))
    (file,) = opened(place, path).files
    state = file.state()
    assert {name: tuple(t.shape) for name, t in state.items()} == {"w": (3, 4), "s": ()}


def test_names_and_kinds_that_are_not_taken(place: VisitorFolder, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"x")
    save_file({"w": W}, tmp_path / "1.safetensors")
    os.mkfifo(tmp_path / "pipe.pt")
    named = [
        ("a.pt", tmp_path / "gone.pt"),
        ("x.npy", tmp_path / "x.npy"),
        ("pipe.pt", tmp_path / "pipe.pt"),
        ("1.safetensors", tmp_path / "1.safetensors"),
        ("1.safetensors", tmp_path / "1.safetensors"),
    ]
    found = open_own(named, place, quiet)
    assert not found.files
    gone, kind, pipe, first, second = found.refused
    assert "a.pt: is not there" in gone
    assert "x.npy: is none of .safetensors, .pt" in kind
    assert pipe == "pipe.pt: is no file."
    assert first == second == "1.safetensors: has the name of another one; rename it."


def test_a_refused_upload_is_deleted_at_once(place: VisitorFolder, shelf: Shelf) -> None:
    for name, data in (("upload0.pt", b"evil"), ("upload1.safetensors", HOSTILE["overlap"][0])):
        place.take(len(data))
        (place.path / name).write_bytes(data)
    uploads = sorted(place.path.iterdir())
    found = open_own([("../../a.pt", uploads[0]), ("C:\\b.safetensors", uploads[1])], place, quiet)
    assert [r.partition(":")[0] for r in found.refused] == ["a.pt", "b.safetensors"]
    assert list(place.path.iterdir()) == []
    assert shelf.nbytes == 0


def test_too_many_and_too_large(
    place: VisitorFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1.safetensors"
    save_file({"w": W}, path)
    with pytest.raises(SourceError, match="201 files; up to 200"):
        open_own([(f"{i}.safetensors", path) for i in range(201)], place, quiet)
    monkeypatch.setattr(own, "MOST_EACH", 10)
    assert "up to 10 B are taken" in opened(place, path).refused[0]


def test_a_step_too_large_for_a_chain(place: VisitorFolder, tmp_path: Path) -> None:
    path = tmp_path / f"{2**63}.safetensors"
    save_file({"w": W}, path)
    found = opened(place, path)
    assert not found.files
    assert "too large for a step" in found.refused[0]


def test_a_file_that_changes_meanwhile_is_noticed(place: VisitorFolder, tmp_path: Path) -> None:
    path = tmp_path / "1.safetensors"
    save_file({"w": W}, path)
    (file,) = opened(place, path).files
    save_file({"w": W + 1}, path)
    with pytest.raises(SourceError, match="has changed since it was opened"):
        file.state()


def test_a_pickle_that_changes_while_it_is_read(place: VisitorFolder, tmp_path: Path) -> None:
    """Its SHA-256 is to be that of the bytes that were read."""
    path, times = tmp_path / "1.pt", itertools.count()

    def tell(*_: Any) -> None:
        torch.save({"w": W + next(times)}, tmp_path / "next")
        os.replace(tmp_path / "next", path)

    tell()
    found = open_own([("1.pt", path)], place, tell)
    assert found.refused == ("1.pt: has changed while it was read; open it again.",)
    assert list(place.path.iterdir()) == []


def test_a_file_that_is_gone_or_cannot_be_read(
    place: VisitorFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1.safetensors"
    save_file({"w": W}, path)
    (file,) = opened(place, path).files
    with monkeypatch.context() as patch:
        patch.setattr(brought, "load", lambda _: {}["no such dtype"])
        with pytest.raises(SourceError, match=r"1\.safetensors: cannot be read as tensors"):
            file.state()
    path.unlink()
    with pytest.raises(SourceError, match=r"1\.safetensors: is not there any more; open it again"):
        file.state()


def test_only_so_many_pickles_are_read_at_once(tmp_path: Path) -> None:
    """Who waits for a turn is asked now and then whether he still wants it."""
    asked = []

    class EnoughError(Exception):
        """The visitor has gone."""

    def look() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise EnoughError

    for _ in range(reader.AT_ONCE):
        reader._TURNS.acquire()
    try:
        with pytest.raises(EnoughError):
            Reader().convert(tmp_path / "1.pt", tmp_path / "1.safetensors", look)
    finally:
        reader._TURNS.release(reader.AT_ONCE)


def test_what_a_path_names(tmp_path: Path) -> None:
    for name in ("2.pt", "1.safetensors", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [name for name, _ in gathered(tmp_path)] == ["1.safetensors", "2.pt"]
    assert gathered(tmp_path / "2.pt") == [("2.pt", tmp_path / "2.pt")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="neither"):
        gathered(tmp_path / "empty")


def test_the_shelf_is_capped_for_all_together() -> None:
    shelf = Shelf(most_bytes=100, most_places=2)
    first, second = shelf.place(), shelf.place()
    with pytest.raises(FullError, match="keeps 2 series and chains of visitors"):
        shelf.place()
    first.take(60)
    with pytest.raises(FullError, match="keeps 100 B of visitors' files at most"):
        second.take(41)
    second.take(40)
    first.take(-10)
    (second.path / "x").write_bytes(bytes(7))
    second.remove(second.path / "x")
    assert shelf.nbytes == 50 + 33
    path = first.path
    del first  # nobody holds it any more
    assert not path.exists()
    assert shelf.nbytes == 33
    second.close()
    assert shelf.nbytes == 0
    shelf.place()


def test_a_reader_that_cannot_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")
    (tmp_path / "1.pt").write_bytes(b"x")
    answer = Reader().convert(tmp_path / "1.pt", tmp_path / "1.safetensors", lambda: None)
    assert "does not start" in answer["error"]
