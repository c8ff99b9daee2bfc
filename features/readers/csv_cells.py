"""Columns of a CSV file: what their cells are is found out while they are read.

A column is of the first form that all its cells have: numbers, numbers with a decimal
comma, dates, words. It is tried on chunk after chunk; where it fails later on, the file
is read once more for such columns, so that no cell has to be kept as text.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from ..errors import BadInput
from ..tables.cells import MISSING, Cells, Dates, Gathered, Numbers, Words
from ..tables.dates import NO_DATE, micros_of
from .csv_file import CsvFile, read_decimal_comma, refuse_decimal_commas

log = logging.getLogger("polydom")

CHUNK_CELLS = 2**18
LEAST_ROWS = 64

OnRows = Callable[[int, int], None]  # rows read, and how many more there can be


class Form(Protocol):
    """What the cells of a column are read as, until one of them is no such thing.

    It is made with the number of cells that there can be.
    """

    def __init__(self, most: int) -> None:
        """Begin without any."""

    def take(self, cells: Sequence[str]) -> None:
        """Read more cells; ValueError if they are none, and nothing is kept then."""

    def cells(self) -> Cells:
        """Give all that were read."""


class _Numbers:
    """Cells that are numbers, or empty."""

    def __init__(self, most: int) -> None:
        self._values = Gathered(most)

    @staticmethod
    def number(cell: str) -> float:
        """Read one cell."""
        return float(cell) if cell.strip() else np.nan

    def take(self, cells: Sequence[str]) -> None:
        try:
            values = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            values = np.fromiter(map(self.number, cells), np.float64, len(cells))
        self._values.add(values)

    def cells(self) -> Numbers:
        return Numbers(self._values.whole)


class _CommaNumbers(_Numbers):
    """Cells that are numbers with a decimal comma, or without a fraction."""

    @staticmethod
    def number(cell: str) -> float:
        """Read one cell."""
        return read_decimal_comma(cell) if cell.strip() else np.nan

    def take(self, cells: Sequence[str]) -> None:
        values = np.fromiter(map(self.number, cells), np.float64, len(cells))
        self._values.add(values)


class _Dates:
    """Cells that are dates, or empty."""

    def __init__(self, most: int) -> None:
        self._values = Gathered(most)

    @staticmethod
    def micros(cell: str) -> int:
        """Read one cell."""
        text = cell.strip()
        return micros_of(text) if text else NO_DATE

    def take(self, cells: Sequence[str]) -> None:
        self._values.add(np.fromiter(map(self.micros, cells), np.int64, len(cells)))

    def cells(self) -> Dates:
        return Dates(self._values.whole.astype(np.int64, copy=False))


class _Codes(dict[str, int]):
    """The code of each cell, which is that of its word."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}

    def __missing__(self, cell: str) -> int:
        word = cell.strip()
        code = self.words.setdefault(word, len(self.words)) if word else MISSING
        self[cell] = code
        return code


class _Words:
    """Cells of any other kind, without the spaces around them."""

    def __init__(self, most: int) -> None:
        self._codes = _Codes()
        self._values = Gathered(most)

    def take(self, cells: Sequence[str]) -> None:
        codes = np.fromiter(map(self._codes.__getitem__, cells), np.int64, len(cells))
        self._values.add(codes)

    def cells(self) -> Words:
        return Words(self._values.whole, tuple(self._codes.words))


@dataclass
class _Column:
    """A column on its way: the forms that it may still have, the first being tried."""

    left: list[type[Form]]
    most: int
    rows: int = 0
    failed: bool = False

    def __post_init__(self) -> None:
        """Begin with the first form."""
        self.form = self.left[0](self.most)

    def take(self, cells: Sequence[str]) -> None:
        """Read more cells; in another form if they are the first ones."""
        while not self.failed:
            try:
                self.form.take(cells)
                break
            except ValueError:
                self.again()
                self.failed = self.rows > 0
        self.rows += len(cells)

    def again(self) -> None:
        """Begin with the next form."""
        self.left = self.left[1:]
        self.form = self.left[0](self.most)

    @property
    def found(self) -> type[Form]:
        """The form that all cells had so far."""
        return self.left[0]


def read_csv_cells(
    file: CsvFile,
    names: Sequence[str],
    undated: Collection[str] = (),
    on_rows: OnRows | None = None,
) -> dict[str, Cells]:
    """Read columns of a CSV file, whatever they are.

    Parameters
    ----------
    names
        Of the columns.
    undated
        Those that are never read as dates.
    on_rows
        Told how many rows were read, and how many more there can be at most.

    Raises
    ------
    BadInput
        If the file is damaged, a row has too few cells or too many, or a column mixes
        numbers with decimal commas and points.
    """
    most = file.most_rows()
    columns = {n: _Column(_forms(file, n in undated), most) for n in names}
    cells: dict[str, Cells] = {}
    while columns:
        _read_pass(file, columns, most, on_rows)
        on_rows = None  # the way to the end was told
        done = [name for name, column in columns.items() if not column.failed]
        _tell(file, {name: columns[name].found for name in done})
        for name in done:
            cells[name] = columns.pop(name).form.cells()
        for column in columns.values():
            column.rows, column.failed = 0, False
    for name, one in cells.items():
        if isinstance(one, Words):
            refuse_decimal_commas(file.path.name, name, one.words)
    return {name: cells[name] for name in names}


def _forms(file: CsvFile, undated: bool) -> list[type[Form]]:
    forms: list[type[Form]] = [_Numbers]
    if file.separator != ",":
        forms.append(_CommaNumbers)
    if not undated:
        forms.append(_Dates)
    return [*forms, _Words]


def _read_pass(
    file: CsvFile, columns: dict[str, _Column], most: int, on_rows: OnRows | None
) -> None:
    """Read the file once for some columns."""
    places = [file.names.index(name) for name in columns]
    done = 0
    for rows in _chunks(file):
        for place, column in zip(places, columns.values(), strict=True):
            column.take([row[place] for row in rows])
        done += len(rows)
        if on_rows is not None:
            on_rows(done, max(most - done, 0))


def _chunks(file: CsvFile) -> Iterator[list[list[str]]]:
    """Read some rows at a time."""
    width = len(file.names)
    count = max(LEAST_ROWS, CHUNK_CELLS // width)
    rows, done = file.rows(), 0
    while chunk := list(islice(rows, count)):
        if {*map(len, chunk)} != {width}:
            at = next(k for k, row in enumerate(chunk) if len(row) != width)
            raise BadInput(
                f"{file.path.name}, row {done + at + 1}: {len(chunk[at])} cells under "
                f"{width} names"
            )
        yield chunk
        done += len(chunk)


def _tell(file: CsvFile, found: dict[str, type[Form]]) -> None:
    """Say which columns are read in a way that is not the usual one."""
    for form, what in (
        (_CommaNumbers, "numbers with a decimal comma"),
        (_Dates, "dates"),
    ):
        names = [name for name, own in found.items() if own is form]
        if names:
            log.warning(
                "%s: %s %s read as %s",
                file.path.name,
                ", ".join(names),
                "is" if len(names) == 1 else "are",
                what,
            )
