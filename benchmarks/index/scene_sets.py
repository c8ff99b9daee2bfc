"""A linear discriminant on every set of the recorded scenes' features, in minutes.

One scatter matrix of all columns holds those of every set as blocks, so a set takes a
Cholesky factor of its block: milliseconds where scikit-learn's LDA takes a second. The
covariance has a small ridge; decisions differ from scikit-learn's by that alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from polydom.features.threads import one_thread
from polydom.indexer.building.cache import Cache, digest

from ..data.recording import Recording

RIDGE = 1e-4  # of columns scaled to a spread of 1
KEPT_AT_ONCE = 512
SHARES = (0.5, 0.75)  # fit on the images before the first, choose sets until the second

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Rows for fitting, for choosing sets, and for the report alone; by image."""

    fit: NDArray[np.int64]
    choose: NDArray[np.int64]
    report: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SceneSets:
    """What every one of the 2^m sets' models gives."""

    accuracies: Floats  # (2^m,) float64: On the rows for choosing
    decisions: NDArray[np.uint8]  # (2^m, R) uint8: Classes on the rows for the report


@dataclass(frozen=True, slots=True, eq=False)
class Discriminant:
    """What training on any set needs: class means and the common covariance."""

    means: Floats
    covariance: Floats
    prior: Floats

    @classmethod
    def fit(cls, values: Floats, codes: NDArray[np.int64]) -> "Discriminant":
        """Sum up rows (N, width) whose columns have about the same spread."""
        counts = np.bincount(codes).astype(float)
        means = np.array(
            [values[codes == code].mean(axis=0) for code in np.unique(codes)]
        )
        rest = values - means[codes]
        covariance = rest.T @ rest / (len(values) - len(means))
        covariance[np.diag_indices_from(covariance)] += RIDGE
        return cls(means, covariance, np.log(counts / counts.sum()))

    def weights(self, columns: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Weights (d, classes) and intercepts of the discriminant on some columns."""
        means = self.means[:, columns]
        if not len(columns):
            return np.zeros((0, len(means))), self.prior
        factor = cho_factor(self.covariance[np.ix_(columns, columns)])
        weights = cho_solve(factor, means.T)
        return weights, self.prior - (means.T * weights).sum(axis=0) / 2


def split_images(recording: Recording, seed: int = 0) -> Split:
    """Divide the images, with all of their sizes, at random."""
    count = int(recording.images.max()) + 1
    place = np.random.default_rng(seed).permutation(count) / count
    at = place[recording.images]
    first, second = SHARES
    return Split(
        np.flatnonzero(at < first),
        np.flatnonzero((at >= first) & (at < second)),
        np.flatnonzero(at >= second),
    )


def train_all(recording: Recording, split: Split, cache: Cache) -> SceneSets:
    """Train all sets, or recall those that are done; the cache keeps parts of them."""
    values = recording.values.astype(float)
    fit = values[split.fit]
    spread = np.maximum(fit.std(axis=0), 1e-12)
    values = (values - fit.mean(axis=0)) / spread
    trained = Discriminant.fit(values[split.fit], recording.codes[split.fit])
    key = digest(len(values), RIDGE, SHARES, split.fit[:99].tolist())
    parts = []
    count = 1 << len(recording.extractor.features)
    for start in range(0, count, KEPT_AT_ONCE):
        name = f"scene-sets/{key}/{start}"
        stored = cache.load(name)
        if stored is None:
            masks = range(start, min(start + KEPT_AT_ONCE, count))
            with one_thread():
                arrays = train_part(recording, split, values, trained, masks)
            cache.store(name, {}, arrays)
            stored = {}, arrays
        parts.append(stored[1])
    return SceneSets(
        np.concatenate([part["accuracies"] for part in parts]),
        np.concatenate([part["decisions"] for part in parts]),
    )


def train_part(
    recording: Recording,
    split: Split,
    values: Floats,
    trained: Discriminant,
    masks: range,
) -> dict[str, NDArray[np.generic]]:
    """Accuracies and decisions of some sets."""
    codes = recording.codes[split.choose]
    choose, report = values[split.choose], values[split.report]
    accuracies = np.empty(len(masks))
    decisions = np.empty((len(masks), len(report)), np.uint8)
    for at, mask in enumerate(masks):
        columns = recording.extractor.columns_of(mask).astype(np.int64)
        weights, intercepts = trained.weights(columns)
        chosen = (choose[:, columns] @ weights + intercepts).argmax(axis=1)
        accuracies[at] = (chosen == codes).mean()
        scores = report[:, columns] @ weights + intercepts
        decisions[at] = scores.argmax(axis=1)
    return {"accuracies": accuracies, "decisions": decisions}
