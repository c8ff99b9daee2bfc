"""Values of features in the cache, by the feature and by what it reads of an item.

A build reads the values of items that earlier builds knew, in whatever order and number
they come, and computes the values of the others. Unusable items are not kept.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject

from ..cache import Array, Cache, digest
from ..data.stored_items import DIGEST
from .choose_features import ProjectFeatures
from .item_keys import Bytes, ItemKeys, as_texts

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Computed values are written to the cache after a share KEEP_SHARE of the elapsed time
# and KEEP_S seconds, so a process that is killed loses no more than these.
KEEP_SHARE, KEEP_S = 0.05, 10.0
# Most values and most items of one entry.
ENTRY_BYTES, ENTRY_ITEMS = 256 << 20, 1 << 17
# Entries in use of a feature that are not merged yet, beside those that are full.
MOST_ENTRIES = 16
MOST_PARTS = 64  # parts of the items that lack different features
NAME = "\0"  # stands for an item's name in a kept error


class ComputedValues(NamedTuple):
    """Computed values of some features, for n items of those that lack them."""

    start: int  # Position of the first among the items that lack these features
    features: tuple[int, ...]  # Positions of the features
    rows: NDArray[np.float32]  # (n, width) float32: Values, one feature after the other
    bad: dict[int, str]  # Reasons of unusable items, by position among the n
    # Errors of features that failed, by position among the n, and by feature
    failed: dict[int, dict[int, str]]
    opened: frozenset[str]  # Paths of the files that features opened
    seconds: float  # Seconds that the computation took


class _Entry(NamedTuple):
    """One cache entry: a feature's values for n items of any data set."""

    digests: Bytes  # (n, 16): Hashes of what the feature reads
    values: NDArray[np.float32]  # (n, width)
    failed: dict[int, str]  # Errors of the feature, by position

    def only(self, rows: Rows) -> "_Entry":
        """Return the entry with the values at positions `rows`."""
        failed = {
            at: self.failed[row]
            for at, row in enumerate(rows.tolist() if self.failed else ())
            if row in self.failed
        }
        return _Entry(self.digests[rows], self.values[rows], failed)


def _read(width: int, meta: dict[str, Any], arrays: dict[str, Array]) -> _Entry:
    digests, values = arrays["digests"], arrays["values"]
    failed = {int(row): str(why) for row, why in meta["failed"].items()}
    count = len(digests)
    known = digests.dtype == np.uint8 and digests.shape == (count, DIGEST)
    known &= values.dtype == np.float32 and values.shape == (count, width)
    known &= failed.keys() <= {*range(count)} if failed else True
    if not known or np.isinf(values).any():
        raise BadProject(f"values of shape {values.shape} for {digests.shape} items")
    return _Entry(digests, values, failed)


