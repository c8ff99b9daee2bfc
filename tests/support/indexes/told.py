"""A small index that says all of itself that a build says, and stops early both ways.

Its plans may answer after some features; the model of its last candidate, a forest of
six trees, follows a schedule.
"""

import functools
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from polydom.indexer.index.index import Index
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.qwyc.promise import Promise
from polydom.models.qwyc.schedule import Schedule
from polydom.models.scoring.classifier import Classifier
from tests.support.indexes import zoo

TREES = 6
ALPHA, CONFIDENCE = 0.05, 0.9


def curve(name: str) -> dict[str, Any]:
    """What a build says of a feature's costs."""
    return {
        "name": name,
        "coefficients": [1e-4, 2e-6],
        "covered": 0.99,
        "measured": {"sizes": [[1.0, 900.0]], "seconds": [1e-4, 2e-3]},
        "points": [[1.0, 1e-4, 1e-4, 1.02e-4], [900.0, 2e-3, 2e-3, 1.9e-3]],
    }


def facts_of(rows: int) -> dict[str, Any]:
    """What a build says of so many candidates, but of their exits."""
    return {
        "curves": [curve(f"g{k}") for k in range(3)],
        "measured": {
            "busy": True,
            "lost": 0.1,
            "others": 0.5,
            "processors": 2,
            "machines": [{"processor": "a", "cores": 2, "day": "2026-11-25"}],
        },
        "weights": {"s": 1.0},
        "learner": {"name": "forest"},
        "selection": {
            "strategy": "daub",
            "learner": "forest",
            "score": 0.9,
            "seconds": 1.0,
            "full_s": 9.0,
            "curves": {"forest": [[50, 0.8, 0.5], [100, 0.9, 0.5]]},
        },
        "items": 200,
        "inputs": {
            "items": 150,
            "columns": [
                {"feature": "g0", "column": 1, "shares": [0.1, 0.4, 0.5], "edges": [3]},
                {"feature": "g1", "shares": [0, 0.75, 0.25, 0], "values": [0, 2]},
            ],
            "labels": {"shares": [0, 0.5, 0.5, 0], "values": [0, 1]},
        },
        "tested": 50,
        "skipped": [["row 7", "it has no label"]],
        "testing": {"budgets": [1e-3, 1e-2], "folds": None, "trainings": None},
        "search": {
            "method": "progressive",
            "sets": 8,
            "expanded": 7,
            "alpha": 1.05,
            "tolerance": 0.0,
            "complete": False,
            "violations": {"count": 1, "pairs": 9, "largest": 0.1, "p95": 0.1},
        },
        "remarks": {"it did not converge": 1},
        "observed": [0.5] * rows,
        "found": [{"items": 9.0, "recall": {"share": 0.5, "low": 0.2, "high": 0.8}}],
        "refitted": [True] * rows,
    }


@functools.cache
def make_index() -> Index:
    """Make the index above."""
    forest = zoo.estimator(lambda: RandomForestClassifier(TREES, max_depth=2))
    index = zoo.with_exits(zoo.make_record_index(forest, 2))
    package = index.package
    assert package is not None
    model = package.models[-1]
    assert isinstance(model, Classifier)
    last = as_ensemble(model)
    limits = np.array([0.1] * (TREES - 1) + [np.inf])
    schedule = Schedule(
        np.arange(TREES),
        last.threshold - TREES * limits,
        last.threshold + TREES * limits,
        last.threshold,
        Promise((ALPHA / 2,) * 2, CONFIDENCE, (100, 100), (1, 0)),
    )
    count = len(package.models)
    plans = [dict(plan) for plan in package.meta["exits"]["plans"]]
    times = {"mean_us": 5.0, "p99_us": 10.0, "whole_us": 20.0}
    plans[-1]["schedule"] = {"base_models": TREES, "mean": 0.5, "p99": 1.0, **times}
    exits = {"alpha": ALPHA, "confidence": CONFIDENCE, "fitted": 9, "calibrated": 100}
    ends = tuple(
        (*np.eye(len(own))[1][:-1] * plan["early"], 1 - plan["early"])
        if plan["early"]
        else tuple(np.eye(len(own))[-1])
        for own, plan in zip(package.fallbacks, plans, strict=True)
    )
    whole_s, mean_s = package.model_s.copy(), package.model_s.copy()
    whole_s[-1], mean_s[-1] = 2 * zoo.MODEL_S, zoo.MODEL_S / 2
    more = replace(
        package,
        meta=package.meta | facts_of(count) | {"exits": {**exits, "plans": plans}},
        early_exits=(*[None] * (count - 1), last.early_exit(schedule)),
        whole_s=whole_s,
        mean_s=mean_s,
        ends=ends,
    )
    return replace(index, package=more)
