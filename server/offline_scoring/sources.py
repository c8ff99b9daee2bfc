"""Where the items of a run come from: folders, tables and JSON Lines."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Kind
from polydom.features.readers.csv_file import read_decimal_comma
from polydom.features.readers.folders import ENDINGS, files_of
from polydom.features.readers.tables import (
    JSON_LINES,
    PARQUET,
    Table,
    count_json_lines,
    open_table,
    read_json_lines,
)
from polydom.features.wording import describe_decode_error, listed
from polydom.indexer.index.package import Package

from ..runtime.known_columns import KnownColumns
from ..schema.json_keys import decode_record, twice_in_json, twice_in_record
from .scorer import ScorableItem

IMAGE_COLUMNS = ("image", "image_base64")
SHOWN = 20

Named = tuple[str, ScorableItem]


class ItemSource(NamedTuple):
    """Items with their names, and how many there are where that is known.

    `remarks` says what of the rows was not read so far, and what they lack.
    """

    items: Iterator[Named]
    number: int | None
    remarks: Callable[[], list[str]] = list


def read_items(
    path: Path,
    package: Package,
    separator: str | None = None,
    encoding: str | None = None,
) -> ItemSource:
    """Read a folder, a `.jsonl`, a `.csv` or a `.parquet` file, as it is needed.

    Rows are named by their number from 0, files by their path in the folder. Of tables
    only the columns that the index knows are read. `separator` and `encoding` are those
    of a CSV file, found where None, and `encoding` also that of JSON Lines.

    Raises
    ------
    BadInput
        If it is none of those, is not there, or holds nothing of the index's kind.
    """
    kind, ending = package.kind, path.suffix.lower()
    if path.is_dir() and ending != PARQUET:
        files = files_of(path, kind)
        if not files:
            raise BadInput(f"{path} holds no {kind} ({', '.join(ENDINGS[kind])})")
        return ItemSource((_file(path, file, kind) for file in files), len(files))
    if not path.exists():
        raise BadInput(f"{path}: there is no such file or folder")
    reader = _Reader(package)
    if ending in JSON_LINES:
        count = count_json_lines(path, encoding)
        return ItemSource(_lines(path, encoding, reader), count, reader.remarks)
    if ending in (".csv", ".tsv", PARQUET):
        table = open_table(path, separator, encoding, reader.wanted)
        rows = table.rows(reader.columns(path, table.names))
        return ItemSource(_rows(table, rows, reader), table.count, reader.remarks)
    raise BadInput(f"{path}: a folder, .jsonl, .csv, .tsv or .parquet is needed")


def _file(folder: Path, path: Path, kind: Kind) -> Named:
    name = str(path.relative_to(folder))
    try:
        return name, decode_content(path.read_bytes(), kind)
    except OSError as error:
        return name, BadItem(error.strerror or str(error))
    except BadItem as error:
        return name, error
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        return name, BadItem(f"this is no {kind}: {describe_decode_error(error)}")


def decode_content(data: bytes, kind: Kind) -> Any:
    """Read a file's bytes as what an item of a kind is made of.

    Raises
    ------
    UnicodeDecodeError, msgspec.DecodeError, RecursionError, BadItem
        If it is no text, or as `decode_record`.
    """
    if kind == "image":
        return data
    return data.decode() if kind == "text" else decode_record(data)


def _lines(path: Path, encoding: str | None, reader: "_Reader") -> Iterator[Named]:
    for number, line in enumerate(read_json_lines(path, encoding)):
        if isinstance(line.row, BadItem):
            yield str(number), line.row
            continue
        many = line.document.count(b":") > len(line.row)
        name = twice_in_json(line.document).any if many else None
        item = reader.item(line.row) if name is None else twice_in_record(name)
        yield str(number), item


def _rows(table: Table, rows: Iterable[Any], reader: "_Reader") -> Iterator[Named]:
    for number, row in enumerate(rows):
        if isinstance(row, BadItem):
            yield str(number), row
            continue
        if not table.typed:
            row = {n: reader.cell(n, cell, table.commas) for n, cell in row.items()}
        yield str(number), reader.item(row)


class _Reader:
    """Makes items of rows that are mappings."""

    def __init__(self, package: Package) -> None:
        self.kind = package.kind
        columns = KnownColumns(package.features)
        self._known = dict.fromkeys(columns.names)
        self._texts = columns.texts
        self._lacking = dict(self._known)
        self._left_out: dict[str, None] = {}

    @property
    def wanted(self) -> frozenset[str]:
        """Names of the columns that can be used."""
        if self.kind == "record":
            return frozenset(self._known)
        return frozenset(["text"] if self.kind == "text" else IMAGE_COLUMNS)

    def columns(self, path: Path, names: Sequence[str]) -> list[str]:
        """Say which columns of a table to read.

        Raises
        ------
        BadInput
            If there is none.
        """
        if self.kind == "record":
            wanted = [n for n in names if not self._known or n in self._known]
        else:
            wanted = [name for name in names if name in self.wanted][:1]
        if not wanted:
            raise BadInput(
                f"{path}: the index reads none of its columns {listed(names)}"
                f"; it knows {listed(sorted(self.wanted))}"
            )
        self._note(names)
        return wanted

    def remarks(self) -> list[str]:
        """Say which columns were not read, and which there never were, if any."""
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
            if name not in self._known and len(self._left_out) < SHOWN:
                self._left_out[name[:80]] = None

    def item(self, row: Mapping[str, Any]) -> ScorableItem:
        """Make the item of a row."""
        if self.kind == "record":
            own = row.get("record")
            if isinstance(own, Mapping):
                self._note(name for name in own if name in self._known)
                return own
            self._note(row)
            known = {name: row[name] for name in row if name in self._known}
            return known or dict(row)  # which is refused
        if self.kind == "text":
            text = row.get("text")
            return text if isinstance(text, str) else BadItem("the row holds no 'text'")
        data = row.get("image") or row.get("image_base64")
        if isinstance(data, Mapping):  # as Hugging Face's data sets have them
            data = data.get("bytes")
        if isinstance(data, str):
            with suppress(ValueError):
                data = base64.b64decode(data, validate=True)
        return data if isinstance(data, bytes) else BadItem("the row holds no image")

    def cell(self, name: str, cell: str, commas: bool) -> str | float | None:
        """Read a cell of a CSV file: a number, but where words are known.

        `commas` says whether it may have a decimal comma.
        """
        if name in self._texts or self.kind != "record":
            return cell if self.kind != "record" else cell.strip() or None
        if not cell.strip():
            return None
        with suppress(ValueError):
            return float(cell)
        with suppress(ValueError):
            return read_decimal_comma(cell) if commas else cell
        return cell
