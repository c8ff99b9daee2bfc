"""Convert data frames to a model's rows, as the library that fitted the model does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.features.wording import listed

from .frames import Frame, open_frame
from .model import Rows
from .rows import as_numbers, take_row, take_rows

if TYPE_CHECKING:
    from .scorer import Scorer

Library = Literal["LightGBM", "XGBoost", "scikit-learn"]


@dataclass(frozen=True, slots=True, eq=False)
class FittedColumns:
    """The columns that a model was fitted on, and its library's rules for data frames.

    A model reads a category as a number, its code. The rules of the libraries differ:

    * LightGBM matches the categorical columns of a frame to the fitted ones by order,
      not by name. An unseen category is a missing value. Arrays contain codes.
    * XGBoost stores which columns are categorical. An unseen category raises BadInput.
      Arrays contain codes.
    * scikit-learn reads a category that is a number as this number, without a code.
      Texts have codes, and must come in a frame.
    """

    rules: Library  # Library whose rules for reading frames apply
    count: int  # Number of columns
    # Names of the columns; None if the model was fitted on an array
    names: tuple[str, ...] | None = None
    # For each categorical column, its known categories in the order of their codes
    categories: tuple[tuple[Any, ...], ...] = ()
    # Positions of the categorical columns; None if unknown: LightGBM does not store
    # the positions
    places: tuple[int, ...] | None = ()
    # True if the columns of a frame are found by name, in any order
    by_name: bool = False

    def rows_of(self, X: Any) -> Rows:
        """Convert an array or a data frame to rows (N, width) of numbers.

        Raises BadInput if the columns of a frame differ from the fitted columns.
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
        """Convert one row to an array (width,) of numbers.

        If the model has categories, raises BadInput for a row of a data frame.
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
        """Return True if a frame's names match the fitted names, or these are unknown.

        By LightGBM's rules, names made from column numbers match all other names.
        """
        if self.names is None:
            return True
        given, own = _spaceless(names), _spaceless(self.names)
        if given == own or self.by_name or self.rules == "XGBoost":
            return given == own
        return {*given} != {*own} and (_unnamed(own) or _unnamed(given))

    def _known(self, frame: Frame) -> Mapping[int, Sequence[Any]]:
        """Map each categorical column's position to its fitted categories."""
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
        """Return the position in `categories` of each cell of column j, shape (N,).

        Missing cells and unknown categories become NaN. By XGBoost's rules, an unknown
        category raises BadInput.
        """
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
    """Base class of models that read rows from arrays or data frames."""

    __slots__ = ()
    scorer: "Scorer"
    fitted: FittedColumns | None

    @property
    def kind(self) -> str:
        """Kind of the scorer, such as "trees"."""
        return self.scorer.kind

    @property
    def columns(self) -> NDArray[np.int32]:
        """Positions (d,) of the model's inputs among the columns of a full row."""
        return self.scorer.columns

    def rows(self, X: Any) -> Rows:
        """Convert an array or a data frame to rows (N, width) for kernels.

        Raises BadInput if the columns of a frame differ from the fitted columns.
        """
        return take_rows(X) if self.fitted is None else self.fitted.rows_of(X)

    def row(self, row: Any) -> Rows:
        """Convert one row to an array (width,); raise BadInput if impossible."""
        return take_row(row) if self.fitted is None else self.fitted.row_of(row)


def _check_cut(values: Sequence[Any], categories: Sequence[Any], name: str) -> None:
    """Raise BadInput unless XGBoost would store the texts `values` as `categories`.

    XGBoost joins all texts, and stores only as many bytes as they have characters. So
    texts that are not ASCII are cut off.
    """
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
    """Replace spaces in names by underscores, as LightGBM does."""
    return [name.replace(" ", "_") for name in names]


def _unnamed(names: Sequence[str]) -> bool:
    """Return True if the names are column numbers, such as "0" or "Column_0"."""
    return any(
        list(names) == [f"{prefix}{j}" for j in range(len(names))]
        for prefix in ("", "Column_")
    )
