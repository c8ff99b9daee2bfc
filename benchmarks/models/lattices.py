"""What does a row of lattices cost, how many do exits spare, what do they promise?

python -m benchmarks lattices                      all parts
python -m benchmarks lattices --parts rows         one of them
python -m benchmarks lattices --tensorflow PYTHON  TensorFlow beside ours

Rows: random lattices over 30 columns, pinned to one core; of every contender's means in
short rounds, taken in turn, the least. The early exit follows limits that stop after a
quarter on average. TensorFlow Lattice takes part where an interpreter that has it is
named: a process on the same core is given the same numbers, has to answer alike, and
times its round when it is told to.

Exits: the shape of QWYC's experiments 3 to 6. Ensembles of 5 and of 500 lattices,
jointly and independently trained, on a problem with few positives and on a balanced
one; only negative exits (filter and score), and both. Schedules are fitted on the
training rows, `polydom` as in `qwyc` also on a copy with columns swapped; for each
method the cheapest of its `ALPHAS` that changes at most `LIMIT` of the *test* rows is
shown, for every method alike.

Promises: accuracy on Adult beside trees, and how many pairs of rows fall that differ in
one column which should only rise, with constraints and without.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.threads import one_thread
from polydom.models import compile
from polydom.models.early_exit.fitting_rows import swap_columns
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.qwyc.fit_schedule import Method, Sides, fit_schedule

from .. import report
from ..data.bundled import load_tumours
from ..data.tables import Rows, Split, load_adult, load_higgs, load_rare
from ..exits.fan import fit_fan
from .boosting import DEPTH, RATE, TREES
from .lattice_rows import time_models


class Part(NamedTuple):
    """The title of a part's table, and the data sets that it reads."""

    title: str
    sets: tuple[str, ...]


PARTS = {
    "rows": Part("one row", ()),
    "exits": Part("mean lattices at equal change", ("covtype20k", "higgs")),
    "promises": Part("pairs that fall where they should not", ("adult",)),
}
LIMIT = 0.005
ALPHAS = (0.0, 0.001, 0.003)
SIZES, QUICK_SIZES = ((5, 8), (500, 4)), ((5, 4),)  # lattices, and inputs of each
SETS: dict[str, Callable[[Path], Split]] = {
    "covtype20k, class 3": load_rare,
    "higgs": load_higgs,
}
# Columns of Adult whose rise should not make a high income less likely.
RISING = {4: "education", 10: "capital gain", 12: "hours"}
ROWS = 4000  # test rows, each with two values of each of them


def exits(name: str, rows: Split, size: int, inputs: int) -> list[dict[str, Any]]:
    """Mean lattices of each method, for so many lattices of so many inputs."""
    X, y, Xt, yt = rows
    found = []
    for training in ("joint", "independent"):
        start = time.perf_counter()
        learner = lattices(size, inputs, training=training, epochs=5)
        ensemble = compile(learner.fit(X, y))
        fit_s = time.perf_counter() - start
        scores, more, fresh = (
            ensemble.base_scores(part) for part in (X, swap_columns(X, copies=1), Xt)
        )
        found.append(
            {
                "set": name,
                "lattices": size,
                "inputs": inputs,
                "training": training,
                "positive": float(y.mean()),
                "fit_s": fit_s,
                "accuracy": float(np.mean(ensemble.predict(Xt) == yt)),
                **methods(scores, more, fresh, ensemble.threshold),
            }
        )
    return found


def methods(
    scores: NDArray[np.float64],
    more: NDArray[np.float64],
    fresh: NDArray[np.float64],
    threshold: float,
) -> dict[str, float | None]:
    """Fewest mean lattices of each method within `LIMIT`."""
    full = fresh.sum(axis=1) >= threshold
    sides: tuple[Sides, ...] = ("negative", "both")
    names: dict[Method, NDArray[np.float64]] = {"qwyc": scores, "polydom": more}
    ways: dict[str, Callable[[float], Any]] = {
        f"{name}, {side}": partial(
            fit_schedule, rows, threshold, method=name, sides=side
        )
        for side in sides
        for name, rows in names.items()
    }
    ways["fan, both"] = partial(fit_fan, scores, threshold)
    least: dict[str, float | None] = {}
    for name, way in ways.items():
        points = [way(alpha).evaluate(fresh) for alpha in ALPHAS]
        within = [u.mean() for d, u in points if np.mean(d != full) <= LIMIT]
        least[name] = float(min(within)) if within else None
    return least


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
        n_jobs=1,
        verbosity=-1,
        **settings,
    )


def learners(quick: bool) -> dict[str, Any]:
    """Lattices, and others beside them; "rising" ones are told to be monotonic."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rising = {"monotonic": dict.fromkeys(RISING, 1)}
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    if quick:
        few = lattices(5, 2, epochs=2, **rising)
        return {"5 lattices of 2, rising": few, "logistic regression": linear}
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
        "logistic regression": linear,
    }


def promises(rows: Split, quick: bool) -> list[dict[str, Any]]:
    """Accuracy on test rows, and the share of pairs that fall."""
    from sklearn.metrics import roc_auc_score

    X, y, Xt, yt = rows
    pairs = draw_pairs(X, Xt[:ROWS])
    found = []
    for name, learner in learners(quick).items():
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


def time_rows(tensorflow: str | None, quick: bool) -> list[dict[str, Any]]:
    """One row of each model, on one core; a child process is on the same."""
    report.pin()
    timed = time_models(tensorflow, quick)
    report.unpin()
    return timed


def measure(args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """All parts' tables, by title."""
    found: dict[str, list[dict[str, Any]]] = {}
    if "rows" in args.parts:
        found[PARTS["rows"].title] = time_rows(args.tensorflow, args.quick)
    if "exits" in args.parts:
        sets = {"tumours": lambda _: load_tumours()} if args.quick else SETS
        sizes = QUICK_SIZES if args.quick else SIZES
        found[PARTS["exits"].title] = [
            row
            for name, load in sets.items()
            for size in sizes
            for row in exits(name, load(args.data_folder), *size)
        ]
    if "promises" in args.parts:
        rows = load_tumours() if args.quick else load_adult(args.data_folder)
        found[PARTS["promises"].title] = promises(rows, args.quick)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tensorflow", help="interpreter that has TensorFlow Lattice")
    args = parser.parse_args(arguments)
    if not args.quick:
        report.need(args, *(name for part in args.parts for name in PARTS[part].sets))
    with one_thread():
        found = measure(args)
    report.tell(found, args)


if __name__ == "__main__":
    main()
