"""What an index says of its fetches: when they come, and what that is worth."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from polydom.features.figures import show_accuracy, show_ms
from polydom.features.wording import listed
from polydom.indexer.index.fetches.fetch_facts import ToldFetch, ToldFetches
from polydom.indexer.index.quality import name_quality

from .terminal import print_table

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2  # between two columns of a table


def fetch_lines(told: ToldFetches) -> Iterator[str]:
    """Yield a sentence about each fetch."""
    for one in told.fetches:
        price = ", ".join(f"{amount:g} {unit}" for unit, amount in one.price.items())
        paid = f", for {price} {'a key' if one.key else 'an item'}" if price else ""
        what = f"{listed(one.columns)} by {listed(one.key)}"
        if not one.key:
            what = "a vector for the item"
        yield (
            f"fetch {one.name!r} brings {what}"
            f"{paid}; it comes within {_times(one)}; {one.never:.1%} never came"
        )


def _times(one: ToldFetch) -> str:
    shares = ("half", one.p50_ms), ("90 %", one.p90_ms), ("99 %", one.p99_ms)
    known = [f"{show_ms(ms)} ({share})" for share, ms in shares if ms is not None]
    return ", ".join(known) or "no time in half of the calls"


def show_fetches(told: ToldFetches, measure: str, console: "Console") -> None:
    """Print a table: by budget, what has come by then, and the expected quality.

    If the names of the fetches do not fit side by side, there is a line for each.
    """
    names = [one.name for one in told.fetches]
    rows = [
        ("budget", *names, f"expected {name_quality(measure)}"),
        *(
            (
                show_ms(at.budget_ms),
                *(f"{share:.0%}" for share in at.came),
                show_accuracy(at.quality),
            )
            for at in told.budgets
        ),
    ]
    columns = [*zip(*rows, strict=True)]
    widths = (max(map(len, column)) + GAP for column in columns)
    heads, *others = rows if sum(widths) <= console.width else columns
    print_table(
        console,
        [*heads],
        others,
        title="what has come by then, and what is expected of the answer",
        names=0,
    )
