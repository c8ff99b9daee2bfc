"""Compiled skyline by lower envelopes, and the dominance test of candidates."""

import numpy as np
from numba import boolean, float64, int64, njit
from numba.types import Array, Tuple
from numpy.typing import NDArray

from ._crossing_kernels import certain_order, compare, ever_cheaper

FLOATS = Array(float64, 1, "C", readonly=True)
FLOATS_2D = Array(float64, 2, "C", readonly=True)
INTS_OUT = Array(int64, 1, "C")
FLOATS_OUT = Array(float64, 1, "C")
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(INTS_OUT(FLOATS_2D, FLOATS, float64, float64), **OPTIONS)
def undominated(
    coefficients: NDArray[np.float64],
    accuracies: NDArray[np.float64],
    low: float,
    high: float,
) -> NDArray[np.int64]:
    """Positions of the candidates that no single other one dominates, ascending.

    `accuracies` must descend. Dominance is transitive, so comparing with what is
    kept so far is enough; only equals in accuracy can drop one another both ways.
    """
    count, width = coefficients.shape
    kept = np.empty(count, np.int64)
    starts = np.empty(width)
    signs = np.empty(width, np.int64)
    end = 0
    for row in range(count):
        dominated = False
        group = end
        # The latest kept are the likeliest to be as cheap: look at them first.
        for k in range(end - 1, -1, -1):
            other = kept[k]
            if accuracies[other] == accuracies[row]:
                group = k
            cheaper, _ = ever_cheaper(
                coefficients[row], coefficients[other], low, high, starts, signs
            )
            if not cheaper:
                dominated = True
                break
        if dominated:
            continue
        stay = group
        for k in range(group, end):
            cheaper, _ = ever_cheaper(
                coefficients[kept[k]], coefficients[row], low, high, starts, signs
            )
            if cheaper:
                kept[stay] = kept[k]
                stay += 1
        kept[stay] = row
        end = stay + 1
    return np.sort(kept[:end])


@njit(INTS_OUT(INTS_OUT, int64), **OPTIONS)
def grown_ints(values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """`values` with room for at least `size`."""
    if size <= values.shape[0]:
        return values
    room = np.empty(2 * size, np.int64)
    room[: values.shape[0]] = values
    return room


@njit(FLOATS_OUT(FLOATS_OUT, int64), **OPTIONS)
def grown_floats(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """`values` with room for at least `size`."""
    if size <= values.shape[0]:
        return values
    room = np.empty(2 * size)
    room[: values.shape[0]] = values
    return room


MERGED = Tuple((boolean, int64, FLOATS_OUT, INTS_OUT))


@njit(
    MERGED(
        FLOATS_2D, int64, FLOATS_OUT, INTS_OUT, int64, float64, FLOATS_OUT, INTS_OUT
    ),
    **OPTIONS,
)
def merge_curve(
    coefficients: NDArray[np.float64],
    row: int,
    starts: NDArray[np.float64],
    owners: NDArray[np.int64],
    pieces: int,
    high: float,
    new_starts: NDArray[np.float64],
    new_owners: NDArray[np.int64],
) -> tuple[bool, int, NDArray[np.float64], NDArray[np.int64]]:
    """Lower an envelope by one curve, where that is strictly below it.

    Piece k of the envelope is the curve `owners[k]` from `starts[k]` to the next
    start. Returns whether anything changed, and the envelope in the last arrays,
    which are replaced where they are too small.
    """
    width = coefficients.shape[1]
    run_starts = np.empty(width)
    run_signs = np.empty(width, np.int64)
    count = 0
    changed = False
    for k in range(pieces):
        left = starts[k]
        right = starts[k + 1] if k + 1 < pieces else high
        last = k + 1 == pieces
        new_starts = grown_floats(new_starts, count + 2 * width)
        new_owners = grown_ints(new_owners, count + 2 * width)
        order = certain_order(coefficients[row], coefficients[owners[k]], left, right)
        if order != 0:
            runs = 1
            run_starts[0], run_signs[0] = left, order
        else:
            runs = compare(
                coefficients[row],
                coefficients[owners[k]],
                starts[0],
                high,
                run_starts,
                run_signs,
            )
            if runs == 0:
                runs = 1
                run_starts[0], run_signs[0] = left, 1
        for run in range(runs):
            begin = max(left, run_starts[run])
            end = run_starts[run + 1] if run + 1 < runs else np.inf
            if end <= left or begin > right or (begin == right and not last):
                continue
            owner = row if run_signs[run] < 0 else owners[k]
            changed = changed or owner == row
            if count == 0 or new_owners[count - 1] != owner:
                new_starts[count], new_owners[count] = begin, owner
                count += 1
    return changed, count, new_starts, new_owners


SKYLINE = Tuple((INTS_OUT, FLOATS_OUT, FLOATS_OUT))


@njit(SKYLINE(FLOATS_2D, FLOATS, float64, float64), **OPTIONS)
def envelope_intervals(
    coefficients: NDArray[np.float64],
    accuracies: NDArray[np.float64],
    low: float,
    high: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Where each candidate is on the skyline: positions, first sizes, ends.

    `accuracies` must descend. The ends are the sizes at which a candidate leaves,
    infinite where it stays to `high`. Unordered.
    """
    count = coefficients.shape[0]
    starts, owners = np.full(8, low), np.zeros(8, np.int64)
    spare_starts, spare_owners = np.empty(8), np.empty(8, np.int64)
    rows, begins, ends = np.empty(8, np.int64), np.empty(8), np.empty(8)
    pieces = found = first = 0
    changed = False
    for row in range(count):
        if row == 0:
            pieces, changed = 1, True
        else:
            lower, new_pieces, spare_starts, spare_owners = merge_curve(
                coefficients,
                row,
                starts,
                owners,
                pieces,
                high,
                spare_starts,
                spare_owners,
            )
            if lower:
                changed = True
                pieces = new_pieces
                starts, spare_starts = spare_starts, starts
                owners, spare_owners = spare_owners, owners
        # A curve's share is known when all equally accurate ones are in.
        if row + 1 < count and accuracies[row + 1] == accuracies[row]:
            continue
        for k in range(pieces if changed else 0):
            if owners[k] < first:
                continue
            rows = grown_ints(rows, found + 1)
            begins, ends = (
                grown_floats(begins, found + 1),
                grown_floats(ends, found + 1),
            )
            rows[found], begins[found] = owners[k], starts[k]
            ends[found] = starts[k + 1] if k + 1 < pieces else np.inf
            found += 1
        first, changed = row + 1, False
    return rows[:found].copy(), begins[:found].copy(), ends[:found].copy()
