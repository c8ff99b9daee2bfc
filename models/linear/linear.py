"""Linear models: raw scores that are weighted sums of the inputs."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.kernels.native import entry
from ..scoring.model import Floats, Rows
from ..scoring.preparation import Preparation, load_preparation
from ..scoring.rows import is_dense
from ..scoring.scorer import PackedTerms, SumOfTerms
from ..scoring.stopping_rule import Stops
from ..scoring.stored_arrays import Stored
from .early_sums import pack_linear
from .kernels.sums import linear, linear_one


@dataclass(frozen=True, slots=True, eq=False)
class Linear(SumOfTerms):
    """A linear model: logistic regression, SVM, ridge, LDA, discrete naive Bayes, ...

    The BLAS library that scikit-learn calls may add terms in a different order, so raw
    scores may differ from scikit-learn's in the last bits (about 1e-15 of the largest
    term). Rows with NaN or infinity raise `BadRow`.
    """

    preparation: Preparation  # Step from full rows to the d inputs
    # (d, R) float64: R is 1 for a binary margin, else the number of classes
    weights: Floats
    intercepts: Floats  # Constant of each raw score, shape (R,)
    kind: ClassVar[str] = "linear"
    enter: Any = field(init=False)  # The kernel `linear_one`, compiled

    def __post_init__(self) -> None:
        object.__setattr__(self, "enter", entry(linear_one))

    @property
    def outputs(self) -> int:
        """The number R of raw scores."""
        return len(self.intercepts)

    @property
    def size(self) -> int:
        """The number d of terms in each sum."""
        return len(self.columns)

    @property
    def light(self) -> bool:
        """True, because adding a term is faster than comparing the sum with a limit."""
        return True

    def raw(self, X: Rows) -> Floats:
        """Compute the raw scores (N, R) of full rows X (N, width)."""
        out = np.empty((len(X), self.outputs))
        Z = self.preparation.apply(X)
        if not linear(Z, self.weights, self.intercepts, out):
            self.preparation.refuse_gaps(X, Z, out)
        return out

    def raw_one(self, row: Rows) -> Floats:
        """Compute the raw scores (R,) of one full row, as `raw` does."""
        preparation = self.preparation
        if is_dense(row, preparation.width):
            out = np.empty(len(self.intercepts))
            steps = preparation.columns, preparation.operations, preparation.table
            if self.enter(row, *steps, self.weights, self.intercepts, out):
                return out
        return SumOfTerms.raw_one(self, row)

    def margin(self) -> "Linear":
        """Return a linear model with a single raw score, the margin.

        Of two raw scores, the margin is the second minus the first.
        """
        if self.outputs == 1:
            return self
        weights = np.ascontiguousarray(self.weights[:, 1:] - self.weights[:, :1])
        intercepts = self.intercepts[1:] - self.intercepts[:1]
        return LinearDifference(self.preparation, weights, intercepts, self)

    def base_scores(self, X: Rows) -> Floats:
        """Return the values (N, d, R) that terms add to the raw scores of rows X."""
        return self.preparation.apply(X)[:, :, None] * self.weights

    def base_bias(self) -> Floats:
        """Return the intercepts (R,), at which the sums of terms begin."""
        return self.intercepts

    def bounds(self) -> tuple[Floats, Floats]:
        """Raise BadInput: terms have no bounds, because inputs have none."""
        raise BadInput(
            "the terms of a linear model have no bounds; trees and lattices do"
        )

    def columns_used(self, width: int) -> NDArray[np.bool_]:
        """Return a mask (d, width): True for the one column that each term reads."""
        used = np.zeros((self.size, width), np.bool_)
        used[np.arange(self.size), self.columns] = True
        return used

    def pack(self, order: NDArray[Any], stops: Stops) -> PackedTerms | None:
        """Lay out terms, in `order`, for a kernel that applies the rule `stops`.

        Returns None if no kernel can add them.
        """
        terms = self.preparation, self.weights, self.intercepts
        sizes, starts = np.abs(self.weights), np.abs(self.intercepts)
        return pack_linear(*terms, order, stops, sizes, starts)

    def reach(self) -> float:
        """Return an upper bound on absolute raw scores, for rows of finite float32."""
        terms = self.preparation.reach() @ np.abs(self.weights)
        return float((terms + np.abs(self.intercepts)).max())

    def draw_inputs(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw random prepared inputs (count, d), for which decisions differ."""
        weights = np.abs(self.weights).max(axis=1)
        start = 0.0 if self.outputs == 1 else self.intercepts.min()
        reach = 1.0 + np.abs(self.intercepts - start).max()
        scale = reach / np.where(weights, weights, 1.0)
        drawn: Floats = scale * rng.normal(size=(count, len(weights)))
        return drawn

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load` makes this model again."""
        return {
            **self.preparation.arrays(),
            "weights": self.weights,
            "intercepts": self.intercepts,
        }

    def __repr__(self) -> str:
        return f"Linear({self.outputs} raw scores, {self.preparation!r})"

    @classmethod
    def load(cls, stored: Stored, width: int) -> "Linear":
        """Load a linear model; raise BadModel if the stored arrays are invalid."""
        preparation = load_preparation(stored, width)
        intercepts = stored.finite("intercepts", (None,))
        if not len(intercepts):
            raise stored.fail("it has no output")
        shape = (len(preparation.columns), len(intercepts))
        return cls(preparation, stored.finite("weights", shape), intercepts)


@dataclass(frozen=True, slots=True, eq=False)
class LinearDifference(Linear):
    """The margin of a linear model with two raw scores: the second minus the first.

    Its rounding errors are relative to the two scores, which may be far larger than
    their difference.
    """

    # Both sums: rounding errors are relative to the sums, not to the difference.
    sums: Linear

    def __reduce__(self) -> tuple[Any, ...]:
        return Linear.margin, (self.sums,)

    def pack(self, order: NDArray[Any], stops: Stops) -> PackedTerms | None:
        """Lay out terms as `Linear.pack` does, but allow for larger rounding errors."""
        terms = self.preparation, self.weights, self.intercepts
        sizes = np.abs(self.sums.weights).sum(axis=1, keepdims=True)
        starts = np.abs(self.sums.intercepts).sum()
        return pack_linear(*terms, order, stops, sizes, starts)
