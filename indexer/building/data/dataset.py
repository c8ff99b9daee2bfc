"""Labelled items of a project."""

import hashlib
import logging
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.features.items import Item, Kind
from polydom.features.tables.records import Records, take
from polydom.features.tables.written_numbers import plain_number

from ...index.quality import Task
from ..cache import Cache
from .stored_items import StoredItems, digest_of, stacked_vectors, store_items

MOST_NUMBERS = 20  # up to this many different numbers are always classes

Rows = NDArray[np.int64]

log = logging.getLogger("polydom")


@dataclass(frozen=True, eq=False)
class Dataset:
    """The N labelled items of a project, with their groups, times and weights."""

    # N items of one kind. Items of files and tables are read when they are accessed.
    items: Sequence[Item]
    names: Sequence[str]  # Names of the items in messages: file and row
    labels: tuple[str, ...]  # The K class names, sorted; empty if labels are numbers
    # (N,) int64: Positions of the items' classes in `labels`; 0 for labels that are
    # numbers
    codes: Rows
    # (N,) int64: Numbers of the items' groups; training and testing share no group
    groups: Rows
    # Items left out: pairs of name and reason
    skipped: tuple[tuple[str, str], ...] = ()
    # (N,) bool: True for items to test on; None if the build chooses them
    tested: NDArray[np.bool_] | None = None
    # (N,) int64 or float64: Times of the items, in any unit; None if times play no part
    times: NDArray[Any] | None = None
    # (N,) float64: Weights above 0, with mean 1 over all items read; None if all are
    # equal
    weights: NDArray[np.float64] | None = None
    # (N,) float64: Labels that are numbers; None for classes
    numbers: NDArray[np.float64] | None = None

    @property
    def targets(self) -> NDArray[Any]:
        """Labels, shape (N,): codes of classes, or numbers for regression."""
        return self.codes if self.numbers is None else self.numbers

    @property
    def kind(self) -> Kind:
        """Kind of the items, such as "image"."""
        items = self.items
        return items.kind if isinstance(items, StoredItems) else items[0].kind

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """Sizes of the items: shape (N,), or (N, 2) if a size has two numbers."""
        if isinstance(self.items, Records):
            return np.ones(len(self.items))
        if isinstance(self.items, StoredItems):
            return self.items.sizes
        return np.array([item.size for item in self.items])

    @cached_property
    def digest(self) -> str:
        """Hash of the items, labels, groups, times and weights; paths do not matter."""
        digest = hashlib.sha256(msgspec.msgpack.encode([self.kind, self.labels]))
        if isinstance(self.items, Records):
            digest.update(self.items.digest.encode())
        elif isinstance(self.items, StoredItems):
            digest.update(self.items.digests.tobytes())
        else:
            for item in self.items:
                digest.update(digest_of(item.payload))
        for name, vectors in self.vectors.items():
            digest.update(name.encode() + vectors.tobytes())
        digest.update(self.codes.tobytes() + self.groups.tobytes())
        for name in ("tested", "times", "weights", "numbers"):
            if (array := getattr(self, name)) is not None:
                digest.update(name.encode() + array.tobytes())
        return digest.hexdigest()

    @property
    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """Vectors (N, width) that fetches brought for the items; none of records."""
        if isinstance(self.items, Records):
            return {}
        if isinstance(self.items, StoredItems):
            return self.items.vectors()
        return stacked_vectors(self.items)

    def only(self, rows: Rows) -> "Dataset":
        """Return a data set of the items at positions `rows`, in that order.

        Codes of classes and numbers of groups do not change.
        """
        return replace(
            self,
            items=take(self.items, rows),
            names=take(self.names, rows),
            codes=self.codes[rows],
            groups=self.groups[rows],
            skipped=(),
            tested=None if self.tested is None else self.tested[rows],
            times=None if self.times is None else self.times[rows],
            weights=None if self.weights is None else self.weights[rows],
            numbers=None if self.numbers is None else self.numbers[rows],
        )

    def shared(self, cache: Cache) -> "Dataset":
        """Return this data set with items that worker processes read from files.

        Items in memory are first written to the cache. If workers do not see the cache,
        such items are not shared, and the data set is returned unchanged.
        """
        items = self.items
        if not (isinstance(items, StoredItems) or cache.seen):
            return self
        if not isinstance(items, StoredItems):
            path = cache.folder / "items" / f"{self.digest}.msgpack"
            items = store_items(items, self.names, path)
        items = items.shared(cache)
        return replace(self, items=items, names=items.names)

    def without(self, bad: Mapping[int, str]) -> "Dataset":
        """Return the data set without unusable items.

        `bad` maps the position of each unusable item to the reason. Raises BadProject
        if no item, or only one class, would remain.
        """
        if not bad:
            return self
        if len(bad) == len(self.items):
            first = min(bad)
            raise BadProject(
                f"no item is left; the first, {self.names[first]}: {bad[first]}"
            )
        kept = np.ones(len(self.items), np.bool_)
        kept[[*bad]] = False
        left = self.only(np.flatnonzero(kept))
        for code in (
            np.setdiff1d(self.codes, left.codes).tolist() if self.labels else ()
        ):
            row = next(row for row in sorted(bad) if self.codes[row] == code)
            log.warning(
                "no item of the class %r is left; of %s: %s",
                self.labels[code],
                self.names[row],
                bad[row],
            )
        skipped = ((self.names[int(row)], bad[row]) for row in sorted(bad))
        return replace(
            left.relabelled(self.labels) if self.labels else left,
            groups=number_in_turn(left.groups),
            skipped=(*self.skipped, *skipped),
        )

    def relabelled(self, labels: Sequence[str]) -> "Dataset":
        """Return the data set with `labels[code]` as the new name of each class.

        Classes that get the same name are merged. Raises BadProject if fewer than two
        classes have items.
        """
        counts = np.bincount(self.codes, minlength=len(labels))
        known = sorted({labels[code] for code in np.flatnonzero(counts).tolist()})
        if len(known) < 2:
            raise BadProject(
                f"all {len(self.items)} items have the label {known[0]!r}; "
                "there must be two different ones at least"
            )
        places = {label: place for place, label in enumerate(known)}
        codes = np.array([places.get(label, -1) for label in labels], np.int64)
        return replace(self, labels=tuple(known), codes=codes[self.codes])


