"""Poly-Dom's look-up for sizes of one number, in nanoseconds (ICSP, section 3)."""

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

SMALLEST_BLOCK = 8  # fewest changes of the skyline that share one list of spans


@dataclass(frozen=True, slots=True, eq=False)
class SizeLookup(Lookup[float]):
    """Skylines of all sizes of one number; neighbouring skylines share a list.

    Between two breakpoints lies a *range* of sizes with one skyline. Along a skyline,
    candidates ascend in cost and in quality, so one ranking by quality orders them all.
    A *span* says that a candidate is on the skylines from one range to another.

    A *block* is a run of neighbouring ranges with one list of spans, by rank. The
    skyline of a range consists of the spans of its block that contain the range. A
    block ends when the number of candidates that joined the skyline reaches the number
    that were on it at the block's start. So the number of spans grows only with the
    number of changes of the skyline.
    """

    variables: ClassVar = 1
    # (R - 1,) float64: Sizes at which the skyline changes, ascending
    breakpoints: Floats = field(metadata={"form": (np.float64, 1)})
    # (R + 1,) int32: Number of breakpoints before each of R equal cells, and before
    # the end
    guide: NDArray[np.int32] = field(metadata={"form": (np.int32, 1)})
    # (2,) float64: Size at which the first cell starts, and cells per unit of size
    spacing: Floats = field(metadata={"form": (np.float64, 1)})
    # (R,) int32: Block of each range
    blocks: NDArray[np.int32] = field(metadata={"form": (np.int32, 1)})
    # (B + 1,) int32: Block b has `spans[offsets[b] : offsets[b + 1]]`
    offsets: NDArray[np.int32] = field(metadata={"form": (np.int32, 1)})
    # (T, 3) int32: Rank, first range and end range; in each block by ascending rank,
    # then range. A file has this array as `stays`.
    spans: NDArray[np.int32] = field(metadata={"form": (np.int32, 2), "file": "stays"})
    # `coefficients` and `rows`: see `Lookup`
    coefficients: Floats = field(metadata={"form": (np.float64, 2)})
    rows: Ints = field(metadata={"form": (np.int64, 1)})

    @classmethod
    def build(
        cls, coefficients: Floats, qualities: Floats, sizes: tuple[float, float]
    ) -> Self:
        """Make the look-up of candidates for sizes from `sizes[0]` to `sizes[1]`."""
        found = skylines(coefficients, qualities, sizes)
        # qualities are distinct on one skyline, but not between skylines
        rows = np.unique(found.rows)
        rows = rows[np.argsort(qualities[rows], kind="stable")]
        rank = np.zeros(len(qualities), np.int64)
        rank[rows] = np.arange(rows.size)

        breakpoints = found.breakpoints
        begins = np.searchsorted(breakpoints, found.starts, side="right")
        ends = np.searchsorted(breakpoints, found.ends, side="right")
        ends[np.isinf(found.ends)] = breakpoints.size + 1
        blocks = _blocks(begins, ends, breakpoints.size + 1)
        offsets, spans = _list_spans(rank[found.rows], begins, ends, blocks)
        spacing = _spacing(breakpoints.size + 1, sizes)
        return cls(
            breakpoints,
            _guide(breakpoints, spacing),
            spacing,
            blocks.astype(np.int32),
            offsets.astype(np.int32),
            np.ascontiguousarray(spans, np.int32),
            np.ascontiguousarray(coefficients[rows]),
            rows,
        )

    def best(self, size: float, budget_s: float) -> int:
        """Find the row of the best candidate that fits the budget; -1 if none fits.

        If a candidate's cost equals the budget up to rounding, it may be missed, but
        only at sizes where its cost curve crosses another curve.
        """
        rank = best_rank(
            self.breakpoints,
            self.guide,
            self.spacing,
            self.blocks,
            self.offsets,
            self.spans,
            self.coefficients,
            size,
            budget_s,
        )
        if rank < 0:  # rare; for sizes outside the range the search may miss some
            rank = scan_ranks(self.coefficients, size, budget_s)
        return -1 if rank < 0 else int(self.rows[rank])

    def skyline(self, size: float) -> Ints:
        """Return the rows of the candidates on a size's skyline, by ascending cost."""
        position = int(np.searchsorted(self.breakpoints, size, side="right"))
        ranks: Ints = skyline_ranks(self.blocks, self.offsets, self.spans, position)
        return self.rows[ranks]

    def facts(self) -> dict[str, int]:
        """Return the number of breakpoints, as {"breakpoints": number}."""
        return {"breakpoints": len(self.breakpoints)}

    def check_source(
        self, coefficients: Floats, qualities: Floats, sizes: tuple[float, float]
    ) -> None:
        """Raise an error if the look-up was built for other candidates or sizes."""
        check_candidates(coefficients, qualities, sizes)
        self._check_ranked(coefficients, qualities)
        low, high = sizes
        spacing = _spacing(self.breakpoints.size + 1, sizes)
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
                and self.offsets[-1] == len(self.spans)
                and (np.diff(self.offsets) >= 0).all()
            ),
            "stays are no triples of a rank and its ranges": self._are_triples,
            "stays are in no order, or overlap": self._spans_fit,
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
        return np.array_equal(self.guide, _guide(self.breakpoints, self.spacing))

    def _blocks_fit(self) -> bool:
        steps = np.diff(self.blocks.astype(np.int64))
        return (
            self.blocks.size == self.breakpoints.size + 1
            and self.blocks[0] == 0
            and bool(((steps == 0) | (steps == 1)).all())
            and self.offsets.size == int(self.blocks[-1]) + 2
        )

    def _are_triples(self) -> bool:
        if self.spans.shape[1:] != (3,):
            return False
        rank, begin, end = self.spans.T
        inside = (begin >= 0) & (begin < end) & (end <= self.blocks.size)
        return bool((inside & (rank >= 0) & (rank < self.rows.size)).all())

    def _spans_fit(self) -> bool:
        rank, begin, end = self.spans.T.astype(np.int64)
        block = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        together = block[1:] == block[:-1]
        again = (rank[1:] == rank[:-1]) & (begin[1:] >= end[:-1])
        if not ((rank[1:] > rank[:-1]) | again)[together].all():
            return False
        # a span counts only in the ranges of its block
        first = np.searchsorted(self.blocks, np.arange(self.offsets.size))
        begin, end = np.maximum(begin, first[block]), np.minimum(end, first[block + 1])
        joined = np.bincount(begin, minlength=self.blocks.size + 1)
        left = np.bincount(end, minlength=self.blocks.size + 1)
        on_skyline = np.cumsum(joined - left)[: self.blocks.size]
        return bool((begin < end).all() and (on_skyline > 0).all())


