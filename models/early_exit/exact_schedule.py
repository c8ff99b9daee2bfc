"""Exact schedules, which need no fitting: rows stop once their class cannot change."""

import numpy as np

from polydom.features.errors import BadInput

from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.remaining_bounds import bound_remaining
from .ensemble import Ensemble
from .proven_stops import proven_margins, widest_gains


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
    widest = widest_gains(*ensemble.terms.bounds()).max(axis=1)
    order = np.argsort(-widest, kind="stable")
    margins = proven_margins(ensemble.terms, ensemble.classifier.head, order)
    if not np.isfinite(margins[:-1]).all():
        raise BadInput(
            "classes that are chosen by probabilities of each against the rest may tie "
            "where their sums do not: nothing proves which is chosen"
        )
    return MarginSchedule(order, margins.max(axis=1), ensemble.bias)
