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
from .stored_items import StoredItems, digest_of, store_items

MOST_NUMBERS = 20  # up to this many different numbers are always classes

Rows = NDArray[np.int64]

log = logging.getLogger("polydom")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled items."""

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
        """(N,) labels: codes of classes, or numbers."""
        return self.codes if self.numbers is None else self.numbers

    @property
    def kind(self) -> Kind:
        """Kind of the items."""
        items = self.items
        return items.kind if isinstance(items, StoredItems) else items[0].kind

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """Sizes of the items, (N,), or (N, 2) for sizes of two numbers."""
        if isinstance(self.items, Records):
            return np.ones(len(self.items))
        if isinstance(self.items, StoredItems):
            return self.items.sizes
        return np.array([item.size for item in self.items])

    @cached_property
    def digest(self) -> str:
        """Digest of items, labels and groups, independent of the folder."""
        digest = hashlib.sha256(msgspec.msgpack.encode([self.kind, self.labels]))
        if isinstance(self.items, Records):
            digest.update(self.items.digest.encode())
        elif isinstance(self.items, StoredItems):
            digest.update(self.items.digests.tobytes())
        else:
            for item in self.items:
                digest.update(digest_of(item.payload))
        digest.update(self.codes.tobytes() + self.groups.tobytes())
        for name in ("tested", "times", "weights", "numbers"):
            if (array := getattr(self, name)) is not None:
                digest.update(name.encode() + array.tobytes())
        return digest.hexdigest()

    def only(self, rows: Rows) -> "Dataset":
        """Keep items by position, in this order; numbers of classes and groups stay."""
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
        """Let calls in other processes read the items from their files.

        Items in memory are written to the cache first, if all processes see it.
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
        """Leave out items by position, with reasons; two classes at least must stay."""
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
        """Rename classes, joining equal names; at least two classes must have items."""
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
    """A table's name, and the numbers of its rows."""

    name: str
    rows: int  # Number of rows, without rows left out
    first: int = 1  # Number of the first row
    left_out: tuple[int, ...] = ()  # Numbers of the rows left out, ascending

    def number(self, row: int) -> int:
        """Return the number of a row in the file, by its position among kept rows."""
        # left_out[k] - first - k rows that are not left out precede left_out[k]
        before = bisect_right(
            range(len(self.left_out)),
            row,
            key=lambda k: self.left_out[k] - self.first - k,
        )
        return self.first + row + before


@dataclass(frozen=True, slots=True)
class RowNames(Sequence[str]):
    """Names of tables' rows: `rows.csv, row 7`."""

    files: tuple[NumberedFile, ...]  # Tables, in order
    rows: Rows  # Positions among the rows of all tables

    @classmethod
    def of(cls, files: Sequence[NumberedFile]) -> "RowNames":
        """Name all rows of some tables."""
        return cls(tuple(files), np.arange(sum(file.rows for file in files)))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        """Name a row by its file and its number there."""
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
        """Keep names by position, in this order."""
        return RowNames(self.files, self.rows[places])


def looks_like_numbers(values: NDArray[np.float64], counts: Rows) -> bool:
    """Return True if labels are quantities rather than names of classes.

    Labels of more than 20 different `values` are quantities if any is a fraction, or if
    any value has fewer than 5 items.
    """
    if len(values) <= MOST_NUMBERS:
        return False
    return counts.min() < 5 or not (values == np.round(values)).all()


def numbers_of(
    values: NDArray[np.float64], wanted: Task | None
) -> NDArray[np.float64] | None:
    """Return labels (N,) if they are to be predicted as numbers; else None.

    `wanted` is "regression", or None to decide by the labels, with a warning.
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
    """Convert class names to numbers, for regression or if all names are numbers."""
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
    """Refuse a group with items to train on and items to test on."""
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
    """Make a data set of items; an item without a group forms its own group."""
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
        _number_groups(groups),
        tuple(skipped),
        tested,
        times,
        weights,
    ).relabelled(known)


def refuse_mixed(kinds: Collection[Kind]) -> None:
    """Refuse items of more than one kind."""
    if len(kinds) > 1:
        mixed = " and ".join(sorted(kinds))
        raise BadProject(f"the data mixes {mixed} items; one kind only")


def _number_groups(groups: Sequence[Any]) -> Rows:
    known: dict[Any, int] = {}
    numbers, count = np.empty(len(groups), np.int64), 0
    for row, group in enumerate(groups):
        numbers[row] = count if group is None else known.setdefault(group, count)
        count += numbers[row] == count
    return numbers


def number_in_turn(values: NDArray[Any]) -> Rows:
    """Return a number for each value: from 0, in the order of first occurrence."""
    _, first, own = np.unique(values, return_index=True, return_inverse=True)
    turns = np.empty(len(first), np.int64)
    turns[np.argsort(first)] = np.arange(len(first))
    return turns[own]
