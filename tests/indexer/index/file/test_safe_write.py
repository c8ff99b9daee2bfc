"""Files take their place whole, or leave the older one alone."""

import os
from pathlib import Path

import pytest

from polydom.indexer.index.file.safe_write import replace_when_done, sweep_unfinished


def test_a_file_of_a_failed_write_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "a.pdx").write_bytes(b"before")
    new = replace_when_done(tmp_path / "a.pdx")
    with pytest.raises(RuntimeError), new as out:  # noqa: PT012
        out.write(b"half")
        raise RuntimeError
    assert (tmp_path / "a.pdx").read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.pdx"]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    """As two processes with the same number, each in a container of its own."""
    first = replace_when_done(tmp_path / "a.pdx")
    second = replace_when_done(tmp_path / "a.pdx")
    with first as one:
        one.write(b"1" * 100)
        with second as two:
            two.write(b"2" * 50)
        assert (tmp_path / "a.pdx").read_bytes() == b"2" * 50
    assert (tmp_path / "a.pdx").read_bytes() == b"1" * 100
    assert [p.name for p in tmp_path.iterdir()] == ["a.pdx"]


def test_what_killed_writers_left_is_swept_a_day_later(tmp_path: Path) -> None:
    folder, index = tmp_path / "cache", tmp_path / "a[1].pdx"
    old = [folder / "sets" / "x" / ".1.pdx.0a.tmp", tmp_path / ".a[1].pdx.17.tmp"]
    new = [folder / "sets" / ".1.pdx.0b.tmp", tmp_path / ".a[1].pdx.18.tmp"]
    others = [tmp_path / ".b.pdx.17.tmp", folder / "b.pdx"]
    for path in (*old, *new, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for path in (*old, *others):
        os.utime(path, (0, 0))
    for place in (folder, index):
        sweep_unfinished(place)
    left = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert left == sorted([*new, *others])
