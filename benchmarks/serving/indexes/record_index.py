"""An index of records that takes microseconds: 14 numbers, 500 trees, no waiting."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.tables.column_features import columns
from polydom.indexer import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.models import compile
from polydom.models.scoring.prior import Prior

COLUMNS = tuple(f"column_{k}" for k in range(14))
LABELS = ("no", "yes")
TREES, DEPTH, RATE = 500, 5, 0.05
BOOSTER, INDEX, ROWS = "model.txt", "records.pdx", "rows.json"
COLUMNS_S, MODEL_S, OVERHEAD_S = 3e-6, 5e-6, 2e-5


def draw(count: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw rows (count, 14) of two decimals, and labels that depend on some columns."""
    numbers = np.random.default_rng(seed)
    X = numbers.normal(scale=10, size=(count, len(COLUMNS))).round(2)
    margin = X[:, 0] + 5 * np.sin(X[:, 1] / 4) + X[:, 2] * X[:, 3] / 20
    y = margin + numbers.normal(scale=5, size=count) > 0
    return X.astype(np.float32), y.astype(np.int64)


def train(X: NDArray[np.float32], y: NDArray[np.int64], trees: int) -> Any:
    """Train LightGBM on one thread."""
    import lightgbm

    options: dict[str, Any] = {"objective": "binary", "num_leaves": 2**DEPTH}
    options |= {"max_depth": DEPTH, "learning_rate": RATE}
    options |= {"num_threads": 1, "verbose": -1}
    return lightgbm.train(options, lightgbm.Dataset(X, y), trees)


def write(folder: Path, asked: int = 1_000, quick: bool = False) -> list[float]:
    """Write index, booster and rows to ask for; the booster's share of class 1 in each.

    The index has two candidates, the prior and all columns with 500 trees, both far
    cheaper than any budget.
    """
    X, y = draw(500 if quick else 20_000, 0)
    booster = train(X, y, 10 if quick else TREES)
    booster.save_model(folder / BOOSTER)
    rows = draw(asked, 1)[0].round(2).tolist()
    (folder / ROWS).write_text(json.dumps(rows))
    feature = columns("row", COLUMNS)
    costs = CostTable(
        feature_coefficients=np.array([[COLUMNS_S]]),
        step_coefficients=np.empty((0, 1)),
        needs=[()],
        overhead=np.array([OVERHEAD_S]),
    )
    arguments = StoredColumns(list(COLUMNS), {})
    package = Package(
        kind="record",
        labels=LABELS,
        features=(StoredFeature("row", 14, fingerprint(feature), False, arguments),),
        costs=costs,
        masks=np.array([0, 1], np.uint64),
        orders=((), (0,)),
        fallbacks=((0,), (0, 1)),
        models=(
            Prior.fit(y),
            compile(folder / BOOSTER).classifier,
        ),
        model_s=np.full(2, MODEL_S),
        overhead_s=OVERHEAD_S,
        meta={"unit": "s", "samples": [record(row) for row in X[:8].tolist()]},
    )
    coefficients = costs.of_many(package.masks) + MODEL_S
    index = Index.from_candidates(coefficients, [0.6, 0.9], (1, 1), package)
    index.save(folder / INDEX)
    return [float(share) for share in booster.predict(np.array(rows), num_threads=1)]


def record(row: list[float]) -> dict[str, float]:
    """Name a row's numbers."""
    return dict(zip(COLUMNS, row, strict=True))
