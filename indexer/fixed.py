"""Indexes for one item size or one budget: Problems 2 and 3 of ICSP.

Both answer as `Lookup` does, from less: sorted numbers and one binary search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput
from ._crossing_kernels import compare
from ._lookup_kernels import cost_at
from .skyline import check_candidates

ROUNDING = 1e-12  # share of a budget that rounding of a cost certainly stays below


@dataclass(frozen=True, slots=True, eq=False)
class FixedSizeLookup:
    """The skyline of one item size (Problem 2).

    Attributes
    ----------
    size : float
    costs_s : (K,) float64, ascending
    rows : (K,) int64
        Candidate of each cost, of ascending accuracy.
    """

    size: float
    costs_s: NDArray[np.float64]
    rows: NDArray[np.int64]

    @classmethod
    def build(
        cls,
        coefficients: NDArray[np.float64],
        accuracies: NDArray[np.float64],
        size: float,
    ) -> Self:
        """Keep whoever is more accurate than all that cost less at `size`.

        Of equals in accuracy the cheaper, then the first row. Errors as
        `check_candidates`.
        """
        check_candidates(coefficients, accuracies, (size, size))
        curves = np.ascontiguousarray(coefficients)
        costs_s = np.array([cost_at(curves, row, size) for row in range(len(curves))])
        order = np.lexsort([np.arange(len(curves)), -accuracies, costs_s])
        best = np.maximum.accumulate(accuracies[order])
        rows = order[np.flatnonzero(np.diff(best, prepend=-1.0) > 0)]
        return cls(size, costs_s[rows], rows)

    def best(self, size: float, budget_s: float) -> int:
        """Row of the most accurate candidate that fits, -1 if none does.

        Raises
        ------
        BadInput
            If `size` is not the one the look-up was built for.
        """
        if size != self.size:
            raise BadInput(f"size is {size!r}; this look-up is for {self.size!r} only")
        if not budget_s >= self.costs_s[0]:
            return -1
        return int(self.rows[np.searchsorted(self.costs_s, budget_s, "right") - 1])


@dataclass(frozen=True, slots=True, eq=False)
class FixedBudgetLookup:
    """The best candidate for each size under one budget (Problem 3).

    Attributes
    ----------
    budget_s : float
    starts : (R,) float64, ascending
        `rows[r]` is the best from `starts[r]` to the next start.
    rows : (R,) int64
        -1 where nothing fits.
    safe_starts, safe_rows
        The same for a budget smaller by ROUNDING: where the best one's cost, as
        float64 has it, is over the budget by rounding, this one's is not.
    coefficients : (C, d + 1) float64
    """

    budget_s: float
    starts: NDArray[np.float64]
    rows: NDArray[np.int64]
    safe_starts: NDArray[np.float64]
    safe_rows: NDArray[np.int64]
    coefficients: NDArray[np.float64]

    @classmethod
    def build(
        cls,
        coefficients: NDArray[np.float64],
        accuracies: NDArray[np.float64],
        sizes: tuple[float, float],
        budget_s: float,
    ) -> Self:
        """Let the candidates, most accurate first, claim the sizes where they fit.

        Of equals in accuracy the first row. Errors as `check_candidates`, and
        BadInput for a budget that is negative or not finite.
        """
        check_candidates(coefficients, accuracies, sizes)
        if not 0 <= budget_s < np.inf:
            raise BadInput(f"budget_s is {budget_s!r}; it must be finite, 0 or more")
        curves = np.ascontiguousarray(coefficients)
        order = np.argsort(-accuracies, kind="stable")
        return cls(
            budget_s,
            *_claim(curves, order, sizes, budget_s),
            *_claim(curves, order, sizes, budget_s * (1 - ROUNDING)),
            curves,
        )

    def best(self, size: float, budget_s: float) -> int:
        """Row of the most accurate candidate that fits, -1 if none does.

        Raises
        ------
        BadInput
            If `budget_s` is not the one the look-up was built for.
        """
        if budget_s != self.budget_s:
            raise BadInput(
                f"budget_s is {budget_s!r}; this look-up is for {self.budget_s!r} only"
            )
        row = _claimant(self.starts, self.rows, size)
        if row >= 0 and not cost_at(self.coefficients, row, size) <= budget_s:
            row = _claimant(self.safe_starts, self.safe_rows, size)
        return row


def _claimant(starts: NDArray[np.float64], rows: NDArray[np.int64], size: float) -> int:
    return int(rows[max(int(np.searchsorted(starts, size, "right")) - 1, 0)])


def _claim(
    coefficients: NDArray[np.float64],
    order: NDArray[np.int64],
    sizes: tuple[float, float],
    budget_s: float,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """List the ranges of sizes, in order: where each starts and who claimed it."""
    free = [(sizes[0], np.inf)]
    claimed: list[tuple[float, int]] = []
    for row in order.tolist():
        left: list[tuple[float, float]] = []
        fits = _fitting(coefficients[row], sizes, budget_s)
        for start, end in free:
            at = start
            for low, high in fits:
                begin, stop = max(low, at), min(high, end)
                if begin >= stop:
                    continue
                claimed.append((begin, row))
                if at < begin:
                    left.append((at, begin))
                at = stop
            if at < end:
                left.append((at, end))
        free = left
        if not free:
            break
    claimed += ((start, -1) for start, _ in free)
    claimed.sort()
    starts, rows = zip(*claimed, strict=True)
    return np.array(starts), np.array(rows, np.int64)


def _fitting(
    curve: NDArray[np.float64], sizes: tuple[float, float], budget_s: float
) -> list[tuple[float, float]]:
    """Ranges of sizes, first to end, in which a curve is not above the budget."""
    width = len(curve)
    budget = np.zeros(width)
    budget[0] = budget_s
    starts, signs = np.empty(width), np.empty(width, np.int64)
    count = compare(curve, budget, *sizes, starts, signs)
    if count == 0:
        return [(sizes[0], np.inf)]
    edges = starts[:count].tolist()
    room = np.empty(width), np.empty(width, np.int64)
    for k in range(count):
        # A run above the budget may begin with a size that just fits.
        if signs[k] > 0 and compare(curve, budget, edges[k], edges[k], *room) == 0:
            edges[k] = float(np.nextafter(edges[k], np.inf))
    fits = [
        (edges[k], edges[k + 1] if k + 1 < count else np.inf)
        for k in range(count)
        if signs[k] < 0
    ]
    if signs[0] > 0 and edges[0] > sizes[0]:
        fits.insert(0, (sizes[0], edges[0]))
    return fits
