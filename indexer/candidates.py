"""Which trained sets are worth indexing: ICSP, algorithm 1."""

import math

import numpy as np
from numpy.typing import NDArray

from ..features.sizes import Size
from ._cell_kernels import undominated_pairs
from ._envelope_kernels import envelope_intervals, undominated
from .rectangle import Pair, by_accuracy, check_pairs, control_values
from .skyline import check_candidates

PROBES = 8  # sizes at which most pairs are told apart before roots are needed
DEEPEST = 12  # halvings of a rectangle after which a doubtful pair is kept


def prune(
    coefficients: NDArray[np.float64],
    accuracies: NDArray[np.float64],
    sizes: tuple[Size, Size],
) -> NDArray[np.int64]:
    """Rows of the candidates that no other candidate dominates, ascending.

    One dominates another if it is at least as accurate and costs no more at any size
    in the range (ICSP, properties 3.6 and 3.7, with alpha = 1: a set dropped on
    account of another that is dropped itself must not lower the bound twice). Of
    candidates alike in accuracy and in cost at all sizes, the first row is kept.
    Decided by the real roots of cost differences, not by samples; for sizes of two
    numbers as `prune_pairs` does.

    Parameters
    ----------
    coefficients : (C, d + 1)
        Cost polynomials in the item size, constant first.
    accuracies : (C,)
        In [0, 1].
    sizes
        `(low, high)`, 0 <= low <= high.

    Raises
    ------
    BadInput
        As `check_candidates`.
    """
    low, high = sizes
    if isinstance(low, tuple) and isinstance(high, tuple):
        return prune_pairs(coefficients, accuracies, (low, high))
    assert isinstance(low, float | int)
    assert isinstance(high, float | int)
    check_candidates(coefficients, accuracies, (low, high))
    order = np.argsort(-accuracies, kind="stable")
    costs, gains = np.ascontiguousarray(coefficients[order]), accuracies[order]
    on_skyline = np.zeros(len(order), bool)
    on_skyline[envelope_intervals(costs, gains, low, high)[0]] = True
    kept = undominated(costs, gains, on_skyline, np.linspace(low, high, PROBES))
    return np.sort(order[kept])


def prune_pairs(
    coefficients: NDArray[np.float64],
    accuracies: NDArray[np.float64],
    sizes: tuple[Pair, Pair],
) -> NDArray[np.int64]:
    """`prune` for sizes of two numbers, keeping a candidate where in doubt.

    One is dropped only where the difference of its cost and that of one candidate, at
    least as accurate, is proven not to be negative in the whole rectangle: by its
    Bernstein coefficients there, in halves, in halves of these, and so on to DEEPEST.

    Parameters
    ----------
    coefficients : (C, T)
        Cost polynomials in two numbers (features/polynomials.py), none negative.
    accuracies : (C,)
        In [0, 1].
    sizes
        The smallest and the largest size, both numbers above 0.

    Raises
    ------
    BadInput
        As `check_pairs`.
    """
    check_pairs(coefficients, accuracies, sizes)
    order = by_accuracy(coefficients, accuracies, sizes)
    controls = control_values(coefficients[order], sizes)
    side = math.isqrt(controls.shape[1])
    kept = np.empty(len(order), np.int64)
    room = np.empty((DEEPEST + 2, side * side))
    depths = np.empty(DEEPEST + 2, np.int64)
    found = undominated_pairs(controls, side, DEEPEST, room, depths, kept)
    return np.sort(order[kept[:found]])
