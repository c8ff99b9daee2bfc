"""The choice of a few items, from small to large, on which features are timed."""

import numpy as np

from polydom.features.items import Item
from polydom.features.sizes import split_near

from ..data.dataset import Dataset
from ..features.text_features import text_lengths


def spread_over_sizes(dataset: Dataset, count: int) -> list[int]:
    """Return the positions of up to `count` items, evenly spread from small to large.

    Records with free text are ordered by the length of the text.
    """
    if dataset.kind == "record":
        lengths = text_lengths(dataset.items)  # the size of each record is 1
        if lengths is not None:
            near = np.array_split(np.argsort(lengths, kind="stable"), count)
            return [int(part[len(part) // 2]) for part in near if len(part)]
    by_size = np.concatenate(split_near(dataset.sizes, count))
    chosen = np.linspace(0, len(by_size) - 1, min(count, len(by_size)))
    return [int(by_size[round(i)]) for i in chosen]


def measuring_items(dataset: Dataset, count: int) -> list[Item]:
    """Return the items at the positions that `spread_over_sizes` chooses."""
    return [dataset.items[position] for position in spread_over_sizes(dataset, count)]
