"""Which more sets are worth indexing, since items may lack features.

The best set without a feature may be dominated by one with it. Which features come
together nobody knows beforehand, and there may be many ways: those in which few are
lacking, or few there, come first.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import costs_at
from polydom.features.sizes import Size

from .prune import prune

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_Stair = tuple[int, int]  # a row, and the features that are lacking where it is one

# Ways to lack parts that are looked at: all of 9 parts.
PATTERNS = 512
# More sets that are kept at most, or as many as there are anyway.
MORE = 16
# In accuracy: a set that gains less than this over what is kept is not worth its bytes.
WORTH = 0.005


def best_without(
    parts: Sequence[int],
    masks: Sequence[int],
    coefficients: Floats,
    accuracies: Floats,
    sizes: tuple[Size, Size],
    budgets: tuple[float, float] | None,
    kept: Collection[int],
) -> Rows:
    """Rows of the candidates to keep beside others, for items that lack features.

    Of each way to lack some they are those that no other candidate dominates that is
    left then: first the most accurate of each, then the others. They must be better
    than what is kept and costs no more at the largest size.

    Parameters
    ----------
    parts
        Features that an item may lack, as masks of those that it lacks together.
    masks
        Feature set of each candidate.
    coefficients, accuracies, sizes, budgets
        As for `prune`.
    kept
        Rows that are kept anyway.

    Raises
    ------
    BadInput
        As `prune`.
    """
    sets, costs = np.array(masks, np.uint64), costs_at(coefficients, sizes[1])
    found, most = list(kept), max(MORE, len(kept)) + len(kept)
    for level in _levels(parts):
        tops, others = list[_Stair](), list[_Stair]()
        for withheld in level:
            left = np.flatnonzero((sets & np.uint64(withheld)) == 0)
            rows = left[prune(coefficients[left], accuracies[left], sizes, budgets)]
            best_first = rows[np.argsort(-accuracies[rows], kind="stable")].tolist()
            stairs = [(row, withheld) for row in best_first]
            tops, others = tops + stairs[:1], others + stairs[1:]
        for row, withheld in (*tops, *others):
            rivals = [r for r in found if not masks[r] & withheld]
            own = [accuracies[r] for r in rivals if costs[r] <= costs[row]]
            if accuracies[row] >= max(own, default=0.0) + WORTH:
                found.append(row)
            if len(found) == most:
                return np.array(found[len(kept) :], np.int64)
    return np.array(found[len(kept) :], np.int64)


def _levels(parts: Sequence[int]) -> Iterator[list[int]]:
    """Ways to lack parts, as masks: all but k there, or only k, for k = 1, 2, ...

    All of them if they are not too many.
    """
    every, seen = sum(parts), set[int]()
    for k in range(1, len(parts) // 2 + 1):
        lacked = [sum(some) for some in combinations(parts, k)]
        level = [*lacked, *(every ^ mask for mask in lacked)]
        level = [mask for mask in dict.fromkeys(level) if mask not in seen]
        seen.update(level)
        yield level
        if len(seen) >= PATTERNS:
            return
