"""The small text index of `served`, ordered by something else than accuracy.

Costs and feature sets are those of `served`. One answers with numbers, whose labels are
`LABELS`; by row, all on the skyline (a text of 100 characters costs what is in
brackets):

    0  nothing               R2 0.0    (0.2)   the mean, 6
    1  length                   0.5    (1.2)
    2  length, marks            0.7    (5.2)
    3  length, marks, words     0.9    (9.2)

The other answers with classes, by balanced accuracy.
"""

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression

from polydom.features.items import text_item
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Mean
from tests.support.indexes import served

LABELS = (3.0, 1.0, 2.0, 12.0, 7.0, 11.0)
QUALITIES = (0.0, 0.5, 0.7, 0.9)
INTERVALS = ((-5.0, 6.0), (-4.0, 4.0), (-2.0, 3.0), (-0.5, 1.0))
COVERAGE = 0.9
BALANCED = (0.5, 0.6, 0.75, 0.8)  # the accuracies are those of `served`


@functools.cache
def make_index(unit: str = "s", scale: float = 1.0) -> Index:
    """Make the index of numbers, with its costs in this unit and times `scale`."""
    index = served.make_index(unit, scale)
    package = package_of(index)
    package = replace(
        package,
        labels=(),
        models=_fit_models(package),
        measure="r2",
        intervals=np.array(INTERVALS),
        meta=package.meta | {"coverage": COVERAGE},
    )
    return Index.from_candidates(index.coefficients, QUALITIES, index.sizes, package)


def _fit_models(package: Package) -> tuple[Model, ...]:
    extractor = package.extractor([served.FEATURES_FILE])
    rows = np.array([extractor.extract(text_item(text)) for text in served.TEXTS])
    models: list[Model] = [Mean.fit(LABELS)]
    for mask in served.MASKS[1:]:
        own = extractor.columns_of(mask)
        fitted = LinearRegression().fit(rows[:, own].astype(float), LABELS)
        models.append(compile_model(fitted, own))
    return tuple(models)


def make_balanced_index() -> Index:
    """Make the index of classes that is ordered by balanced accuracy."""
    index = served.make_index()
    package = replace(
        package_of(index),
        measure="balanced_accuracy",
        accuracies=np.array(served.ACCURACIES),
    )
    return Index.from_candidates(index.coefficients, BALANCED, index.sizes, package)


def package_of(index: Index) -> Package:
    """Return its package, which must be there."""
    assert index.package is not None
    return index.package


def save_index(folder: Path, unit: str = "s") -> Path:
    """Write the index of numbers into a folder; its path."""
    path = folder / "numbers.pdx"
    make_index(unit).save(path)
    return path
