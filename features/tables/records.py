"""Records of a table, in columns: an item is made of a row when it is asked for."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from ..items import Item
from .cells import Cells, Rows


class Records(Sequence[Item]):
    """Some rows of a table, as items.

    Parameters
    ----------
    columns
        Cells of all rows of the table, by name, as many in each.
    rows : (N,) int64
        Which of them these are, and in which order.
    """

    def __init__(self, columns: Mapping[str, Cells], rows: Rows) -> None:
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
        rows = self.rows[place]
        if isinstance(place, slice):
            return tuple(map(self._item, rows.tolist()))
        return self._item(int(rows))

    def _item(self, row: int) -> Item:
        record = {name: cells.value(row) for name, cells in self.columns.items()}
        return Item("record", record, 1.0)

    def take(self, places: Rows) -> "Records":
        """Keep these rows, in this order; the table is shared."""
        return Records(self.columns, self.rows[places])

    @property
    def digest(self) -> str:
        """Identify the names and cells of these rows."""
        digest = hashlib.sha256()
        for name, cells in self.columns.items():
            digest.update(repr((name, type(cells).__name__)).encode())
            digest.update(cells.digest(self.rows))
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
