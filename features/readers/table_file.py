"""Reads table files into Arrow arrays: CSV, Parquet, and records in JSON Lines.

`tables.column_kinds` finds the kind of a column, from all its cells at once.
"""

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import BadInput, BadItem
from ..outputs import head_of
from .csv_file import BadRow, OnRows, open_csv
from .json_lines import JSON_LINES, Row, count_json_lines, read_json_lines

log = logging.getLogger("polydom")

PARQUET = ".parquet"
MAGIC = b"PAR1"
NAMES_AGAIN = "it holds the columns' names again"
ROWS = 1024  # rows of a Parquet file that are in memory at a time
# Names of the row numbers that pandas writes into a file without being asked.
INDEX_COLUMN = re.compile(r"Unnamed: \d+(_level_\d+)?|__index_level_\d+__")

# Converts the cells of a column, an Arrow array, to the values of items.
ReadCells = Callable[[str, Any], Sequence[Any]]


class RawColumns(NamedTuple):
    """Cells of a table in the types of its file, before kinds of columns are found."""

    # Arrow arrays (N,) by name: strings from a CSV file, any type from other files
    columns: dict[str, Any]
    bad: list[BadRow]  # Rows that cannot be read; they are not in `columns`


@dataclass(frozen=True, slots=True)
class Table:
    """A table file: its path, its columns, and the form of its cells."""

    path: Path  # Path of the file, or of a folder of Parquet files that are one table
    # Names of the columns, in order; columns without a name are left out
    names: tuple[str, ...]
    count: int | None  # Number of rows; None if it is not known before they are read
    typed: bool  # True if cells have types; False if all cells are strings
    # True if an ambiguous comma stands before a fraction, not between thousands
    commas: bool
    # True if points separate thousands, because the file has decimal commas
    points_group: bool
    # Number of the first row, as spreadsheets count: 2 below a line of names
    first: int
    _batches: Callable[[Sequence[str]], Iterator[tuple[Any, list[BadRow]]]]
    _read: Callable[[Sequence[str], OnRows | None], RawColumns]

    def rows(
        self, wanted: Sequence[str], read_cells: ReadCells | None = None
    ) -> Iterator[Row]:
        """Yield rows as dictionaries of the wanted columns, or BadItem if unreadable.

        `read_cells(name, cells)` converts an Arrow array of cells of one column to
        values; by default, Arrow's `to_pylist` does. BadInput is raised at the call if
        two columns have the same wanted name, and later if a part of the file is
        damaged.
        """
        self._refuse_twice(wanted)
        return self._rows(wanted, read_cells or (lambda _, cells: cells.to_pylist()))

    def _rows(self, wanted: Sequence[str], read_cells: ReadCells) -> Iterator[Row]:
        from ..tables.column_kinds import rows_of_names

        number, told = self.first, 0
        for batch, bad in self._batches(wanted):
            columns = dict(zip(wanted, batch.columns, strict=True))
            again = set() if self.typed else {*rows_of_names(columns)}
            cells = [read_cells(name, column) for name, column in columns.items()]
            for row, values in enumerate(zip(*cells, strict=True)):
                while told < len(bad) and bad[told].number <= number:
                    yield BadItem(bad[told].why)
                    told, number = told + 1, number + 1
                record = dict(zip(wanted, values, strict=True))
                yield BadItem(NAMES_AGAIN) if row in again else record
                number += 1
            if not batch.num_rows:
                yield from (BadItem(row.why) for row in bad[told:])

    def read(self, wanted: Sequence[str], on_rows: OnRows | None = None) -> RawColumns:
        """Read the wanted columns as a whole; raise the same errors as `rows`.

        `on_rows(done, left)` is called while rows are read, with the number of rows
        read and an upper bound of the number left.
        """
        self._refuse_twice(wanted)
        return self._read(wanted, on_rows)

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
    """Open a table in Parquet (see `is_parquet`), JSON Lines (by its ending), or CSV.

    Columns without a name, and row numbers that pandas wrote, are left out and logged.
    For `separator`, `encoding` and `wanted`, see `open_csv`. Raises BadInput if the
    path is a folder of other files.
    """
    if is_parquet(path):
        return _open_parquet(path, wanted)
    if path.is_dir():
        raise BadInput(
            f"{path} is no folder of Parquet files; a table is one file, or such a "
            "folder"
        )
    if path.suffix.lower() in JSON_LINES:
        return _open_json_lines(path, encoding)
    file = open_csv(path, separator, encoding, wanted)
    places = _own_columns(path, file.names, wanted)
    names = [file.names[place] for place in places]
    place_of = dict(zip(names, places, strict=True))

    def batches(wanted: Sequence[str]) -> Iterator[tuple[Any, list[BadRow]]]:
        return file.batches([place_of[name] for name in wanted])

    def read(wanted: Sequence[str], on_rows: OnRows | None) -> RawColumns:
        table, bad = file.read([place_of[name] for name in wanted], on_rows)
        return RawColumns(dict(zip(wanted, table.columns, strict=True)), bad)

    return Table(
        path,
        tuple(names),
        None,
        False,
        file.separator != ",",
        file.points_group,
        file.first,
        batches,
        read,
    )


def _own_columns(
    path: Path, names: Sequence[str], wanted: Collection[str]
) -> list[int]:
    """Return the positions of the columns to read, and log the other columns.

    The others have no name, or are row numbers that pandas wrote.
    """
    nameless = [place for place, name in enumerate(names) if not name]
    numbers = [
        place
        for place, name in enumerate(names)
        if INDEX_COLUMN.fullmatch(name) and name not in wanted
    ]
    if nameless:
        log.warning(
            "%s: column%s %s without a name %s left out; a name makes a feature of it",
            path.name,
            "s" if nameless[1:] else "",
            ", ".join(str(place + 1) for place in nameless),
            "are" if nameless[1:] else "is",
        )
    for place in numbers:
        log.warning(
            "%s: column %r, the row numbers of pandas, is left out; index=False leaves "
            "them out of the file",
            path.name,
            names[place],
        )
    return [k for k in range(len(names)) if k not in nameless and k not in numbers]


