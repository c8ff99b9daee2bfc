"""Choose a candidate of the index for each item, and compute the item's features.

The scikit-learn estimators use this to predict. A budget limits the cost that the index
expects; no time is measured.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadItem, FeatureFailed
from polydom.features.extract import Extractor
from polydom.features.items import Item, Value
from polydom.features.sizes import Size
from polydom.features.tables.records import Records, take

from ..building.features.feature_values import tables_columns
from ..index.column_needs import ColumnNeeds
from ..index.index import Index
from ..index.lookup import Lookup
from ..index.package import Package
from ..index.partial_lookup import PartialLookup


def values_by_row(
    index: Index,
    package: Package,
    extractor: Extractor,
    items: Sequence[Item],
    budget: float,
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
    """Choose a candidate for each item, and compute the features that it needs.

    The choice is the most accurate candidate that is expected to cost at most `budget`,
    in the index's unit, and needs no feature that the item's missing columns withhold.
    If there is none, it is the candidate without features. If a feature fails that says
    "without", a candidate without it is chosen. Yields (row, positions, values) for
    each candidate that occurs: its row in the index, the `positions` (n,) of its items,
    and their feature `values` (n, width), which are 0 for features that the candidate
    does not need. If an item cannot be used, raises BadInput with its position.
    """
    withheld = _withheld(items, package)
    left = np.arange(len(items))
    while len(left):
        chosen = _choose_rows(index, package, take(items, left), withheld[left], budget)
        failed = np.zeros(len(items), np.bool_)
        for row in np.unique(chosen).tolist():
            own = left[chosen == row]
            values, lost = _values(items, own, extractor, package.orders[row])
            withheld[own] |= lost
            failed[own] = lost > 0
            if (lost == 0).any():
                yield row, own[lost == 0], values[lost == 0]
        left = np.flatnonzero(failed)


def _choose_rows(
    index: Index,
    package: Package,
    items: Sequence[Item],
    withheld: NDArray[np.int64],
    budget: float,
) -> NDArray[np.int64]:
    """Return the row (N,) of each item's candidate, without its `withheld` features."""
    sizes: list[Size] = [1.0] * len(items)
    if not isinstance(items, Records):
        sizes = [one.size for one in items]
    shapes = [*zip(sizes, withheld.tolist(), strict=True)]
    rows = {shape: _best(index, package, *shape, budget) for shape in {*shapes}}
    return np.array([rows[shape] for shape in shapes])


def _best(
    index: Index, package: Package, size: Size, withheld: int, budget: float
) -> int:
    lookup: Lookup[Any] | PartialLookup = index.lookup
    if withheld:
        lookup = PartialLookup(index, withheld)
    row = lookup.best(size, budget)
    return row if row >= 0 else int(np.flatnonzero(package.masks == 0)[0])


def _withheld(items: Sequence[Item], package: Package) -> NDArray[np.int64]:
    """Return masks (N,): the features that each item's missing columns withhold."""
    if package.kind != "record":
        return np.zeros(len(items), np.int64)
    needs = ColumnNeeds.of(package)
    if isinstance(items, Records):
        missing = {
            name: column.missing()[items.rows] for name, column in items.columns.items()
        }
        return needs.withheld_of_rows(missing, len(items))
    records = (cast(Mapping[str, Value], item.payload) for item in items)
    masks = [needs.withheld(needs.empty_in(record)) for record in records]
    return np.array(masks, np.int64)


def _values(
    items: Sequence[Item],
    places: NDArray[np.int64],
    extractor: Extractor,
    positions: Sequence[int],
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Compute features of some items.

    Returns values (n, width), and for each item a mask (n,) of the features to go on
    without, as one of them has failed; 0 if none has.
    """
    lost = np.zeros(len(places), np.int64)
    some = take(items, places)
    values = np.zeros((len(places), extractor.width), np.float32)
    left = np.zeros(len(places), np.bool_)  # rows that a column could not read at once
    one_by_one = list(positions)
    if isinstance(some, Records):
        for position, function in tables_columns(some, extractor).items():
            if position in positions:
                left |= function.read(some, values[:, extractor.columns(position)])
                one_by_one.remove(position)
    for place in range(len(places)):
        wanted = positions if left[place] else one_by_one
        if not wanted:
            continue
        name = f"item {places[place]}"
        try:
            extraction = extractor.begin(some[place], values[place], name)
            for position in wanted:
                extraction.compute(position)
        except BadItem as error:  # a ValueError, as scikit-learn expects
            raise BadInput(f"{name}: {error}") from error
        except FeatureFailed as failure:
            lost[place] = extractor.withheld_by(failure)
            if not lost[place]:
                raise
    return values, lost
