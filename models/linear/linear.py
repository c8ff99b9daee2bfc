"""Raw scores that are weighted sums of the inputs."""

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
    """Logistic regression, linear SVM, perceptron, ridge, LDA, discrete naive Bayes.

    Sums run in float64 in a fixed order. scikit-learn leaves the order to BLAS, so raw
    scores may differ from its own in the last bits (about 1e-15 of the largest term),
    and a choice only where two classes tie within that. Like it, they refuse rows with
    NaN or infinity, with `BadRow`.

    Attributes
    ----------
    preparation
        Takes the d inputs out of the full row.
    weights : (d, R) float64
        R = 1 for a binary margin, else one column per class.
    intercepts : (R,) float64
    enter
        The kernel `linear_one`, compiled.
    """

    preparation: Preparation
    weights: Floats
    intercepts: Floats
    kind: ClassVar[str] = "linear"
    enter: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "enter", entry(linear_one))

    @property
    def outputs(self) -> int:
        """R, the number of raw scores."""
        return len(self.intercepts)

    @property
    def size(self) -> int:
        """Terms of each sum, one per input."""
        return len(self.columns)

    @property
    def light(self) -> bool:
        """Yes: a term is one product."""
        return True

    def raw(self, X: Rows) -> Floats:
        """Raw scores (N, R) of the full rows X (N, width)."""
        out = np.empty((len(X), self.outputs))
        Z = self.preparation.apply(X)
        if not linear(Z, self.weights, self.intercepts, out):
            self.preparation.refuse_gaps(X, Z, out)
        return out

    def raw_one(self, row: Rows) -> Floats:
        """Raw scores (R,) of one full row, which are those that `raw` gives."""
        preparation = self.preparation
        if is_dense(row, preparation.width):
            out = np.empty(len(self.intercepts))
            steps = preparation.columns, preparation.operations, preparation.table
            if self.enter(row, *steps, self.weights, self.intercepts, out):
                return out
        return SumOfTerms.raw_one(self, row)

    def margin(self) -> "Linear":
        """Give the same sums as one raw score: the difference where there are two."""
        if self.outputs == 1:
            return self
        weights = np.ascontiguousarray(self.weights[:, 1:] - self.weights[:, :1])
        intercepts = self.intercepts[1:] - self.intercepts[:1]
        return LinearDifference(self.preparation, weights, intercepts, self)

    def base_scores(self, X: Rows) -> Floats:
        """Give what each input adds to the raw scores: (N, d, R)."""
        return self.preparation.apply(X)[:, :, None] * self.weights

    def base_bias(self) -> Floats:
        """Give what the raw scores start from: (R,)."""
        return self.intercepts

    def bounds(self) -> tuple[Floats, Floats]:
        """Refuse: inputs, and so their terms, may be as large as they like."""
        raise BadInput(
            "the terms of a linear model have no bounds; trees and lattices do"
        )

    def columns_used(self, width: int) -> NDArray[np.bool_]:
        """Mark which column of full rows each term reads: (T, width)."""
        used = np.zeros((self.size, width), np.bool_)
        used[np.arange(self.size), self.columns] = True
        return used

    def pack(self, order: NDArray[Any], stops: Stops) -> PackedTerms | None:
        """Pack terms for kernels that stop, where there are any."""
        sizes = np.abs(self.weights), np.abs(self.intercepts)
        return pack_linear(self, order, stops, *sizes)

    def reach(self) -> float:
        """Give what no raw score of a finite float32 row exceeds."""
        terms = self.preparation.reach() @ np.abs(self.weights)
        return float((terms + np.abs(self.intercepts)).max())

    def draw_inputs(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw prepared inputs (count, d) from where they make a difference."""
        weights = np.abs(self.weights).max(axis=1)
        start = 0.0 if self.outputs == 1 else self.intercepts.min()
        reach = 1.0 + np.abs(self.intercepts - start).max()
        scale = reach / np.where(weights, weights, 1.0)
        drawn: Floats = scale * rng.normal(size=(count, len(weights)))
        return drawn

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays that `load` reads."""
        return {
            **self.preparation.arrays(),
            "weights": self.weights,
            "intercepts": self.intercepts,
        }

    def __repr__(self) -> str:
        return f"Linear({self.outputs} raw scores, {self.preparation!r})"

    @classmethod
    def load(cls, stored: Stored, width: int) -> "Linear":
        """Read linear sums; BadModel if the arrays are none."""
        preparation = load_preparation(stored, width)
        intercepts = stored.finite("intercepts", (None,))
        if not len(intercepts):
            raise stored.fail("it has no output")
        shape = (len(preparation.columns), len(intercepts))
        return cls(preparation, stored.finite("weights", shape), intercepts)


@dataclass(frozen=True, slots=True, eq=False)
class LinearDifference(Linear):
    """The difference of two linear sums, which may be far smaller than they are.

    Attributes
    ----------
    sums
        Both, as the model adds them.
    """

    sums: Linear

    def __reduce__(self) -> tuple[Any, ...]:
        return Linear.margin, (self.sums,)

    def pack(self, order: NDArray[Any], stops: Stops) -> PackedTerms | None:
        """Pack terms for kernels that stop, where there are any."""
        weights, intercepts = self.sums.weights, self.sums.intercepts
        sizes = np.abs(weights).sum(axis=1, keepdims=True), np.abs(intercepts).sum()
        return pack_linear(self, order, stops, *sizes)
