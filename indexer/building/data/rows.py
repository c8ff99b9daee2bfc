"""Rows of labelled items, as every reader yields them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .stored_items import Reference

ENCODING_OPTION = '; [data] encoding says what it is, such as "latin-1"'


class Row(NamedTuple):
    """A labelled item as it is read: its place, content, label and group."""

    reference: Reference
    content: Any
    label: Any
    group: Any = None
    time: Any = None
    weight: Any = None

    @property
    def name(self) -> str:
        """Name of the item in messages."""
        return self.reference.name


class Source(NamedTuple):
    """The rows of one file or folder."""

    rows: Iterable[Row]  # Rows, read one after the other
    most: int | None = None  # Upper bound of their number; None if unknown
    # Examples of files that are no items, with reasons
    left_out: Sequence[tuple[str, str]] = ()
