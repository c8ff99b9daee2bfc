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

MOST_NUMBERS = 20  # different numbers that are classes without a doubt

Rows = NDArray[np.int64]

log = logging.getLogger("polydom")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled items.

    Attributes
    ----------
    items
        N items of one kind. Those of files and tables are read or made when they are
        asked for.
    names
        Where each item came from, for messages.
    labels
        The K class names, sorted; none where labels are numbers.
    codes : (N,) int64
        Position of each item's class in `labels`; 0 where labels are numbers.
    groups : (N,) int64
        Items with the same number are never split between training and testing.
    skipped
        Items left out: (name, why).
    tested : (N,) bool
        Which items are there to test on; None where the build chooses some.
    times : (N,) int64 or float64
        When each item came, in any unit; None where that plays no part.
    weights : (N,) float64
        How much each item counts, above 0, 1 on average of all that were read; None
        where all count alike.
    numbers : (N,) float64
        The labels, where they are numbers; else None.
    """

    items: Sequence[Item]
    names: Sequence[str]
    labels: tuple[str, ...]
    codes: Rows
    groups: Rows
    skipped: tuple[tuple[str, str], ...] = ()
    tested: NDArray[np.bool_] | None = None
    times: NDArray[Any] | None = None
    weights: NDArray[np.float64] | None = None
    numbers: NDArray[np.float64] | None = None

    @property
    def targets(self) -> NDArray[Any]:
        """(N,) what is to be answered: codes, or numbers."""
        return self.codes if self.numbers is None else self.numbers

    @property
    def kind(self) -> Kind:
        """What all items are."""
        items = self.items
        return items.kind if isinstance(items, StoredItems) else items[0].kind

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """Size of each item, (N,), or (N, 2) where sizes are of two numbers."""
        if isinstance(self.items, Records):
            return np.ones(len(self.items))
        if isinstance(self.items, StoredItems):
            return self.items.sizes
        return np.array([item.size for item in self.items])

    @cached_property
    def digest(self) -> str:
        """Identify items, labels and groups, whatever folder they were read from."""
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
        """Keep these items, in this order; classes and groups keep their numbers."""
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
        """Let calls in other processes read items where they lie; see `StoredItems`.

        Those that are in memory are written to the cache, where all processes see it.
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
        """Leave out items by position, each with the reason why.

        Raises
        ------
        BadProject
            If fewer than two classes are left.
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
        """Give classes new names, of which some may be equal; drop empty ones.

        Raises
        ------
        BadProject
            If fewer than two classes are left.
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
    """A table's name, and how its rows are numbered.

    Attributes
    ----------
    rows
        How many it has, without those that are left out.
    first
        Number of its first row.
    left_out
        Numbers of the rows that are left out, ascending.
    """

    name: str
    rows: int
    first: int = 1
    left_out: tuple[int, ...] = ()

    def number(self, row: int) -> int:
        """Give the number of a row, by its position among those not left out."""
        # a row that is left out stands behind so many others
        before = bisect_right(
            range(len(self.left_out)),
            row,
            key=lambda k: self.left_out[k] - self.first - k,
        )
        return self.first + row + before


@dataclass(frozen=True, slots=True)
class RowNames(Sequence[str]):
    """Names of tables' rows: `rows.csv, row 7`.

    Attributes
    ----------
    files
        The tables.
    rows
        Positions among the rows of all.
    """

    files: tuple[NumberedFile, ...]
    rows: Rows

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
        """Keep these, in this order."""
        return RowNames(self.files, self.rows[places])


def looks_like_numbers(values: NDArray[np.float64], counts: Rows) -> bool:
    """Say whether labels are quantities, where each would be a class of its own.

    So are fractions of more than 20 values, and whole numbers of more than 20 of which
    one comes fewer than 5 times. `values` are the different ones, `counts` how often
    each comes.
    """
    if len(values) <= MOST_NUMBERS:
        return False
    return counts.min() < 5 or not (values == np.round(values)).all()


def numbers_of(
    values: NDArray[np.float64], wanted: Task | None
) -> NDArray[np.float64] | None:
    """Give labels (N,) back where they are to be predicted as numbers; say so.

    `wanted` is "regression", or None where the labels decide.
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
    """Take a data set's class names for numbers, where that is what they are.

    Raises
    ------
    BadProject
        If they are to be numbers, and one is none, or not finite.
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
    """Refuse items to test on whose group is also trained on."""
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
    """Put items together, numbering labels and groups; one kind, two classes.

    An item whose group is None is a group of its own.
    """
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
    """Give equal values one number, from 0, in the order in which they first come."""
    _, first, own = np.unique(values, return_index=True, return_inverse=True)
    turns = np.empty(len(first), np.int64)
    turns[np.argsort(first)] = np.arange(len(first))
    return turns[own]
