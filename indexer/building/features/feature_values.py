"""Feature values of all items: computed in parallel, and kept in the cache."""

import logging
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadFeature, BadItem, BadProject
from polydom.features.extract import Extractor
from polydom.features.feature import Feature
from polydom.features.items import Item
from polydom.features.tables.column_features import Columns
from polydom.features.tables.records import Records
from polydom.features.threads import one_thread

from ...cluster.workers import CALL_S, Workers
from ...progress import OnProgress, Progress
from ..cache import Cache, digest
from ..cache_keys import feature_keys
from ..data.dataset import Dataset
from .choose_features import ProjectFeatures
from .opened_files import OpenedFiles

log = logging.getLogger("polydom")

ROWS = 2**18  # rows of a table that are read at once
STAGE = "computing features"

# Number of items in the first calls, and in the largest call.
FIRST, MOST = 16, 4096
# Computed values are written to the cache after a share KEEP_SHARE of the elapsed time
# and KEEP_S seconds, so a process that is killed loses no more than these.
KEEP_SHARE, KEEP_S = 0.05, 10.0


class FeatureTable(NamedTuple):
    """N items and the values of their features, shape (N, width).

    NaN is a missing value. The values of a feature that failed on an item are missing.
    """

    dataset: Dataset
    features: ProjectFeatures
    values: NDArray[np.float32]
    warnings: Sequence[str] = ()  # About features that failed or have missing values

    def sound(self) -> Dataset:
        """Return the items on which no feature failed, to measure times on them.

        Raises BadProject if some feature failed on every item.
        """
        extractor = self.features.extractor
        kept = np.ones(len(self.values), np.bool_)
        for position, feature in enumerate(extractor.features):
            if feature.fails == "without":
                own = self.values[:, extractor.columns(position)]
                kept &= ~np.isnan(own).all(axis=1)
        if kept.all():
            return self.dataset
        if not kept.any():
            raise BadProject(
                "on every item some feature failed, so no time can be measured; leave "
                "such features out of `use`"
            )
        return self.dataset.only(np.flatnonzero(kept))


def compute_values(
    dataset: Dataset,
    features: ProjectFeatures,
    *,
    on_bad_item: str,
    workers: Workers,
    cache: Cache,
    progress: Progress,
) -> FeatureTable:
    """Compute all features of all items; leave out unusable items.

    The values of a feature that fails on an item are NaN, if the feature says
    "without"; a warning says how often it failed. Raises BadProject if an item is
    unusable and `on_bad_item` is "stop", or if a feature fails on all items; and
    BadFeature if a feature fails that does not say "without". The cache keeps the
    values computed before the error.
    """
    if not features.stored:  # every feature is learned later
        empty = np.empty((len(dataset.items), 0), np.float32)
        return FeatureTable(dataset, features, empty)
    count = len(dataset.items)
    values = np.empty((count, features.starts[-1]), np.float32)
    at_once = tables_columns(dataset.items, features.extractor)
    kept = KeptValues(cache, _cache_names(dataset, features, at_once), features, values)
    bad = kept.bad
    with progress.stage(STAGE, count) as on_progress:
        for read, found in _read_columns(dataset, features, at_once, values):
            bad |= found
            on_progress(read if kept.complete else 0)
        if not kept.complete:
            _compute(dataset, features, workers, kept, on_progress)
    if bad and on_bad_item == "stop":
        first = min(bad)
        raise BadProject(f"{dataset.names[first]}: {bad[first]}")
    if len(bad) == count:
        raise BadProject(f"all {count} items are unusable; the first: {bad[0]}")
    features.say_opened(kept.opened)
    warnings = [*_warnings(dataset, features.extractor, values, kept.failed)]
    for warning in warnings:
        log.warning("%s", warning)
    if not bad:  # spares a copy of the values, which may be large
        return FeatureTable(dataset, features, values, warnings)
    usable = np.array([i not in bad for i in range(count)])
    return FeatureTable(dataset.without(bad), features, values[usable], warnings)


