"""What packed trees must answer: the same trees walked node by node, as they are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._layout_kernels import UNDECIDED
from ._tree_kernels import find_leaves

Floats = NDArray[np.float64]
Answers = tuple[NDArray[Any], ...]


def walk_plainly(
    trees: Any,
    order: NDArray[np.int64],
    limits: tuple[Floats, Floats] | None,
    lead: tuple[Floats, int] | None,
    X: NDArray[np.float32],
) -> Answers:
    """Answer rows X (N, width) as the kernels for one row do, without packing.

    Parameters
    ----------
    trees, order, limits, lead
        As in `layout.pack`.

    Returns
    -------
    Sums (N,) and codes (N,) of `early`, or totals (N, R) and codes of `early_lead`;
    without a rule sums (N,), or raw scores (N, R).
    """
    sums = _running_sums(trees, order, X, from_zero=limits is not None)
    count, N = len(order), np.arange(len(X))
    if limits is not None:
        lower, upper = limits
        totals = sums[:, 1:, 0]
        beyond = (totals < lower) | (totals > upper)
        at = np.where(beyond.any(axis=1), beyond.argmax(axis=1), count - 1)
        above = totals[N, at] > upper[at]
        codes = np.where(
            beyond.any(axis=1), 4 * (at + 1) + above, 4 * count + UNDECIDED
        )
        return totals[N, at], codes
    if lead is not None:
        margin, group = lead
        totals = sums[:, group::group]
        best = np.sort(totals, axis=2)
        beyond = best[:, :, -1] - best[:, :, -2] > margin
        last = totals.shape[1] - 1
        at = np.where(beyond.any(axis=1), beyond.argmax(axis=1), last)
        return totals[N, at], 2 * (at + 1) + beyond.any(axis=1)
    return (sums[:, -1, 0] if trees.outputs == 1 else sums[:, -1],)


def _running_sums(
    trees: Any, order: NDArray[np.int64], X: NDArray[np.float32], *, from_zero: bool
) -> Floats:
    """Raw scores (N, T + 1, R) before the first tree and after each of them."""
    found = np.empty((len(X), len(order)), np.int32)
    sets = trees.set_starts, trees.set_bits
    find_leaves(X, trees.nodes, trees.roots, *sets, found)
    sums = np.zeros((len(X), len(order) + 1, trees.outputs))
    if not from_zero:
        sums[:, 0] = trees.bias
    for place, t in enumerate(order):
        first = trees.targets[t]
        sums[:, place + 1] = sums[:, place]
        values = trees.leaves[found[:, t]]
        sums[:, place + 1, first : first + values.shape[1]] += values
    return sums
