"""The columns that a model was fitted on, and data frames made into its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.features.wording import listed

from .frames import Frame, open_frame
from .model import Rows
from .rows import as_numbers, take_row, take_rows

Library = Literal["LightGBM", "XGBoost", "scikit-learn"]


@dataclass(frozen=True, slots=True, eq=False)
class FittedColumns:
    """The columns of a fitted model, by which data frames become rows of numbers.

    Trees that were fitted on categories know them by number: a category's code is its
    position in the list that the model keeps. Frames hold the categories themselves,
    and are read as the library reads them:

    * LightGBM takes the frame's columns of categories in turn, and an unseen category
      as a gap. XGBoost knows which columns they are, and refuses an unseen category.
      To both, numbers in an array are codes.
    * scikit-learn reads categories by their values. Those that are texts have codes
      here, and only a frame has them.

    Attributes
    ----------
    rules
        The library whose rules a frame is read by.
    count
        How many columns there are.
    names
        What they are called; None where the model was fitted on an array.
    categories
        Known categories of each column that has codes, in the order of their codes.
    places
        Positions of these columns. LightGBM does not keep them: None where they are
        not certain.
    by_name
        Whether a frame's columns may come in another order, and among others.
    """

    rules: Library
    count: int
    names: tuple[str, ...] | None = None
    categories: tuple[tuple[Any, ...], ...] = ()
    places: tuple[int, ...] | None = ()
    by_name: bool = False

    def rows_of(self, X: Any) -> Rows:
        """Rows (N, width) of numbers, categories as their codes.

        Raises
        ------
        BadInput
            If columns are others than the model was fitted on, or a category has no
            code; the message names the column.
        """
        frame = open_frame(X)
        if frame is None:
            self._refuse_numbers()
            return take_rows(X)
        frame = self._in_order(frame)
        known = self._known(frame)
        if not known and not self.by_name and {*frame.kinds} <= {"numbers"}:
            return take_rows(X)
        columns = [
            self._codes(frame, j, known[j]) if j in known else _numbers(frame, j)
            for j in range(self.count)
        ]
        return np.column_stack(columns)

    def row_of(self, row: Any) -> Rows:
        """One row (width,) of numbers, categories as their codes.

        BadInput if it is none, or one of a frame of which codes are not certain.
        """
        if self.categories and hasattr(row, "iloc"):
            raise BadInput(
                "a row of a data frame came, for a model that was fitted on "
                "categories: give predict a frame of one row"
            )
        return take_row(row)

    def _refuse_numbers(self) -> None:
        if self.rules == "scikit-learn" and self.places:
            raise BadInput(
                f"column {self._listed(self.places[:1])} had texts when the model was "
                "fitted: give a data frame, as an array of numbers cannot hold them"
            )

    def _in_order(self, frame: Frame) -> Frame:
        """Give the columns in the order of the fitting; BadInput if they are others."""
        own = self.names
        if own and self.by_name and {*own} <= {*frame.names}:
            return frame.take([frame.names.index(name) for name in own])
        if len(frame.names) == self.count and self._fits(frame.names):
            return frame
        wanted = f": {listed(own)}, in this order" if own else ""
        raise BadInput(
            f"the frame has {len(frame.names)} columns, {listed(frame.names)}; the "
            f"model was fitted on {self.count}{wanted}"
        )

    def _fits(self, names: Sequence[str]) -> bool:
        """Whether these are the names of the fitting, or one side has none."""
        if self.names is None:
            return True
        given, own = _spaceless(names), _spaceless(self.names)
        if given == own or self.by_name or self.rules == "XGBoost":
            return given == own
        return {*given} != {*own} and (_unnamed(own) or _unnamed(given))

    def _known(self, frame: Frame) -> Mapping[int, Sequence[Any]]:
        """Categories by the position of their column in the frame."""
        given = [j for j, kind in enumerate(frame.kinds) if kind != "numbers"]
        if self.rules == "LightGBM":
            if len(given) != len(self.categories):
                raise self._other_categories(frame, given)
            return dict(zip(given, self.categories, strict=True))
        known = dict(zip(self.places or (), self.categories, strict=True))
        if self.rules == "XGBoost" and given != sorted(known):
            raise self._other_categories(frame, given)
        return known

    def _other_categories(self, frame: Frame, given: Sequence[int]) -> BadInput:
        came = listed([frame.names[j] for j in given])
        own = f"of {len(self.categories)} columns"
        if self.places is not None:
            own = f"of {self._listed(self.places)}"
        elif not self.categories:
            own = "of none, so that their codes are not known"
        return BadInput(
            f"categories or texts came in {came}; the model keeps categories {own}: "
            "give the types that it was fitted on, as by "
            'frame.astype({"month": "category"})'
        )

    def _listed(self, places: Sequence[int]) -> str:
        return listed([str(self.names[j] if self.names else j) for j in places])

    def _codes(
        self, frame: Frame, j: int, categories: Sequence[Any]
    ) -> NDArray[np.float32]:
        """(N,) positions of a column's cells among the categories; NaN for others."""
        values: Sequence[Any]
        values, places = frame.distinct(j)
        if categories and isinstance(categories[0], bytes):
            _check_cut(values, categories, frame.names[j])
            values = categories = range(len(categories))
        codes = {category: code for code, category in enumerate(categories)}
        if self.rules == "XGBoost":
            for k in np.unique(places[places >= 0]).tolist():
                if values[k] not in codes:
                    raise BadInput(
                        f"column {frame.names[j]!r} has {values[k]!r}, which is none "
                        "of the categories that the model was fitted on: "
                        f"{listed([repr(one) for one in categories])}"
                    )
        by_value = [codes.get(value, np.nan) for value in values]
        return np.array([*by_value, np.nan], np.float32)[places]


