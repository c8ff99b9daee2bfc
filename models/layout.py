"""Trees packed for single rows: 64 bits per node, addresses at hand."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._layout_kernels import (
    ABREAST,
    BIAS,
    COLUMNS,
    COMPILED,
    DEPTHS,
    GROUP,
    HIGHEST,
    LACKING,
    LEAVES,
    LOWER,
    LOWEST,
    NO_ZERO,
    NODE_COUNT,
    NODES,
    ROOTS,
    SLOTS,
    TABLE_SIZE,
    TARGETS,
    TERMS,
    TREES,
    UPPER,
    VALUE_COUNT,
    VALUES,
    ZEROS,
    decide,
    early_lead,
    entry,
    margin,
)
from ._tree_kernels import MISSING_LEFT, NAN_IS_ZERO, ZERO_IS_MISSING, find_depths
from .blocks import FEWEST_ROWS, Blocks, pack_blocks
from .lanes import (
    Lanes,
    Slots,
    lane_decide_entry,
    lane_lead_entry,
    lane_margin_entry,
    pack_lanes,
)
from .pinned import Pinned
from .trial import PORTABLE, VECTOR, Stops, try_lanes
from .walked import walk_plainly

# NumPy keeps one object for it, and `is` is faster than a comparison; a row with
# another object of the same meaning takes the longer way.
SINGLE = np.dtype(np.float32)
DENSE = (SINGLE.itemsize,)  # strides of a row without gaps

# A node has 16 bits each for its slot and its child; slots live on the stack.
MOST_SLOTS = 4096
MOST_NODES = 65536


# The compiled functions behind their dispatchers, which would look at the types of the
# arguments again: `Layout.takes` has.
margin_entry = entry(margin)
ONE_ROW: dict[Stops, tuple[Any, Any]] = {
    "never": (margin_entry, lane_margin_entry),
    "limits": (entry(decide), lane_decide_entry),
    "lead": (entry(early_lead), lane_lead_entry),
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Layout(Pinned):
    """Packed trees, for float32 rows of at least `width` columns.

    Attributes
    ----------
    arrays
        What the table's addresses point at.
    table : (TABLE_SIZE,) uint64
    address
        Of the table.
    width
        Columns that a row must have.
    one_margin
        Is there one raw score per full row?
    bias : (R,) float64
        Raw scores before the first tree.
    blocks
        The same trees for batches, where that is faster.
    lanes
        The same trees for the processor's vectors, where it has them.
    enter, at
        Kernel for one row (`margin`, `decide` or `early_lead`), and the address that
        it takes.
    """

    arrays: dict[int, NDArray[Any]]
    table: NDArray[np.uint64]
    address: int
    width: int
    one_margin: bool
    bias: NDArray[np.float64]
    blocks: Blocks | None = None
    lanes: Lanes | None = None
    enter: Any = None
    at: int = 0

    def takes(self, row: NDArray[Any]) -> bool:
        """Is this a row that the kernels can read? They do not look themselves."""
        return (
            type(row) is np.ndarray
            and row.dtype is SINGLE
            and row.strides == DENSE
            and len(row) >= self.width
        )

    def margins(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Raw scores (N,) of checked rows, where there is one per row."""
        out = np.empty(len(X))
        if self.blocks is not None and len(X) >= FEWEST_ROWS:
            out[:] = self.bias
            self.blocks.add(X, out[:, None])
        elif self.lanes is not None:
            VECTOR.margins(X, self.lanes.address, out)
        else:
            PORTABLE.margins(X, self.address, out)
        return out

    def exits(
        self, X: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Find where checked rows stop: sums (N,), and 4 * trees used + answer (N,)."""
        sums, codes = np.zeros(len(X)), np.empty(len(X), np.int64)
        if self.lanes is not None:
            VECTOR.exits(X, self.lanes.address, sums, codes)
        else:
            PORTABLE.exits(X, self.address, sums, codes)
        return sums, codes

    def leads(
        self, X: NDArray[np.float32], totals: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Find where checked rows stop by their lead: codes (N,) of `early_lead`.

        The base models up to there are added to `totals` (N, R).
        """
        codes = np.empty(len(X), np.int64)
        if self.lanes is not None:
            VECTOR.leads(X, self.lanes.address, totals, codes)
        else:
            PORTABLE.leads(X, self.address, totals, codes)
        return codes

    def add(self, X: NDArray[np.float32], out: NDArray[np.float64]) -> None:
        """Add the trees to the raw scores `out` (N, R) of checked rows."""
        if self.blocks is not None and len(X) >= FEWEST_ROWS:
            self.blocks.add(X, out)
        elif self.lanes is not None:
            VECTOR.scores(X, self.lanes.address, out)
        else:
            PORTABLE.scores(X, self.address, out)


def pack(
    trees: Any,
    order: NDArray[Any] | None = None,
    limits: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    lead: tuple[NDArray[np.float64], int] | None = None,
) -> Layout | None:
    """Pack `Trees` in the given order, or None where only plain nodes do.

    Those are category splits, trees of more than `MOST_NODES` nodes, and Python
    without compiled kernels. `limits` (lower, upper) are those of a schedule, `lead`
    (margin, trees per base model) those of one for more than two classes.
    """
    nodes, roots = trees.nodes, trees.roots
    sizes = np.diff(roots)
    if (
        not COMPILED
        or (nodes["category"] >= 0).any()
        or not sizes.size
        or sizes.max() > MOST_NODES
    ):
        return None
    inner = nodes["column"] >= 0
    slots, slot_of = _slots(nodes, inner)
    if len(slots[COLUMNS]) > MOST_SLOTS:
        return None
    own = np.arange(len(nodes))
    child = np.where(inner, nodes["child"], own) - np.repeat(roots[:-1], sizes)
    keys = np.where(inner, _keys(nodes["threshold"]), HIGHEST).astype(np.int32)
    packed = keys.view(np.uint32).astype(np.uint64) << np.uint64(32)
    packed |= slot_of << np.uint64(16) | child.astype(np.uint64)
    order = np.arange(len(sizes)) if order is None else np.asarray(order)
    depths = np.empty(len(sizes), np.int32)
    find_depths(nodes, roots, depths)
    steps = _deepest_abreast(depths[order])
    leaves = np.where(inner, 0, nodes["child"]).astype(np.int32)
    one_score = trees.outputs == 1
    arrays: dict[int, NDArray[Any]] = slots | {
        NODES: packed,
        ROOTS: np.append(roots[:-1][order], roots[-1]),
        DEPTHS: steps,
        VALUES: np.where(inner, 0.0, trees.leaves[leaves, 0])
        if one_score
        else trees.leaves,
        LEAVES: leaves,
        TARGETS: trees.targets[order],
        BIAS: trees.bias,
    }
    if limits is not None:
        arrays |= dict(zip((LOWER, UPPER), limits, strict=True))
    sizes_of = {SLOTS: len(slots[COLUMNS]), TREES: len(order)}
    sizes_of |= {TERMS: trees.leaves.shape[1], NODE_COUNT: len(nodes)}
    sizes_of[VALUE_COUNT] = arrays[VALUES].size
    if lead is not None:
        arrays[UPPER], sizes_of[GROUP] = lead
    parts = slots[COLUMNS], slots[LACKING], slots[ZEROS]
    compared = Slots(*parts, np.where(inner, slot_of.astype(np.int64), -1), keys)
    lanes = pack_lanes(trees, order, depths, compared, limits, lead)
    plain = partial(walk_plainly, trees, order, limits, lead)
    rule: Stops = "never"
    if limits is not None or lead is not None:
        rule = "lead" if limits is None else "limits"
    blocks = None
    if rule == "never":
        blocks = pack_blocks(trees, order, parts, slot_of.astype(np.int64), keys)
    width = int(nodes["column"].max(initial=-1)) + 1
    one_margin = one_score and not len(trees.preparation.operations)
    layout = _lay(arrays, sizes_of, width, one_margin, trees.bias, blocks)
    lanes = try_lanes(lanes, layout.address, compared, width, trees.bias, rule, plain)
    portable, vector = ONE_ROW[rule]
    if lanes is None:
        return replace(layout, enter=portable, at=layout.address)
    return replace(layout, lanes=lanes, enter=vector, at=lanes.address)


def _lay(
    arrays: dict[int, NDArray[Any]],
    sizes: dict[int, int],
    width: int,
    one_margin: bool,
    bias: NDArray[np.float64],
    blocks: Blocks | None,
) -> Layout:
    kept = {place: np.ascontiguousarray(array) for place, array in arrays.items()}
    table = np.zeros(TABLE_SIZE, np.uint64)
    for place, array in kept.items():
        table[place] = array.ctypes.data
    for place, size in sizes.items():
        table[place] = size
    address = table.ctypes.data
    return Layout(kept, table, address, width, one_margin, bias, blocks)


def _slots(
    nodes: NDArray[np.void], inner: NDArray[np.bool_]
) -> tuple[dict[int, NDArray[np.int32]], NDArray[np.uint64]]:
    """One slot per input and way of treating what is missing; and each node's slot."""
    pairs = nodes["column"][inner].astype(np.int64) << 3 | (nodes["flags"][inner] & 7)
    kinds, which = np.unique(pairs, return_inverse=True)
    flags = kinds & 7
    away = np.where(flags & MISSING_LEFT, LOWEST, HIGHEST)
    zero_is_away = (flags & ZERO_IS_MISSING) != 0
    nan_is_value = ((flags & NAN_IS_ZERO) != 0) & ~zero_is_away
    slot_of = np.zeros(len(nodes), np.uint64)
    slot_of[inner] = which.reshape(-1)
    return {
        COLUMNS: (kinds >> 3).astype(np.int32),
        LACKING: np.where(nan_is_value, 0, away).astype(np.int32),
        ZEROS: np.where(zero_is_away, away, NO_ZERO).astype(np.int32),
    }, slot_of


def _keys(thresholds: NDArray[np.float64]) -> NDArray[np.int32]:
    """Keys of the largest float32 values that are not above the thresholds."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    # Adding 0 makes -0 to 0, which -0 must not exceed.
    bits = (np.where(near > thresholds, below, near) + np.float32(0)).view(np.int32)
    keys: NDArray[np.int32] = bits ^ ((bits >> 31) & np.int32(HIGHEST))
    return keys


def _deepest_abreast(depths: NDArray[np.int32]) -> NDArray[np.int32]:
    """Give each tree the steps of the deepest of the six beside it."""
    whole = len(depths) - len(depths) % ABREAST
    groups = depths[:whole].reshape(-1, ABREAST).max(axis=1, initial=0)
    return np.concatenate([np.repeat(groups, ABREAST), depths[whole:]])
