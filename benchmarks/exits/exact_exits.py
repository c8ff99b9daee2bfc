"""What exits from bounds save, which are exact: decisions, and scores in a tolerance.

Trained on training rows, asked on test rows. The regressor has the labels 0 and 1 as
numbers.
"""

from typing import Any

import numpy as np
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from polydom.features.threads import one_thread
from polydom.models import Regressor, compile
from polydom.models.early_exit.exact_schedule import exact_schedule
from polydom.models.lattices.estimator import LatticeEnsembleClassifier

from ..data.tables import Codes, Rows, Split
from ..models.boosting import BINARY, TREES, boost
from .two_class_exits import train

TOLERANCES = (0.001, 0.003, 0.01, 0.03, 0.1)


def decisions(X: Rows, y: Codes, test: Rows, quick: bool) -> list[dict[str, Any]]:
    """Count the trees that decisions take where bounds end them."""
    trees, stumps, lattices = (20, 20, 5) if quick else (TREES, 300, 100)
    forest = RandomForestClassifier(stumps, max_depth=8, random_state=0)
    stump = DecisionTreeClassifier(max_depth=1)
    made = {
        "LightGBM, depth 5": train(X, y, trees),
        "AdaBoost, stumps": compile(
            AdaBoostClassifier(stump, n_estimators=stumps, random_state=0).fit(X, y)
        ),
        "random forest, depth 8": compile(forest.fit(X, y)),
        "lattices of 4 inputs": compile(
            LatticeEnsembleClassifier(
                lattices, 4, training="joint", random_state=0
            ).fit(X, y)
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


def exact(rows: Split, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Both tables."""
    X, y, test, _ = rows
    options = BINARY | {"objective": "regression", "num_threads": 1}
    with one_thread():
        regressor = boost(X, y, 20 if quick else TREES, **options)[1]
        return {
            "exits that change nothing": decisions(X, y, test, quick),
            "trees left for scores within a tolerance": tolerances(regressor, test),
        }
