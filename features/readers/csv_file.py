"""CSV files, read by Arrow after their encoding and their separator are found.

Each cell is read as text; `tables.column_kinds` finds the kind of each column.
"""

import codecs
import csv
import io
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BadInput
from ..file_kinds import noun_of
from ..tables.records import trim
from .encodings import (
    CHUNK,
    MOSTLY_UTF8,
    SAMPLE,
    check_encoding,
    chunks,
    codec_of,
    find_encoding,
)

log = logging.getLogger("polydom")

SEPARATORS = ",;\t|"
BLOCK, MOST_BLOCK = 2**20, 2**31 - 1  # bytes per read of Arrow
TOP = 32  # first rows, compared with the line of names
SHOWN = 60  # characters of a row in a message
SAID = re.compile(r"sep=(.)", re.IGNORECASE)  # Excel's line above the names

# A quote within quotes, as Spark and MySQL write it. Other programs write two quotes.
ESCAPED = re.compile(r'(?<!\\)\\"')
ESCAPED_INSIDE = re.compile(r'(?<!\\)\\"(?=[^",;\t|\r\n])')
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")

OnRows = Callable[[int, int], None]  # rows read; most rows in the file


class BadRow(NamedTuple):
    """A row that cannot be read: its number, as spreadsheets count, and the reason."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A CSV file: its path, and the form of its rows."""

    path: Path
    encoding: str  # Encoding, as `find_encoding` names it
    separator: str  # Character between cells
    names: tuple[str, ...]  # Names of the columns; "" for a column without one
    lines: int  # Number of lines above the first row
    # True if points separate thousands, because the first rows have decimal commas
    points_group: bool = False
    escaped: bool = False  # True if a quote inside a cell follows a backslash

    @property
    def first(self) -> int:
        """Number of the line that has the first row; the first line is 1."""
        return self.lines + 1

    def read(
        self, places: Sequence[int], on_rows: OnRows | None = None
    ) -> tuple[Any, list[BadRow]]:
        """Read some columns; return an Arrow table of strings, and the unreadable rows.

        `places` has the positions of the columns; the table names its columns by these
        positions. `on_rows(done, left)` is called while rows are read, with the number
        of rows read and an upper bound of the number left. Raises BadInput if the
        encoding is wrong, or a quote never ends.
        """
        from pyarrow import csv as arrow_csv

        bad: list[BadRow] = []
        if not self.most_rows():
            return _nothing(places), bad
        table = self._retry(arrow_csv.read_csv, places, bad, on_rows, threads=True)
        if bad:  # threads do not tell which rows
            bad.clear()
            table = self._retry(arrow_csv.read_csv, places, bad, None, threads=False)
        self._refuse_open_quote(table, table.num_rows + len(bad))
        return table, bad

    def batches(self, places: Sequence[int]) -> Iterator[tuple[Any, list[BadRow]]]:
        """Yield (table, bad) for each batch of rows, with an Arrow table of strings.

        `bad` has all unreadable rows up to the end of the batch. Raises the same errors
        as `read`.
        """
        from pyarrow import csv as arrow_csv

        size, done = BLOCK, 0
        if not self.most_rows():
            yield _nothing(places), []
            return
        while True:
            bad: list[BadRow] = []
            seen = 0
            try:
                reader = self._open(arrow_csv.open_csv, places, bad, None, False, size)
                for batch in reader:
                    seen += batch.num_rows
                    if seen > done:
                        self._refuse_open_quote(batch, seen + len(bad))
                        yield batch.slice(batch.num_rows - (seen - done)), bad
                        done = seen
                yield reader.schema.empty_table(), bad
            except (ValueError, OSError) as error:
                refusal = _no_csv(self.path, self.encoding, error)
                if not _is_short(refusal) or size == MOST_BLOCK:
                    raise refusal from error
                size = min(16 * size, MOST_BLOCK)
            else:
                return

    def _retry(
        self,
        read: Callable[..., Any],
        places: Sequence[int],
        bad: list[BadRow],
        on_rows: OnRows | None,
        *,
        threads: bool,
    ) -> Any:
        """Call Arrow's `read`, with larger blocks if a row is longer than a block."""
        size = BLOCK
        while True:
            try:
                return self._open(read, places, bad, on_rows, threads, size)
            except BadInput as error:
                if not _is_short(error) or size == MOST_BLOCK:
                    raise
            bad.clear()
            size = min(16 * size, MOST_BLOCK)

    def _open(
        self,
        read: Callable[..., Any],
        places: Sequence[int],
        bad: list[BadRow],
        on_rows: OnRows | None,
        threads: bool,
        size: int,
    ) -> Any:
        from pyarrow import csv as arrow_csv
        from pyarrow import string

        def skip(row: Any) -> str:
            bad.append(BadRow(row.number or 0, _why(row, len(self.names))))
            return "skip"

        ids = [str(place) for place in range(len(self.names))]
        wanted = [str(place) for place in places]
        try:
            return read(
                self._bytes(on_rows),
                arrow_csv.ReadOptions(
                    use_threads=threads,
                    block_size=size,
                    encoding="utf8" if self._mended else self.encoding,
                    column_names=ids,
                    skip_rows=self.lines,
                ),
                arrow_csv.ParseOptions(
                    delimiter=self.separator,
                    newlines_in_values=True,
                    invalid_row_handler=skip,
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, string()),
                    include_columns=wanted,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
        except (ValueError, OSError) as error:  # Arrow raises ValueErrors
            raise _no_csv(self.path, self.encoding, error) from error

    @property
    def _mended(self) -> bool:
        return self.escaped or self.encoding in (MOSTLY_UTF8, "utf-8", "utf-8-sig")

    def _bytes(self, on_rows: OnRows | None) -> io.RawIOBase:
        file = _Counted(self.path, self.most_rows() if on_rows else 0, on_rows)
        if self.escaped or self.encoding == MOSTLY_UTF8:
            return _Mended(file, self.encoding, self.escaped)
        return file

    def _refuse_open_quote(self, rows: Any, count: int) -> None:
        last = rows.slice(max(rows.num_rows - 1, 0)).to_pylist()
        cells = [cell for row in last for cell in row.values() if cell and "\n" in cell]
        if cells and self._ends_quoted(cells[-1]):
            lines = cells[-1].count("\n")
            raise BadInput(
                f"{self.path}, row {self.lines + count}: a quote begins in it that "
                f"never ends, and the {lines:,} lines below are part of one cell; end "
                "it, or write two quotes for one"
            )

    def _ends_quoted(self, cell: str) -> bool:
        """Return True if the file ends with this cell and without a closing quote."""
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - SAMPLE, 0))
            end = file.read().decode(codec_of(self.encoding), "replace").rstrip("\r\n")
        return not end.endswith('"') and end.endswith(cell.rstrip("\r\n")[-TOP:])

    def most_rows(self) -> int:
        """Return the number of lines after the header, an upper bound of all rows.

        There are fewer rows if a cell contains line ends.
        """
        with self.path.open("rb") as file:
            feeds = returns = 0
            chunk = b""
            for chunk in chunks(file):
                feeds += chunk.count(b"\n")
                returns += 0 if feeds else chunk.count(b"\r")
        found = max(feeds, returns) + 1 - chunk.endswith((b"\n", b"\r"))
        return max(found - self.lines, 0)