def _guide(breakpoints: Floats, spacing: Floats) -> NDArray[np.int32]:
    """Return the count of breakpoints before each cell, and before the end."""
    cells = _cells(breakpoints, spacing)
    return np.searchsorted(cells, np.arange(breakpoints.size + 2)).astype(np.int32)


def _spacing(ranges: int, sizes: tuple[float, float]) -> Floats:
    low, high = sizes
    per_unit = ranges / (high - low) if high > low else 0.0
    return np.array([low, per_unit if math.isfinite(per_unit) else 0.0])


def _cells(breakpoints: Floats, spacing: Floats) -> Floats:
    """Return the cell of each breakpoint, by the same arithmetic as the kernel."""
    with np.errstate(all="ignore"):  # a file may hold any numbers
        places = (breakpoints - spacing[0]) * spacing[1]
    cells: Floats = np.floor(np.clip(places, 0, breakpoints.size))
    return cells


def _blocks(begins: Ints, ends: Ints, ranges: int) -> Ints:
    """Return the block of each range; see `SizeLookup` for where a block ends."""
    joined = np.cumsum(np.bincount(begins, minlength=ranges)[:ranges])
    left = np.cumsum(np.bincount(ends, minlength=ranges + 1)[:ranges])
    blocks = np.zeros(ranges, np.int64)
    first = 0
    while first < ranges:
        most = max(SMALLEST_BLOCK, int(joined[first] - left[first]))
        end = int(np.searchsorted(joined, joined[first] + most, side="right"))
        blocks[max(end, first + 1) :] += 1
        first = max(end, first + 1)
    return blocks


def _list_spans(
    ranks: Ints, begins: Ints, ends: Ints, blocks: Ints
) -> tuple[Ints, Ints]:
    first, last = blocks[begins], blocks[ends - 1]
    counts = last - first + 1
    span = np.repeat(np.arange(ranks.size), counts)
    block = np.arange(span.size) - np.repeat(np.cumsum(counts) - counts, counts)
    block += first[span]
    order = np.lexsort([begins[span], ranks[span], block])
    span = span[order]
    offsets = np.searchsorted(block[order], np.arange(int(blocks[-1]) + 2))
    return offsets, np.column_stack([ranks[span], begins[span], ends[span]])
