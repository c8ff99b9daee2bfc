"""What files are by their first bytes."""

import io

import pytest
from PIL import Image

from polydom.features.file_kinds import IMAGES, cure_for, format_of, is_text
from polydom.features.ready_made.image_header import FORMATS

COLOURS = Image.new("RGB", (8, 8), (200, 30, 60))
FTYP = b"\0\0\0\x18ftyp"


def encode(format: str) -> bytes:
    file = io.BytesIO()
    COLOURS.save(file, format)
    return file.getvalue()


@pytest.mark.parametrize("format", sorted(IMAGES))
def test_images_that_are_read_are_known(format: str) -> None:
    assert format_of(encode(format)) == format
    assert set(FORMATS) <= IMAGES
    assert not cure_for(format)
    assert not is_text(encode(format))


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (encode("TIFF"), "TIFF"),
        (FTYP + b"heic\0\0\0\0", "HEIC"),
        (FTYP + b"mif1\0\0\0\0", "HEIC"),
        (FTYP + b"avif\0\0\0\0", "AVIF"),
        (b"8BPS\0\1", "PSD"),
    ],
)
def test_other_images_are_named_with_what_to_do(start: bytes, name: str) -> None:
    assert format_of(start) == name
    assert cure_for(name) == f"{name} is not read; save it as JPEG"


@pytest.mark.parametrize(
    "start", [b"", b"BMW and Audi", b"GIF", b"RIFF....WAVE", b"PNG", b"\xff\xd8"]
)
def test_what_only_begins_alike_is_nothing_known(start: bytes) -> None:
    assert format_of(start) is None


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"plain words\r\n\twith tabs",
        "kaufe Öl".encode(),
        "kaufe Öl".encode("latin-1"),
        "\ufeffkaufe Öl".encode("utf-16-le"),
        "\ufeffkaufe Öl".encode("utf-16-be"),
        "\ufeffkaufe Öl".encode(),
        b"\x1b[31mred",
        b"<svg xmlns='x'>",
        b"From: a@b.c\n\x01" + b"x" * 100,
    ],
)
def test_texts_are_known_in_any_encoding(start: bytes) -> None:
    assert is_text(start)


@pytest.mark.parametrize(
    "start",
    [
        b"a\0b",
        b"%PDF-1.7\n%\xe2\xe3",
        b"PK\x03\x04",
        bytes(range(1, 9)),
        b"\x1f\x8b\x08",
    ],
)
def test_what_is_no_text_is_known(start: bytes) -> None:
    assert not is_text(start)
