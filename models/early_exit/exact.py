"""Schedules that change no decision, of bounds instead of examples."""

from ..qwyc.schedule import Schedule
from .bounds import bound_remaining
from .ensemble import Ensemble


def exact_schedule(ensemble: Ensemble) -> Schedule:
    """Stop once no remaining base model can carry the sum over the threshold.

    No examples are needed, and on no row, fresh or not, the answer changes; but it
    takes many more base models than `fit_schedule` does at a few changes in a thousand.

    Raises
    ------
    BadInput
        If the ensemble has more than two classes, or is linear: its terms then have no
        bounds.
    """
    remainder = bound_remaining(*ensemble.bounds())
    lower, upper = remainder.limits(ensemble.threshold)
    return Schedule(remainder.order, lower, upper, ensemble.threshold)
