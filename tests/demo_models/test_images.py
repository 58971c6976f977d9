"""Digits and IDX files: what is read from sound files, and what is said about unsound ones."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from demo_models import (
    Dataset,
    FilesMissingError,
    FileUnreadableError,
    FolderMissingError,
    FolderNotGivenError,
    MalformedFileError,
    WrongDatasetError,
    make_task,
)
from demo_models.idx import read_images, read_labels
from demo_models.images import load_images, to_pixels

IMAGES, LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def images_file(array: np.ndarray) -> bytes:
    return struct.pack(">4I", 0x00000803, *array.shape) + array.astype(np.uint8).tobytes()


def labels_file(array: np.ndarray) -> bytes:
    return struct.pack(">2I", 0x00000801, len(array)) + array.astype(np.uint8).tobytes()


def write_pair(folder: Path, n: int, which: str = "t10k", pack: bool = False):
    """Write n random images and labels; gives the arrays written."""
    rng = np.random.default_rng(n)
    x, y = rng.integers(0, 256, (n, 28, 28)), rng.integers(0, 10, n)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / f"{which}-images-idx3-ubyte", images_file(x), pack)
    write(folder / f"{which}-labels-idx1-ubyte", labels_file(y), pack)
    return x, y


def write(path: Path, body: bytes, pack: bool = False) -> Path:
    if pack:
        path, body = path.with_name(f"{path.name}.gz"), gzip.compress(body)
    path.write_bytes(body)
    return path


def load(folder: Path, name: str = "mnist") -> Dataset:
    return load_images(name, folder, 28)


# --- digits -------------------------------------------------------------------------------


def test_digits_have_the_promised_form() -> None:
    """And their split is a fixed permutation of all images."""
    from sklearn.datasets import load_digits

    for side in (8, 32):  # at side 8 nothing is resized
        data = load_images("digits", None, side)
        for (x, y), n in ((data.train, 1437), (data.held_out, 360)):
            assert (x.shape, x.dtype) == ((n, 1, side, side), torch.float32)
            assert (y.shape, y.dtype) == ((n,), torch.int64)
            assert x.min() >= 0
            assert 0.9 < x.max() <= 1
            assert sorted(y.unique().tolist()) == list(range(10))
        assert data.n_classes == 10
        assert load_images("digits", None, side).train[0] is data.train[0], "resized once"
    data = load_images("digits", None, 8)
    again = torch.cat([data.train[0], data.held_out[0]]).flatten(1).mul(16).round().numpy()
    order = np.random.default_rng(0).permutation(1797)
    assert np.array_equal(again, load_digits().data[order])


# --- resizing -----------------------------------------------------------------------------


def test_resizing_keeps_range_and_mean_and_sees_every_pixel() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 28, 28)).astype(np.uint8)
    same = to_pixels(images, 255.0, 28)
    assert torch.equal(same[:, 0], torch.from_numpy(images.astype(np.float32)) / 255)
    for side in (14, 32):
        other = to_pixels(images, 255.0, side)
        assert other.shape == (5, 1, side, side)
        assert torch.allclose(other.mean((1, 2, 3)), same.mean((1, 2, 3)), atol=0.02)
    dot = np.zeros((1, 28, 28), np.uint8)
    dot[0, 0, 0] = 255
    assert all(to_pixels(np.roll(dot, s, 2), 255.0, 7).sum() > 0 for s in range(28))


# --- sound IDX files ----------------------------------------------------------------------


@pytest.mark.parametrize("pack", [False, True])
def test_idx_round_trip(tmp_path: Path, pack: bool) -> None:
    """With a file to train on; t10k alone is split four to one."""
    x, y = write_pair(tmp_path, 10, pack=pack)
    alone = load(tmp_path)
    assert [part[1].tolist() for part in (alone.train, alone.held_out)] == [[*y[:8]], [*y[8:]]]
    write_pair(tmp_path, 20, "train", pack=pack)
    data = load(tmp_path)
    assert data.held_out[0].shape == (10, 1, 28, 28)
    assert len(data.train[0]) == 20
    assert np.array_equal(data.held_out[0].mul(255).round().numpy()[:, 0], x)
    assert data.held_out[1].tolist() == y.tolist()


@pytest.mark.parametrize(
    ("name", "sub"),
    [("mnist", "mnist"), ("mnist", "MNIST/raw"), ("fashion-mnist", "FashionMNIST/raw")],
)
def test_own_subfolder_comes_before_the_folder_itself(tmp_path: Path, name: str, sub: str) -> None:
    write_pair(tmp_path, 10)
    write_pair(tmp_path / sub, 20)
    data = load(tmp_path, name)
    assert len(data.train[0]) == 16
    assert data.name == name
    assert data.title == {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}[name]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    write_pair(tmp_path, 10)
    first = load(tmp_path)
    assert load(tmp_path) is first
    write_pair(tmp_path, 15)
    assert len(load(tmp_path).train[0]) == 12


# --- folders and missing files ------------------------------------------------------------


def test_folder_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LCVIZ_DATA", raising=False)
    for folder, error, message in (
        (None, FolderNotGivenError, "set the environment variable LCVIZ_DATA"),
        (tmp_path / "nowhere", FolderMissingError, r"no folder .*nowhere\. Check the path"),
        ("~nobody-of-this-name/x", FolderMissingError, "no folder"),
        ("a\0b", FolderMissingError, "no folder"),
        (str(tmp_path), FilesMissingError, rf"MNIST cannot be loaded: .* lacks {IMAGES}"),
    ):
        with pytest.raises(error, match=message):
            make_task("lenet5", "mnist", folder=folder)
    write_pair(tmp_path, 10)
    monkeypatch.setenv("LCVIZ_DATA", str(tmp_path))
    assert make_task("lenet5", "mnist").dataset.n_train == 8


def test_half_a_set_names_the_other_half(tmp_path: Path) -> None:
    write_pair(tmp_path, 10)
    write_pair(tmp_path, 10, "train")
    for gone in (["train-labels-idx1-ubyte"], ["train-images-idx3-ubyte", IMAGES]):
        for name in gone:
            (tmp_path / name).unlink()
        with pytest.raises(FilesMissingError) as caught:
            load(tmp_path)
        assert caught.value.names == (f"{gone[-1]}[.gz]",)


def test_the_other_datasets_files_are_noticed(tmp_path: Path) -> None:
    write_pair(tmp_path, 10)
    write(tmp_path / LABELS, labels_file(np.array([7, 2, 1, 0, 4, 1, 4, 9, 5, 9])))
    assert load(tmp_path, "mnist").n_train == 8
    with pytest.raises(WrongDatasetError, match="are those of MNIST, not of Fashion-MNIST"):
        load(tmp_path, "fashion-mnist")


def test_no_right_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / LABELS, labels_file(np.arange(3)))

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refused)
    monkeypatch.setattr("io.open", refused)
    with pytest.raises(FileUnreadableError, match="Check that you may read this file"):
        read_labels(path)


# --- unsound IDX files --------------------------------------------------------------------

X = images_file(np.zeros((3, 4, 4)))
Y = labels_file(np.arange(3))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (X[:15], "found a file of 15 bytes"),
        (Y + bytes(16), "beginning with bytes 00000803, found 00000801"),
        (X[:2] + b"\x09" + X[3:], "found 00000903"),  # signed bytes
        (X[:-1], "expected 48 bytes after the header, found only 47"),
        (X + b"\x00", "expected 48 bytes after the header, found more bytes"),
        (struct.pack(">4I", 0x803, 0, 28, 28), "1 to 1,000,000 examples, found 0"),
        (struct.pack(">4I", 0x803, 3, 4, 5) + bytes(60), "square images .* found 4x5"),
        (struct.pack(">4I", 0x803, 1, 2**31, 2**31), "square images of at most 128x128"),
        (struct.pack(">4I", 0x803, 10**6, 128, 128), "at most 268,435,456 pixels"),
    ],
)
def test_malformed_images(tmp_path: Path, body: bytes, message: str) -> None:
    for pack in (False, True):
        path = write(tmp_path / IMAGES, body, pack)
        with pytest.raises(MalformedFileError, match=message) as caught:
            read_images(path)
        assert caught.value.path == path
        assert str(path) in str(caught.value)
        assert str(caught.value).endswith("Fetch the file again, or name another folder.")


def test_malformed_labels(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadableError, match="cannot be read"):
        read_labels(tmp_path / LABELS)
    with pytest.raises(MalformedFileError, match="labels from 0 to 9, found label 11"):
        read_labels(write(tmp_path / LABELS, labels_file(np.array([1, 11, 2]))))
    with pytest.raises(MalformedFileError, match="00000801, found 00000803"):
        read_labels(write(tmp_path / LABELS, X))


def test_counts_have_to_agree_and_to_be_enough(tmp_path: Path) -> None:
    write_pair(tmp_path, 10)
    write(tmp_path / LABELS, labels_file(np.arange(9)))
    with pytest.raises(MalformedFileError, match=f"10 labels, one for each .*{IMAGES}, found 9"):
        load(tmp_path)
    write_pair(tmp_path, 1)
    with pytest.raises(MalformedFileError, match="at least 2 examples to split"):
        load(tmp_path)


def test_damaged_gzip(tmp_path: Path) -> None:
    whole = gzip.compress(X)
    wrong_sum = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    torn = bytearray(whole)
    torn[10] ^= 0xFF
    for body in (whole[:-10], wrong_sum, bytes(torn), b"not gzip at all", X, b""):
        with pytest.raises(MalformedFileError):
            read_images(write(tmp_path / f"{IMAGES}.gz", body))


def test_gzip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """30 MB of zeros behind an honest-looking header: only 49 bytes of them may be read."""
    import tracemalloc

    path = write(tmp_path / IMAGES, X + bytes(30_000_000), pack=True)
    tracemalloc.start()
    with pytest.raises(MalformedFileError, match="found more bytes"):
        read_images(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
