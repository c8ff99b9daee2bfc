"""Values and times of every feature of ICSP's scenes, recorded once and kept.

What is replayed later is what one thread really took: CPU seconds of every step and
feature of every image, in a shuffled order, once. Times of the processor and not of the
wall, so that what else runs on the machine is not in them; what the features themselves
do to each other's caches is.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.measure import Timings, quiet, shuffled
from polydom.features.extract import Extractor
from polydom.features.items import Item, image_item
from polydom.features.loading import load_features
from polydom.indexer.building.cache import Cache

from .scenes import SCALES, manifest, rescale

FEATURES = (
    "thumbnail",
    "intensity_histogram",
    "moments",
    "projections",
    "edge_density",
    "hog",
    "dct",
    "local_binary_patterns",
    "cooccurrence",
    "spectrum",
    "gabor",
    "lines",
    "self_similarity",
)
CHUNK_IMAGES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """N images; m features of `width` columns in all, which need s steps."""

    extractor: Extractor  # Extractor of the features, with the steps that they need
    values: NDArray[np.float32]  # Values of each image, shape (N, width)
    sizes: NDArray[np.float64]  # Pixels of each image, shape (N,)
    codes: NDArray[np.int64]  # Scene of each image as a number, shape (N,)
    # (N,) int64: Number of the image that was rescaled: never to be split
    images: NDArray[np.int64]
    # (N, m) float64: CPU seconds of each feature without its steps
    feature_s: NDArray[np.float64]
    step_s: NDArray[np.float64]  # CPU seconds of each step, shape (N, s)


def record(cache: Cache, rounds: int = 1) -> Recording:
    """Recall what is recorded, and record the rest.

    Parameters
    ----------
    rounds
        At how many of the four sizes each image is wanted; with 1, each is taken at one
        of them in turn.
    """
    names = sorted({label for _, label, _ in manifest()})
    extractor = make_extractor()
    parts = []
    for around in range(rounds):
        for start, chunk in chunks():
            name = f"recording/{around}/{start}"
            stored = cache.load(name)
            if stored is None:
                arrays = record_chunk(extractor, around, start, chunk)
                cache.store(name, {}, arrays)
                stored = {}, arrays
            codes = np.array([names.index(label) for _, label in chunk])
            parts.append({**stored[1], "codes": codes})
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Recording(extractor, **joined)


def chunks() -> Iterator[tuple[int, list[tuple[Path, str]]]]:
    """Cut the list of images into parts: the first one's number, paths and labels."""
    images = ((path, label) for path, label, _ in manifest())
    start = 0
    while chunk := list(islice(images, CHUNK_IMAGES)):
        yield start, chunk
        start += len(chunk)


def make_extractor() -> Extractor:
    """The features, with the widths that the first image shows."""
    path, _, _ = next(manifest())
    return Extractor.probe(load_features(FEATURES), image_item(path.read_bytes()))


def record_chunk(
    extractor: Extractor, around: int, start: int, chunk: list[tuple[Path, str]]
) -> dict[str, NDArray[np.generic]]:
    """Time and keep everything of some images at one size each."""
    count = len(chunk)
    items = [
        image_item(rescale(path, SCALES[(start + at + around) % len(SCALES)]))
        for at, (path, _) in enumerate(chunk)
    ]
    timings = Timings(
        np.array([item.size for item in items], float),
        np.zeros((count, len(extractor.features))),
        np.zeros((count, len(extractor.steps))),
        np.arange(count),
        np.zeros(len(extractor.features) + len(extractor.steps)),
    )
    values = np.empty((count, extractor.width), np.float32)
    random = np.random.default_rng([around, start])
    with quiet():
        for item in items[:2]:
            extractor.extract(item)
        for at, item in enumerate(items):
            order, row = shuffled(extractor, random), values[at]
            time_item(extractor, item, order, timings, at, row)
    return {
        "values": values,
        "sizes": timings.sizes,
        "images": np.arange(start, start + count),
        "feature_s": timings.feature_s,
        "step_s": timings.step_s,
    }


def time_item(
    extractor: Extractor,
    item: Item,
    order: list[int],
    timings: Timings,
    at: int,
    row: NDArray[np.float32],
) -> None:
    """Time the nodes of one item in an order, once each; its values go into `row`."""
    extraction = extractor.begin(item, row)
    steps = len(extractor.steps)
    for node in order:
        if node < steps:
            timings.step_s[at, node] = timed(extraction.compute_step, node)
        else:
            timings.feature_s[at, node - steps] = timed(
                extraction.compute, node - steps
            )


def timed(call: Callable[[int], None], node: int) -> float:
    """CPU seconds of one call."""
    start = time.thread_time()
    call(node)
    return time.thread_time() - start
