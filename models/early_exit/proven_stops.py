"""Stops that no further base model can overrule, which need no fitting."""

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.classifier import Head
from ..scoring.kernels.link import LARGEST_SCORE, SOFTMAX
from ..scoring.remaining_bounds import bound_remaining
from ..scoring.scorer import BaseModels
from .class_score_bounds import bound_sums

Floats = NDArray[np.float64]
Order = NDArray[np.int64]


def proven_limits(
    terms: BaseModels, threshold: float, order: Order
) -> tuple[Floats, Floats]:
    """Return limits (lower, upper), (T,) each, beyond which a decision is final.

    They are for two classes: the base models after a position of `order` (T,) cannot
    move a sum beyond its limits past the threshold. Limits are infinite if base models
    have no bounds, as linear terms.
    """
    try:
        least, most = terms.bounds()
    except BadInput:
        never = np.full(len(order), np.inf)
        return -never, never
    return bound_remaining(least[:, 0], most[:, 0], order).limits(threshold)


def proven_margins(terms: BaseModels, head: Head, order: Order) -> Floats:
    """Return margins (T, K) that the base models left cannot make up for a class.

    If the leading class is ahead of class k by more than the margin at a position of
    `order` (T,), the later base models cannot put class k in the lead. Margins are
    infinite if base models have no bounds, as linear terms. They are infinite, too, if
    one of more than two classes is chosen by one-vs-rest probabilities, as two of these
    may tie at 1.
    """
    sums = bound_sums(terms, order)
    if sums is None or (head.rule == LARGEST_SCORE and head.link != SOFTMAX):
        return np.full((len(order), len(head.classes)), np.inf)
    margins = widest_gains(*sums)
    margins[-1] = np.inf  # after the last base model there is nothing left to skip
    return margins


def widest_gains(least: Floats, most: Floats) -> Floats:
    """Return the most (T, K) that each class can gain on another.

    `least` and `most` (T, K) are bounds on what is added to the sum of each class.
    """
    gains = most[:, :, None] - least[:, None, :]
    classes = np.arange(least.shape[1])
    gains[:, classes, classes] = -np.inf
    widest: Floats = gains.max(axis=2)
    return widest
