"""Records of a table: its columns in Arrow, read by NumPy, and rows made into items.

Nothing here imports Arrow, which servers do without.
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
MISSING = -1  # the code of no word
# White space, and what takes no room, as byte order marks: no part of a cell.
BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))
BLANKS += "\0\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"


def trim(text: str) -> str:
    """Leave out what cannot be seen at both ends of a cell or a name."""
    return text.strip(BLANKS)


class WordCodes(NamedTuple):
    """Words of a column: `codes` (N,) are positions in `words`, or `MISSING`."""

    codes: Rows
    words: list[str]

    def used(self) -> Rows:
        """Codes of the words that come, the most frequent first, then by alphabet."""
        counts = np.bincount(self.codes + 1, minlength=len(self.words) + 1)[1:].tolist()
        used = [code for code, count in enumerate(counts) if count]
        used.sort(key=lambda code: (-counts[code], self.words[code]))
        return np.array(used, np.int64)


@dataclass(frozen=True, eq=False)
class Column:
    """A table's column, whose cells are of one kind.

    Attributes
    ----------
    cells : (N,) Arrow array, in one piece
        Numbers: int, float or bool, NaN where empty. Words: a dictionary of strings.
        Dates: date32, or timestamp[us] in UTC where one has a time of day. Free text:
        large_string. Null is an empty cell.
    kind
        Which of these.
    empty_words
        What stood for an empty cell in the file, beside nothing at all.
    date_order
        Of dates that are not as in ISO 8601; else None.
    decimal
        Of numbers that only people write; else None.
    unclear
        What else the cells may be, where a guess was made; else "".
    empty_numbers
        Numbers that stand for an empty cell, of which there are none among the cells.
    """

    cells: Any
    kind: ColumnKind
    empty_words: tuple[str, ...] = ()
    date_order: DateOrder | None = None
    decimal: Decimal | None = None
    unclear: str = ""
    empty_numbers: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def whole_days(self) -> bool:
        """Whether no date has a time of day."""
        return str(self.cells.type).startswith("date")

    def numbers(self) -> NDArray[Any]:
        """(N,) numbers, NaN where empty."""
        numbers: NDArray[Any] = self.cells.to_numpy(zero_copy_only=False)
        return numbers

    def words(self) -> WordCodes:
        """Words, or free texts, each different one with a code."""
        coded = self.cells if self.kind == "word" else self.cells.dictionary_encode()
        codes = coded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
        return WordCodes(codes.astype(np.int64), coded.dictionary.to_pylist())

    def micros(self) -> Micros:
        """(N,) dates, `NO_DATE` where empty."""
        counted = self.cells.cast("int32") if self.whole_days else self.cells
        numbers = counted.cast("int64").fill_null(0).to_numpy(zero_copy_only=False)
        micros: Micros = numbers * DAY_US if self.whole_days else numbers
        return np.where(self.missing(), NO_DATE, micros)

    def missing(self) -> NDArray[np.bool_]:
        """(N,) whether each cell is empty."""
        if self.kind == "number":
            numbers = self.numbers()
            return np.asarray(numbers != numbers)
        missing: NDArray[np.bool_] = self.cells.is_null().to_numpy(zero_copy_only=False)
        return missing

    def told_apart(self) -> tuple[Rows, Sequence[Value]]:
        """Give different cells different numbers (N,), and of each one cell.

        The number of an empty cell is `MISSING`.
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
        """Give some cells as records hold them; None where empty."""
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
        """Identify some cells, in whatever type they are and whatever others there are.

        Words and texts are told by which of them are the same.
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
    """Some rows of a table, as items.

    Parameters
    ----------
    columns
        Of all rows of the table, by name, as long as each other.
    rows : (N,) int64
        Which of them these are, and in which order.
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
        """Make the item of a row; of a slice, items that need no table."""
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
        """Keep these rows, in this order; the table is shared."""
        return Records(self.columns, self.rows[places])

    @property
    def digest(self) -> str:
        """Identify the names and cells of these rows."""
        digest = hashlib.sha256()
        for name, column in self.columns.items():
            digest.update(repr(name).encode())
            digest.update(column.digest(self.rows))
        return digest.hexdigest()


def take(items: Sequence[Any], places: Rows) -> Sequence[Any]:
    """Keep some of a sequence, in this order, as it keeps them best."""
    own = getattr(items, "take", None)
    if own is not None:
        kept: Sequence[Any] = own(places)
        return kept
    return tuple(items[place] for place in places.tolist())


def column_names(items: Iterable[Item]) -> list[str]:
    """Names of all columns that any of some records has, in the order they come."""
    if isinstance(items, Records):
        return [*items.columns]
    names: dict[str, None] = {}
    for item in items:
        assert isinstance(item.payload, Mapping)
        names.update(dict.fromkeys(item.payload))
    return [*names]
