"""Which trained sets are worth indexing: ICSP, algorithm 1."""

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

PROBES = 8  # sizes at which most pairs are told apart before roots are needed
ROUNDING = 1e-12  # share of a budget that rounding of a cost certainly stays below

Spans = list[tuple[float, float]]  # of sizes: from the first up to, not including


def prune(
    coefficients: Floats,
    accuracies: Floats,
    sizes: tuple[Size, Size],
    budgets: tuple[float, float] | None = None,
) -> NDArray[np.int64]:
    """Rows of the candidates that no other candidate dominates, ascending.

    One dominates another if it is at least as accurate and costs no more at any size
    in the range (ICSP, properties 3.6 and 3.7, with alpha = 1: a set dropped on
    account of another that is dropped itself must not lower the bound twice). Of
    candidates alike in accuracy and in cost at all sizes, the first row is kept.
    Decided by the real roots of cost differences, not by samples; for sizes of two
    numbers as `prune_pairs` does.

    Where the budgets are known too, only candidates are left that are the best for some
    size and some budget (of one budget alone, ICSP's Problem 3).

    Parameters
    ----------
    coefficients : (C, d + 1)
        Cost polynomials in the item size, constant first.
    accuracies : (C,)
        In [0, 1].
    sizes
        `(low, high)`, 0 <= low <= high.
    budgets
        `(low, high)`, 0 < low <= high, finite; None for any. For sizes of one number.

    Raises
    ------
    BadInput
        As `check_candidates`, and if budgets are no such range.
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
    """Rows of the candidates that are the best for some size and budget, ascending.

    One is, where it is on the skyline, fits the largest budget, and nothing that is
    more accurate fits the smallest. So the most accurate go first, and leave to the
    others the sizes at which they cost too much.
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
            stays = zip(found.starts[own], found.ends[own], strict=True)
            fits = _spans(curves[row], most, sizes, above=False)
            if _overlaps(_overlaps(list(stays), fits), left):
                kept.append(row)
        for row in equals.tolist():
            left = _overlaps(left, _spans(curves[row], least, sizes, above=True))
        if not left:
            break
    return np.array(sorted(kept), np.int64)


def _spans(
    curve: Floats, budget: float, sizes: tuple[float, float], *, above: bool
) -> Spans:
    """Sizes at which a curve is above a budget, or at which it is not."""
    level = np.zeros(len(curve))
    level[0] = budget
    starts, signs = compare(curve, level, *sizes)
    if len(starts) == 0:
        return [] if above else [(sizes[0], np.inf)]
    spans = zip(pairwise([*starts.tolist(), np.inf]), signs, strict=True)
    return [span for span, sign in spans if (sign > 0) == above]


def _overlaps(spans: Spans, others: Spans) -> Spans:
    """Intersect two lists of spans."""
    pairs = [(max(a, c), min(b, d)) for a, b in spans for c, d in others]
    return [(start, end) for start, end in pairs if start < end]
