"""Files are moved so that the served path holds a whole index at every moment."""

import os
from pathlib import Path

import pytest

from polydom.server.runtime.rollout.index_files import exchange, previous_of, promote


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "my.pdx").write_text("old")
    (tmp_path / "my.next.pdx").write_text("new")
    return tmp_path / "my.pdx"


def test_a_promotion_keeps_the_index_of_before(path: Path) -> None:
    assert previous_of(path).name == "my.previous.pdx"
    for count in (1, 2):
        assert promote(path, path.with_name("my.next.pdx"))
        assert texts(path.parent) == {"my.pdx": "new", "my.previous.pdx": "old"}
        if count == 1:
            path.write_text("old")
            path.with_name("my.next.pdx").write_text("new")


def test_two_files_change_places_and_back(path: Path) -> None:
    other = path.with_name("my.next.pdx")
    exchange(path, other)
    assert texts(path.parent) == {"my.pdx": "new", "my.next.pdx": "old"}
    exchange(path, other)
    assert texts(path.parent) == {"my.pdx": "old", "my.next.pdx": "new"}


def test_nothing_is_left_where_nothing_can_be_exchanged(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        exchange(path, path.with_name("none.pdx"))
    assert texts(path.parent) == {"my.pdx": "old", "my.next.pdx": "new"}


def test_links_are_replaced_and_what_they_point_at_stays(path: Path) -> None:
    folder = path.parent / "served"
    folder.mkdir()
    link = folder / "my.pdx"
    link.symlink_to(path)
    assert promote(link, path.with_name("my.next.pdx"))
    assert texts(folder) == {"my.pdx": "new", "my.previous.pdx": "old"}
    assert path.read_text() == "old"
    assert not link.is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="needs modes")
def test_read_only_folders_are_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert not promote(path, path.with_name("my.next.pdx"))
    assert texts(path.parent) == {"my.pdx": "old", "my.next.pdx": "new"}
