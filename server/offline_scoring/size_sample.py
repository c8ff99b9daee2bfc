"""Sizes of some items of every part, or of the part before it."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice

from polydom.features.errors import BadInput, PolydomError
from polydom.features.items import make_item
from polydom.features.sizes import Size
from polydom.indexer.index.package import Package

from .parts import Part

# Sizes that are wanted: a price found from them is within a percent.
SIZES = 4096
PARTS = 512  # of which some are read


class SizeSample:
    """Sizes of the first items of parts, evenly spread over all of them.

    Parameters
    ----------
    parts
        At least one.
    package
        Says what items are.
    pair
        Whether sizes are of two numbers.

    Raises
    ------
    BadInput
        If items cannot be read, or none of those looked at is one.
    """

    def __init__(self, parts: Sequence[Part], package: Package, pair: bool) -> None:
        readable = [part for part in parts if part.is_near]
        looked_at = readable[:: -(-len(readable) // PARTS)]
        each = -(-SIZES // len(looked_at))
        self._sizes: dict[int, list[Size]] = {}
        self._failure: PolydomError | None = None
        for part in looked_at:
            sizes = self._read(part, package, pair, each)
            if sizes:
                self._sizes[part.number] = sizes
        if not self._sizes:
            raise BadInput(f"no item can be read: {self._failure}")
        self._numbers = list(self._sizes)

    def place(self, number: int) -> int:
        """Say which part's sizes stand for those of a part."""
        place = bisect_right(self._numbers, number) - 1
        return self._numbers[max(place, 0)]

    def of(self, number: int) -> list[Size]:
        """Return sizes that stand for those of a part."""
        return self._sizes[self.place(number)]

    def _read(self, part: Part, package: Package, pair: bool, count: int) -> list[Size]:
        if package.kind == "record":
            return [1.0]
        sizes: list[Size] = []
        rows = islice(part.read(package, (), min(count, part.count)), 1)
        for payload in (item for some in rows for item in some.items):
            try:
                if isinstance(payload, PolydomError):
                    raise payload
                sizes.append(make_item(payload, package.kind, pair=pair).size)
            except PolydomError as error:
                self._failure = error
        return sizes
