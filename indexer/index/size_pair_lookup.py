"""The look-up for sizes of two numbers: cells of sizes, each with few candidates."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import degree_of
from polydom.features.errors import BadIndexFile

from ..skyline.kernels.size_pairs import pair_costs, sift
from ..skyline.size_pairs import Floats, Pair, by_accuracy, check_pairs, control_values
from .kernels.size_pair_search import best_in_cell, cell_of, scan_pairs
from .lookup import Lookup

Ints = NDArray[np.int32]

LONGEST_RUN = 4  # most neighbouring entries of a cell without a step
MOST_CELLS = 4096
NARROWEST = 1.01  # a cell's side is split only if its ends have a larger ratio


@dataclass(frozen=True, slots=True, eq=False)
class SizePairLookup(Lookup[Pair]):
    """Skylines of all sizes (a, b) in a rectangle, by cells of a k-d tree.

    A cell lists candidates, the most accurate first. It leaves a candidate out if
    another candidate, at least as accurate, is proven to be cheaper everywhere in the
    cell. Proofs compare Bernstein coefficients within the cell.

    A listed candidate is a *step* if it costs no more, everywhere in the cell, than any
    candidate listed before it. Cells are halved until nearly all their candidates are
    steps; each time across the side whose ends have the larger ratio. So bisection over
    the steps, followed by a scan of a few neighbours, finds the exact answer.
    """

    variables: ClassVar = 2
    # (N,) float64: Size at which each node of the tree divides
    thresholds: Floats = field(metadata={"form": (np.float64, 1)})
    # (N, 3) int32: 0 to compare a or 1 to compare b, the child below the threshold, the
    # child from the threshold on. A child below 0 is the complement of a cell. Child
    # nodes come after their parents.
    nodes: Ints = field(metadata={"form": (np.int32, 2)})
    # (Q, 2) int32: Cell q has `entries[cells[q, 0] : cells[q, 1]]`
    cells: Ints = field(metadata={"form": (np.int32, 2)})
    # (E,) int32: Ranks, descending; the complement of a rank if an entry is no step
    entries: Ints = field(metadata={"form": (np.int32, 1)})
    # (K,) int32: Place of each rank's quality among the distinct qualities, ascending
    levels: Ints = field(metadata={"form": (np.int32, 1)})
    # `coefficients` and `rows`: see `Lookup`; no coefficient is negative
    coefficients: Floats = field(metadata={"form": (np.float64, 2)})
    rows: NDArray[np.int64] = field(metadata={"form": (np.int64, 1)})

    @classmethod
    def build(
        cls, coefficients: Floats, qualities: Floats, sizes: tuple[Pair, Pair]
    ) -> Self:
        """Make the look-up of candidates for all sizes in a rectangle."""
        check_pairs(coefficients, qualities, sizes)
        order = by_accuracy(coefficients, qualities, sizes)
        tree = _grow(coefficients[order], sizes)
        used = np.unique(np.concatenate([cell.listed for cell in tree.cells]))[::-1]
        rank = np.zeros(len(order), np.int64)
        rank[used] = np.arange(used.size)  # the least accurate has rank 0
        rows = order[used]
        entries, cells = _share(tree.cells, rank)
        return cls(
            np.array(tree.thresholds, np.float64),
            np.array(tree.nodes, np.int32).reshape(-1, 3),
            cells,
            entries,
            np.unique(qualities[rows], return_inverse=True)[1].astype(np.int32),
            np.ascontiguousarray(coefficients[rows]),
            rows.astype(np.int64),
        )

    def best(self, size: Pair, budget_s: float) -> int:
        """Find the row of the best candidate that fits the budget; -1 if none fits.

        Of equally good candidates, it is the cheapest. Costs whose ratio is within
        1e-12 of 1 count as equal.
        """
        a, b = size
        rank = best_in_cell(
            self.thresholds,
            self.nodes,
            self.cells,
            self.entries,
            self.levels,
            self.coefficients,
            a,
            b,
            budget_s,
        )
        if rank < 0:  # rare; for sizes outside the range the search may miss some
            rank = scan_pairs(self.coefficients, a, b, budget_s)
        return -1 if rank < 0 else int(self.rows[rank])

    def skyline(self, size: Pair) -> NDArray[np.int64]:
        """Return the rows of the candidates on a size's skyline, by ascending cost."""
        a, b = size
        start, end = self.cells[cell_of(self.thresholds, self.nodes, a, b)]
        entries = self.entries[start:end]
        ranks = np.where(entries < 0, ~entries, entries)
        costs_s = pair_costs(np.ascontiguousarray(self.coefficients[ranks]), a, b)
        by_cost = np.lexsort((self.rows[ranks], -self.levels[ranks], costs_s))
        best = np.maximum.accumulate(self.levels[ranks[by_cost]])
        return self.rows[ranks[by_cost[np.diff(best, prepend=-1) > 0]]]

    def facts(self) -> dict[str, int]:
        """Return the number of cells, as {"cells": number}."""
        return {"cells": len(self.cells)}

    def check_source(
        self, coefficients: Floats, qualities: Floats, sizes: tuple[Pair, Pair]
    ) -> None:
        """Raise an error if the look-up was built for other candidates or sizes."""
        check_pairs(coefficients, qualities, sizes)
        self._check_ranked(coefficients, qualities)
        levels = np.unique(qualities[self.rows], return_inverse=True)[1]
        if not np.array_equal(self.levels, levels):
            raise BadIndexFile("the look-up's levels are not the index's qualities")

    def _needs(self) -> dict[str, Callable[[], Any]]:
        cells, ranks = self.cells, self.rows.size
        return {
            "thresholds are not one number for each node": lambda: (
                len(self.thresholds) == len(self.nodes)
                and np.isfinite(self.thresholds).all()
            ),
            "nodes are no tree of its cells": self._is_tree,
            "cells do not fit its entries": lambda: (
                cells.shape[1:] == (2,)
                and len(cells) > 0
                and (cells[:, 0] >= 0).all()
                and (cells[:, 0] < cells[:, 1]).all()
                and (cells[:, 1] <= self.entries.size).all()
            ),
            "entries are no ranks": lambda: (
                (self.entries < ranks) & (~self.entries < ranks)
            ).all(),
            "levels do not ascend with its ranks": lambda: (
                self.levels.size == ranks and (np.diff(self.levels) >= 0).all()
            ),
            "costs are not one rising polynomial for each row": lambda: (
                0 < ranks == len(self.coefficients)
                and degree_of(self.coefficients.shape[1], 2) >= 0
                and np.isfinite(self.coefficients).all()
                and (self.coefficients >= 0).all()
            ),
            "rows are negative": lambda: (self.rows >= 0).all(),
            "entries do not descend in each cell": self._descend,
        }

    def _is_tree(self) -> bool:
        """Return True if each cell, and each node but the root, has one parent."""
        if self.nodes.shape[1:] != (3,):
            return False
        axes, children = self.nodes[:, 0], self.nodes[:, 1:]
        deeper = (children > np.arange(len(children))[:, np.newaxis]) | (children < 0)
        inside = (children < len(children)) & (~children < len(self.cells))
        if not (((axes == 0) | (axes == 1)).all() and (deeper & inside).all()):
            return False
        # every node except the root, and every cell, has one parent
        known = np.sort(np.append(children, 0 if len(children) else -1))
        return np.array_equal(known, np.arange(-len(self.cells), len(children)))

    def _descend(self) -> bool:
        ranks = np.where(self.entries < 0, ~self.entries, self.entries)
        wrong = np.append(0, np.cumsum(ranks[1:] >= ranks[:-1]))
        starts, ends = self.cells.T
        return np.array_equal(wrong[ends - 1], wrong[starts])


