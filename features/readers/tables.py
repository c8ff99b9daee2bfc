"""Rows of tables, read as they are needed: CSV, Parquet and JSON Lines."""

import os
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import BadInput, BadItem
from ..tables.cells import Cells
from ..wording import describe_decode_error
from .csv_cells import OnRows, read_csv_cells
from .csv_file import CsvFile, check_form, open_csv
from .parquet_cells import ROWS as CELL_ROWS
from .parquet_cells import read_parquet_cells

JSON_LINES = (".jsonl", ".ndjson")
PARQUET = ".parquet"
ROWS = 1024  # of a Parquet file that are in memory at a time

Row = dict[str, Any] | BadItem  # what it holds by column, or why it cannot be read

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class Table:
    """A CSV or Parquet file whose rows can be read.

    Attributes
    ----------
    path
        Of the file, or of a folder of Parquet files that are one table.
    names
        Of its columns, in order.
    count
        How many rows it has; None where that is not known before they are read.
    typed
        Whether cells have types; else all are texts.
    commas
        Whether texts that are numbers may have a decimal comma.
    """

    path: Path
    names: tuple[str, ...]
    count: int | None
    typed: bool
    commas: bool
    _read: Callable[[Sequence[str]], Iterator[Row]]
    _read_cells: Callable[..., dict[str, Cells]]

    def rows(self, wanted: Sequence[str]) -> Iterator[Row]:
        """Read these columns, row after row.

        Raises
        ------
        BadInput
            If two columns have the name of one that is wanted, now; if the file is
            damaged, where it is.
        """
        self._refuse_twice(wanted)
        return self._read(wanted)

    def cells(
        self,
        wanted: Sequence[str],
        undated: Collection[str] = (),
        on_rows: OnRows | None = None,
    ) -> dict[str, Cells]:
        """Read these columns whole, into arrays.

        Parameters
        ----------
        wanted
            Names of the columns.
        undated
            Those whose texts are no dates, whatever they look like.
        on_rows
            Told how many rows were read, and how many more there can be at most.

        Raises
        ------
        BadInput
            As `rows`; also if a column holds what no feature can be made of, or a row
            has too few cells or too many.
        """
        self._refuse_twice(wanted)
        return self._read_cells(wanted, undated, on_rows)

    def _refuse_twice(self, wanted: Iterable[str]) -> None:
        for name in sorted(wanted):
            if self.names.count(name) > 1:
                raise BadInput(
                    f"{self.path.name}: {self.names.count(name)} columns are called "
                    f"{name!r}; each needs a name of its own"
                )


def open_table(
    path: Path,
    separator: str | None = None,
    encoding: str | None = None,
    wanted: Collection[str] = (),
) -> Table:
    """Open a Parquet file by its ending, and any other as CSV.

    Parameters
    ----------
    separator, encoding, wanted
        Of a CSV file; see `open_csv`.

    Raises
    ------
    BadInput
        If it cannot be read, or is none.
    """
    if path.suffix.lower() == PARQUET:
        return _open_parquet(path)
    file = open_csv(path, separator, encoding, wanted)
    return Table(
        path,
        file.names,
        None,
        False,
        file.separator != ",",
        partial(_csv_rows, file),
        partial(read_csv_cells, file),
    )


def _csv_rows(file: CsvFile, wanted: Sequence[str]) -> Iterator[Row]:
    places = [(name, file.names.index(name)) for name in wanted]
    for row in file.rows():
        if len(row) == len(file.names):
            yield {name: row[place] for name, place in places}
        else:
            yield BadItem(f"{len(row)} cells under {len(file.names)} names")


def _open_parquet(path: Path) -> Table:
    import_parquet(path)
    from pyarrow import ArrowException, default_memory_pool
    from pyarrow.dataset import ParquetFragmentScanOptions, dataset

    def refuse(error: Exception) -> BadInput:
        if isinstance(error, FileNotFoundError):  # pyarrow's own says but the path
            return BadInput(f"{path}: No such file or directory")
        return BadInput(f"{path}: this is no Parquet file: {error}")

    def batches(names: Sequence[str], rows: int) -> Iterator[Any]:
        # little is read ahead, and nothing kept of what was
        lean = ParquetFragmentScanOptions(pre_buffer=False)
        try:
            yield from found.to_batches(
                columns=list(names),
                batch_size=rows,
                batch_readahead=1,
                fragment_readahead=1,
                fragment_scan_options=lean,
                use_threads=False,
            )
        except (OSError, ArrowException) as error:
            raise refuse(error) from error

    def read(names: Sequence[str]) -> Iterator[Row]:
        for batch in batches(names, ROWS):
            yield from batch.to_pylist()

    def read_cells(
        names: Sequence[str], undated: Collection[str], on_rows: OnRows | None
    ) -> dict[str, Cells]:
        types = {name: found.schema.field(name).type for name in names}
        parts, count = batches(names, CELL_ROWS), found.count_rows()
        cells = read_parquet_cells(path.name, types, parts, count, on_rows)
        default_memory_pool().release_unused()  # a tenth of the file or more
        return cells

    try:
        divided = "hive" if path.is_dir() else None
        found = dataset(path, format="parquet", partitioning=divided)
        names, count = tuple(found.schema.names), found.count_rows()
    except (OSError, ArrowException) as error:
        raise refuse(error) from error
    return Table(path, names, count, True, False, read, read_cells)


