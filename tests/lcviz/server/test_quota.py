"""Room on the server's disk for visitors' files."""

import pytest

from lcviz.server.quota import FullError, Shelf


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
