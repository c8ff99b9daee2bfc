"""One total spent part by part: what is left sets the price of the next."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..batch.batch_plan import BatchPlan, PlanFinder
from ..batch.knapsack import Shape
from .part_scoring import PartScored
from .parts import Part
from .shape_sample import ShapeSample

# Of the total, so that what the last parts take more than expected is there.
AIM = 0.997
# How much less a part counts than the next in what is believed of their timing.
FADING = 0.97


class PartTiming:
    """What parts really take, beside what their plans were to."""

    def __init__(self) -> None:
        self._planned = self._plans = self._beside = self._items = 0.0

    @property
    def ratio(self) -> float:
        """Spent on plans over what was foreseen by curves, which are high quantiles."""
        return self._plans / self._planned if self._planned else 1.0

    @property
    def overhead(self) -> float:
        """What an item takes beside its plan."""
        return self._beside / self._items if self._items else 0.0

    def add(self, scored: PartScored, foreseen: float) -> None:
        """Learn from a part, whose plans were foreseen to cost so much by its shapes.

        Nothing from the first of a process, which imports and compiles meanwhile.
        """
        if scored.is_first:
            return
        self._planned = FADING * self._planned + foreseen
        self._plans = FADING * self._plans + scored.plans
        self._beside = FADING * self._beside + scored.spent - scored.plans
        self._items = FADING * self._items + scored.rows


class _Begun(NamedTuple):
    """A part under way: its items, and what its plans are to cost by the index."""

    items: int
    planned: float


class Spending:
    """What parts have spent of a total, and what those to come may.

    Parameters
    ----------
    finder
        Finds prices.
    sample
        Of their items' shapes.
    parts
        All of the batch.
    total
        What all of them may spend: reference seconds of processors, or an amount in the
        index's unit.

    Attributes
    ----------
    spent
        Of the total by now.
    """

    def __init__(
        self,
        finder: PlanFinder,
        sample: ShapeSample,
        parts: Iterable[Part],
        total: float,
    ) -> None:
        self.spent = 0.0
        self._finder = finder
        self._sample = sample
        self._total = total
        self._timing = PartTiming()
        self._under_way: dict[int, _Begun] = {}
        self._to_come: Counter[int] = Counter()
        for part in parts:
            self._to_come[sample.place(part.number)] += part.count

    def find(self) -> BatchPlan:
        """Find the price of what is to come, by what is left for it."""
        counts: defaultdict[Shape, float] = defaultdict(float)
        for place, count in self._to_come.items():
            own = self._sample.of(place)
            for shape in own if count else ():
                counts[shape] += count / len(own)
        weights = np.array([*counts.values()])
        overhead = self._timing.overhead * weights.sum()
        left = (self._left() - overhead) / self._timing.ratio
        return self._finder.find([*counts], weights, left)

    def begin(self, part: Part, plan: BatchPlan) -> None:
        """Note that a part is being scored by a plan."""
        self._to_come[self._sample.place(part.number)] -= part.count
        cost = self._finder.mean_cost(plan, self._sample.of(part.number))
        self._under_way[part.number] = _Begun(part.count, part.count * cost)

    def end(self, scored: PartScored) -> None:
        """Book what a part has spent, and learn from it."""
        begun = self._under_way.pop(scored.number)
        self._book(scored, begun.planned)

    def skip(self, part: Part, scored: PartScored) -> None:
        """Book a part that was scored before."""
        self._to_come[self._sample.place(part.number)] -= part.count
        self._book(scored, scored.planned)

    def _book(self, scored: PartScored, foreseen: float) -> None:
        self.spent += scored.spent
        self._timing.add(scored, foreseen)

    def _left(self) -> float:
        """Tell what parts to come may spend."""
        timing = self._timing
        under_way = sum(
            begun.planned * timing.ratio + begun.items * timing.overhead
            for begun in self._under_way.values()
        )
        return AIM * self._total - self.spent - under_way
