"""Models as sums of base models, of which some can be left out."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput, BadModel
from ._layout_kernels import NEAR, POSITIVE, UNDECIDED
from .bound_rows import bind
from .classifier import Classifier
from .lattice_layout import LatticeLayout, pack_lattices
from .lattice_layout import early_entry as lattice_entry
from .lattices import Lattices
from .layout import DENSE, SINGLE, Layout, pack
from .lead_exit import (
    ClassSums,
    LeadExit,
    LeadSchedule,
    Terms,
    check_limits,
    check_order,
    make_lead_exit,
)
from .model import Rows
from .remainder import score_bounds
from .rows import take_row, take_rows
from .sums import whole_sums
from .trees import Trees
from .uses import columns_used


class Schedule(Protocol):
    """In which order base models are evaluated, and when that is enough.

    After base model `order[t]` the answer is the negative class if the sum so far is
    below `lower[t]`, the positive one if it is above `upper[t]`. Where it has a
    `threshold` of its own, a whole sum is positive iff it is at least that; without
    one the original's rule decides.
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

    A base model is a tree, a lattice, or one term of a linear model; in boosting for
    K > 2 classes it is a round, which has a tree for each class.

    Attributes
    ----------
    classifier
        The whole of it.
    margin
        For two classes: base scores of which the sum, with its bias, decides.
    sums
        For more classes: base scores of which, with their bias, the largest sum wins.
    """

    classifier: Classifier
    margin: Terms | None
    sums: ClassSums | None

    def __repr__(self) -> str:
        return f"Ensemble({self.classifier!r}, {self.size} base models)"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_ensemble, (self.classifier,)

    @property
    def size(self) -> int:
        """T, the number of base models."""
        if self.sums is not None:
            return self.sums.size
        return self._margin().size

    @property
    def bias(self) -> NDArray[np.float64]:
        """(K,) what each of K > 2 classes has before the first base model."""
        if self.sums is None:
            raise BadInput("an ensemble for two classes has a threshold, no bias")
        return self.sums.bias

    @property
    def classes(self) -> NDArray[Any]:
        """(K,) labels."""
        return self.classifier.classes

    @property
    def threshold(self) -> float:
        """The sum of the base scores above which the second of two classes is chosen.

        At the threshold itself the original library's rule decides.
        """
        return -float(self._margin().base_bias()[0])

    def base_scores(self, X: Rows) -> NDArray[np.float64]:
        """Give what each base model adds to the decision for the rows X (N, width).

        (N, T) for two classes, where a forest's tree adds the difference of its two
        class shares; (N, T, K) for more.
        """
        X = take_rows(X)
        if self.sums is not None:
            return self.sums.base_scores(X)
        scores: NDArray[np.float64] = self._margin().base_scores(X)[:, :, 0]
        return scores

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest score (T,) of each base model, whatever the row.

        Raises
        ------
        BadInput
            If there are more than two classes, or the base models are linear terms,
            which have no bounds.
        """
        return score_bounds(self._margin())

    def uses(self, width: int) -> NDArray[np.bool_]:
        """Which columns of rows of `width` columns each base model reads: (T, width).

        For `fit_schedule(..., feature_costs, uses)`, where a column is a feature.
        """
        if self.sums is None:
            return columns_used(self._margin(), width)
        each = columns_used(self.sums.scorer, width)
        return np.logical_or.reduceat(each, np.arange(0, len(each), self.sums.group))

    def decision_function(self, X: Rows) -> NDArray[np.float64]:
        """Sum over all base models: (N,) for two classes, else (N, K).

        The original's `decision_function` to the bit where it has one and sums in
        float64; for a forest of two classes the difference of its probabilities.
        """
        raw = self.classifier.scorer.raw(take_rows(X))
        if raw.shape[1] == 2 == len(self.classes):
            return raw[:, 1] - raw[:, 0]
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels, those of the original's `predict`."""
        return self.classifier.predict(X)

    def predict_early(self, X: Rows, schedule: Schedule | LeadSchedule) -> NDArray[Any]:
        """(N,) labels, of which those that the schedule cuts short may differ."""
        return self.early_exit(schedule).predict(X)

    def early_exit(self, schedule: Schedule | LeadSchedule) -> "EarlyExit | LeadExit":
        """Make the evaluator that follows a schedule, for more than one call.

        Raises
        ------
        BadInput
            If the schedule is not one for T base models and as many classes, or its
            bias is another ensemble's.
        """
        if isinstance(schedule, LeadSchedule):
            if self.sums is None:
                raise BadInput("this schedule is for more than two classes")
            return make_lead_exit(self.classifier, self.sums, schedule)
        self._margin()
        order = check_order(schedule.order, self.size)
        lower, upper = (
            check_limits(name, getattr(schedule, name), self.size)
            for name in ("lower", "upper")
        )
        threshold = float(getattr(schedule, "threshold", self.threshold))
        if not np.isfinite(threshold):
            raise BadInput(
                f"the schedule's threshold is {threshold}; it must be finite"
            )
        return make_early_exit(self, order, lower, upper, threshold)

    def _margin(self) -> Terms:
        if self.margin is None:
            raise BadInput("only an ensemble for two classes has one threshold")
        return self.margin


