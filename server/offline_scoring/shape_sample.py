"""Shapes of some items of every part, or of the part before it."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import islice

from polydom.features.errors import BadInput, PolydomError
from polydom.features.items import make_item
from polydom.indexer.index.package import Package

from ..batch.knapsack import Shape
from ..runtime.known_columns import KnownColumns
from .parts import Part

# Shapes that are wanted: a price found from them is within a percent.
SHAPES = 4096
PARTS = 512  # of which some are read


class ShapeSample:
    """Shapes of the first items of parts, evenly spread over all of them.

    Parameters
    ----------
    parts
        At least one.
    package
        Says what items are.
    pair
        Whether sizes are of two numbers.

    Attributes
    ----------
    lacking
        Columns that the index knows, and that no item looked at has.

    Raises
    ------
    BadInput
        If items cannot be read, or none of those looked at is one.
    """

    def __init__(self, parts: Sequence[Part], package: Package, pair: bool) -> None:
        readable = [part for part in parts if part.is_near]
        looked_at = readable[:: -(-len(readable) // PARTS)]
        each = -(-SHAPES // len(looked_at))
        self._package, self._pair = package, pair
        self._columns = KnownColumns.of(package)
        self._always_empty = sum(self._columns.bits.values())
        self._shapes: dict[int, list[Shape]] = {}
        self._failure: PolydomError | None = None
        for part in looked_at:
            shapes = self._read(part, each)
            if shapes:
                self._shapes[part.number] = shapes
        if not self._shapes:
            raise BadInput(f"no item can be read: {self._failure}")
        self._numbers = list(self._shapes)
        self.lacking = self._columns.named(self._always_empty)

    def place(self, number: int) -> int:
        """Say which part's shapes stand for those of a part."""
        place = bisect_right(self._numbers, number) - 1
        return self._numbers[max(place, 0)]

    def of(self, number: int) -> list[Shape]:
        """Return shapes that stand for those of a part."""
        return self._shapes[self.place(number)]

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
        """Say what cannot be computed of an item, and note what it lacks."""
        if not isinstance(payload, Mapping):
            return 0
        empty = self._columns.empty_in(payload)
        self._always_empty &= empty
        return self._columns.withheld(empty)
