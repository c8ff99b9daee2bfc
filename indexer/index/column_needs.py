"""Which columns of records features need, and what cannot be computed without some."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .built_facts import BuiltGaps, gaps_of
from .package import Package
from .stored_features import StoredFeature

# Share of the items of a build in which nothing of a feature was there, from which on
# that is a value that models know.
USUAL = 0.05
# Patterns of empty columns of which the withheld features are remembered.
REMEMBERED = 1024


class Needs(NamedTuple):
    """What a feature needs of a record, as bits of columns.

    Attributes
    ----------
    columns
        Those that it reads; none of a function, which may read any.
    always
        Those of them that no item of the build lacked.
    spared
        Whether all of them may be empty.
    """

    columns: int
    always: int
    spared: bool

    def is_met(self, empty: int) -> bool:
        """Say whether models know what the feature is where these are empty."""
        lost = empty & self.columns
        return not lost & self.always and (self.spared or lost != self.columns)


class ColumnNeeds:
    """The columns that the features of an index read, and how badly.

    Parameters
    ----------
    features
        The index's.
    gaps
        How often columns were empty in the build; None where that is not known.

    Attributes
    ----------
    bits
        Each column that a feature is known to read, and the bit that stands for it.
    """

    def __init__(
        self, features: Iterable[StoredFeature], gaps: BuiltGaps | None = None
    ) -> None:
        self.bits: dict[str, int] = {}
        self._needs: list[Needs] = []
        for feature in features:
            for name in feature.reads or ():
                self.bits.setdefault(name, 1 << len(self.bits))
            self._needs.append(self._of(feature, gaps))
        self.withheld = lru_cache(REMEMBERED)(self._find_withheld)

    @classmethod
    def of(cls, package: Package) -> Self:
        """Know the columns of a package."""
        return cls(package.features, gaps_of(package.meta))

    def _of(self, feature: StoredFeature, gaps: BuiltGaps | None) -> Needs:
        """Say what a feature needs of its columns; where gaps are not known, one."""
        own = feature.reads or []
        columns = sum(self.bits[name] for name in own)
        if gaps is None:
            return Needs(columns, 0, spared=not columns)
        always = sum(self.bits[name] for name in own if not gaps.columns.get(name))
        usual = gaps.features.get(feature.name, 0.0) >= USUAL
        return Needs(columns, always, spared=usual or not columns)

    def _find_withheld(self, empty: int) -> int:
        """Say which features cannot be computed where some columns are empty.

        That is a feature of which a column is empty that no item of the build lacked:
        no model knows what it is then. Nor is one known of which all are empty, unless
        that was usual.
        """
        return sum(
            1 << k for k, needs in enumerate(self._needs) if not needs.is_met(empty)
        )

    def empty_in(self, record: Mapping[str, Any]) -> int:
        """Bits of the columns that hold nothing in a record."""
        empty = 0
        for name, bit in self.bits.items():
            value = record.get(name)
            if value is None or value != value:
                empty |= bit
        return empty

    def withheld_of_rows(
        self, missing: Mapping[str, NDArray[np.bool_]], count: int
    ) -> NDArray[np.int64]:
        """Find the withheld features (count,) of rows, by which (count,) cells miss.

        Columns that are not named are missing in every row.
        """
        masks = np.zeros(count, np.int64)
        for k, needs in enumerate(self._needs):
            cells = {
                name: missing.get(name, np.ones(count, np.bool_))
                for name in self.named(needs.columns)
            }
            always = self.named(needs.always)
            lost = np.any([cells[name] for name in always], axis=0) if always else False
            if cells and not needs.spared:
                lost = lost | np.all([*cells.values()], axis=0)
            masks |= np.asarray(lost, np.int64) << k
        return masks

    def read_by(self, features: int) -> int:
        """Bits of the columns that some features, a mask, read."""
        bits = 0
        for k, needs in enumerate(self._needs):
            bits |= needs.columns if features >> k & 1 else 0
        return bits

    def named(self, bits: int) -> tuple[str, ...]:
        """Names of columns, in their order."""
        return tuple(name for name, bit in self.bits.items() if bits & bit)


def coming_together(features: Iterable[StoredFeature]) -> tuple[int, ...]:
    """Of each feature the mask of all that its columns are enough for, itself too."""
    reads = [None if one.reads is None else frozenset(one.reads) for one in features]
    return tuple(
        sum(
            1 << k
            for k, other in enumerate(reads)
            if k == position or (own is not None and other is not None and other <= own)
        )
        for position, own in enumerate(reads)
    )
