"""Rules for when to stop evaluating a row: never, beyond limits, or by a margin.

A kernel applies a rule while it adds base models. The rule's method `follow` does the
same in NumPy, from the sums (N, T, R) of N rows after each of T base models. Both
return, for each row, the sums (R,) at which it stopped, and a code: 4 * (number of base
models added) + answer. The code of the rule `Never` is 0.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .model import Floats

Codes = NDArray[np.int64]

# Answers. For two classes, a sum beyond a limit is NEGATIVE or POSITIVE. For more
# classes, BEST means that the margin is large enough to choose the largest sum's class.
NEGATIVE, POSITIVE, UNDECIDED = range(3)
BEST = POSITIVE
# Sums added in a different order round differently. A sum this near to a tie (in
# absolute or relative terms) is added again in the original library's order.
NEAR = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Never:
    """The rule that never stops: all base models are added, and no class is chosen."""

    rule: ClassVar[Literal["never"]] = "never"
    group: ClassVar[int] = 1
    near: ClassVar[float] = np.inf
    threshold: ClassVar[float] = 0.0

    def start(self, bias: Floats) -> Floats:
        """Return `bias` (R,), the sums before the first base model."""
        return bias

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Return an empty dict: this rule has no limits."""
        return {}

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Return the sums (N, R) after the last base model, and codes (N,), all 0."""
        return sums[:, -1], np.zeros(len(sums), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The rule for two classes: stop as soon as the sum is outside two limits."""

    # `lower` and `upper`: (T,) float64: Limits after each base model. A sum below
    # `lower` is answered NEGATIVE, a sum above `upper` POSITIVE.
    lower: Floats
    upper: Floats
    # Whole sums above the threshold are POSITIVE. Sums start from 0, so this is the
    # model's threshold minus its bias.
    threshold: float = 0.0
    rule: ClassVar[Literal["limits"]] = "limits"
    group: ClassVar[int] = 1

    @property
    def near(self) -> float:
        """Largest distance from the threshold at which rounding could change the class.

        A sum this near is added again in the original library's order.
        """
        return NEAR * max(1.0, abs(self.threshold))

    def start(self, bias: Floats) -> Floats:
        """Return [0], the sum before the first base model."""
        return np.zeros(1)

    def beyond(self, totals: Floats, r: int) -> NDArray[np.bool_]:
        """Return a mask (N,) of rows that stop with sums (N, 1) at position `r`."""
        sums = totals[:, 0]
        outside: NDArray[np.bool_] = (sums < self.lower[r]) | (sums > self.upper[r])
        return outside

    def first(self, count: int) -> "Limits":
        """Return the rule for only the first `count` base models."""
        return Limits(self.lower[:count], self.upper[:count], self.threshold)

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Return the sums (N, 1) at which rows stop, and the rows' codes (N,).

        `sums` (N, T, 1) are the rows' sums after each of T base models.
        """
        beyond = (sums[:, :, 0] < self.lower) | (sums[:, :, 0] > self.upper)
        at = _first(beyond)
        totals, rows = sums[np.arange(len(sums)), at], np.arange(len(sums))
        answers = np.where(totals[:, 0] > self.upper[at], POSITIVE, NEGATIVE)
        return totals, 4 * (at + 1) + np.where(beyond[rows, at], answers, UNDECIDED)

    def chosen(self, totals: Floats, codes: Codes) -> Codes:
        """Return the class, 0 or 1, of each row (N,).

        A row that stopped early has the class of the limit that its sum passed.
        Otherwise the sum is compared with the threshold.
        """
        answers = codes & 3
        above = totals[:, 0] > self.threshold
        return np.where(answers == UNDECIDED, above, answers).astype(np.int64)

    def clear(self, totals: Floats) -> NDArray[np.bool_]:
        """Return a mask (N,): True where rounding cannot change a row's class.

        The original library may add in a different order, so that its sums differ
        slightly from `totals` (N, 1).
        """
        far: NDArray[np.bool_] = np.abs(totals[:, 0] - self.threshold) > self.near
        return far

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Return the arrays "lower" and "upper" (count,), the limits after each tree.

        The limits of trees after the last base model, which only pad a group of trees,
        are infinite.
        """
        none = np.full(count - len(self.lower), np.inf)
        return {
            "lower": np.append(self.lower, -none),
            "upper": np.append(self.upper, none),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """The rule for K > 2 classes: stop as soon as the largest sum leads by enough."""

    margin: Floats  # (T,) float64: Margin that a row must exceed after each base model
    group: int = 1  # Number of consecutive trees that are one base model
    rule: ClassVar[Literal["margins"]] = "margins"
    near: ClassVar[float] = NEAR
    threshold: ClassVar[float] = 0.0

    def start(self, bias: Floats) -> Floats:
        """Return `bias` (K,), the sums before the first base model."""
        return bias

    def beyond(self, totals: Floats, r: int) -> NDArray[np.bool_]:
        """Return a mask (N,) of rows that stop with sums (N, K) at position `r`."""
        wide: NDArray[np.bool_] = margins_of(totals) > self.margin[r]
        return wide

    def first(self, count: int) -> "Margins":
        """Return the rule for only the first `count` base models."""
        return Margins(self.margin[:count], self.group)

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Return the sums (N, K) at which rows stop, and the rows' codes (N,).

        `sums` (N, T, K) are the rows' sums after each of T base models.
        """
        enough = margins_of(sums) > self.margin
        at, rows = _first(enough), np.arange(len(sums))
        answers = np.where(enough[rows, at], BEST, UNDECIDED)
        return sums[rows, at], 4 * (at + 1) + answers

    def chosen(self, totals: Floats, codes: Codes) -> Codes:
        """Return each row's class (N,): the position of its first largest total."""
        chosen: Codes = totals.argmax(axis=1)
        return chosen

    def clear(self, totals: Floats) -> NDArray[np.bool_]:
        """Return a mask (N,): True where rounding cannot change a row's class.

        The original library may add in a different order, so that its sums differ
        slightly from `totals` (N, K).
        """
        largest = np.abs(totals).max(axis=1)
        far: NDArray[np.bool_] = margins_of(totals) > NEAR * np.maximum(1.0, largest)
        return far

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Return the array "upper" (count,), the margin to exceed after each tree.

        The margin is infinite, except after the last tree of each base model.
        """
        out = np.full(count, np.inf)
        out[self.group - 1 : self.group * len(self.margin) : self.group] = self.margin
        return {"upper": out}


Stops = Never | Limits | Margins


def _first(enough: NDArray[np.bool_]) -> Codes:
    """Return the position (N,) of each row's first True; if all are False, the last."""
    found = enough.any(axis=1)
    first: Codes = np.where(found, enough.argmax(axis=1), enough.shape[1] - 1)
    return first


def margins_of(sums: Floats) -> Floats:
    """Return the largest minus the second largest of K sums, for sums (..., K)."""
    ordered: NDArray[Any] = np.partition(sums, -2, axis=-1)
    margins: Floats = ordered[..., -1] - ordered[..., -2]
    return margins
