"""CSV files as they come: in which encoding, and with what between their cells."""

import codecs
import csv
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ..errors import BadInput

log = logging.getLogger("polydom")

SEPARATORS = ",;\t|"
SAMPLE = 2**16  # bytes that show what is between cells
CHUNK = 2**20
MARKS = {  # byte order marks; that of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
NOT_IN_WINDOWS = frozenset(b"\x81\x8d\x8f\x90\x9d")
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A CSV file that can be read; `names` are the cells of its first row."""

    path: Path
    encoding: str
    separator: str
    names: tuple[str, ...]

    def rows(self) -> Iterator[list[str]]:
        """Read the rows after the first, without empty ones.

        BadInput comes where one cannot be read: wrong encoding, endless cell, NUL.
        """
        rows = _rows_of(self.path, self.encoding, self.separator)
        next(rows, None)
        return rows

    def most_rows(self) -> int:
        """Count the lines after the first: there are no more rows, perhaps fewer."""
        with self.path.open("rb") as file:
            ends = {b"\n": 0, b"\r": 0}
            chunk = b""
            for chunk in _chunks(file):
                for end in ends:
                    ends[end] += chunk.count(end)
        return max(*ends.values(), 1) - chunk.endswith((b"\n", b"\r"))


def open_csv(
    path: Path,
    separator: str | None = None,
    encoding: str | None = None,
    wanted: Collection[str] = (),
) -> CsvFile:
    """Find out how a CSV file is to be read, and say so where it is not the usual way.

    Parameters
    ----------
    separator
        What is between cells: one character. None for what divides the first rows into
        as many cells each, and into columns that are wanted: a comma, if it does.
    encoding
        A name that Python knows. None for UTF-8 or what a byte order mark says; else
        Windows-1252, or Latin-1 where bytes are in the file that the former lacks.
    wanted
        Names of columns that are to be there.

    Raises
    ------
    BadInput
        If the file cannot be read, is empty or no text, or an argument is unusable.
    """
    check_form(separator, encoding)
    try:
        chosen = encoding or find_encoding(path)
        with path.open("rb") as file:
            start = file.read(SAMPLE)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    if not start:
        raise BadInput(
            f"{path} is empty; a first line with the names of its columns is needed"
        )
    text = codecs.getincrementaldecoder(chosen)("replace").decode(start)
    lines = text.splitlines(keepends=True)
    divided = separator or find_separator(lines[: -1 if lines[1:] else None], wanted)
    names = tuple(next(_rows_of(path, chosen, divided), ()))
    if not names:
        raise BadInput(f"{path} holds nothing but empty lines; names are needed")
    found = CsvFile(path, chosen, divided, names)
    _tell(found, separator, encoding)
    return found


def _rows_of(path: Path, encoding: str, separator: str) -> Iterator[list[str]]:
    """Read all rows that are not empty."""
    try:
        with path.open(encoding=encoding, newline="") as file:
            yield from filter(None, csv.reader(file, delimiter=separator))
    except (UnicodeError, csv.Error) as error:
        raise BadInput(
            f"{path}: this is no CSV in {encoding}: {error}; give its "
            "`encoding`, or save it as UTF-8"
        ) from error


def check_form(separator: str | None, encoding: str | None) -> None:
    """Refuse a separator that is not one character, or an encoding nobody knows."""
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise BadInput(
            f"separator is {separator!r}; one character is needed, such as ';' or a tab"
        )
    if encoding is not None:
        try:
            "".encode(encoding)
        except (LookupError, ValueError):
            raise BadInput(
                f"encoding is {encoding[:80]!r}, which is unknown; 'utf-8', 'latin-1', "
                "'cp1252' or 'utf-16', for instance, is needed"
            ) from None


def find_encoding(path: Path) -> str:
    """Find the encoding of a text file; BadInput where bytes are 0, as in no text."""
    with path.open("rb") as file:
        start = file.read(SAMPLE)
        for mark, encoding in MARKS.items():
            if start.startswith(mark):
                return encoding
        if b"\0" in start:
            return _wide(path, start)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            for chunk in _chunks(file):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            lacking = any(NOT_IN_WINDOWS & set(part) for part in _chunks(file))
            return "latin-1" if lacking else "cp1252"
    return "utf-8"


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(CHUNK):
        yield chunk


def _wide(path: Path, start: bytes) -> str:
    """Tell UTF-16 without a mark by where its zeros are, if the text is European."""
    half = len(start) // 2
    for first, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        if start[first::2].count(0) > 0.5 * half and not start[1 - first :: 2].count(0):
            return encoding
    raise BadInput(
        f"{path} is no text: it holds zero bytes; a CSV file is needed, not one of a "
        "spreadsheet program or an archive"
    )


def find_separator(lines: Sequence[str], wanted: Collection[str] = ()) -> str:
    """Find what is between the cells of a file's first lines; see `open_csv`."""

    def fit(separator: str) -> tuple[int, bool]:
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            return 0, False
        counts = {len(row) for row in rows}
        found = len(set(wanted) & set(rows[0])) if rows else 0
        return found, len(counts) == 1 and counts != {1}

    return max(SEPARATORS, key=fit)


def _tell(file: CsvFile, separator: str | None, encoding: str | None) -> None:
    """Say how the file is read where nobody said so, and it is not the usual way."""
    said = []
    if encoding is None and file.encoding not in ("utf-8", "utf-8-sig"):
        said.append(f"in {file.encoding}")
    if separator is None and file.separator != ",":
        said.append(f"with {file.separator!r} between cells")
    if said:
        log.warning(
            "%s is read %s; if that is wrong, give `separator` or `encoding`",
            file.path.name,
            " and ".join(said),
        )


def read_decimal_comma(cell: str) -> float:
    """Read a number with a decimal comma, or a whole one; ValueError for any other."""
    if "." in cell:
        raise ValueError(f"{cell!r} has a decimal point")
    return float(cell.replace(",", ".", 1))


def refuse_decimal_commas(where: str, name: str, words: Sequence[str]) -> None:
    """Refuse a column of numbers some of which have a comma for a point.

    It would be read as one of words, which are given.
    """
    commas = [word for word in words if DECIMAL_COMMA.fullmatch(word)]
    if commas and all(_is_number(word.replace(",", ".", 1)) for word in words):
        raise BadInput(
            f"{where}: column {name!r} holds numbers with a decimal comma, such as "
            f"{commas[0]!r}; a decimal point is needed: {commas[0].replace(',', '.')}; "
            "or commas in all of them, and another separator between cells"
        )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
