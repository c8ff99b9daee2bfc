"""A replaced file is noticed once, when it is whole."""

import os
from pathlib import Path

from polydom.server.ops.file_watch import Watch


def replace(path: Path, content: bytes) -> None:
    """Put another file in a file's place, as the build does."""
    other = path.with_suffix(".tmp")
    other.write_bytes(content)
    other.replace(path)


def test_watch_reports_each_change_once_when_it_has_settled(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    watch = Watch({"one": one, "two": two})
    assert watch.poll() == []
    replace(one, b"3")
    assert [watch.poll() for _ in range(4)] == [[], ["one"], [], []]
    replace(one, b"4")
    replace(two, b"5")
    assert [watch.poll() for _ in range(3)] == [[], ["one", "two"], []]


def test_watch_waits_while_a_file_grows_or_is_away(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"1")
    watch = Watch({"index": path})
    for size in range(2, 5):
        path.write_bytes(b"1" * size)
        assert watch.poll() == []
    path.unlink()
    assert [watch.poll() for _ in range(3)] == [[], [], []]
    path.write_bytes(b"whole")
    assert [watch.poll() for _ in range(3)] == [[], ["index"], []]


def test_watch_waits_for_a_file_that_was_never_there(tmp_path: Path) -> None:
    watch = Watch({"index": tmp_path / "index"})
    assert watch.poll() == []
    (tmp_path / "index").write_bytes(b"")
    assert [watch.poll() for _ in range(3)] == [[], ["index"], []]


def test_watch_notices_another_time_alone(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"1")
    watch = Watch({"index": path})
    os.utime(path, (1, 1))
    assert [watch.poll() for _ in range(3)] == [[], ["index"], []]
