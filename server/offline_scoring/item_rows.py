"""Reads items for an index from folders, tables and JSON Lines files."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Kind, Value
from polydom.features.readers.encodings import decode_text
from polydom.features.readers.folders import ENDINGS, FoundFiles, find_files, readable
from polydom.features.readers.json_lines import (
    JSON_LINES,
    Line,
    count_json_lines,
    read_json_lines,
)
from polydom.features.readers.table_file import Table, is_parquet, open_table
from polydom.features.tables.records import Decimal, trim
from polydom.features.tables.written_numbers import (
    is_empty,
    plain_number,
    read_number,
)
from polydom.features.wording import describe_decode_error, hint, listed
from polydom.indexer.index.column_facts import ColumnFacts
from polydom.indexer.index.package import Package

from ..runtime.known_columns import KnownColumns
from ..schema.record import decode_record
from .output_row import ScorableItem

IMAGE_COLUMNS = ("image", "image_base64")
SHOWN = 20
TRUTHS: Mapping[str, Value] = {"false": False, "true": True}


class Row(NamedTuple):
    """One item: a row of a table, a line of JSON Lines, or a file of a folder."""

    name: str  # Number of the row, from 0, or path of the file in its folder
    # The item, with only the columns that the index knows; an error if it is unreadable
    item: ScorableItem
    label: Any = None  # Value of the label column; None without such a column
    # For records, all columns except the label; None unless asked for
    whole: Mapping[str, Any] | None = None


class Rows(NamedTuple):
    """The items of a file or folder, read one by one."""

    rows: Iterator[Row]  # Iterator over the rows
    # Number of rows; None if it is unknown before the last row is read
    total: int | None
    # Function that returns remarks on unknown and on missing columns so far
    remarks: Callable[[], list[str]]
    # Function that returns the names of the columns; for JSON Lines, of the first line
    names: Callable[[], Sequence[str]] = tuple


def read_items(
    path: Path,
    package: Package,
    separator: str | None = None,
    encoding: str | None = None,
) -> Rows:
    """Read a folder, or a `.jsonl`, `.csv`, `.tsv` or `.parquet` file, row by row.

    Only columns that the index knows are read from a table. `separator` is the
    separator of a CSV file. `encoding` is the encoding of a CSV, JSON Lines or text
    file. Both are detected if None. Raises BadInput if no item is of the index's kind.
    """
    if not is_folder(path):
        return read_rows(path, package, separator, encoding)
    kind = package.kind
    found = files_in(path, kind, encoding)
    rows = (
        Row(readable(file.relative_to(path)), read_file(file, kind, encoding))
        for file in found.files
    )
    return Rows(rows, len(found.files), found.remarks)


def is_folder(path: Path) -> bool:
    """Return True if `path` is a folder in which each file is an item.

    A folder of Parquet files is one table, so the result is False.
    """
    return path.is_dir() and not is_parquet(path)


def files_in(folder: Path, kind: Kind, encoding: str | None = None) -> FoundFiles:
    """Return the files in a folder that are items of a kind.

    If `encoding` is given, the content of files that end like texts is not checked.
    Raises BadInput if there is no item.
    """
    found = find_files(folder, kind, encoded=encoding is not None)
    if not found.files:
        left_out = "".join(f"; {remark}" for remark in found.remarks())
        raise BadInput(
            f"{folder} holds no {kind} ({', '.join(ENDINGS[kind])}){left_out}"
        )
    return found


def read_rows(
    path: Path,
    package: Package,
    separator: str | None = None,
    encoding: str | None = None,
    label: str | None = None,
    *,
    whole: bool = False,
) -> Rows:
    """Read a `.jsonl`, `.csv`, `.tsv` or `.parquet` file, row by row.

    Items do not contain the column `label`. If `whole`, each `Row.whole` has all other
    columns of a record, even columns that the index does not know. Raises the errors of
    `read_items`, and BadInput if the label column is missing or is read by the index.
    """
    ending = path.suffix.lower()
    if not path.exists():
        raise BadInput(f"{path}: there is no such file or folder")
    reader = _Reader(package, label, whole)
    if ending in JSON_LINES:
        count = count_json_lines(path, encoding)
        rows = reader.rows(line.row for line in read_json_lines(path, encoding))
        return Rows(rows, count, reader.remarks, lambda: reader.names)
    if ending in (".csv", ".tsv") or is_parquet(path):
        table = open_table(path, separator, encoding, reader.wanted)
        columns = reader.columns(path, table.names)
        cells = TextCells(reader, table).read
        rows = reader.rows(table.rows(columns, cells))
        return Rows(rows, table.count, reader.remarks, lambda: reader.names)
    raise BadInput(f"{path}: a folder, .jsonl, .csv, .tsv or .parquet is needed")


class ItemColumns(NamedTuple):
    """Finds the columns of an Arrow table that contain the items."""

    kind: Kind
    # Column of the items; None for the usual column, or if each row is a record
    column: str | None
    # Columns that records have; if empty, all columns except `beside`
    known: tuple[str, ...]
    beside: tuple[str, ...] = ()  # Columns that are not part of records

    def among(self, names: Sequence[str]) -> list[str]:
        """Return the columns to read from a table with the columns `names`.

        Raises BadInput if a needed column is missing.
        """
        if self.kind == "record" and self.column is None:
            known = self.known or [name for name in names if name not in self.beside]
            wanted = [name for name in names if name in known]
            if not wanted:
                raise BadInput(
                    f"the index reads none of the columns {listed(names)}; it knows "
                    f"{listed(sorted(known))}"
                )
            return wanted
        usual = IMAGE_COLUMNS if self.kind == "image" else (self.kind,)
        name = self.column or next((one for one in usual if one in names), usual[0])
        require(names, name)
        return [name]

    def items(self, batch: Any) -> Iterator[ScorableItem]:
        """Yield the items of an Arrow batch or table. Raises the errors of `among`."""
        wanted = self.among(batch.schema.names)
        if self.kind == "record" and self.column is None:
            yield from batch.select(wanted).to_pylist()
            return
        read = {"record": record_in, "text": text_in, "image": image_in}[self.kind]
        yield from map(read, batch.column(wanted[0]).to_pylist())


def read_file(path: Path, kind: Kind, encoding: str | None = None) -> ScorableItem:
    """Read a file as an item of a kind. If the file is unreadable, return the error."""
    try:
        content: ScorableItem = decode_content(path.read_bytes(), kind, encoding)
        return content
    except OSError as error:
        return BadItem(error.strerror or str(error))
    except BadItem as error:
        return error
    # errors of msgspec are ValueErrors, too
    except (ValueError, RecursionError) as error:
        return BadItem(f"this is no {kind}: {describe_decode_error(error)}")


def decode_content(data: bytes, kind: Kind, encoding: str | None = None) -> Any:
    """Return the item in a file's bytes: an image's bytes, a text, or a record.

    `encoding` is the encoding of texts; it is detected if None. Raises
    UnicodeDecodeError if the bytes are not text, and the errors of `decode_record`.
    """
    if kind == "image":
        return data
    return decode_text(data, encoding) if kind == "text" else decode_record(data)


def text_in(cell: object) -> ScorableItem:
    """Return the text in a table's cell, or an error if the cell has no text."""
    return cell if isinstance(cell, str) else BadItem("the row holds no 'text'")


