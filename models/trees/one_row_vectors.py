"""Lay trees out for one row at a time with AVX-512: 64 trees in the lanes of a vector.

Trees come in groups of 64. Each tree is extended to a complete binary tree with the
depth of the deepest tree of its group. A leaf above the last level is copied to all
places below it on the last level, and the tests in between do not matter. Nodes have
the indices of a heap: the root is 1, the children of h are 2 h and 2 h + 1. An example
of depth 2:

    heap index   node        test: slot, limit   places on the last level: values
    1            x0 > 1.5    0, 0
    2            leaf        0, 0 (any test)     0 and 1: 10
    3            x1 > 0.5    1, 0
    6            leaf                            2: 20
    7            leaf                            3: 30

Slot 0 has one threshold, 1.5; slot 1 has 0.5. The limit of a test is the position of
its threshold among the slot's thresholds. The code of a row in a slot is the number of
thresholds below its value, so the row (2.0, 0.1) has the codes 1 and 0. A row goes
right if its code exceeds the limit: right at node 1, since 1 > 0, then left at node 3.
So it reaches heap index 6, which is place 6 - 4 = 2 of the last level: 20.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.address_table import lay_table
from ..scoring.stopping_rule import Stops
from .kernels.avx512 import LANES, MOST_DEPTH, STEP, VECTORS
from .kernels.one_row_vectors import (
    ABREAST,
    MOST_CUTS,
    TABLE,
    simd_decide,
    simd_early,
    simd_early_by_margin,
    simd_early_by_margin_many,
    simd_early_by_margin_part,
    simd_early_many,
    simd_early_one,
    simd_margin,
    simd_margins,
    simd_scores,
)
from .keys import HIGHEST, Slots, find_cuts
from .nodes import TreeArrays, inner_by_level, sums_before
from .one_row import STEPS, PackedTrees, find_floors, kernels_for

# Limit on the leaf values of all complete trees together: 16 MB.
MOST_VALUES = 2**21
# The kernel evaluates every test of 64 complete trees. One test in all 64 takes about
# as long as three steps of walks through single trees.
STEPS_PER_TEST = 3

KERNELS = {
    "margin": (simd_margin, simd_margins, None, None),
    "scores": (None, simd_scores, None, None),
    "limits": (simd_decide, simd_early_many, simd_early_one, simd_early),
    "margins": (
        simd_early_by_margin,
        simd_early_by_margin_many,
        None,
        simd_early_by_margin_part,
    ),
}


def pack_one_row_vectors(
    trees: TreeArrays,
    slots: Slots,
    order: NDArray[Any],
    depths: NDArray[np.int32],
    stops: Stops,
) -> PackedTrees | None:
    """Lay trees out for AVX-512 kernels.

    They add trees in `order` and stop by the rule `stops`. Returns None if such kernels
    cannot evaluate the trees, or would be slower.
    """
    if not VECTORS or depths.max() > MOST_DEPTH:
        return None
    padded = np.zeros(_up_to(LANES, len(order)), np.int64)
    padded[: len(order)] = depths[order]
    deepest = padded.reshape(-1, LANES).max(axis=1)
    terms = trees.leaves.shape[1]
    own_slots, cuts, slot, limit = _cut_slots(slots)
    if (
        STEPS_PER_TEST * depths.sum() < ((1 << deepest) - 1).sum()
        or (LANES << deepest).sum() * terms > MOST_VALUES
        or len(own_slots) > LANES
    ):
        return None
    # The kernel reads sixteen slots at once, so the last slot is repeated as filling.
    spare = 0, -len(own_slots) % STEP
    read = np.pad(own_slots, spare, "edge") if own_slots.size else own_slots
    cuts = np.pad(cuts, (spare, (0, 0)), constant_values=HIGHEST)
    first_trees = LANES * np.arange(len(deepest))
    arrays: dict[str, NDArray[Any]] = {
        "columns": slots.columns[read],
        "lacking": slots.lacking[read],
        "zeros": slots.zeros[read],
        "pivots": cuts[:, STEP - 1 :: STEP],
        "cuts": cuts,
        "depths": deepest,
        "sizes": _up_to(ABREAST, np.minimum(LANES, len(order) - first_trees)),
        "targets": trees.targets[order],
        "bias": trees.bias,
        **_embed(trees, order, deepest, slot, limit),
        **stops.by_tree(len(padded)),
    }
    numbers: dict[str, float] = {
        "slots": len(own_slots),
        "value_count": arrays["values"].size,
        "groups": len(deepest),
        "trees": len(order),
        "terms": terms,
        "models": len(order) // stops.group,
        "group": stops.group,
        "threshold": stops.threshold,
    }
    if stops.rule == "limits":
        arrays |= find_floors(arrays["lower"], arrays["upper"], trees, order, ABREAST)
    kernels = KERNELS[kernels_for(stops, trees.outputs)]
    table = lay_table(TABLE, arrays, **numbers)
    start = stops.start(trees.bias)
    step = STEPS[stops.rule]
    return PackedTrees(table, slots.width, start, *kernels, step, vector=True)


def _cut_slots(
    slots: Slots,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Divide each slot into parts of at most 255 thresholds.

    Returns the slot of each part (L,), the threshold keys of each part (L, MOST_CUTS),
    the part in which each node's threshold is (M,), and the threshold's position within
    that part (M,).
    """
    most = MOST_CUTS - 1
    starts, keys, places = find_cuts(slots)
    sizes = np.diff(starts)
    parts = _up_to(most, sizes) // most
    first = sums_before(parts)
    rank = np.arange(len(keys)) - np.repeat(starts[:-1], sizes)
    cuts = np.full((parts.sum(), MOST_CUTS), HIGHEST, np.int32)
    cuts[np.repeat(first, sizes) + rank // most, rank % most] = keys
    which = np.where(slots.inner, slots.of, 0)
    slot = first[which] + places // most if len(first) else which
    return np.repeat(np.arange(len(parts)), parts), cuts, slot, places % most


def _embed(
    trees: TreeArrays,
    order: NDArray[Any],
    deepest: NDArray[np.int64],
    slot: NDArray[np.int64],
    limit: NDArray[np.int64],
) -> dict[str, NDArray[Any]]:
    """Extend each tree to a complete tree with the depth of its group.

    Returns the arrays of tests and of leaf values, and the start of each group in both.
    """
    tests, values = ((1 << deepest) - 1) * 2 * LANES, LANES << deepest
    first_tests, first_values = sums_before(tests), sums_before(values)
    lane, group = np.arange(len(order)) % LANES, np.arange(len(order)) // LANES
    test_of, value_of, depth_of = np.empty((3, len(order)), np.int64)
    test_of[order] = first_tests[group] + lane
    value_of[order] = first_values[group] + (lane << deepest[group])
    depth_of[order] = deepest[group]
    heap_index, level = _heap_indices(trees)
    tree, inner, leaf = trees.tree_of, trees.inner, ~trees.inner
    # The slot of a node is stored at `test`, the limit `LANES` bytes further.
    test = (test_of[tree] + (heap_index - 1) * 2 * LANES)[inner]
    laid_tests = np.zeros(tests.sum(), np.uint8)
    laid_tests[test], laid_tests[test + LANES] = slot[inner], limit[inner]
    # For each leaf: its first copy in the complete tree, and the number of its copies.
    width = (1 << (depth_of[tree] - level))[leaf]
    value = value_of[tree][leaf] + (heap_index - (1 << level))[leaf] * width
    place = np.repeat(value - sums_before(width), width) + np.arange(width.sum())
    # Lanes without a tree keep the value -0, which changes no sum.
    laid_values = np.full((values.sum(), trees.leaves.shape[1]), -0.0)
    laid_values[place] = trees.leaves[np.repeat(trees.nodes["child"][leaf], width)]
    return {
        "tests": laid_tests,
        "first_tests": first_tests.astype(np.uint64),
        "values": laid_values,
        "first_values": first_values.astype(np.uint64),
    }


def _heap_indices(trees: TreeArrays) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each node's heap index, 1 for a root, and its level, 0 for a root."""
    child = trees.nodes["child"].astype(np.int64)
    index, level = np.zeros((2, len(child)), np.int64)
    index[trees.roots[:-1]] = 1
    for depth, split in enumerate(inner_by_level(trees)):
        left = child[split]
        index[left], index[left + 1] = 2 * index[split], 2 * index[split] + 1
        level[left] = level[left + 1] = depth + 1
    return index, level


def _up_to(step: int, sizes: Any) -> Any:
    """Round sizes up to multiples of `step`."""
    return -(-sizes // step) * step
