"""What is read of each labelled item, wherever it lies."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .stored_items import Reference

ENCODING_OPTION = '; [data] encoding says what it is, such as "latin-1"'


class Row(NamedTuple):
    """What is read of an item: where it lies, its content and what labels it."""

    reference: Reference
    content: Any
    label: Any
    group: Any = None
    time: Any = None
    weight: Any = None

    @property
    def name(self) -> str:
        """What the item is called in messages."""
        return self.reference.name


class Source(NamedTuple):
    """Rows to be read.

    Attributes
    ----------
    rows
    most
        How many there are at most, where that is known.
    left_out
        What is there and no item: an example, and why.
    """

    rows: Iterable[Row]
    most: int | None = None
    left_out: Sequence[tuple[str, str]] = ()
