"""What every model offers."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.float32] | Floats


class Model(Protocol):
    """A fitted classifier or regressor as flat arrays; immutable, safe among threads.

    It reads *full* rows: `columns` says where its inputs lie in them. Online rows are
    float32; `predict` and `predict_scores` also take float64 and then do what the
    original library does with it.

    A regressor has one class, 0, which is always chosen: its score is the value.
    """

    @property
    def kind(self) -> str:
        """Name of its form, for `load_model`."""

    @property
    def classes(self) -> NDArray[Any]:
        """(K,) labels, ascending: the estimator's `classes_`; (1,) 0 of a regressor."""

    @property
    def columns(self) -> NDArray[np.int32]:
        """(d,) positions in the full row of the model's inputs."""

    def scores(self, row: Rows) -> Floats:
        """(K,) class scores of one full row (width,).

        The estimator's `predict_proba` where it has one, else its
        `decision_function`; a binary margin m is given as (-m, m). Of a regressor
        (1,), its `predict`.
        """

    def choose(self, row: Rows) -> int:
        """Position in `classes` of the estimator's own `predict` for one full row."""

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Evaluate one full row once: what `choose` and what `scores` give for it."""

    def predict_scores(self, X: Rows) -> Floats:
        """(N, K) class scores of the rows X (N, width)."""

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels, or values float64: those of the estimator's `predict`."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays from which `load_model` makes this model again."""
