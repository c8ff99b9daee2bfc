"""The interface (protocol) of all compiled models."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.float32] | Floats


class Model(Protocol):
    """A fitted classifier or regressor, stored as flat arrays. Threads may share it.

    A model reads *full* rows, with the columns of all features. Its inputs are the
    columns at the positions `columns`. A server's rows are float32. A regressor has a
    single class, 0, and always chooses it; the score of that class is the predicted
    number.
    """

    @property
    def kind(self) -> str:
        """Name of the kind of model, such as "trees", for `load_model`."""

    @property
    def classes(self) -> NDArray[Any]:
        """Labels (K,), ascending: the estimator's `classes_`; [0] for a regressor."""

    @property
    def columns(self) -> NDArray[np.int32]:
        """Positions (d,) of the model's inputs in the full row."""

    def choose(self, row: Rows) -> int:
        """Return the position in `classes` of one full row's class."""

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Return a full row's class, as a position in `classes`, and class scores (K,).

        Scores are the estimator's `predict_proba` if it has one, else its
        `decision_function` (a binary margin m becomes (-m, m)), or a regressor's
        `predict`.
        """

    def predict_scores(self, X: Rows) -> Floats:
        """Return the class scores (N, K) of full rows X (N, width); see `answer`."""

    def predict(self, X: Rows) -> NDArray[Any]:
        """Predict labels or numbers (N,) for rows X, as the estimator does."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load_model` makes this model again."""
