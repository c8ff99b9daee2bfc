"""What a folder holds: items by their content, and why all else is none."""

import io
import os
from pathlib import Path

import pytest
from PIL import Image

from polydom.features.readers.folders import HIDDEN, find_files, readable


def image(format: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 30, 60)).save(file, format)
    return file.getvalue()


def write(folder: Path, name: str, data: bytes = b"words") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def names_of(folder: Path, files: list[Path]) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in files]


def test_hidden_files_and_folders_are_no_items(tmp_path: Path) -> None:
    png = image("PNG")
    for name in (
        ".ipynb_checkpoints/1-checkpoint.png",
        "__MACOSX/cats/._1.png",
        "cats/.thumbnails/1.png",
        "cats/.DS_Store",
        "cats/@eaDir/1.png/thumb.png",
        "cats/._1.png",
        "cats/Thumbs.db",
        "cats/DESKTOP.INI",
        "cats/1.png",
    ):
        write(tmp_path, name, png)
    found = find_files(tmp_path, "image")
    assert names_of(tmp_path, found.files) == ["cats/1.png"]
    assert found.folders == ["cats"]
    assert found.left_out.keys() == {
        ".ipynb_checkpoints",
        "__MACOSX",
        "cats/.DS_Store",
        "cats/._1.png",
        "cats/.thumbnails",
        "cats/@eaDir",
        "cats/DESKTOP.INI",
        "cats/Thumbs.db",
    }
    assert {*found.left_out.values()} == {HIDDEN}
    assert found.remarks() == [
        f"left out .ipynb_checkpoints: {HIDDEN} (and 7 more)",
    ]


def test_images_are_known_by_what_they_hold(tmp_path: Path) -> None:
    jpeg = image("JPEG")
    items = ("a.jfif", "b.jpe", "c.JPG", "d", "e.tif", "f.txt", "g.JPEG", "h.1")
    for name in items:
        write(tmp_path, name, jpeg)
    write(tmp_path, "broken.png", b"<html>")  # says of itself that it is unusable
    write(tmp_path, "z.tif", image("TIFF"))
    write(tmp_path, "z.heic", b"\0\0\0\x18ftypheic" + bytes(20))
    write(tmp_path, "z.csv")
    write(tmp_path, "z")
    found = find_files(tmp_path, "image")
    assert names_of(tmp_path, found.files) == sorted([*items, "broken.png"])
    assert found.left_out == {
        "z": "no image",
        "z.csv": "no image",
        "z.heic": "HEIC is not read; save it as JPEG",
        "z.tif": "TIFF is not read; save it as JPEG",
    }


def test_texts_are_known_by_what_they_hold(tmp_path: Path) -> None:
    items = ("a.txt", "b.MD", "c.eml", "d", "e.7c53336b37003a9286aba55d2945844c")
    for name in items:
        write(tmp_path, name)
    write(tmp_path, "empty.txt", b"")
    write(tmp_path, "utf16.txt", "Öl".encode("utf-16"))
    write(tmp_path, "z", b"")
    write(tmp_path, "z.csv")
    write(tmp_path, "z.doc", b"\xd0\xcf\x11\xe0" + bytes(20))
    write(tmp_path, "z.txt", b"a\0b")
    found = find_files(tmp_path, "text")
    expected = sorted([*items, "empty.txt", "utf16.txt"])
    assert names_of(tmp_path, found.files) == expected
    assert found.left_out == {
        "z": "empty",
        "z.csv": "no text, as its ending says",
        "z.doc": "no text, but Office",
        "z.txt": "no text, but bytes",
    }
    given = find_files(tmp_path, "text", encoded=True)
    assert "z.txt" in names_of(tmp_path, given.files)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_are_followed_and_never_for_ever(tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/cats/1.txt")
    folder = tmp_path / "mails"
    write(folder, "dogs/deep/er/2.txt")
    (folder / "cats").symlink_to(tmp_path / "elsewhere" / "cats")
    (folder / "dogs" / "3.txt").symlink_to(tmp_path / "elsewhere" / "cats" / "1.txt")
    (folder / "dogs" / "all").symlink_to(folder)
    (folder / "dogs" / "lost.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "dogs" / "pipe.txt")
    found = find_files(folder, "text")
    assert names_of(folder, found.files) == [
        "cats/1.txt",
        "dogs/3.txt",
        "dogs/deep/er/2.txt",
    ]
    assert found.folders == ["cats", "dogs"]
    assert found.left_out == {
        "dogs/all": "a link to a folder that it is in",
        "dogs/lost.txt": "a link to nothing",
        "dogs/pipe.txt": "no file of bytes",
    }


@pytest.mark.skipif(os.name == "nt", reason="names there are Unicode")
def test_any_name_is_a_name(tmp_path: Path) -> None:
    names = [b"caf\xe9.txt", b"x" * 251 + b".txt", b" two  words .txt", b"\n.txt"]
    for name in names:
        write(tmp_path, os.fsdecode(b"cats/" + name))
    write(tmp_path, os.fsdecode(b"cats/\xff.pdf"), b"%PDF-1.7")
    found = find_files(tmp_path, "text")
    assert {os.fsencode(file.name) for file in found.files} == {*names}
    assert found.left_out == {"cats/\\xff.pdf": "no text, but PDF"}
    assert readable(os.fsdecode(b"\xff")) == "\\xff"
