"""How much better the best of many sets looks than it is.

A set that is the best of many on some items is so partly by luck with these items, and
the more so the more sets and the fewer items there are. Drawing the items again shows
how much: the best on drawn items is looked at on all (Efron's bootstrap of optimism).

Drawn items have luck of their own beside that of the items themselves, which are chosen
by, too. Let qualities spread by t and the items' luck by s. Then the best owes
s^2 / sqrt(s^2 + t^2) to luck, times what the best of so many draws is off; the best on
as many drawn items owes them s^2 / sqrt(2 s^2 + t^2), and on half as many
2 s^2 / sqrt(3 s^2 + t^2). The ratio of the last two says what t is to s, and so by how
much the first is more than the second: by nothing where sets differ much, by sqrt(2)
where all are alike.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

DRAWS = 200
FEWEST_DRAWS = 20
CELLS = 1 << 23  # drawn counts, or decisions, in memory at a time


def expected_qualities(
    parts: NDArray[Any],
    costs: Floats,
    chosen: Rows,
    groups: Rows,
    weights: Floats,
    seed: int,
    judged: NDArray[Any] | None = None,
) -> Floats:
    """Correct the qualities of sets for having been chosen as the best.

    Each is taken for the best of all sets that cost no more. No set is expected to be
    better than a chosen one that was better on the items.

    Parameters
    ----------
    parts : (E, N)
        What each of N items, that no set was trained on, adds to the quality of each of
        E sets: the quality is the mean. Of accuracy, which of them it decides right.
    costs : (E,)
        What each set costs at one size.
    chosen : (K,)
        Positions of those to correct.
    groups : (N,)
        Number of each item's group; groups are drawn whole.
    weights : (N,)
        How much each item counts, above 0.
    seed
        Of the draws.
    judged : (E, N)
        The same of another quality than the one that sets are chosen by, where that
        one is to be corrected.

    Returns
    -------
    Expected qualities (K,), none above what the set showed on the items.
    """
    judged = parts if judged is None else judged
    observed = np.average(judged, axis=1, weights=weights)
    order = np.argsort(costs, kind="stable")
    # of sets of one cost, each competes with all of them
    last = np.searchsorted(costs[order], costs[chosen], side="right") - 1
    ordered = parts[order]
    also = ordered if judged is parts else judged[order]
    luck = _luck(ordered, also, groups, weights, seed)
    expected: Floats = observed[chosen] - luck[last]
    if judged is not parts:
        return np.maximum(expected, 0.0)
    _, level = np.unique(observed[chosen], return_inverse=True)
    worst = np.full(level.max() + 1, np.inf)
    np.minimum.at(worst, level, expected)
    capped: Floats = np.minimum.accumulate(worst[::-1])[::-1][level]
    return np.maximum(capped, 0.0)


def _luck(
    parts: NDArray[Any],
    judged: NDArray[Any],
    groups: Rows,
    weights: Floats,
    seed: int,
) -> Floats:
    """Mean luck (E,), in what is judged, of the best among the first 1 ... E sets."""
    rng = np.random.default_rng([seed, 2])
    names, own = np.unique(groups, return_inverse=True)
    whole = _drawn_luck(parts, judged, own, weights, len(names), rng)
    half = _drawn_luck(parts, judged, own, weights, max(1, len(names) // 2), rng)
    quarter = np.divide(half, 2 * whole, out=np.ones_like(half), where=whole > 0) ** 2
    quarter = np.clip(quarter, 2 / 3, 1.0)
    luck: Floats = np.maximum(whole, 0.0) * np.sqrt(quarter / (2 * quarter - 1))
    return luck


def _drawn_luck(
    parts: NDArray[Any],
    judged: NDArray[Any],
    groups: Rows,
    weights: Floats,
    count: int,
    rng: np.random.Generator,
) -> Floats:
    """Mean luck (E,), with so many drawn groups, of the best on them.

    `groups` (N,) are numbered from 0.
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
    if judged is not parts:
        best = np.take_along_axis(_averages(judged, counted), winner, axis=1)
    observed = np.average(judged, axis=1, weights=weights)
    lucky: Floats = (best - observed[winner]).mean(axis=0)
    return lucky


def _averages(parts: NDArray[Any], counted: NDArray[np.float32]) -> Floats:
    """Mean of each set's parts (E, N) in each of D draws: (D, E).

    `counted` (D, N) says how much each item counts in each draw.
    """
    sets, items = parts.shape
    means = np.empty((len(counted), sets))
    step = max(1, CELLS // items)
    for start in range(0, sets, step):
        part = parts[start : start + step].T.astype(np.float32)
        means[:, start : start + step] = counted @ part
    means /= counted.sum(axis=1, dtype=np.float64)[:, None]
    return means
