"""Trees packed for one row: 64 of them in the lanes of a vector."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._lane_kernels import (
    ABREAST,
    BIAS,
    CEILINGS,
    COLUMNS,
    CUTS,
    DEPTHS,
    FIRSTS,
    FLOORS,
    GROUP,
    GROUPS,
    LACKING,
    LOWER,
    MOST_CUTS,
    PIVOTS,
    SIZES,
    SLOTS,
    TABLE_SIZE,
    TARGETS,
    TERMS,
    TESTS,
    TREES,
    UPPER,
    VALUE_COUNT,
    VALUES,
    ZEROS,
    lane_decide,
    lane_lead,
    lane_margin,
)
from ._layout_kernels import HIGHEST, entry
from ._vector_kernels import LANES, MOST_DEPTH, STEP, VECTORS
from .pinned import Pinned

# A tree's room for values is that of a whole tree as deep as the deepest in its group.
MOST_VALUES = 2**21
# Every test of a group is made, which takes about as long as three steps of a walk.
STEPS_PER_TEST = 3

Limits = tuple[NDArray[np.float64], NDArray[np.float64]]

# The compiled functions behind their dispatchers; see `layout.py`.
lane_decide_entry, lane_lead_entry, lane_margin_entry = (
    entry(kernel) if VECTORS else kernel
    for kernel in (lane_decide, lane_lead, lane_margin)
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lanes(Pinned):
    """Packed trees, for one float32 row at a time.

    Attributes
    ----------
    arrays
        What the table's addresses point at.
    table : (TABLE_SIZE,) uint64
    address
        Of the table.
    """

    arrays: dict[int, NDArray[Any]]
    table: NDArray[np.uint64]
    address: int


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """What a row's values are compared with.

    Attributes
    ----------
    columns, lacking, zeros : (S,) int32
        As in `_layout_kernels.read_keys`.
    of : (M,) int64
        Slot of each node of the trees, below 0 in leaves.
    keys : (M,) int32
        Key of each node's threshold.
    """

    columns: NDArray[np.int32]
    lacking: NDArray[np.int32]
    zeros: NDArray[np.int32]
    of: NDArray[np.int64]
    keys: NDArray[np.int32]


def pack_lanes(
    trees: Any,
    order: NDArray[Any],
    depths: NDArray[np.int32],
    slots: Slots,
    limits: Limits | None = None,
    lead: tuple[NDArray[np.float64], int] | None = None,
) -> Lanes | None:
    """Pack `Trees` in the given order, or None where walking them is better.

    That is so for trees deeper than `MOST_DEPTH`, for more than `LANES` slots of 255
    thresholds each, for few trees, and without the instructions. `depths` (T,) are
    those of the trees, in their own order; `limits` and `lead` as in `layout.pack`.
    """
    if not VECTORS or depths.max() > MOST_DEPTH:
        return None
    padded = np.zeros(-(-len(order) // LANES) * LANES, np.int64)
    padded[: len(order)] = depths[order]
    deep = padded.reshape(-1, LANES).max(axis=1)
    terms = trees.leaves.shape[1]
    inner = slots.of >= 0
    cuts = _Cuts.of(slots, inner)
    if (
        STEPS_PER_TEST * depths.sum() < ((1 << deep) - 1).sum()
        or (LANES << deep).sum() * terms > MOST_VALUES
        or len(cuts.slots) > LANES
    ):
        return None
    places = _Places.of(trees, order, deep, inner)
    # Sixteen slots are read at once; those beyond the last are the last again.
    spare = 0, -len(cuts.slots) % STEP
    read = np.pad(cuts.slots, spare, "edge") if cuts.slots.size else cuts.slots
    cut_keys = np.pad(cuts.cuts, (spare, (0, 0)), constant_values=HIGHEST)
    arrays = {
        COLUMNS: slots.columns[read],
        LACKING: slots.lacking[read],
        ZEROS: slots.zeros[read],
        PIVOTS: cut_keys[:, STEP - 1 :: STEP],
        CUTS: cut_keys,
        DEPTHS: deep,
        SIZES: _up_to(ABREAST, np.minimum(LANES, len(order) - _starts(LANES, deep))),
        VALUES: places.values(trees, inner),
        FIRSTS: places.first_values,
        TARGETS: trees.targets[order],
        BIAS: trees.bias,
    }
    sizes = {SLOTS: len(cuts.slots), GROUPS: len(deep), TREES: len(order), TERMS: terms}
    sizes[VALUE_COUNT] = arrays[VALUES].size
    if limits is not None:
        arrays |= _between(limits, trees, order, inner, len(padded))
    if lead is not None:
        arrays[UPPER], sizes[GROUP] = lead
    kept = {place: _aligned(array) for place, array in arrays.items()}
    tests = _aligned(places.tests(cuts, inner))
    kept[TESTS] = places.first_tests.astype(np.uint64) + np.uint64(tests.ctypes.data)
    table = np.zeros(TABLE_SIZE, np.uint64)
    for place, array in kept.items():
        table[place] = array.ctypes.data
    for place, size in sizes.items():
        table[place] = size
    return Lanes({**kept, TABLE_SIZE: tests}, table, table.ctypes.data)


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """The different thresholds of each slot, at most 255 in each of our own slots.

    `slots` (L,) are those that they stand for, `cuts` (L, MOST_CUTS) keys; `slot` and
    `limit` (M,) say which one, and which of its cuts, each inner node compares with.
    """

    slots: NDArray[np.int64]
    cuts: NDArray[np.int32]
    slot: NDArray[np.int64]
    limit: NDArray[np.int64]

    @classmethod
    def of(cls, slots: Slots, inner: NDArray[np.bool_]) -> "_Cuts":
        pairs = slots.of[inner] << 32 | (slots.keys[inner].astype(np.int64) + 2**31)
        pairs, which = np.unique(pairs, return_inverse=True)
        which = which.reshape(-1)
        slot = pairs >> 32
        starts = np.searchsorted(slot, np.arange(len(slots.columns) + 1))
        rank = np.arange(len(pairs)) - starts[slot]
        parts = -(-np.diff(starts) // (MOST_CUTS - 1))
        own = (np.cumsum(parts) - parts)[slot] + rank // (MOST_CUTS - 1)
        limit = rank % (MOST_CUTS - 1)
        cuts = np.full((parts.sum(), MOST_CUTS), HIGHEST, np.int32)
        cuts[own, limit] = (pairs & 0xFFFFFFFF) - 2**31
        slot_of, limit_of = (
            np.zeros(len(inner), np.int64),
            np.zeros(len(inner), np.int64),
        )
        slot_of[inner], limit_of[inner] = own[which], limit[which]
        return cls(np.repeat(np.arange(len(parts)), parts), cuts, slot_of, limit_of)


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where the nodes of trees go, each group a whole tree as deep as its deepest.

    Attributes
    ----------
    first_tests, first_values : (G,) int64
        Where the tests and the values of each group begin.
    ends : (int, int)
        How many there are of both.
    test : (M,) int64
        Where each inner node's slot goes; its limit goes `LANES` further.
    value, width : (M,) int64
        First leaf of the whole tree below each leaf, and how many there are.
    """

    first_tests: NDArray[np.int64]
    first_values: NDArray[np.int64]
    ends: tuple[int, int]
    test: NDArray[np.int64]
    value: NDArray[np.int64]
    width: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        trees: Any,
        order: NDArray[Any],
        deep: NDArray[np.int64],
        inner: NDArray[np.bool_],
    ) -> "_Places":
        tests, values = ((1 << deep) - 1) * 2 * LANES, LANES << deep
        first_tests, first_values = np.cumsum(tests) - tests, np.cumsum(values) - values
        lane, group = np.arange(len(order)) % LANES, np.arange(len(order)) // LANES
        test_of, value_of, depth_of = (np.empty(len(order), np.int64) for _ in range(3))
        test_of[order] = first_tests[group] + lane
        value_of[order] = first_values[group] + (lane << deep[group])
        depth_of[order] = deep[group]
        number, level = _number(
            trees.nodes["child"].astype(np.int64), trees.roots, inner
        )
        tree = np.repeat(np.arange(len(order)), np.diff(trees.roots))
        width = 1 << (depth_of[tree] - level)
        return cls(
            first_tests,
            first_values,
            (int(tests.sum()), int(values.sum())),
            test_of[tree] + (number - 1) * 2 * LANES,
            value_of[tree] + (number - (1 << level)) * width,
            width,
        )

    def tests(self, cuts: _Cuts, inner: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Slots and limits of all tests."""
        made = np.zeros(self.ends[0], np.uint8)
        made[self.test[inner]] = cuts.slot[inner]
        made[self.test[inner] + LANES] = cuts.limit[inner]
        return made

    def values(self, trees: Any, inner: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Values of all leaves (L, V); those of lanes without a tree change no sum."""
        made = np.full((self.ends[1], trees.leaves.shape[1]), -0.0)
        width = self.width[~inner]
        first = np.repeat(self.value[~inner] - _starts_of(width), width)
        leaf = np.repeat(trees.nodes["child"][~inner], width)
        made[first + np.arange(len(first))] = trees.leaves[leaf]
        return made


def _number(
    child: NDArray[np.int64], roots: NDArray[np.int64], inner: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each node's number in its tree, of which the root is 1, and its level, root 0."""
    number, level = np.zeros(len(inner), np.int64), np.zeros(len(inner), np.int64)
    number[roots[:-1]] = 1
    split, depth = roots[:-1][inner[roots[:-1]]], 0
    while split.size:
        depth += 1
        below = np.concatenate([child[split], child[split] + 1])
        number[child[split]] = 2 * number[split]
        number[child[split] + 1] = 2 * number[split] + 1
        level[below] = depth
        split = below[inner[below]]
    return number, level


def _between(
    limits: Limits,
    trees: Any,
    order: NDArray[Any],
    inner: NDArray[np.bool_],
    size: int,
) -> dict[int, NDArray[np.float64]]:
    """Limits for `size` lanes, and floors and ceilings of every eight.

    A sum not below the floor, before eight trees, is not below a lower limit after any
    of them, whatever leaves it reaches.
    """
    tree = np.repeat(np.arange(len(order)), np.diff(trees.roots))[~inner]
    values = trees.leaves[trees.nodes["child"][~inner], 0]
    made: dict[int, NDArray[np.float64]] = {}
    for place, far, bound, given in (
        (LOWER, FLOORS, 1.0, 0),
        (UPPER, CEILINGS, -1.0, 1),
    ):
        least = np.full(len(order), np.inf)
        np.minimum.at(least, tree, bound * values)
        after = np.zeros(size)
        after[: len(order)] = least[order]
        after = np.cumsum(after.reshape(-1, ABREAST), axis=1)
        limit = np.full(size, -np.inf)
        limit[: len(order)] = bound * limits[given]
        limit[np.isnan(limit)] = -np.inf  # it is never passed
        near = limit.reshape(-1, ABREAST)
        finite = np.where(np.isfinite(near), np.abs(near), 0.0)
        # Far more than nine additions can round.
        slack = 1e-12 * (finite + np.cumsum(np.abs(after), axis=1))
        made[place] = bound * limit
        made[far] = bound * (near - after + slack).max(axis=1)
    return made


def _starts(step: int, groups: NDArray[Any]) -> NDArray[np.int64]:
    return step * np.arange(len(groups))


def _starts_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(sizes) - sizes


def _up_to(step: int, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sizes rounded up to whole steps."""
    return -(-sizes // step) * step


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    """Give a copy that begins where a vector may."""
    room = np.empty(array.nbytes + 64, np.uint8)
    first = -room.ctypes.data % 64
    made = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
