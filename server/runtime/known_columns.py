"""The columns that an index of records knows, and records that do not suit them."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from polydom.features.errors import BadItem
from polydom.features.items import Value
from polydom.indexer.index.stored_features import StoredFeature

SHOWN = 10
# Names that an unknown one is compared with, at tens of microseconds each.
COMPARED = 64


class KnownColumns:
    """The columns that the features of an index read.

    Parameters
    ----------
    features
        The index's. If one of them is a function, which may read any column, nothing is
        known of the columns, and every record is let through.

    Attributes
    ----------
    names
        The columns in the order of the features; none where nothing is known.
    texts
        The columns that hold words or dates; also where nothing is known of others.
    """

    def __init__(self, features: Iterable[StoredFeature]) -> None:
        names: dict[str, None] = {}
        texts: set[str] = set()
        reads_any = False
        for feature in features:
            if feature.columns is None:
                reads_any = True
                continue
            names |= dict.fromkeys(feature.columns.columns)
            words, dates = feature.columns.vocabularies, feature.columns.dates
            texts |= {*(words or ()), *(dates or ())} & {*feature.columns.columns}
        self.texts = frozenset(texts)
        self.names = () if reads_any else tuple(names)
        self._known = frozenset(self.names)

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
