"""Gaussian naive Bayes; the discrete kinds of naive Bayes are linear sums."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..scoring.model import Floats, Rows
from ..scoring.preparation import Preparation, load_preparation
from ..scoring.scorer import Scorer
from ..scoring.stored_arrays import Stored
from .kernels.sums import gaussian


@dataclass(frozen=True, slots=True, eq=False)
class Gaussian(Scorer):
    """Gaussian naive Bayes: a normal distribution for each class and input.

    Rows with NaN or infinity raise BadRow.
    """

    preparation: Preparation  # Step from full rows to the d inputs
    # `means` and `variances`: (K, d) float64: Moments of each input, class by class
    means: Floats
    variances: Floats
    # (K,) float64: Sum of the log prior and the normalising terms of each class
    constants: Floats
    kind: ClassVar[str] = "gaussian"

    @property
    def outputs(self) -> int:
        """The number K of classes."""
        return len(self.constants)

    def raw(self, X: Rows) -> Floats:
        """Compute the joint log-likelihoods (N, K) of full rows X (N, width)."""
        out = np.empty((len(X), self.outputs))
        Z = self.preparation.apply(X)
        if not gaussian(Z, self.means, self.variances, self.constants, out):
            self.preparation.refuse_gaps(X, Z, out)
        return out

    def reach(self) -> float:
        """Return a bound on absolute log-likelihoods, for rows of finite float32."""
        gaps = self.preparation.reach() + np.abs(self.means)
        terms = (gaps * gaps / self.variances).sum(axis=1)
        return float((terms + np.abs(self.constants)).max())

    def draw_inputs(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw random prepared inputs (count, d), for which decisions differ."""
        k = rng.integers(len(self.means), size=count)
        spread = np.sqrt(self.variances[k])
        return self.means[k] + spread * rng.normal(size=spread.shape)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load` makes this model again."""
        return {
            **self.preparation.arrays(),
            "means": self.means,
            "variances": self.variances,
            "constants": self.constants,
        }

    def __repr__(self) -> str:
        return f"Gaussian({self.outputs} raw scores, {self.preparation!r})"

    @classmethod
    def load(cls, stored: Stored, width: int) -> "Gaussian":
        """Load the model; raise BadModel if the stored arrays are invalid."""
        preparation = load_preparation(stored, width)
        constants = stored.finite("constants", (None,))
        if not len(constants):
            raise stored.fail("it has no class")
        shape = (len(constants), len(preparation.columns))
        variances = stored.finite("variances", shape)
        if not (variances > 0).all():
            raise stored.fail("a variance is not greater than 0")
        return cls(preparation, stored.finite("means", shape), variances, constants)