def _warnings(
    dataset: Dataset,
    extractor: Extractor,
    values: NDArray[np.float32],
    failed: Mapping[int, Mapping[int, str]],
) -> Iterator[str]:
    """Yield a warning for each function that failed, or has NaN for some items.

    `failed` has the errors of features that failed, by feature and by item. Raises
    BadFeature if a feature has failed on all items, or has no number for any.
    """
    count = len(dataset.items)
    for position, feature in enumerate(extractor.features):
        if isinstance(feature.function, Columns):
            continue
        own = failed.get(position, {})
        if own:
            where = f"{len(own):,} of {count:,} items; the first: {own[min(own)]}"
            if len(own) == count:
                raise BadFeature(f"feature {feature.name!r} failed on {where}")
            yield (
                f"feature {feature.name!r} failed on {where}; its values are missing "
                "there"
            )
        lacks: NDArray[np.bool_] = np.isnan(values[:, extractor.columns(position)])
        if lacks.all():
            raise BadFeature(
                f"feature {feature.name!r} is NaN in all columns for all {count:,} "
                "items, so nothing can be learned from it"
            )
        empty = np.asarray(lacks.any(axis=1))
        empty[[*own]] = False
        if rows := np.flatnonzero(empty).tolist():
            yield (
                f"feature {feature.name!r} has NaN for {len(rows):,} of {count:,} "
                f"items, such as {dataset.names[rows[0]]}: models take it for a "
                "missing value"
            )


def tables_columns(items: Sequence[Item], extractor: Extractor) -> dict[int, Columns]:
    """Map positions of features that only copy a table's columns to these features."""
    if not isinstance(items, Records):
        return {}
    return {
        position: feature.function
        for position, feature in enumerate(extractor.features)
        if isinstance(feature.function, Columns)
    }


def _cache_names(
    dataset: Dataset, features: ProjectFeatures, at_once: Container[int]
) -> list[str | None]:
    """Return, for each feature, the name under which its values are cached.

    The name is None for a feature in `at_once`, which is copied from a table.
    """
    keys = feature_keys(features.stored, features.files)
    return [
        None if position in at_once else f"values/{digest(key, dataset.digest)}"
        for position, key in enumerate(keys)
    ]


class ComputedValues(NamedTuple):
    """Computed values of some features, for n consecutive items."""

    start: int  # Position of the first item
    features: tuple[int, ...]  # Positions of the features
    rows: NDArray[np.float32]  # (n, width) float32: Values, one feature after the other
    bad: dict[int, str]  # Reasons of unusable items, by position among the n
    # Errors of features that failed, by position among the n, and by feature
    failed: dict[int, dict[int, str]]
    opened: frozenset[str]  # Paths of the files that features opened
    seconds: float  # Seconds that the computation took


class _Kept(NamedTuple):
    """One cache entry: a feature's values for some ranges of items."""

    ranges: list[tuple[int, int]]
    values: NDArray[np.float32]
    bad: dict[int, str]
    failed: dict[int, str]


