"""A table that shows which features budgets buy for small, medium and large items."""

import math
from collections.abc import Iterable, Iterator, Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING

import numpy as np

from polydom.features.figures import show_accuracy, show_cost
from polydom.indexer.index.facts import SkylineFacts, SkylineSet
from polydom.indexer.index.quality import NO_FEATURE, name_quality, task_of

from .terminal import print_line, print_table

if TYPE_CHECKING:
    from rich.console import Console

ROWS = 8  # most rows of the table
# Round numbers within a power of ten; each tuple is one ladder, the finest first.
LADDERS = (
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
    (1.0,),
)

Skyline = Sequence[SkylineSet]
# one entry per size: position on its skyline; None if nothing is bought
Bought = tuple[int | None, ...]


def show_budgets(
    skylines: Sequence[SkylineFacts], names: Sequence[str], console: "Console"
) -> None:
    """Print a table: for each budget and item size, the features that the budget buys.

    `skylines` and `names` have an entry for each item size: its skyline, and the title
    of its column.
    """
    unit, measure = skylines[0].unit, skylines[0].measure
    columns = quality_columns(measure)
    lines = [at.skyline for at in skylines]
    rows = budget_rows(lines)
    alone = len(lines) == 1
    letters = {} if alone else _letters_of(lines, [bought for _, bought in rows])
    cost = "time" if unit in ("us", "s") else "cost"
    heads = ["budget", *names]
    if alone:
        heads = ["budget", *columns.values(), cost, "features, in computing order"]
    cells = []
    for budget, bought in rows:
        chosen = [
            None if place is None else line[place]
            for line, place in zip(lines, bought, strict=True)
        ]
        cells.append(
            (
                "less" if budget is None else show_cost(budget, unit),
                *(
                    _cells_of_one_size(chosen[0], unit, columns)
                    if alone
                    else [_cell(one, unit, letters) for one in chosen]
                ),
            )
        )
    title = "what a budget buys"
    print_table(console, heads, cells, title=title, names=0, lists=alone)
    if alone:
        return
    quality = name_quality(measure)
    print_line(console, f"a cell: features, expected {quality}, {cost}. The features:")
    for features, letter in letters.items():
        print_line(console, f"  {letter}  {', '.join(features) or NO_FEATURE}")


def quality_columns(measure: str) -> dict[str, str]:
    """Return the titles of the quality columns, keyed by field of `SkylineSet`."""
    columns = {"quality": name_quality(measure)}
    if measure != "accuracy" and task_of(measure) == "classes":
        columns["accuracy"] = "accuracy"
    return columns


def budget_rows(
    skylines: Sequence[Skyline],
) -> list[tuple[float | None, Bought]]:
    """Return the rows of a table of budgets, as pairs (budget, bought).

    `bought` has, for each skyline, the position of the feature set that the budget
    buys. Budgets are round numbers in ascending order; each buys a better set on at
    least one skyline than the budget before. The first budget is None, which stands for
    every amount below the second. The round numbers come from the first of `LADDERS`
    that gives at most `ROWS` rows; if none does, from the last.
    """
    costs = [
        one.cost
        for line in skylines
        for one in line
        if one.features and 0 < one.cost < math.inf
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
    """Yield round numbers, ascending from at most `low` to at least `high`.

    They are the numbers of `ladder` times powers of ten.
    """
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        for step in ladder:
            rung = float(f"{step}e{power}")
            yield rung
            if rung >= high:
                return


def _bought(line: Skyline, budget: float) -> int | None:
    """Return the position, on a skyline, of the feature set that a budget buys.

    If the budget buys none, return the position of the set without features, or None if
    it is not on the skyline.
    """
    costs = [one.cost for one in line]
    place = int(np.searchsorted(costs, budget, "right")) - 1
    if place >= 0:
        return place
    free = [place for place, one in enumerate(line) if not one.features]
    return free[0] if free else None


def _letters_of(
    lines: Sequence[Skyline], rows: Sequence[Bought]
) -> dict[tuple[str, ...], str]:
    found = dict.fromkeys(
        tuple(line[place].features)
        for bought in rows
        for line, place in zip(lines, bought, strict=True)
        if place is not None
    )
    some = [features for features in found if features]
    letters = dict(zip(some, ascii_uppercase, strict=False))
    return ({(): "-"} if () in found else {}) | letters


def _cells_of_one_size(
    one: SkylineSet | None, unit: str, columns: Iterable[str]
) -> list[str]:
    if one is None:
        return [*("" for _ in columns), "", NO_FEATURE]
    good = [show_accuracy(getattr(one, key)) for key in columns]
    if not one.features:
        return [*good, "", NO_FEATURE]
    features = ", ".join(one.features)
    if one.base_models:
        features += f"; the model's first {one.base_models} base models"
    return [*good, show_cost(one.cost, unit), features]


def _cell(
    one: SkylineSet | None, unit: str, letters: dict[tuple[str, ...], str]
) -> str:
    if one is None:
        return "-"
    letter = letters.get(tuple(one.features), "?")
    quality = show_accuracy(one.quality)
    time = show_cost(one.cost, unit) if one.features else ""
    return f"{letter} {quality} {time:>9}"