class KeptValues:
    """Feature values of N items: reads known values from the cache, writes new ones.

    `values` (N, width) is filled with the known values. `keys` has the names under
    which each feature's values are cached, or None for a feature that is copied from a
    table; `names` (N,) are the items' names. `bad` maps positions of unusable items to
    reasons. `failed` has the errors of features that failed, by feature and by item.
    `done` is the number of items for which all features are known.
    """

    def __init__(
        self,
        cache: Cache,
        keys: Sequence[ItemKeys | None],
        features: ProjectFeatures,
        values: NDArray[np.float32],
        names: Sequence[str],
    ) -> None:
        self.bad: dict[int, str] = {}
        self.failed: dict[int, dict[int, str]] = {}
        self.opened: set[str] = set()  # paths of the files that features opened
        self.cache = cache
        self._features, self._starts = features, features.starts
        self._keys, self._values, self._names = keys, values, names
        self._known = np.zeros((len(keys), len(values)), np.bool_)
        # For each feature, numbers of items in the entries that are used, by name
        self._used: list[dict[str, int]] = [{} for _ in keys]
        self._added: list[tuple[tuple[int, ...], Rows]] = []  # features, items
        self._began_s = self._kept_s = time.monotonic()
        for position, key in enumerate(keys):
            if key is None:
                self._known[position] = True
                continue
            for name in cache.names(key.group):
                self._load(position, key, name)
        self._spread()
        self.done = int(self._known.all(axis=0).sum())

    def _recall(self, position: int, name: str) -> _Entry | None:
        """Read an entry; remove it if it cannot be used, as its values are others'."""
        columns = self._columns(position)
        read = partial(_read, columns.stop - columns.start)
        found = self.cache.peek(name, read)
        if found is None:
            self.cache.remove(name)
        return found

    def _load(self, position: int, key: ItemKeys, name: str) -> None:
        found = self._recall(position, name)
        if found is None:
            return
        hit, places = key.items.find(found.digests)
        if self._features.extractor.features[position].fails != "without":
            # it may fail no more: computing it again stops the build
            hit[[*found.failed]] = False
        own = self.failed.setdefault(position, {})
        for place in own.keys() & {*places[hit].tolist()} if own else ():
            del own[place]
        for at, why in found.failed.items():
            if hit[at]:
                place = int(places[at])
                own[place] = _renamed(why, NAME, self._names[place])
        own_values = self._values[:, self._columns(position)]
        own_values[places[hit]] = found.values[hit]
        self._known[position, places[hit]] = True
        if hit.any():
            self._used[position][name] = len(hit)
            self.cache.touch(name)

    def _spread(self) -> None:
        """Give items the known values of the first item with the same hash."""
        usable = np.ones(len(self._values), np.bool_)
        usable[[*self.bad]] = False
        for position, key in enumerate(self._keys):
            if key is None or len(key.items.first) == len(usable):
                continue
            known, source = self._known[position], key.items.first[key.items.own]
            rows = np.flatnonzero(~known & (known & usable)[source])
            columns = self._columns(position)
            self._values[rows, columns] = self._values[source[rows], columns]
            known[rows] = True
            own = self.failed.get(position, {})
            for row in rows.tolist() if own else ():
                first = int(source[row])
                if first in own:
                    names = self._names[first], self._names[row]
                    own[row] = _renamed(own[first], *names)

    def _columns(self, position: int) -> slice:
        return slice(self._starts[position], self._starts[position + 1])

    @property
    def complete(self) -> bool:
        """True if all values of all items are known."""
        return self.done == self._known.shape[1]

    def told(self) -> str:
        """Return a sentence about how many values were kept; "" if all, or none."""
        count = self._known.shape[1]
        kept = [
            position
            for position, key in enumerate(self._keys)
            if key is not None and self._known[position].any()
        ]
        if self.complete or not kept:
            return ""
        features = self._features.stored
        new = [
            features[position].name
            for position, key in enumerate(self._keys)
            if key is not None and position not in kept
        ]
        items = int(self._known[kept].all(axis=0).sum())
        more = f"; {count - items:,} are computed" if items < count else ""
        if not new:
            return f"values of {items:,} of {count:,} items were kept{more}"
        many = f", and those of {len(new) - 1} more" if new[1:] else ""
        return (
            f"values of {items:,} of {count:,} items were kept{more}; those of "
            f"{new[0]!r}{many} are computed for all items"
        )

    def missing(self) -> list[tuple[Rows, tuple[int, ...]]]:
        """Return pairs of items and features: which features the items lack.

        Of items with the same hash, only the first is among them.
        """
        lacking = ~self._known
        for own, key in zip(lacking, self._keys, strict=True):
            if key is not None:
                repeated = np.ones(len(own), np.bool_)
                repeated[key.items.first] = False
                own[repeated] = False
        return _parts(lacking)

    def repeat(self) -> list[tuple[Rows, tuple[int, ...]]]:
        """Copy values to items with the same hash; return what is still missing.

        This is what equals an unusable item.
        """
        self._spread()
        self._known[:, [*self.bad]] = True
        self.done = int(self._known.all(axis=0).sum())
        return _parts(~self._known)

    def add(self, found: ComputedValues, places: Rows) -> None:
        """Add computed values; write all new values to the cache from time to time.

        `places` (n,) are the positions of the items in the data set.
        """
        begun = 0
        for position in found.features:
            columns = self._columns(position)
            width = columns.stop - columns.start
            self._values[places, columns] = found.rows[:, begun : begun + width]
            self._known[position, places] = True
            begun += width
        self.done += len(places)
        self.bad |= {int(places[at]): why for at, why in found.bad.items()}
        self.opened |= found.opened
        for at, failed in found.failed.items():
            for position, why in failed.items():
                self.failed.setdefault(position, {})[int(places[at])] = why
        usable = np.delete(places, [*found.bad])
        self._added.append((found.features, usable))
        now_s = time.monotonic()
        if now_s - self._kept_s > KEEP_S + KEEP_SHARE * (now_s - self._began_s):
            self.keep()

    def keep(self) -> None:
        """Write values added since the last call to the cache, by feature."""
        added, self._added = self._added, []
        self._kept_s = time.monotonic()
        for position, key in enumerate(self._keys):
            own = [items for features, items in added if position in features]
            if not own or key is None:
                continue
            places = np.sort(np.concatenate(own))
            failed = self.failed.get(position, {})
            hashes = key.items.hashes[key.items.own[places]]
            entry = _Entry(
                hashes.view(np.uint8).reshape(-1, DIGEST),
                self._values[places, self._columns(position)],
                {
                    at: _renamed(failed[place], self._names[place], NAME)
                    for at, place in enumerate(places.tolist() if failed else ())
                    if place in failed
                },
            )
            self._used[position] |= self._store(key.group, entry)

    def _store(self, group: str, entry: _Entry) -> dict[str, int]:
        """Write entries of the largest size at most; return their names and sizes."""
        written, most = dict[str, int](), _most_items(entry.values.shape[1])
        for start in range(0, len(entry.digests), most):
            rows = np.arange(start, min(start + most, len(entry.digests)))
            digests, values, failed = entry.only(rows)
            name = f"{group}/{digest(digests.tobytes())}"
            meta = {"failed": {str(at): why for at, why in failed.items()}}
            self.cache.store(name, meta, {"digests": digests, "values": values})
            written[name] = len(rows)
        return written

    def merge(self) -> None:
        """Merge the entries of features that use many of them."""
        for position, key in enumerate(self._keys):
            if key is None:
                continue
            used, columns = self._used[position], self._columns(position)
            most = _most_items(columns.stop - columns.start)
            full = sum(used.values()) // most
            if len(used) > MOST_ENTRIES + 2 * full:
                self._merge(position, key, most)

    def _merge(self, position: int, key: ItemKeys, most: int) -> None:
        """Merge a feature's used entries into entries of at most `most` items.

        Values that this build does not use go to entries of their own, so that they
        grow old and are removed from the cache, unless another build uses them.
        """
        names, written = [*self._used[position]], dict[str, int]()
        waiting: tuple[list[_Entry], list[_Entry]] = [], []  # unused and used ones
        seen = np.empty(0, f"S{DIGEST}")
        for name in names:
            found = self._recall(position, name)
            if found is None:
                continue
            hashes = as_texts(found.digests)
            new = np.zeros(len(hashes), np.bool_)
            new[np.unique(hashes, return_index=True)[1]] = True
            new &= ~np.isin(hashes, seen)
            seen = np.concatenate([seen, hashes[new]])
            used = key.items.find(found.digests)[0]
            for one, own in zip(waiting, (new & ~used, new & used), strict=True):
                one.append(found.only(np.flatnonzero(own)))
                if sum(len(entry.digests) for entry in one) >= most:
                    written |= self._store(key.group, _joined(one))
                    one.clear()
        for one in waiting:
            if one:
                written |= self._store(key.group, _joined(one))
        for name in {*names} - written.keys():
            self.cache.remove(name)