def _open_json_lines(path: Path, encoding: str | None) -> Table:
    """Open records in JSON Lines, and read all lines to find the names of columns."""
    names: dict[str, None] = {}
    for line in read_json_lines(path, encoding):
        if not isinstance(line.row, BadItem):
            names |= dict.fromkeys(_record_in(line.row))

    if not names:
        raise BadInput(
            f"{path} is empty; a first line with an object of columns is needed"
        )

    def read(wanted: Sequence[str], on_rows: OnRows | None) -> RawColumns:
        count = count_json_lines(path, encoding)
        columns: dict[str, list[Any]] = {name: [] for name in wanted}
        bad = []
        for done, line in enumerate(read_json_lines(path, encoding), 1):
            if isinstance(line.row, BadItem):
                bad.append(BadRow(line.number, str(line.row)))
            else:
                record = _record_in(line.row)
                for name, cells in columns.items():
                    cells.append(record.get(name))
            if on_rows is not None:
                on_rows(done, count - done)
        made = {name: _array(path, name, cells) for name, cells in columns.items()}
        return RawColumns(made, bad)

    return Table(path, tuple(names), None, True, False, False, 1, _never, read)


def _never(wanted: Sequence[str]) -> Iterator[tuple[Any, list[BadRow]]]:
    raise BadInput("JSON Lines are read line by line")


def _record_in(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns of a line of JSON.

    If the line has an object with the key `record`, the columns in this object are
    added to those of the line.
    """
    record = row.get("record")
    if not isinstance(record, dict):
        return row
    own = {name: cell for name, cell in row.items() if name != "record"}
    return {**own, **record}


def _array(path: Path, name: str, cells: list[Any]) -> Any:
    """Return JSON values as an Arrow array; refuse strings mixed with numbers."""
    import pyarrow as pa

    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds <= {int, float, bool}:
        return pa.array([None if cell is None else float(cell) for cell in cells])
    if kinds == {str}:
        return pa.array(cells, pa.large_string())
    first: dict[str, int] = {}
    for row, cell in enumerate(cells, 1):
        first.setdefault(type(cell).__name__, row)
    held = ", ".join(f"{kind} (row {row})" for kind, row in first.items())
    raise BadInput(
        f"{path.name}: column {name!r} holds {held}; numbers alone or strings "
        "alone are needed"
    )


def _open_parquet(path: Path, wanted: Collection[str]) -> Table:
    import_parquet(path)
    from pyarrow import ArrowException
    from pyarrow.dataset import ParquetFragmentScanOptions, dataset

    def refuse(error: Exception) -> BadInput:
        if isinstance(error, FileNotFoundError):  # pyarrow's message is only the path
            return BadInput(f"{path}: No such file or directory")
        return BadInput(f"{path}: this is no Parquet file: {error}")

    def batches(names: Sequence[str], rows: int = ROWS) -> Iterator[tuple[Any, Any]]:
        # these options read little ahead, and keep nothing that was read
        lean = ParquetFragmentScanOptions(pre_buffer=False)
        try:
            for batch in found.to_batches(
                columns=list(names),
                batch_size=rows,
                batch_readahead=1,
                fragment_readahead=1,
                fragment_scan_options=lean,
                use_threads=False,
            ):
                yield batch, []
        except (OSError, ArrowException) as error:
            raise refuse(error) from error

    def read(names: Sequence[str], on_rows: OnRows | None) -> RawColumns:
        import pyarrow as pa

        parts, done = [], 0
        for batch, _ in batches(names, 2**16):
            parts.append(batch)
            done += batch.num_rows
            if on_rows is not None:
                on_rows(done, count - done)
        schema = pa.schema([found.schema.field(name) for name in names])
        table = pa.Table.from_batches(parts, schema)
        return RawColumns(dict(zip(names, table.columns, strict=True)), [])

    try:
        divided = "hive" if path.is_dir() else None
        found = dataset(path, format="parquet", partitioning=divided)
        names, count = tuple(found.schema.names), found.count_rows()
    except (OSError, ArrowException) as error:
        raise refuse(error) from error
    own = tuple(names[place] for place in _own_columns(path, names, wanted))
    return Table(path, own, count, True, False, False, 1, batches, read)


def is_parquet(path: Path) -> bool:
    """Return True for a Parquet file, and for a folder of Parquet files.

    A path that ends in `.parquet` is Parquet. Of another file, the first bytes decide,
    and of another folder, the first bytes of its first file.
    """
    if path.suffix.lower() == PARQUET:
        return True
    first = next(parquet_files(path), None)
    return first is not None and head_of(first).startswith(MAGIC)


def parquet_files(path: Path) -> Iterator[Path]:
    """Yield a Parquet file itself, or the files of a folder of Parquet files.

    Names that begin with "." or "_" are left out, as by pyarrow: Spark writes such
    files. The files of a folder come before those of its subfolders, each by name.
    """
    if not path.is_dir():
        yield path
        return
    for place, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        for name in sorted(name for name in files if name[0] not in "._"):
            yield Path(place, name)


def import_parquet(path: Path) -> Any:
    """Import pyarrow's reader of Parquet; raise BadInput for a path not in UTF-8."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{path}: pyarrow opens no path that is not in UTF-8; rename it"
        ) from error
    from pyarrow import parquet

    return parquet