class _Cell(NamedTuple):
    """A rectangle of sizes, its listed candidates, and a mask of the steps."""

    low: Pair
    high: Pair
    listed: NDArray[np.int64]
    steps: NDArray[np.bool_]

    def longest_run(self) -> int:
        """Return the length of the longest run of candidates that are no steps."""
        at = np.flatnonzero(np.append(self.steps, True))
        return int(np.diff(at, prepend=-1).max()) - 1

    def axis(self) -> int:
        """Return the side whose ends have the larger ratio: 0 for a, 1 for b."""
        (low_a, low_b), (high_a, high_b) = self.low, self.high
        return int(high_b / low_b > high_a / low_a)

    def halves(self) -> tuple[float, tuple[Pair, Pair], tuple[Pair, Pair]]:
        """Return the threshold that splits the cell, and both halves as (low, high)."""
        axis = self.axis()
        at = math.sqrt(self.low[axis]) * math.sqrt(self.high[axis])
        top, bottom = list(self.high), list(self.low)
        top[axis] = bottom[axis] = at
        return at, (self.low, (top[0], top[1])), ((bottom[0], bottom[1]), self.high)


class _Tree(NamedTuple):
    thresholds: list[float]
    nodes: list[list[int]]
    cells: list[_Cell]


def _grow(coefficients: Floats, sizes: tuple[Pair, Pair]) -> _Tree:
    """Divide the rectangle `sizes` into cells in which runs without steps are short."""
    everyone = np.arange(len(coefficients))
    root = _sift(coefficients, everyone, sizes)
    tree = _Tree([], [], [root])
    parents: list[tuple[int, int] | None] = [None]  # node and column above each cell
    waiting = [(-root.longest_run(), 0)]
    while waiting and len(tree.cells) < MOST_CELLS:
        run, place = heapq.heappop(waiting)
        cell = tree.cells[place]
        axis = cell.axis()
        if -run <= LONGEST_RUN:
            break
        if cell.high[axis] <= NARROWEST * cell.low[axis]:
            continue
        at, *halves = cell.halves()
        node = len(tree.nodes)
        if (parent := parents[place]) is not None:
            tree.nodes[parent[0]][parent[1]] = node
        below, above = (_sift(coefficients, cell.listed, half) for half in halves)
        tree.nodes.append([axis, ~place, ~len(tree.cells)])
        tree.thresholds.append(at)
        tree.cells[place], parents[place] = below, (node, 1)
        tree.cells.append(above)
        parents.append((node, 2))
        heapq.heappush(waiting, (-below.longest_run(), place))
        heapq.heappush(waiting, (-above.longest_run(), len(tree.cells) - 1))
    return tree


def _sift(
    coefficients: Floats, listed: NDArray[np.int64], sizes: tuple[Pair, Pair]
) -> _Cell:
    controls = control_values(coefficients[listed], sizes)
    kept, steps = sift(controls)
    return _Cell(*sizes, listed[kept], steps)


def _share(cells: list[_Cell], rank: NDArray[np.int64]) -> tuple[Ints, Ints]:
    """Return the entries of all cells, and each cell's range in them.

    Cells with equal lists share a range.
    """
    lists: dict[bytes, tuple[int, int]] = {}
    entries: list[Ints] = []
    bounds = []
    end = 0
    for cell in cells:
        ranks = rank[cell.listed].astype(np.int32)
        own = np.where(cell.steps, ranks, ~ranks)
        if (key := own.tobytes()) not in lists:
            lists[key] = end, end + len(own)
            entries.append(own)
            end += len(own)
        bounds.append(lists[key])
    return np.concatenate(entries), np.array(bounds, np.int32)