class NumberedFile(NamedTuple):
    """A table's file, and the numbers that its usable rows have in the file."""

    name: str
    rows: int  # Number of rows, without rows left out
    first: int = 1  # Number of the first row
    left_out: tuple[int, ...] = ()  # Numbers of the rows left out, ascending

    def number(self, row: int) -> int:
        """Return the number, in the file, of the usable row at position `row`."""
        # left_out[k] - first - k rows that are not left out precede left_out[k]
        before = bisect_right(
            range(len(self.left_out)),
            row,
            key=lambda k: self.left_out[k] - self.first - k,
        )
        return self.first + row + before


@dataclass(frozen=True, slots=True)
class RowNames(Sequence[str]):
    """Names of rows for messages, such as `rows.csv, row 7`; made when accessed."""

    files: tuple[NumberedFile, ...]  # Tables, in order
    rows: Rows  # Positions among the rows of all tables

    @classmethod
    def of(cls, files: Sequence[NumberedFile]) -> "RowNames":
        """Make the names of all usable rows of some tables."""
        return cls(tuple(files), np.arange(sum(file.rows for file in files)))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        """Return the name of a row, or the names of a slice of rows."""
        if isinstance(place, slice):
            return tuple(map(self._name, self.rows[place].tolist()))
        return self._name(int(self.rows[place]))

    def _name(self, row: int) -> str:
        file, *others = self.files
        for other in others:
            if row >= file.rows:
                file, row = other, row - file.rows
        return f"{file.name}, row {file.number(row)}"

    def take(self, places: Rows) -> "RowNames":
        """Return the names at some positions, in that order."""
        return RowNames(self.files, self.rows[places])


def looks_like_numbers(values: NDArray[np.float64], counts: Rows) -> bool:
    """Return True if numeric labels are quantities rather than names of classes.

    `values` are the distinct labels, and `counts` the number of items with each label.
    Labels are quantities if there are more than 20 distinct labels, of which at least
    one is not a whole number or occurs fewer than 5 times.
    """
    if len(values) <= MOST_NUMBERS:
        return False
    return counts.min() < 5 or not (values == np.round(values)).all()


