"""Compare vector kernels with portable kernels each time that trees are packed."""

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..scoring.float_order import turned
from ..scoring.model import Floats
from ..scoring.scorer import PackedTerms
from ..scoring.stopping_rule import Codes, Stops
from .kernels.avx512 import VECTORS
from .kernels.walk import find_leaves
from .keys import TINY, Slots
from .nodes import TreeArrays
from .one_row import PackedTrees

ROWS = 64
log = logging.getLogger("polydom")

Kind = Literal["vector", "portable"]


@dataclass(slots=True)
class Trust:
    """A switch: vector kernels are used in this process until a self-test fails."""

    held: bool = VECTORS

    @property
    def kernels(self) -> Kind:
        """The kernels that evaluate single rows: "vector" or "portable"."""
        return "vector" if self.held else "portable"

    def lose(self) -> None:
        """Stop using vector kernels in this process; the first call logs an error."""
        if self.held:
            self.held = False
            log.error(
                "the vector kernels differ from the portable ones on this processor "
                "and are not used"
            )


TRUST = Trust()


def agree(
    vector: PackedTrees,
    portable: PackedTrees,
    trees: TreeArrays,
    slots: Slots,
    order: NDArray[np.int64],
    stops: Stops,
) -> bool:
    """Return True if vector and portable kernels agree to the bit on random rows.

    If they do not, return False, and this process stops using vector kernels. Raises
    BadModel if the portable kernels, too, differ from a walk through the unpacked
    nodes: then not the processor but the layout of the trees is at fault.
    """
    X = edge_rows(slots, slots.width)
    # `portable.follow` might use the layout for many rows instead.
    expected = _bytes(PackedTerms.follow(portable, X))
    found = [_bytes(PackedTerms.follow(vector, X))]
    if vector.batch is not None:
        found.append(_bytes(vector.batch.follow(X, vector.start)))
    differ = [i for i in range(len(X)) if {f[i] for f in found} != {expected[i]}]
    if not differ:
        return True
    i = differ[0]
    if _bytes(walk_nodes(trees, order, stops, X[i : i + 1]))[0] != expected[i]:
        raise BadModel("its trees, once packed, do not answer as they are")
    TRUST.lose()
    return False


def _bytes(answers: tuple[Floats, Codes]) -> list[bytes]:
    """Return each row's totals and code as bytes, which are different for 0 and -0."""
    pairs = zip(*answers, strict=True)
    return [totals.tobytes() + code.tobytes() for totals, code in pairs]


def walk_nodes(
    trees: TreeArrays, order: NDArray[np.int64], stops: Stops, X: NDArray[np.float32]
) -> tuple[Floats, Codes]:
    """Evaluate rows X (N, width) node by node; return totals (N, R) and codes (N,)."""
    found = np.empty((len(X), trees.size), np.int32)
    sets = trees.set_starts, trees.set_bits
    find_leaves(X, trees.nodes, trees.roots, *sets, found)
    sums = np.empty((len(X), trees.size + 1, trees.outputs))
    sums[:, 0] = stops.start(trees.bias)
    for place, t in enumerate(order):
        first, values = trees.targets[t], trees.leaves[found[:, t]]
        sums[:, place + 1] = sums[:, place]
        sums[:, place + 1, first : first + values.shape[1]] += values
    return stops.follow(sums[:, stops.group :: stops.group])


def edge_rows(slots: Slots, width: int) -> NDArray[np.float32]:
    """Draw rows (ROWS, width) of values at or next to thresholds, NaN, and extremes."""
    draw = np.random.default_rng(0)
    X = np.zeros((ROWS, width), np.float32)
    inner = slots.inner
    column = slots.columns[slots.of[inner]]
    by_column = np.argsort(column, kind="stable")
    cuts = turned(slots.keys[inner][by_column]).view(np.float32)
    used, first, count = np.unique(
        column[by_column], return_index=True, return_counts=True
    )
    at = cuts[first + (draw.random((ROWS, len(used))) * count).astype(np.int64)]
    toward = draw.choice(np.array([-np.inf, np.inf], np.float32), at.shape)
    with np.errstate(over="ignore", under="ignore"):
        beside = np.nextafter(at, toward)
    at = np.where(draw.random(at.shape) < 0.5, at, beside)
    where = draw.random(at.shape) < 0.3
    at[where] = draw.choice(_odd_values(), int(where.sum()))
    X[:, used] = at
    return X


def _odd_values() -> NDArray[np.float32]:
    smallest, largest = np.float32(1e-45), np.finfo(np.float32).max
    tiny = np.array([TINY, TINY + 1], np.int32).view(np.float32)
    values = [0.0, smallest, largest, np.inf, *tiny]
    return np.array([np.nan, *values, *(-v for v in values)], np.float32)
