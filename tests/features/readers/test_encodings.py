"""Texts in files are read in the encoding that they tell."""

import codecs

import pytest

from polydom.features.readers.encodings import decode_text

TEXT = "kaufe Öl\r\nund Brot\rsofort"
READ = "kaufe Öl\nund Brot\nsofort"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
        codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"),
    ],
)
def test_a_text_tells_its_encoding(data: bytes) -> None:
    assert decode_text(data) == READ


def test_an_encoding_that_is_given_counts() -> None:
    assert decode_text(TEXT.encode("latin-1"), "latin-1") == READ
    assert decode_text(TEXT.encode("utf-16-le"), "utf-16-le") == READ
    with pytest.raises(UnicodeDecodeError):
        decode_text(TEXT.encode("latin-1"))
