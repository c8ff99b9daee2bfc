"""A small index of records whose models stop early.

Its features are two groups of three columns, `left` and `right`. The rows:

    0  nothing         accuracy 0.5    (20 us)
    1  left                     0.7    (130 us)
    2  left, right              0.9    (240 us)

The models of the last two are forests of 40 trees, or boosting for three classes, each
with a schedule for at most 2 % of changed answers.
"""

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.tables.column_features import columns
from polydom.indexer.building.costs.cost_curves import cost_curves
from polydom.indexer.building.exits.rungs import Rung, add_rungs
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.models import compile
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.early_exit.model_part import ModelPart
from polydom.models.scoring.prior import Prior

NAMES = ("a", "b", "c", "d", "e", "f")
GROUPS = {"left": ["a", "b", "c"], "right": ["d", "e", "f"]}
MASKS = (0b00, 0b01, 0b11)
ACCURACIES = (0.5, 0.7, 0.9)
LABELS = {2: ("no", "yes"), 3: ("low", "mid", "high")}
MODEL_S, WHOLE_S, MEAN_S = 1e-4, 1.5e-4, 5e-5
ALPHA = 0.02


def draw_rows(count: int, seed: int) -> NDArray[np.float32]:
    """Rows (count, 6) of numbers."""
    draw = np.random.default_rng(seed).normal(size=(count, len(NAMES)))
    return draw.astype(np.float32)


def label_rows(rows: NDArray[np.float32], classes: int) -> NDArray[np.int64]:
    """Classes (N,) of rows, with some noise."""
    noise = np.random.default_rng(7).normal(size=len(rows))
    total = rows @ np.array([2.0, 1, 0.5, 1, 1, 0.5]) + noise
    cuts = [0.0] if classes == 2 else [-1.5, 1.5]
    codes: NDArray[np.int64] = np.digitize(total, cuts)
    return codes


def record_of(row: NDArray[np.float32]) -> dict[str, float]:
    """A record with these numbers."""
    return dict(zip(NAMES, map(float, row), strict=True))


@functools.cache
def make_index(classes: int = 2, threshold: float | None = None) -> Index:
    """Make the index above, for two classes or three.

    With a threshold, the score of the second class from which models answer it.
    """
    stored = tuple(
        StoredFeature(
            name, 3, fingerprint(columns(name, own)), False, StoredColumns(own, {})
        )
        for name, own in GROUPS.items()
    )
    rows, fresh = draw_rows(600, 0), draw_rows(1500, 1)
    codes = label_rows(rows, classes)
    models: list[Any] = [Prior.fit(codes)]
    evaluators: list[Any] = [None]
    for width in (3, 6):
        if classes == 2:
            fitted = RandomForestClassifier(40, max_depth=5, random_state=0)
        else:
            fitted = GradientBoostingClassifier(n_estimators=20, random_state=0)
        own = compile(fitted.fit(rows[:, :width], codes)).classifier
        ensemble = as_ensemble(
            replace(own, head=replace(own.head, threshold=threshold))
        )
        order = np.arange(ensemble.size)  # to search for one takes long, interpreted
        exits = ensemble.fit_early_exit(fresh[:, :width], alpha=ALPHA, order=order)
        models.append(ensemble.classifier)
        evaluators.append(exits)
    costs = CostTable(
        feature_coefficients=np.full((2, 1), 1e-5),
        step_coefficients=np.empty((0, 1)),
        needs=[(), ()],
        overhead=np.array([2e-5]),
    )
    model_s = np.array([MODEL_S] * 3)
    package = Package(
        kind="record",
        labels=LABELS[classes],
        features=stored,
        costs=costs,
        masks=np.array(MASKS, np.uint64),
        orders=((), (0,), (0, 1)),
        fallbacks=((0,), (0, 1), (0, 1, 2)),
        models=tuple(models),
        model_s=model_s,
        overhead_s=2e-5,
        meta={
            "unit": "s",
            "samples": [record_of(row) for row in rows[:3]],
            "exits": {"alpha": ALPHA, "fitted": 1500, "calibrated": 0, "plans": []},
        },
        early_exits=tuple(evaluators),
        whole_s=np.array([MODEL_S, WHOLE_S, WHOLE_S]),
        mean_s=np.array([MODEL_S, MEAN_S, MEAN_S]),
        ends=((1.0,), (0.0, 1.0), (0.0, 0.0, 1.0)),
    )
    coefficients = costs.of_many(package.masks)
    coefficients[1:, 0] += MODEL_S
    return Index.from_candidates(coefficients, ACCURACIES, (1, 1), package)


# Base models of each rung of the last row, the quality that it lacks, and its seconds
RUNGS = {2: [(24, 0.05, 4e-5)], 3: [(5, 0.15, 3e-5), (10, 0.05, 6e-5)]}


@functools.cache
def make_ladder_index(classes: int = 2, threshold: float | None = None) -> Index:
    """Make the same index, with a ladder for the last row: further rows from 3 on."""
    index = make_index(classes, threshold)
    package = index.package
    assert package is not None
    exits = package.early_exits[2]
    assert exits is not None
    rungs = [
        Rung(2, ModelPart(exits, count), lost, lost, seconds, seconds)
        for count, lost, seconds in RUNGS[classes]
    ]
    package, qualities = add_rungs(package, index.qualities, rungs)
    curves = cost_curves(package.costs, package.masks, package.model_s)
    return Index.from_candidates(curves, qualities, (1, 1), package)
