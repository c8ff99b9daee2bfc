"""A small text index whose every cost and accuracy is a round number.

Its features are those of tiny_features.py: length (1 column), marks (2) and words (1),
of which the last two share a step. Costs in milliseconds for a text of n characters:

    overhead 0.1, length 1, marks 2 + 0.01 n, words 4, the shared step 1, any model 0.1

The rows, all on the skyline (a text of 100 characters costs what is in brackets):

    0  nothing               accuracy 0.5    (0.2)
    1  length                         0.7    (1.2)
    2  length, marks                  0.8    (5.2)
    3  length, marks, words           0.95   (9.2)
"""

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from polydom.features.costs.curve import CostTable
from polydom.features.extract import Extractor
from polydom.features.fingerprint import fingerprint
from polydom.features.items import text_item
from polydom.features.loading import load_features
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Prior

FEATURES_FILE = Path(__file__).with_name("tiny_features.py")
SLOW_FILE = Path(__file__).with_name("slow_features.py")
WIDTHS = (1, 2, 1)
ORDERS: tuple[tuple[int, ...], ...] = ((), (0,), (0, 1), (0, 1, 2))
MASKS = (0b000, 0b001, 0b011, 0b111)
ACCURACIES = (0.5, 0.7, 0.8, 0.95)
LABELS = ("ham", "spam")
HAM, SPAM = "see you at seven", "WIN a FREE phone now!!! $$$"
MODEL_S = 1e-4

TEXTS = (HAM, "call me", "lunch?", SPAM, "free money!", "win $$ win $$ today!")
LABEL_OF_TEXT = (0, 0, 0, 1, 1, 1)


@functools.cache
def make_index(unit: str = "s", scale: float = 1.0) -> Index:
    """Make the index above, with its costs in this unit and times `scale`."""
    features = load_features([], [FEATURES_FILE])
    extractor = Extractor(features, WIDTHS)
    costs = CostTable(
        feature_coefficients=scale * np.array([[1e-3, 0.0], [2e-3, 1e-5], [4e-3, 0.0]]),
        step_coefficients=scale * np.array([[1e-3, 0.0]]),
        needs=[(), (0,), (0,)],
        overhead=scale * np.array([1e-4, 0.0]),
    )
    package = Package(
        kind="text",
        labels=LABELS,
        features=tuple(
            StoredFeature(f.name, width, fingerprint(f), False)
            for f, width in zip(features, WIDTHS, strict=True)
        ),
        costs=costs,
        masks=np.array(MASKS, np.uint64),
        orders=ORDERS,
        fallbacks=((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)),
        models=fit_models(extractor),
        model_s=np.full(len(MASKS), scale * MODEL_S),
        overhead_s=scale * 1e-4,
        meta={"unit": unit, "samples": [HAM, SPAM]},
    )
    model = np.array([scale * MODEL_S, 0.0])
    coefficients = costs.of_many(package.masks) + model
    return Index.from_candidates(coefficients, ACCURACIES, (1, 10_000), package)


@functools.cache
def make_pair_index() -> Index:
    """Make the index with sizes of words and sentences.

    Marks take 2 + 0.01 ms per word, words 4 + 0.5 ms per sentence; the rest is as
    above.
    """
    index = make_index()
    package = index.package
    assert package is not None
    costs = CostTable(
        [[1e-3, 0, 0], [2e-3, 1e-5, 0], [4e-3, 0, 5e-4]],
        [[1e-3, 0, 0]],
        package.costs.needs,
        [1e-4, 0, 0],
    )
    return Index.from_candidates(
        costs.of_many(package.masks) + np.array([MODEL_S, 0, 0]),
        ACCURACIES,
        ((1, 1), (2_000, 100)),
        replace(package, costs=costs),
    )


def fit_models(extractor: Extractor) -> tuple[Any, ...]:
    """Fit the prior, and a logistic regression on each of the other sets."""
    rows = np.zeros((len(TEXTS), extractor.width), np.float32)
    for row, text in zip(rows, TEXTS, strict=True):
        row[:] = extractor.extract(text_item(text))
    labels = np.array(LABEL_OF_TEXT)
    models: list[Any] = [Prior.fit(np.array([0, 0, 1]))]
    for mask in MASKS[1:]:
        columns = extractor.columns_of(mask)
        estimator = LogisticRegression().fit(rows[:, columns].astype(float), labels)
        models.append(compile_model(estimator, columns))
    return tuple(models)


def save_index(folder: Path, unit: str = "s") -> Path:
    """Write the index above into a folder; its path."""
    path = folder / "tiny.pdx"
    make_index(unit).save(path)
    return path


def save(path: Path, best: float = 0.95) -> Path:
    """Write the tiny index with another accuracy of its best row."""
    index = make_index()
    accuracies = np.array([*ACCURACIES[:-1], best])
    costs = index.coefficients
    Index.from_candidates(costs, accuracies, index.sizes, index.package).save(path)
    return path


def save_slow_index(folder: Path, scale: float = 1.0) -> Path:
    """The usual index, whose first feature takes 12 ms where it says 1."""
    return save_with(SLOW_FILE, folder / "slow.pdx", scale)


def save_with(features: Path, path: Path, scale: float = 1.0) -> Path:
    """The usual index with features of another file, of the same names; its path."""
    index = make_index(scale=scale)
    assert index.package is not None
    stored = tuple(
        StoredFeature(f.name, width, fingerprint(f), False)
        for f, width in zip(load_features([], [features]), WIDTHS, strict=True)
    )
    replace(index, package=replace(index.package, features=stored)).save(path)
    return path