def _most_items(width: int) -> int:
    return min(ENTRY_ITEMS, max(ENTRY_BYTES // (4 * max(width, 1)), 1))


def _joined(entries: Sequence[_Entry]) -> _Entry:
    failed, begun = dict[int, str](), 0
    for one in entries:
        failed |= {begun + at: why for at, why in one.failed.items()}
        begun += len(one.digests)
    return _Entry(
        np.concatenate([one.digests for one in entries]),
        np.concatenate([one.values for one in entries]),
        failed,
    )


def _renamed(why: str, name: str, other: str) -> str:
    """Return an error of a feature on an item as that on an equal item."""
    return why.replace(f" for {name}", f" for {other}", 1)


def _parts(lacking: Mask) -> list[tuple[Rows, tuple[int, ...]]]:
    """Divide items by the features that they lack; `lacking` is (features, N).

    If they lack features in very many combinations, all of them get all features that
    one of them lacks.
    """
    rows = np.flatnonzero(lacking.any(axis=0))
    if not len(rows):
        return []
    packed = np.packbits(lacking[:, rows], axis=0).T
    kinds = np.ascontiguousarray(packed).view(f"S{packed.shape[1]}").ravel()
    _, first, own = np.unique(kinds, return_index=True, return_inverse=True)
    if len(first) > MOST_PARTS:
        return [(rows, tuple(np.flatnonzero(lacking.any(axis=1)).tolist()))]
    return [
        (rows[own == kind], tuple(np.flatnonzero(lacking[:, rows[at]]).tolist()))
        for kind, at in enumerate(first.tolist())
    ]
