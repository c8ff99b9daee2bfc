"""Division of labelled items into training and test items; groups stay together."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject

from ..project_tables.data import Data
from ..project_tables.search import parts_of
from .dataset import Dataset, Rows
from .kernels.divide_groups import divide_in_order

MERGED = "other"  # name of the class that rare classes are merged to


def split(
    dataset: Dataset,
    *,
    seed: int,
    held_out: float,
    folds: int | None,
    train_rare: bool = False,
) -> list[tuple[Rows, Rows]]:
    """Return pairs of training rows and test rows: one pair, or one pair per fold.

    The test rows are, by the first rule that applies:

    * the test items that the project names;
    * if items have times, the newest share `held_out` of the items;
    * if `folds` is given, in each pair another of `folds` parts;
    * otherwise, the first of round(1 / held_out) parts.

    `divide_groups` makes the parts. If there are n parts and `train_rare` is true, a
    group is never tested on if it has items of a class with fewer than n groups.
    """
    if dataset.tested is not None and dataset.tested.any():
        parts = [dataset.tested]
        why = "only [data] test holds any; the other items need some"
    elif dataset.times is not None:
        parts = [newest_groups(dataset.groups, dataset.times, held_out)]
        why = "all of them are among the newest; a smaller held_out may leave some"
    else:
        count = folds or parts_of(held_out)
        spared = _of_rare_classes(dataset, count) if train_rare else None
        if spared is None or spared.all():
            refuse_rare(dataset, count)
        part = divide_groups(dataset.codes, dataset.groups, count, seed)
        part = part if spared is None else np.where(spared, -1, part)
        parts = [part == fold for fold in range(folds or 1)]
        why = (
            "its groups also hold other classes; another seed, or more groups of it, "
            "are needed"
        )
    pairs = [(np.flatnonzero(~test), np.flatnonzero(test)) for test in parts]
    for train, _ in pairs:
        if not dataset.labels and not len(train):
            raise BadProject(f"no item would be trained on: {why}")
        seen = np.bincount(dataset.codes[train], minlength=len(dataset.labels))
        if not seen.all():
            raise BadProject(
                f"all items of class {dataset.labels[int(seen.argmin())]!r} would be "
                f"tested on and none trained on: {why}"
            )
    return pairs


def _of_rare_classes(dataset: Dataset, fewest: int) -> NDArray[np.bool_]:
    """Return a mask (N,) of the items in groups that contain a rare class."""
    codes = [dataset.labels.index(label) for label in rare_classes(dataset, fewest)]
    own = dataset.groups[np.isin(dataset.codes, codes)]
    marked: NDArray[np.bool_] = np.isin(dataset.groups, own)
    return marked


def rare_classes(dataset: Dataset, fewest: int) -> dict[str, int]:
    """Map each class with fewer than `fewest` groups to its number of groups."""
    if not dataset.labels:
        return {}
    have = groups_of_classes(dataset.codes, dataset.groups, len(dataset.labels))
    named = zip(dataset.labels, have.tolist(), strict=True)
    return {label: count for label, count in named if count < fewest}


def refuse_rare(dataset: Dataset, fewest: int) -> None:
    """Raise BadProject if a class has fewer than `fewest` groups of items.

    The message names the class and the settings that help.
    """
    have = len(np.unique(dataset.groups)) if not dataset.labels else fewest
    if have < fewest:
        raise BadProject(
            f"there are {have} independent items; dividing them for training and "
            f"testing needs at least {fewest}"
        )
    rare = rare_classes(dataset, fewest)
    if not rare:
        return
    label, count = next(iter(rare.items()))
    others = len(rare) - 1
    more = f", and {others} more classes are as rare" if others else ""
    if others == 1:
        more = ", and another class is as rare"
    noun = "independent item" if count == 1 else "independent items"
    raise BadProject(
        f"class {label!r} has {count} {noun}{more}; dividing them for "
        f"training and testing needs at least {fewest} of each class: add items, or "
        "leave such classes out with [data] on_rare_class = 'skip', make them one with "
        "'merge', or train on them and never test with 'train'"
    )


def treat_rare_classes(
    dataset: Dataset, terms: Data, fewest: int
) -> tuple[Dataset, Rows]:
    """Apply the project's setting `on_rare_class` to the rare classes of a data set.

    A class is rare if it has fewer groups than `fewest` or than `terms.rare_below`.
    Rare classes stop the build, are left out, are merged into one, or are only trained
    on. Returns the new data set, and the positions of its items in the old one.
    """
    fewest = max(fewest, terms.rare_below or 0)
    rare = rare_classes(dataset, fewest)
    every = np.arange(len(dataset.items))
    if not rare or terms.on_rare_class in ("stop", "train"):
        refuse_rare(dataset, fewest)
        return dataset, every
    if terms.on_rare_class == "merge":
        merged = dataset.relabelled(
            [MERGED if label in rare else label for label in dataset.labels]
        )
        refuse_rare(merged, fewest)
        return merged, every
    codes = [dataset.labels.index(label) for label in rare]
    affected = np.isin(dataset.codes, codes)
    if affected.all():
        first = ", ".join(f"{label!r} {have}" for label, have in [*rare.items()][:5])
        raise BadProject(
            f"every class has fewer than {fewest} independent items: {first}"
        )
    return dataset.without(
        {
            int(row): _why(dataset.labels[dataset.codes[row]], rare, fewest)
            for row in np.flatnonzero(affected)
        }
    ), np.flatnonzero(~affected)


def _why(label: str, rare: dict[str, int], fewest: int) -> str:
    return (
        f"class {label!r} has {rare[label]} independent items; "
        f"fewer than {fewest} are rare"
    )


def divide_groups(codes: Rows, groups: Rows, parts: int, seed: int) -> Rows:
    """Divide items into parts with similar shares of classes; return each item's part.

    The result has shape (N,). Groups are never divided. They are placed one after the
    other, from the largest to the smallest; groups of equal size come in random order.
    A group goes into the part that has least of the group's classes so far, and of
    equal parts, into the smallest. If no group has several classes, each class with at
    least as many groups as parts is in every part.
    """
    names, own = np.unique(groups, return_inverse=True)
    kinds = int(codes.max()) + 1
    cells, counts = np.unique(own * kinds + codes, return_counts=True)
    starts = np.searchsorted(cells, np.arange(len(names) + 1) * kinds)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    largest_first = np.argsort(-np.bincount(own)[shuffled], kind="stable")
    totals = np.maximum(np.bincount(codes, minlength=kinds), 1)
    part_of = np.empty(len(names), np.int64)
    divide_in_order(
        shuffled[largest_first],
        starts,
        cells % kinds,
        counts,
        1 / totals.astype(np.float64) ** 2,
        np.zeros((parts, kinds)),
        np.zeros(parts, np.int64),
        part_of,
    )
    return part_of[own]


def draw_groups(groups: Rows, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw a share of the groups at random; return a mask (N,) of their items.

    The draw ignores labels and contents, so that the drawn items represent fresh items.
    """
    names, own = np.unique(groups, return_inverse=True)
    drawn = np.zeros(len(names), np.bool_)
    order = np.random.default_rng([seed, 1]).permutation(len(names))
    drawn[order[: round(share * len(names))]] = True
    return drawn[own]


