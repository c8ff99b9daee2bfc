"""The model of the empty feature set: how often each class occurs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from .model import Floats, Rows
from .stored_arrays import Stored


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Answers with the class shares of the training labels, whatever the row.

    Attributes
    ----------
    classes : (K,)
        Labels, ascending.
    shares : (K,) float64
        Share of each class, in [0, 1], summing to 1.
    """

    classes: NDArray[Any]
    shares: Floats
    kind: ClassVar[str] = "prior"

    def __repr__(self) -> str:
        most = self.classes[self.shares.argmax()].item()
        return f"Prior({len(self.classes)} classes, mostly {most!r})"

    def __post_init__(self) -> None:
        shares = self.shares
        if shares.shape != self.classes.shape or not len(shares):
            raise BadModel(
                f"{len(self.classes)} classes and shares of shape {shares.shape}; "
                "there must be one share per class"
            )
        if not ((shares >= 0).all() and abs(shares.sum() - 1) < 1e-9):
            raise BadModel("class shares must be non-negative and sum to 1")

    @classmethod
    def fit(cls, labels: NDArray[Any], weights: Floats | None = None) -> "Prior":
        """Count the labels (N,), N > 0, or add up their weights (N,), each above 0."""
        if not len(labels):
            raise BadModel("class shares need at least one label")
        classes, own = np.unique(labels, return_inverse=True)
        counts = np.bincount(own, weights)
        return cls(classes, counts / counts.sum())

    @property
    def columns(self) -> NDArray[np.int32]:
        """None: an empty array."""
        return np.empty(0, np.int32)

    def scores(self, row: Rows) -> Floats:
        """Give the class shares (K,)."""
        return self.shares

    def choose(self, row: Rows) -> int:
        """Position of the most frequent class, the first of ties."""
        return int(self.shares.argmax())

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Position of the most frequent class, and the class shares."""
        return self.choose(row), self.shares.tolist()

    def predict_scores(self, X: Rows) -> Floats:
        """Give the class shares for each row: (N, K)."""
        return np.tile(self.shares, (len(X), 1))

    def predict(self, X: Rows) -> NDArray[Any]:
        """Give the most frequent class for each row: (N,)."""
        return np.repeat(self.classes[self.shares.argmax()], len(X))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays that `load` reads."""
        return {"classes": self.classes, "shares": self.shares}

    @classmethod
    def load(cls, stored: Stored) -> "Prior":
        """Read a prior; BadModel if the arrays are none."""
        classes = stored.classes()
        return cls(classes, stored.finite("shares", (len(classes),)))
