"""The Poly-Dom index itself: (size, budget) to the best candidate, in nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile

from ..skyline.skylines import check_candidates, skylines
from .kernels.size_search import best_rank, scan_ranks, skyline_ranks
from .lookup import Lookup

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMALLEST_BLOCK = 8  # changes that share one list of stays, at least


@dataclass(frozen=True, slots=True, eq=False)
class SizeLookup(Lookup[float]):
    """Skylines of all sizes, sharing what neighbouring ones have in common.

    Between two breakpoints lies a range of sizes with one skyline. On any skyline the
    order by cost is the order by quality, so candidates are ranked once by quality.
    A block of neighbouring ranges keeps one list of stays, ordered by rank; a skyline
    is the stays of its block that span its range. A block ends when as many
    candidates have joined as there were at its start, so the bytes grow with the
    number of changes.

    Attributes
    ----------
    breakpoints : (R - 1,) float64
        Sizes at which the skyline changes, ascending.
    guide : (R + 1,) int32
        How many breakpoints lie before each of R equal cells of the sizes.
    spacing : (2,) float64
        Where the first cell starts, and cells per unit of size.
    blocks : (R,) int32
        Block of each range.
    offsets : (B + 1,) int32
        Block b has `stays[offsets[b] : offsets[b + 1]]`.
    stays : (T, 3) int32
        Rank, first range, end range; in each block by ascending rank, then range.
    coefficients, rows
        As `Lookup` says.
    """

    variables: ClassVar = 1
    breakpoints: Floats = field(metadata={"form": (np.float64, 1)})
    guide: NDArray[np.int32] = field(metadata={"form": (np.int32, 1)})
    spacing: Floats = field(metadata={"form": (np.float64, 1)})
    blocks: NDArray[np.int32] = field(metadata={"form": (np.int32, 1)})
    offsets: NDArray[np.int32] = field(metadata={"form": (np.int32, 1)})
    stays: NDArray[np.int32] = field(metadata={"form": (np.int32, 2)})
    coefficients: Floats = field(metadata={"form": (np.float64, 2)})
    rows: Ints = field(metadata={"form": (np.int64, 1)})

    @classmethod
    def build(
        cls, coefficients: Floats, qualities: Floats, sizes: tuple[float, float]
    ) -> Self:
        """Index candidates for all sizes in a range, by their `skylines`."""
        found = skylines(coefficients, qualities, sizes)
        # Qualities are distinct on a skyline, but not between skylines.
        rows = np.unique(found.rows)
        rows = rows[np.argsort(qualities[rows], kind="stable")]
        rank = np.zeros(len(qualities), np.int64)
        rank[rows] = np.arange(rows.size)

        breakpoints = found.breakpoints
        begins = np.searchsorted(breakpoints, found.starts, side="right")
        ends = np.searchsorted(breakpoints, found.ends, side="right")
        ends[np.isinf(found.ends)] = breakpoints.size + 1
        blocks = _blocks(begins, ends, breakpoints.size + 1)
        offsets, stays = _share(rank[found.rows], begins, ends, blocks)
        return cls(
            breakpoints,
            *_guide(breakpoints, sizes),
            blocks.astype(np.int32),
            offsets.astype(np.int32),
            np.ascontiguousarray(stays, np.int32),
            np.ascontiguousarray(coefficients[rows]),
            rows,
        )

    def best(self, size: float, budget_s: float) -> int:
        """Row of the most accurate candidate that fits, -1 if none does.

        A candidate within rounding of the budget is missed only at sizes within
        rounding of a crossing of its curve.
        """
        rank = best_rank(
            self.breakpoints,
            self.guide,
            self.spacing,
            self.blocks,
            self.offsets,
            self.stays,
            self.coefficients,
            size,
            budget_s,
        )
        if rank < 0:  # seldom, and outside the sizes the search may have missed some
            rank = scan_ranks(self.coefficients, size, budget_s)
        return -1 if rank < 0 else int(self.rows[rank])

    def skyline(self, size: float) -> Ints:
        """Rows on the skyline of a size, by ascending cost and quality."""
        position = int(np.searchsorted(self.breakpoints, size, side="right"))
        ranks: Ints = skyline_ranks(self.blocks, self.offsets, self.stays, position)
        return self.rows[ranks]

    @staticmethod
    def covers(sizes: tuple[float, float], size: float) -> bool:
        """Say whether a size lies in a range."""
        return sizes[0] <= size <= sizes[1]

    def facts(self) -> dict[str, int]:
        """How finely the sizes are divided."""
        return {"breakpoints": len(self.breakpoints)}

    def check_source(
        self, coefficients: Floats, qualities: Floats, sizes: tuple[float, float]
    ) -> None:
        """Refuse to look up other candidates than these, or for other sizes."""
        check_candidates(coefficients, qualities, sizes)
        self._check_ranked(coefficients, qualities)
        low, high = sizes
        spacing = np.array([low, _per_unit(self.breakpoints.size + 1, sizes)])
        inside = self.breakpoints[(self.breakpoints > low) & (self.breakpoints <= high)]
        if inside.size < self.breakpoints.size or not np.array_equal(
            self.spacing, spacing
        ):
            raise BadIndexFile("the look-up's ranges are not of the index's sizes")

    def _needs(self) -> dict[str, Callable[[], Any]]:
        ranks = self.rows.size
        return {
            "breakpoints do not ascend": lambda: (
                np.isfinite(self.breakpoints).all()
                and (np.diff(self.breakpoints) > 0).all()
            ),
            "guide does not fit its breakpoints": self._guide_fits,
            "blocks do not fit its ranges": self._blocks_fit,
            "offsets do not fit its stays": lambda: (
                self.offsets[0] == 0
                and self.offsets[-1] == len(self.stays)
                and (np.diff(self.offsets) >= 0).all()
            ),
            "stays are no triples of a rank and its ranges": self._are_triples,
            "stays are in no order, or overlap": self._stays_fit,
            "costs are not one finite curve for each row": lambda: (
                len(self.coefficients) == ranks
                and self.coefficients.size > 0
                and bool(np.isfinite(self.coefficients).all())
            ),
            "rows are negative": lambda: bool((self.rows >= 0).all()),
        }

    def _guide_fits(self) -> bool:
        if self.spacing.size != 2 or not np.isfinite(self.spacing).all():
            return False
        cells = _cells(self.breakpoints, self.spacing)
        counts = np.searchsorted(cells, np.arange(self.breakpoints.size + 2))
        return np.array_equal(self.guide, counts)

    def _blocks_fit(self) -> bool:
        """Say whether each range has the block of the one before, or the next."""
        steps = np.diff(self.blocks.astype(np.int64))
        return (
            self.blocks.size == self.breakpoints.size + 1
            and self.blocks[0] == 0
            and bool(((steps == 0) | (steps == 1)).all())
            and self.offsets.size == int(self.blocks[-1]) + 2
        )

    def _are_triples(self) -> bool:
        if self.stays.shape[1:] != (3,):
            return False
        rank, begin, end = self.stays.T
        inside = (begin >= 0) & (begin < end) & (end <= self.blocks.size)
        return bool((inside & (rank >= 0) & (rank < self.rows.size)).all())

    def _stays_fit(self) -> bool:
        """Say whether a range has somebody on its skyline, and nobody there twice."""
        rank, begin, end = self.stays.T.astype(np.int64)
        block = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        together = block[1:] == block[:-1]
        again = (rank[1:] == rank[:-1]) & (begin[1:] >= end[:-1])
        if not ((rank[1:] > rank[:-1]) | again)[together].all():
            return False
        # A stay counts in those of its ranges that its block has.
        first = np.searchsorted(self.blocks, np.arange(self.offsets.size))
        begin, end = np.maximum(begin, first[block]), np.minimum(end, first[block + 1])
        joined = np.bincount(begin, minlength=self.blocks.size + 1)
        left = np.bincount(end, minlength=self.blocks.size + 1)
        on_skyline = np.cumsum(joined - left)[: self.blocks.size]
        return bool((begin < end).all() and (on_skyline > 0).all())


def _guide(
    breakpoints: Floats, sizes: tuple[float, float]
) -> tuple[NDArray[np.int32], Floats]:
    """Count the breakpoints before each of as many equal cells as there are ranges."""
    spacing = np.array([sizes[0], _per_unit(breakpoints.size + 1, sizes)])
    cells = _cells(breakpoints, spacing)
    counts = np.searchsorted(cells, np.arange(breakpoints.size + 2))
    return counts.astype(np.int32), spacing


def _per_unit(ranges: int, sizes: tuple[float, float]) -> float:
    """Cells per unit of size; none where the sizes hardly differ."""
    width = sizes[1] - sizes[0]
    per_unit = ranges / width if width > 0 else 0.0
    return per_unit if math.isfinite(per_unit) else 0.0


def _cells(breakpoints: Floats, spacing: Floats) -> Floats:
    """Cell of each breakpoint, by the same arithmetic as in the kernel."""
    with np.errstate(all="ignore"):  # of a file these may be any numbers
        places = (breakpoints - spacing[0]) * spacing[1]
    cells: Floats = np.floor(np.clip(places, 0, breakpoints.size))
    return cells


def _blocks(begins: Ints, ends: Ints, ranges: int) -> Ints:
    """Block of each range: a new one when the joined outnumber those at the start."""
    joined = np.cumsum(np.bincount(begins, minlength=ranges)[:ranges])
    left = np.cumsum(np.bincount(ends, minlength=ranges + 1)[:ranges])
    blocks = np.zeros(ranges, np.int64)
    first = 0
    while first < ranges:
        room = max(SMALLEST_BLOCK, int(joined[first] - left[first]))
        end = int(np.searchsorted(joined, joined[first] + room, side="right"))
        blocks[max(end, first + 1) :] += 1
        first = max(end, first + 1)
    return blocks


def _share(ranks: Ints, begins: Ints, ends: Ints, blocks: Ints) -> tuple[Ints, Ints]:
    """Offsets and stays: every stay is listed in each block it reaches into."""
    first, last = blocks[begins], blocks[ends - 1]
    counts = last - first + 1
    stay = np.repeat(np.arange(ranks.size), counts)
    block = np.arange(stay.size) - np.repeat(np.cumsum(counts) - counts, counts)
    block += first[stay]
    order = np.lexsort([begins[stay], ranks[stay], block])
    stay = stay[order]
    offsets = np.searchsorted(block[order], np.arange(int(blocks[-1]) + 2))
    return offsets, np.column_stack([ranks[stay], begins[stay], ends[stay]])
