"""Feature values of all items, computed in parallel and kept between runs."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from joblib import delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from polydom.features.errors import BadItem, BadProject
from polydom.features.extract import Extractor
from polydom.features.items import Item
from polydom.features.tables.column_values import ColumnValues
from polydom.features.tables.columns import Columns
from polydom.features.tables.records import Records

from ..progress import Progress
from .cache import Cache, digest
from .cache_keys import feature_keys
from .choose_features import ProjectFeatures
from .data.dataset import Dataset
from .parallel import in_processes

CHUNK_ITEMS = 64
ROWS = 2**14  # of a table that are read at once
STAGE = "computing features"

Chunk = tuple[int, NDArray[np.float32], dict[int, str]]


class FeatureTable(NamedTuple):
    """N items as rows of feature values, (N, width): some columns for each feature."""

    dataset: Dataset
    features: ProjectFeatures
    values: NDArray[np.float32]


def compute_values(
    dataset: Dataset,
    features: ProjectFeatures,
    *,
    on_bad_item: str,
    workers: int,
    cache: Cache,
    progress: Progress,
) -> FeatureTable:
    """Compute every feature of every item; leave out those that prove unusable.

    Raises
    ------
    BadProject
        If an item is unusable and `on_bad_item` is "stop".
    BadFeature
        If a feature raises, gives NaN, another width, or other values the second time.
    WorkerLost
        If a process is killed; what was finished is kept.
    """
    if not features.stored:  # all are to be learned
        empty = np.empty((len(dataset.items), 0), np.float32)
        return FeatureTable(dataset, features, empty)
    count = len(dataset.items)
    values = np.empty((count, features.starts[-1]), np.float32)
    at_once = readers_of(dataset.items, features.extractor)
    names = _entries(dataset, features, at_once)
    widths = [feature.width for feature in features.stored]
    computed = np.repeat([name is not None for name in names], widths)
    starts = range(0, count if computed.any() else 0, CHUNK_ITEMS)
    bad: dict[int, str] = {}
    tasks = (
        delayed(_compute_chunk)(
            dataset.items[start : start + CHUNK_ITEMS],
            dataset.names[start : start + CHUNK_ITEMS],
            start,
            features,
            cache,
            [name and f"{name}/{start}" for name in names],
        )
        for start in starts
    )
    done = 0
    with progress.stage(STAGE, count) as on_progress:
        for read, found in _read_columns(dataset, features, at_once, values):
            bad |= found
            on_progress(0 if computed.any() else read)
        for start, chunk, found in in_processes(
            tasks, workers, stage=STAGE, ordered=False
        ):
            values[start : start + len(chunk), computed] = chunk[:, computed]
            bad |= found
            done += len(chunk)
            on_progress(done)
    if bad and on_bad_item == "stop":
        first = min(bad)
        raise BadProject(f"{dataset.names[first]}: {bad[first]}")
    if len(bad) == count:
        raise BadProject(f"all {count} items are unusable; the first: {bad[0]}")
    if not bad:  # the values of a large table are not copied for nothing
        return FeatureTable(dataset, features, values)
    kept = np.array([i not in bad for i in range(count)])
    return FeatureTable(dataset.without(bad), features, values[kept])


def readers_of(items: Sequence[Item], extractor: Extractor) -> dict[int, ColumnValues]:
    """Find the features that are columns of a table, and what reads all rows at once.

    By position; none where the items are no table's rows.
    """
    if not isinstance(items, Records):
        return {}
    return {
        position: ColumnValues(feature.function, items)
        for position, feature in enumerate(extractor.features)
        if isinstance(feature.function, Columns)
    }


def _entries(
    dataset: Dataset, features: ProjectFeatures, at_once: Container[int]
) -> list[str | None]:
    """Name the cache's entries of the features that are kept there."""
    keys = feature_keys(features.stored, features.files)
    return [
        None if position in at_once else f"values/{digest(key, dataset.digest)}"
        for position, key in enumerate(keys)
    ]


def _read_columns(
    dataset: Dataset,
    features: ProjectFeatures,
    readers: Mapping[int, ColumnValues],
    values: NDArray[np.float32],
) -> Iterator[tuple[int, dict[int, str]]]:
    """Read columns of a table into the values, part by part of its rows.

    Yields how many rows are read, and which of the latest are unusable and why.
    """
    if not readers:
        return
    assert isinstance(dataset.items, Records)
    rows, starts = dataset.items.rows, features.starts
    for start in range(0, len(rows), ROWS):
        part = slice(start, start + ROWS)
        doubtful = np.zeros(len(rows[part]), np.bool_)
        for position, reader in readers.items():
            columns = slice(starts[position], starts[position + 1])
            doubtful |= reader.read(rows[part], values[part, columns])
        bad: dict[int, str] = {}
        for row in (start + np.flatnonzero(doubtful)).tolist():
            item, name = [dataset.items[row]], [dataset.names[row]]
            own = values[row : row + 1]
            found = _compute_rows(item, name, features.extractor, [*readers], own)
            bad |= {row + at: why for at, why in found.items()}
        yield start + len(doubtful), bad


def _compute_chunk(
    items: Sequence[Item],
    names: Sequence[str],
    start: int,
    features: ProjectFeatures,
    cache: Cache,
    entries: Sequence[str | None],
) -> Chunk:
    """Values of some items, from the cache as far as it has them, feature by feature.

    `entries` has each feature's name in the cache, None for those not computed here. An
    item counts as unusable when any feature finds it so.
    """
    starts = features.starts
    rows = np.zeros((len(items), starts[-1]), np.float32)
    bad: dict[int, str] = {}
    missing: list[int] = []
    for position, entry in enumerate(entries):
        if entry is None:
            continue
        stored = cache.load(entry)
        if stored is None:
            missing.append(position)
            continue
        rows[:, starts[position] : starts[position + 1]] = stored[1]["values"]
        bad |= {int(i): why for i, why in stored[0]["bad"].items()}
    if missing:
        found = _compute_rows(items, names, features.extractor, missing, rows)
        meta = {"bad": {str(start + at): why for at, why in found.items()}}
        for position in missing:
            part = rows[:, starts[position] : starts[position + 1]]
            cache.store(str(entries[position]), meta, {"values": part})
        bad |= {start + at: why for at, why in found.items()}
    return start, rows, bad


def _compute_rows(
    items: Sequence[Item],
    names: Sequence[str],
    extractor: Extractor,
    missing: Sequence[int],
    rows: NDArray[np.float32],
) -> dict[int, str]:
    """Compute the features at some positions into the rows; say what is unusable."""
    bad: dict[int, str] = {}
    with threadpool_limits(1):
        for at, item in enumerate(items):
            try:
                extraction = extractor.begin(item, rows[at], names[at])
                for position in missing:
                    extraction.compute(position)
            except BadItem as error:
                bad[at] = str(error)
    return bad
