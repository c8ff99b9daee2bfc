"""Vectors that a project's fetches bring for its texts or images, such as embeddings.

A build asks for the vector of every item once. What came is kept in the cache at once,
since a call may cost money; an interrupted build asks only for the rest.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject, FetchFailed
from polydom.features.fetches.fetch import Fetch
from polydom.features.fetches.vector_calls import VectorCalls

from ...progress import Progress, skip
from ..cache import Array, Cache, digest
from .dataset import Dataset
from .stored_items import StoredItems, digest_of

log = logging.getLogger("polydom")

STAGE = "fetching vectors"
KEEP = 1024  # vectors that are asked for before they are written to the cache

Vectors = NDArray[np.float32]


def with_vectors(
    dataset: Dataset,
    fetches: Sequence[tuple[Fetch, str]],
    cache: Cache,
    progress: Progress,
) -> Dataset:
    """Return a data set whose items have the vectors that fetches bring for them.

    `fetches` are pairs of a fetch and a hash of the file that defines it. An item for
    which a fetch fails, or has nothing, gets no vector of it. Raises BadProject if a
    fetch brings nothing at all.
    """
    if not fetches or not dataset.items:
        return dataset
    found = {
        fetch.name: _vectors_of(dataset, fetch, made_by, cache, progress)
        for fetch, made_by in fetches
    }
    if isinstance(dataset.items, StoredItems):
        stored = dataset.items.with_vectors(found).shared(cache)
        return replace(dataset, items=stored, names=stored.names)
    own = [
        {name: vectors[k] for name, vectors in found.items() if _came(vectors[k])}
        for k in range(len(dataset.items))
    ]
    given = zip(dataset.items, own, strict=True)
    brought = [msgspec.structs.replace(one, brought=came) for one, came in given]
    return replace(dataset, items=tuple(brought))


def _came(vector: Vectors) -> bool:
    """Return True if a vector came: NaN stands for one that did not."""
    return not np.isnan(vector[0])


def _vectors_of(
    dataset: Dataset, fetch: Fetch, made_by: str, cache: Cache, progress: Progress
) -> Vectors:
    """Return vectors (N, width) of N items; NaN where a vector did not come."""
    digests = _digests(dataset)
    group = f"vectors/{digest(fetch.name, fetch.kind, fetch.width, made_by)}"
    known = _known(cache, group, fetch.width)
    missing = [k for k, own in enumerate(digests) if own not in known]
    # equal items are asked for once
    asked = [*{digests[k]: k for k in missing}.values()]

    def payload(place: int) -> Any:
        return dataset.items[place].payload

    if not asked:
        skip(progress, STAGE)
        return np.stack([known[own] for own in digests])
    before = len(digests) - len(asked)
    with progress.stage(STAGE, len(digests)) as on_progress:
        on_progress(before)
        calls = VectorCalls(fetch, payload, lambda count: on_progress(before + count))
        for start in range(0, len(asked), KEEP):
            places = asked[start : start + KEEP]
            try:
                calls.run(places)
            finally:  # also after an interruption
                came = [k for k in places if k in calls.found]
                _keep(cache, group, {digests[k]: calls.found[k] for k in came})
            if calls.failures and not calls.found and not known:
                raise BadProject(
                    f"[fetches.{fetch.name}] brought nothing for the first "
                    f"{len(places)} items: {calls.failures[0]}"
                )
    known |= {digests[k]: vector for k, vector in calls.found.items()}
    vectors = np.full((len(digests), fetch.width), np.nan, np.float32)
    for k, own_digest in enumerate(digests):
        if own_digest in known:
            vectors[k] = known[own_digest]
    _say_lacking(dataset, fetch, vectors, calls.failures)
    return vectors


def _say_lacking(
    dataset: Dataset, fetch: Fetch, vectors: Vectors, failures: Sequence[FetchFailed]
) -> None:
    lacking = np.flatnonzero(np.isnan(vectors[:, 0])).tolist()
    if len(lacking) == len(vectors):
        raise BadProject(f"[fetches.{fetch.name}] found nothing for any item")
    if lacking:
        why = f": {failures[0]}" if failures else ""
        log.warning(
            "fetch %r brought nothing for %s of %s items, such as %s, which are left "
            "out%s",
            fetch.name,
            f"{len(lacking):,}",
            f"{len(vectors):,}",
            dataset.names[lacking[0]],
            why,
        )


def _digests(dataset: Dataset) -> list[bytes]:
    if isinstance(dataset.items, StoredItems):
        return [one.tobytes() for one in dataset.items.digests]
    return [digest_of(item.payload) for item in dataset.items]


def _known(cache: Cache, group: str, width: int) -> dict[bytes, Vectors]:
    """Return the vectors in the cache by the digests of their items."""
    known: dict[bytes, Vectors] = {}
    for name in cache.names(group):
        known |= cache.recall(name, partial(_read, width)) or {}
    return known


def _read(
    width: int, meta: dict[str, Any], arrays: Mapping[str, Array]
) -> dict[bytes, Vectors]:
    digests, vectors = arrays["digests"], arrays["vectors"]
    if vectors.shape != (len(digests), width):
        raise BadProject(f"vectors of shape {vectors.shape}")
    keys = (one.tobytes() for one in digests)
    return dict(zip(keys, vectors, strict=True))


def _keep(cache: Cache, group: str, own: Mapping[bytes, Vectors]) -> None:
    if not own:
        return
    digests = np.frombuffer(b"".join(own), np.uint8).reshape(len(own), -1)
    arrays: dict[str, Array] = {
        "digests": digests,
        "vectors": np.stack([*own.values()]),
    }
    cache.store(f"{group}/{digest(digests.tobytes())}", {}, arrays)
