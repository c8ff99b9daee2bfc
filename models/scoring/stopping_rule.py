"""When a row's base models are enough: never, beyond limits, or by a margin.

A rule is what kernels are packed with, and `follow` is the same rule in NumPy, from
running sums (N, T, R): against it kernels are held, and it serves where there are none.
Both find a total (R,) for each row, and a code: 4 * base models used + answer.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .model import Floats

Codes = NDArray[np.int64]

# Answers. For two classes a limit says which; for more it only says that the class
# is the BEST.
NEGATIVE, POSITIVE, UNDECIDED = range(3)
BEST = POSITIVE
# A sum in another order differs by rounding: where it comes this near to a tie (or this
# share of it, if that is more), the library's own order decides.
NEAR = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Never:
    """All base models are added, and nothing is decided."""

    rule: ClassVar[Literal["never"]] = "never"
    group: ClassVar[int] = 1
    near: ClassVar[float] = np.inf
    threshold: ClassVar[float] = 0.0

    def start(self, bias: Floats) -> Floats:
        """(R,) sums before the first base model: the bias."""
        return bias

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Nothing: no sum is looked at."""
        return {}

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Totals (N, R), and codes of which nothing is meant."""
        return sums[:, -1], np.zeros(len(sums), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Two classes: after base model t, sums below or above a limit are enough.

    Attributes
    ----------
    lower, upper : (T,) float64
        A sum below the first is answered NEGATIVE, one above the second POSITIVE.
    threshold
        Above it a whole sum is positive. Sums start from 0: bias and threshold of the
        model are one number here.
    """

    lower: Floats
    upper: Floats
    threshold: float = 0.0
    rule: ClassVar[Literal["limits"]] = "limits"
    group: ClassVar[int] = 1

    @property
    def near(self) -> float:
        """How near to the threshold the library's own order of adding decides."""
        return NEAR * max(1.0, abs(self.threshold))

    def start(self, bias: Floats) -> Floats:
        """(1,) sum before the first base model: 0."""
        return np.zeros(1)

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Totals (N, 1) and codes (N,) of running sums (N, T, 1)."""
        beyond = (sums[:, :, 0] < self.lower) | (sums[:, :, 0] > self.upper)
        at = _first(beyond)
        totals, rows = sums[np.arange(len(sums)), at], np.arange(len(sums))
        answers = np.where(totals[:, 0] > self.upper[at], POSITIVE, NEGATIVE)
        return totals, 4 * (at + 1) + np.where(beyond[rows, at], answers, UNDECIDED)

    def chosen(self, totals: Floats, codes: Codes) -> Codes:
        """(N,) classes: the limit's answer, else on which side the whole sum is."""
        answers = codes & 3
        above = totals[:, 0] > self.threshold
        return np.where(answers == UNDECIDED, above, answers).astype(np.int64)

    def clear(self, totals: Floats) -> NDArray[np.bool_]:
        """Say of which whole sums (N, 1) another order of adding decides alike."""
        far: NDArray[np.bool_] = np.abs(totals[:, 0] - self.threshold) > self.near
        return far

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Limits (count,), of which those beyond the last are never passed."""
        none = np.full(count - len(self.lower), np.inf)
        return {
            "lower": np.append(self.lower, -none),
            "upper": np.append(self.upper, none),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """K > 2 classes: after base model t, a margin large enough ends it.

    The margin of a row is by how much its best sum exceeds its second best.

    Attributes
    ----------
    margin : (T,) float64
    group
        Trees of a base model, one after the other.
    """

    margin: Floats
    group: int = 1
    rule: ClassVar[Literal["margins"]] = "margins"
    near: ClassVar[float] = NEAR
    threshold: ClassVar[float] = 0.0

    def start(self, bias: Floats) -> Floats:
        """(K,) sums before the first base model: the bias."""
        return bias

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Totals (N, K) and codes (N,) of running sums (N, T, K)."""
        enough = margins_of(sums) > self.margin
        at, rows = _first(enough), np.arange(len(sums))
        answers = np.where(enough[rows, at], BEST, UNDECIDED)
        return sums[rows, at], 4 * (at + 1) + answers

    def chosen(self, totals: Floats, codes: Codes) -> Codes:
        """(N,) classes of the largest sums, of equal ones the first."""
        chosen: Codes = totals.argmax(axis=1)
        return chosen

    def clear(self, totals: Floats) -> NDArray[np.bool_]:
        """Say of which whole sums (N, K) another order of adding decides alike."""
        largest = np.abs(totals).max(axis=1)
        far: NDArray[np.bool_] = margins_of(totals) > NEAR * np.maximum(1.0, largest)
        return far

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Margins (count,): inf, of which there is no more, within base models."""
        out = np.full(count, np.inf)
        out[self.group - 1 : self.group * len(self.margin) : self.group] = self.margin
        return {"upper": out}


Stops = Never | Limits | Margins


def _first(enough: NDArray[np.bool_]) -> Codes:
    """Position (N,) of the first that is enough, or the last."""
    found = enough.any(axis=1)
    first: Codes = np.where(found, enough.argmax(axis=1), enough.shape[1] - 1)
    return first


def margins_of(sums: Floats) -> Floats:
    """By how much the best of K >= 2 sums (..., K) exceeds the second best."""
    ordered: NDArray[Any] = np.partition(sums, -2, axis=-1)
    margins: Floats = ordered[..., -1] - ordered[..., -2]
    return margins
