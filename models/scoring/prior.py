"""Models without inputs: every answer is the class shares, or mean, of the labels."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydom.features.errors import BadModel

from .model import Floats, Rows
from .stored_arrays import Stored


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """The model that answers every row with the class shares of the training labels."""

    classes: NDArray[Any]  # (K,): Labels, ascending
    shares: Floats  # (K,) float64: Share of each class, in [0, 1], summing to 1
    # Position of the class that is chosen; None chooses the most frequent class
    chosen: int | None = None
    code: int = field(init=False)  # Position of the class that every answer is
    kind: ClassVar[str] = "prior"

    def __repr__(self) -> str:
        most = self.classes[self.choose(self.shares)].item()
        return f"Prior({len(self.classes)} classes, mostly {most!r})"

    def __post_init__(self) -> None:
        shares = self.shares
        if shares.shape != self.classes.shape or not len(shares):
            raise BadModel(
                f"{len(self.classes)} classes and shares of shape {shares.shape}; "
                "there must be one share per class"
            )
        if self.chosen is not None and not 0 <= self.chosen < len(shares):
            raise BadModel(f"class {self.chosen} of {len(shares)} cannot be chosen")
        if not ((shares >= 0).all() and abs(shares.sum() - 1) < 1e-9):
            raise BadModel("class shares must be non-negative and sum to 1")
        code = int(shares.argmax()) if self.chosen is None else self.chosen
        object.__setattr__(self, "code", code)

    @classmethod
    def fit(cls, labels: NDArray[Any], weights: Floats | None = None) -> "Prior":
        """Compute the share of each class among labels (N,), N > 0.

        If `weights` (N,) are given, each row counts with its positive weight, else as
        1.
        """
        if not len(labels):
            raise BadModel("class shares need at least one label")
        classes, own = np.unique(labels, return_inverse=True)
        counts = np.bincount(own, weights)
        return cls(classes, counts / counts.sum())

    @property
    def columns(self) -> NDArray[np.int32]:
        """Positions of the inputs: an empty array."""
        return np.empty(0, np.int32)

    def choose(self, row: Rows) -> int:
        """Return `chosen`, or the position of the most frequent class, the first."""
        return self.code

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Return the results of `choose`, and the class shares."""
        return self.code, self.shares.tolist()

    def predict_scores(self, X: Rows) -> Floats:
        """Return the class shares for each row: (N, K)."""
        return np.tile(self.shares, (len(X), 1))

    def predict(self, X: Rows) -> NDArray[Any]:
        """Return the class of `choose` for each row: (N,)."""
        return np.repeat(self.classes[self.choose(X)], len(X))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `load` reads."""
        own = {"classes": self.classes, "shares": self.shares}
        if self.chosen is not None:
            own["chosen"] = np.array([self.chosen])
        return own

    @classmethod
    def load(cls, stored: Stored) -> "Prior":
        """Load a `Prior`; raise BadModel if its arrays are not classes and shares."""
        classes, chosen = stored.classes(), None
        if "chosen" in stored.arrays:
            chosen = int(stored.array("chosen", np.int64, (1,))[0])
        return cls(classes, stored.finite("shares", (len(classes),)), chosen)


@dataclass(frozen=True, slots=True, eq=False)
class Mean:
    """The model that answers every row with the mean of the training labels."""

    value: float  # The mean, finite
    kind: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        if not np.isfinite(self.value):
            raise BadModel(f"the mean of labels is {self.value}; it must be finite")

    @classmethod
    def fit(cls, labels: ArrayLike, weights: Floats | None = None) -> "Mean":
        """Compute the mean of N > 0 labels, weighted by `weights` > 0 if given."""
        numbers = np.asarray(labels, np.float64)
        if not len(numbers):
            raise BadModel("a mean needs at least one label")
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(float(np.average(numbers, weights=weights)))

    @property
    def classes(self) -> NDArray[np.int64]:
        """The one class of a regressor: [0]."""
        return np.zeros(1, np.int64)

    @property
    def columns(self) -> NDArray[np.int32]:
        """Positions of the inputs: an empty array."""
        return np.empty(0, np.int32)

    def choose(self, row: Rows) -> int:
        """Return 0, the position of the one class."""
        return 0

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Return 0, the position of the one class, and the mean as its score."""
        return 0, [self.value]

    def predict_scores(self, X: Rows) -> Floats:
        """Return the mean for each row: (N, 1)."""
        return np.full((len(X), 1), self.value)

    def predict(self, X: Rows) -> Floats:
        """Return the mean for each row: (N,)."""
        return np.full(len(X), self.value)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `load` reads."""
        return {"mean": np.array([self.value])}

    @classmethod
    def load(cls, stored: Stored) -> "Mean":
        """Load a `Mean`; raise BadModel if its array is not one finite number."""
        return cls(float(stored.finite("mean", (1,))[0]))
