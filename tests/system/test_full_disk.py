"""What cannot be written is named, with what to do; nothing half of it stays."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from polydom.features.errors import CannotWrite, PolydomError
from polydom.indexer.index.file.pdx_file import write_file
from polydom.server.__main__ import main
from tests.support.indexes.served import FEATURES_FILE, HAM, make_index, save_index

resource = pytest.importorskip("resource", reason="needs limits of a Unix process")


@contextlib.contextmanager
def files_of(most_bytes: int) -> Iterator[None]:
    """Let this process write no larger file: the system itself refuses more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full(*_: object) -> None:
    """Fail as a disk does that is full, which often shows when it is synced."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_index_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write_file(tmp_path / "a.pdx", {"name": "test"}, {"ones": np.ones(5)})
    before = (tmp_path / "a.pdx").read_bytes()
    with (
        files_of(1000),
        pytest.raises(CannotWrite, match=r"a\.pdx cannot be written: File too large"),
    ):
        make_index().save(tmp_path / "a.pdx")
    assert (tmp_path / "a.pdx").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.pdx"]


def test_a_full_disk_is_told_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PolydomError) as caught:
        make_index().save(tmp_path / "a.pdx")
    assert isinstance(caught.value, OSError)
    assert str(caught.value) == (
        f"{tmp_path}/a.pdx cannot be written: No space left on device; make room "
        "there, or write to another disk"
    )
    assert not list(tmp_path.iterdir())
    with pytest.raises(CannotWrite, match=r"none/a\.pdx cannot be written: No such"):
        make_index().save(tmp_path / "none" / "a.pdx")


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_rows_that_cannot_be_written_are_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    index, items = save_index(tmp_path), tmp_path / "texts.jsonl"
    items.write_text("".join(json.dumps({"text": HAM}) + "\n" for _ in range(2000)))
    output = tmp_path / f"out.{ending}"
    score = ["score", str(index), str(items), "-o", str(output), "-b", "90s"]
    score += ["--features", str(FEATURES_FILE)]
    with files_of(100_000):
        assert main(score) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == f"polydom: {output}.partial cannot be written: File too large"
    assert not output.exists()
    assert main([*score, "--resume"]) == 0
    assert len(output.read_text().splitlines()) == 2000 + (ending == "csv")
    assert not list(tmp_path.glob("out.*.*"))


def test_an_output_that_cannot_be_finished_leaves_its_rows_alone(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index, items = save_index(tmp_path), tmp_path / "texts.jsonl"
    items.write_text(json.dumps({"text": HAM}) + "\n")
    output = tmp_path / "out.jsonl"
    score = ["score", str(index), str(items), "-o", str(output), "-b", "9s"]
    score += ["--features", str(FEATURES_FILE)]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert main(score) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"polydom: {output} cannot be written: No space left")
    assert [path.name for path in tmp_path.glob("out.*")] == ["out.jsonl.partial"]
    assert main([*score, "--resume"]) == 0
    assert [path.name for path in tmp_path.glob("out.*")] == ["out.jsonl"]
