"""Checkpoints that a visitor brings: taken in order, or refused in a sentence, nothing left."""

import argparse
import hashlib
import io
import json
import os
import pickle
import re
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save, save_file

from codec.errors import SourceError
from lcviz.server import foreign_files as foreign
from lcviz.server import own_files, pt_reader
from lcviz.server.own_files import OwnFile, OwnFiles, in_order, list_files, open_files
from lcviz.server.pt_reader import Reader
from lcviz.server.quota import Shelf, VisitorFolder
from lcviz.text import nbytes_text
from tests.lcviz.common import MakePath, Patch

MARK = Path(tempfile.gettempdir()) / f"lcviz-was-run-{os.getpid()}"
W = torch.arange(20.0).reshape(4, 5)


class LeftError(Exception):
    """The visitor has gone."""


def quiet(*_: Any) -> None:
    """Nobody looks."""


def opened(place: VisitorFolder, *paths: Path) -> OwnFiles:
    return open_files([(p.name, p) for p in paths], place, quiet)


def safetensors(header: bytes, data: bytes = b"", n: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if n is None else n) + header + data


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def described(nbytes: int, **entries: Any) -> bytes:
    """A file of so many bytes that these entries describe."""
    return safetensors(json.dumps(entries).encode(), bytes(nbytes))


GOOD = json.dumps({"w": entry([2, 2], 0, 16)}).encode()
OVERLAP = described(24, v=entry([4], 0, 16), w=entry([4], 8, 24))
DIGITS = b'{"w":{"dtype":"F32","shape":[' + b"9" * 10**6 + b"]}}"
HOSTILE = [
    (b"", "the file is empty"),
    (b"1234", "only 4 bytes"),
    (b"\x93NUMPY" + bytes(100), "does not begin with the length of a header"),
    (struct.pack("<Q", 2**63 - 1) + bytes(9), "longer than 16 MiB"),
    (safetensors(b"{}", n=500), "its header would have 500 bytes"),
    (safetensors(b"{" * 90), "an invalid header"),
    (safetensors(b'{"a":' + b"[" * 90_000), "an invalid header"),
    (safetensors(GOOD[:-1] + b"," + GOOD[1:], bytes(16)), "twice"),
    (safetensors(GOOD, bytes(15)), "is cut off, or too long"),
    (safetensors(GOOD, bytes(17)), "is cut off, or too long"),
    (described(16, w=entry([2**40, 2**19], 0, 16)), "has the shape"),
    (described(16, w=entry([-2, -2], 0, 16)), "the shape"),
    (OVERLAP, "overlap"),
    (described(24, w=entry([4], 8, 24)), "overlap, or a gap"),
    (described(16, w=entry([4], 0, 16, "F33")), "'F33'"),
    (safetensors(DIGITS), "invalid header"),
    (described(4, w=entry([1] * 65, 0, 4)), "describes its tensor 'w' wrongly"),
    (described(4, w=entry([1], 0, 4) | {"x": 1}), "wrongly"),
    (safetensors(b"{}"), "holds no tensors"),
    (described(0, w=entry([0, 3], 0, 0)), "holds empty tensors only"),
    (described(16, w=entry([2, 2], 0, 16), __metadata__={"a": 1}), "has an invalid header"),
    (safetensors(GOOD.replace(b"[2, 2]", b"[4, -0, 0]").replace(b"16", b"0")), "holds empty"),
    (described(4, w=entry([0, 2**62, 2**62], 0, 0), v=entry([1], 0, 4)), "impossibly large"),
    (safetensors(GOOD.replace(b'"w"', b'"\\ud800"'), bytes(16)), "name is not valid Unicode"),
]


def torch_file(state: Any, *, zipped: bool = True) -> bytes:
    file = io.BytesIO()
    torch.save(state, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def rewritten(
    *more: tuple[str, bytes], pickled: bytes | None = None, end: str = "", method: int = 0
) -> bytes:
    """A torch zip with its pickle replaced, an end added to names, or more members."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(torch_file({"w": W}))) as old,
        zipfile.ZipFile(file, "w", method) as new,
    ):
        for name in old.namelist():
            replaces = pickled is not None and name.endswith("data.pkl")
            new.writestr(name + end, pickled if replaces else old.read(name))
        for name, data in more:
            new.writestr(name, data)
    return file.getvalue()


class Runs:
    """Unpickling this would make a file."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {MARK}",)


