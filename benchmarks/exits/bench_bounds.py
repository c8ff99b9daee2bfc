"""What exits from bounds save, which are exact: decisions, and scores in a tolerance.

python -m benchmarks.exits.bench_bounds DATA          prints two tables
python -m benchmarks.exits.bench_bounds DATA --json   one JSON object, for the record

DATA holds adult: trained on its training rows, asked on its test rows. The regressor
has the labels 0 and 1 as numbers.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from polydom.models import Regressor, compile
from polydom.models.early_exit.remaining_scores import exact_schedule
from polydom.models.lattices.estimator import LatticeEnsembleClassifier

from .bench_qwyc import DEPTH, RATE, TREES, Rows, load_adult, train

TOLERANCES = (0.001, 0.003, 0.01, 0.03, 0.1)


def regress(X: Rows, y: NDArray[np.int64]) -> Regressor:
    """Train a regressor of the shape of the classifier, and compile its file."""
    import lightgbm

    options: dict[str, Any] = {"objective": "regression", "max_depth": DEPTH}
    options |= {"num_leaves": 2**DEPTH, "learning_rate": RATE, "verbose": -1}
    booster = lightgbm.train(options, lightgbm.Dataset(X, y), TREES)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.txt"
        booster.save_model(path)
        made: Regressor = compile(path)
        return made


def decisions(X: Rows, y: NDArray[np.int64], test: Rows) -> list[dict[str, Any]]:
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
        table.append({"name": name, "mean": used.mean(), "of": of, "changed": changed})
    return table


def tolerances(regressor: Regressor, test: Rows) -> list[dict[str, float]]:
    """Trees left, and the largest error, for each tolerance."""
    whole = regressor.decision_function(test)
    table = []
    for tolerance in TOLERANCES:
        less = regressor.within(tolerance)
        gap = np.abs(less.decision_function(test) - whole).max()
        table.append({"tolerance": tolerance, "trees": less.size, "error": float(gap)})
    return table


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    X, y, test, _ = load_adult(arguments.folder)
    regressor = regress(X, y)
    found = {
        "decisions": decisions(X, y, test),
        "tolerances": tolerances(regressor, test),
    }
    if arguments.json:
        print(json.dumps(found))
        return
    for line in found["decisions"]:
        print("{name:32} {mean:6.1f} of {of}, {changed} changed".format(**line))
    for line in found["tolerances"]:
        print("within {tolerance:g}: {trees} trees, off by {error:.3g}".format(**line))


if __name__ == "__main__":
    main()
