"""Bounds on the sum of the base models that are not yet evaluated for a row.

The score of base model t lies in [least[t], most[t]]. These are the smallest and the
largest leaf of a tree, or vertex of a lattice. An early exit at these bounds is exact:
it never changes a decision, and needs no training rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .model import Floats


@dataclass(frozen=True, slots=True, eq=False)
class RemainingBounds:
    """An order of base models, and bounds on the sum of those after each position."""

    order: NDArray[np.int64]  # (T,): Order of the base models
    # `least` and `most`: (T,) float64: Bounds on the sum of the base models after each
    # position, rounding included; 0 at the last position
    least: Floats
    most: Floats

    def __repr__(self) -> str:
        return f"RemainingBounds({len(self.order)} base models)"

    def limits(self, threshold: float) -> tuple[Floats, Floats]:
        """Return limits (lower, upper), both (T,), outside which a decision is final.

        If a row's sum after base model `order[r]` is below `lower[r]`, its sum over all
        base models is below `threshold`. If the former is above `upper[r]`, the latter
        is above `threshold`. The last limits are infinite.
        """
        if not np.isfinite(threshold):
            raise BadInput(f"threshold is {threshold!r}; it must be finite")
        lower, upper = threshold - self.most, threshold - self.least
        lower[-1], upper[-1] = -np.inf, np.inf
        return lower, upper

    def enough(self, tolerance: float) -> tuple[int, float]:
        """Return the number of first base models to keep, and a constant for the rest.

        The sum of the rest differs from the constant by at most `tolerance`.
        """
        if not tolerance >= 0:
            raise BadInput(f"tolerance is {tolerance!r}; it must be at least 0")
        near = (self.most - self.least) / 2 <= tolerance
        near[-1] = True
        r = int(np.argmax(near))
        return r + 1, float((self.least[r] + self.most[r]) / 2)


def bound_remaining(
    least: Floats, most: Floats, order: NDArray[np.int64] | None = None
) -> RemainingBounds:
    """Bound the sum of the base models after each position of an order.

    `least` and `most` (T,) are the smallest and largest score of each base model. The
    default `order` (T,) begins with the widest range of scores. Raises BadInput if a
    bound is not finite.
    """
    least, most = np.asarray(least, np.float64), np.asarray(most, np.float64)
    if least.ndim != 1 or least.shape != most.shape or not len(least):
        raise BadInput(
            f"least and most have shapes {least.shape} and {most.shape}; both must be "
            "(T,)"
        )
    sound = np.isfinite(least) & np.isfinite(most) & (least <= most)
    if not sound.all():
        t = int(np.argmin(sound))
        raise BadInput(
            f"base model {t} has bounds {least[t]} and {most[t]}; they must be finite, "
            "the first at most the second"
        )
    if order is None:
        order = np.argsort(least - most, kind="stable")
    # More than the rounding error of a sum of T terms in any order.
    slack = (
        len(order) * np.finfo(np.float64).eps * np.maximum(-least, most).clip(0).sum()
    )
    after = [sums_after(ends, order) for ends in (least, most)]
    rounding = np.where(np.arange(len(order)) < len(order) - 1, slack, 0.0)
    return RemainingBounds(order, after[0] - rounding, after[1] + rounding)


def sums_after(scores: Floats, order: NDArray[np.int64]) -> Floats:
    """Return, for each position r, the sum of `scores[order[r + 1 :]]`: (T, ...)."""
    sums: Floats = np.zeros_like(scores)
    sums[:-1] = np.cumsum(scores[order][:0:-1], axis=0)[::-1]
    return sums