@dataclass(frozen=True, slots=True, eq=False)
class EarlyExit:
    """An ensemble for two classes that stops where a schedule says so.

    At the ensemble's own threshold whole sums decide as the original's `predict`, at
    another operating point as `Schedule.evaluate` does.
    """

    ensemble: Ensemble
    order: NDArray[Any]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    layout: Layout | LatticeLayout | None
    threshold: float
    width: int  # of rows for the kernel; without one, of none
    enter: Any  # the kernel: from a row and an address to an answer
    at: int

    def __repr__(self) -> str:
        return f"EarlyExit({self.ensemble!r}, threshold={self.threshold:g})"

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.ensemble, self.order, self.lower, self.upper, self.threshold)
        return make_early_exit, parts

    @property
    def near(self) -> float:
        """How far from the threshold a whole sum decides by itself."""
        return _near(self.threshold)

    def choose(self, row: Rows) -> int:
        """Position of the chosen class of one full row (width,)."""
        # What `Layout.takes` says, here where a call would cost as much as some trees.
        try:
            fits = (
                row.dtype is SINGLE and row.strides == DENSE and len(row) >= self.width
            )
        except AttributeError:  # no array, which is asked for here at no cost
            fits = False
        if fits:
            answer: int = self.enter(row, self.at)
            if answer != UNDECIDED:
                return answer
            return int(self._exact(row[None])[0])
        return int(self.choices(take_row(row)[None])[0][0])

    def over(self, X: NDArray[np.float32]) -> Callable[[int], int]:
        """Make a function that is `choose` for row i of X (N, width), given i.

        It costs about half of `choose`, as a number is handed over faster than an
        array. It keeps X alive and reads it at each call, so that an array of one row
        can be filled again and again: by the thread that calls. It raises BadInput
        where there is no row i.

        Raises
        ------
        BadInput
            Unless X is float32, two-dimensional, without gaps and wide enough.
        """
        return bind(X, self.layout, self.choose)

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels."""
        return self.ensemble.classes[self.choices(X)[0]]

    def choices(self, X: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(N,) positions of the chosen classes, and base models used for each."""
        layout, X = self.layout, take_rows(X)
        if layout is not None and X.dtype == np.float32 and X.shape[1] >= layout.width:
            sums, codes = layout.exits(np.ascontiguousarray(X))
        else:
            sums, codes = None, self._walk(X)
        used, answers = codes >> 2, codes & 3
        open_ = answers == UNDECIDED
        if sums is None:
            answers[open_] = self._exact(X[open_])
        else:
            answers[open_] = self._finish(X[open_], sums[open_])
        return answers, used

    def _walk(self, X: Rows) -> NDArray[np.int64]:
        """Find the codes of `layout.exits` from all base scores."""
        sums = self.ensemble.base_scores(X)[:, self.order].cumsum(axis=1)
        negative, positive = sums < self.lower, sums > self.upper
        stops = negative | positive
        last = np.where(stops.any(axis=1), stops.argmax(axis=1), len(self.order) - 1)
        rows = np.arange(len(X))
        answers = np.where(positive[rows, last], POSITIVE, 0)
        answers = np.where(stops[rows, last], answers, UNDECIDED)
        return 4 * (last + 1) + answers

    def _finish(self, X: Rows, sums: NDArray[np.float64]) -> NDArray[np.int64]:
        """Choices for rows whose whole sum is known."""
        chosen = (sums > self.threshold).astype(np.int64)
        near = np.abs(sums - self.threshold) <= self.near
        if near.any():
            chosen[near] = self._exact(X[near])
        return chosen

    def _exact(self, X: Rows) -> NDArray[np.int64]:
        """Choices by whole sums, added in the order that rounds as it should."""
        if self.threshold == self.ensemble.threshold:
            exact = self.ensemble.classifier
            return exact.head.choose(exact.scorer.raw(X))
        sums = whole_sums(self.ensemble.base_scores(X))
        return (sums >= self.threshold).astype(np.int64)


def make_early_exit(
    ensemble: Ensemble,
    order: NDArray[np.int64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    threshold: float,
) -> EarlyExit:
    """Pack an ensemble for two classes for checked limits, where that goes."""
    margin = ensemble.margin
    layout: Layout | LatticeLayout | None = None
    enter, at = None, 0
    if isinstance(margin, Lattices):
        layout = pack_lattices(margin, order, np.stack((lower, upper)))
        if layout is not None:
            enter, at = _by_sum(threshold), layout.address
    elif isinstance(margin, Trees) and margin.packable(_near(threshold)):
        moved = replace(margin, bias=np.array([-threshold]))
        layout = pack(moved, order, (lower, upper))
        if layout is not None:
            enter, at = layout.enter, layout.at
    width = sys.maxsize if layout is None else layout.width
    return EarlyExit(ensemble, order, lower, upper, layout, threshold, width, enter, at)


def _near(threshold: float) -> float:
    return NEAR * max(1.0, abs(threshold))


def _by_sum(threshold: float) -> Callable[[Rows, int], int]:
    """Make the kernel that stops lattices answer by whole sums too."""
    near = _near(threshold)

    def enter(row: Rows, address: int) -> int:
        total = np.empty(1)
        answer: int = lattice_entry(row, address, total) & 3
        if answer != UNDECIDED:
            return answer
        above = float(total[0]) - threshold
        return int(above > 0) if abs(above) > near else UNDECIDED

    return enter


def as_ensemble(classifier: Classifier) -> Ensemble:
    """See a classifier as an ensemble; BadModel if its scores are no sums."""
    scorer = _terms(classifier.scorer)
    if len(classifier.classes) == 2:
        return Ensemble(classifier, scorer.margin(), None)
    return Ensemble(classifier, None, ClassSums(scorer))


def _terms(scorer: Any) -> Terms:
    if not isinstance(scorer, Terms):
        raise BadModel(f"a {scorer.kind} model is no sum of base models")
    return scorer
