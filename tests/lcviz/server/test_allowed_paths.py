"""Which paths of the server's machine a visitor may name."""

import os
from pathlib import Path

import pytest

from codec.errors import SourceError
from lcviz.server.allowed_paths import check_within


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1"])
def test_one_who_is_alone_opens_what_he_may(address: str) -> None:
    check_within([Path("/anywhere"), Path("x\0y")], address, "")


@pytest.mark.parametrize("address", [None, "", "0.0.0.0", "192.168.1.2", "lab.example.org"])
def test_a_server_for_others_opens_nothing_unless_told(address: str | None, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="LCVIZ_FOLDERS"):
        check_within([tmp_path], address, "")
    check_within([tmp_path / "a.pt"], address, str(tmp_path))


def test_links_and_dots_lead_nowhere_else(tmp_path: Path) -> None:
    mine, other, beside = (tmp_path / name for name in ("mine", "other", "mine-too"))
    for folder in (mine, other, beside):
        folder.mkdir()
    (mine / "link").symlink_to(other)
    (other / "back").symlink_to(mine)
    folders = os.pathsep.join(["/nowhere", f"{mine}/"])
    check_within([mine, mine / "run.lcc", other / "back" / "x.pt"], "127.0.0.1", folders)
    for path in (mine / "link", mine / ".." / "other", beside, tmp_path, Path("/"), Path("x\0y")):
        with pytest.raises(SourceError, match=str(mine)):
            check_within([mine, path], "127.0.0.1", folders)
