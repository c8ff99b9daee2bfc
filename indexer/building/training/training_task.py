"""What a worker needs to train feature sets: items, their division and a learner."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from polydom.models.selection.arms import last_step
from polydom.models.selection.learners import make_learner

from ...index.quality import Task
from ..cache import SharedArrays
from .quality import Metric

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTask:
    """All that a worker needs to train a feature set, except the set.

    It is sent with each call to a worker, usually without its arrays, which are shared.
    """

    # Arrays of N items: `values` (N, width) float32 of features and `codes` (N,) int64
    # of classes, 0 if labels are numbers. Optional are `weights` (N,) float64 of the
    # items, `class_weights` (K,) float64 for fitting alone, and `numbers` (N,) float64,
    # the labels.
    items: SharedArrays
    division: SharedArrays  # Rows of each part, by `division_of`
    metric: Metric  # Metric of quality
    learner: dict[str, Any]  # Name and parameters of the learner
    seed: int
    starts: tuple[int, ...]  # First column of each feature, and at the end the width
    key: str  # Name of the trained sets in the cache: entries `sets/{key}/{mask}`

    @property
    def values(self) -> NDArray[np.float32]:
        """Values of all features, shape (N, width)."""
        return self.items["values"]

    @property
    def codes(self) -> Rows:
        """Codes of the items' classes, shape (N,); all 0 if labels are numbers."""
        return self.items["codes"]

    @property
    def numbers(self) -> Floats | None:
        """Labels as numbers, shape (N,); None if labels are classes."""
        return self.items.get("numbers")

    @property
    def splits(self) -> list[tuple[Rows, Rows]]:
        """Pairs of training rows and testing rows: one pair, or one per fold.

        The list is empty if models are trained on all rows, and no row is left for
        testing.
        """
        count = len(self.division) // 2
        names = [(f"train_{part}", f"test_{part}") for part in range(count)]
        return [(self.division[train], self.division[test]) for train, test in names]

    @property
    def targets(self) -> NDArray[Any]:
        """Labels, shape (N,): codes of classes, or numbers for regression."""
        return self.codes if self.numbers is None else self.numbers

    @property
    def kind(self) -> Task:
        """Task that the labels imply: "classes" or "regression"."""
        return "classes" if self.numbers is None else "regression"

    @property
    def tested(self) -> Rows:
        """Positions of the items that quality is measured on, fold by fold."""
        return np.concatenate([test for _, test in self.splits])

    def estimator(self) -> Any:
        """Return a new estimator that is not fitted."""
        return make_learner(self.learner, self.seed, self.kind)

    def fitting_weights(self, rows: Rows) -> Floats | None:
        """Return weights of rows for fitting a learner; None if all are equal.

        A row's weight is the weight of its item times the weight of its class.
        """
        by_class = self.items.get("class_weights")
        if by_class is None and "weights" not in self.items:
            return None
        weights = self.weights_of(rows)
        if by_class is not None:
            weights = weights * by_class[self.codes[rows]]
            weights /= weights.mean()
        return weights

    def class_weights(self) -> Floats | None:
        """Return the weights (K,) of classes in the training of the learner.

        They are the project's class weights times those that the learner itself is set
        to. Returns None if all are equal.
        """
        classes = self.metric.classes
        weights = self.items.get("class_weights")
        found = np.ones(classes) if weights is None else weights.copy()
        codes = self.codes
        own = last_step(self.estimator()).get_params()
        named = own.get("class_weight")
        if isinstance(named, dict):
            found *= [float(named.get(code, 1.0)) for code in range(classes)]
        elif named in ("balanced", "balanced_subsample") or own.get("is_unbalance"):
            present = np.unique(codes)
            found[present] *= compute_class_weight("balanced", classes=present, y=codes)
        if classes == 2 and own.get("scale_pos_weight"):
            found[1] *= float(own["scale_pos_weight"])
        return None if np.ptp(found) == 0 else found

    def weights_of(self, rows: Rows) -> Floats:
        """Return weights of rows for measuring quality; 1 if items have no weights."""
        weights: Floats | None = self.items.get("weights")
        return np.ones(len(rows)) if weights is None else weights[rows]

    def name(self, mask: int) -> str:
        """Return the name of a set's entry in the cache."""
        return f"sets/{self.key}/{mask:x}"


def division_of(splits: Sequence[tuple[Rows, Rows]]) -> dict[str, Rows]:
    """Return splits as named arrays, the form of `TrainingTask.division`."""
    arrays = dict[str, Rows]()
    for part, (train, test) in enumerate(splits):
        arrays |= {f"train_{part}": train, f"test_{part}": test}
    return arrays


def columns_of(starts: Sequence[int], mask: int) -> NDArray[np.int32]:
    """Return a set's columns in the row of all features, as ascending positions."""
    parts = [
        np.arange(starts[f], starts[f + 1], dtype=np.int32)
        for f in range(len(starts) - 1)
        if mask >> f & 1
    ]
    return np.concatenate([np.empty(0, np.int32), *parts])