def _read_kept(
    shape: tuple[int, ...], meta: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> _Kept:
    (count, width), values = shape, arrays["values"]
    ranges = [(start, stop) for start, stop in arrays["ranges"].tolist()]
    bad = {int(row): str(why) for row, why in meta["bad"].items()}
    # entries of older releases have no features that failed
    failed = {int(row): str(why) for row, why in meta.get("failed", {}).items()}
    rows = sum(stop - start for start, stop in ranges)
    inside = all(0 <= start < stop <= count for start, stop in ranges)
    known = bad.keys() | failed.keys() <= {*range(count)}
    if not inside or values.shape != (rows, width) or not known:
        raise BadProject(f"values of shape {values.shape} for items {ranges[:2]}")
    return _Kept(ranges, values, bad, failed)


class KeptValues:
    """Feature values of N items: reads known values from the cache, writes new ones.

    `values` (N, width) is filled with the known values. `groups` has the name under
    which each feature's values are cached, or None for a feature that is copied from a
    table. `bad` maps positions of unusable items to reasons. `failed` has the errors of
    features that failed, by feature and by item. `done` is the number of items for
    which all features are known.
    """

    def __init__(
        self,
        cache: Cache,
        groups: Sequence[str | None],
        features: ProjectFeatures,
        values: NDArray[np.float32],
    ) -> None:
        self.bad: dict[int, str] = {}
        self.failed: dict[int, dict[int, str]] = {}
        self.opened: set[str] = set()  # paths of the files that features opened
        self._features = features
        self.cache = cache
        self._groups = groups
        self._starts = features.starts
        self._values = values
        self._known = np.zeros((len(groups), len(values)), np.bool_)
        self._added: list[ComputedValues] = []
        self._began_s = self._kept_s = time.monotonic()
        for position, group in enumerate(groups):
            if group is None:
                self._known[position] = True
                continue
            for name in cache.names(group):
                self._load(position, name)
        self.done = int(self._known.all(axis=0).sum())

    def _load(self, position: int, name: str) -> None:
        own = self._values[:, self._columns(position)]
        found = self.cache.recall(name, partial(_read_kept, own.shape))
        if found is None:
            return
        if found.failed and self._feature(position).fails != "without":
            return  # it may fail no more: computing it again stops the build
        begun = 0
        for start, stop in found.ranges:
            own[start:stop] = found.values[begun : begun + stop - start]
            self._known[position, start:stop] = True
            begun += stop - start
        self.bad |= found.bad
        self.failed.setdefault(position, {}).update(found.failed)

    def _feature(self, position: int) -> Feature:
        return self._features.extractor.features[position]

    def _columns(self, position: int) -> slice:
        return slice(self._starts[position], self._starts[position + 1])

    @property
    def complete(self) -> bool:
        """True if all values of all items are known."""
        return self.done == self._known.shape[1]

    def missing(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield (start, stop, features): which features a range of items lacks."""
        known = self._known
        changes = np.flatnonzero((known[:, 1:] != known[:, :-1]).any(axis=0)) + 1
        bounds = [0, *changes.tolist(), known.shape[1]]
        for start, stop in pairwise(bounds):
            lacking = tuple(np.flatnonzero(~known[:, start]).tolist())
            if lacking:
                yield start, stop, lacking

    def add(self, found: ComputedValues) -> None:
        """Add computed values; write all new values to the cache from time to time."""
        part = slice(found.start, found.start + len(found.rows))
        begun = 0
        for position in found.features:
            columns = self._columns(position)
            width = columns.stop - columns.start
            self._values[part, columns] = found.rows[:, begun : begun + width]
            self._known[position, part] = True
            begun += width
        self.done += len(found.rows)
        self.bad |= {found.start + at: why for at, why in found.bad.items()}
        self.opened |= found.opened
        for at, failed in found.failed.items():
            for position, why in failed.items():
                self.failed.setdefault(position, {})[found.start + at] = why
        self._added.append(found._replace(rows=found.rows[:, :0]))
        now_s = time.monotonic()
        if now_s - self._kept_s > KEEP_S + KEEP_SHARE * (now_s - self._began_s):
            self.keep()

    def keep(self) -> None:
        """Write values added since the last call to the cache, by feature."""
        added, self._added = sorted(self._added, key=lambda one: one.start), []
        self._kept_s = time.monotonic()
        for position, group in enumerate(self._groups):
            own = [one for one in added if position in one.features]
            if not own or group is None:
                continue
            ranges = _joined((one.start, one.start + len(one.rows)) for one in own)
            parts = [self._values[a:b, self._columns(position)] for a, b in ranges]
            bad = {str(one.start + at): w for one in own for at, w in one.bad.items()}
            arrays: dict[str, NDArray[Any]] = {
                "ranges": np.array(ranges, np.int64),
                "values": np.concatenate(parts),
            }
            failed = {
                str(one.start + at): why[position]
                for one in own
                for at, why in one.failed.items()
                if position in why
            }
            meta = {"bad": bad, "failed": failed}
            self.cache.store(f"{group}/{digest(ranges)}", meta, arrays)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that touch each other; `ranges` must ascend."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined and joined[-1][1] == start:
            start, _ = joined.pop()
        joined.append((start, stop))
    return joined


def _compute(
    dataset: Dataset,
    features: ProjectFeatures,
    workers: Workers,
    kept: KeptValues,
    on_progress: OnProgress,
) -> None:
    """Compute the missing values in calls of about `CALL_S` seconds each."""
    item_s = 0.0

    def calls() -> Iterator[tuple[Any, ...]]:
        left = count - kept.done
        for start, stop, lacking in [*kept.missing()]:
            while start < stop:
                fair = max(left // (2 * workers.count), 1)
                quick = FIRST if not item_s else int(CALL_S / item_s) + 1
                end = min(start + min(quick, MOST, fair), stop)
                items, names = dataset.items[start:end], dataset.names[start:end]
                yield start, items, names, shared, lacking
                left -= end - start
                start = end

    count, shared = len(dataset.items), features.shared(kept.cache)
    if workers.executor is not None:
        dataset = dataset.shared(kept.cache)
    try:
        for found in workers.run(
            _compute_chunk, calls(), stage=STAGE, ordered=False, doing=_describe
        ):
            item_s = found.seconds / len(found.rows)
            kept.add(found)
            on_progress(kept.done)
    finally:
        kept.keep()


def _read_columns(
    dataset: Dataset,
    features: ProjectFeatures,
    at_once: Mapping[int, Columns],
    values: NDArray[np.float32],
) -> Iterator[tuple[int, dict[int, str]]]:
    """Copy columns of a table into `values`, one block of rows after the other.

    After each block, yields the number of rows copied so far, and a mapping from the
    positions of the block's unusable rows to the reasons.
    """
    if not at_once:
        return
    records, starts = dataset.items, features.starts
    assert isinstance(records, Records)
    for start in range(0, len(records), ROWS):
        rows = np.arange(start, min(start + ROWS, len(records)))
        part, doubtful = records.take(rows), np.zeros(len(rows), np.bool_)
        for position, function in at_once.items():
            columns = slice(starts[position], starts[position + 1])
            doubtful |= function.read(part, values[rows[0] : rows[-1] + 1, columns])
        bad: dict[int, str] = {}
        for row in rows[doubtful].tolist():
            item, name = [records[row]], [dataset.names[row]]
            own = values[row : row + 1]
            given = item, name, features.extractor, [*at_once], own
            found, _ = _compute_rows(*given, OpenedFiles(watches=False))
            bad |= {row + at: why for at, why in found.items()}
        yield start + len(rows), bad


def _describe(
    start: int, items: Sequence[Item], names: Sequence[str], *_: object
) -> str:
    return f"computing features of {len(items)} items from {names[0]} on"


def _compute_chunk(
    start: int,
    items: Sequence[Item],
    names: Sequence[str],
    features: ProjectFeatures,
    lacking: tuple[int, ...],
) -> ComputedValues:
    """Compute the features at positions `lacking` for some consecutive items."""
    begun_s = time.perf_counter()
    starts = features.starts
    rows = np.zeros((len(items), starts[-1]), np.float32)
    opened = OpenedFiles(watches=bool(features.files))
    bad, failed = _compute_rows(items, names, features.extractor, lacking, rows, opened)
    parts = [rows[:, starts[place] : starts[place + 1]] for place in lacking]
    seconds = time.perf_counter() - begun_s
    joined = np.concatenate(parts, axis=1)
    files = frozenset(opened.found)
    return ComputedValues(start, lacking, joined, bad, failed, files, seconds)


def _compute_rows(
    items: Sequence[Item],
    names: Sequence[str],
    extractor: Extractor,
    missing: Sequence[int],
    rows: NDArray[np.float32],
    opened: OpenedFiles,
) -> tuple[dict[int, str], dict[int, dict[int, str]]]:
    """Write the features at positions `missing` into `rows`, one row per item.

    Returns a mapping from the positions of unusable items to the reasons, and a mapping
    from the positions of other items to the errors of features that failed.
    """
    bad: dict[int, str] = {}
    failed: dict[int, dict[int, str]] = {}
    with one_thread():
        for at, item in enumerate(items):
            try:
                extraction = extractor.begin(item, rows[at], names[at])
                for position in missing:
                    if failure := opened.during(extraction.attempt, position):
                        failed.setdefault(at, {})[position] = str(failure)
            except BadItem as error:
                bad[at] = str(error)
                failed.pop(at, None)
    return bad, failed