def record_in(cell: object) -> ScorableItem:
    """Return the record in a table's cell, or an error if the cell has no record."""
    return cell if isinstance(cell, Mapping) else BadItem("the row holds no record")


def image_in(cell: object) -> ScorableItem:
    """Return the image in a cell (bytes or base64); an error if there is none."""
    if isinstance(cell, Mapping):  # the form of cells in data sets of Hugging Face
        cell = cell.get("bytes")
    if isinstance(cell, str):
        with suppress(ValueError):
            cell = base64.b64decode(cell, validate=True)
    return cell if isinstance(cell, bytes) else BadItem("the row holds no image")


def rows_of(lines: Iterable[Line], package: Package) -> Iterator[Row]:
    """Yield one `Row` for each line of JSON Lines."""
    return _Reader(package, None, whole=False).rows(line.row for line in lines)


class _Reader:
    """Makes `Row` objects from rows of a file, and notes unknown columns."""

    def __init__(self, package: Package, label: str | None, whole: bool) -> None:
        self.item_kind = package.kind
        self.names: tuple[str, ...] = ()
        self._label = label
        self._numeric = package.numeric
        self._whole = whole and package.kind == "record"
        columns = KnownColumns(package.features)
        self._known = dict.fromkeys(columns.names)
        self._texts = columns.texts
        self._lacking = dict(self._known)
        self._keys = {name for fetch in package.fetches for name in fetch.key}
        facts = msgspec.convert(package.meta.get("columns", []), list[ColumnFacts])
        self._facts = {own.name: own for own in facts}
        self._left_out: dict[str, None] = {}
        if label is not None and label in self._readable:
            raise BadInput(
                f"the index reads the column {label!r}, so it can be no label; name "
                "the one that holds the labels"
            )

    @property
    def wanted(self) -> frozenset[str]:
        """The names of the columns that may be read, including the label column."""
        own = [] if self._label is None else [self._label]
        return self._readable.union(own)

    @property
    def _readable(self) -> frozenset[str]:
        if self.item_kind == "record":
            return frozenset(self._known)
        return frozenset(["text"] if self.item_kind == "text" else IMAGE_COLUMNS)

    def empty_words(self, name: str) -> tuple[str, ...]:
        """Return the words that stood for an empty cell of the column in the build."""
        return tuple(self._facts[name].empty_words) if name in self._facts else ()

    def decimal(self, name: str) -> Decimal | None:
        """Return the decimal mark of the column's numbers in the build."""
        return self._facts[name].decimal if name in self._facts else None

    def columns(self, path: Path, names: Sequence[str]) -> list[str]:
        """Return the columns to read from a table with the columns `names`.

        Raises BadInput, naming `path`, if a needed column is missing.
        """
        self.names = tuple(names)
        own = [] if self._label is None else [self._label]
        if own and self._label not in names:
            raise BadInput(f"{path.name}: no column {own[0]!r}; {hint(own[0], names)}")
        others = [name for name in names if name not in own]
        if self.item_kind == "record":
            wanted = [n for n in others if not self._known or n in self._known]
        else:
            wanted = [name for name in others if name in self._readable][:1]
        if not wanted:
            raise BadInput(
                f"{path}: the index reads none of its columns {listed(names)}"
                f"; it knows {listed(sorted(self._readable))}"
            )
        self._note(others)
        return own + (others if self._whole else wanted)

    def remarks(self) -> list[str]:
        """Return remarks on columns unknown to the index, and on missing columns."""
        remarks = []
        if self._left_out:
            shown = ", ".join(list(self._left_out)[:SHOWN])
            remarks.append(f"columns that the index does not know, not read: {shown}")
        if self._lacking:
            shown = ", ".join(list(self._lacking)[:SHOWN])
            remarks.append(f"columns that the index knows, in no row: {shown}")
        return remarks

    def _note(self, names: Iterable[str]) -> None:
        for name in names if self._known else ():
            self._lacking.pop(name, None)
            is_known = name in self._known or name in self._keys
            if not is_known and len(self._left_out) < SHOWN:
                self._left_out[name[:80]] = None

    def rows(self, rows: Iterable[Any]) -> Iterator[Row]:
        """Yield a `Row` for each mapping or error; the rows' names are "0", "1", ..."""
        for number, row in enumerate(rows):
            if isinstance(row, BadItem):
                yield Row(str(number), row)
                continue
            self.names = self.names or tuple(row)
            label = None if self._label is None else row.pop(self._label, None)
            whole: Mapping[str, Any] | None = None
            if self._whole:
                own = row.get("record")
                whole = own if isinstance(own, Mapping) else row
            yield Row(str(number), self._item(row), label, whole)

    def _item(self, row: Mapping[str, Any]) -> ScorableItem:
        if self.item_kind == "record":
            own = row.get("record")
            if isinstance(own, Mapping):
                self._note(name for name in own if name in self._known)
                return own
            self._note(row)
            known = {name: row[name] for name in row if name in self._known}
            # without known columns: the translator refuses this row
            return known or dict(row)
        if self.item_kind == "text":
            return text_in(row.get("text"))
        return image_in(row.get("image") or row.get("image_base64"))

    def kind(self, name: str) -> str:
        """Return how to read a column's cells: "number", "word", "raw" or "any".

        "word" is trimmed text and "raw" is unchanged text. "any" is a number if the
        cell has one, and text otherwise.
        """
        if name == self._label:
            return "number" if self._numeric else "raw"
        if self.item_kind != "record":
            return "raw"
        if name in self._texts:
            return "word"
        return "number" if name in self._known else "any"


