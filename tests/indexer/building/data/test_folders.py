"""Folders of classes as people have them: what is left out is said, or stops all."""

import io
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from polydom.features.errors import BadProject
from polydom.features.readers.folders import HIDDEN
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.project import Project


def load(folder: Path, **data: Any) -> Dataset:
    return load_data(Project.from_mapping({"data": data}, folder=folder))


def image(number: int, format: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("L", (4, 4), number).save(file, format)
    return file.getvalue()


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def photos(folder: Path, *classes: str) -> Path:
    """Three images a class, all different."""
    for number in range(3 * len(classes)):
        name = f"{classes[number // 3]}/{number}.png"
        write(folder / "photos" / name, image(number))
    return folder / "photos"


def test_what_is_left_out_is_said_once_a_reason_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = photos(tmp_path, "cats", "dogs")
    for name in (".thumbnails/1.png", "cats/.DS_Store", "__MACOSX/cats/._1.png"):
        write(folder / name, image(7))
    write(folder / "cats" / "1.heic", b"\0\0\0\x18ftypheic")
    write(folder / "cats" / "2.heic", b"\0\0\0\x18ftypheic")
    write(folder / "notes.csv", b"a,b")
    write(folder / "loose", image(8))
    write(folder / "dogs" / "9.tif", image(9, "JPEG"))
    (folder / "birds").mkdir()
    write(folder / "fish" / ".DS_Store", b"")
    dataset = load(tmp_path, images="photos")
    assert dataset.labels == ("cats", "dogs")
    assert len(dataset.items) == 7
    left_out = [
        (".thumbnails", f"{HIDDEN} (and 3 more)"),
        ("cats/1.heic", "HEIC is not read; save it as JPEG (and 1 more)"),
        ("loose", "it is in no folder of a class"),
        ("notes.csv", "no image"),
    ]
    assert sorted(dataset.skipped) == sorted(left_out)
    assert caplog.messages == [
        *(f"photos: left out {name}: {why}" for name, why in dataset.skipped),
        "photos: the folder 'birds' holds no image",
        "photos: the folder 'fish' holds no image",
    ]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("fish/1.heic", b"\0\0\0\x18ftypheic", "'fish' holds no image.*HEIC is not"),
        ("fish/1.tif", image(1, "TIFF"), r"fish/1\.tif: TIFF is not read"),
        ("fish/1.png", b"<html>", r"none of the files in fish can be used.*1\.png: "),
    ],
)
def test_a_class_that_loses_all_its_files_stops_the_build(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    write(photos(tmp_path, "cats", "dogs") / name, data)
    with pytest.raises(BadProject, match=message):
        load(tmp_path, images="photos")


def test_folders_of_parts_are_no_classes(tmp_path: Path) -> None:
    for part in ("Train", "val", "test"):
        photos(tmp_path, f"{part}/cats", f"{part}/dogs")
    message = r'images = "photos/Train" and test = "photos/test"'
    with pytest.raises(BadProject, match=message):
        load(tmp_path, images="photos")


def test_classes_may_be_called_like_parts(tmp_path: Path) -> None:
    photos(tmp_path, "train", "test")
    assert load(tmp_path, images="photos").labels == ("test", "train")


def test_photos_are_read_whatever_their_endings_say(tmp_path: Path) -> None:
    """As in a well-known collection of pets, some of whose .jpg are PNG and GIF."""
    folder = photos(tmp_path, "cats", "dogs")
    write(folder / "cats" / "png.jpg", image(20))
    write(folder / "dogs" / "gif.jpg", image(21, "GIF"))
    jpeg = image(22, "JPEG")
    write(folder / "dogs" / "more bytes.jpg", jpeg[:-2] + bytes(245) + jpeg[-2:])
    dataset = load(tmp_path, images="photos")
    assert (len(dataset.items), dataset.skipped) == (9, ())


def test_a_photo_that_only_claims_to_be_a_jpeg_says_what_to_do(tmp_path: Path) -> None:
    folder = photos(tmp_path, "cats", "dogs")
    write(folder / "cats" / "IMG_1.JPG", b"\0\0\0\x18ftypheic" + bytes(40))
    ((name, why),) = load(tmp_path, images="photos").skipped
    assert name == "cats/IMG_1.JPG"
    assert why.endswith("image: HEIC is not read; save it as JPEG")


def test_one_folder_of_a_part_says_what_to_write(tmp_path: Path) -> None:
    photos(tmp_path, "train/cats", "train/dogs")
    with pytest.raises(BadProject, match=r'write \[data\] images = "photos/train"$'):
        load(tmp_path, images="photos")


@pytest.mark.skipif(os.name == "nt", reason="these are one folder there")
def test_classes_that_look_alike_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    photos(tmp_path, "Cats", "cats", "dogs")
    assert len(load(tmp_path, images="photos").labels) == 3
    assert caplog.messages == ["photos: Cats, cats are two classes"]


def test_texts_tell_their_encoding(tmp_path: Path) -> None:
    write(tmp_path / "mails" / "ham" / "1", "Öl\r\n".encode("utf-16"))
    write(tmp_path / "mails" / "ham" / "2.eml", b"\xef\xbb\xbfhi")
    write(tmp_path / "mails" / "spam" / "3.txt", "Öl".encode())
    write(tmp_path / "mails" / "spam" / "4.pdf", b"%PDF-1.7")
    dataset = load(tmp_path, texts="mails")
    assert [item.payload for item in dataset.items] == ["Öl\n", "hi", "Öl"]
    assert dataset.skipped == (("spam/4.pdf", "no text, but PDF"),)


def test_a_folder_without_items_says_what_it_holds(tmp_path: Path) -> None:
    write(tmp_path / "photos" / "a.tif", image(1, "TIFF"))
    with pytest.raises(BadProject, match=r"left out a\.tif: TIFF is not read; save"):
        load(tmp_path, images="photos")


@pytest.mark.parametrize(
    "text",
    [
        "file,label\ncats/0.png,a\ndogs/3.png,b\n",
        "file,label\r\ncats\\0.png,a\r\n.\\dogs\\3.png,b\r\n",
        ",file,label\n0,./cats/0.png,a\n1,dogs//3.png,b\n",
    ],
)
def test_listed_files_are_found_as_any_system_writes_them(
    tmp_path: Path, text: str
) -> None:
    photos(tmp_path, "cats", "dogs")
    (tmp_path / "labels.csv").write_text(text, newline="")
    dataset = load(tmp_path, images="photos", labels="labels.csv")
    assert [*dataset.names] == ["cats/0.png", "dogs/3.png"]
    assert dataset.labels == ("a", "b")


def test_a_listed_file_that_is_left_out_says_why(tmp_path: Path) -> None:
    folder = photos(tmp_path, "cats", "dogs")
    write(folder / "cats" / "1.heic", b"\0\0\0\x18ftypheic")
    (tmp_path / "labels.csv").write_text("file,label\ncats/1.heic,a\ndogs/3.png,b\n")
    with pytest.raises(BadProject, match=r"row 1: cats/1\.heic .* left out: HEIC is"):
        load(tmp_path, images="photos", labels="labels.csv")


@pytest.mark.skipif(os.name == "nt", reason="names there are composed")
def test_a_listed_name_may_be_composed_otherwise(tmp_path: Path) -> None:
    write(tmp_path / "photos" / "caf\u0065\u0301.png", image(1))
    write(tmp_path / "photos" / "tea.png", image(2))
    (tmp_path / "labels.csv").write_text("file,label\ncaf\u00e9.png,a\ntea.png,b\n")
    dataset = load(tmp_path, images="photos", labels="labels.csv")
    assert len(dataset.items) == 2
    assert dataset.items[0].payload == image(1)
