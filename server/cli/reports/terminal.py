"""Lines and tables for a terminal; control characters in texts have no effect."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from polydom.features.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def print_line(console: "Console", line: str, *, wrap: bool = True) -> None:
    """Print a line; markup has no effect. `wrap` breaks it at the terminal's width."""
    console.print(printable(line), markup=False, highlight=False, soft_wrap=not wrap)


def print_table(
    console: "Console",
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    names: int = 1,
    lists: bool = False,
) -> None:
    """Print a table below its title, which may be wider than the table.

    The first `names` columns hold names, and all others hold numbers. If `lists`, the
    last column holds lists of names, and may be wrapped.
    """
    from rich.table import Table

    if title:
        console.print(_plain(title), style="italic", soft_wrap=True)
    table = Table(box=None)
    for place, head in enumerate(heads):
        last = lists and place == len(heads) - 1
        side = "left" if last or place < names else "right"
        table.add_column(_plain(head), justify=side, no_wrap=not last)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(_plain, row))
    console.print(table)


def _plain(text: str) -> "Text":
    """Return text in which markup and control characters have no effect."""
    from rich.text import Text

    return Text("\n".join(map(printable, text.split("\n"))))
