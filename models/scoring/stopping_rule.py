"""Rules that end the evaluation of a row: never, beyond limits, or by a margin.

A kernel is packed with one rule. The rule's method `follow` does the same in NumPy,
from running sums (N, T, R). Both give each row a total (R,), which is its sum at the
end of the evaluation, and a code: 4 * (number of base models used) + answer. The code
of the rule `Never` is 0.
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
# Sums added in another order round differently. A sum this near to a tie (in absolute
# or relative terms) is added again in the library's own order.
NEAR = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Never:
    """The rule that never stops: all base models are added, and no answer is chosen."""

    rule: ClassVar[Literal["never"]] = "never"
    group: ClassVar[int] = 1
    near: ClassVar[float] = np.inf
    threshold: ClassVar[float] = 0.0

    def start(self, bias: Floats) -> Floats:
        """Return the sums (R,) before the first base model: the bias."""
        return bias

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Return an empty dict: this rule has no limits."""
        return {}

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Return the last of the running sums (N, T, R): (N, R), and codes 0 (N,)."""
        return sums[:, -1], np.zeros(len(sums), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The rule for two classes: a sum beyond a limit ends the evaluation."""

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
        """Distance from the threshold within which a sum nearly ties.

        A sum that nearly ties is added again in the library's order.
        """
        return NEAR * max(1.0, abs(self.threshold))

    def start(self, bias: Floats) -> Floats:
        """Return the sum (1,) before the first base model: 0."""
        return np.zeros(1)

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Return the sums (N, 1) at which rows stop, and the rows' codes (N,).

        `sums` (N, T, 1) are the running sums of the rows.
        """
        beyond = (sums[:, :, 0] < self.lower) | (sums[:, :, 0] > self.upper)
        at = _first(beyond)
        totals, rows = sums[np.arange(len(sums)), at], np.arange(len(sums))
        answers = np.where(totals[:, 0] > self.upper[at], POSITIVE, NEGATIVE)
        return totals, 4 * (at + 1) + np.where(beyond[rows, at], answers, UNDECIDED)

    def chosen(self, totals: Floats, codes: Codes) -> Codes:
        """Return the classes (N,), by the limit that a row passed.

        A row that passed no limit gets its class by the sum over all base models.
        """
        answers = codes & 3
        above = totals[:, 0] > self.threshold
        return np.where(answers == UNDECIDED, above, answers).astype(np.int64)

    def clear(self, totals: Floats) -> NDArray[np.bool_]:
        """Return a mask (N,): True if a sum (N, 1) is not near the threshold.

        Rounding cannot change the answer of such a sum, in whatever order a library
        adds.
        """
        far: NDArray[np.bool_] = np.abs(totals[:, 0] - self.threshold) > self.near
        return far

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Return the limits "lower" and "upper" of `count` trees.

        The trees after the last base model have infinite limits.
        """
        none = np.full(count - len(self.lower), np.inf)
        return {
            "lower": np.append(self.lower, -none),
            "upper": np.append(self.upper, none),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """The rule for K > 2 classes: stop if the largest sum leads by a large margin."""

    margin: Floats  # (T,) float64: Margin that a row must exceed after each base model
    group: int = 1  # Number of consecutive trees that are one base model
    rule: ClassVar[Literal["margins"]] = "margins"
    near: ClassVar[float] = NEAR
    threshold: ClassVar[float] = 0.0

    def start(self, bias: Floats) -> Floats:
        """Return the sums (K,) before the first base model: the bias."""
        return bias

    def follow(self, sums: Floats) -> tuple[Floats, Codes]:
        """Return the sums (N, K) at which rows stop, and the rows' codes (N,).

        `sums` (N, T, K) are the running sums of the rows.
        """
        enough = margins_of(sums) > self.margin
        at, rows = _first(enough), np.arange(len(sums))
        answers = np.where(enough[rows, at], BEST, UNDECIDED)
        return sums[rows, at], 4 * (at + 1) + answers

    def chosen(self, totals: Floats, codes: Codes) -> Codes:
        """Return the classes (N,) with the largest sums, the first of equal sums."""
        chosen: Codes = totals.argmax(axis=1)
        return chosen

    def clear(self, totals: Floats) -> NDArray[np.bool_]:
        """Return a mask (N,): True if the largest of the sums (N, K) leads clearly.

        Rounding cannot change the answer of such a row, in whatever order a library
        adds.
        """
        largest = np.abs(totals).max(axis=1)
        far: NDArray[np.bool_] = margins_of(totals) > NEAR * np.maximum(1.0, largest)
        return far

    def by_tree(self, count: int) -> dict[str, Floats]:
        """Return the margins after each of `count` trees, under the key "upper".

        The margin is infinite, except after the last tree of each base model.
        """
        out = np.full(count, np.inf)
        out[self.group - 1 : self.group * len(self.margin) : self.group] = self.margin
        return {"upper": out}


Stops = Never | Limits | Margins


def _first(enough: NDArray[np.bool_]) -> Codes:
    """Find each row's first True: positions (N,), the last position if none is True."""
    found = enough.any(axis=1)
    first: Codes = np.where(found, enough.argmax(axis=1), enough.shape[1] - 1)
    return first


def margins_of(sums: Floats) -> Floats:
    """Compute the largest minus the second largest of sums (..., K)."""
    ordered: NDArray[Any] = np.partition(sums, -2, axis=-1)
    margins: Floats = ordered[..., -1] - ordered[..., -2]
    return margins
