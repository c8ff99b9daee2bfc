"""Which more sets are worth indexing, since items may lack features.

The best set without a feature may be dominated by one with it. Which features come
together nobody knows beforehand, and there may be many ways: those in which few are
lacking, or few there, come first.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, combinations, islice

import numpy as np
from numpy.typing import NDArray

from polydom.features.sizes import Size

from .prune import prune

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Ways to lack features that are looked at: all of 9 features.
PATTERNS = 512
# More sets that are kept at most, or as many as there are anyway.
MORE = 16


def best_without(
    features: Sequence[int],
    masks: Sequence[int],
    coefficients: Floats,
    accuracies: Floats,
    sizes: tuple[Size, Size],
    budgets: tuple[float, float] | None,
    kept: Collection[int],
) -> Rows:
    """Rows of the candidates to keep beside others, for items that lack features.

    Of each way to lack some they are those that no other candidate dominates that is
    left then: first the most accurate of each, then the others.

    Parameters
    ----------
    features
        Positions of those that an item may lack.
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
    sets, found = np.array(masks, np.uint64), dict[int, None]()
    most = max(MORE, len(kept))
    for level in _levels(features):
        skylines = []
        for withheld in level:
            left = np.flatnonzero((sets & np.uint64(withheld)) == 0)
            rows = left[prune(coefficients[left], accuracies[left], sizes, budgets)]
            best_first = np.argsort(-accuracies[rows], kind="stable")
            skylines.append(rows[best_first].tolist())
        tops, others = (rows[:1] for rows in skylines), (rows[1:] for rows in skylines)
        for row in chain(*tops, *others):
            if row not in kept:
                found[row] = None
        if len(found) >= most:
            break
    return np.array([*islice(found, most)], np.int64)


def _levels(features: Sequence[int]) -> Iterator[list[int]]:
    """Ways to lack features, as masks: all but k there, or only k, for k = 1, 2, ...

    All of them if they are not too many.
    """
    every, seen = sum(1 << feature for feature in features), set[int]()
    for k in range(1, len(features) // 2 + 1):
        lacked = [sum(1 << f for f in some) for some in combinations(features, k)]
        level = [*lacked, *(every ^ mask for mask in lacked)]
        level = [mask for mask in dict.fromkeys(level) if mask not in seen]
        seen.update(level)
        yield level
        if len(seen) >= PATTERNS:
            return