def tuples(depth: int) -> bytes:
    """A pickle of {t: 1} with t = (t', t') and so on: hashing it takes 2 ** depth steps."""
    return b"\x80\x02})" + b"q\x00h\x00\x86" * depth + b"K\x01s."


def hostile_pickles() -> list[tuple[bytes, str]]:
    n = (2**31).to_bytes(6, "little")  # bytearray(2**31), which weights_only allows
    memory = b"\x80\x02cbuiltins\nbytearray\n\x8a\x06" + n + b"\x85R."
    bomb = ("archive/data/9", bytes(2**22))
    return [
        (pickle.dumps(Runs()), "plain pickle"),
        (b"", "the file is empty"),
        (torch_file({"w": W}, zipped=False), "since version 1.6, a zip"),
        (rewritten(pickled=pickle.dumps(Runs(), 2)), "it asks to run posix.system, and no code"),
        (torch_file({"w": W, "args": argparse.Namespace()}), "run argparse.Namespace"),
        (b"no zip at all", "not a torch.save file"),
        (rewritten(pickled=b"\x80\x02\x95."), "operand 149"),
        (torch_file({"w": W})[:-40], "cut off or damaged"),
        (rewritten(bomb, method=zipfile.ZIP_DEFLATED), "compressed members"),
        (rewritten(("../../evil", b"x")), "whose name leads out"),
        (rewritten(end="_"), "not one written by torch.save"),
        (torch_file([W]), "holds a list"),
        (torch_file({"epoch": 3, "lr": 0.1}), "holds no tensors, but epoch, lr"),
        (torch_file({"w": W[0, 0].expand(10**9)}), "more than twice"),
        (torch_file({"w": torch.empty(9, device="meta")}), "without"),
        (torch_file({"w": W.to_sparse()}), "sparse"),
        (torch_file({"\ud800": W}), r"files cannot hold: '\ud800'"),
        (torch_file({"__metadata__": W}), "cannot hold: '__meta"),
        (torch_file({(1, 2): W}), "a key of the state is a tuple"),
        (rewritten(pickled=memory), "more memory than it has"),
    ]


def test_hostile_files(place: VisitorFolder, shelf: Shelf, tmp_path: Path) -> None:
    """All at once: one process reads the pickles one after another, and is still there at last."""
    expected = {}
    for suffix, cases in ((".safetensors", HOSTILE), (".pt", hostile_pickles())):
        for i, (data, sentence) in enumerate(cases):
            (tmp_path / f"evil{i}{suffix}").write_bytes(data)
            expected[f"evil{i}{suffix}"] = sentence
    torch.save({"w": W}, tmp_path / "good.pt")
    found = opened(place, *(tmp_path / name for name in [*expected, "good.pt"]))
    assert [file.name for file in found.files] == ["good.pt"]
    refused = dict(sentence.split(": ", 1) for sentence in found.refused)
    assert refused.keys() == expected.keys()
    for name, sentence in refused.items():
        assert expected[name] in sentence, name
        assert not re.search(r"issue|\n|.{400}", sentence), name  # torch asks to file an issue
    assert not MARK.exists()
    (kept,) = place.path.iterdir()
    assert shelf.nbytes == kept.stat().st_size


def test_one_that_never_ends(place: VisitorFolder, tmp_path: Path, monkeypatch: Patch) -> None:
    """The next one is read by another process."""
    monkeypatch.setattr(pt_reader, "SECONDS", 0.0)
    monkeypatch.setattr(pt_reader, "START_SECONDS", 600.0)  # also on a busy machine
    monkeypatch.setattr(pt_reader, "SECONDS_A_BYTE", 1e-4)  # the larger file has minutes
    (tmp_path / "0.pt").write_bytes(rewritten(pickled=tuples(60)))
    torch.save({"w": torch.zeros(2**20)}, tmp_path / "1.pt")
    found = opened(place, tmp_path / "0.pt", tmp_path / "1.pt")
    assert found.refused == ("0.pt: takes far more time or memory than a file of its size needs.",)
    assert [file.name for file in found.files] == ["1.pt"]


