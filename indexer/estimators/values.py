"""Feature values of items that an index is asked about, without a budget's clock."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadItem
from polydom.features.extract import Extractor
from polydom.features.items import Item, Value
from polydom.features.tables.records import Records, take

from ..building.feature_values import tables_columns
from ..index.column_needs import ColumnNeeds
from ..index.package import Package


def withheld_of(items: Sequence[Item], package: Package) -> NDArray[np.int64]:
    """Features of each item that cannot be computed for want of columns, as a mask."""
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


def values_of(
    items: Sequence[Item],
    rows: NDArray[np.int64],
    extractor: Extractor,
    positions: Sequence[int],
) -> NDArray[np.float32]:
    """Compute some features of some items: full rows (len(rows), width), else 0.

    Raises
    ------
    BadItem
        If an item cannot be used; its position is named.
    """
    some = take(items, rows)
    values = np.zeros((len(rows), extractor.width), np.float32)
    left = np.zeros(len(rows), np.bool_)
    computed = list(positions)
    if isinstance(some, Records):
        for position, function in tables_columns(some, extractor).items():
            if position in positions:
                left |= function.read(some, values[:, extractor.columns(position)])
                computed.remove(position)
    for place in range(len(rows)):
        wanted = positions if left[place] else computed
        if not wanted:
            continue
        name = f"item {rows[place]}"
        try:
            extraction = extractor.begin(some[place], values[place], name)
            for position in wanted:
                extraction.compute(position)
        except BadItem as error:
            raise BadItem(f"{name}: {error}") from error
    return values
