"""Keys: integers that sort as float32 values do, which packed trees compare instead.

The key of a threshold is the key of the largest float32 value that goes left. So one
comparison of integers decides whether a row goes left or right. A missing value gets a
key that sends the row to the node's side for missing values: the lowest key, the
highest key, or a key between them that is right for all nodes of a column.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..scoring.float_order import turned
from ..scoring.model import Floats
from .nodes import MISSING_LEFT, NAN_IS_ZERO, ZERO_IS_MISSING, TreeArrays

LOWEST, HIGHEST = -(2**31), 2**31 - 1
NO_ZERO = 1  # in `Slots.zeros`: 0 is not a missing value in this slot
TINY = int(np.float32(1e-35).view(np.int32))  # bits of LightGBM's kZeroThreshold
INFINITE = 0x7F800000  # bits of infinity; the bits of NaN are larger, without the sign


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The slots of trees: a slot is a column with one way of treating missing values.

    If nodes treat the missing values of a column in different ways, the column has
    several slots.
    """

    columns: NDArray[np.int32]  # (S,) int32: Column of the row that a slot reads
    lacking: NDArray[np.int32]  # (S,) int32: Key of a missing value
    zeros: NDArray[np.int32]  # (S,) int32: Key of 0 if 0 counts as missing, or NO_ZERO
    # (M,) int64: Slot of each node of the trees; negative in leaves
    of: NDArray[np.int64]
    # (M,) int32: Key of each node's threshold; rows with a larger key go right. Leaves
    # have HIGHEST.
    keys: NDArray[np.int32]

    @property
    def inner(self) -> NDArray[np.bool_]:
        """A mask (M,): True for the nodes that are not leaves."""
        return self.of >= 0

    @property
    def width(self) -> int:
        """Minimum number of columns of a row."""
        return int(self.columns.max(initial=-1)) + 1


def find_slots(trees: TreeArrays) -> Slots:
    """Find the slot and the key of each node, for trees without category splits."""
    nodes, inner = trees.nodes, trees.inner
    column, flags = nodes["column"][inner].astype(np.int64), nodes["flags"][inner]
    keys = keys_of(nodes["threshold"][inner])
    zero_is_away = (flags & ZERO_IS_MISSING) != 0
    nan_is_value = ((flags & NAN_IS_ZERO) != 0) & ~zero_is_away
    right = np.where(nan_is_value, keys < 0, (flags & MISSING_LEFT) == 0)
    lacking = np.where(right, HIGHEST, LOWEST)
    other = ~zero_is_away
    lacking[other] = _missing_keys(column[other], keys[other], right[other])
    kinds = (2 * column + zero_is_away) << 32 | (lacking - LOWEST)
    kinds, which = np.unique(kinds, return_inverse=True)
    group, lacking = kinds >> 32, (kinds & 0xFFFFFFFF) + LOWEST
    of, laid = np.full(len(nodes), -1), np.full(len(nodes), HIGHEST, np.int32)
    of[inner], laid[inner] = which.reshape(-1), keys
    return Slots(
        (group >> 1).astype(np.int32),
        lacking.astype(np.int32),
        np.where(group & 1, lacking, NO_ZERO).astype(np.int32),
        of,
        laid,
    )


def _missing_keys(
    column: NDArray[np.int64], keys: NDArray[np.int32], right: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return, for each node, the key that a missing value gets.

    `right` is True for nodes that send missing values right. If a single key sends
    missing values to the correct side in all nodes of a column, these nodes share it.
    """
    highest = np.full(column.max(initial=-1) + 1, LOWEST)
    lowest = np.full(len(highest), HIGHEST)
    np.maximum.at(highest, column[right], keys[right])
    np.minimum.at(lowest, column[~right], keys[~right])
    apart = np.where(right, HIGHEST, LOWEST)
    return np.where((highest < lowest)[column], lowest[column], apart)


def find_cuts(
    slots: Slots,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return each slot's distinct threshold keys, ascending, as (starts, keys, ranks).

    Slot s has the keys `keys[starts[s] : starts[s + 1]]`. `ranks` (M,) has an entry for
    each node: the position of its key among its slot's keys, or 0 for a leaf.
    """
    inner = slots.inner
    own = slots.of[inner]
    cuts, which = np.unique(
        own << 32 | (slots.keys[inner].astype(np.int64) + 2**31), return_inverse=True
    )
    starts = np.searchsorted(cuts, np.arange(len(slots.columns) + 1) << 32)
    places = np.zeros(len(inner), np.int64)
    places[inner] = which.reshape(-1) - starts[own]
    return starts, ((cuts & 0xFFFFFFFF) - 2**31).astype(np.int32), places


def keys_of(thresholds: Floats) -> NDArray[np.int32]:
    """Return the integer key of each threshold.

    The key of a threshold is that of the largest float32 value not above it.
    """
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    # Adding 0 turns a threshold of -0 into 0, so that a value of 0 does not exceed it.
    bits = (np.where(near > thresholds, below, near) + np.float32(0)).view(np.int32)
    return turned(bits)
