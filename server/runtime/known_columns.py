"""The columns that an index of records knows, and records that do not suit them."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple, Self

from polydom.features.errors import BadItem
from polydom.features.items import Value
from polydom.indexer.index.built_facts import BuiltGaps, gaps_of
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature

# Share of the items of a build in which nothing of a feature was there, from which on
# that is a value that models know.
USUAL = 0.05
# Patterns of empty columns of which the withheld features are remembered.
REMEMBERED = 1024
SHOWN = 10
# Names that an unknown one is compared with, at tens of microseconds each.
COMPARED = 64


class _Needs(NamedTuple):
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


class KnownColumns:
    """The columns that the features of an index read.

    Parameters
    ----------
    features
        The index's. If one of them is a function, which may read any column, nothing is
        known of the columns, and every record is let through.
    gaps
        How often columns were empty in the build; None where that is not known.

    Attributes
    ----------
    bits
        Each column that a feature is known to read, and the bit that stands for it.
    names
        The columns in the order of the features; none where nothing is known.
    texts
        The columns that hold words, dates or free text; also where nothing is known of
        others.
    """

    def __init__(
        self, features: Iterable[StoredFeature], gaps: BuiltGaps | None = None
    ) -> None:
        bits: dict[str, int] = {}
        needs: list[_Needs] = []
        texts: set[str] = set()
        reads_any = False
        for feature in features:
            if feature.reads is None:
                reads_any = True
                needs.append(_Needs(0, 0, spared=True))
                continue
            texts |= _strings(feature)
            for name in feature.reads:
                bits.setdefault(name, 1 << len(bits))
            needs.append(_needs(feature, feature.reads, gaps, bits))
        self.bits = bits
        self.texts = frozenset(texts)
        self.names = () if reads_any else tuple(bits)
        self._known = frozenset(self.names)
        self._needs = needs
        self.withheld = lru_cache(REMEMBERED)(self._find_withheld)

    @classmethod
    def of(cls, package: Package) -> Self:
        """Know the columns of a package."""
        return cls(package.features, gaps_of(package.meta))

    def _find_withheld(self, empty: int) -> int:
        """Say which features cannot be computed where some columns are empty.

        That is a feature of which a column is empty that no item of the build lacked:
        no model knows what it is then. Nor is one known of which all are empty, unless
        that was usual.
        """
        return sum(
            1 << k for k, needs in enumerate(self._needs) if not needs.is_met(empty)
        )

    def empty_in(self, record: Mapping[str, Value]) -> int:
        """Bits of the columns that hold nothing in a record."""
        empty = 0
        for name, bit in self.bits.items():
            value = record.get(name)
            if value is None or value != value:
                empty |= bit
        return empty

    def read_by(self, features: int) -> int:
        """Bits of the columns that some features, a mask, read."""
        bits = 0
        for k, needs in enumerate(self._needs):
            bits |= needs.columns if features >> k & 1 else 0
        return bits

    def named(self, bits: int) -> tuple[str, ...]:
        """Names of columns, in their order."""
        return tuple(name for name, bit in self.bits.items() if bits & bit)

    def check(self, record: Mapping[str, Value]) -> None:
        """Refuse a record of which nothing, or not everything, is known.

        Raises
        ------
        BadItem
            If a column is unknown, or there is none; others may be missing.
        """
        if not self._known:
            return
        if not record:
            raise BadItem(f"the record has no columns; the index {self._some()}")
        if not self._known.issuperset(record):
            name = next(name for name in record if name not in self._known)
            some = self.names[:COMPARED]
            near = get_close_matches(name[:80], some, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"it {self._some()}"
            raise BadItem(f"the index knows no column {name[:80]!r}; {hint}")

    def _some(self) -> str:
        more = ", ..." if len(self.names) > SHOWN else ""
        return f"knows {', '.join(self.names[:SHOWN])}{more}"


def _strings(feature: StoredFeature) -> set[str]:
    """Columns of a feature that hold words, dates or free text."""
    if feature.columns is None:
        return {*(feature.reads or ())}
    words, dates = feature.columns.vocabularies, feature.columns.dates
    return {*(words or ()), *(dates or ())} & {*feature.columns.columns}


def _needs(
    feature: StoredFeature,
    own: Sequence[str],
    gaps: BuiltGaps | None,
    bits: Mapping[str, int],
) -> _Needs:
    """Say what a feature needs of its columns; where gaps are not known, one."""
    columns = sum(bits[name] for name in own)
    if gaps is None:
        return _Needs(columns, 0, spared=False)
    always = sum(bits[name] for name in own if not gaps.columns.get(name))
    return _Needs(columns, always, gaps.features.get(feature.name, 0.0) >= USUAL)
