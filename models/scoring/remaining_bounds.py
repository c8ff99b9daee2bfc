"""What the base models that are left can still add, whatever the row.

Base model t's score lies in [least[t], most[t]]: a tree's smallest and largest leaf, a
lattice's vertices. Exits from these bounds are exact: no examples are needed and none
is answered otherwise, fresh or not.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .model import Floats


@dataclass(frozen=True, slots=True, eq=False)
class RemainingBounds:
    """What the base models after each position can still add.

    Attributes
    ----------
    order : (T,) int64
        Base models, those whose scores spread widest first.
    least, most : (T,) float64
        Bounds of the sum of the base models after position r, rounding included; both
        are 0 at the last.
    """

    order: NDArray[np.int64]
    least: Floats
    most: Floats

    def __repr__(self) -> str:
        return f"RemainingBounds({len(self.order)} base models)"

    def limits(self, threshold: float) -> tuple[Floats, Floats]:
        """Give (lower, upper), each (T,): sums beyond which `threshold` stays crossed.

        As in a schedule: after base model `order[r]` a sum below `lower[r]` ends below
        the threshold and one above `upper[r]` above it; infinite at the last.
        """
        if not np.isfinite(threshold):
            raise BadInput(f"threshold is {threshold!r}; it must be finite")
        lower, upper = threshold - self.most, threshold - self.least
        lower[-1], upper[-1] = -np.inf, np.inf
        return lower, upper

    def enough(self, tolerance: float) -> tuple[int, float]:
        """Give (base models to evaluate, what to add) for a score within `tolerance`.

        For ranking and regression: the sum of so many base models plus the middle of
        what remains differs from the whole score by at most `tolerance` >= 0.
        """
        if not tolerance >= 0:
            raise BadInput(f"tolerance is {tolerance!r}; it must be at least 0")
        near = (self.most - self.least) / 2 <= tolerance
        near[-1] = True
        r = int(np.argmax(near))
        return r + 1, float((self.least[r] + self.most[r]) / 2)


def bound_remaining(least: Floats, most: Floats) -> RemainingBounds:
    """Order base models by how far their scores can spread, and bound what remains.

    `least` and `most` are the smallest and the largest score of each, (T,); BadInput
    unless they are finite, least <= most.
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
    order = np.argsort(least - most, kind="stable")
    # Sums of T terms in any order are off by less than this.
    slack = (
        len(order) * np.finfo(np.float64).eps * np.maximum(-least, most).clip(0).sum()
    )
    after = [sums_after(ends, order) for ends in (least, most)]
    rounding = np.where(np.arange(len(order)) < len(order) - 1, slack, 0.0)
    return RemainingBounds(order, after[0] - rounding, after[1] + rounding)


def sums_after(scores: Floats, order: NDArray[np.int64]) -> Floats:
    """Add up what comes after each position of an order; scores are (T, ...)."""
    sums: Floats = np.zeros_like(scores)
    sums[:-1] = np.cumsum(scores[order][:0:-1], axis=0)[::-1]
    return sums
