"""Ladders: how far an ensemble is evaluated when its time may not be enough."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from polydom.indexer.index.package import Package

# Seconds of base models between two looks at the clock, which takes some 0.3 us
LOOK_S = 8e-6


@dataclass(frozen=True, slots=True)
class Ladder:
    """The candidates that answer with the first base models of one ensemble."""

    counts: tuple[int, ...]  # Numbers of base models, ascending; the last is all
    rows: tuple[int, ...]  # Row of the index for each number; the last is the whole
    # High quantile of the seconds of each row's model, with early exits
    high_s: tuple[float, ...]
    step: int  # Base models between two looks at the clock
    step_s: float  # High quantile of the seconds of `step` base models

    def reached(self, used: int) -> int:
        """Return the row with the most base models of those with at most `used`."""
        return self.rows[max(bisect_right(self.counts, used) - 1, 0)]

    def seconds(self, used: int) -> float:
        """Return a high quantile of the seconds of `used` base models.

        It is that of the row with the fewest base models of those with at least `used`,
        but at most that of so many base models without early exits.
        """
        covering_s = self.high_s[bisect_left(self.counts, used)]
        return min(covering_s, used * self.step_s / self.step)


def make_ladders(package: Package) -> tuple[Ladder | None, ...]:
    """Return the ladder of each candidate's model; None if it is no ensemble in parts.

    Candidates with the same features share a ladder.
    """
    rows_of: dict[int, list[int]] = {}
    owners, counts = package.owners.tolist(), package.base_models
    for row in sorted(range(len(owners)), key=counts.__getitem__):
        rows_of.setdefault(owners[row], []).append(row)
    made = {
        owner: _make_ladder(package, owner, [row for row in rows if row != owner])
        for owner, rows in rows_of.items()
        if len(rows) > 1
    }
    return tuple(made.get(owner) for owner in owners)


def _make_ladder(package: Package, owner: int, parts: list[int]) -> Ladder:
    """Return the ladder of the whole model `owner` and its `parts`, ascending."""
    exits = package.early_exits[owner]
    assert exits is not None
    each_s = float(package.checked_s[owner]) / exits.size
    step = exits.step * max(1, math.ceil(LOOK_S / max(each_s, 1e-12) / exits.step))
    step = min(step, exits.size)
    counts, rows = package.base_models, (*parts, owner)
    return Ladder(
        (*(counts[row] for row in parts), exits.size),
        rows,
        tuple(package.model_s[list(rows)].tolist()),
        step,
        step * each_s,
    )


class Looks:
    """Decides after each part of an evaluation whether there is time for the next.

    `due_s` is when the model's answer must be ready on the clock `now`, and `step_s`
    how long a part takes. If `yields()` is true, no part begins after the first `least`
    base models.
    """

    __slots__ = ("_due_s", "_least", "_now", "_step_s", "_yields", "cut")

    def __init__(
        self,
        now: Callable[[], float],
        due_s: float,
        step_s: float,
        least: int,
        yields: Callable[[], int],
    ) -> None:
        self._now, self._due_s, self._step_s = now, due_s, step_s
        self._least, self._yields = least, yields
        self.cut = 0  # Number of base models after which time was up; 0 if it was not

    def __call__(self, used: int) -> bool:
        """Return True if the next part may begin, after `used` base models."""
        if self._now() + self._step_s <= self._due_s and not (
            used >= self._least and self._yields()
        ):
            return True
        self.cut = used
        return False
