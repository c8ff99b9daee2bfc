"""Compiled functions of Poly-Dom: bounds of sets, open sets, violations.

A feature set is a bit mask. A set is expanded if it has been trained. For each set,
`below` is the largest accuracy among its expanded subsets, and `above` is the smallest
accuracy among its expanded supersets. An expanded set counts as its own subset and
superset. The sandwich rule (ICSP, properties 3.3 and 3.11) closes a set if alpha *
below >= above + tolerance. A set that is neither expanded nor closed is open.

Dense kernels take arrays of 2 ** m values, indexed by mask. Sparse kernels take only
the expanded sets.
"""

import numpy as np
from numba import float64, int64, types, uint64, void
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS, frozen

Floats = NDArray[np.float64]
Masks = NDArray[np.uint64]

MASKS = frozen(uint64)
FLOATS_OUT, MASKS_OUT = float64[::1], uint64[::1]
COUNTS_OUT = int64[::1]

LARGEST = float(np.finfo(np.float64).max)
INNER_BITS = 12  # 4096 values: spread inside the L1 cache before going further


@njit(int64(uint64), **OPTIONS)
def count_features(mask: int) -> int:
    """Return the number of features in a set (a mask)."""
    left = np.uint64(mask)
    one = np.uint64(1)
    count = 0
    while left:
        left = left & (left - one)
        count += 1
    return count


@njit(void(FLOATS_OUT, int64, int64), **OPTIONS)
def raise_supersets(below: Floats, start: int, stop: int) -> None:
    """Replace each set's value, in place, by the largest value among its subsets.

    A set's subsets here are the sets that remain if any of the features `start` to
    `stop` - 1 are removed, including the set itself.
    """
    for feature in range(start, stop):
        step = 1 << feature
        for block in range(0, below.shape[0], 2 * step):
            without = below[block : block + step]
            with_it = below[block + step : block + 2 * step]
            for k in range(step):
                # This form compiles to vector instructions; max() does not.
                with_it[k] = without[k] if without[k] > with_it[k] else with_it[k]


@njit(void(FLOATS_OUT, int64, int64), **OPTIONS)
def lower_subsets(above: Floats, start: int, stop: int) -> None:
    """Replace each set's value, in place, by the smallest value among its supersets.

    A set's supersets here are the sets that result if any of the features `start` to
    `stop` - 1 are added, including the set itself.
    """
    for feature in range(start, stop):
        step = 1 << feature
        for block in range(0, above.shape[0], 2 * step):
            without = above[block : block + step]
            with_it = above[block + step : block + 2 * step]
            for k in range(step):
                without[k] = with_it[k] if with_it[k] < without[k] else without[k]


@njit(void(FLOATS_OUT, FLOATS_OUT, int64), **OPTIONS)
def spread(below: Floats, above: Floats, m: int) -> None:
    """Propagate changed bounds in place: `below` to supersets, `above` to subsets."""
    inner = min(m, INNER_BITS)
    for block in range(0, below.shape[0], 1 << inner):
        raise_supersets(below[block : block + (1 << inner)], 0, inner)
        lower_subsets(above[block : block + (1 << inner)], 0, inner)
    raise_supersets(below, inner, m)
    lower_subsets(above, inner, m)


@njit(int64(FLOATS, FLOATS, FLOATS, int64, float64, float64, MASKS_OUT), **OPTIONS)
def dense_open_sets(
    accuracy: Floats,
    below: Floats,
    above: Floats,
    size: int,
    alpha: float,
    tolerance: float,
    out: Masks,
) -> int:
    """Write the open sets of `size` features to `out`, ascending; return their number.

    `accuracy` is NaN for a set that is not expanded. If `out` is full, further sets
    are ignored.
    """
    found = 0
    for mask in range(accuracy.shape[0]):
        if found == out.shape[0]:
            break
        if alpha * below[mask] >= above[mask] + tolerance:
            continue
        if np.isnan(accuracy[mask]) and count_features(np.uint64(mask)) == size:
            out[found] = np.uint64(mask)
            found += 1
    return found