class TextCells:
    """Converts cells of a table to the values that the index needs."""

    def __init__(self, reader: _Reader, table: Table) -> None:
        self._reader = reader
        self._table = table
        self._decimals: dict[str, Decimal] = {}

    def read(self, name: str, cells: Any) -> Sequence[Value]:
        """Return the values of the cells of column `name`.

        In a column of numbers, a cell without a number stays a string.
        """
        from polydom.features.tables import column_kinds as kinds

        kind = self._reader.kind(name)
        if self._table.typed and (kind != "number" or not kinds.is_strings(cells.type)):
            values: list[Value] = cells.to_pylist()
            return values
        if kind == "raw":
            return [cell or "" for cell in cells.to_pylist()]
        if kind == "word":
            return [trim(cell or "") or None for cell in cells.to_pylist()]
        if kind == "any":
            return [_number_or_text(cell) for cell in cells.to_pylist()]
        missing = self._reader.empty_words(name)
        known = self._decimals.get(name) or self._reader.decimal(name)
        for decimal in dict.fromkeys((known, None)):
            terms = kinds.ColumnTerms(
                "number",
                missing,
                None,
                decimal,
                self._table.commas,
                self._table.points_group,
            )
            with suppress(BadInput):
                column = kinds.read_column(name, cells, terms)
                if column.decimal is not None:
                    self._decimals[name] = column.decimal
                return column.values(np.arange(len(column)))
        return [self._number(cell, missing, known) for cell in cells.to_pylist()]

    def _number(
        self, cell: str | None, missing: Sequence[str], decimal: Decimal | None
    ) -> Value:
        """Return the number in a cell, its text if it has none, or None if it is empty.

        `missing` has the words that mean "empty", `decimal` is the decimal mark.
        """
        if cell is None or is_empty(cell, missing):
            return None
        if decimal == ",":
            with suppress(ValueError):
                return read_number(trim(cell), decimal)
        if (number := plain_number(cell)) is not None:
            return number
        with suppress(ValueError):
            return read_number(trim(cell), "," if self._table.commas else ".")
        return TRUTHS.get(trim(cell).casefold(), cell)


def _number_or_text(cell: str | None) -> Value:
    if cell is None or not cell.strip():
        return None
    number = plain_number(cell)
    return cell if number is None else number


def require(names: Sequence[str], name: str) -> None:
    """Raise BadInput unless exactly one of the columns `names` is called `name`."""
    count = names.count(name)
    if count == 0:
        raise BadInput(f"no column {name!r}; {hint(name, names)}")
    if count > 1:
        raise BadInput(f"{count} columns are called {name!r}; each needs its own name")
