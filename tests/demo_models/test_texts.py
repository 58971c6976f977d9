"""Python's own sources, and the transformer that reads them."""

from pathlib import Path

import pytest
import torch

from demo_models import FilesMissingError, make_task
from demo_models.texts import HELD_OUT, SYMBOLS, WINDOW, load_text


def folder_of(path: Path, n: int) -> Path:
    for i in range(n):
        (path / f"m{i:02}.py").write_bytes(bytes([i]) * WINDOW + "é".encode() * WINDOW)
    return path


def test_each_byte_has_the_one_after_it() -> None:
    data = load_text()
    for text, after in (data.train, data.held_out):
        assert text.shape == after.shape == (len(text), WINDOW)
        assert torch.equal(text[:, 1:], after[:, :-1])
        assert torch.equal(text[1:, 0], after[:-1, -1])
        assert 0 <= int(text.min()) <= int(text.max()) < SYMBOLS
    assert data.is_text
    assert "import" in bytes(data.train[0].reshape(-1)[:4000].tolist()).decode()


def test_one_file_in_ten_is_held_out(tmp_path: Path) -> None:
    data = load_text(folder_of(tmp_path, 2 * HELD_OUT))
    whole = (text.reshape(-1).tolist() for text, _ in (data.train, data.held_out))
    trained, apart = ({byte for byte in text if byte < 100} for text in whole)
    assert apart == {0, HELD_OUT}
    assert not apart & trained
    assert SYMBOLS - 1 in data.train[0]  # what is no ASCII


def test_too_few_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FilesMissingError, match="Python's sources"):
        load_text(folder_of(tmp_path, HELD_OUT - 1))


def test_no_byte_is_seen_before_its_turn() -> None:
    task = make_task("byte-transformer", "python-sources")
    text = task.probe[0][:2].clone()
    before = task.model(text)
    text[:, 40] = (text[:, 40] + 1) % SYMBOLS
    after = task.model(text)
    assert before.shape == (2, SYMBOLS, WINDOW)
    torch.testing.assert_close(after[:, :, :40], before[:, :, :40])
    assert not torch.equal(after[:, :, 40], before[:, :, 40])
    assert torch.equal(task.predictions(9), before[0, :, -9:].argmax(dim=0))
