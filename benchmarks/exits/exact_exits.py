"""What exits from bounds save, which are exact: decisions, and scores in a tolerance.

Adult: trained on its training rows, asked on its test rows. The regressor has the
labels 0 and 1 as numbers.
"""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from polydom.models import Regressor, compile
from polydom.models.early_exit.remaining_scores import exact_schedule
from polydom.models.lattices.estimator import LatticeEnsembleClassifier

from ..data.tables import Codes, Rows, load_adult
from ..models.boosting import BINARY, boost
from .binary_exits import train

TOLERANCES = (0.001, 0.003, 0.01, 0.03, 0.1)


def decisions(X: Rows, y: Codes, test: Rows) -> list[dict[str, Any]]:
    """Count the trees that decisions take where bounds end them."""
    stump = DecisionTreeClassifier(max_depth=1)
    made = {
        "LightGBM, 500 of depth 5": train(X, y),
        "AdaBoost, 300 stumps": compile(
            AdaBoostClassifier(stump, n_estimators=300, random_state=0).fit(X, y)
        ),
        "random forest, 300 of depth 8": compile(
            RandomForestClassifier(300, max_depth=8, random_state=0).fit(X, y)
        ),
        "lattices, 100 of 4 inputs": compile(
            LatticeEnsembleClassifier(100, 4, training="joint", random_state=0).fit(
                X, y
            )
        ),
    }
    table = []
    for name, ensemble in made.items():
        exits = ensemble.early_exit(exact_schedule(ensemble))
        chosen, used = exits.choices(test)
        changed = int((ensemble.classes[chosen] != ensemble.predict(test)).sum())
        of = ensemble.size
        table.append(
            {"name": name, "mean": float(used.mean()), "of": of, "changed": changed}
        )
    return table


def tolerances(regressor: Regressor, test: Rows) -> list[dict[str, Any]]:
    """Trees left, and the largest error, for each tolerance."""
    whole = regressor.decision_function(test)
    table = []
    for tolerance in TOLERANCES:
        less = regressor.within(tolerance)
        gap = np.abs(less.decision_function(test) - whole).max()
        table.append({"tolerance": tolerance, "trees": less.size, "error": float(gap)})
    return table


def exact(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Both tables."""
    X, y, test, _ = load_adult(folder)
    regressor = boost(X, y, **BINARY | {"objective": "regression"})[1]
    return {
        "decisions": decisions(X, y, test),
        "scores within": tolerances(regressor, test),
    }
