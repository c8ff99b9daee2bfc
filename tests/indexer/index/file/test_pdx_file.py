import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polydom.features.errors import BadIndexFile, BadInput
from polydom.indexer.index.file import pdx_file
from polydom.indexer.index.file.pdx_file import FORMAT_VERSION, read_file, write_file
from tests.support.edited_files.hostile_files import sealed

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "ones": np.ones(5),
    "none": np.empty((0, 3), np.int32),
    "scalar": np.array(7, np.uint64),
    "bytes": np.arange(70, dtype=np.uint8),
}


def written(path: Path) -> bytearray:
    write_file(path, {"name": "test"}, ARRAYS)
    return bytearray(path.read_bytes())


BODY = 512  # where the arrays of a forged file start


def forged(path: Path, meta: Any, sections: list[Any], body: bytes = b"") -> Path:
    """A file with a right preamble and checksum around whatever header is wanted."""
    header = msgspec.msgpack.encode({"meta": meta, "arrays": sections})
    return sealed(path, header.ljust(BODY - 64, b"\xc1"), body)


def test_file_gives_back_what_was_written(tmp_path: Path) -> None:
    write_file(tmp_path / "a.pdx", {"name": "test", "deep": [1, {"a": None}]}, ARRAYS)
    meta, arrays, _ = read_file(tmp_path / "a.pdx")
    assert meta == {"name": "test", "deep": [1, {"a": None}]}
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_file_arrays_are_aligned_and_read_only(tmp_path: Path) -> None:
    written(tmp_path / "a.pdx")
    _, arrays, _ = read_file(tmp_path / "a.pdx")
    assert all(a.ctypes.data % 64 == 0 for a in arrays.values() if a.size)
    with pytest.raises(ValueError, match="read-only"):
        arrays["ones"][0] = 2


def test_file_bytes_depend_on_contents_alone(tmp_path: Path) -> None:
    one = written(tmp_path / "a.pdx")
    assert written(tmp_path / "b.pdx") == one
    assert read_file(tmp_path / "a.pdx")[2] == read_file(tmp_path / "b.pdx")[2]


@given(hnp.arrays(st.sampled_from(pdx_file.DTYPES).map(np.dtype), hnp.array_shapes()))
def test_file_round_trips_every_dtype(array: np.ndarray[Any, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_file(Path(folder, "a.pdx"), {}, {"x": array})
        back = read_file(Path(folder, "a.pdx"))[1]["x"]
        assert back.tobytes() == array.tobytes()
        assert back.dtype == array.dtype
        assert back.shape == array.shape


@given(st.data())
def test_file_with_any_byte_changed_is_refused(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.pdx")
        content = written(path)
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        with pytest.raises(BadIndexFile, match=r"a\.pdx"):
            read_file(path)


@pytest.mark.parametrize("kept", [0, 8, 63, 64, 100, -1])
def test_file_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    content = written(tmp_path / "a.pdx")
    (tmp_path / "a.pdx").write_bytes(content[:kept])
    with pytest.raises(BadIndexFile, match=r"too short|truncated"):
        read_file(tmp_path / "a.pdx")


@pytest.mark.parametrize("version", [1, FORMAT_VERSION + 1])
def test_file_of_another_version_says_what_to_do(tmp_path: Path, version: int) -> None:
    content = written(tmp_path / "a.pdx")
    content[8] = version
    (tmp_path / "a.pdx").write_bytes(content)
    with pytest.raises(BadIndexFile, match=rf"version {version}; .* version 2: build"):
        read_file(tmp_path / "a.pdx")


def test_file_that_is_absent_or_foreign_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadIndexFile, match=r"no\.pdx: No such file"):
        read_file(tmp_path / "no.pdx")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff" + b"x" * 100)
    with pytest.raises(BadIndexFile, match=r"photo\.jpg: not a \.pdx file"):
        read_file(tmp_path / "photo.jpg")


@pytest.mark.parametrize(
    ("sections", "body", "message"),
    [
        ([["x", "<f8", [1 << 40], BODY]], b"\0" * 64, "out of place"),
        ([["x", "<f8", [1 << 62, 1 << 62], BODY]], b"\0" * 64, "out of place"),
        ([["x", "<f8", [-1], BODY]], b"\0" * 64, "no usable form"),
        ([["x", "|O8", [1], BODY]], b"\0" * 64, "no usable form"),
        ([["x", "<f8", [8], 64]], b"\0" * 64, "out of place"),
        ([["x", "<f8", [8], BODY], ["x", "<f8", [8], BODY + 64]], b"\0" * 128, "twice"),
        (
            [["x", "<f8", [8], BODY], ["y", "<f8", [8], BODY]],
            b"\0" * 64,
            "out of place",
        ),
        ([["x", "<f8", [8], BODY]], b"\0" * 128, "after the last"),
        ([["x", "<f8", [1], BODY]], b"\0" * 8 + b"x" * 56, "after the last"),
        ([["x", "<f8", "long", BODY]], b"\0" * 64, "header cannot be read"),
    ],
    ids=[
        "larger than the file",
        "more elements than a machine word counts",
        "negative shape",
        "objects",
        "over the header",
        "same name",
        "overlap",
        "bytes after",
        "hidden bytes in the padding",
        "shape that is text",
    ],
)
def test_file_with_a_forged_header_is_refused(
    tmp_path: Path, sections: list[Any], body: bytes, message: str
) -> None:
    path = forged(tmp_path / "a.pdx", {}, sections, body)
    with pytest.raises(BadIndexFile, match=message):
        read_file(path)


def test_file_header_with_an_extension_type_is_refused(tmp_path: Path) -> None:
    meta = {"x": msgspec.msgpack.Ext(5, b"code")}
    with pytest.raises(BadIndexFile, match="extension type 5"):
        read_file(forged(tmp_path / "a.pdx", meta, []))


def test_file_header_nested_without_end_is_refused(tmp_path: Path) -> None:
    header = b"\x82\xa4meta\x81\xa1x" + b"\x91" * 100_000 + b"\xc0\xa6arrays\x90"
    with pytest.raises(BadIndexFile, match="header cannot be read"):
        read_file(sealed(tmp_path / "a.pdx", header))


def test_file_of_a_failed_write_leaves_the_old_one(tmp_path: Path) -> None:
    before = written(tmp_path / "a.pdx")
    with pytest.raises(BadInput, match="'words' has dtype <U3"):
        write_file(tmp_path / "a.pdx", {}, {"words": np.array(["abc"])})
    assert (tmp_path / "a.pdx").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.pdx"]
