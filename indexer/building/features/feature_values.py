"""Feature values of all items: computed in parallel, and kept in the cache."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadFeature, BadItem, BadProject
from polydom.features.extract import Extractor
from polydom.features.items import Item
from polydom.features.tables.column_features import Columns
from polydom.features.tables.records import Records
from polydom.features.threads import one_thread

from ...cluster.workers import CALL_S, Workers
from ...progress import OnProgress, Progress
from ..cache import Cache
from ..data.dataset import Dataset
from .choose_features import ProjectFeatures
from .item_keys import item_keys
from .kept_values import ComputedValues, KeptValues
from .opened_files import OpenedFiles

log = logging.getLogger("polydom")
say = logging.getLogger("polydom.data")  # what a build does, which is no warning

Rows = NDArray[np.int64]

ROWS = 2**18  # rows of a table that are read at once
STAGE = "computing features"

# Number of items in the first calls, and in the largest call.
FIRST, MOST = 16, 4096


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
    keys = item_keys(dataset, features, at_once)
    kept = KeptValues(cache, keys, features, values, dataset.names)
    if told := kept.told():
        say.info("%s", told)
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


def _compute(
    dataset: Dataset,
    features: ProjectFeatures,
    workers: Workers,
    kept: KeptValues,
    on_progress: OnProgress,
) -> None:
    """Compute the missing values, and give equal items the values of the first one.

    An item that equals an unusable item is computed itself, since other features may
    make it unusable, too.
    """
    shared = features.shared(kept.cache)
    try:
        for parts in (kept.missing, kept.repeat):
            for rows, lacking in parts():
                part = dataset
                if len(rows) < len(dataset.items):
                    part = dataset.only(rows)
                if workers.executor is not None:
                    part = part.shared(kept.cache)
                _compute_part(part, rows, lacking, shared, workers, kept, on_progress)
    finally:
        kept.keep()
    kept.merge()


def _compute_part(
    part: Dataset,
    rows: Rows,
    lacking: tuple[int, ...],
    features: ProjectFeatures,
    workers: Workers,
    kept: KeptValues,
    on_progress: OnProgress,
) -> None:
    """Compute the features at positions `lacking` for the items of `part`.

    `rows` (n,) are the items' positions in the data set. Each call takes about `CALL_S`
    seconds.
    """
    item_s = 0.0

    def calls() -> Iterator[tuple[Any, ...]]:
        start, count = 0, len(rows)
        while start < count:
            fair = max((count - start) // (2 * workers.count), 1)
            quick = FIRST if not item_s else int(CALL_S / item_s) + 1
            end = min(start + min(quick, MOST, fair), count)
            items, names = part.items[start:end], part.names[start:end]
            yield start, items, names, features, lacking
            start = end

    for found in workers.run(
        _compute_chunk, calls(), stage=STAGE, ordered=False, doing=_describe
    ):
        item_s = found.seconds / len(found.rows)
        kept.add(found, rows[found.start : found.start + len(found.rows)])
        on_progress(kept.done)


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
    """Compute the features at positions `lacking` for some items from `start` on."""
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
