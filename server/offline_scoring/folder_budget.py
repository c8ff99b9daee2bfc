"""The total budget of a run in parts; the amount left decides the next part's plan."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from polydom.features.errors import BadInput, PolydomError
from polydom.features.items import make_item
from polydom.indexer.index.package import Package

from ..batch.batch_plan import BatchPlan, PlanFinder
from ..batch.knapsack import Shape
from ..runtime.known_columns import KnownColumns
from .part_scoring import PartScored
from .parts import Part

# Share of the total that plans may spend; the rest is for last parts that cost more
# than expected.
AIM = 0.997
# Weight of each part in the timing, relative to the part after it.
FADING = 0.97
# Number of shapes to sample; a price found from 4,096 shapes meets the total within a
# percent.
SHAPES = 4096
# Number of parts whose first items are sampled.
PARTS = 512


class ShapeSample:
    """Sizes and withheld features of sampled items.

    Only the first items of some parts are read; these parts are spread evenly over all
    parts. Each other part is represented by the sampled part before it. `lacking` has
    the columns that the index knows but no sampled item has. Raises BadInput if no
    sampled item is valid.
    """

    def __init__(self, parts: Sequence[Part], package: Package, pair: bool) -> None:
        near = [part for part in parts if part.is_near]
        sampled = near[:: -(-len(near) // PARTS)]
        each = -(-SHAPES // len(sampled))
        self._package, self._pair = package, pair
        self._columns = KnownColumns.of(package)
        self._always_empty = sum(self._columns.bits.values())
        self._shapes: dict[int, list[Shape]] = {}
        self._failure: PolydomError | None = None
        for part in sampled:
            shapes = self._read(part, each)
            if shapes:
                self._shapes[part.number] = shapes
        if not self._shapes:
            raise BadInput(f"no item can be read: {self._failure}")
        self._numbers = list(self._shapes)
        self.lacking = self._columns.named(self._always_empty)

    def representative(self, number: int) -> int:
        """Return the number of the sampled part that represents part `number`."""
        place = bisect_right(self._numbers, number) - 1
        return self._numbers[max(place, 0)]

    def of(self, number: int) -> list[Shape]:
        """Return the shapes of the sampled items that represent part `number`."""
        return self._shapes[self.representative(number)]

    def _read(self, part: Part, count: int) -> list[Shape]:
        shapes: list[Shape] = []
        rows = islice(part.read(self._package, (), min(count, part.count)), 1)
        for payload in (item for some in rows for item in some.items):
            try:
                if isinstance(payload, PolydomError):
                    raise payload
                item = make_item(payload, self._package.kind, pair=self._pair)
                shapes.append(Shape(item.size, self._withheld(item.payload)))
            except PolydomError as error:
                self._failure = error
        return shapes

    def _withheld(self, payload: object) -> int:
        """Return the mask of an item's withheld features; record its empty columns."""
        if not isinstance(payload, Mapping):
            return 0
        empty = self._columns.empty_in(payload)
        self._always_empty &= empty
        return self._columns.withheld(empty)


class PartTiming:
    """Measured costs of finished parts, compared with their predicted costs."""

    def __init__(self) -> None:
        self._predicted = self._plans = self._beside = self._items = 0.0

    @property
    def ratio(self) -> float:
        """Measured cost of plans divided by their predicted cost.

        It is usually below 1, because predictions are high quantiles.
        """
        return self._plans / self._predicted if self._predicted else 1.0

    @property
    def overhead(self) -> float:
        """Mean measured cost per item in addition to its plan, such as for reading."""
        return self._beside / self._items if self._items else 0.0

    def add(self, scored: PartScored, predicted: float) -> None:
        """Update the estimates with a finished part.

        `predicted` is the predicted cost of the part's plans. The first part of a
        process is ignored, because its time includes imports and compilation.
        """
        if scored.is_first:
            return
        self._predicted = FADING * self._predicted + predicted
        self._plans = FADING * self._plans + scored.plans
        self._beside = FADING * self._beside + scored.spent - scored.plans
        self._items = FADING * self._items + scored.rows


class _Begun(NamedTuple):
    """A part that a worker is scoring: number of items, and their predicted cost."""

    items: int
    predicted: float


class FolderBudget:
    """The budget of a run in parts: it counts costs, and finds the next part's plan.

    `total` limits the cost of all parts: processor seconds of the machine that measured
    the index, or an amount in the index's unit.
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
        # number of items to come, by the sampled part that stands for them
        self._to_come: Counter[int] = Counter()
        for part in parts:
            self._to_come[sample.representative(part.number)] += part.count

    def find(self) -> BatchPlan:
        """Return the plan that spends the rest of the budget on the remaining items."""
        counts: defaultdict[Shape, float] = defaultdict(float)
        for number, count in self._to_come.items():
            own = self._sample.of(number)
            for shape in own if count else ():
                counts[shape] += count / len(own)
        weights = np.array([*counts.values()])
        overhead = self._timing.overhead * weights.sum()
        left = (self._left() - overhead) / self._timing.ratio
        return self._finder.find([*counts], weights, left)

    def begin(self, part: Part, plan: BatchPlan) -> None:
        """Record that a worker begins to score a part with a plan."""
        self._to_come[self._sample.representative(part.number)] -= part.count
        cost = self._finder.mean_cost(plan, self._sample.of(part.number))
        self._under_way[part.number] = _Begun(part.count, part.count * cost)

    def end(self, scored: PartScored) -> None:
        """Subtract a finished part's cost from the budget, and update the timing."""
        self._charge(scored, self._under_way.pop(scored.number).predicted)

    def skip(self, part: Part, scored: PartScored) -> None:
        """Subtract the cost of a part that an earlier run finished from the budget."""
        self._to_come[self._sample.representative(part.number)] -= part.count
        self._charge(scored, scored.planned)

    def _charge(self, scored: PartScored, predicted: float) -> None:
        self.spent += scored.spent
        self._timing.add(scored, predicted)

    def _left(self) -> float:
        timing = self._timing
        under_way = sum(
            begun.predicted * timing.ratio + begun.items * timing.overhead
            for begun in self._under_way.values()
        )
        return AIM * self._total - self.spent - under_way
