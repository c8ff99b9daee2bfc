"""A compiled regressor or ranker: a sum of terms, and what is made of it."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel, BadRow

from .fitted_columns import FittedColumns, ReadsFrames
from .model import Floats, Rows
from .remaining_bounds import bound_remaining
from .scorer import SumOfTerms
from .stored_arrays import Stored

# What a library makes of a regressor's sum when it predicts.
Link = Literal["identity", "exp", "logistic", "signed square"]
LINKS: tuple[Link, ...] = get_args(Link)  # a file holds the position


@dataclass(frozen=True, slots=True, eq=False)
class Regressor(ReadsFrames):
    """A compiled regressor: a number made of a sum of trees or linear terms.

    Immutable; safe to share between threads.

    Attributes
    ----------
    scorer
        Trees or linear terms that give one raw score per row.
    link
        What the library makes of that sum when it predicts.
    fitted
        The columns of the original, where its rows may be data frames.
    """

    scorer: SumOfTerms
    link: Link = "identity"
    fitted: FittedColumns | None = None

    def __repr__(self) -> str:
        return f"Regressor({self.scorer!r}, link={self.link!r})"

    def __post_init__(self) -> None:
        if self.scorer.outputs != 1:
            raise BadModel(
                f"a {self.kind} model of {self.scorer.outputs} raw scores is no "
                "regressor, which has one"
            )
        if self.link not in LINKS:
            raise BadModel(f"unknown link {self.link!r}; known: {', '.join(LINKS)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Regressor, (self.scorer, self.link, self.fitted)

    @property
    def kind(self) -> str:
        """Kind of the scorer."""
        return self.scorer.kind

    @property
    def classes(self) -> NDArray[np.int64]:
        """(1,) zero: there is nothing to choose from."""
        return np.zeros(1, np.int64)

    @property
    def columns(self) -> NDArray[np.int32]:
        """(d,) positions of the inputs in the full row."""
        return self.scorer.columns

    @property
    def size(self) -> int:
        """T, the number of trees or linear terms."""
        return self.scorer.size

    def base_scores(self, X: Rows) -> Floats:
        """Give what each term adds to the sum for the rows X (N, width): (N, T)."""
        scores: Floats = self.scorer.base_scores(self.rows(X))[:, :, 0]
        return scores

    def decision_function(self, X: Rows) -> Floats:
        """(N,) sums; of trees bit-equal to those of a library that adds in float64."""
        return self.scorer.raw(self.rows(X))[:, 0]

    def predict(self, X: Rows) -> Floats:
        """(N,) what the original's `predict` gives.

        Raises
        ------
        BadRow
            If a value lies beyond float64, or the original refuses such a row.
        """
        return _linked(self.decision_function(X), self.link)

    def predict_one(self, row: Rows) -> float:
        """Prediction for one full row (width,)."""
        margin = self.scorer.margin_one(row)
        if margin is None:
            raw = self.scorer.raw(self.row(row)[None])[:, 0]
        elif self.link == "identity":
            return margin
        else:
            raw = np.array([margin])
        return float(_linked(raw, self.link)[0])

    def predict_scores(self, X: Rows) -> Floats:
        """Give the values as scores of one class: (N, 1)."""
        return self.predict(X)[:, None]

    def scores(self, row: Rows) -> Floats:
        """Give the value of one full row: (1,)."""
        return np.array([self.predict_one(row)])

    def choose(self, row: Rows) -> int:
        """Give 0, whatever the row."""
        return 0

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """0, and the value of one full row."""
        return 0, [self.predict_one(row)]

    def within(self, tolerance: float) -> "Regressor":
        """Leave out trees that cannot move any row's sum by more than `tolerance`.

        Those that remain are the ones whose leaves lie farthest apart, and the middle
        of what the others could add is added for them. With tolerance 0 a tree that
        always gives the same is all that can be missing.

        Parameters
        ----------
        tolerance
            At least 0, in units of the sum: before `exp` and the like.

        Raises
        ------
        BadInput
            If the tolerance is negative or NaN, or terms are linear: those have no
            bounds.
        """
        remaining = bound_remaining(*(ends[:, 0] for ends in self.scorer.bounds()))
        used, rest = remaining.enough(tolerance)
        if used == self.size:
            return self
        return self.part(np.sort(remaining.order[:used]), rest)

    def part(self, which: NDArray[Any], rest: float = 0.0) -> "Regressor":
        """Sum only the trees at the positions `which`, in that order, and add `rest`.

        Raises
        ------
        BadInput
            If `which` is empty, or a position does not exist, or terms are no trees.
        """
        return replace(self, scorer=self.scorer.part(which, rest))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays from which `load_model` makes this regressor again."""
        link = np.array([LINKS.index(self.link)], np.int64)
        return {"link": link, **self.scorer.arrays()}


def load_regressor(scorer: SumOfTerms, stored: Stored) -> Regressor:
    """Give a loaded scorer its link; BadModel unless they fit together."""
    link = int(stored.array("link", np.int64, (1,))[0])
    if not 0 <= link < len(LINKS):
        raise stored.fail(f"unknown link {link}")
    with np.errstate(over="ignore", invalid="ignore"):
        widest = scorer.reach()
    if not widest < np.inf:
        raise stored.fail("its sums leave the range of float64")
    return Regressor(scorer, LINKS[link])


def _linked(raw: Floats, link: Link) -> Floats:
    """Make predictions (N,) of sums, as the library; BadRow if one is not finite."""
    if link == "identity":
        return raw
    with np.errstate(over="ignore"):
        if link == "exp":
            values = np.exp(raw)
        elif link == "logistic":
            values = 1 / (1 + np.exp(-raw))
        else:
            values = np.sign(raw) * raw * raw
    finite = np.isfinite(values)
    if not finite.all():
        i = int(finite.argmin())
        raise BadRow(
            f"the numbers of row {i} give a sum of {raw[i]:g}, of which {link} leaves "
            "the range of float64"
        )
    return values
