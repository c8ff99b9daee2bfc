"""Bound the class scores that rows would have had if they had not stopped early."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.classifier import (
    Classifier,
    Head,
    gives_probabilities,
    gives_shares,
    logistic,
)
from ..scoring.kernels.calibration import bound_calibrated
from ..scoring.kernels.link import LOGISTIC, MARGIN, SOFTMAX, bound_scores
from ..scoring.kernels.native import entry
from ..scoring.model import Floats
from ..scoring.remaining_bounds import sums_after
from ..scoring.scorer import BaseModels

Bounds = list[tuple[float, float]]  # for each class the least and the largest score
Scores = list[float]

EPSILON = float(np.finfo(np.float64).eps)
OF_MAPS = 1e-12  # rounding error of calibrated scores


def bound_sums(
    terms: BaseModels, order: NDArray[np.int64]
) -> tuple[Floats, Floats] | None:
    """For each position of `order`, bound the sum of the base scores after it.

    Returns (least, most), each (T, R) for R raw scores, widened to allow for rounding
    errors. Returns None if base scores have no bounds, as in linear models.
    """
    try:
        least, most = terms.bounds()
    except BadInput:
        return None
    bias = np.abs(terms.base_bias())
    largest = np.maximum(np.abs(least), np.abs(most)).sum(axis=0) + bias
    # Adding T floats has an error below T epsilon times the sum of their magnitudes.
    slack = 4 * (len(order) + 4) * EPSILON * largest
    return sums_after(least, order) - slack, sums_after(most, order) + slack


def rounding_of(classifier: Classifier) -> Floats:
    """Return the three numbers by which bounds on class scores allow for rounding.

    These are (width, least, largest). Lower bounds are reduced by `width`, and upper
    bounds are raised by `width`. Both are then clipped to [least, largest].
    """
    if not gives_probabilities(classifier):
        return np.array([0.0, -np.inf, np.inf])
    of_links = (len(classifier.classes) + 16) * EPSILON
    calibrated = classifier.head.calibration is not None
    return np.array([OF_MAPS if calibrated else of_links, 0.0, 1.0])


def scores_by_difference(classifier: Classifier) -> Callable[[float], Scores] | None:
    """Return a function that computes a row's two class scores from its margin.

    The margin is the only raw score, or the second of two raw scores minus the first.
    Returns None if the margin does not determine the class scores.
    """
    head = classifier.head
    shares = head.link == MARGIN and gives_shares(classifier.scorer)
    if not (head.inputs == 1 or head.link == SOFTMAX or shares):
        return None
    if head.link != LOGISTIC or head.calibration is not None:
        return head.scores_by
    gain = head.gain

    def scores(difference: float) -> Scores:
        share = logistic(gain * difference)
        return [1.0 - share, share]

    return scores


def bound_by_difference(
    classifier: Classifier, terms: BaseModels, order: NDArray[np.int64]
) -> Callable[[int, float], Bounds] | None:
    """Return a function that bounds the two class scores of a row that stopped early.

    The function takes the number of base models used, in `order`, and the row's sum
    over them. It returns (least, largest) for each class. None is returned instead of a
    function if the model's class scores cannot be bounded.
    """
    scores, sums = scores_by_difference(classifier), bound_sums(terms, order)
    if scores is None or sums is None:
        return None
    least, most = ((ends[:, 0] + terms.base_bias()[0]).tolist() for ends in sums)
    wide, floor, ceiling = rounding_of(classifier).tolist()
    plain = classifier.head.calibration is None
    if plain and classifier.head.link in (LOGISTIC, SOFTMAX):
        return _bound_logistic(least, most, classifier.head.gain, wide)

    # The first class's score falls as the difference grows, the second's rises.
    def bounds(used: int, total: float) -> Bounds:
        high, low = scores(total + least[used - 1])
        other, top = scores(total + most[used - 1])
        return [
            (max(other - wide, floor), min(high + wide, ceiling)),
            (max(low - wide, floor), min(top + wide, ceiling)),
        ]

    return bounds


def _bound_logistic(
    least: Scores, most: Scores, gain: float, wide: float
) -> Callable[[int, float], Bounds]:
    def bounds(used: int, total: float) -> Bounds:
        low = logistic(gain * (total + least[used - 1])) - wide
        high = logistic(gain * (total + most[used - 1])) + wide
        low = low if low > 0.0 else 0.0
        high = high if high < 1.0 else 1.0
        return [(1.0 - high, 1.0 - low), (low, high)]

    return bounds


@dataclass(frozen=True, slots=True, eq=False)
class ClassBounds:
    """Computes bounds on the class scores of rows that stopped early; K > 2 classes."""

    # `least` and `most`: (T, K): Bounds on what the base models after each position add
    # to the sums, from `bound_sums`
    least: Floats
    most: Floats
    head: Head  # The classifier's head, which turns whole sums into class scores
    rounding: Floats  # (3,): Result of `rounding_of`
    # Compiled `bound_scores`, and `bound_calibrated` for a calibrated head
    bound: Any
    bound_map: Any

    def of(self, used: int, totals: Floats) -> Bounds:
        """Return bounds (least, largest) on the row's score for each of K classes.

        The row stopped after `used` >= 1 base models, with the sums `totals` (K,).
        """
        out, head = np.empty(2 * len(totals)), self.head
        sums, calibration = (totals, self.least, self.most), head.calibration
        if calibration is None or calibration.logs:
            self.bound(*sums, used - 1, head.link, head.gain, self.rounding, out)
        if calibration is not None:
            low, high = out[::2].copy(), out[1::2].copy()
            if not calibration.logs:
                low = head.gain * (totals + self.least[used - 1])
                high = head.gain * (totals + self.most[used - 1])
            self.bound_map(low, high, calibration.logs, calibration.table, OF_MAPS, out)
        pairs = iter(out.tolist())
        return list(zip(pairs, pairs, strict=True))


def bound_by_class(
    classifier: Classifier, terms: BaseModels, order: NDArray[np.int64]
) -> ClassBounds | None:
    """Make `ClassBounds` for an order of base models; None if these have no bounds."""
    sums = bound_sums(terms, order)
    if sums is None:
        return None
    least, most = (np.ascontiguousarray(ends) for ends in sums)
    rounding = rounding_of(classifier)
    head, mapped = classifier.head, None
    if head.calibration is not None:
        mapped = entry(bound_calibrated)
    return ClassBounds(least, most, head, rounding, entry(bound_scores), mapped)
