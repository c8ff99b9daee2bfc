"""What a search of the lattice found, and why it trained no more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..features.errors import BadInput
from .bounds import Accuracies, Expanded, Masks
from .violations import Violations, measure_violations


@dataclass(frozen=True, slots=True)
class Sandwich:
    """Why a set needed no training: it lies between these two.

    `upper_accuracy` is the accuracy of `upper`, or, where the covering rule gave it
    (`covering`), only a bound on it that holds under diminishing returns.
    """

    lower: int
    upper: int
    lower_accuracy: float
    upper_accuracy: float
    covering: bool = False


@dataclass(frozen=True)
class LatticeSearch:
    """What `search_lattice` found.

    Attributes
    ----------
    m : int
        Number of features.
    expanded : Expanded
        Accuracy of every trained set, by mask.
    alpha : float
        Bound proven: for every untrained set, some trained subset is within this
        factor of its accuracy, provided accuracy is monotone up to `tolerance`
        (and has diminishing returns, where `covering` was asked for). Infinite
        when the search was stopped before it proved any.
    tolerance : float
        Loss of accuracy a larger set was allowed to show.
    complete : bool
        Whether the alpha that was asked for is proven.
    """

    m: int
    expanded: Expanded
    alpha: float
    tolerance: float
    complete: bool
    _covers: tuple[Masks, Accuracies] = field(repr=False)

    def why(self, mask: int) -> Sandwich | None:
        """Name the pair that made training `mask` unnecessary.

        Returns None for a set that an interrupted search left open.

        Raises
        ------
        BadInput
            If `mask` was trained or is no set of the m features.
        """
        if not 0 <= mask < 1 << self.m:
            raise BadInput(f"mask {mask} is no set of {self.m} features")
        if mask in self.expanded:
            raise BadInput(f"mask {mask} was trained: {self.expanded[mask]:g} accurate")
        pair = self._tightest(mask)
        needed = pair.upper_accuracy + self.tolerance
        closed = self.alpha * pair.lower_accuracy >= needed
        return pair if closed and self.alpha < math.inf else None

    def _tightest(self, mask: int) -> Sandwich:
        masks, accuracies = self.expanded.masks, self.expanded.accuracies
        wanted = np.uint64(mask)
        lower = int(np.where(masks & wanted == masks, accuracies, -1.0).argmax())
        upper, upper_accuracy = _worst_above(masks, accuracies, wanted)
        cover, cover_accuracy = _worst_above(*self._covers, wanted)
        covering = cover_accuracy < upper_accuracy
        return Sandwich(
            lower=int(masks[lower]),
            upper=cover if covering else upper,
            lower_accuracy=float(accuracies[lower]),
            upper_accuracy=min(cover_accuracy, upper_accuracy),
            covering=covering,
        )

    @cached_property
    def violations(self) -> Violations:
        """Where larger sets were less accurate, among those trained."""
        expanded = self.expanded
        return measure_violations(self.m, expanded.masks, expanded.accuracies)


def _worst_above(
    masks: Masks, accuracies: Accuracies, mask: np.uint64
) -> tuple[int, float]:
    """Least accurate superset of `mask`; infinite if there is none."""
    above = np.where(masks & mask == mask, accuracies, np.inf)
    if above.size == 0:
        return 0, math.inf
    worst = int(above.argmin())
    return int(masks[worst]), float(above[worst])