def test_who_leaves(place: VisitorFolder, shelf: Shelf, tmp_path: Path, monkeypatch: Patch) -> None:
    """It ends the process that reads, and leaves nothing."""
    monkeypatch.setattr(own_files, "Reader", Reader)  # a process of its own
    torch.save({"w": W}, tmp_path / "1.pt")
    calls = []

    def tell(*call: Any) -> None:
        calls.append(call)
        if len(calls) > 1:
            raise LeftError

    with pytest.raises(LeftError):
        open_files([("1.pt", tmp_path / "1.pt")], place, tell)
    assert (list(place.path.iterdir()), shelf.nbytes) == ([], 0)


def uploaded(place: VisitorFolder, data: bytes, name: str = "upload0.zip") -> Path:
    """A file that Streamlit has received."""
    place.take(len(data))
    (place.path / name).write_bytes(data)
    return place.path / name


def test_archive_folder_and_upload_are_one_chain(make_chain: MakePath, tmp_path: Path) -> None:
    chain = make_chain(*({"w": W + i} for i in range(3)))
    data = (tmp_path / "run.lcc.zip").read_bytes()
    shelf = Shelf()
    place, upload = shelf.place(), shelf.place()
    found = [
        opened(place, tmp_path / "run.lcc.zip"),
        open_files(list_files(chain), shelf.place(), quiet),
        open_files([("Mine.LCC.ZIP", uploaded(upload, data))], upload, quiet),
    ]
    digest = hashlib.sha256(data).hexdigest()
    for own, name in zip(found, ("run.lcc.zip", "run.lcc.zip", "Mine.LCC.ZIP")):
        assert own.archive is not None
        assert (own.archive.name, own.archive.sha256, own.steps) == (name, digest, (0, 1, 2))
        assert all(torch.equal(state["w"], W + step) for step, state in own.states())
    assert sum(p.stat().st_size for p in upload.path.iterdir()) == len(data)
    assert shelf.nbytes == pytest.approx(3 * len(data), abs=2000)  # records, or their archive
    torch.save({"w": W}, tmp_path / "1.pt")
    with pytest.raises(SourceError, match=r"run\.lcc\.zip: is a chain; open it alone"):
        opened(place, tmp_path / "run.lcc.zip", tmp_path / "1.pt")


DELTA = "00000009.delta.safetensors"


