"""ICSP's scenes as they were recorded: a workload, and seconds to replay plans against.

Half of the images fit the models and the cost curves, a quarter chooses sets, and the
last quarter is used for nothing but the report.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray
from PIL import Image

from polydom.features.costs.curve import CostCurve, CostTable
from polydom.features.costs.machine import Measured
from polydom.features.costs.stopwatch import Load
from polydom.features.extract import Extractor
from polydom.features.items import image_item
from polydom.features.loading import load_features
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.costs.cost_curves import Curve, Curves

from ..data.bundled import load_digit_rows
from ..data.recording import Recording, record, record_chunk
from .scene_sets import SceneSets, Split, split_images, train_all

QUANTILE = 0.99
MEASURED = 400  # images that cost curves are fitted to
QUICK_FEATURES = ("thumbnail", "moments", "edge_density", "projections")
QUICK_IMAGES, QUICK_CLASSES, QUICK_PIXELS = 96, 3, 48

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedScenes:
    """Recorded seconds, and what a build would know beforehand."""

    recording: Recording
    split: Split
    sets: SceneSets
    # `feature_s` and `step_s`: (N, ...) float64: The recording's, times noise.
    feature_s: Floats
    step_s: Floats
    # `costs` and `typical_costs`: fitted to the 0.99 quantile, and to the median.
    costs: CostTable
    typical_costs: CostTable
    typical: Floats  # The typical costs as an index stores them

    @property
    def features(self) -> int:
        """How many there are."""
        return len(self.recording.extractor.features)

    @property
    def between(self) -> tuple[float, float]:
        """The least and the most pixels of an image."""
        return float(self.recording.sizes.min()), float(self.recording.sizes.max())

    @property
    def middle(self) -> float:
        """The size to optimise for where only one can be."""
        return float(np.median(self.recording.sizes[self.split.fit]))

    @property
    def sizes(self) -> Floats:
        """Sizes of the items of the report."""
        return self.recording.sizes[self.split.report]

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether each set's model is right on each item of the report."""
        found: NDArray[np.bool_] = (
            self.sets.decisions == self.recording.codes[self.split.report]
        )
        return found

    def accuracy(self, mask: int) -> float:
        """What the rows for choosing say of a set."""
        return float(self.sets.accuracies[mask])

    def curves(self, masks: NDArray[np.uint64]) -> Floats:
        """Cost polynomials of sets."""
        return self.costs.of_many(masks)

    def cost(self, mask: int) -> float:
        """Seconds of a set at the middle size, by its cost curve."""
        return float(polyval(self.middle, self.costs.of(mask)))


class Run:
    """One item under a budget: features are computed, and recorded seconds pass."""

    def __init__(self, scenes: RecordedScenes, item: int, budget_s: float) -> None:
        self.row = int(scenes.split.report[item])
        self.scenes, self.left, self.done = scenes, budget_s, 0
        self.steps: set[int] = set()

    def compute(self, feature: int) -> bool:
        """Compute a feature; False where time runs out meanwhile."""
        scenes = self.scenes
        fresh = set(scenes.recording.extractor.needs[feature]) - self.steps
        self.left -= float(scenes.feature_s[self.row, feature])
        self.left -= float(scenes.step_s[self.row, sorted(fresh)].sum())
        if self.left < 0:
            return False
        self.steps |= fresh
        self.done |= 1 << feature
        return True


def load(cache: Path, rounds: int, noises: list[float]) -> list[RecordedScenes]:
    """Record all images and train all sets, or recall both; once for each noise."""
    kept = Cache(cache)
    return _replayed(record(kept, rounds), kept, noises)


def load_digits(noises: list[float]) -> list[RecordedScenes]:
    """Record a few of scikit-learn's digits in the place of scenes."""
    with tempfile.TemporaryDirectory() as folder:
        return _replayed(_record_digits(Path(folder)), Cache(Path(folder)), noises)


def _record_digits(folder: Path) -> Recording:
    rows, codes = load_digit_rows()
    some = np.flatnonzero(codes < QUICK_CLASSES)[:QUICK_IMAGES]
    chunk = []
    for row in some:
        path = folder / f"{row}.png"
        grey = Image.fromarray((rows[row] * (255 / 16)).reshape(8, 8).astype(np.uint8))
        grey.resize((QUICK_PIXELS, QUICK_PIXELS)).save(path)
        chunk.append((path, ""))
    first = image_item(chunk[0][0].read_bytes())
    extractor = Extractor.probe(load_features(QUICK_FEATURES), first)
    arrays: dict[str, Any] = {**record_chunk(extractor, 0, 0, chunk)}
    return Recording(extractor, codes=codes[some], **arrays)


def _replayed(
    recording: Recording, cache: Cache, noises: list[float]
) -> list[RecordedScenes]:
    split = split_images(recording)
    sets = train_all(recording, split, cache)
    return [_disturbed(recording, split, sets, noise) for noise in noises]


def _disturbed(
    recording: Recording, split: Split, sets: SceneSets, noise: float
) -> RecordedScenes:
    """Multiply the recorded seconds with log-normal noise, and fit cost curves."""
    random = np.random.default_rng(0)

    def disturbed(seconds: Floats) -> Floats:
        return seconds * np.exp(noise * random.standard_normal(seconds.shape))

    feature_s, step_s = disturbed(recording.feature_s), disturbed(recording.step_s)
    count = min(MEASURED, len(split.fit))
    rows = random.choice(split.fit, count, replace=False)

    def fit(seconds: Floats, quantile: float) -> list[Curve]:
        sizes = recording.sizes[rows]
        return [
            Curve("", CostCurve.fit(sizes, s, quantile=quantile), sizes, s, quantile)
            for s in seconds[rows].T
        ]

    def table(quantile: float) -> tuple[CostTable, list[Curve]]:
        features, steps = fit(feature_s, quantile), fit(step_s, quantile)
        conditions = Measured(Load(0.0, None, 1), ())
        measured = Curves(features, steps, CostCurve([0.0]), conditions)
        return measured.weighed(recording.extractor, {"s": 1.0}), measured.all

    costs, curves = table(QUANTILE)
    typical = np.array([curve.typical for curve in curves])
    return RecordedScenes(
        *(recording, split, sets, feature_s, step_s),
        *(costs, table(0.5)[0], typical),
    )
