"""Stages of a schedule: some features, then base models that need no others."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Stage(NamedTuple):
    """Features to compute, and the base models to evaluate before the next ones.

    Attributes
    ----------
    features
        Features to compute first, ascending; empty in a first stage without any.
    start, stop
        Positions of the schedule to evaluate then, exiting where it says so.
    """

    features: tuple[int, ...]
    start: int
    stop: int


def cut_stages(order: NDArray[np.int64], uses: NDArray[np.bool_]) -> tuple[Stage, ...]:
    """Cut a schedule's order where a base model reads features not there yet.

    Parameters
    ----------
    order : (T,)
        Base models in the order of evaluation, T >= 1.
    uses : (T, F) bool
        Which features each base model reads.

    Examples
    --------
    >>> uses = np.array([[True, False], [True, True], [False, False]])
    >>> cut_stages(np.array([2, 0, 1]), uses)
    (Stage(features=(), start=0, stop=1), Stage(features=(0,), start=1, stop=2), \
Stage(features=(1,), start=2, stop=3))
    """
    done = np.logical_or.accumulate(uses[order], axis=0)
    before = np.vstack([np.zeros(done.shape[1], np.bool_), done[:-1]])
    new = done & ~before
    starts = np.union1d([0], np.flatnonzero(new.any(axis=1)))
    stops = [*starts[1:].tolist(), len(order)]
    return tuple(
        Stage(tuple(np.flatnonzero(new[start]).tolist()), start, stop)
        for start, stop in zip(starts.tolist(), stops, strict=True)
    )
