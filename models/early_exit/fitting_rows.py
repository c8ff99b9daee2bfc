"""Base scores of rows to fit on, within bounds of memory, and blocks of light terms."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..qwyc.confidence_bound import FreshRows
from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.model import Floats, Rows
from ..scoring.rows import as_numbers

MOST_BYTES = 2**29  # of the base scores that a schedule is fitted on
PART_BYTES = 2**25  # of base scores on the way, of a part of the rows
MOST_BLOCKS = 64  # looks at a sum of light terms
SAMPLE = 1024  # rows that tell terms apart by how much they move sums

SHUFFLED = 8  # orders in which a row's exchangeable scores are seen, ...
MOST_SHUFFLED = 2**15  # ... of so many rows in all

AnySchedule = TypeVar("AnySchedule", bound=Schedule | MarginSchedule)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """T light base models, in B blocks that a schedule takes for one each.

    Attributes
    ----------
    order : (T,) int64
        Base models, block after block; within a block as they stand.
    sizes : (B,) int64
        Base models of each.
    """

    order: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def starts(self) -> NDArray[np.int64]:
        """(B,) where each block begins."""
        return np.cumsum(self.sizes) - self.sizes

    def sums(self, scores: Floats) -> Floats:
        """Add the scores (N, T) or (N, T, K) of each block up: (N, B) or (N, B, K)."""
        sums: Floats = np.add.reduceat(scores[:, self.order], self.starts, axis=1)
        return sums

    def spread_out(self, schedule: AnySchedule) -> AnySchedule:
        """Turn a schedule of blocks into one of base models, which stops at their ends.

        Parameters
        ----------
        schedule
            Fitted on `sums`.
        """
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
    """Put base models into blocks, those that move sums most into the first.

    About as many blocks as each has base models, at most `MOST_BLOCKS`; `spread` (T,)
    is how much each moves sums.
    """
    count = min(MOST_BLOCKS, int(np.ceil(np.sqrt(len(spread)))))
    widest = np.argsort(-spread, kind="stable")
    parts = [np.sort(part) for part in np.array_split(widest, count)]
    return Blocks(np.concatenate(parts), np.array([len(part) for part in parts]))


@dataclass(frozen=True, slots=True, eq=False)
class FitScores:
    """Base scores of rows, made some rows at a time.

    Attributes
    ----------
    base_scores
        Of rows (N, width): (N, T) for two classes, (N, T, K) for more.
    row_bytes
        What `base_scores` takes for each row, at most.
    blocks
        Of base models that are looked at together; None where each is by itself.
    """

    base_scores: Callable[[Rows], Floats]
    row_bytes: int
    blocks: Blocks | None = None

    def in_blocks(self, X: Rows) -> "FitScores":
        """Put base models into blocks by how much they move sums over rows X."""
        rows = X[:: max(1, len(X) // SAMPLE)]
        total = square = np.zeros(())
        with np.errstate(invalid="ignore", over="ignore"):  # fitting refuses such rows
            for part in self.parts(rows):
                scores = self.base_scores(part)
                if scores.ndim == 3:  # what all classes get moves none of their margins
                    scores = scores - scores.mean(axis=2, keepdims=True)
                total = total + scores.sum(axis=0)
                square = square + np.square(scores).sum(axis=0)
            spread = square - np.square(total) / max(1, len(rows))
        return replace(self, blocks=make_blocks(spread.reshape(len(spread), -1).sum(1)))

    def parts(self, X: Rows) -> Iterator[Rows]:
        """Parts of rows whose base scores take `PART_BYTES`, or a row each."""
        step = max(1, PART_BYTES // self.row_bytes)
        return (X[first : first + step] for first in range(0, len(X), step))

    def scores(self, X: Rows) -> Floats:
        """Scores (N, T or B[, K]) of a part of the rows."""
        scores = self.base_scores(X)
        return scores if self.blocks is None else self.blocks.sums(scores)

    def of(self, X: Rows) -> Floats:
        """Scores of all rows X."""
        out = np.empty((len(X), *self.scores(X[:1]).shape[1:]))
        first = 0
        for part in self.parts(X):
            out[first : first + len(part)] = self.scores(part)
            first += len(part)
        return out

    def draw(self, X: Rows, seed: int) -> Rows:
        """Draw as many rows as have scores of `MOST_BYTES`, in their order."""
        most = MOST_BYTES // max(1, self.scores(X[:1]).nbytes)
        if len(X) <= most:
            return X
        drawn = np.random.default_rng(seed).choice(len(X), most, replace=False)
        return X[np.sort(drawn)]

    def fresh(self, X: Rows, decisions: NDArray[Any]) -> FreshRows:
        """Scores of calibration rows X, with their decisions (N,)."""

        def read() -> Iterator[tuple[Floats, NDArray[Any]]]:
            first = 0
            for part in self.parts(X):
                yield self.scores(part), decisions[first : first + len(part)]
                first += len(part)

        return FreshRows(len(X), read)


def shuffle_scores(
    scores: Floats, decisions: NDArray[Any], seed: int
) -> tuple[Floats, NDArray[Any]]:
    """Repeat rows (N, T[, K]) with their base models in other orders, drawn for each.

    Where base models are exchangeable, as a forest's trees are, a row stands for all
    orders of its scores, and what is fitted to some thousand rows in one order each
    depends on that order more than it knows (Kalman and Moscovich, Optimal Sequential
    Testing, 2026, look at the number of votes alone). As many copies are made as
    `SHUFFLED`, `MOST_SHUFFLED` and `MOST_BYTES` allow; the first is the given order.
    """
    room = min(MOST_SHUFFLED // len(scores), MOST_BYTES // scores.nbytes)
    copies = max(1, min(SHUFFLED, room))
    draw, parts = np.random.default_rng(seed), [scores]
    for _ in range(copies - 1):
        order = draw.random(scores.shape[:2]).argsort(axis=1)
        order = order.reshape(*order.shape, *[1] * (scores.ndim - 2))
        parts.append(np.take_along_axis(scores, order, axis=1))
    return np.concatenate(parts), np.tile(decisions, copies)


def swap_columns(
    rows: NDArray[np.float32], *, copies: int = 3, swaps: float = 1.0, seed: int = 0
) -> NDArray[np.float32]:
    """Add copies in which some columns come from other rows.

    An ensemble is surer of the rows it was trained on than of fresh ones, so a
    schedule fitted on those alone stops too early. Rows it has never seen, with about
    `swaps` columns each drawn from another row, behave more like fresh ones.

    Parameters
    ----------
    rows
        (N, width) inputs of the ensemble: of a frame with categories its `rows`.
    copies
        Altered copies of all rows, >= 0.
    swaps
        Mean number of columns that another row's value takes, in (0, width].
    seed
        Of the draws.

    Returns
    -------
    ((1 + copies) * N, width) rows, the original ones first.
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
