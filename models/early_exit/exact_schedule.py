"""Exact schedules, which need no fitting: rows stop once their class cannot change."""

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.kernels.link import LARGEST_SCORE, SOFTMAX
from ..scoring.remaining_bounds import bound_remaining
from .class_score_bounds import bound_sums
from .ensemble import Ensemble

Floats = NDArray[np.float64]


def exact_schedule(ensemble: Ensemble) -> Schedule | MarginSchedule:
    """Make a schedule that stops a row once no further base model can change its class.

    With two classes, a row stops if the remaining base models cannot move its sum past
    the threshold. With more classes, it stops if they cannot raise another class above
    the leading class. The schedule needs no rows to fit on, and changes no answer. But
    rows use many more base models than with a schedule from `fit_schedule` that may
    change a few answers in a thousand.

    Raises BadInput for a linear ensemble, as its terms have no bounds. Also raises
    BadInput if one of more than two classes is chosen by one-vs-rest probabilities, as
    two of these may tie at 1.
    """
    if not ensemble.binary:
        return _exact_margins(ensemble)
    remaining = bound_remaining(*ensemble.bounds())
    lower, upper = remaining.limits(ensemble.threshold)
    return Schedule(remaining.order, lower, upper, ensemble.threshold)


def _exact_margins(ensemble: Ensemble) -> MarginSchedule:
    head = ensemble.classifier.head
    if head.rule == LARGEST_SCORE and head.link != SOFTMAX:
        raise BadInput(
            "classes that are chosen by probabilities of each against the rest may tie "
            "where their sums do not: nothing proves which is chosen"
        )
    least, most = ensemble.terms.bounds()
    order = np.argsort(-_widest(least, most), kind="stable")
    bounds = bound_sums(ensemble.terms, order)
    assert bounds is not None  # because each base model has bounds
    margin = _widest(*bounds)
    margin[-1] = np.inf  # after the last base model there is nothing left to skip
    return MarginSchedule(order, margin, ensemble.bias)


def _widest(least: Floats, most: Floats) -> Floats:
    """Return the largest difference (T,) between what two classes can gain.

    `least` and `most` (T, K) are bounds on what is added to the sum of each class.
    """
    gains = most[:, :, None] - least[:, None, :]
    classes = np.arange(least.shape[1])
    gains[:, classes, classes] = -np.inf
    widest: Floats = gains.max(axis=(1, 2))
    return widest
