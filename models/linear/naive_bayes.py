"""Raw scores of Gaussian naive Bayes; the discrete kinds are linear sums."""

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
    """One normal distribution per class and input.

    Log-likelihoods are summed input by input; NumPy sums pairwise, so they may differ
    from scikit-learn's in the last bits, and a choice only where classes tie within
    that. Like it, they refuse rows with NaN or infinity, with `BadRow`.

    Attributes
    ----------
    preparation
        Takes the d inputs out of the full row.
    means, variances : (K, d) float64
    constants : (K,) float64
        Log prior and normalising terms of each class.
    """

    preparation: Preparation
    means: Floats
    variances: Floats
    constants: Floats
    kind: ClassVar[str] = "gaussian"

    @property
    def outputs(self) -> int:
        """K: a log-likelihood per class."""
        return len(self.constants)

    def raw(self, X: Rows) -> Floats:
        """Joint log-likelihoods (N, K) of the full rows X (N, width)."""
        out = np.empty((len(X), self.outputs))
        Z = self.preparation.apply(X)
        if not gaussian(Z, self.means, self.variances, self.constants, out):
            self.preparation.refuse_gaps(X, Z, out)
        return out

    def reach(self) -> float:
        """Give what no log-likelihood of a finite float32 row exceeds."""
        gaps = self.preparation.reach() + np.abs(self.means)
        terms = (gaps * gaps / self.variances).sum(axis=1)
        return float((terms + np.abs(self.constants)).max())

    def draw_inputs(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw prepared inputs (count, d) from where they make a difference."""
        k = rng.integers(len(self.means), size=count)
        spread = np.sqrt(self.variances[k])
        return self.means[k] + spread * rng.normal(size=spread.shape)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays that `load` reads."""
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
        """Read the distributions; BadModel if the arrays are none."""
        preparation = load_preparation(stored, width)
        constants = stored.finite("constants", (None,))
        if not len(constants):
            raise stored.fail("it has no class")
        shape = (len(constants), len(preparation.columns))
        variances = stored.finite("variances", shape)
        if not (variances > 0).all():
            raise stored.fail("a variance is not greater than 0")
        return cls(preparation, stored.finite("means", shape), variances, constants)
