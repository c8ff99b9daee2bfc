"""The model of the empty feature set, of numbers: their mean."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydom.features.errors import BadModel

from .model import Floats, Rows
from .stored_arrays import Stored


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """Answers with the mean of the training labels, whatever the row.

    Attributes
    ----------
    value
        The mean, finite.
    """

    value: float
    kind: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        if not np.isfinite(self.value):
            raise BadModel(f"the mean of labels is {self.value}; it must be finite")

    @classmethod
    def fit(cls, labels: ArrayLike, weights: Floats | None = None) -> "Mean":
        """Average the labels (N,), N > 0, each times its weight (N,), above 0."""
        numbers = np.asarray(labels, np.float64)
        if not len(numbers):
            raise BadModel("a mean needs at least one label")
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(float(np.average(numbers, weights=weights)))

    @property
    def classes(self) -> NDArray[np.int64]:
        """(1,) zero: there is nothing to choose from."""
        return np.zeros(1, np.int64)

    @property
    def columns(self) -> NDArray[np.int32]:
        """None: an empty array."""
        return np.empty(0, np.int32)

    def scores(self, row: Rows) -> Floats:
        """Give the mean: (1,)."""
        return np.array([self.value])

    def choose(self, row: Rows) -> int:
        """Give 0, whatever the row."""
        return 0

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """0, and the mean."""
        return 0, [self.value]

    def predict_scores(self, X: Rows) -> Floats:
        """Give the mean for each row: (N, 1)."""
        return np.full((len(X), 1), self.value)

    def predict(self, X: Rows) -> Floats:
        """Give the mean for each row: (N,)."""
        return np.full(len(X), self.value)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays that `load` reads."""
        return {"mean": np.array([self.value])}

    @classmethod
    def load(cls, stored: Stored) -> "Mean":
        """Read a mean; BadModel if the arrays are none."""
        return cls(float(stored.finite("mean", (1,))[0]))
