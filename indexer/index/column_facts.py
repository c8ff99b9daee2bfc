"""Facts about the columns of a build's table, and lines of text that show them."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from polydom.features.tables.dates import DateOrder
from polydom.features.tables.records import ColumnKind, Decimal

MOST_SHOWN = 5  # words for an empty cell that a line names
LONGEST = 32  # characters of a name, word or example in a line
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class ColumnFacts(msgspec.Struct, omit_defaults=True):
    """Facts about one column of a table."""

    name: str
    kind: ColumnKind  # Kind of the cells' contents
    # `rows`, `empty`, `different`: number of cells, of empty cells, and of different
    # contents of the others
    rows: Count
    empty: Count
    different: Count
    example: str = ""  # The commonest cell; "" where all are empty
    empty_words: list[str] = []  # Words that stood for an empty cell
    # The first of day and month in dates; None if dates are unambiguous
    date_order: DateOrder | None = None
    # Decimal sign of numbers that people wrote; None for other columns
    decimal: Decimal | None = None

    @property
    def share_empty(self) -> float:
        """Share of the column's cells that are empty."""
        return self.empty / self.rows if self.rows else 0.0


def column_lines(columns: Sequence[ColumnFacts]) -> list[str]:
    """Return lines that show a table: headings, then a line for each of `columns`."""
    if not columns:
        return []
    rows = [("column", "kind", "empty", "different", "such as")]
    for column in columns:
        rows.append(
            (
                _cut(column.name),
                _kind(column),
                _empty(column),
                f"{column.different:,}",
                _cut(column.example),
            )
        )
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in (3,) else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _kind(column: ColumnFacts) -> str:
    if column.date_order is not None:
        return f"date, {column.date_order}"
    if column.decimal is not None:
        return f"number, as 1{column.decimal}5"
    return column.kind


def _empty(column: ColumnFacts) -> str:
    if not column.empty:
        return "-"
    words = ", ".join(map(_cut, column.empty_words[:MOST_SHOWN]))
    more = ", ..." if column.empty_words[MOST_SHOWN:] else ""
    return f"{column.share_empty:.1%}{f' ({words}{more})' if words else ''}"


def _cut(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."
