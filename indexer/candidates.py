"""Which trained sets are worth indexing: ICSP, algorithm 1."""

import numpy as np
from numpy.typing import NDArray

from ..features.sizes import Size
from ._envelope_kernels import envelope_intervals, undominated
from .rectangle import prune_pairs
from .skyline import check_candidates

PROBES = 8  # sizes at which most pairs are told apart before roots are needed


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
