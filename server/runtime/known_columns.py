"""The columns that the features of an index read, and a check of a record's columns."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import zip_longest

from msgspec import UNSET

from polydom.features.errors import BadItem
from polydom.features.items import Value
from polydom.indexer.index.built_facts import BuiltGaps
from polydom.indexer.index.column_needs import ColumnNeeds
from polydom.indexer.index.fetches.stored_fetches import KeyKind, StoredFetch
from polydom.indexer.index.stored_features import StoredFeature

SHOWN = 10
# Maximum number of names that an unknown name is compared with; each comparison takes
# tens of microseconds.
COMPARED = 64


class KnownColumns(ColumnNeeds):
    """The columns that the features of an index read.

    `names` are all these columns, and the key columns of `fetches`. `texts` are those
    that hold words, dates or free text, and `keys` are the key columns that no feature
    reads, with what they hold; None if the index does not know it. A feature that is a
    function may read any column; if there is one, `names` is empty, and every record
    passes the check. Vectors of texts and images have no names either.
    """

    def __init__(
        self,
        features: Iterable[StoredFeature],
        gaps: BuiltGaps | None = None,
        fetches: Sequence[StoredFetch] = (),
    ) -> None:
        own = list(features)
        super().__init__(own, gaps, fetches)
        self.keys: dict[str, KeyKind | None] = {
            name: kind
            for one in fetches
            for name, kind in zip_longest(one.key, one.key_kinds)
            if name not in self.bits
        }
        self.texts = frozenset[str]().union(*map(_strings, own))
        nameless = any(one.reads is None or one.fetched is not UNSET for one in own)
        self.names = () if nameless else (*self.bits, *self.keys)
        self._known = frozenset(self.names)

    def check(self, record: Mapping[str, Value]) -> None:
        """Raise BadItem if a record is empty or has an unknown column."""
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
    """Return the names of a feature's columns that hold words, dates or free text."""
    if feature.columns is None:
        return {*(feature.reads or ())}
    words, dates = feature.columns.vocabularies, feature.columns.dates
    return {*(words or ()), *(dates or ())} & {*feature.columns.columns}
