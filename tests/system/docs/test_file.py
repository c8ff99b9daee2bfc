"""reference/file.md: the constants that the code has, and a reader that reads."""

from pathlib import Path

from polydom.indexer.index.file.pdx_file import (
    DTYPES,
    FORMAT_VERSION,
    MAGIC,
    MAX_CONTAINERS,
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    MAX_HEADER_BYTES,
)
from tests.support.indexes.free_records import save_records
from tests.support.pages import blocks, read, run_python

PAGE = " ".join(read("reference/file.md").split())


def test_constants_are_those_that_the_code_has() -> None:
    assert MAGIC.hex(" ") in PAGE
    assert f"format version, uint32: {FORMAT_VERSION}" in PAGE
    assert f"at most {MAX_HEADER_BYTES >> 20} MiB" in PAGE
    assert f"at most {MAX_FILE_BYTES >> 30} GiB" in PAGE
    assert f"over {MAX_CONTAINERS:,} lists and maps or {MAX_ENTRIES:,} entries" in PAGE
    for dtype in DTYPES:
        assert dtype in PAGE


def test_a_header_is_read_as_it_says(tmp_path: Path) -> None:
    path = save_records(tmp_path).rename(tmp_path / "iris.pdx")
    (code,) = blocks("reference/file.md", "python")
    (shown,) = blocks("reference/file.md", "text")
    head, kind, *arrays = run_python(code, tmp_path).splitlines()
    assert head.split()[0] == "2"
    assert head.split()[2] == str(path.stat().st_size)
    assert kind == shown.splitlines()[1]
    names = [line.split()[0] for line in shown.splitlines()[2:]]
    assert [line.split()[0] for line in arrays] == names