class _Counted(io.RawIOBase):
    """A file that reports the rows read so far, estimated from the bytes read."""

    def __init__(self, path: Path, most: int, on_rows: OnRows | None) -> None:
        self._file = path.open("rb")
        self._size = max(os.fstat(self._file.fileno()).st_size, 1)
        self._most, self._on_rows = most, on_rows

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        if count and self._on_rows is not None:
            done = self._most * self._file.tell() // self._size
            self._on_rows(done, self._most - done)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Mended(io.RawIOBase):
    """A file as UTF-8, with two quotes for an escaped quote, as Arrow needs."""

    def __init__(self, file: _Counted, encoding: str, escaped: bool) -> None:
        self._file, self._escaped = file, escaped
        errors = "replace" if encoding == MOSTLY_UTF8 else "strict"
        self._decoder = codecs.getincrementaldecoder(codec_of(encoding))(errors)
        self._text, self._ready = "", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._file.read(CHUNK) or b""
            text = self._text + self._decoder.decode(chunk, not chunk)
            if not text and not chunk:
                return 0
            # a backslash at the end may escape a quote in the next chunk
            kept = len(text) - len(text.rstrip("\\")) if chunk else 0
            text, self._text = text[: len(text) - kept], text[len(text) - kept :]
            if self._escaped:
                text = ESCAPED.sub('""', text)
            self._ready = text.encode()
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._file.close()
        super().close()


def _no_csv(path: Path, encoding: str, error: Exception) -> BadInput:
    return BadInput(
        f"{path}: this is no CSV in {encoding}: {error}; give its `encoding`, or save "
        "it as UTF-8"
    )


def _is_short(error: BadInput) -> bool:
    return "block size" in str(error)


def _nothing(places: Sequence[int]) -> Any:
    import pyarrow as pa

    return pa.table({str(place): pa.array([], pa.string()) for place in places})


def _why(row: Any, count: int) -> str:
    shown = row.text if len(row.text) <= SHOWN else f"{row.text[:SHOWN]}..."
    quote = "; a quote in it may never end" if "\n" in row.text else ""
    return f"{row.actual_columns} cells under {count} names: {shown!r}{quote}"