def newest_groups(groups: Rows, times: NDArray[Any], share: float) -> NDArray[np.bool_]:
    """Return a mask (N,) of the newest groups, with about a share of all items.

    Groups are chosen from the newest to the oldest until they have at least `share` of
    all items. A group is as new as its newest item. Of equally new groups, the group
    with the higher number is chosen first.
    """
    names, own = np.unique(groups, return_inverse=True)
    newest = np.full(len(names), times.min())
    np.maximum.at(newest, own, times)
    order = np.argsort(newest, kind="stable")[::-1]
    enough = round(share * len(groups))
    newer = np.bincount(own)[order].cumsum() - np.bincount(own)[order]
    chosen = np.zeros(len(names), np.bool_)
    chosen[order[newer < enough]] = True
    return chosen[own]


def groups_of_classes(codes: Rows, groups: Rows, count: int) -> Rows:
    """Return the number of groups that contain each class, shape (count,)."""
    names, own = np.unique(groups, return_inverse=True)
    cells = np.sort(codes * len(names) + own)  # np.unique takes 20 times as long
    first = np.diff(cells, prepend=-1) != 0
    return np.bincount(cells[first] // len(names), minlength=count)


def joined_apart(one: Rows, other: Rows) -> Rows:
    """Join the numbers of the groups of two data sets that share no group: (N + M,)."""
    first = int(one.max(initial=-1)) + 1
    return np.concatenate([one, first + other])
