"""States in .safetensors and .pt files."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_numpy
from safetensors.torch import load as load_torch
from safetensors.torch import save_file

import codec
from codec.errors import DTypeError, SourceError
from codec.state import tensor_files as files

Capture = pytest.CaptureFixture[str]


class Foreign:
    """What only unpickling can make."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("unpickled",))


def test_to_safetensors() -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(3)}
    assert {k: v.tolist() for k, v in load_numpy(files.to_safetensors(arrays)).items()} == {
        "a": [[0, 1, 2], [3, 4, 5]],
        "b": 3,
    }
    tensors = {"w": torch.arange(4, dtype=torch.bfloat16)}
    assert torch.equal(load_torch(files.to_safetensors(tensors))["w"], tensors["w"])
    with pytest.raises(DTypeError, match="a tensor named '__metadata__'"):
        files.to_safetensors({"__metadata__": np.zeros(1)})


def test_read_what_was_written(tmp_path: Path) -> None:
    w = torch.arange(9.0)
    state = OrderedDict(model={"w": w, "b": np.arange(3)}, epoch=3, rest=[np.float64(1.5), None])
    assert files.write_state(tmp_path / "a.pt", state, "pt") == (2, 0)
    back = files.read_state(tmp_path / "a.pt")
    assert type(back) is OrderedDict
    assert torch.equal(back["model"]["w"], w)
    assert back["model"]["b"].tolist() == [0, 1, 2]
    assert (back["epoch"], back["rest"]) == (3, [1.5, None])
    assert files.write_state(tmp_path / "a.safetensors", state, "safetensors") == (2, 3)
    save_file({"w": torch.ones(3, dtype=torch.bfloat16)}, tmp_path / "b.safetensors")
    assert files.read_state(tmp_path / "b.safetensors")["w"].dtype == torch.bfloat16
    with pytest.raises(DTypeError, match="torch has no dtype"):
        files.write_state(tmp_path / "a.pt", {"w": np.zeros(3, np.longdouble)}, "pt")


@pytest.mark.parametrize("suffix", files.SUFFIXES)
@pytest.mark.parametrize(
    ("data", "said"), [(b"", "the file is empty"), (b"no such file", "x"), (b"\x80\x04.", "x")]
)
def test_files_that_are_none(tmp_path: Path, suffix: str, data: bytes, said: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=said):
        files.read_state(path)
    path.unlink()
    with pytest.raises(SourceError, match="not found"):
        files.read_state(path)


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_plain_pickle_is_called_so(tmp_path: Path, protocol: int, capsys: Capture) -> None:
    """And not unpickled."""
    path = tmp_path / "a.pt"
    path.write_bytes(pickle.dumps({"w": [1.5, 2.5], "x": Foreign()}, protocol))
    with pytest.raises(SourceError, match=r"a\.pt: .* plain pickle, .*torch\.save") as caught:
        files.read_state(path)
    assert "issue" not in str(caught.value)
    path.write_bytes(pickle.dumps(Foreign(), protocol))
    with pytest.raises(SourceError):
        files.read_state(path)
    assert "unpickled" not in capsys.readouterr().out


def test_what_torch_says_besides_is_left_out(tmp_path: Path, capsys: Capture) -> None:
    torch.save({"w": Foreign()}, tmp_path / "a.pt")
    with pytest.raises(SourceError, match="GLOBAL") as caught:
        files.read_state(tmp_path / "a.pt")
    assert "issue" not in str(caught.value)
    assert "unpickled" not in capsys.readouterr().out
    (tmp_path / "b.pt").write_bytes(b"no pickle, no zip")
    with pytest.raises(SourceError, match=r"not a torch\.save file"):
        files.read_state(tmp_path / "b.pt")


def test_the_format_before_zips_is_read(tmp_path: Path) -> None:
    path, old = tmp_path / "a.pt", {"_use_new_zipfile_serialization": False}
    torch.save({"w": torch.ones(3)}, path, pickle_protocol=2, **old)
    assert files.read_state(path)["w"].tolist() == [1, 1, 1]
    torch.save({"w": torch.ones(3)}, path, pickle_protocol=4, **old)
    with pytest.warns(UserWarning, match="protocol"), pytest.raises(SourceError) as caught:
        files.read_state(path)
    assert "plain pickle" not in str(caught.value)


@pytest.mark.parametrize("kind", ["zip", "before zips", "safetensors"])
def test_a_truncated_file_is_called_so(kind: str, tmp_path: Path) -> None:
    state, path = {"w": torch.ones(1000)}, tmp_path / "a.pt"
    if kind == "safetensors":
        path = tmp_path / "a.safetensors"
        path.write_bytes(files.to_safetensors(state))
    else:
        torch.save(state, path, _use_new_zipfile_serialization=kind == "zip")
    data = path.read_bytes()
    for n in (60, len(data) // 2, len(data) - 30, len(data) - 1):
        path.write_bytes(data[:n])
        with pytest.raises(
            SourceError, match=f"{path.name}: .*truncated or damaged.*copy it again"
        ):
            files.read_state(path)


def test_a_disk_that_cannot_be_read(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "a.pt")
    with (
        mock.patch.object(torch, "load", side_effect=OSError(5, "Input/output error")),
        pytest.raises(SourceError, match=r"a\.pt: cannot be read: .*Input/output error"),
    ):
        files.read_state(tmp_path / "a.pt")


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(codec.SettingsError, match=r"must end with one of \.safetensors, \.pt"):
        files.read_state(tmp_path / "a.h5")
    torch.save([torch.ones(2)], tmp_path / "list.pt")
    with pytest.raises(SourceError, match="holds a list; a state is a mapping"):
        files.read_state(tmp_path / "list.pt")
    (tmp_path / "x.pt").mkdir()
    with pytest.raises(SourceError, match=r"x\.pt: is a directory"):
        files.read_state(tmp_path / "x.pt")


def test_errors_name_the_file() -> None:
    with pytest.raises(DTypeError, match=r"^x\.pt: odd$"), files.naming(Path("x.pt")):
        raise DTypeError("odd")
    with pytest.raises(codec.WriteError) as caught, files.naming(Path("x.pt")):
        raise codec.WriteError("disk full")
    assert "x.pt" in caught.value.__notes__[0]