def open_csv(
    path: Path,
    separator: str | None = None,
    encoding: str | None = None,
    wanted: Collection[str] = (),
) -> CsvFile:
    """Find out how to read a CSV file, without reading its rows.

    If `separator` is None, a first line such as `sep=;` names it. Without such a line,
    the separator is a comma, semicolon, tab or `|`: the one that splits the line of
    names into the most names of `wanted`; on a tie, the one that splits the most rows
    into the same number of cells. If `encoding` is None, `find_encoding` finds it. If
    another separator than a comma or another encoding than UTF-8 is found, this is
    logged.

    Spaces around names are removed. If all first rows have one cell more than there are
    names, a column without a name is added: at the end if the last cells are empty,
    because a separator ends each row, and else at the beginning, for the row names that
    R writes. Raises BadInput if the file is empty or no text.
    """
    check_form(separator, encoding)
    try:
        with path.open("rb") as file:
            start = file.read(SAMPLE)
        _refuse_others(path, start)
        chosen = encoding or find_encoding(path)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    if not start:
        raise BadInput(
            f"{path} is empty; a first line with the names of its columns is needed"
        )
    text = codecs.getincrementaldecoder(codec_of(chosen))("replace").decode(start)
    escaped = ESCAPED_INSIDE.search(text) is not None
    if escaped:
        text = ESCAPED.sub('""', text)
    lines = text.splitlines(keepends=True)
    said = SAID.fullmatch(lines[0].strip(" \r\n\ufeff")) if lines else None
    sample = lines[bool(said) : -1 if lines[1:] else None]
    divided = separator or (said and said[1]) or find_separator(sample, wanted)
    names, line, rows = _top(path, chosen, divided, bool(said), escaped)
    _refuse_spaces(path, names, divided)
    commas = divided != "," and any(
        DECIMAL_COMMA.fullmatch(cell.strip()) for row in rows for cell in row
    )
    found = CsvFile(path, chosen, divided, _named(names, rows), line, commas, escaped)
    _tell(found, separator, encoding)
    return found


def _top(
    path: Path, encoding: str, separator: str, said: bool, escaped: bool
) -> tuple[list[str], int, list[list[str]]]:
    """Return the names of columns, the number of their line, and the first rows.

    `said` is True if a line above the names states the separator. `escaped` is True if
    a quote inside a cell follows a backslash.
    """
    limit = csv.field_size_limit(2**31 - 1)
    try:
        codec = codec_of(encoding)
        with path.open(encoding=codec, errors="replace", newline="") as file:
            if said:
                next(file)
            lines = (ESCAPED.sub('""', line) if escaped else line for line in file)
            reader = csv.reader(lines, delimiter=separator)
            names = next(filter(None, reader), [])
            line = reader.line_num + said
            rows = list(islice(filter(None, reader), TOP))
    except (UnicodeError, csv.Error) as error:
        raise _no_csv(path, encoding, error) from error
    finally:
        csv.field_size_limit(limit)
    if not names:
        raise BadInput(f"{path} holds nothing but empty lines; names are needed")
    return names, line, rows


def _named(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names of the columns; "" for a column that has cells but no name."""
    own = tuple(map(trim, names))
    if rows and all(len(row) == len(own) + 1 for row in rows):
        return (*own, "") if all(not trim(row[-1]) for row in rows) else ("", *own)
    return own


def _refuse_spaces(path: Path, names: Sequence[str], separator: str) -> None:
    """Raise BadInput if a space is before a quoted name: cells would contain quotes."""
    for name in map(trim, names):
        if len(name) > 1 and name[0] == name[-1] == '"':
            raise BadInput(
                f"{path.name}, line 1: a space is between {separator!r} and {name}, so "
                "the quotes would be part of the name, and of the cells below; write "
                f"the file without spaces around {separator!r}"
            )


def _refuse_others(path: Path, start: bytes) -> None:
    if what := noun_of(start):
        cure = "unpack it" if "compressed" in what else "save it as CSV or Parquet"
        raise BadInput(f"{path}: this is {what}, no CSV file; {cure}")


def check_form(separator: str | None, encoding: str | None) -> None:
    """Raise BadInput if the separator or the encoding is unusable; None is allowed."""
    if separator is not None and (
        len(separator) != 1 or separator in '"\r\n' or not separator.isascii()
    ):
        raise BadInput(
            f"separator is {separator!r}; one character is needed, such as ';' or a tab"
        )
    check_encoding(encoding)


def find_separator(lines: Sequence[str], wanted: Collection[str] = ()) -> str:
    """Return the separator of cells in a file's first lines; see `open_csv`."""

    def fit(separator: str) -> tuple[int, float]:
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            return 0, 0.0
        if not rows:
            return 0, 0.0
        width, count = Counter(map(len, rows)).most_common(1)[0]
        found = len(set(wanted) & set(map(trim, rows[0])))
        return found, count / len(rows) if width > 1 else 0.0

    return max(SEPARATORS, key=fit)


def _tell(file: CsvFile, separator: str | None, encoding: str | None) -> None:
    said = []
    if encoding is None and file.encoding not in ("utf-8", "utf-8-sig"):
        said.append(
            f"in {file.encoding}"
            + (", which become \ufffd" if file.encoding == MOSTLY_UTF8 else "")
        )
    if file.escaped:
        said.append('with \\" for a quote in a cell')
    if separator is None and file.separator != ",":
        said.append(f"with {file.separator!r} between cells")
    if said:
        log.warning(
            "%s is read %s; if that is wrong, give `separator` or `encoding`",
            file.path.name,
            " and ".join(said),
        )
