"""Trees packed for early exits of many rows at once."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._block_kernels import WIDTH
from ._layout_kernels import ABREAST
from ._slice_kernels import CHUNK, Open, Stops, exit_slices
from ._stop_kernels import WORDS
from .blocks import Blocks, Slots, pack_blocks
from .pinned import Pinned

# Trees of the first slice, at least; each of the following is twice as long.
FEWEST_TREES = 12
# In fewer rows vectors soon run empty, and the vectors of single rows are as fast.
FEWEST_ROWS = 2000
# Coding an input takes as long as so many steps of a walk; testing so many nodes, one.
STEPS_PER_SLOT, NODES_PER_STEP = 3, 96


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Slices(Pinned):
    """Packed trees in slices, for batches of float32 rows that stop early.

    Attributes
    ----------
    blocks
        Of all trees; each slice has slots of its own, which its tests count from 0.
    stops
        Limits, and where slices begin.
    """

    blocks: Blocks
    stops: Stops

    def exits(
        self,
        X: NDArray[np.float32],
        address: int,
        sums: NDArray[np.float64],
        codes: NDArray[np.int64],
    ) -> None:
        """Find where checked rows stop, as the kernels for one row do.

        Parameters
        ----------
        address
            Of the table of a layout of the same trees.
        sums : (N, R)
            Sums before the first tree; becomes those where the rows stop.
        codes : (N,)
            Becomes those of `early`, or of `early_lead`.
        """
        blocks, stops = self.blocks, self.stops
        room = blocks.room(int(np.diff(stops.bounds[:, 1]).max()))
        open_ = Open(
            np.empty(min(CHUNK, len(X)), np.int64),
            np.empty(WORDS, np.uint64),
            np.empty((2, WIDTH)),
        )
        codes[:] = 0
        exit_slices(
            X, blocks.forest, room, blocks.terms, stops, open_, address, sums, codes
        )


def pack_slices(
    trees: Any,
    order: NDArray[np.int64],
    slots: Slots,
    slot_of: NDArray[np.int64],
    keys: NDArray[np.int32],
    depths: NDArray[np.int32],
    limits: NDArray[np.float64],
    group: int,
) -> Slices | None:
    """Pack `Trees` as `pack_blocks` does, or None where rows had better go alone.

    That is where the trees of the first slice, which all rows come to, read too many
    inputs for so few trees. `depths` (T,) are steps by position; `limits` are those of
    `Stops` for base models of `group` trees.
    """
    inner, sizes = trees.nodes["column"] >= 0, np.diff(trees.roots)
    starts = starts_of(len(order), group)
    slice_of = np.empty(len(order), np.int64)
    slice_of[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    pairs = (np.repeat(slice_of, sizes) << 32 | slot_of)[inner]
    kinds, which = np.unique(pairs, return_inverse=True)
    before = np.searchsorted(kinds, np.arange(len(starts)) << 32)
    work = STEPS_PER_SLOT * before[1] + sizes[order[: starts[1]]].sum() / NODES_PER_STEP
    if work > depths[: starts[1]].sum():
        return None
    own = np.zeros(len(slot_of), np.int64)
    own[inner] = which.reshape(-1)
    columns, lacking, zeros = (part[kinds & 0xFFFFFFFF] for part in slots)
    blocks = pack_blocks(trees, order, (columns, lacking, zeros), own, keys)
    if blocks is None:
        return None
    first = np.repeat(before[:-1], np.diff(before)).astype(np.uint16)
    tests = blocks.forest.slots
    forest = blocks.forest._replace(slots=tests - first[tests])
    bounds = np.column_stack([starts, before]).astype(np.int64)
    stops = Stops(np.ascontiguousarray(limits), np.ascontiguousarray(bounds), group)
    return Slices(replace(blocks, forest=forest), stops)


def starts_of(trees: int, group: int) -> NDArray[np.int64]:
    """Trees before each slice, and all of them.

    A slice has whole base models, and whole sets of trees that walk abreast.
    """
    unit = int(np.lcm(ABREAST, group))
    first = -(-FEWEST_TREES // unit) * unit
    starts = [0]
    while starts[-1] < trees:
        starts.append(min(2 * starts[-1] + first, trees))
    return np.array(starts)
