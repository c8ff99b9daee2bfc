"""A compiled classifier: something that gives raw scores, and a head."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadModel
from .head import Head, load_head
from .model import Rows
from .rows import take_row, take_rows
from .stored import Stored


class Scorer(Protocol):
    """Raw scores of full rows, before link function and choice."""

    @property
    def kind(self) -> str:
        """Name under which `load_model` finds it."""

    @property
    def columns(self) -> NDArray[np.int32]:
        """(d,) positions of the inputs in the full row."""

    @property
    def outputs(self) -> int:
        """R, the number of raw scores."""

    @property
    def width(self) -> int:
        """Columns that a full row must have."""

    def raw(self, X: Rows) -> NDArray[np.float64]:
        """Raw scores (N, R) of the full rows X (N, width)."""

    def raw_one(self, row: Rows) -> NDArray[np.float64]:
        """Raw scores (1, R) of one full row (width,)."""

    def margin_one(self, row: Rows) -> float | None:
        """Raw score of one full row, if there is one and it is to be had faster."""

    def reach(self) -> float:
        """Give what no raw score of a finite float32 row exceeds."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything it consists of."""


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
    """A `Model` (see there) whose raw scores and head are separate things."""

    scorer: Scorer
    head: Head

    def __repr__(self) -> str:
        return f"Classifier({self.scorer!r}, {self.head!r})"

    def __post_init__(self) -> None:
        if self.head.inputs != self.scorer.outputs:
            raise BadModel(
                f"a {self.kind} model gives {self.scorer.outputs} raw scores, its head "
                f"reads {self.head.inputs}"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return Classifier, (self.scorer, self.head)

    @property
    def kind(self) -> str:
        """Kind of the scorer."""
        return self.scorer.kind

    @property
    def classes(self) -> NDArray[Any]:
        """(K,) labels."""
        return self.head.classes

    @property
    def columns(self) -> NDArray[np.int32]:
        """(d,) positions of the inputs in the full row."""
        return self.scorer.columns

    def scores(self, row: Rows) -> NDArray[np.float64]:
        """(K,) class scores of one full row."""
        margin = self.scorer.margin_one(row)
        if margin is None:
            raw = self.scorer.raw_one(take_row(row))
        else:
            raw = np.array([[margin]])
        scores: NDArray[np.float64] = self.head.scores(raw)[0]
        return scores

    def choose(self, row: Rows) -> int:
        """Position of the chosen class of one full row."""
        margin = self.scorer.margin_one(row)
        if margin is not None:
            return self.head.choose_by(margin)
        return int(self.head.choose(self.scorer.raw_one(take_row(row)))[0])

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Position of the chosen class, and (K,) class scores, of one full row."""
        margin = self.scorer.margin_one(row)
        if margin is not None:
            return self.head.choose_by(margin), self.head.scores_by(margin)
        raw = self.scorer.raw_one(take_row(row))
        return int(self.head.choose(raw)[0]), self.head.scores(raw)[0].tolist()

    def predict_scores(self, X: Rows) -> NDArray[np.float64]:
        """(N, K) class scores."""
        return self.head.scores(self.scorer.raw(take_rows(X)))

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels."""
        return self.classes[self.head.choose(self.scorer.raw(take_rows(X)))]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays from which `load_model` makes this classifier again."""
        return {**self.head.arrays(), **self.scorer.arrays()}


def load_classifier(scorer: Scorer, stored: Stored) -> Classifier:
    """Give a loaded scorer its head; BadModel unless they fit together."""
    head = load_head(stored)
    with np.errstate(over="ignore", invalid="ignore"):
        # Scores are taken from each other before they are multiplied.
        widest = 2.0 * scorer.reach() * max(head.gain, 1.0)
    if not widest < np.inf:
        raise stored.fail("its scores leave the range of float64")
    return Classifier(scorer, head)
