"""A small index of records, whose plans cost microseconds, so that none has to wait.

Its features are two groups of columns: `person` (age, height) and `work` (job, of which
the strings clerk, nurse and pilot are known). The rows, all on the skyline:

    0  nothing         accuracy 0.5    (20 us)
    1  person                   0.7    (30 us)
    2  person, work             0.9    (40 us)
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.items import Value, record_item
from polydom.features.tables.column_features import columns
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import (
    StoredColumns,
    StoredFeature,
    load_extractor,
)
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Prior

GROUPS: dict[str, dict[str, Any]] = {
    "person": {"columns": ["age", "height"], "vocabularies": {}},
    "work": {"columns": ["job"], "vocabularies": {"job": ["clerk", "nurse", "pilot"]}},
}
PEOPLE: tuple[dict[str, Value], ...] = (
    {"age": 31, "height": 1.7, "job": "nurse"},
    {"age": 52.5, "height": 1.8, "job": "pilot"},
    {"age": 19, "height": 1.6, "job": "clerk"},
    {"age": 44, "height": 1.9, "job": "pilot"},
)
FLIES = (0, 1, 0, 1)
MASKS = (0b00, 0b01, 0b11)
ACCURACIES = (0.5, 0.7, 0.9)


@functools.cache
def make_index() -> Index:
    """Make the index above."""
    stored = tuple(
        StoredFeature(
            name,
            len(group["columns"]),
            fingerprint(columns(name, **group)),
            False,
            StoredColumns(**group),
        )
        for name, group in GROUPS.items()
    )
    extractor = load_extractor(stored)
    rows = np.array([extractor.extract(record_item(person)) for person in PEOPLE])
    models: list[Any] = [Prior.fit(np.array(FLIES))]
    for mask in MASKS[1:]:
        own = extractor.columns_of(mask)
        fitted = make_pipeline(SimpleImputer(), LogisticRegression())
        fitted.fit(rows[:, own].astype(float), FLIES)
        models.append(compile_model(fitted, own))
    costs = CostTable(
        feature_coefficients=np.full((2, 1), 1e-5),
        step_coefficients=np.empty((0, 1)),
        needs=[(), ()],
        overhead=np.array([1e-5]),
    )
    package = Package(
        kind="record",
        labels=("stays", "flies"),
        features=stored,
        costs=costs,
        masks=np.array(MASKS, np.uint64),
        orders=((), (0,), (0, 1)),
        fallbacks=((0,), (0, 1), (0, 1, 2)),
        models=tuple(models),
        model_s=np.full(3, 1e-5),
        overhead_s=1e-5,
        meta={"unit": "s", "samples": list(PEOPLE)},
    )
    curves = costs.of_many(package.masks) + 1e-5
    return Index.from_candidates(curves, ACCURACIES, (1, 1), package)


def save_better(path: Path) -> Path:
    """Write the index above with another accuracy of its best row."""
    index = make_index()
    best = [*ACCURACIES[:-1], 0.95]
    costs = index.coefficients
    Index.from_candidates(costs, best, index.sizes, index.package).save(path)
    return path


def save_index(folder: Path) -> Path:
    """Write the index above into a folder; its path."""
    path = folder / "people.pdx"
    make_index().save(path)
    return path