def numbers_of(
    values: NDArray[np.float64], wanted: Task | None
) -> NDArray[np.float64] | None:
    """Return `values` (N,) if they are labels for regression; None if for classes.

    If `wanted` is None, the values decide; if more than 20 of them are distinct, a
    warning reports the decision. Raises BadProject if the task is regression and all
    values are equal.
    """
    different, counts = np.unique(values, return_counts=True)
    found = looks_like_numbers(different, counts)
    if wanted is None and not found:
        if len(different) > MOST_NUMBERS:
            log.warning(
                "the labels are %d whole numbers, taken for classes; with "
                'task = "regression" they are predicted as numbers',
                len(different),
            )
        return None
    if wanted is None:
        log.warning(
            "the labels are numbers of %d different values, and predicted as such "
            '(task = "regression"; with "classes" each is a class of its own)',
            len(different),
        )
    if len(different) < 2:
        raise BadProject(
            f"all {len(values)} items have the label {values[0]:g}; there must be two "
            "different ones at least"
        )
    return values


def of_numbers(dataset: Dataset, wanted: Task | None) -> Dataset:
    """Convert class names to numeric labels if the task is regression.

    The task is `wanted`; if `wanted` is None, it is regression if the labels look like
    quantities. For classes, the data set is returned unchanged.
    """
    if wanted == "classes":
        return dataset
    values = np.empty(len(dataset.labels))
    for code, label in enumerate(dataset.labels):
        number = plain_number(label)
        values[code] = np.nan if number is None else number
    if not np.isfinite(values).all():
        if wanted is None:
            return dataset
        code = int((~np.isfinite(values)).argmax())
        row = int((dataset.codes == code).argmax())
        raise BadProject(
            f"{dataset.names[row]}: the label is {dataset.labels[code]!r}; with "
            'task = "regression" it must be a finite number'
        )
    numbers = numbers_of(values[dataset.codes], wanted)
    if numbers is None:
        return dataset
    return replace(
        dataset, labels=(), codes=np.zeros(len(numbers), np.int64), numbers=numbers
    )


def refuse_shared_groups(dataset: Dataset) -> None:
    """Raise BadProject if a group has both training items and test items."""
    if dataset.tested is None:
        return
    own, tested = dataset.groups, dataset.tested
    shared = np.flatnonzero(tested & np.isin(own, own[~tested]))
    if len(shared):
        row = int(shared[0])
        other = int(np.flatnonzero(~tested & (own == own[row]))[0])
        raise BadProject(
            f"{dataset.names[row]} is to be tested on and of the same group as "
            f"{dataset.names[other]}, which is trained on"
        )


def make_dataset(
    items: Sequence[Item],
    names: Sequence[str],
    labels: Sequence[str],
    groups: Sequence[Any],
    skipped: Sequence[tuple[str, str]] = (),
    tested: NDArray[np.bool_] | None = None,
    times: NDArray[Any] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Dataset:
    """Make a data set of items. An item whose group is None forms its own group."""
    if not isinstance(items, StoredItems):
        items, names = tuple(items), tuple(names)
        refuse_mixed({item.kind for item in items})
    known = sorted(set(labels))
    codes = {label: code for code, label in enumerate(known)}
    return Dataset(
        items,
        names,
        tuple(known),
        np.array([codes[label] for label in labels], np.int64),
        number_groups(groups),
        tuple(skipped),
        tested,
        times,
        weights,
    ).relabelled(known)


def refuse_mixed(kinds: Collection[Kind]) -> None:
    """Raise BadProject if items are of more than one kind."""
    if len(kinds) > 1:
        mixed = " and ".join(sorted(kinds))
        raise BadProject(f"the data mixes {mixed} items; one kind only")


def number_groups(groups: Sequence[Any]) -> Rows:
    """Return the numbers of items' groups (N,); an item of group None has its own."""
    known: dict[Any, int] = {}
    numbers, count = np.empty(len(groups), np.int64), 0
    for row, group in enumerate(groups):
        numbers[row] = count if group is None else known.setdefault(group, count)
        count += numbers[row] == count
    return numbers


def number_in_turn(values: NDArray[Any]) -> Rows:
    """Return a number for each value; equal values get equal numbers.

    Numbers count from 0 in the order in which values first occur.
    """
    _, first, own = np.unique(values, return_index=True, return_inverse=True)
    turns = np.empty(len(first), np.int64)
    turns[np.argsort(first)] = np.arange(len(first))
    return turns[own]
