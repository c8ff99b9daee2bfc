"""Tables in memory: columns of cells, and sequences of items made from their rows.

A column holds an Arrow array, and converts it to NumPy arrays. This file does not
import Arrow, since servers run without it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..items import Item, Value
from .dates import DAY_US, NO_DATE, DateOrder, Micros, show_date

ColumnKind = Literal["number", "word", "date", "text"]
Decimal = Literal[".", ","]
Rows = NDArray[np.int64]
MISSING = -1  # code of an empty cell
# Invisible characters: white space, and characters of no width, as byte order marks.
BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))
BLANKS += "\0\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"


def trim(text: str) -> str:
    """Remove invisible characters at both ends of a cell or a name."""
    return text.strip(BLANKS)


class WordCodes(NamedTuple):
    """Words of a column: `codes` (N,) are positions in `words`, or `MISSING`."""

    codes: Rows
    words: list[str]

    def used(self) -> Rows:
        """Return the codes that occur, sorted by falling frequency, then by word."""
        counts = np.bincount(self.codes + 1, minlength=len(self.words) + 1)[1:].tolist()
        used = [code for code, count in enumerate(counts) if count]
        used.sort(key=lambda code: (-counts[code], self.words[code]))
        return np.array(used, np.int64)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table; all cells are of one kind."""

    # (N,) Arrow array, in one piece: Numbers: int, float or bool, NaN where empty.
    # Words: a dictionary of strings. Dates: date32, or timestamp[us] in UTC if any
    # has a time of day. Free text: large_string. Null is an empty cell.
    cells: Any
    kind: ColumnKind
    empty_words: tuple[str, ...] = ()  # Words that stood for an empty cell in the file
    # Order of day and month in dates that are not as in ISO 8601; None otherwise
    date_order: DateOrder | None = None
    # Decimal mark of numbers as people write them; None otherwise
    decimal: Decimal | None = None
    # Sentence on another way to read the cells if a guess was made; else ""
    unclear: str = ""
    # Numbers that stand for an empty cell; the cells hold none of them
    empty_numbers: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def whole_days(self) -> bool:
        """Return True if no date has a time of day."""
        return str(self.cells.type).startswith("date")

    def numbers(self) -> NDArray[Any]:
        """Return the numbers (N,), NaN for empty cells."""
        numbers: NDArray[Any] = self.cells.to_numpy(zero_copy_only=False)
        return numbers

    def words(self) -> WordCodes:
        """Return the different words or free texts, and a code (N,) for each cell."""
        coded = self.cells if self.kind == "word" else self.cells.dictionary_encode()
        codes = coded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
        return WordCodes(codes.astype(np.int64), coded.dictionary.to_pylist())

    def micros(self) -> Micros:
        """Return the dates (N,) in microseconds from 1970; `NO_DATE` in empty cells."""
        counted = self.cells.cast("int32") if self.whole_days else self.cells
        numbers = counted.cast("int64").fill_null(0).to_numpy(zero_copy_only=False)
        micros: Micros = numbers * DAY_US if self.whole_days else numbers
        return np.where(self.missing(), NO_DATE, micros)

    def missing(self) -> NDArray[np.bool_]:
        """Return a mask (N,): True for an empty cell."""
        if self.kind == "number":
            numbers = self.numbers()
            return np.asarray(numbers != numbers)
        missing: NDArray[np.bool_] = self.cells.is_null().to_numpy(zero_copy_only=False)
        return missing

    def told_apart(self) -> tuple[Rows, Sequence[Value]]:
        """Return the code of each cell's value (N,), and the value of each code.

        Equal values have one code. The code of an empty cell is `MISSING`.
        """
        if self.kind in ("word", "text"):
            return self.words()
        array = self.numbers() if self.kind == "number" else self.micros()
        known = np.flatnonzero(~self.missing())
        _, first, own = np.unique(array[known], return_index=True, return_inverse=True)
        codes = np.full(len(array), MISSING, np.int64)
        codes[known] = own
        return codes, self.values(known[first])

    def values(self, rows: Rows) -> list[Value]:
        """Return the values of the cells in `rows`; None for empty cells."""
        if self.kind == "number":
            numbers: list[Any] = self.numbers()[rows].tolist()
            return [None if number != number else number for number in numbers]
        own = Column(self.cells.take(rows), self.kind)
        if self.kind == "date":
            return [
                None if micros == NO_DATE else show_date(micros, self.whole_days)
                for micros in own.micros().tolist()
            ]
        found: list[Value] = own.cells.to_pylist()
        return found

    def digest(self, rows: Rows) -> bytes:
        """Return a hash of the values in `rows`.

        Neither other cells nor the type of the Arrow array change the hash.
        """
        digest = hashlib.sha256(self.kind.encode())
        if self.kind == "number":
            digest.update(self.numbers()[rows].astype(np.float64).data)
        elif self.kind == "date":
            digest.update(self.micros()[rows].data)
        else:
            codes, words = self.words()
            own = WordCodes(codes[rows], words)
            used = own.used()
            order = np.full(len(words) + 1, MISSING, np.int64)
            order[used] = np.arange(len(used))
            for code in used.tolist():
                digest.update(words[code].encode("utf-8", "surrogatepass") + b"\0")
            digest.update(order[own.codes].data)
        return digest.digest()


class Records(Sequence[Item]):
    """Rows of a table as a sequence of items; each item is made when it is accessed.

    `columns` maps names to the columns of the whole table. `rows` (N,) has the
    positions of the chosen rows, in the order of the items.
    """

    def __init__(self, columns: Mapping[str, Column], rows: Rows) -> None:
        self.columns = columns
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        """Make the item at an index; for a slice, make a tuple of items."""
        if isinstance(place, slice):
            return tuple(self._items(self.rows[place]))
        (item,) = self._items(self.rows[[place]])
        return item

    def _items(self, rows: Rows) -> Iterable[Item]:
        cells = [column.values(rows) for column in self.columns.values()]
        for place in range(len(rows)):
            values = (column[place] for column in cells)
            yield Item("record", dict(zip(self.columns, values, strict=True)), 1.0)

    def take(self, places: Rows) -> "Records":
        """Return the records at `places`, in that order, without copying the table."""
        return Records(self.columns, self.rows[places])

    @property
    def digest(self) -> str:
        """Return a hash of the names and the cells of the chosen rows."""
        digest = hashlib.sha256()
        for name, column in self.columns.items():
            digest.update(repr(name).encode())
            digest.update(column.digest(self.rows))
        return digest.hexdigest()


def take(items: Sequence[Any], places: Rows) -> Sequence[Any]:
    """Return the items at `places`: `items.take(places)` if there is such a method."""
    own = getattr(items, "take", None)
    if own is not None:
        kept: Sequence[Any] = own(places)
        return kept
    return tuple(items[place] for place in places.tolist())


def column_names(items: Iterable[Item]) -> list[str]:
    """List the columns of all records, in the order of their first occurrence."""
    if isinstance(items, Records):
        return [*items.columns]
    names: dict[str, None] = {}
    for item in items:
        assert isinstance(item.payload, Mapping)
        names.update(dict.fromkeys(item.payload))
    return [*names]
