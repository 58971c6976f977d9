"""Memory that is taken a page at a time, and given back."""

from __future__ import annotations

import mmap

import pytest

from codec.scheme.memory import Pages

PAGE = mmap.PAGESIZE


@pytest.mark.skipif(not hasattr(mmap, "MADV_NOHUGEPAGE"), reason="of Linux")
def test_what_is_given_back_reads_as_zeros() -> None:
    pages = Pages(4 * PAGE)
    pages.content[...] = 7
    pages.give_back(PAGE, 3 * PAGE)
    got = pages.content.reshape(4, PAGE)
    assert [set(page.tolist()) for page in got] == [{7}, {0}, {0}, {7}]


def test_elsewhere_it_is_memory_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_NOHUGEPAGE", raising=False)
    pages = Pages(2 * PAGE)
    pages.content[...] = 7
    pages.give_back(0, PAGE)
    assert (pages.content == 7).all()


def test_no_memory() -> None:
    with pytest.raises(MemoryError):
        Pages(2**62)
