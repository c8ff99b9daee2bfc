"""What the trained sets say of all the others: the sandwich rule's two bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from .kernels import sandwich as kernels

Masks = NDArray[np.uint64]
Accuracies = NDArray[np.float64]

DENSE_FEATURES = 24  # up to here every set has its place in memory: 24 bytes each
MOST_SETS = 1 << 16  # looked at or listed at once


class Expanded(Mapping[int, float]):
    """Accuracy of every trained set, by mask; iterates in ascending order of mask.

    Attributes
    ----------
    masks : (E,) uint64, ascending
    accuracies : (E,) float64
    """

    def __init__(self, masks: Masks, accuracies: Accuracies) -> None:
        self.masks = masks
        self.accuracies = accuracies

    def __len__(self) -> int:
        return self.masks.size

    def __iter__(self) -> Iterator[int]:
        return (int(mask) for mask in self.masks)

    def __getitem__(self, mask: int) -> float:
        at = int(np.searchsorted(self.masks, mask)) if mask >= 0 else len(self)
        if at == len(self) or int(self.masks[at]) != mask:
            raise KeyError(mask)
        return float(self.accuracies[at])


class _DenseSandwich:
    """What is known of all 2 ** m sets: their bounds, kept true after every layer."""

    def __init__(self, m: int) -> None:
        self.m = m
        self.accuracy = np.full(1 << m, np.nan)
        self.below = np.full(1 << m, -np.inf)
        self.above = np.full(1 << m, np.inf)
        self.stale = False

    def record(self, masks: Masks, accuracies: Accuracies) -> None:
        """Take in newly trained sets."""
        self.accuracy[masks] = accuracies
        self.below[masks] = np.maximum(self.below[masks], accuracies)
        self.record_covers(masks, accuracies)

    def record_covers(self, masks: Masks, accuracies: Accuracies) -> None:
        """Take in upper bounds on the accuracy of sets that were not trained."""
        np.minimum.at(self.above, masks, accuracies)
        self.stale = True

    def open_sets(self, size: int, alpha: float, tolerance: float) -> Masks:
        """List untrained sets of one size that nothing sandwiches."""
        self._refresh()
        out = np.empty(math.comb(self.m, size), np.uint64)
        bounds = (self.accuracy, self.below, self.above)
        return out[: kernels.dense_open_sets(*bounds, size, alpha, tolerance, out)]

    def count_open(self, alpha: float, tolerance: float) -> int:
        """Count untrained sets that nothing sandwiches; there will never be more."""
        self._refresh()
        count = 0
        for start in range(0, self.accuracy.size, MOST_SETS):
            part = slice(start, start + MOST_SETS)
            closed = alpha * self.below[part] >= self.above[part] + tolerance
            count += int((np.isnan(self.accuracy[part]) & ~closed).sum())
        return count

    def bound(self, tolerance: float) -> float:
        """Give the smallest alpha at which no set is open; infinite for none."""
        self._refresh()
        bounds = (self.accuracy, self.below, self.above)
        return float(kernels.dense_bound(*bounds, tolerance))

    def _refresh(self) -> None:
        if self.stale:
            kernels.spread(self.below, self.above, self.m)
            self.stale = False

    def accuracy_of(self, masks: Masks) -> Accuracies:
        """Look up accuracies, NaN for untrained sets."""
        return self.accuracy[masks]

    def expanded(self) -> Expanded:
        """Give all trained sets."""
        masks = np.flatnonzero(~np.isnan(self.accuracy))
        return Expanded(masks.astype(np.uint64), self.accuracy[masks])


class _SparseSandwich:
    """As `_DenseSandwich`, for more features: only the trained sets are kept."""

    def __init__(self, m: int) -> None:
        self.m = m
        self.masks = np.empty(0, np.uint64)
        self.accuracies = np.empty(0)
        self.cover_masks = np.empty(0, np.uint64)
        self.cover_accuracies = np.empty(0)

    def record(self, masks: Masks, accuracies: Accuracies) -> None:
        masks = np.concatenate([self.masks, masks])
        order = np.argsort(masks)
        self.masks = masks[order]
        self.accuracies = np.concatenate([self.accuracies, accuracies])[order]

    def record_covers(self, masks: Masks, accuracies: Accuracies) -> None:
        self.cover_masks = np.concatenate([self.cover_masks, masks])
        self.cover_accuracies = np.concatenate([self.cover_accuracies, accuracies])

    def open_sets(self, size: int, alpha: float, tolerance: float) -> Masks:
        """List such sets, but at most `MOST_SETS`."""
        out = np.empty(MOST_SETS, np.uint64)
        found = kernels.sparse_open_sets(
            self.masks,
            self.accuracies,
            np.concatenate([self.masks, self.cover_masks]),
            np.concatenate([self.accuracies, self.cover_accuracies]),
            self.m,
            size,
            alpha,
            tolerance,
            out,
        )
        return out[:found]

    def count_open(self, alpha: float, tolerance: float) -> None:
        """Give None: they are too many."""

    def bound(self, tolerance: float) -> float:
        """Bound from the empty and the full set alone: true, seldom the smallest."""
        lowest, highest = float(self.accuracies[0]), float(self.accuracies[-1])
        if lowest <= 0.0:
            return 1.0 if highest + tolerance <= 0.0 else math.inf
        return max(1.0, math.nextafter((highest + tolerance) / lowest, math.inf))

    def accuracy_of(self, masks: Masks) -> Accuracies:
        at = np.minimum(np.searchsorted(self.masks, masks), self.masks.size - 1)
        return np.where(self.masks[at] == masks, self.accuracies[at], np.nan)

    def expanded(self) -> Expanded:
        return Expanded(self.masks, self.accuracies)


def make_sandwich(m: int) -> _DenseSandwich | _SparseSandwich:
    """Make the bounds of the subsets of m features, none of them trained yet."""
    return _DenseSandwich(m) if m <= DENSE_FEATURES else _SparseSandwich(m)
