"""Lines reach a file whatever becomes of it, and a folder keeps the newest files."""

import gzip
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.server.answer_log.log_file import (
    LogFile,
    LogFolder,
    check_file,
    check_folder,
    compress,
    files_in,
)
from tests.support.examples import few
from tests.support.waiting import WAIT_S, wait_until
from tests.system.test_full_disk import files_of


def text_of(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_reads_a_file_and_a_new_one_follows_one_that_was_moved(
    tmp_path: Path,
) -> None:
    path, moved = tmp_path / "a.log", tmp_path / "a.log.1"
    file = LogFile(path)
    file.write(b"one\n")
    path.rename(moved)
    file.write(b"two\nthree\n")
    assert (moved.read_bytes(), path.read_bytes()) == (b"one\n", b"two\nthree\n")
    path.unlink()
    file.write(b"four\n")
    file.close()
    file.write(b"five\n")
    file.close()
    assert path.read_bytes() == b"four\nfive\n"
    assert {mode_of(path), mode_of(moved)} == {0o600}


def test_a_line_that_was_cut_off_is_ended_before_the_next(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log")
    with files_of(6), pytest.raises(OSError, match="File too large"):
        file.write(b"one\ntwo\n")
    file.write(b"three\n")
    file.close()
    lines = (tmp_path / "a.log").read_bytes().splitlines()
    assert (lines[0], lines[-1]) == (b"one", b"three")
    assert len(lines) <= 3


def test_half_a_line_of_a_killed_process_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b'one\n{"id":"tw')
    file = LogFile(path)
    file.write(b"three\n")
    file.close()
    file.write(b"four\n")
    file.close()
    assert path.read_bytes() == b'one\n{"id":"tw\nthree\nfour\n'


def test_a_file_that_was_copied_and_cut_to_nothing_goes_on(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "a.log")
    file.write(b"one\n")
    os.truncate(tmp_path / "a.log", 0)
    file.write(b"two\n")
    file.close()
    assert (tmp_path / "a.log").read_bytes() == b"two\n"


def test_a_device_that_is_always_full_refuses_lines() -> None:
    file = LogFile(Path("/dev/full"))
    for _ in range(2):
        with pytest.raises(OSError, match="No space left on device"):
            file.write(b"one\n")
    file.close()


def test_processes_that_follow_each_other_keep_the_newest_files(tmp_path: Path) -> None:
    for number in range(5):
        folder = LogFolder(tmp_path, 0, 1000, 3)
        folder.write(b"%d\n" % number)
        folder.close()
    found = sorted(files_in(tmp_path))
    assert [path.read_bytes() for path in found] == [b"2\n", b"3\n", b"4\n"]


@settings(max_examples=few(40), deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=30).map(bytes.hex), min_size=1),
    st.integers(1, 200),
    st.integers(1, 4),
)
def test_a_folder_keeps_the_newest_lines(
    drawn: list[str], file_bytes: int, most_files: int
) -> None:
    lines = [f"{line}\n".encode() for line in drawn]
    files: list[bytes] = []  # the slow twin: all files in memory
    for line in lines:
        if not files or len(files[-1]) + len(line) > file_bytes:
            files.append(b"")
        files[-1] += line
    with TemporaryDirectory() as name:
        place = Path(name)
        (place / "answers-1-0.jsonl").write_bytes(b"of another worker\n")
        folder = LogFolder(place, 0, file_bytes, most_files)
        for line in lines:
            folder.write(line)
        folder.close()

        kept = [text_of(path) for path in sorted(files_in(place, "answers-0-"))]
        # those that were full while others were compressed are tidied later
        assert len(kept) >= min(most_files, len(files))
        assert kept == files[-len(kept) :]
        assert (place / "answers-1-0.jsonl").exists()


def test_full_files_are_compressed_and_the_oldest_deleted(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "made", 3, 10, 2)
    for number in range(5):
        folder.write(b"%07d\n" % number)
        wait_until(lambda: len(list((tmp_path / "made").glob("*.jsonl"))) == 1)
        wait_until(lambda: len(list((tmp_path / "made").iterdir())) <= 2)
    folder.close()
    found = sorted(files_in(tmp_path / "made"))
    assert [text_of(path) for path in found] == [b"0000003\n", b"0000004\n"]
    assert [path.name[:10] for path in found] == ["answers-3-"] * 2
    assert [path.suffix for path in found] == [".gz", ".jsonl"]
    assert {mode_of(path) for path in found} == {0o600}
    assert mode_of(tmp_path / "made") == 0o700


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path / "made", 0, 1000, 2)
    folder.write(b"one\n")
    shutil.rmtree(tmp_path / "made")
    folder.write(b"two\n")
    folder.close()
    assert [text_of(path) for path in files_in(tmp_path / "made")] == [b"two\n"]


def test_a_file_left_plain_and_compressed_is_found_once(tmp_path: Path) -> None:
    path = tmp_path / "answers-0-1.jsonl"
    path.write_bytes(b"one\n")
    (tmp_path / "answers-0-1.jsonl.gz.part").write_bytes(b"half of it")
    shutil.copy(path, tmp_path / "copy")
    compress(path)
    shutil.copy(tmp_path / "copy", path)
    (found,) = files_in(tmp_path)
    assert text_of(found) == b"one\n"
    assert not list(tmp_path.glob("*.part"))


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    wrong = {
        "": "is a directory",
        "pipe": "not a plain file",
        "none/file": "no such file or directory",
        "file/below": "not a directory",
    }
    for name, said in wrong.items():
        with pytest.raises(BadInput, match=f"^--access-log .*: .*{said}"):
            check_file("--access-log", tmp_path / name)
    wrong = {
        "file": "this is a file; a folder is needed",
        "none/folder": "no such file or directory",
        "file/below": "not a directory",
    }
    for name, said in wrong.items():
        with pytest.raises(BadInput, match=f"^--record .*: {said}"):
            check_folder("--record", tmp_path / name)
    check_file("--access-log", Path("-"))
    check_file("--access-log", Path("/dev/null"))
    check_folder("--record", tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="needs a shell")
def test_a_closed_standard_output_is_refused() -> None:
    names = "polydom.server.answer_log.log_file import check_file"
    code = f'from pathlib import Path; from {names}; check_file("--a", Path("-"))'
    asked = ["/bin/sh", "-c", '"$0" -c "$1" >&-', sys.executable, code]
    done = subprocess.run(asked, stderr=subprocess.PIPE, text=True, timeout=WAIT_S)
    assert done.returncode == 1
    assert "BadInput: --a -: standard output is closed" in done.stderr
