"""One interface to the data frames of pandas, Polars and Arrow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["numbers", "categories", "texts"]
# The names of categorical column types in the three libraries begin with these.
CATEGORIES = ("category", "Categorical", "Enum", "dictionary<")
TEXTS = ("string", "String", "large_string", "Utf8")


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A data frame of pandas, Polars or Arrow: columns with their names and kinds."""

    names: Sequence[str]  # Names of the columns, as texts
    # Kind of each column; "numbers" if its cells are neither categories nor texts
    kinds: Sequence[Kind]
    # Function from a position to the column, in the form of its library
    column: Callable[[int], Any]

    def take(self, places: Sequence[int]) -> "Frame":
        """Return a frame of only the columns at positions `places`, in that order."""
        return replace(
            self,
            names=[self.names[j] for j in places],
            kinds=[self.kinds[j] for j in places],
            column=lambda j: self.column(places[j]),
        )

    def distinct(self, j: int) -> tuple[list[Any], NDArray[np.intp]]:
        """Return the distinct values of column j, and each cell's position among them.

        The position of a missing cell is -1. For a categorical column of pandas, the
        values are all categories of its type, used or not.
        """
        column = self.column(j)
        if hasattr(column, "cat") and hasattr(column.cat, "codes"):
            return list(column.cat.categories), column.cat.codes.to_numpy(np.intp)
        found: dict[Any, int] = {}
        places = [
            -1
            if value is None or value != value
            else found.setdefault(value, len(found))
            for value in _cells(column)
        ]
        return list(found), np.array(places, np.intp)


def open_frame(X: Any) -> Frame | None:
    """Wrap a data frame as a `Frame`; return None if X is not a data frame."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):  # pandas
        names, types = list(X.columns), list(X.dtypes)
        return _frame(names, types, lambda j: X.iloc[:, j])
    if hasattr(X, "get_columns"):  # Polars
        return _frame(X.columns, X.dtypes, X.to_series)
    if hasattr(X, "column_names"):  # Arrow
        return _frame(X.column_names, X.schema.types, X.column)
    return None


def _frame(
    names: Sequence[Any], types: Sequence[Any], column: Callable[[int], Any]
) -> Frame:
    kinds = [_kind(kind, column, j) for j, kind in enumerate(types)]
    return Frame([str(name) for name in names], kinds, column)


def _kind(dtype: Any, column: Callable[[int], Any], j: int) -> Kind:
    name = str(dtype)
    if name.startswith(CATEGORIES):
        return "categories"
    if name == "str" or name.startswith(TEXTS):
        return "texts"
    if name == "object" and any(isinstance(cell, str) for cell in column(j)):
        return "texts"
    return "numbers"


def _cells(column: Any) -> list[Any]:
    """Return the cells of a column as a list, with None for missing values."""
    if hasattr(column, "isna"):  # pandas
        gaps = column.isna().tolist()
        cells = zip(column.tolist(), gaps, strict=True)
        return [None if gap else value for value, gap in cells]
    give = column.to_pylist if hasattr(column, "to_pylist") else column.to_list
    return list(give())
