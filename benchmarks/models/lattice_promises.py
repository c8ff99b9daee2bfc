"""Lattices on Adult: how accurate they are, and whether monotonic means monotonic."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models.lattices.estimator import LatticeEnsembleClassifier

from ..data.tables import Rows, load_adult
from .boosting import DEPTH, RATE, TREES

# Columns of Adult whose rise should not make a high income less likely.
RISING = {4: "education", 10: "capital gain", 12: "hours"}
ROWS = 4000  # test rows, each with two values of each of them


def lattices(count: int, inputs: int, **settings: Any) -> Any:
    """So many lattices over so many inputs each."""
    return LatticeEnsembleClassifier(count, inputs, random_state=0, **settings)


def trees(**settings: Any) -> Any:
    """LightGBM as in the other benchmarks of early exits."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=TREES,
        max_depth=DEPTH,
        num_leaves=2**DEPTH,
        learning_rate=RATE,
        n_jobs=2,
        verbosity=-1,
        **settings,
    )


def learners() -> dict[str, Any]:
    """Lattices, and others beside them; "rising" ones are told to be monotonic."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rising = {"monotonic": dict.fromkeys(RISING, 1)}
    constraints = {"monotone_constraints": [int(j in RISING) for j in range(14)]}
    return {
        "50 lattices of 4": lattices(50, 4),
        "50 lattices of 4, rising": lattices(50, 4, **rising),
        "50 of 4, simplex": lattices(50, 4, interpolation="simplex"),
        "50 of 4, simplex, rising": lattices(50, 4, interpolation="simplex", **rising),
        "50 of 4, independent": lattices(50, 4, training="independent"),
        "50 of 8, simplex": lattices(50, 8, interpolation="simplex"),
        "200 lattices of 4": lattices(200, 4),
        f"LightGBM, {TREES} trees": trees(),
        f"LightGBM, {TREES} trees, rising": trees(**constraints),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    }


def promises(folder: Path) -> list[dict[str, Any]]:
    """Accuracy on Adult's test rows, and the share of pairs that fall."""
    from sklearn.metrics import roc_auc_score

    X, y, Xt, yt = load_adult(folder)
    pairs = draw_pairs(X, Xt[:ROWS])
    found = []
    for name, learner in learners().items():
        start = time.perf_counter()
        learner.fit(X, y)
        fit_s = time.perf_counter() - start
        low, high = (score(learner, part) for part in pairs)
        found.append(
            {
                "learner": name,
                "accuracy": float(np.mean(learner.predict(Xt) == yt)),
                "auc": float(roc_auc_score(yt, score(learner, Xt))),
                "falling": float(np.mean(high < low)),
                "worst": float(np.max(low - high)),
                "fit_s": fit_s,
            }
        )
    return found


def score(learner: Any, X: Rows) -> NDArray[np.float64]:
    """Log odds of a high income: (N,)."""
    if hasattr(learner, "decision_function"):
        values: NDArray[np.float64] = learner.decision_function(X)
        return values
    return np.asarray(learner.predict_proba(X, raw_score=True), np.float64)


def draw_pairs(X: Rows, rows: Rows) -> tuple[Rows, Rows]:
    """Rows with a lower and a higher value of one column, all else the same.

    The values are drawn from the column's different ones in the training rows `X`, so
    that rare ones come as often as frequent ones.
    """
    draw = np.random.default_rng(0)
    lows, highs = [], []
    for column in RISING:
        values = np.unique(X[:, column])
        first = draw.integers(len(values) - 1, size=len(rows))
        second = draw.integers(first + 1, len(values))
        low, high = rows.copy(), rows.copy()
        low[:, column], high[:, column] = values[first], values[second]
        lows.append(low)
        highs.append(high)
    return np.concatenate(lows), np.concatenate(highs)
