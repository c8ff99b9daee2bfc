"""The tables of `polydom check-fetches`: what came, and which values differ."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polydom.features.figures import show_ms

from .terminal import print_line, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from polydom.features.fetches.skew import FetchCheck

NEVER = "never"


def show_checks(checks: Sequence["FetchCheck"], console: "Console") -> None:
    """Print a line for each fetch, then one for each column that the table has, too."""
    heads = ("fetch", "keys", "came", "empty", "failed", "late", "50 %", "90 %", "99 %")
    rows = []
    for one in checks:
        counts = one.keys, one.came, one.empty, one.failed, one.late
        times = (NEVER if ms is None else show_ms(ms) for ms in one.ms)
        rows.append((one.fetch, *(f"{count:,}" for count in counts), *times))
    print_table(console, heads, rows, title="arrivals")
    for one in checks:
        if one.error:
            print_line(console, f"failed: {one.error}")
        if one.empty and not one.came:
            said = "found nothing for any key: does it name keys as its source does?"
            print_line(console, f"fetch {one.fetch!r} {said}")
    skews = [(one.fetch, skew) for one in checks for skew in one.columns if skew.rows]
    if not skews:
        if any(one.came for one in checks):
            print_line(console, "the table has no column that a fetch brings")
        return
    differ = [
        (fetch, skew.column, f"{skew.differ / skew.rows:.1%}") for fetch, skew in skews
    ]
    title = "rows whose fetched value differs from the table's"
    print_table(console, ("fetch", "column", "differ"), differ, title=title, names=2)
    for fetch, skew in skews:
        if skew.differ:
            print_line(console, f"{fetch}, {skew.column}, such as {skew.example}")
