"""Feature values of all items, computed in parallel and kept between runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from joblib import delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from polydom.features.errors import BadItem, BadProject
from polydom.features.extract import Extractor
from polydom.features.items import Item

from ..progress import Progress
from .cache import Cache, digest
from .cache_keys import feature_keys
from .choose_features import ProjectFeatures
from .dataset import Dataset
from .parallel import in_processes

CHUNK_ITEMS = 64
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
    data, keys = dataset.digest, feature_keys(features.stored)
    names = [f"values/{digest(key, data)}" for key in keys]
    count = len(dataset.items)
    starts = range(0, count, CHUNK_ITEMS)
    values = np.empty((count, features.starts[-1]), np.float32)
    bad: dict[int, str] = {}
    tasks = (
        delayed(_compute_chunk)(
            dataset.items[start : start + CHUNK_ITEMS],
            dataset.names[start : start + CHUNK_ITEMS],
            start,
            features,
            cache,
            [f"{name}/{start}" for name in names],
        )
        for start in starts
    )
    done = 0
    with progress.stage(STAGE, count) as on_progress:
        for start, chunk, found in in_processes(
            tasks, workers, stage=STAGE, ordered=False
        ):
            values[start : start + len(chunk)] = chunk
            bad |= found
            done += len(chunk)
            on_progress(done)
    if bad and on_bad_item == "stop":
        first = min(bad)
        raise BadProject(f"{dataset.names[first]}: {bad[first]}")
    if len(bad) == count:
        raise BadProject(f"all {count} items are unusable; the first: {bad[0]}")
    kept = np.array([i not in bad for i in range(count)])
    return FeatureTable(dataset.without(bad), features, values[kept])


def _compute_chunk(
    items: Sequence[Item],
    names: Sequence[str],
    start: int,
    features: ProjectFeatures,
    cache: Cache,
    entries: Sequence[str],
) -> Chunk:
    """Values of some items, from the cache as far as it has them, feature by feature.

    `entries` has each feature's name in the cache. An item counts as unusable when any
    feature finds it so.
    """
    starts = features.starts
    rows = np.zeros((len(items), starts[-1]), np.float32)
    bad: dict[int, str] = {}
    missing: list[int] = []
    for position, entry in enumerate(entries):
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
            cache.store(entries[position], meta, {"values": part})
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