def bundle(
    *members: tuple[str, bytes], old: bytes = b"", method: int = zipfile.ZIP_STORED
) -> bytes:
    """A zip of these members, added to an old one."""
    file = io.BytesIO(old)
    with zipfile.ZipFile(file, "a", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


def test_a_chain_beside_its_papers(make_chain: MakePath, tmp_path: Path, shelf: Shelf) -> None:
    """As *Download everything* gives it; names lead nowhere."""
    make_chain(*({"w": W + i} for i in range(3)))
    chain = (tmp_path / "run.lcc.zip").read_bytes()
    papers = [("receipt.json", b"{}"), ("reader.py", b"raise SystemExit")]
    data = bundle(("../../evil.LCC.zip", chain), *papers)
    (tmp_path / "all.zip").write_bytes(data)
    place, upload = shelf.place(), shelf.place()
    for own in (
        opened(place, tmp_path / "all.zip"),
        open_files([("all.zip", uploaded(upload, data))], upload, quiet),
    ):
        assert own.archive is not None
        assert (own.refused, own.archive.name, own.steps) == ((), "all.zip", (0, 1, 2))
        assert own.archive.sha256 == hashlib.sha256(chain).hexdigest()
        assert [p.name for p in own.place.path.iterdir()] == ["opened.lcc.zip"]
    assert shelf.nbytes == 2 * len(chain)
    assert not (tmp_path.parent / "evil.LCC.zip").exists()


def test_hostile_archives(
    make_chain: MakePath, tmp_path: Path, shelf: Shelf, place: VisitorFolder
) -> None:
    """A chain's own, and one that lies beside papers."""
    chain = make_chain({"w": W}).with_name("run.lcc.zip").read_bytes()
    whole = bundle(("a.lcc.zip", chain))
    damaged = bytearray(whole)
    damaged[60] ^= 1
    larger = bytearray(whole)  # the list says that it unpacks to 2 GiB
    at = whole.rindex(b"PK\1\2") + 24
    larger[at : at + 4] = struct.pack("<I", 2**31)
    wrong, bomb = "is not a valid chain: ", bytes(2**22)
    deflated = zipfile.ZIP_DEFLATED
    for name, data, *sentences in (
        ("evil.lcc.zip", chain[:-9], wrong, "ends too early", "download it again"),
        ("evil.lcc.zip", b"PK" + bytes(99), wrong, "is not a readable .lcc.zip"),
        ("evil.lcc.zip", bundle(("../../evil", b"x"), old=chain), wrong, "not a stored record"),
        ("evil.lcc.zip", bundle((DELTA, bomb), old=chain, method=deflated), wrong, "stored"),
        ("all.zip", bundle(("a.lcc.zip", chain), ("b.lcc.zip", chain)), "holds 2 chains; unpack"),
        ("all.zip", bundle(("a.lcc.zip", bomb), method=deflated), "a compressed chain"),
        ("all.zip", bytes(damaged), "cut off or damaged"),
        ("all.zip", bytes(larger), "compressed chain"),
        ("all.zip", bundle(("a.lcc.zip", b"x" * 99)), "is not a readable .lcc.zip"),
        ("all.zip", bundle(("notes.txt", b"x")), "is not a valid chain: "),
    ):
        (tmp_path / name).write_bytes(data)
        opening = opened(place, tmp_path / name)
        (refusal,) = opening.refused
        assert all(sentence in refusal for sentence in (f"{name}: ", *sentences)), refusal
        assert (opening.archive, list(place.path.iterdir()), shelf.nbytes) == (None, [], 0)


def test_too_many_members(
    place: VisitorFolder, make_chain: MakePath, tmp_path: Path, monkeypatch: Patch
) -> None:
    """They are counted before Python makes an object of each, whatever number the zip states."""
    archive = make_chain(*({"w": W + i} for i in range(3))).with_name("run.lcc.zip")
    torch.save({"w": W}, tmp_path / "1.pt")
    monkeypatch.setattr(foreign, "_CHUNK", 5)
    monkeypatch.setattr(foreign, "MAX_MEMBERS", 2)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    for path in (archive, tmp_path / "1.pt"):
        (sentence,) = opened(place, path).refused
        n = path.read_bytes().count(b"PK\1\2")
        assert n >= 3
        assert sentence.startswith(f"{path.name}: is a zip of {n} members")


def test_what_a_pickle_holds(place: VisitorFolder, tmp_path: Path) -> None:
    """Nested weights, other values, names of no Unicode, and views that stand for other values."""
    z = torch.complex(W, W + 1)
    views = {"z": z.conj(), "n": z.clone().conj().imag}  # marks beside the memory of another
    assert (views["z"].is_conj(), views["n"].is_neg()) == (True, True)
    weights = {"state_dict": {"model": {"b": W[0], "a": W.T, "n": 3}}}
    more = {"epoch": 1, "optimizer": {"state": {}}, "loss": torch.tensor(0.5), "\ud800": 1}
    more |= {"numbers": [(1, 2.5, None, b"x"), 10**30], "kinds": {1, 2}}
    torch.save(views, tmp_path / "1.pt")
    torch.save(weights | more, tmp_path / "2.pt")
    save_file({"b": W.bfloat16()}, tmp_path / "3.safetensors")
    torch.save({"w": W}, tmp_path / "4")
    os.rename(tmp_path / "4", os.fsencode(tmp_path) + b"/\xe9po4.pt")
    found = open_files(list_files(tmp_path), place, lambda _a, _b, name: name.encode())
    marked, nested, half, named = found.files
    state = marked.state()
    assert torch.equal(state["z"], z.conj().resolve_conj())
    assert torch.equal(state["n"], -(W + 1))
    assert nested.parts.keys() == {"state_dict", "epoch", "optimizer", "loss", "numbers"}
    assert nested.left_out.keys() == {r"\ud800", "kinds"}
    assert "is a set" in nested.left_out["kinds"]
    assert dict(nested.tensors) == {
        "state_dict/model/a": ("F32", (5, 4)),
        "state_dict/model/b": ("F32", (5,)),
        "loss": ("F32", ()),
    }
    state = nested.state()
    assert list(state) == ["state_dict", "epoch", "optimizer", "loss", "numbers"]
    values = [state[name] for name in ("epoch", "optimizer", "numbers")]
    assert values == [1, {"state": {}}, [(1, 2.5, None, b"x"), 10**30]]
    inner = state["state_dict"]["model"]
    assert (list(inner), inner["n"], inner["a"].is_contiguous()) == (["b", "a", "n"], 3, True)
    assert torch.equal(inner["a"], W.T)
    data = (tmp_path / "2.pt").read_bytes()
    assert (nested.nbytes, nested.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert half.state()["b"].dtype == torch.bfloat16
    assert (named.name, named.step) == (r"\udce9po4.pt", 3)  # counted
    assert torch.equal(named.state()["w"], W)


@pytest.mark.parametrize(
    ("names", "steps", "order"),
    [
        (["e10.pt", "e9.pt"], {"e9.pt": 9, "e10.pt": 10}, "last number"),
        (["v2-7.pt", "v2-3.pt"], {"v2-3.pt": 3, "v2-7.pt": 7}, "last number"),
        (["m_e9_l0.7", "m_e10_l0.6"], {"m_e9_l0.7": 9, "m_e10_l0.6": 10}, "last number"),
        (["E9.SafeTensors", "e10.PT"], {"E9.SafeTensors": 9, "e10.PT": 10}, "last number"),
        (["b.pt", "a.pt"], {"a.pt": 0, "b.pt": 1}, "by name, and counted from 0"),
        (["a1.pt", "b1.pt"], {"a1.pt": 0, "b1.pt": 1}, "by name, and counted"),
        (["e10", "e9", "last"], {"e9": 0, "e10": 1, "last": 2}, "by name, and counted"),
    ],
)
def test_in_the_order_of_numbers(names: list[str], steps: dict[str, int], order: str) -> None:
    files, sentence = in_order([OwnFile(name, 0, "", Path(), Path(), {}) for name in names])
    assert [(f.name, f.step) for f in files] == list(steps.items())
    assert order in sentence


def test_files_that_are_unlike_the_rest(place: VisitorFolder, tmp_path: Path) -> None:
    for i in range(3):
        save_file({"w": W, "b": W[0].clone()}, tmp_path / f"{i}.safetensors")
    save_file({"w": W.T.contiguous(), "c": W}, tmp_path / "3.safetensors")
    assert opened(place, *tmp_path.iterdir()).odd == (
        "3.safetensors has other tensors than 3 others: it lacks b; it also has c; of another "
        "shape or dtype are w. A base is written there.",
    )
    parts = [tmp_path / f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for path in parts:
        save_file({f"w{path.name[9]}": W}, path)
    assert f"{parts[0].name} and 1 other look like parts" in opened(place, *parts).odd[0]


def test_names_that_are_long(place: VisitorFolder, tmp_path: Path) -> None:
    """An upload may be called anything; Python refuses to read 5,000 digits as a number."""
    save_file({"w": W}, tmp_path / "x")
    for name in (f"{'1' * 5000}.safetensors", f"{2**63}.safetensors"):
        found = open_files([(name, tmp_path / "x")], place, quiet)
        assert not found.files
        assert "too large for a step" in found.refused[0]
    (file,) = open_files([(f"{'a' * 5000}7.safetensors", tmp_path / "x")], place, quiet).files
    assert (len(file.name), file.step) == (255, 7)


def test_every_dtype_that_is_taken_can_be_read(place: VisitorFolder, tmp_path: Path) -> None:
    sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "C64": 8, "BOOL": 1}
    sizes |= dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 1)
    sizes |= {f"{sign}{8 * n}": n for sign in "IU" for n in (1, 2, 4, 8)}
    path, entries, end = tmp_path / "1.safetensors", {}, 0
    for dtype, size in sizes.items():
        entries[dtype] = entry([3, 4], end, end + 12 * size, dtype)
        entries[f"{dtype}-scalar"] = entry([], end + 12 * size, end + 13 * size, dtype)
        end += 13 * size
    path.write_bytes(described(end, **entries))
    (file,) = opened(place, path).files
    shapes = {name: tuple(tensor.shape) for name, tensor in file.state().items()}
    assert shapes == {name: tuple(e["shape"]) for name, e in entries.items()}


def test_files_that_are_refused(place: VisitorFolder, tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "x.npy").write_bytes(b"x")
    good = tmp_path / "1.safetensors"
    save_file({"w": W}, good)
    os.mkfifo(tmp_path / "pipe.pt")
    paths = [tmp_path / "a.pt", good, good, tmp_path / "x.npy", tmp_path / "pipe.pt"]
    found = opened(place, *paths)
    assert not found.files
    gone, first, second, kind, pipe = found.refused
    assert gone.startswith("a.pt: file not found")
    assert first == second == "1.safetensors: another file has the same name; rename it."
    kinds = "x.npy: is not a checkpoint; open files of .safetensors, .pt.*, or one chain, .lcc.zip."
    assert re.fullmatch(kinds, kind)
    assert pipe == "pipe.pt: is not a regular file."
    with pytest.raises(SourceError, match="201 files; up to 200"):
        open_files([(f"{i}.safetensors", good) for i in range(201)], place, quiet)
    monkeypatch.setattr(own_files, "MOST_EACH", 10)
    assert "the limit is 10 B" in opened(place, good).refused[0]


def test_a_refused_upload_is_deleted_at_once(place: VisitorFolder, shelf: Shelf) -> None:
    first = uploaded(place, b"evil", "upload0.pt")
    second = uploaded(place, OVERLAP, "upload1.safetensors")
    found = open_files([("../../a.pt", first), ("C:\\b.safetensors", second)], place, quiet)
    assert [r.partition(":")[0] for r in found.refused] == ["a.pt", "b.safetensors"]
    assert (list(place.path.iterdir()), shelf.nbytes) == ([], 0)


def test_files_that_change_or_go(place: VisitorFolder, tmp_path: Path, monkeypatch: Patch) -> None:
    path = tmp_path / "1.safetensors"
    save_file({"w": W}, path)
    (file,) = opened(place, path).files
    with monkeypatch.context() as patch:
        patch.setattr(own_files, "load", lambda _: {}["no such dtype"])
        with pytest.raises(SourceError, match=r"1\.safetensors: cannot be read as tensors"):
            file.state()
    save_file({"w": W + 1}, path)
    with pytest.raises(SourceError, match="has changed since it was opened"):
        file.state()
    path.unlink()
    with pytest.raises(SourceError, match=r"1\.safetensors: is gone; open it again"):
        file.state()


def test_a_pickle_that_changes(
    place: VisitorFolder, shelf: Shelf, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Its SHA-256 is to be that of the bytes that were read."""

    def convert(_: Reader, source: Path, target: Path, _waiting: Any) -> dict[str, Any]:
        target.write_bytes(save({"w": W}))
        torch.save({"w": W + 1}, source)
        return {"parts": {}, "left_out": {}}

    monkeypatch.setattr(Reader, "convert", convert)
    torch.save({"w": W}, tmp_path / "1.pt")
    found = opened(place, tmp_path / "1.pt")
    assert found.refused == ("1.pt: has changed while it was read; open it again.",)
    assert (list(place.path.iterdir()), shelf.nbytes) == ([], 0)


def test_what_a_path_names(tmp_path: Path) -> None:
    for name in ("2.pt", "1.safetensors", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [name for name, _ in list_files(tmp_path)] == ["1.safetensors", "2.pt"]
    assert list_files(tmp_path / "2.pt") == [("2.pt", tmp_path / "2.pt")]
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="neither"):
        list_files(tmp_path / "empty")


def test_what_is_there_in_words(place: VisitorFolder, series: Path, make_chain: MakePath) -> None:
    """Two who open the same bytes at the same steps have the same digest."""
    paths = sorted(series.iterdir())
    found = opened(place, *paths)
    nbytes = sum(path.stat().st_size for path in paths)
    assert found.describe() == f"4 files, steps 0–15 every 5, {nbytes_text(nbytes)}"
    fewer = opened(place, *(path for path in paths if "10" not in path.name))
    assert "3 files, steps 0–15 unevenly spaced, " in fewer.describe()
    assert (found.spacing, fewer.spacing) == (5, None)
    chain = opened(place, make_chain({"w": W}, {"w": W + 1}, {"w": W + 2}))
    assert chain.describe().startswith("A chain of 3 steps, steps 0–2 every 1, ")
    assert opened(place, *reversed(paths)).digest == found.digest
    assert len({found.digest, fewer.digest, chain.digest}) == 3
