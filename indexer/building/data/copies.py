"""Files with equal bytes: such copies are never split between training and testing."""

import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .dataset import Dataset, Rows, number_in_turn
from .stored_items import StoredItems

log = logging.getLogger("polydom")


Pair = tuple[int, int]  # positions of two items, the second a copy of the first


def keep_copies_together(dataset: Dataset) -> Dataset:
    """Put files with equal bytes into one group, and warn of such copies.

    A training item that is a copy of a test item is left out. Items that are not files
    are not compared, since short texts are often equal by chance.
    """
    items = dataset.items
    if not isinstance(items, StoredItems) or not items.are_files:
        return dataset
    numbers = _numbered(items)
    copies = np.bincount(numbers)[numbers] > 1
    if not copies.any():
        return dataset
    names = dataset.names
    if (other := _of_another_class(dataset, numbers)) is not None:
        log.warning(
            "%s and %s hold the same bytes and have different labels; one of them must "
            "be wrong",
            names[other[0]],
            names[other[1]],
        )
    first, second = _pairs(numbers)[0]
    log.warning(
        "%d files hold what another one holds, such as %s and %s; copies are never on "
        "both sides of a split",
        len(numbers) - len(np.unique(numbers)),
        names[first],
        names[second],
    )
    if dataset.tested is not None:
        dataset, numbers = _trained_apart(dataset, numbers, dataset.tested)
    return replace(dataset, groups=joined_groups(dataset.groups, numbers))


def _numbered(items: StoredItems) -> Rows:
    """Return each item's number, shape (N,); items with equal bytes share a number."""
    rows = np.ascontiguousarray(items.digests)
    single = rows.view(f"V{rows.shape[1]}").ravel()
    return np.unique(single, return_inverse=True)[1]


def _pairs(numbers: Rows) -> list[Pair]:
    """Return a pair of positions for each copy: the first equal item, and the copy."""
    _, first = np.unique(numbers, return_index=True)
    copies = np.setdiff1d(np.arange(len(numbers)), first)
    return [(int(first[numbers[row]]), int(row)) for row in copies]


def _of_another_class(dataset: Dataset, numbers: Rows) -> Pair | None:
    targets = dataset.targets
    differ = (pair for pair in _pairs(numbers) if targets[pair[0]] != targets[pair[1]])
    return next(differ, None)


def _trained_apart(
    dataset: Dataset, numbers: Rows, tested: NDArray[np.bool_]
) -> tuple[Dataset, Rows]:
    """Remove training items that are copies of test items, and their numbers."""
    bad = np.flatnonzero(~tested & np.isin(numbers, numbers[tested]))
    by_number = dict(zip(numbers[tested].tolist(), np.flatnonzero(tested), strict=True))
    why = {
        row: f"it holds what {dataset.names[int(by_number[int(numbers[row])])]} holds, "
        "which is tested on"
        for row in bad.tolist()
    }
    return dataset.without(why), np.delete(numbers, bad)


def joined_groups(groups: Rows, numbers: Rows) -> Rows:
    """Merge groups that contain copies of the same item; return new groups (N,).

    Items are copies if they have the same number in `numbers` (N,). Merging is
    transitive: if groups A and B share a copy, and so do B and C, all three are merged.
    """
    count = int(groups.max()) + 1
    size = count + int(numbers.max()) + 1
    edges = coo_array(
        (np.ones(len(numbers), np.bool_), (groups, count + numbers)), shape=(size, size)
    )
    _, parts = connected_components(edges, directed=False)
    return number_in_turn(parts[groups].astype(np.int64))
