"""Class scores of a row from its sums, and what they can come to where it stopped."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.classifier import Classifier, Head, logistic
from ..scoring.kernels.link import LOGISTIC, MARGIN, SOFTMAX
from ..scoring.kernels.native import entry
from ..scoring.kernels.score_bounds import bound_scores
from ..scoring.model import Floats
from ..scoring.remaining_bounds import sums_after
from ..scoring.scorer import BaseModels, SumOfTerms

Bounds = list[tuple[float, float]]  # of each class: least and most
Scores = list[float]

EPSILON = float(np.finfo(np.float64).eps)


def bound_sums(
    terms: BaseModels, order: NDArray[np.int64]
) -> tuple[Floats, Floats] | None:
    """Least and most (T, R) that base models after each position of an order add.

    Rounding is in them: of sums in this order, in another, and of their difference.
    None where base models have no bounds.
    """
    try:
        least, most = terms.bounds()
    except BadInput:
        return None
    bias = np.abs(terms.base_bias())
    largest = np.maximum(np.abs(least), np.abs(most)).sum(axis=0) + bias
    slack = 4 * (len(order) + 4) * EPSILON * largest
    return sums_after(least, order) - slack, sums_after(most, order) + slack


def rounding_of(classifier: Classifier) -> Floats:
    """By how much bounds of class scores are widened, and between what they lie: (3,).

    Raw scores' own rounding is not in it.
    """
    head, scorer = classifier.head, classifier.scorer
    of_links = (len(head.classes) + 16) * EPSILON
    if head.link != MARGIN:
        return np.array([of_links, 0.0, 1.0])
    if isinstance(scorer, SumOfTerms) and scorer.gives_shares():
        return np.array([of_links, 0.0, 1.0])
    return np.array([0.0, -np.inf, np.inf])


def scores_by_difference(classifier: Classifier) -> Callable[[float], Scores] | None:
    """Find how class scores (2,) follow from the difference of two raw scores.

    One raw score is such a difference itself. None where they do not follow from it.
    """
    head, scorer, gain = classifier.head, classifier.scorer, classifier.head.gain
    if head.inputs == 1 and head.link != LOGISTIC:
        return head.scores_by
    if head.link == LOGISTIC and head.inputs == 1:

        def scores(apart: float) -> Scores:
            share = logistic(gain * apart)
            return [1.0 - share, share]

        return scores
    if head.link == SOFTMAX:
        return lambda apart: [logistic(-gain * apart), logistic(gain * apart)]
    if head.link == MARGIN and isinstance(scorer, SumOfTerms) and scorer.gives_shares():
        return lambda apart: [0.5 - 0.5 * apart, 0.5 + 0.5 * apart]
    return None


def bound_by_difference(
    classifier: Classifier, terms: BaseModels, order: NDArray[np.int64]
) -> Callable[[int, float], Bounds] | None:
    """Find how two classes' scores are bounded, where that can be said.

    Returns
    -------
    A function of how many base models were used, at least 1, and of their sum.
    """
    scores, sums = scores_by_difference(classifier), bound_sums(terms, order)
    if scores is None or sums is None:
        return None
    least, most = ((ends[:, 0] + terms.base_bias()[0]).tolist() for ends in sums)
    wide, floor, ceiling = rounding_of(classifier).tolist()
    if classifier.head.link in (LOGISTIC, SOFTMAX):
        return _bound_logistic(least, most, classifier.head.gain, wide)

    # Class scores ascend, and descend, with the difference.
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
    """Bound shares of two classes, which are logistic functions of their difference."""

    def bounds(used: int, total: float) -> Bounds:
        low = logistic(gain * (total + least[used - 1])) - wide
        high = logistic(gain * (total + most[used - 1])) + wide
        low = low if low > 0.0 else 0.0
        high = high if high < 1.0 else 1.0
        return [(1.0 - high, 1.0 - low), (low, high)]

    return bounds


@dataclass(frozen=True, slots=True, eq=False)
class ClassBounds:
    """Bounds of K > 2 class scores, from the running sums after each base model.

    Attributes
    ----------
    least, most : (T, K)
        What the base models after each position can add, rounding included.
    head
        Makes class scores of whole sums.
    rounding : (3,)
        As `rounding_of` gives it.
    bound
        Compiled function that bounds scores.
    """

    least: Floats
    most: Floats
    head: Head
    rounding: Floats
    bound: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", entry(bound_scores))

    def of(self, used: int, totals: Floats) -> Bounds:
        """Bounds of each class after `used` >= 1 base models."""
        out, head = np.empty(2 * len(totals)), self.head
        sums = totals, self.least, self.most
        self.bound(*sums, used - 1, head.link, head.gain, self.rounding, out)
        pairs = iter(out.tolist())
        return list(zip(pairs, pairs, strict=True))


def bound_by_class(
    classifier: Classifier, terms: BaseModels, order: NDArray[np.int64]
) -> ClassBounds | None:
    """Bound what the scores of K > 2 classes can come to, where that can be said."""
    sums = bound_sums(terms, order)
    if sums is None:
        return None
    least, most = (np.ascontiguousarray(ends) for ends in sums)
    return ClassBounds(least, most, classifier.head, rounding_of(classifier))
