"""Lay out linear terms for kernels that add sixteen at a time and may stop early."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..scoring.address_table import lay_table
from ..scoring.float_order import find_last
from ..scoring.kernels.cached_njit import COMPILED
from ..scoring.kernels.preparation import (
    AFFINE,
    BINARISE,
    CENTER,
    FILL,
    GAIN,
    HIGH,
    LOW,
    OFFSET,
    SCALE,
)
from ..scoring.model import Floats
from ..scoring.preparation import Preparation
from ..scoring.scorer import PackedTerms
from ..scoring.stopping_rule import Stops
from .kernels.early_sums import (
    TABLE,
    decide,
    early_by_margin,
    early_by_margin_many,
    early_many,
    early_one,
)
from .kernels.vector_steps import LANES

MOST_OUTPUTS = 1000  # limit on raw scores, as their sums are on the stack
EPSILON = float(np.finfo(np.float64).eps)


class Shapes(NamedTuple):
    """A preparation of d inputs, merged into one step with five numbers for each input.

    A value x becomes `gain` * x + `offset`, clipped to [`low`, `high`]. A missing value
    becomes `filling`.
    """

    gain: Floats
    offset: Floats
    low: Floats
    high: Floats
    filling: Floats

    @property
    def bare(self) -> bool:
        """True if no value is ever clipped, and missing values stay missing."""
        ends = np.isinf(self.low) & np.isinf(self.high)
        return bool(ends.all() and np.isnan(self.filling).all())


class Magnitudes(NamedTuple):
    """Bounds on the magnitudes of a preparation's intermediate results.

    The results for an input x are at most `passed` + `slope` * |x|, or `passed` if x is
    missing. Both arrays are (d,).
    """

    slope: Floats
    passed: Floats


def join_operations(preparation: Preparation) -> tuple[Shapes, Magnitudes] | None:
    """Merge the operations of a preparation into one step.

    Also return bounds on the intermediate results. Returns None unless all operations
    are AFFINE, or the last one is a comparison (BINARISE) and the operations before it
    keep values in order.
    """
    if preparation.operations[-1:].tolist() == [BINARISE]:
        return _join_flags(preparation)
    if (preparation.operations != AFFINE).any():
        return None
    d = len(preparation.columns)
    gain, offset, passed = np.ones(d), np.zeros(d), np.zeros(d)
    ends = np.array([np.full(d, -np.inf), np.full(d, np.inf)])
    filling = np.full(d, np.nan)
    for row in preparation.table:
        slope = row[GAIN] / row[SCALE]
        shift = row[OFFSET] - row[CENTER] * slope
        filling = np.where(np.isnan(filling), row[FILL], filling)
        passed = np.fmax(passed, np.abs(filling)) * np.abs(slope)
        passed += np.abs(row[CENTER] * slope) + np.abs(row[OFFSET])
        gain, offset, filling = gain * slope, offset * slope + shift, filling * slope
        filling += shift
        free = np.isinf(ends) & (slope == 0)
        moved = np.multiply(ends, slope, out=ends.copy(), where=~free) + shift
        low, high = np.sort(moved, axis=0)
        parts = low, high, filling
        low, high, filling = (np.clip(part, row[LOW], row[HIGH]) for part in parts)
        ends = np.array([low, high])
    low, high = ends
    return Shapes(gain, offset, low, high, filling), Magnitudes(np.abs(gain), passed)


def _join_flags(preparation: Preparation) -> tuple[Shapes, Magnitudes] | None:
    """Merge operations that end with a comparison, so that values become 0 or 1.

    The merged step is clip((x - limit) * 2^149, 0, 1). This is exact: float32 values
    are multiples of 2^-149, so any value above the limit becomes 1.
    """
    d, limits = len(preparation.columns), preparation.table[-1, CENTER]
    flags = replace(preparation, columns=np.arange(d, dtype=np.int32))
    steps = flags.operations[:-1], flags.table[:-1]
    before = Preparation(flags.columns, *steps)
    if not before.ascends():
        return None
    last = find_last(lambda values: before.apply(values[None])[0], limits)
    some, never = np.isfinite(last), last == np.inf
    gain = np.where(some, 2.0**149, 0.0)
    offset = -gain * np.where(some, last, 0.0)
    low, high = np.where(some | never, 0.0, 1.0), np.where(never, 0.0, 1.0)
    filling = flags.apply(np.full((1, d), np.nan))[0]
    return Shapes(gain, offset, low, high, filling), Magnitudes(np.zeros(d), np.ones(d))


def pack_linear(
    preparation: Preparation,
    weights: Floats,
    intercepts: Floats,
    order: NDArray[Any],
    stops: Stops,
    sizes: Floats,
    starts: Floats,
) -> PackedTerms | None:
    """Lay out linear terms for kernels; return None if only NumPy can add them.

    The kernels add terms in `order`, and apply the stopping rule `stops`. Rounding
    errors are bounded by the absolute weights `sizes` and absolute intercepts `starts`.
    """
    d, R = weights.shape
    if not COMPILED or stops.rule == "never" or not d or R > MOST_OUTPUTS:
        return None
    with np.errstate(all="ignore"):
        joined = join_operations(preparation)
        if joined is None:
            return None
        shapes, (slope, passed) = joined
        bare, start = shapes.bare, stops.start(intercepts)
        slopes = np.abs(sizes * slope[:, None]).sum(axis=0)
        offsets = np.abs(sizes * passed[:, None]).sum(axis=0) + starts
        folded = weights * shapes.gain[:, None] if bare else weights
        constant = weights * shapes.offset[:, None] if bare else np.zeros((d, R))
        if not np.isfinite([slopes, offsets]).all():
            return None
    laid, spare, ends, looks = lay_blocks(order, stops)
    arrays: dict[str, NDArray[Any]] = {
        "columns": preparation.columns[laid],
        "shapes": np.empty(0) if bare else np.stack(shapes)[:, laid].transpose(1, 0, 2),
        "weights": np.where(spare[:, None], 0.0, folded[laid].transpose(0, 2, 1)),
        "ends": ends,
        "used": looks,
        "constants": start + constant[order].cumsum(axis=0)[looks - 1],
        **{name: limit[looks - 1] for name, limit in stops.by_tree(d).items()},
    }
    # More than enough for the rounding errors of both sums and of all operations.
    share = 4 * EPSILON * (d + 8 * (1 + len(preparation.operations)))
    table = lay_table(
        TABLE,
        arrays,
        threshold=stops.threshold,
        rounding=share * float(slopes.max()),
        constant_rounding=share * float(offsets.max()),
        blocks=len(ends),
        outputs=R,
        shaped=not bare,
    )
    return PackedTerms(table, preparation.width, start, *KERNELS[stops.rule])


def lay_blocks(
    order: NDArray[Any], stops: Stops
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Divide terms into B blocks, and the terms of each block into groups of `LANES`.

    A block ends wherever `stops` has a limit, as sums are compared with limits only at
    the end of a block. Returns four arrays: the terms of each group (G, LANES); a mask
    (G, LANES) of the entries that only pad a group; and, up to the end of each block,
    the number of groups (B,) and the number of terms (B,).
    """
    limits = stops.by_tree(len(order))
    looked = limits["upper"] < np.inf
    if "lower" in limits:
        looked |= limits["lower"] > -np.inf
    looked[-1] = True
    looks = np.flatnonzero(looked) + 1
    sizes = np.diff(looks, prepend=0)
    groups = -(-sizes // LANES)
    ends = groups.cumsum()
    block = np.repeat(np.arange(len(looks)), groups)
    first = LANES * (np.arange(ends[-1]) - np.repeat(ends - groups, groups))
    within = first[:, None] + np.arange(LANES)
    spare = within >= sizes[block, None]
    place = (looks - sizes)[block, None] + within
    laid = order[np.minimum(place, looks[block, None] - 1)]
    return laid, spare, ends, looks


KERNELS = {
    "limits": (decide, early_many, early_one),
    "margins": (early_by_margin, early_by_margin_many, None),
}
