"""What budgets buy, for a small, a middling and a large item: one table."""

import math
from collections.abc import Iterable, Iterator, Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np

from polydom.features.figures import show_accuracy, show_cost
from polydom.indexer.index.quality import WITHOUT_FEATURES, name_quality, task_of

from .index_report import quality_columns

if TYPE_CHECKING:
    from rich.console import Console

ROWS = 8  # budgets that fit a glance
# Steps between powers of ten that people think in, the finest first.
LADDERS = (
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
    (1.0,),
)

Bought = tuple[int | None, ...]  # by size: the place on its skyline; None: nothing
Skyline = list[dict[str, Any]]


def show_budgets(
    skylines: Sequence[dict[str, Any]], names: Sequence[str], console: "Console"
) -> None:
    """Print what budgets buy.

    Parameters
    ----------
    skylines
        As `skyline_facts` gives them, one for each size.
    names
        What these sizes are called: the columns' heads.
    """
    from rich.table import Table

    unit, measure = skylines[0]["unit"], skylines[0]["measure"]
    columns = quality_columns(skylines[0])
    nothing = f"no feature: {WITHOUT_FEATURES[task_of(measure)]} answers"
    lines = [at["skyline"] for at in skylines]
    rows = budget_rows(lines)
    alone = len(lines) == 1
    letters = {} if alone else _lettered(lines, [bought for _, bought in rows])
    table = Table(title="what a budget buys", box=None, title_justify="left")
    table.add_column("budget", justify="right", no_wrap=True)
    cost = "time" if unit in ("us", "s") else "cost"
    for name in (*columns.values(), cost) if alone else names:
        table.add_column(name, justify="right", no_wrap=True)
    if alone:
        table.add_column("features, in computing order")
    for budget, bought in rows:
        chosen = [
            None if place is None else line[place]
            for line, place in zip(lines, bought, strict=True)
        ]
        cells = (
            _alone(chosen[0], unit, columns, nothing)
            if alone
            else [_cell(one, unit, letters) for one in chosen]
        )
        table.add_row("less" if budget is None else show_cost(budget, unit), *cells)
    console.print(table)
    if not alone:
        quality = name_quality(measure)
        console.print(f"a cell: features, expected {quality}, {cost}. The features:")
    for features, letter in letters.items():
        console.print(f"  {letter}  {', '.join(features) or nothing}", highlight=False)


def budget_rows(skylines: Sequence[Skyline]) -> list[tuple[float | None, Bought]]:
    """List round budgets, ascending, from each of which on something else is bought.

    Of several ladders of round numbers the finest with few such steps is taken. The
    first budget is None: anything below the second.
    """
    costs = [
        one["cost"]
        for line in skylines
        for one in line
        if one["features"] and 0 < one["cost"] < math.inf
    ]
    rows: list[tuple[float | None, Bought]] = []
    for ladder in LADDERS:
        rows = [(None, tuple(_bought(line, 0.0) for line in skylines))]
        for budget in _rungs(min(costs), max(costs), ladder) if costs else ():
            bought = tuple(_bought(line, budget) for line in skylines)
            if bought != rows[-1][1]:
                rows.append((budget, bought))
        if len(rows) <= ROWS:
            break
    return rows


def _rungs(low: float, high: float, ladder: Sequence[float]) -> Iterator[float]:
    """Give the numbers of a ladder from one just below `low` to one above `high`."""
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for step in ladder:
            rung = float(f"{step}e{power}")
            yield rung
            if rung >= high:
                return


def _bought(line: Skyline, budget: float) -> int | None:
    """Place of what a budget buys; without features, that of the prior, if any."""
    costs = [one["cost"] for one in line]
    place = int(np.searchsorted(costs, budget, "right")) - 1
    if place >= 0:
        return place
    free = [place for place, one in enumerate(line) if not one["features"]]
    return free[0] if free else None


def _lettered(
    lines: Sequence[Skyline], rows: Sequence[Bought]
) -> dict[tuple[str, ...], str]:
    """Give each feature set of the table a letter, by first appearance."""
    found = dict.fromkeys(
        tuple(line[place]["features"])
        for bought in rows
        for line, place in zip(lines, bought, strict=True)
        if place is not None
    )
    some = [features for features in found if features]
    letters = dict(zip(some, ascii_uppercase, strict=False))
    return ({(): "-"} if () in found else {}) | letters


def _alone(
    one: dict[str, Any] | None, unit: str, columns: Iterable[str], nothing: str
) -> list[str]:
    """Write the cells of a table for one size."""
    if one is None:
        return [*("" for _ in columns), "", nothing]
    good = [show_accuracy(one[key]) for key in columns]
    if not one["features"]:
        return [*good, "", nothing]
    return [
        *good,
        show_cost(one["cost"], unit),
        ", ".join(one["features"]),
    ]


def _cell(
    one: dict[str, Any] | None, unit: str, letters: dict[tuple[str, ...], str]
) -> str:
    if one is None:
        return "-"
    letter = letters.get(tuple(one["features"]), "?")
    quality = show_accuracy(one["quality"])
    time = show_cost(one["cost"], unit) if one["features"] else ""
    return f"{letter} {quality} {time:>9}"
