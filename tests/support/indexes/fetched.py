"""A small index of records, of which two fetches bring columns by `customer_id`.

Requests bring `age` and `height` (feature `person`). The fetch `employer` brings `job`
(feature `work`), the fetch `orders` brings `n_orders` and `mean_amount` (feature
`history`). There is a row for each set of features, by ascending mask:

    0  nothing                   accuracy 0.5    (20 us)
    1  person                             0.6    (30 us)
    2  work                               0.65   (30 us)
    3  person, work                       0.75   (40 us)
    4  history                            0.7    (30 us)
    5  person, history                    0.8    (40 us)
    6  work, history                      0.85   (40 us)
    7  person, work, history              0.9    (50 us)
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.items import Value, record_item
from polydom.features.tables.column_features import columns
from polydom.indexer.index.fetches.stored_fetches import StoredFetch
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import (
    StoredColumns,
    StoredFeature,
    load_extractor,
)
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Prior

EMPLOYER, ORDERS = 0b01, 0b10  # the fetches, as outcomes
FETCHES = (
    StoredFetch("employer", ["customer_id"], ["job"]),
    StoredFetch("orders", ["customer_id"], ["n_orders", "mean_amount"], {"usd": 0.002}),
)
GROUPS: dict[str, dict[str, Any]] = {
    "person": {"columns": ["age", "height"], "vocabularies": {}},
    "work": {"columns": ["job"], "vocabularies": {"job": ["clerk", "nurse", "pilot"]}},
    "history": {"columns": ["n_orders", "mean_amount"], "vocabularies": {}},
}
NAMES = ("age", "height", "job", "n_orders", "mean_amount")
ROWS: tuple[tuple[Value, ...], ...] = (
    (31, 1.7, "nurse", 3, 20.0),
    (52.5, 1.8, "pilot", 9, 75.5),
    (19, 1.6, "clerk", 0, 0.0),
    (44, 1.9, "pilot", 12, 31.0),
)
PEOPLE = tuple(dict(zip(NAMES, row, strict=True)) for row in ROWS)
FLIES = (0, 1, 0, 1)
ACCURACIES = (0.5, 0.6, 0.65, 0.75, 0.7, 0.8, 0.85, 0.9)


def draw_arrivals(count: int = 200) -> NDArray[np.float64]:
    """Draw arrival times (count, 2) in seconds; every 50th of `orders` never comes."""
    rng = np.random.default_rng(0)
    draws = rng.lognormal([np.log(1e-3), np.log(12e-3)], [0.9, 0.85], (count, 2))
    draws[::50, 1] = np.inf
    return draws


@functools.cache
def make_index() -> Index:
    """Make the index above, with 200 draws of `draw_arrivals`."""
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
    masks = range(1 << len(GROUPS))
    for mask in masks[1:]:
        own = extractor.columns_of(mask)
        fitted = make_pipeline(SimpleImputer(), LogisticRegression())
        fitted.fit(rows[:, own].astype(float), FLIES)
        models.append(compile_model(fitted, own))
    orders = tuple(tuple(k for k in range(3) if mask >> k & 1) for mask in masks)
    costs = CostTable(
        feature_coefficients=np.full((3, 1), 1e-5),
        step_coefficients=np.empty((0, 1)),
        needs=[(), (), ()],
        overhead=np.array([1e-5]),
    )
    package = Package(
        kind="record",
        labels=("stays", "flies"),
        features=stored,
        costs=costs,
        masks=np.array(masks, np.uint64),
        orders=orders,
        fallbacks=tuple(
            tuple(sum(1 << f for f in order[:k]) for k in range(len(order) + 1))
            for order in orders
        ),
        models=tuple(models),
        model_s=np.full(len(masks), 1e-5),
        overhead_s=1e-5,
        meta={"unit": "s", "samples": list(PEOPLE)},
        fetches=FETCHES,
        arrivals=draw_arrivals(),
    )
    curves = costs.of_many(package.masks) + 1e-5
    return Index.from_candidates(curves, ACCURACIES, (1, 1), package)


def save_index(folder: Path) -> Path:
    """Write the index above into a folder; its path."""
    path = folder / "fetched.pdx"
    make_index().save(path)
    return path
