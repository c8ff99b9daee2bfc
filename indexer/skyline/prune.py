"""Drop dominated candidates, which an index does not need (ICSP, algorithm 1)."""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.features.sizes import Size

from .kernels.crossings import compare
from .kernels.envelope import envelope_intervals, undominated
from .size_pairs import prune_pairs
from .skylines import check_candidates, skylines

Floats = NDArray[np.float64]

PROBES = 8  # sizes at which costs are compared first; most pairs then need no roots
ROUNDING = 1e-12  # upper bound on the rounding of a cost, as a share of the budget

# Intervals of sizes: the first, and one past the last.
Spans = list[tuple[float, float]]


def prune(
    coefficients: Floats,
    accuracies: Floats,
    sizes: tuple[Size, Size],
    budgets: tuple[float, float] | None = None,
) -> NDArray[np.int64]:
    """Return the rows of the candidates that no other candidate dominates, ascending.

    A candidate dominates another if it is at least as accurate and costs no more at
    every size in the range `sizes` (ICSP, properties 3.6 and 3.7). Of equal candidates,
    the first row is returned. Costs are compared at all sizes, by the exact crossings
    of cost curves. A dominating candidate may not be less accurate, not even by a small
    factor alpha: in a chain of dominating candidates, the factors would multiply.

    With a range of `budgets`, the function returns only the candidates that are the
    best choice for some size in `sizes` and some budget in `budgets`. This needs sizes
    of one number. For a single budget, it is ICSP's Problem 3.
    """
    low, high = sizes
    if budgets is not None and not 0 < budgets[0] <= budgets[1] < math.inf:
        raise BadInput(f"budgets are {budgets!r}; 0 < low <= high is needed")
    if isinstance(low, tuple) or isinstance(high, tuple):
        if budgets is not None:
            raise BadInput("budgets are for sizes of one number")
        assert isinstance(low, tuple)
        assert isinstance(high, tuple)
        return prune_pairs(coefficients, accuracies, (low, high))
    if budgets is not None:
        return _best_within(coefficients, accuracies, (low, high), budgets)
    check_candidates(coefficients, accuracies, (low, high))
    order = np.argsort(-accuracies, kind="stable")
    costs, gains = np.ascontiguousarray(coefficients[order]), accuracies[order]
    on_skyline = np.zeros(len(order), bool)
    on_skyline[envelope_intervals(costs, gains, low, high)[0]] = True
    kept = undominated(costs, gains, on_skyline, np.linspace(low, high, PROBES))
    return np.sort(order[kept])


def _best_within(
    coefficients: Floats,
    accuracies: Floats,
    sizes: tuple[float, float],
    budgets: tuple[float, float],
) -> NDArray[np.int64]:
    """Return the rows of candidates that are the best for some size and budget.

    At a given size, a candidate is the best for some budget if three conditions hold:
    it is on the skyline, it costs at most the largest budget, and no more accurate
    candidate costs at most the smallest budget. So candidates are tested from the most
    accurate down. Each is tested only at the sizes at which all more accurate
    candidates cost more than the smallest budget.
    """
    least, most = budgets[0] * (1 - ROUNDING), budgets[1] * (1 + ROUNDING)
    curves = np.ascontiguousarray(coefficients)
    found = skylines(curves, accuracies, sizes)
    kept: list[int] = []
    left: Spans = [(sizes[0], np.inf)]
    for accuracy in np.unique(accuracies)[::-1]:
        equals = np.flatnonzero(accuracies == accuracy)
        for row in equals.tolist():
            own = found.rows == row
            on_skyline = zip(found.starts[own], found.ends[own], strict=True)
            fits = _spans(curves[row], most, sizes, above=False)
            if _overlaps(_overlaps(list(on_skyline), fits), left):
                kept.append(row)
        for row in equals.tolist():
            left = _overlaps(left, _spans(curves[row], least, sizes, above=True))
        if not left:
            break
    return np.array(sorted(kept), np.int64)


def _spans(
    curve: Floats, budget: float, sizes: tuple[float, float], *, above: bool
) -> Spans:
    """Return the intervals of sizes at which a cost curve is above `budget`.

    If `above` is False, return the intervals at which it is not above `budget`.
    """
    level = np.zeros(len(curve))
    level[0] = budget
    starts, signs = compare(curve, level, *sizes)
    if len(starts) == 0:
        return [] if above else [(sizes[0], np.inf)]
    spans = zip(pairwise([*starts.tolist(), np.inf]), signs, strict=True)
    return [span for span, sign in spans if (sign > 0) == above]


def _overlaps(spans: Spans, others: Spans) -> Spans:
    pairs = [(max(a, c), min(b, d)) for a, b in spans for c, d in others]
    return [(start, end) for start, end in pairs if start < end]
