"""Vector kernels on trial: they are used until they once differ from the portable ones.

A model's trees are packed for both when it is loaded. Both then answer the same rows,
drawn from what kernels get wrong if they do: values at thresholds and next to them,
missing and infinite ones, zeros, and the smallest numbers there are.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadModel
from ._lane_kernels import lane_early_many, lane_lead_many, lane_margins, lane_scores
from ._layout_kernels import HIGHEST, TINY, early_many, lead_many, margins, raw_scores
from ._vector_kernels import VECTORS
from .lanes import Lanes, Slots
from .walked import Answers

ROWS = 64
log = logging.getLogger("polydom")

Stops = Literal["limits", "lead", "never"]
Kind = Literal["vector", "portable"]


@dataclass(slots=True)
class Trust:
    """Whether vector kernels are used in this process."""

    held: bool = VECTORS

    @property
    def kernels(self) -> Kind:
        """The kind that evaluates single rows of trees."""
        return "vector" if self.held else "portable"

    def lose(self) -> None:
        """Use none of them any more; said once."""
        if self.held:
            self.held = False
            log.error(
                "the vector kernels differ from the portable ones on this processor "
                "and are not used"
            )


TRUST = Trust()


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels for many rows, of one kind.

    Each takes rows, an address, and arrays to write on.
    """

    margins: Callable[..., None]
    scores: Callable[..., None]
    exits: Callable[..., None]
    leads: Callable[..., None]


PORTABLE = Kernels(margins, raw_scores, early_many, lead_many)
VECTOR = Kernels(lane_margins, lane_scores, lane_early_many, lane_lead_many)


def try_lanes(
    lanes: Lanes | None,
    address: int,
    slots: Slots,
    width: int,
    bias: NDArray[np.float64],
    stops: Stops,
    plain: Callable[[NDArray[np.float32]], Answers],
    kernels: Kernels = VECTOR,
) -> Lanes | None:
    """Give trees for vectors back if both kernels answer drawn rows alike, to the bit.

    Where they do not, the processor is to blame only if the portable kernels answer as
    the trees themselves do.

    Parameters
    ----------
    lanes, address
        Where each kind of kernel finds the same trees.
    slots, width
        What rows are compared with, and their columns.
    bias : (R,)
    stops
        By which rule rows stop early.
    plain
        Answers rows by the trees as they are, without packing.
    kernels
        Those on trial. They are not trusted any more if they fail.

    Raises
    ------
    BadModel
        If the portable kernels differ from the trees, too.
    """
    if lanes is None or not TRUST.held:
        return None
    X = edge_rows(slots, width)
    expected = _answers(PORTABLE, X, address, bias, stops)
    found = _answers(kernels, X, lanes.address, bias, stops)
    # As bytes: 0 and -0 are equal, and no two missing values are.
    differ = [i for i in range(len(X)) if _row(expected, i) != _row(found, i)]
    if not differ:
        return lanes
    i = differ[0]
    if _row(plain(X[i : i + 1]), 0) != _row(expected, i):
        raise BadModel("its trees, once packed, do not answer as they are")
    TRUST.lose()
    return None


def _row(answers: Answers, i: int) -> list[bytes]:
    return [part[i].tobytes() for part in answers]


def _answers(
    kernels: Kernels,
    X: NDArray[np.float32],
    address: int,
    bias: NDArray[np.float64],
    stops: Stops,
) -> Answers:
    sums, codes = np.zeros(len(X)), np.zeros(len(X), np.int64)
    scores = np.tile(bias, (len(X), 1))
    if stops == "limits":
        kernels.exits(X, address, sums, codes)
        return sums, codes
    if stops == "lead":
        kernels.leads(X, address, scores, codes)
        return scores, codes
    if len(bias) == 1:
        kernels.margins(X, address, sums)
        return (sums,)
    kernels.scores(X, address, scores)
    return (scores,)


def edge_rows(slots: Slots, width: int) -> NDArray[np.float32]:
    """Rows (ROWS, width) at and next to thresholds, some with what is no number."""
    draw = np.random.default_rng(0)
    X = np.zeros((ROWS, width), np.float32)
    inner = slots.of >= 0
    column = slots.columns[slots.of[inner]]
    by_column = np.argsort(column, kind="stable")
    bits = slots.keys[inner][by_column]
    cuts = (bits ^ ((bits >> 31) & np.int32(HIGHEST))).view(np.float32)
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
