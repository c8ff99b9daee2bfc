"""Compute, sample and shuffle the base scores on which a schedule is fitted.

Scores of cheap base models, such as linear terms, are added up in blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..qwyc.fixed_sequence import FreshRows
from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.model import Floats, Rows
from ..scoring.rows import as_numbers

MOST_BYTES = 2**29  # limit on the base scores that a schedule is fitted on
PART_BYTES = 2**25  # bytes of the base scores of one part of the rows
MOST_BLOCKS = 64  # largest number of blocks of cheap base models
SAMPLE = 1024  # rows on which the spread of base models' scores is computed

SHUFFLED = 8  # copies of each row, with exchangeable base models in different orders
MOST_SHUFFLED = 2**15  # largest number of rows, all copies counted

AnySchedule = TypeVar("AnySchedule", bound=Schedule | MarginSchedule)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A division of T cheap base models into B blocks.

    Schedules are fitted as if a block were a single base model.
    """

    # (T,) int64: Base models, block after block, ascending within each block
    order: NDArray[np.int64]
    sizes: NDArray[np.int64]  # (B,) int64: Number of base models of each block

    @property
    def starts(self) -> NDArray[np.int64]:
        """Position (B,) of each block's first base model in `order`."""
        return np.cumsum(self.sizes) - self.sizes

    def sums(self, scores: Floats) -> Floats:
        """Add up the scores of each block: (N, B) or (N, B, K).

        `scores` (N, T) or (N, T, K) are the scores of single base models.
        """
        sums: Floats = np.add.reduceat(scores[:, self.order], self.starts, axis=1)
        return sums

    def spread_out(self, schedule: AnySchedule) -> AnySchedule:
        """Convert a schedule of blocks to a schedule of base models."""
        sizes, blocks = (
            self.sizes[schedule.order],
            np.split(self.order, self.starts[1:]),
        )
        last = np.cumsum(sizes) - 1
        parts: dict[str, Any] = {
            "order": np.concatenate([blocks[b] for b in schedule.order])
        }
        for name, never in schedule.never.items():
            parts[name] = np.full(len(self.order), never)
            parts[name][last] = getattr(schedule, name)
        return replace(schedule, **parts)


def make_blocks(spread: Floats) -> Blocks:
    """Divide T base models into blocks, sorted by descending `spread` (T,)."""
    count = min(MOST_BLOCKS, int(np.ceil(np.sqrt(len(spread)))))
    widest = np.argsort(-spread, kind="stable")
    parts = [np.sort(part) for part in np.array_split(widest, count)]
    return Blocks(np.concatenate(parts), np.array([len(part) for part in parts]))


