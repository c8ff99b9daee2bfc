"""Files that are texts."""

import codecs

# Marks that texts begin with, the longer ones first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def decode_text(data: bytes, encoding: str | None = None) -> str:
    """Read a text as Python reads files: any end of a line becomes a line feed.

    Without an encoding it is the one of the mark that it begins with, or else UTF-8.

    Raises
    ------
    UnicodeDecodeError
        If the bytes are nothing in this encoding.
    """
    if not encoding:
        found = (name for mark, name in _MARKS if data.startswith(mark))
        encoding = next(found, "utf-8")
    text = data.decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")