class ReadsFrames:
    """A model that reads rows: arrays, and data frames by its fitted columns."""

    __slots__ = ()
    fitted: FittedColumns | None

    def rows(self, X: Any) -> Rows:
        """Rows (N, width) as kernels read them, categories of a frame by their codes.

        Raises
        ------
        BadInput
            If it is no table of numbers, or a frame that the original was not fitted
            on; the message names the column.
        """
        return take_rows(X) if self.fitted is None else self.fitted.rows_of(X)

    def row(self, row: Any) -> Rows:
        """One row (width,) as kernels read it; BadInput if it is none."""
        return take_row(row) if self.fitted is None else self.fitted.row_of(row)


def _check_cut(values: Sequence[Any], categories: Sequence[Any], name: str) -> None:
    """Check that XGBoost would cut these texts into what it kept of the categories."""
    texts = [str(value) for value in values]
    ends = np.cumsum([0, *map(len, texts)]).tolist()
    joined = "".join(texts).encode()[: ends[-1]]
    kept = [joined[start:end] for start, end in pairwise(ends)]
    if kept != [*categories] or len({*kept}) < len(kept):
        raise BadInput(
            f"XGBoost kept only parts of the categories of column {name!r}, as they "
            "are not all ASCII: give a frame of pandas with the same categories in the "
            "same order as when the model was fitted, or fit it on others"
        )


def _numbers(frame: Frame, j: int) -> NDArray[Any]:
    what = f"column {frame.names[j]!r}"
    if frame.kinds[j] == "categories":
        values, places = frame.distinct(j)
        numbers = as_numbers(values, what) if values else np.empty(0)
        return np.append(numbers, np.nan)[places]
    return as_numbers(frame.column(j), what)


def _spaceless(names: Sequence[str]) -> list[str]:
    """Names as LightGBM keeps them, which has underscores for spaces."""
    return [name.replace(" ", "_") for name in names]


def _unnamed(names: Sequence[str]) -> bool:
    """Say whether names only number the columns, as those of arrays do."""
    return any(
        list(names) == [f"{prefix}{j}" for j in range(len(names))]
        for prefix in ("", "Column_")
    )