@dataclass(frozen=True, slots=True, eq=False)
class FitScores:
    """Computes base scores, a few rows at a time to save memory."""

    # Function from rows (N, width) to scores (N, T) for two classes, (N, T, K) for more
    base_scores: Callable[[Rows], Floats]
    row_bytes: int  # Upper bound on the bytes that `base_scores` needs for one row
    # Blocks of base models; None if each base model has scores of its own
    blocks: Blocks | None = None

    def in_blocks(self, X: Rows) -> "FitScores":
        """Return a `FitScores` that computes one score for each block of base models.

        The base models whose scores vary most on rows X form the first blocks.
        """
        rows = X[:: max(1, len(X) // SAMPLE)]
        total = square = np.zeros(())
        # Rows with scores that are not finite are refused later, in fitting.
        with np.errstate(invalid="ignore", over="ignore"):
            for part in self.parts(rows):
                scores = self.base_scores(part)
                if scores.ndim == 3:  # a score common to all classes changes no margin
                    scores = scores - scores.mean(axis=2, keepdims=True)
                total = total + scores.sum(axis=0)
                square = square + np.square(scores).sum(axis=0)
            spread = square - np.square(total) / max(1, len(rows))
        return replace(self, blocks=make_blocks(spread.reshape(len(spread), -1).sum(1)))

    def parts(self, X: Rows) -> Iterator[Rows]:
        """Yield X in parts of consecutive rows.

        The scores of a part need at most `PART_BYTES` bytes, unless it is a single row.
        """
        step = max(1, PART_BYTES // self.row_bytes)
        return (X[first : first + step] for first in range(0, len(X), step))

    def scores(self, X: Rows) -> Floats:
        """Compute the scores of all rows X in one call: (N, T) or (N, T, K).

        For B blocks of base models, the shape is (N, B) or (N, B, K).
        """
        scores = self.base_scores(X)
        return scores if self.blocks is None else self.blocks.sums(scores)

    def of(self, X: Rows) -> Floats:
        """Compute the same as `scores`, but for a few rows at a time."""
        out = np.empty((len(X), *self.scores(X[:1]).shape[1:]))
        first = 0
        for part in self.parts(X):
            out[first : first + len(part)] = self.scores(part)
            first += len(part)
        return out

    def draw(self, X: Rows, seed: int) -> Rows:
        """Draw random rows of X, so many that their scores fit into `MOST_BYTES` bytes.

        The rows keep their order. X itself is returned if all rows fit.
        """
        most = MOST_BYTES // max(1, self.scores(X[:1]).nbytes)
        if len(X) <= most:
            return X
        drawn = np.random.default_rng(seed).choice(len(X), most, replace=False)
        return X[np.sort(drawn)]

    def fresh(self, X: Rows, decisions: NDArray[Any]) -> FreshRows:
        """Return rows X as calibration rows, with their scores and `decisions` (N,).

        Scores are computed when they are read, for a few rows at a time.
        """

        def read() -> Iterator[tuple[Floats, NDArray[Any]]]:
            first = 0
            for part in self.parts(X):
                yield self.scores(part), decisions[first : first + len(part)]
                first += len(part)

        return FreshRows(decisions, read)


def shuffle_scores(
    scores: Floats, decisions: NDArray[Any], seed: int
) -> tuple[Floats, NDArray[Any]]:
    """Return several copies of each row's scores, with base models in random order.

    `scores` are (N, T) or (N, T, K); the first copy keeps their order. `decisions` (N,)
    are repeated for each copy. Exchangeable base models, such as the trees of a forest,
    could come in any order. Thresholds fitted to a single order would depend on this
    accidental order (Kalman and Moscovich, Optimal Sequential Testing, 2026).
    """
    most = min(MOST_SHUFFLED // len(scores), MOST_BYTES // scores.nbytes)
    copies = max(1, min(SHUFFLED, most))
    draw, parts = np.random.default_rng(seed), [scores]
    for _ in range(copies - 1):
        order = draw.random(scores.shape[:2]).argsort(axis=1)
        order = order.reshape(*order.shape, *[1] * (scores.ndim - 2))
        parts.append(np.take_along_axis(scores, order, axis=1))
    return np.concatenate(parts), np.tile(decisions, copies)


def swap_columns(
    rows: NDArray[np.float32], *, copies: int = 3, swaps: float = 1.0, seed: int = 0
) -> NDArray[np.float32]:
    """Add copies of rows in which some columns have the values of other rows.

    An ensemble is surer of its training rows than of fresh rows, so a schedule fitted
    on training rows stops too early. If about one column of a copy comes from another
    row, the ensemble is about as sure of the copy as of fresh rows.

    Parameters
    ----------
    rows
        (N, width) inputs of the ensemble; for a data frame with categories,
        pass `ensemble.rows(frame)`.
    copies
        Number of altered copies of all rows, >= 0.
    swaps
        Mean number of replaced columns in a copied row, in (0, width].
    seed
        Seed of the draws.

    Returns
    -------
    Rows ((1 + copies) * N, width), the original rows first.
    """
    rows = as_numbers(rows, "rows")
    if rows.ndim != 2 or 0 in rows.shape:
        raise BadInput(f"rows have shape {rows.shape}; they must be (N, width)")
    if copies < 0:
        raise BadInput(f"copies is {copies!r}; it must be at least 0")
    if not 0 < swaps <= rows.shape[1]:
        raise BadInput(
            f"swaps is {swaps!r}; it must be above 0 and at most the {rows.shape[1]} "
            "columns"
        )
    draws = np.random.default_rng(seed)
    out = np.tile(rows, (1 + copies, 1))
    for k in range(1, 1 + copies):
        altered = out[k * len(rows) : (k + 1) * len(rows)]
        for j in range(rows.shape[1]):
            taken = np.flatnonzero(draws.random(len(rows)) < swaps / rows.shape[1])
            altered[taken, j] = rows[draws.integers(0, len(rows), len(taken)), j]
    return out
