"""Lay trees out for one row at a time, on any processor: 64 bits for each node."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.address_table import lay_table
from ..scoring.model import Floats
from ..scoring.scorer import PackedTerms
from ..scoring.stopping_rule import Codes, Stops
from .kernels.one_row import (
    ABREAST,
    TABLE,
    decide,
    early,
    early_by_margin,
    early_by_margin_many,
    early_by_margin_part,
    early_many,
    early_one,
    margin,
    margins,
    raw_scores,
)
from .keys import Slots
from .many_rows import FEWEST_BESIDE_VECTORS, FEWEST_ROWS, BatchTrees
from .nodes import TreeArrays, inner_by_level

# A node has 16 bits each for slot and child. The keys of all slots are on the stack.
MOST_SLOTS = 4096
MOST_NODES = 65536


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackedTrees(PackedTerms):
    """Trees laid out for kernels that read float32 rows, with one stopping rule."""

    # True if the kernels of single rows use AVX-512
    vector: bool = False
    # The same trees packed for many rows at once; None if that layout would be slower
    batch: BatchTrees | None = None

    def follow(self, X: NDArray[Any]) -> tuple[Floats, Codes]:
        """Evaluate float32 rows X (N, width), which the caller has checked.

        Returns (sums, codes): each row's sums (N, R), complete or as they were at its
        early exit, and its code (N,), which `scoring/stopping_rule.py` explains.
        """
        fewest = FEWEST_BESIDE_VECTORS if self.vector else FEWEST_ROWS
        if self.batch is None or len(X) < fewest:
            return PackedTerms.follow(self, X)
        return self.batch.follow(X, self.start)


KERNELS = {
    "margin": (margin, margins, None, None),
    "scores": (None, raw_scores, None, None),
    "limits": (decide, early_many, early_one, early),
    "margins": (early_by_margin, early_by_margin_many, None, early_by_margin_part),
}


# Parts of an evaluation by limits begin where a group of six begins in this layout, and
# of eight in the layout of vectors. So a part is the same on every processor.
STEPS = {"never": 1, "limits": 24, "margins": 1}


def kernels_for(stops: Stops, outputs: int) -> str:
    """Return the key in `KERNELS` for a stopping rule and a number of raw scores."""
    if stops.rule != "never":
        return stops.rule
    return "margin" if outputs == 1 else "scores"


def pack_one_row(
    trees: TreeArrays,
    slots: Slots,
    order: NDArray[Any],
    depths: NDArray[np.int32],
    stops: Stops,
) -> PackedTrees | None:
    """Lay trees out for kernels that add them in `order` and stop by the rule `stops`.

    Returns None if a tree has more than `MOST_NODES` nodes, or if there are more than
    `MOST_SLOTS` slots.
    """
    nodes, inner, sizes = trees.nodes, slots.inner, np.diff(trees.roots)
    if sizes.max() > MOST_NODES or len(slots.columns) > MOST_SLOTS:
        return None
    own = np.arange(len(nodes))
    child = np.where(inner, nodes["child"], own) - np.repeat(trees.roots[:-1], sizes)
    packed = slots.keys.view(np.uint32).astype(np.uint64) << np.uint64(32)
    packed |= np.where(inner, slots.of, 0).astype(np.uint64) << np.uint64(16)
    packed |= child.astype(np.uint64)
    # An added node, a leaf of -0, fills up the last six trees and changes no sum.
    leaves = np.where(inner, 0, nodes["child"]).astype(np.int32)
    if trees.outputs == 1:
        values = np.append(np.where(inner, 0.0, trees.leaves[leaves, 0]), -0.0)
    else:
        terms = trees.leaves.shape[1]
        values = np.vstack([trees.leaves, np.full((1, terms), -0.0)])
    missing = -len(order) % ABREAST
    ordered = _with(depths[order], missing, 0).reshape(-1, ABREAST)
    arrays: dict[str, NDArray[Any]] = {
        "columns": slots.columns,
        "lacking": slots.lacking,
        "zeros": slots.zeros,
        "nodes": np.append(packed, np.uint64(HIGHEST_LEAF)),
        "roots": _with(trees.roots[:-1][order], missing, len(nodes)),
        "depths": np.repeat(ordered.max(axis=1), ABREAST),
        "values": values,
        "leaves": np.append(leaves, np.int32(len(trees.leaves))),
        "targets": _with(trees.targets[order], missing, 0),
        "bias": trees.bias,
    }
    padded = len(order) + missing
    numbers: dict[str, float] = {
        "slots": len(slots.columns),
        "node_count": len(nodes) + 1,
        "value_count": values.size,
        "padded": padded,
        "terms": trees.leaves.shape[1],
        "models": len(order) // stops.group,
        "group": stops.group,
        "threshold": stops.threshold,
    }
    arrays |= stops.by_tree(padded)
    if stops.rule == "limits":
        arrays |= find_floors(arrays["lower"], arrays["upper"], trees, order, ABREAST)
    kernels = KERNELS[kernels_for(stops, trees.outputs)]
    table = lay_table(TABLE, arrays, **numbers)
    start = stops.start(trees.bias)
    return PackedTrees(table, slots.width, start, *kernels, STEPS[stops.rule])


def find_floors(
    lower: Floats, upper: Floats, trees: TreeArrays, order: NDArray[Any], abreast: int
) -> dict[str, Floats]:
    """Return "floors" and "ceilings", one of each per `abreast` consecutive trees.

    If the sum before such a group of trees is between the group's floor and ceiling,
    the sum passes no limit within the group, whatever leaves the row reaches.
    """
    leaf = ~trees.inner
    tree = trees.tree_of[leaf]
    values = trees.leaves[trees.nodes["child"][leaf], 0]
    made: dict[str, Floats] = {}
    for name, sign, limits in (("floors", 1.0, lower), ("ceilings", -1.0, upper)):
        least = np.full(len(order), np.inf)
        np.minimum.at(least, tree, sign * values)
        after = np.zeros(len(limits))
        after[: len(order)] = least[order]
        after = np.cumsum(after.reshape(-1, abreast), axis=1)
        limit = sign * limits
        limit[np.isnan(limit)] = -np.inf  # a limit of NaN is never passed
        near = limit.reshape(-1, abreast)
        finite = np.where(np.isfinite(near), np.abs(near), 0.0)
        # The slack is far more than the rounding error of so few additions.
        slack = 1e-12 * (finite + np.cumsum(np.abs(after), axis=1))
        made[name] = sign * (near - after + slack).max(axis=1)
    return made


# A node that is its own child and that no key exceeds: a leaf.
HIGHEST_LEAF = (2**31 - 1) << 32


def find_tree_depths(trees: TreeArrays) -> NDArray[np.int32]:
    """Return each tree's depth (T,): the steps from the root to the deepest leaf."""
    depths, tree_of = np.zeros(trees.size, np.int32), trees.tree_of
    for level, split in enumerate(inner_by_level(trees)):
        depths[tree_of[split]] = level + 1
    return depths


def _with(array: NDArray[Any], missing: int, number: int) -> NDArray[Any]:
    return np.append(array, np.full(missing, number, array.dtype))
