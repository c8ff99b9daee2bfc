"""Add candidates to an index for items for which some features cannot be computed.

For such an item, the best set may have been pruned, because a set with a missing
feature dominates it. Missing features come in parts, such as the features that need the
same column. Candidates are added first for items that lack one part or all parts but
one, then for items that lack two parts or all but two, and so on.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import reduce
from itertools import combinations
from operator import or_

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import costs_at
from polydom.features.sizes import Size

from .prune import prune

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_Choice = tuple[int, int]  # a row, and the mask of missing features that it serves

PATTERNS = 512  # combinations of missing parts that are considered: all for 9 parts
MORE = 16  # largest number of added sets; if more sets are `kept`, their number
WORTH = 0.005  # least gain in accuracy for which a set is added


def best_without(
    parts: Sequence[int],
    masks: Sequence[int],
    coefficients: Floats,
    accuracies: Floats,
    sizes: tuple[Size, Size],
    budgets: tuple[float, float] | None,
    kept: Collection[int],
) -> Rows:
    """Return the rows of candidates to index in addition to `kept`.

    Each of `parts` is a mask of features that an item lacks together; parts may
    overlap. For each combination of missing parts, `prune` is applied to the candidates
    (`masks`) that need no missing feature. The candidates that it returns are tried,
    the most accurate first. A candidate is added if its accuracy is at least `WORTH`
    higher than that of every indexed candidate that needs no missing feature either and
    costs no more at the largest size. For `coefficients`, `accuracies`, `sizes` and
    `budgets` see `prune`.
    """
    sets, costs = np.array(masks, np.uint64), costs_at(coefficients, sizes[1])
    found, most = list(kept), max(MORE, len(kept)) + len(kept)
    for level in _levels(parts):
        tops, others = list[_Choice](), list[_Choice]()
        for withheld in level:
            left = np.flatnonzero((sets & np.uint64(withheld)) == 0)
            rows = left[prune(coefficients[left], accuracies[left], sizes, budgets)]
            best_first = rows[np.argsort(-accuracies[rows], kind="stable")].tolist()
            choices = [(row, withheld) for row in best_first]
            tops, others = tops + choices[:1], others + choices[1:]
        for row, withheld in (*tops, *others):
            rivals = [r for r in found if not masks[r] & withheld]
            own = [accuracies[r] for r in rivals if costs[r] <= costs[row]]
            if accuracies[row] >= max(own, default=0.0) + WORTH:
                found.append(row)
            if len(found) == most:
                return np.array(found[len(kept) :], np.int64)
    return np.array(found[len(kept) :], np.int64)


def _levels(parts: Sequence[int]) -> Iterator[list[int]]:
    """Yield lists of combinations of missing parts; a combination is one mask.

    The first list has the combinations of one part, and those of all parts but one. The
    second list has those of two parts, and those of all parts but two; and so on.
    """
    every, seen = reduce(or_, parts, 0), set[int]()
    for k in range(1, max(len(parts) // 2, 1) + 1):
        lacked = [reduce(or_, some) for some in combinations(parts, k)]
        level = [*lacked, *(every ^ mask for mask in lacked)]
        level = [mask for mask in dict.fromkeys(level) if mask and mask not in seen]
        seen.update(level)
        yield level
        if len(seen) >= PATTERNS:
            return