def import_parquet(path: Path) -> Any:
    """Import pyarrow's part for Parquet, to read or write at a path.

    Raises
    ------
    BadInput
        Where it is not installed, or cannot open such a path.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{path}: pyarrow opens no path that is not in UTF-8; rename it"
        ) from error
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput(
            f"{path.name}: Parquet needs pyarrow: pip install 'polydom[parquet]'"
        ) from error
    return parquet


class Span(NamedTuple):
    """Whole lines of a file: so many bytes from `offset` on, which hold `rows` rows."""

    offset: int
    length: int
    rows: int


class Line(NamedTuple):
    """A line of JSON Lines that is not blank.

    `number` counts all lines from 1, `document` is its JSON in UTF-8. A `row` that
    could not be decoded has a UnicodeError for its cause. `offset` counts the bytes of
    the file before it; None where that is in another encoding.
    """

    number: int
    document: bytes
    row: Row
    offset: int | None


def read_json_lines(
    path: Path, encoding: str | None = None, span: Span | None = None
) -> Iterator[Line]:
    """Read a file of one JSON object a line, in UTF-8 by default; or a span of it.

    BadInput comes where it cannot be read, or nobody knows the encoding.
    """
    if span is None:
        documents = _documents(path, encoding)
        offset = 0 if encoding else _bom_length(path)
    else:
        documents, offset = _lines_in(path, span), span.offset
    for number, document in enumerate(documents, 1):
        if document.strip():
            row = _row(document, encoding)
            yield Line(number, document, row, None if encoding else offset)
        offset += len(document)


def divide_json_lines(path: Path, most: int) -> Iterator[Span]:
    """Divide a file in UTF-8 into spans of at most so many rows; errors as reading."""
    offset, length, count = _bom_length(path), 0, 0
    for document in _documents(path, None):
        length += len(document)
        count += bool(document.strip())
        if count == most:
            yield Span(offset, length, count)
            offset, length, count = offset + length, 0, 0
    if count:
        yield Span(offset, length, count)


def count_json_lines(path: Path, encoding: str | None = None) -> int:
    """Count the lines that are not blank; errors as `read_json_lines`."""
    return sum(1 for document in _documents(path, encoding) if document.strip())


def _documents(path: Path, encoding: str | None) -> Iterator[bytes]:
    """Lines of a file in UTF-8; what is in no such encoding as it is."""
    check_form(None, encoding)
    try:
        if encoding is None:
            with path.open("rb") as file:
                if file.read(len(BOM_UTF8)) != BOM_UTF8:
                    file.seek(0)
                yield from file
            return
        with path.open(encoding=encoding, errors="surrogateescape") as text:
            for line in text:
                yield line.encode("utf-8", "surrogateescape")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except UnicodeError as error:
        raise BadInput(f"{path}: not {encoding}: {error}") from error


def _bom_length(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def _lines_in(path: Path, span: Span) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            file.seek(span.offset)
            left = span.length
            while left > 0 and (line := file.readline(left)):
                left -= len(line)
                yield line
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def _row(document: bytes, encoding: str | None) -> Row:
    try:
        return _decode(document)
    except UnicodeDecodeError as error:
        failure = BadItem(f"not {encoding or 'UTF-8'}: {_decoding(document) or error}")
        failure.__cause__ = error
        return failure
    except (msgspec.DecodeError, RecursionError) as error:
        return BadItem(
            f"{describe_decode_error(error)}; each line is to be one JSON object"
        )


def _decoding(document: bytes) -> UnicodeDecodeError | None:
    """Python's own error, which counts from the line's beginning."""
    try:
        document.decode()
    except UnicodeDecodeError as error:
        return error
    return None
