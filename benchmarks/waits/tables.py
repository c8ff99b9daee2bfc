"""Tables of which a request brings some columns, and two fetches bring the others."""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.tables import read_adult, read_covtype
from ..learners.default_sets import ADULT
from ..places import data_folder

KEY, LABEL = "customer_id", "label"
MISSING = "?"  # Adult's empty cell
FAST, SLOW = "fast", "slow"  # the fetches

Record = dict[str, Any]


@dataclass(frozen=True)
class SplitTable:
    """Rows to build of and rows that no build sees; row k has the key k.

    `asked` are the columns that a request brings, beside the key, and `fetched` those
    that each fetch brings. The kept rows have the keys after those of `built`.
    """

    asked: tuple[str, ...]
    fetched: dict[str, tuple[str, ...]]
    built: list[Record]
    kept: list[Record]

    @property
    def rows(self) -> list[Record]:
        """All rows, by their keys."""
        return self.built + self.kept

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that models may know, those of requests first."""
        return sum(self.fetched.values(), self.asked)

    def request(self, row: Record) -> Record:
        """Return what a request says of a row: its key, and the columns it brings."""
        return {name: row[name] for name in (KEY, *self.asked)}

    def write(self, path: Path) -> None:
        """Write the rows to build of as a CSV file."""
        names = [KEY, *self.columns, LABEL]
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, names, extrasaction="ignore")
            table.writeheader()
            table.writerows(self.built)


def split_adult() -> SplitTable:
    """Incomes of 48,842 persons, in Adult's own division.

    A request brings what a form asks for. One fetch brings the work, the other one what
    is known of the household and of capital.
    """
    folder = data_folder()
    built, kept = (
        [
            dict(zip((*ADULT, LABEL), map(_value, line), strict=True))
            for line in read_adult(folder, part)
        ]
        for part in ("data", "test")
    )
    fetched = {
        FAST: (
            "workclass",
            "occupation",
            "hours_per_week",
            "education",
            "education_num",
        ),
        SLOW: ("capital_gain", "capital_loss", "marital_status", "relationship"),
    }
    return _keyed(("age", "sex", "race", "native_country"), fetched, built, kept)


def split_covertype() -> SplitTable:
    """20,000 fields of forest in 7 classes, of which 70 % are built of.

    A request brings slope and light. One fetch brings distances, the other one the
    elevation, the region and the soil.
    """
    X, codes = read_covtype(data_folder())
    order = np.random.default_rng(0).permutation(len(X))
    names = [f"x{j}" for j in range(X.shape[1])]
    rows = [
        {**dict(zip(names, X[k].tolist(), strict=True)), LABEL: f"class{codes[k]}"}
        for k in order
    ]
    fetched = {
        FAST: _named(names, (3, 4, 5, 9)),
        SLOW: _named(names, (0, *range(10, 54))),
    }
    cut = int(0.7 * len(rows))
    return _keyed(_named(names, (1, 2, 6, 7, 8)), fetched, rows[:cut], rows[cut:])


def drawn() -> SplitTable:
    """Draw 600 rows of six numbers, of which each pair says something of the class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6)).round(3)
    y = X @ [1.0, 0.0, 1.5, 0.5, 2.0, 1.0] + rng.normal(size=len(X)) > 0
    names = [f"x{j}" for j in range(6)]
    rows = [
        {**dict(zip(names, row.tolist(), strict=True)), LABEL: "yes" if high else "no"}
        for row, high in zip(X, y, strict=True)
    ]
    fetched = {FAST: _named(names, (2, 3)), SLOW: _named(names, (4, 5))}
    return _keyed(_named(names, (0, 1)), fetched, rows[:400], rows[400:])


TABLES: dict[str, Callable[[], SplitTable]] = {
    "adult": split_adult,
    "covertype": split_covertype,
    "drawn": drawn,
}
FOLDERS = {"adult": "adult", "covertype": "covtype20k"}  # of the data sets


def _named(names: Sequence[str], places: Iterable[int]) -> tuple[str, ...]:
    return tuple(names[j] for j in places)


def _value(cell: str) -> Any:
    if cell == MISSING:
        return None
    try:
        return int(cell)
    except ValueError:
        return cell


def _keyed(
    asked: tuple[str, ...],
    fetched: dict[str, tuple[str, ...]],
    built: list[Record],
    kept: list[Record],
) -> SplitTable:
    for key, row in enumerate(built + kept):
        row[KEY] = key
    return SplitTable(asked, fetched, built, kept)
