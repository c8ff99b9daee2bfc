"""What stands where a command is to write is kept, unless it is the same thing."""

import os
import stat
from pathlib import Path

import pytest

from polydom.features.errors import BadInput
from polydom.features.outputs import HEAD_BYTES, head_of, refuse_output


def refuse(path: Path, *read: Path) -> None:
    refuse_output(path, "a thing", is_thing, read=read, example="a.thing")


def is_thing(path: Path) -> bool:
    return head_of(path).startswith(b"thing")


@pytest.mark.parametrize("content", [None, b"", b"thing", b"thing" * HEAD_BYTES])
def test_an_output_may_be_new_empty_or_its_like(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "a.thing"
    if content is not None:
        path.write_bytes(content)
    refuse(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    if content is not None:
        refuse(link)
        assert link.is_symlink()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"id,label\n1,a\n", "a text that begins 'id,label'"),
        (b"\xef\xbb\xbfid\n", "a text that begins 'id'"),
        (b"\x00\x01", "something else"),
        ("é" * 300, "a text that begins 'éééééé"),
        (b"PAR1....", "a Parquet file"),
        (b"\x89PDX\r\n\x1a\n", "an index"),
    ],
)
def test_what_is_something_else_is_named_with_what_to_write(
    tmp_path: Path, content: bytes | str, what: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(BadInput) as caught:
        refuse(path)
    assert f"x is not replaced by a thing, as it is {what}" in str(caught.value)
    assert "name another file, such as a.thing, or remove it" in str(caught.value)


def test_what_is_read_is_not_written(tmp_path: Path) -> None:
    path, hard, soft = (tmp_path / name for name in ("a", "b", "c"))
    path.write_bytes(b"thing")
    hard.hardlink_to(path)
    soft.symlink_to(path)
    for one in (path, hard, soft):
        with pytest.raises(BadInput, match="this file is read here"):
            refuse(one, tmp_path / "none", path)


def test_what_is_no_file_stays(tmp_path: Path) -> None:
    places = {
        tmp_path: "this is a folder; name a file: ",
        tmp_path / "none" / "a": "there is no folder ",
        Path("/dev/null"): "this is a pipe or a device",
        Path("/dev/stdout"): "this is a pipe or a device",
        tmp_path / "pipe": "this is a pipe or a device",
        tmp_path / "link": "this is a link to nowhere, which is not there",
    }
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("nowhere")
    for path, message in places.items():
        with pytest.raises(BadInput) as caught:
            refuse(path)
        assert message in str(caught.value)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