@njit(float64(FLOATS, FLOATS, FLOATS, float64), **OPTIONS)
def dense_bound(
    accuracy: Floats, below: Floats, above: Floats, tolerance: float
) -> float:
    """Return the smallest alpha >= 1 that closes all sets; infinity if no alpha does.

    `accuracy` is NaN for a set that is not expanded.
    """
    alpha = 1.0
    for mask in range(accuracy.shape[0]):
        needed = above[mask] + tolerance
        if alpha * below[mask] >= needed or not np.isnan(accuracy[mask]):
            continue
        if below[mask] * LARGEST < needed:  # the quotient would overflow
            return np.inf
        alpha = needed / below[mask]
        if alpha * below[mask] < needed:  # the quotient was rounded down
            alpha = np.nextafter(alpha, np.inf)
    return alpha


@njit(float64(MASKS, FLOATS, uint64), **OPTIONS)
def best_below(masks: Masks, values: Floats, mask: int) -> float:
    """Return the largest of `values` whose set in `masks` is a subset of `mask`."""
    best = -np.inf
    for k in range(masks.shape[0]):
        if masks[k] & mask == masks[k]:
            best = values[k] if values[k] > best else best
    return best


@njit(float64(MASKS, FLOATS, uint64), **OPTIONS)
def worst_above(masks: Masks, values: Floats, mask: int) -> float:
    """Return the smallest of `values` whose set in `masks` is a superset of `mask`."""
    worst = np.inf
    for k in range(masks.shape[0]):
        if masks[k] & mask == mask:
            worst = values[k] if values[k] < worst else worst
    return worst


@njit(
    int64(MASKS, FLOATS, MASKS, FLOATS, int64, int64, float64, float64, MASKS_OUT),
    **OPTIONS,
)
def sparse_open_sets(
    masks: Masks,
    values: Floats,
    upper_masks: Masks,
    upper_values: Floats,
    m: int,
    size: int,
    alpha: float,
    tolerance: float,
    out: Masks,
) -> int:
    """Write the open sets of `size` features to `out`; return their number.

    `masks`, ascending, are the expanded sets, and `values` their accuracies.
    `upper_masks` and `upper_values` list all sets with a known upper bound of their
    accuracy, among them the expanded sets. If `out` is full, further sets are ignored.

    The search is a branch and bound. Each level of its tree decides whether one feature
    is in the set. A branch is skipped if the sandwich rule closes all its sets, which
    follows from `below` of its smallest set and `above` of its largest.
    """
    one = np.uint64(1)
    full = (one << np.uint64(m)) - one
    depths = np.zeros(m + 2, np.int64)
    chosen = np.zeros(m + 2, np.uint64)
    below = np.empty(m + 2)
    above = np.empty(m + 2)
    below[0] = best_below(masks, values, np.uint64(0))
    above[0] = worst_above(upper_masks, upper_values, full)
    top = found = 0
    while top >= 0 and found < out.shape[0]:
        depth, mask, low, high = depths[top], chosen[top], below[top], above[top]
        top -= 1
        count = count_features(mask)
        if count > size or count + m - depth < size:
            continue
        if alpha * low >= high + tolerance:
            continue
        if depth == m:
            at = np.searchsorted(masks, mask)
            if at == masks.shape[0] or masks[at] != mask:
                out[found] = mask
                found += 1
            continue
        bit = one << np.uint64(depth)
        undecided = full ^ ((bit << one) - one)
        top += 1
        depths[top], chosen[top], below[top] = depth + 1, mask | bit, low
        below[top] = best_below(masks, values, mask | bit)
        above[top] = high
        top += 1
        depths[top], chosen[top], below[top] = depth + 1, mask, low
        above[top] = worst_above(upper_masks, upper_values, mask | undecided)
    return found


@njit(types.Tuple((int64, float64))(MASKS, FLOATS, int64, COUNTS_OUT), **OPTIONS)
def count_violations(
    masks: Masks, values: Floats, stride: int, histogram: NDArray[np.int64]
) -> tuple[int, float]:
    """Compare the accuracy of every `stride`-th set with that of all its subsets.

    If the set is less accurate than its subset, the difference is the pair's loss. The
    kernel rounds each loss up to one of the R + 1 steps from 0 to 1, and counts the
    losses of each step in `histogram` (R + 1,). Returns the number of compared pairs,
    and the largest loss.
    """
    resolution = histogram.shape[0] - 1
    pairs, largest = 0, 0.0
    for i in range(0, masks.shape[0], stride):
        for j in range(masks.shape[0]):
            if masks[j] & masks[i] != masks[j] or i == j:
                continue
            pairs += 1
            loss = values[j] - values[i]
            if loss > 0.0:
                histogram[min(resolution, int(np.ceil(loss * resolution)))] += 1
                largest = max(loss, largest)
    return pairs, largest
