"""What a build understood of each column of a table, and a line that says it."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from polydom.features.tables.dates import DateOrder
from polydom.features.tables.records import ColumnKind, Decimal

MOST_SHOWN = 5  # words for an empty cell
LONGEST = 32  # characters of an example
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class ColumnFacts(msgspec.Struct, omit_defaults=True):
    """What was understood of a column.

    Attributes
    ----------
    kind
        What its cells hold.
    rows, empty, different
        How many cells there are, how many hold nothing, and how many of the others
        differ.
    empty_words
        Words that stood for an empty cell.
    example
        The commonest cell; "" where all are empty.
    date_order
        Which of day and month comes first; None where the dates tell that themselves.
    decimal
        What numbers have before their fraction, where people wrote them; else None.
    """

    name: str
    kind: ColumnKind
    rows: Count
    empty: Count
    different: Count
    example: str = ""
    empty_words: list[str] = []
    date_order: DateOrder | None = None
    decimal: Decimal | None = None

    @property
    def share_empty(self) -> float:
        """Share of the cells that hold nothing."""
        return self.empty / self.rows if self.rows else 0.0


def column_lines(columns: Sequence[ColumnFacts]) -> list[str]:
    """Say what was understood of each column, below a line with what the parts are."""
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
