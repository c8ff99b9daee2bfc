"""Bound the accuracies of untrained sets by their trained subsets and supersets.

A set is open if it is untrained and the sandwich rule does not close it. The factor
alpha of the rule multiplies accuracies above an origin: 0 as in ICSP, or the accuracy
of the empty set, so that alpha is a factor of what features gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from .kernels import sandwich as kernels

Masks = NDArray[np.uint64]
Accuracies = NDArray[np.float64]

DENSE_FEATURES = 24  # up to this number of features, every set has 24 bytes in memory
MOST_SETS = 1 << 16  # sets that are counted or listed at once


class Expanded(Mapping[int, float]):
    """A mapping from each trained set (a mask), in ascending order, to its accuracy."""

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
    """Bounds of all 2 ** m sets, in arrays: of their accuracies less the origin."""

    def __init__(self, m: int) -> None:
        self.m, self.origin = m, 0.0
        self.accuracy = np.full(1 << m, np.nan)
        self.below = np.full(1 << m, -np.inf)
        self.above = np.full(1 << m, np.inf)
        self.stale = False

    def record(self, masks: Masks, accuracies: Accuracies) -> None:
        self.accuracy[masks] = accuracies
        self.below[masks] = np.maximum(self.below[masks], accuracies - self.origin)
        self.record_covers(masks, accuracies)

    def record_covers(self, masks: Masks, accuracies: Accuracies) -> None:
        """Use `accuracies` as upper bounds of the sets `masks` and their subsets."""
        np.minimum.at(self.above, masks, accuracies - self.origin)
        self.stale = True

    def open_sets(self, size: int, alpha: float, tolerance: float) -> Masks:
        self._refresh()
        out = np.empty(math.comb(self.m, size), np.uint64)
        bounds = (self.accuracy, self.below, self.above)
        return out[: kernels.dense_open_sets(*bounds, size, alpha, tolerance, out)]

    def count_open(self, alpha: float, tolerance: float) -> int:
        """Return the number of open sets. During a search, this number never rises."""
        self._refresh()
        count = 0
        for start in range(0, self.accuracy.size, MOST_SETS):
            part = slice(start, start + MOST_SETS)
            closed = alpha * self.below[part] >= self.above[part] + tolerance
            count += int((np.isnan(self.accuracy[part]) & ~closed).sum())
        return count

    def bound(self, tolerance: float) -> float:
        """Return the smallest alpha that closes all sets; infinity if no alpha does."""
        self._refresh()
        bounds = (self.accuracy, self.below, self.above)
        return float(kernels.dense_bound(*bounds, tolerance))

    def _refresh(self) -> None:
        if self.stale:
            kernels.spread(self.below, self.above, self.m)
            self.stale = False

    def accuracy_of(self, masks: Masks) -> Accuracies:
        """Return the accuracy of each set in `masks`, NaN if it is untrained."""
        return self.accuracy[masks]

    def expanded(self) -> Expanded:
        masks = np.flatnonzero(~np.isnan(self.accuracy))
        return Expanded(masks.astype(np.uint64), self.accuracy[masks])


class _SparseSandwich:
    """The bounds of `_DenseSandwich` for more features, computed when needed.

    The memory grows with the number of trained sets, not with 2 ** m.
    """

    def __init__(self, m: int) -> None:
        self.m, self.origin = m, 0.0
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
        """Return at most `MOST_SETS` open sets of `size` features."""
        out = np.empty(MOST_SETS, np.uint64)
        found = kernels.sparse_open_sets(
            self.masks,
            self.accuracies - self.origin,
            np.concatenate([self.masks, self.cover_masks]),
            np.concatenate([self.accuracies, self.cover_accuracies]) - self.origin,
            self.m,
            size,
            alpha,
            tolerance,
            out,
        )
        return out[:found]

    def count_open(self, alpha: float, tolerance: float) -> None:
        """Return None: there are too many sets to count."""

    def bound(self, tolerance: float) -> float:
        """Return an alpha that closes all sets; it need not be the smallest.

        It is computed only from the accuracies of the empty set, the set of all
        features and, once these are trained, the sets of one feature. An untrained set
        then has two features at least, and so a subset no worse than the second-worst
        set of one feature.
        """
        lowest, highest = (self.accuracies[[0, -1]] - self.origin).tolist()
        single = self.accuracy_of(np.uint64(1) << np.arange(self.m, dtype=np.uint64))
        if not np.isnan(single).any():
            lowest = max(lowest, float(np.sort(single)[:2].max()) - self.origin)
        if lowest <= 0.0:
            return 1.0 if highest + tolerance <= 0.0 else math.inf
        return max(1.0, math.nextafter((highest + tolerance) / lowest, math.inf))

    def accuracy_of(self, masks: Masks) -> Accuracies:
        at = np.minimum(np.searchsorted(self.masks, masks), self.masks.size - 1)
        return np.where(self.masks[at] == masks, self.accuracies[at], np.nan)

    def expanded(self) -> Expanded:
        return Expanded(self.masks, self.accuracies)


def make_sandwich(m: int) -> _DenseSandwich | _SparseSandwich:
    """Return an object that bounds the accuracies of all sets of m features.

    Alpha is a factor of accuracies less the object's `origin`. The origin is 0; it can
    be set before the first set is recorded.

    Up to `DENSE_FEATURES` features, the bounds of every set are stored in arrays. For
    more features, bounds are computed from the trained sets when needed.
    """
    return _DenseSandwich(m) if m <= DENSE_FEATURES else _SparseSandwich(m)
