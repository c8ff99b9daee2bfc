"""Columns that features read, and features that empty columns make impossible."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from .built_facts import BuiltGaps, gaps_of
from .fetches.stored_fetches import StoredFetch
from .package import Package
from .stored_features import StoredFeature

# Models have learned what a missing feature means if at least this share of the build's
# items lacked all of its columns.
USUAL = 0.05
# Patterns of empty columns whose withheld features are cached.
REMEMBERED = 1024


class Needs(NamedTuple):
    """The columns that one feature reads, as bit masks."""

    columns: int  # Columns that the feature reads; 0 for a function, which may read any
    always: int  # Columns of the feature that no item of the build lacked
    spared: bool  # True if all columns of the feature may be empty
    reads_any: bool = False  # True for a function, which may read any column

    def awaits(self, unfetched: int) -> bool:
        """Return True if the feature may read a column in the mask `unfetched`."""
        return bool(unfetched if self.reads_any else unfetched & self.columns)

    def is_met(self, empty: int) -> bool:
        """Return True if the feature can be computed for a record.

        `empty` is a mask of the record's empty columns. A column may be empty only if
        some records of the build lacked it too, so that models have learned what this
        means.
        """
        lost = empty & self.columns
        return not lost & self.always and (self.spared or lost != self.columns)


class ColumnNeeds:
    """Finds the features of an index that a record's empty columns make impossible."""

    def __init__(
        self,
        features: Iterable[StoredFeature],
        gaps: BuiltGaps | None = None,
        fetches: Sequence[StoredFetch] = (),
    ) -> None:
        self.bits: dict[str, int] = {}  # bit of each column that a feature reads
        self._needs: list[Needs] = []
        for feature in features:
            for name in feature.reads or ():
                self.bits.setdefault(name, 1 << len(self.bits))
            self._needs.append(self._of(feature, gaps))
        # bit of each column that a fetch brings
        self.fetched = {n: self.bits[n] for fetch in fetches for n in fetch.columns}
        self.withheld = lru_cache(REMEMBERED)(self._find_withheld)

    @classmethod
    def of(cls, package: Package) -> Self:
        """Make the object for a package, its fetches and the gaps in its `meta`."""
        return cls(package.features, gaps_of(package.meta), package.fetches)

    def _of(self, feature: StoredFeature, gaps: BuiltGaps | None) -> Needs:
        """Return a feature's needs: just one of its columns, if `gaps` are unknown."""
        own = feature.reads or []
        columns = sum(self.bits[name] for name in own)
        if feature.reads is None:
            return Needs(0, 0, spared=True, reads_any=True)
        if feature.fetched is not UNSET:  # a vector is never empty
            return Needs(columns, columns, spared=not columns)
        if gaps is None:
            return Needs(columns, 0, spared=not columns)
        always = sum(self.bits[name] for name in own if not gaps.columns.get(name))
        usual = gaps.features.get(feature.name, 0.0) >= USUAL
        return Needs(columns, always, spared=usual or not columns)

    def _find_withheld(self, empty: int, unfetched: int = 0) -> int:
        """Return a mask of the features that cannot be computed for a record.

        `empty` is a mask of the record's empty columns. A feature is withheld if one of
        its columns is empty and never was in the build. It is also withheld if all its
        columns are empty, unless at least the share `USUAL` of the build's records were
        like this. `unfetched` is a mask of the columns that a fetch may still bring: a
        feature that reads one of them is withheld, because nobody knows yet whether the
        column is empty.
        """
        return sum(
            1 << k
            for k, needs in enumerate(self._needs)
            if not needs.is_met(empty) or needs.awaits(unfetched)
        )

    def empty_in(self, record: Mapping[str, Any]) -> int:
        """Return a mask of the columns that are empty in a record."""
        empty = 0
        for name, bit in self.bits.items():
            value = record.get(name)
            if value is None or value != value:
                empty |= bit
        return empty

    def withheld_of_rows(
        self, missing: Mapping[str, NDArray[np.bool_]], count: int
    ) -> NDArray[np.int64]:
        """Return masks (count,): the features that cannot be computed for each row.

        `missing` maps columns to masks (count,) of their empty cells. A column that it
        does not name is empty in every row, or unfetched if a fetch brings it.
        """
        masks = np.zeros(count, np.int64)
        unfetched = sum(bit for n, bit in self.fetched.items() if n not in missing)
        for k, needs in enumerate(self._needs):
            cells = {
                name: missing.get(name, np.ones(count, np.bool_))
                for name in self.named(needs.columns)
            }
            always = self.named(needs.always)
            lost = np.any([cells[name] for name in always], axis=0) if always else False
            if cells and not needs.spared:
                lost = lost | np.all([*cells.values()], axis=0)
            lost = lost | needs.awaits(unfetched)
            masks |= np.asarray(lost, np.int64) << k
        return masks

    def read_by(self, features: int) -> int:
        """Return a mask of the columns read by the features in the mask `features`."""
        bits = 0
        for k, needs in enumerate(self._needs):
            bits |= needs.columns if features >> k & 1 else 0
        return bits

    def named(self, bits: int) -> tuple[str, ...]:
        """Return the names of the columns in a mask, in the order of the bits."""
        return tuple(name for name, bit in self.bits.items() if bits & bit)


def coming_together(features: Iterable[StoredFeature]) -> tuple[int, ...]:
    """Return, for each feature, a mask of the features that its columns suffice for.

    If a record gets all columns that the feature reads, all features in the mask can be
    computed. The mask contains the feature itself.
    """
    reads = [None if one.reads is None else frozenset(one.reads) for one in features]
    return tuple(
        sum(
            1 << k
            for k, other in enumerate(reads)
            if k == position or (own is not None and other is not None and other <= own)
        )
        for position, own in enumerate(reads)
    )
