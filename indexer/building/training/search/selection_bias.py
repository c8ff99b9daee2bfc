"""Selection bias: the best of many sets looks better than it is.

The set with the best measured quality owes part of this quality to luck: it suits the
measured items by chance. Luck grows with the number of sets and shrinks with the number
of items. Efron's bootstrap of optimism measures luck: draw items with replacement, find
the best set on the drawn items, and subtract its quality on all items from its quality
on the drawn items.

This measures too little, because a draw has luck of its own. Let t be the standard
deviation of the sets' true qualities, s the standard deviation of their luck on the
items, and m the expected maximum of one standard normal number per set. Then the luck
of the best set on the items is m s^2 / sqrt(s^2 + t^2). The bootstrap measures m s^2 /
sqrt(2 s^2 + t^2) if a draw has as many items as were measured, and 2 m s^2 / sqrt(3 s^2
+ t^2) if it has half as many. The ratio of these two measured numbers yields t / s, and
so the factor that corrects the first number: 1 if the sets' true qualities differ much,
sqrt(2) if they are equal.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

DRAWS = 200
FEWEST_DRAWS = 20
CELLS = 1 << 23  # numbers of one array in memory at a time


def expected_qualities(
    parts: NDArray[Any],
    costs: Floats,
    chosen: Rows,
    groups: Rows,
    weights: Floats,
    seed: int,
    corrected: NDArray[Any] | None = None,
    levelled: Floats | None = None,
) -> Floats:
    """Return the quality to expect on fresh items (K,) of each chosen set.

    A chosen set is treated as the best of all sets that cost no more. An expected
    quality is at most as high as the measured quality.

    `parts` (E, N) are the contributions of N items to the qualities of E sets. A set's
    measured quality is their mean, weighted by `weights` (N,). No set was trained on
    these items. `costs` (E,) are the sets' costs at one item size. `chosen` (K,) are
    the positions of the chosen sets. The bootstrap draws whole groups of items;
    `groups` (N,) has the number of each item's group. If `corrected` (E, N) is given,
    sets are still chosen by `parts`, but qualities are means of `corrected`; otherwise
    the expected qualities keep the order of the measured ones, or of `levelled` (E,),
    which then replace the measured qualities.
    """
    corrected = parts if corrected is None else corrected
    observed = np.average(corrected, axis=1, weights=weights)
    if levelled is not None:
        observed = levelled
    order = np.argsort(costs, kind="stable")
    # sets of equal cost all compete with each other
    last = np.searchsorted(costs[order], costs[chosen], side="right") - 1
    ordered = parts[order]
    also = ordered if corrected is parts else corrected[order]
    luck = _luck(ordered, also, groups, weights, seed)
    expected: Floats = observed[chosen] - luck[last]
    if corrected is not parts:
        return np.maximum(expected, 0.0)
    _, level = np.unique(observed[chosen], return_inverse=True)
    worst = np.full(level.max() + 1, np.inf)
    np.minimum.at(worst, level, expected)
    for below in range(len(worst) - 2, -1, -1):  # equal ones would lose the order
        worst[below] = min(worst[below], np.nextafter(worst[below + 1], -1.0))
    return np.maximum(worst[level], 0.0)


def _luck(
    parts: NDArray[Any],
    corrected: NDArray[Any],
    groups: Rows,
    weights: Floats,
    seed: int,
) -> Floats:
    """Return the expected luck (E,) of the best of the first e sets, for e = 1 ... E.

    Luck is the measured quality minus the expected quality on fresh items.
    """
    rng = np.random.default_rng([seed, 2])
    names, own = np.unique(groups, return_inverse=True)
    whole = _drawn_luck(parts, corrected, own, weights, len(names), rng)
    half = _drawn_luck(parts, corrected, own, weights, max(1, len(names) // 2), rng)
    quarter = np.divide(half, 2 * whole, out=np.ones_like(half), where=whole > 0) ** 2
    quarter = np.clip(quarter, 2 / 3, 1.0)
    luck: Floats = np.maximum(whole, 0.0) * np.sqrt(quarter / (2 * quarter - 1))
    return luck


def _drawn_luck(
    parts: NDArray[Any],
    corrected: NDArray[Any],
    groups: Rows,
    weights: Floats,
    count: int,
    rng: np.random.Generator,
) -> Floats:
    """Return the bootstrap's luck (E,) of the best of the first e sets, e = 1 ... E.

    It is the mean over many draws of `count` groups with replacement.
    """
    items = parts.shape[1]
    draws = max(FEWEST_DRAWS, min(DRAWS, CELLS // items))
    number = int(groups.max()) + 1
    counts = rng.multinomial(count, np.full(number, 1 / number), size=draws)
    counted = (counts[:, groups] * weights).astype(np.float32)
    drawn = _averages(parts, counted)
    best = np.maximum.accumulate(drawn, axis=1)
    places = np.arange(len(parts))
    winner = np.maximum.accumulate(np.where(drawn == best, places, 0), axis=1)
    if corrected is not parts:
        best = np.take_along_axis(_averages(corrected, counted), winner, axis=1)
    observed = np.average(corrected, axis=1, weights=weights)
    lucky: Floats = (best - observed[winner]).mean(axis=0)
    return lucky


def _averages(parts: NDArray[Any], counted: NDArray[np.float32]) -> Floats:
    """Return the weighted means (D, E) of the rows of `parts` (E, N).

    Each row of `counted` (D, N) has the weights of one mean.
    """
    sets, items = parts.shape
    means = np.empty((len(counted), sets))
    step = max(1, CELLS // items)
    for start in range(0, sets, step):
        part = parts[start : start + step].T.astype(np.float32)
        means[:, start : start + step] = counted @ part
    means /= counted.sum(axis=1, dtype=np.float64)[:, None]
    return means
