"""A compiled regressor or ranker: a link function of a sum of trees or linear terms."""

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

# Names of functions from a sum to the prediction.
Link = Literal["identity", "exp", "logistic", "signed square"]
LINKS: tuple[Link, ...] = get_args(Link)  # model files store a link's position in it


@dataclass(frozen=True, slots=True, eq=False)
class Regressor(ReadsFrames):
    """A compiled regressor: a link function of a sum of trees or linear terms.

    A regressor is immutable, and threads may share it.

    Attributes
    ----------
    scorer
        Trees or linear terms with one raw score.
    link
        Name of the function from the sum to the prediction.
    fitted
        Columns that the original model was fitted on, to read data frames; None if the
        regressor reads only arrays.
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

    @property
    def classes(self) -> NDArray[np.int64]:
        """The one class of a regressor: [0]."""
        return np.zeros(1, np.int64)

    @property
    def size(self) -> int:
        """T, the number of trees or linear terms."""
        return self.scorer.size

    def base_scores(self, X: Rows) -> Floats:
        """Return what each of T terms adds to the sum of each row: (N, T)."""
        scores: Floats = self.scorer.base_scores(self.rows(X))[:, :, 0]
        return scores

    def decision_function(self, X: Rows) -> Floats:
        """Return the sum of terms for each row (N,), before the link function.

        Sums of trees equal those of the original library to the bit, if it adds in
        float64.
        """
        return self.scorer.raw(self.rows(X))[:, 0]

    def predict(self, X: Rows) -> Floats:
        """Predict a number for each row (N,), as the original model's `predict` does.

        Raises
        ------
        BadRow
            If a prediction exceeds float64, or the original model would refuse the row.
        """
        return _linked(self.decision_function(X), self.link)

    def predict_one(self, row: Rows) -> float:
        """Predict one full row (width,)."""
        margin = self.scorer.margin_one(row)
        if margin is None:
            raw = self.scorer.raw(self.row(row)[None])[:, 0]
        elif self.link == "identity":
            return margin
        else:
            raw = np.array([margin])
        return float(_linked(raw, self.link)[0])

    def predict_scores(self, X: Rows) -> Floats:
        """Return the predictions as scores of one class: (N, 1)."""
        return self.predict(X)[:, None]

    def choose(self, row: Rows) -> int:
        """Return 0, the position of the one class."""
        return 0

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Return 0, the position of the one class, and a full row's prediction."""
        return 0, [self.predict_one(row)]

    def within(self, tolerance: float) -> "Regressor":
        """Return a regressor of fewer trees whose sums differ by at most `tolerance`.

        The trees with the widest ranges of leaf values are kept. A constant replaces
        the sum of the other trees: the middle of the range of that sum. With tolerance
        0, only trees whose leaves all have the same value are replaced.

        Parameters
        ----------
        tolerance
            Largest difference of the sums before the link function, >= 0.

        Raises
        ------
        BadInput
            If the tolerance is negative or NaN, or if the terms are linear, as linear
            terms have no bounds.
        """
        least, most = (ends[:, 0] for ends in self.scorer.bounds())
        remaining = bound_remaining(least, most)
        used, rest = remaining.enough(tolerance)
        if used == self.size:
            return self
        return self.part(np.sort(remaining.order[:used]), rest)

    def part(self, which: NDArray[Any], rest: float = 0.0) -> "Regressor":
        """Return a regressor of only the trees at positions `which`, in this order.

        The constant `rest` is added to every sum.
        """
        return replace(self, scorer=self.scorer.part(which, rest))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load_model` makes this regressor again."""
        link = np.array([LINKS.index(self.link)], np.int64)
        return {"link": link, **self.scorer.arrays()}


def load_regressor(scorer: SumOfTerms, stored: Stored) -> Regressor:
    """Make a regressor of a scorer and its stored link function.

    Raises BadModel if the link is unknown, or if sums could exceed float64.
    """
    link = int(stored.array("link", np.int64, (1,))[0])
    if not 0 <= link < len(LINKS):
        raise stored.fail(f"unknown link {link}")
    with np.errstate(over="ignore", invalid="ignore"):
        widest = scorer.reach()
    if not widest < np.inf:
        raise stored.fail("its sums leave the range of float64")
    return Regressor(scorer, LINKS[link])


def _linked(raw: Floats, link: Link) -> Floats:
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
