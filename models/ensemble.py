"""Models as sums of base models, of which some can be left out."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput, BadModel
from .classifier import Classifier
from .linear import Linear
from .model import Rows
from .trees import Trees

# Sums in another order differ by rounding; nearer to the threshold than this share of
# the largest possible sum, the library's own order decides.
NEAR = 1e-9


class Schedule(Protocol):
    """In which order base models are evaluated, and when that is enough.

    After base model `order[t]` the answer is the negative class if the sum so far is
    below `lower[t]`, the positive one if it is above `upper[t]`.
    """

    @property
    def order(self) -> NDArray[np.int64]:
        """(T,) positions of the base models."""

    @property
    def lower(self) -> NDArray[np.float64]:
        """(T,) below this after each base model: negative."""

    @property
    def upper(self) -> NDArray[np.float64]:
        """(T,) above this after each base model: positive."""


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """A compiled classifier seen as the sum of its T base models.

    A base model is a tree, or one term of a linear model.
    """

    classifier: Classifier

    @property
    def size(self) -> int:
        """T, the number of base models."""
        scorer = self.classifier.scorer
        if isinstance(scorer, Trees):
            return len(scorer.targets)
        return len(scorer.columns)

    @property
    def classes(self) -> NDArray[Any]:
        """(K,) labels."""
        return self.classifier.classes

    @property
    def threshold(self) -> float:
        """The sum of the base scores above which the second of two classes is chosen.

        At the threshold itself the original library's rule decides.
        """
        bias = self._scorer().base_bias()
        if self._outputs() != 1:
            raise BadInput("only an ensemble for two classes has one threshold")
        return -float(bias[0])

    def base_scores(self, X: Rows) -> NDArray[np.float64]:
        """Give what each base model adds to the decision for the rows X (N, width).

        (N, T) for two classes, where a forest's tree adds the difference of its two
        class shares; (N, T, K) for more.
        """
        scores = self._scorer().base_scores(X)
        if scores.shape[2] == 2 == len(self.classes):
            return scores[:, :, 1] - scores[:, :, 0]
        return scores[:, :, 0] if scores.shape[2] == 1 else scores

    def decision_function(self, X: Rows) -> NDArray[np.float64]:
        """Sum over all base models: (N,) for two classes, else (N, K).

        The original's `decision_function` to the bit where it has one and sums in
        float64; for a forest of two classes the difference of its probabilities.
        """
        raw = self.classifier.scorer.raw(X)
        if raw.shape[1] == 2 == len(self.classes):
            return raw[:, 1] - raw[:, 0]
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels, those of the original's `predict`."""
        return self.classifier.predict(X)

    def predict_early(self, X: Rows, schedule: Schedule) -> NDArray[Any]:
        """(N,) labels, of which those the schedule cuts short may differ.

        Raises
        ------
        BadInput
            If there are more than two classes, or the schedule is for another number
            of base models.
        """
        return self.decide_early(X, schedule)[0]

    def decide_early(
        self, X: Rows, schedule: Schedule
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """(N,) labels and the number of base models each of them took."""
        self._check(schedule)
        sums = self.base_scores(X)[:, schedule.order].cumsum(axis=1)
        negative, positive = sums < schedule.lower, sums > schedule.upper
        stops = negative | positive
        used = np.where(stops.any(axis=1), stops.argmax(axis=1) + 1, self.size)
        rows = np.arange(len(X))
        chosen = np.where(
            stops.any(axis=1),
            positive[rows, used - 1],
            sums[:, -1] > self.threshold,
        ).astype(np.int64)
        near = np.abs(sums[:, -1] - self.threshold) <= NEAR * np.abs(sums).max(
            axis=1, initial=abs(self.threshold)
        )
        doubtful = near & ~stops.any(axis=1)
        if doubtful.any():
            exact = self.classifier.head.choose(self.classifier.scorer.raw(X[doubtful]))
            chosen[doubtful] = exact
        return self.classes[chosen], used

    def _check(self, schedule: Schedule) -> None:
        T = self.size
        order = np.asarray(schedule.order)
        if order.shape != (T,) or not np.array_equal(np.sort(order), np.arange(T)):
            raise BadInput(f"the schedule is not an order of {T} base models")
        if schedule.lower.shape != (T,) or schedule.upper.shape != (T,):
            raise BadInput(f"the schedule's limits are not {T} each")

    def _outputs(self) -> int:
        outputs = self.classifier.scorer.outputs
        return 1 if outputs == 2 == len(self.classes) else outputs

    def _scorer(self) -> Trees | Linear:
        scorer = self.classifier.scorer
        if not isinstance(scorer, Trees | Linear):
            raise BadModel(f"a {scorer.kind} model is no sum of base models")
        return scorer
