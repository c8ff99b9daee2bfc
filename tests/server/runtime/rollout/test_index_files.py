"""Files are moved so that the served path holds a whole index at every moment."""

import os
from pathlib import Path

import pytest

from polydom.server.runtime.rollout.index_files import previous_of, put


def texts(folder: Path) -> dict[str, str]:
    files = [path for path in folder.iterdir() if not path.is_dir()]
    return {path.name: path.read_text() for path in files}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "my.pdx").write_text("old")
    (tmp_path / "my.next.pdx").write_text("new")
    return tmp_path / "my.pdx"


def test_a_promotion_keeps_the_index_of_before(path: Path) -> None:
    assert previous_of(path).name == "my.previous.pdx"
    for count in (1, 2):
        put(path.with_name("my.next.pdx"), path, previous_of(path))
        assert texts(path.parent) == {"my.pdx": "new", "my.previous.pdx": "old"}
        if count == 1:
            path.write_text("old")
            path.with_name("my.next.pdx").write_text("new")


def test_two_files_change_places_and_back(path: Path) -> None:
    other = path.with_name("my.next.pdx")
    put(other, path, other)
    assert texts(path.parent) == {"my.pdx": "new", "my.next.pdx": "old"}
    put(other, path, other)
    assert texts(path.parent) == {"my.pdx": "old", "my.next.pdx": "new"}


@pytest.mark.parametrize("lacking", ["my.next.pdx", "my.pdx"])
def test_no_file_is_moved_if_one_is_missing(path: Path, lacking: str) -> None:
    path.with_name(lacking).unlink()
    before = texts(path.parent)
    with pytest.raises(FileNotFoundError):
        put(path.with_name("my.next.pdx"), path, previous_of(path))
    assert texts(path.parent) == before


def test_links_are_replaced_and_what_they_point_at_stays(path: Path) -> None:
    folder = path.parent / "served"
    folder.mkdir()
    link = folder / "my.pdx"
    link.symlink_to(path)
    put(path.with_name("my.next.pdx"), link, previous_of(link))
    assert texts(folder) == {"my.pdx": "new", "my.previous.pdx": "old"}
    assert path.read_text() == "old"
    assert not link.is_symlink()


def test_a_candidate_that_is_a_relative_link_is_copied(path: Path) -> None:
    folder = path.parent / "candidates"
    folder.mkdir()
    (folder / "v2.pdx").write_text("newest")
    link = folder / "next.pdx"
    link.symlink_to("v2.pdx")
    put(link, path, previous_of(path))
    assert texts(folder) == {"v2.pdx": "newest"}
    assert path.read_text() == "newest"
    assert previous_of(path).read_text() == "old"
    assert not path.is_symlink()


def test_files_of_another_file_system_are_copied(path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == path.parent.stat().st_dev:
        pytest.skip("needs two file systems")
    candidate = other / f"polydom-{os.getpid()}.pdx"
    candidate.write_text("far")
    try:
        put(candidate, path, previous_of(path))
        assert not candidate.exists()
    finally:
        candidate.unlink(missing_ok=True)
    assert path.read_text() == "far"
    assert previous_of(path).read_text() == "old"


@pytest.mark.skipif(os.name == "nt", reason="needs modes")
def test_no_file_is_left_where_files_cannot_be_moved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    before = texts(path.parent)
    monkeypatch.setattr(os, "replace", refuse)  # root may write anywhere
    with pytest.raises(PermissionError):
        put(path.with_name("my.next.pdx"), path, previous_of(path))
    assert texts(path.parent) == before
