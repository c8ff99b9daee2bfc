"""Choice of the items that features are timed on: a few items of all sizes."""

import numpy as np

from polydom.features.items import Item
from polydom.features.sizes import split_near

from ..data.dataset import Dataset
from ..features.text_features import text_lengths


def spread_over_sizes(dataset: Dataset, count: int) -> list[int]:
    """Choose positions of up to `count` items, evenly spread over the sizes.

    Records with free text are spread over the length of their text.
    """
    if dataset.kind == "record":
        lengths = text_lengths(dataset.items)
        if lengths is not None:
            near = np.array_split(np.argsort(lengths, kind="stable"), count)
            return [int(part[len(part) // 2]) for part in near if len(part)]
    by_size = np.concatenate(split_near(dataset.sizes, count))
    chosen = np.linspace(0, len(by_size) - 1, min(count, len(by_size)))
    return [int(by_size[round(i)]) for i in chosen]


def measuring_items(dataset: Dataset, count: int) -> list[Item]:
    """Return up to `count` items, spread over the sizes."""
    return [dataset.items[position] for position in spread_over_sizes(dataset, count)]
